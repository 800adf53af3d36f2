"""The numpy models against independent implementations of the same formulas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from agent.conversation import Turn
from agent.policies.local import level1
from agent.policies.local.addressee import Listener
from agent.policies.local.heads import Given, Head, Part, gaussian
from agent.policies.local.level1 import Level1
from agent.policies.local.running import Running
from agent.policies.local.sequence import (
    WINDOW,
    Memory,
    SequenceModel,
    relation,
    row_inputs,
)
from agent.policies.local.store import Weights, WeightsError, load, save
from agent.policies.local.text import SURFACE, masked, mentions, surface
from agent.train import sequence as training
from agent.train.kernels import KernelRecipe, fit_kernels
from agent.train.net import FACTS, WIDTH, Net, Recipe
from agent.train.second import fit_linear


def test_kernel_ridge_equals_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    rows = {"a": draw.standard_normal((40, 5))}
    labels = draw.integers(0, 3, 40)
    recipe = KernelRecipe(((("a",), 1.0),), ridge=2.0, sharpness=0.5)
    ours = fit_kernels(recipe, rows, labels, 3, np.zeros(40, dtype=np.int64))[0]
    seen = ours.views["a"](rows["a"])
    points = ours.terms[0].points
    one_hot = np.eye(3)[labels]
    theirs = KernelRidge(alpha=2.0, kernel="precomputed").fit(
        gaussian(points, points), one_hot - one_hot.mean(0)
    )
    wanted = theirs.predict(gaussian(seen, points)) + one_hot.mean(0)
    scores = ours.similarity({"a": seen}) @ ours.coefficients + ours.prior
    assert scores == pytest.approx(wanted, abs=1e-6)
    assert ours.proba(rows).sum(1) == pytest.approx(np.ones(40))


def test_linear_head_learns_a_line() -> None:
    draw = np.random.default_rng(1)
    x = draw.standard_normal((300, 4))
    gold = (x[:, 1] > 0).astype(np.int64)
    model = fit_linear({"x": x}, ("x",), gold, 1.0)
    assert (model.proba({"x": x}).argmax(1) == gold).mean() > 0.95


def test_shares_over_candidates_sum_to_one_and_temperature_keeps_the_order() -> None:
    rows = {"sequence": np.array([[0.4, 0.6], [0.9, 0.1], [0.7, 0.3]])}
    head = Head(("rest", "target"), (Part(Given(), 1.0),), 1.0, np.zeros(2))
    soft = replace(head, temperature=2.0)
    assert head.shares(rows).sum() == pytest.approx(1)
    assert np.argsort(head.shares(rows)).tolist() == np.argsort(soft.shares(rows)).tolist()
    assert soft.shares(rows).max() < head.shares(rows).max()


def talk(n: int = 24) -> list[Turn]:
    names = ("Ada", "Therapist", "Bo")
    draw = np.random.default_rng(3)
    out = []
    for i in range(1, n + 1):
        speaker = names[int(draw.integers(0, 3))]
        to = [x for x in (*names, "Couple") if x != speaker][int(draw.integers(0, 3))]
        out.append(
            Turn(
                id=i,
                speaker=speaker,
                text=f"word {i}?",
                addressees=(to,),
                start=3.0 * i,
                end=3.0 * i + 2,
            )
        )
    return out


def test_numpy_transformer_equals_torch() -> None:
    torch.manual_seed(5)
    recipe = Recipe(runs=1)
    net = Net(recipe, 384).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            # halves are stored exactly
            parameter.copy_((parameter + 0.05 * torch.randn_like(parameter)).half().float())
    mean, scale = np.zeros(len(SURFACE)), np.ones(len(SURFACE))
    halves = training.exported(net)
    ours = SequenceModel({n: w[None].astype(np.float32) for n, w in halves.items()}, mean, scale)
    draw = np.random.default_rng(4)
    running, memory, records, facts = Running("couple"), Memory(), [], []
    rows, hidden = [], []
    for turn in talk():
        vector = draw.standard_normal(384)
        vector /= np.linalg.norm(vector)
        label = turn.addressees[0]
        records.append(
            running.observe(turn, label, surface(turn.text), vector, np.zeros(level1.WIDTH))
        )
        ours.step(memory, running.records, "couple")
        assert memory.hidden is not None
        hidden.append(memory.hidden[0])
        before = records[-2] if len(records) > 1 else None
        counts = np.clip(records[-1].counts, -3, 3) * 0.5
        rows.append(np.concatenate([row_inputs(records[-1], before, "couple"), counts]))
    related = np.full((1, len(records), WINDOW), -1)
    for i, now in enumerate(records):
        for back in range(min(i + 1, WINDOW)):
            related[0, i, back] = relation(now, records[i - back], "couple")
    vectors = np.array([r.vector for r in records], np.float32)[None] * 8
    with torch.no_grad():
        wanted = net(
            torch.from_numpy(vectors),
            torch.from_numpy(np.array(rows, np.float32)[None]),
            torch.from_numpy(related),
        )
        assert np.array(hidden) == pytest.approx(wanted[0].numpy(), abs=2e-4)
        facts = draw.standard_normal((2, FACTS)).astype(np.float32)
        own = torch.stack([wanted[0, running.people["Ada"].last], torch.zeros(WIDTH)])
        scores = net.candidate(wanted[0, -1].expand(2, -1), own, torch.from_numpy(facts))
    found = ours.candidates(memory, ["Ada", "Couple"], facts.astype(np.float64))
    assert found[0] == pytest.approx(scores.numpy(), abs=2e-4)


def test_weights_survive_the_disk(tmp_path: Path) -> None:
    shipped = load()
    digest = save(shipped, tmp_path)
    again = load(tmp_path)
    assert digest == again.digest == shipped.digest
    assert set(again.heads) == set(shipped.heads)


def test_weights_of_another_format_are_refused(tmp_path: Path) -> None:
    save(load(), tmp_path)
    about = tmp_path / "local.json"
    about.write_text(about.read_text("utf-8").replace('"format": 3', '"format": 1'), "utf-8")
    with pytest.raises(WeightsError, match="format 1"):
        load(tmp_path)
    about.unlink()
    with pytest.raises(WeightsError, match=r"agent\.train"):
        load(tmp_path)


def test_shipped_weights_are_small_and_hold_no_pickle() -> None:
    folder = Path(str(__import__("agent.weights").weights.__path__[0]))
    assert sum(f.stat().st_size for f in folder.iterdir() if f.is_file()) < 10e6
    with np.load(folder / "local.npz", allow_pickle=False) as data:
        assert all(data[name].dtype.kind in "fiu" for name in data.files)


def test_names_and_gender_are_masked() -> None:
    first = masked("Mia, he said his wife hates O'Hara's boat. Mia's right.", ("Mia", "O'Hara"))
    second = masked(
        "O'Hara, she said her husband hates Mia's boat. O'Hara's right.", ("Mia", "O'Hara")
    )
    assert first == second
    assert "Mia" not in first
    assert not mentions("Miami is warm", "Mia")
    assert surface("").shape == (len(SURFACE),)


def listener(weight: float) -> Listener:
    from agent.policies.local.addressee import PARTICIPANT_FEATURES, SUPPORT_FEATURES

    participant, support = np.zeros(PARTICIPANT_FEATURES + 1), np.zeros(SUPPORT_FEATURES + 1)
    participant[3], support[5] = weight, weight
    return Listener(participant, support)


def test_a_name_called_is_the_listener() -> None:
    running = Running("family")
    running.meet(("Ana", "Bo", "Cem"))
    counts, outputs = surface("Cem, say it"), np.zeros(level1.WIDTH)
    for speaker in ("Ana", "Therapist"):
        turn = Turn(id=1, speaker=speaker, text="Cem, say it")
        assert listener(1.0).infer(running, turn, counts, outputs) == "Cem"


def test_level1_outputs_are_linear() -> None:
    heads = Level1(np.ones((384 + len(SURFACE) + 1, level1.WIDTH)), np.zeros(23), np.ones(23), {})
    out = heads.outputs(np.zeros(384), np.zeros(23))
    assert out == pytest.approx(np.full(level1.WIDTH, 0.3))


def test_weights_type_is_complete() -> None:
    assert set(Weights.__dataclass_fields__) >= {"level1", "listener", "sequence", "heads"}

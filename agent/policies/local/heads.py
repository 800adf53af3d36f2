"""Decision heads in numpy: weighted means of small models, with a temperature on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agent.policies.local.features import Blocks

Array = NDArray[np.float64]


class Model(Protocol):
    """Turns feature rows into log-probabilities."""

    def log_proba(self, rows: Array) -> Array:
        """Return log-probabilities, shape (n, classes)."""


def log_softmax(scores: Array) -> Array:
    """Return row-wise log-softmax."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class Linear:
    """Multinomial logistic regression on clipped, standardised features.

    Attributes:
        mean: shape (features,).
        scale: shape (features,).
        weights: shape (features, classes).
        bias: shape (classes,).
    """

    mean: Array
    scale: Array
    weights: Array
    bias: Array

    def log_proba(self, rows: Array) -> Array:
        """Return log-probabilities, shape (n, classes)."""
        rows = np.clip((rows - self.mean) / self.scale, -4.0, 4.0)
        return log_softmax(rows @ self.weights + self.bias)


@dataclass(frozen=True)
class Forest:
    """Decision trees whose leaf values are added up; a softmax follows when they are boosted.

    Attributes:
        feature: feature tested at a node, shape (trees, nodes); -1 at a leaf.
        threshold: go left when the feature is at most this, shape (trees, nodes).
        left: left child, shape (trees, nodes); the right one follows ``right``.
        right: right child, shape (trees, nodes).
        values: shape (trees, nodes, classes).
        base: added to the sum, shape (classes,).
        depth: of the deepest tree.
        boosted: whether the sum is a score (else it is a mean of probabilities).
    """

    feature: NDArray[np.int16]
    threshold: Array
    left: NDArray[np.int16]
    right: NDArray[np.int16]
    values: NDArray[np.float32]
    base: Array
    depth: int
    boosted: bool

    def log_proba(self, rows: Array) -> Array:
        """Return log-probabilities, shape (n, classes)."""
        trees = np.arange(len(self.feature))
        out = np.empty((len(rows), self.values.shape[2]))
        for i, row in enumerate(rows):
            node = np.zeros(len(trees), dtype=np.int64)
            for _ in range(self.depth):
                feature = self.feature[trees, node]
                goes_left = row[feature] <= self.threshold[trees, node]
                step = np.where(goes_left, self.left[trees, node], self.right[trees, node])
                node = np.where(feature < 0, node, step)
            out[i] = self.values[trees, node].sum(axis=0, dtype=np.float64)
        if self.boosted:
            return log_softmax(out + self.base)
        return np.log(np.clip(out / len(trees), 1e-4, None))


@dataclass(frozen=True)
class Part:
    """One model of a head with the blocks it reads and its weight."""

    model: Model
    blocks: tuple[str, ...]
    weight: float


@dataclass(frozen=True)
class Head:
    """A decision: weighted mean of its parts' log-probabilities, divided by a temperature.

    Attributes:
        labels: what the classes stand for.
        parts: the models.
        temperature: fitted out-of-fold, so that probabilities are calibrated.
        offset: added to the scores before the softmax, shape (classes,).
    """

    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    temperature: float
    offset: Array

    def raw(self, rows: Mapping[str, Array]) -> Array:
        """Return uncalibrated scores for blocks of shape (n, width); shape (n, classes)."""
        total = sum(p.weight for p in self.parts)
        out: Array = np.zeros((len(next(iter(rows.values()))), len(self.labels)))
        for part in self.parts:
            inputs = np.hstack([rows[name] for name in part.blocks])
            out = out + part.weight / total * part.model.log_proba(inputs)
        return out

    def proba(self, rows: Mapping[str, Array]) -> Array:
        """Return calibrated probabilities, shape (n, classes)."""
        return np.exp(log_softmax(self.raw(rows) / self.temperature + self.offset))


def stack(blocks: Sequence[Blocks], names: Sequence[str] | None = None) -> dict[str, Array]:
    """Turn blocks of several decision points into matrices."""
    keys = blocks[0].keys() if names is None else names
    return {name: np.array([b[name] for b in blocks]) for name in keys}

"""Decision heads in numpy: weighted means of small models, calibrated by a temperature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.policies.local.features import Blocks

Array = NDArray[np.float64]
Rows = Mapping[str, Array]
"""Blocks of several decision points, each of shape (n, width)."""

_LEAST: Final = 0.01
"""Least probability of a class: regression scores may be negative."""


class Model(Protocol):
    """Turns feature rows into probabilities."""

    def proba(self, rows: Rows) -> Array:
        """Return probabilities, shape (n, classes)."""


def log_softmax(scores: Array) -> Array:
    """Return row-wise log-softmax."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class Linear:
    """Multinomial logistic regression on clipped, standardised blocks.

    Attributes:
        blocks: read side by side.
        mean: shape (features,).
        scale: shape (features,).
        weights: shape (features, classes).
        bias: shape (classes,).
    """

    blocks: tuple[str, ...]
    mean: Array
    scale: Array
    weights: Array
    bias: Array

    def proba(self, rows: Rows) -> Array:
        """Return probabilities, shape (n, classes)."""
        x = np.hstack([rows[name] for name in self.blocks])
        x = np.clip((x - self.mean) / self.scale, -4.0, 4.0)
        return np.exp(log_softmax(x @ self.weights + self.bias))


@dataclass(frozen=True)
class View:
    """How a block enters a kernel: standardised, clipped, turned onto its main axes.

    Attributes:
        mean: shape (width,).
        scale: shape (width,).
        axes: shape (width, kept), already divided by the block's typical distance.
    """

    mean: Array
    scale: Array
    axes: Array

    def __call__(self, block: Array) -> Array:
        """Return the block's coordinates, shape (n, kept)."""
        return np.asarray(np.clip((block - self.mean) / self.scale, -3.0, 3.0) @ self.axes)


@dataclass(frozen=True)
class Term:
    """One Gaussian kernel over one or several blocks (several: their product).

    Attributes:
        blocks: read side by side.
        weight: of the term in the sum.
        points: the fitted decision points' coordinates, shape (points, width).
        width: factor on the coordinates of the blocks.
    """

    blocks: tuple[str, ...]
    weight: float
    points: Array
    width: float = 1.0

    @cached_property
    def _single(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        # half of the time of a decision goes here: single precision halves it
        points = self.points.astype(np.float32)
        return np.ascontiguousarray(points.T), (points * points).sum(1)

    def similarity(self, seen: Rows) -> NDArray[np.float32]:
        """Return the weighted kernel with the points, shape (n, points)."""
        points, squares = self._single
        here = np.hstack([seen[b] for b in self.blocks]) * self.width
        x = here.astype(np.float32)
        out = x @ points
        out *= 2
        out -= squares
        out -= (x * x).sum(1)[:, None]
        np.minimum(out, 0, out=out)
        np.exp(out, out=out)
        out *= np.float32(self.weight)
        return out


@dataclass(frozen=True)
class Kernel:
    """Kernel ridge regression on one-hot labels over a sum of Gaussian kernels.

    Attributes:
        views: block -> how it is read.
        terms: the kernel's summands.
        coefficients: shape (points, classes).
        prior: added to the scores, shape (classes,).
    """

    views: Mapping[str, View]
    terms: tuple[Term, ...]
    coefficients: Array
    prior: Array

    def proba(self, rows: Rows) -> Array:
        """Return probabilities: scores cut off at a least value and normalised."""
        seen = {name: view(rows[name]) for name, view in self.views.items()}
        scores = self.similarity(seen) @ self.coefficients + self.prior
        kept = np.clip(scores, _LEAST, None)
        return np.asarray(kept / kept.sum(axis=1, keepdims=True))

    def similarity(self, seen: Rows) -> Array:
        """Return the kernel between coordinates and the points, shape (n, points)."""
        first, *rest = self.terms
        total = first.similarity(seen)
        for term in rest:
            total += term.similarity(seen)
        return total.astype(np.float64)


def gaussian(a: Array, b: Array) -> Array:
    """Return exp(-squared distance), shape (len(a), len(b))."""
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T
    return np.asarray(np.exp(-np.maximum(squares, 0.0)))


@dataclass(frozen=True)
class Given:
    """Passes on the probabilities of the turn transformer."""

    block: str = "sequence"

    def proba(self, rows: Rows) -> Array:
        """Return the block."""
        return rows[self.block]


@dataclass(frozen=True)
class Part:
    """One model of a head and its weight."""

    model: Model
    weight: float


@dataclass(frozen=True)
class Head:
    """A decision: weighted mean of its parts' probabilities, sharpened or flattened.

    Attributes:
        labels: what the classes stand for.
        parts: the models.
        temperature: divides log-probabilities; fitted out-of-fold.
        offset: added to them, shape (classes,).
    """

    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    temperature: float
    offset: Array

    def mixed(self, rows: Rows) -> Array:
        """Return the parts' mean probabilities, shape (n, classes)."""
        total = sum(part.weight for part in self.parts)
        shares = [part.weight / total * part.model.proba(rows) for part in self.parts]
        return np.asarray(np.sum(shares, axis=0))

    def proba(self, rows: Rows) -> Array:
        """Return calibrated probabilities, shape (n, classes)."""
        logs = np.log(np.clip(self.mixed(rows), 1e-6, None))
        return np.exp(log_softmax(logs / self.temperature + self.offset))

    def shares(self, rows: Rows) -> Array:
        """Return calibrated probabilities over the rows (candidates of one point), shape (n,)."""
        total = sum(part.weight for part in self.parts)
        mean: Array = np.zeros(len(next(iter(rows.values()))))
        for part in self.parts:
            yes = part.model.proba(rows)[:, 1]
            mean = mean + part.weight / total * yes / yes.sum()
        logs = np.log(np.clip(mean, 1e-6, None))[None] / self.temperature
        return np.asarray(np.exp(log_softmax(logs))[0])


def stack(blocks: Sequence[Blocks]) -> dict[str, Array]:
    """Turn blocks of several decision points into matrices."""
    return {name: np.array([b[name] for b in blocks]) for name in blocks[0]}

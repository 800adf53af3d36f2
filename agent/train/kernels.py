"""Fits kernel ridge heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.policies.local.heads import Kernel, Rows, Term, View, gaussian

Array = NDArray[np.float64]

KEPT_AXES: Final = 64
"""Main axes kept of a wide block: as good as all of them, and no sentence can be read back."""
_PROBED: Final = 300
"""Points among which the typical distance is measured."""


@dataclass(frozen=True)
class KernelRecipe:
    """A sum of Gaussian kernels.

    Attributes:
        terms: blocks (a product when there are several) and the weight of each.
        ridge: penalty.
        sharpness: of the Gaussians, relative to the typical distance.
        across: factor on the kernel between points of different scenarios.
    """

    terms: tuple[tuple[tuple[str, ...], float], ...]
    ridge: float
    sharpness: float
    across: float = 0.0

    def blocks(self) -> tuple[str, ...]:
        """All blocks that are read."""
        return tuple(dict.fromkeys(b for blocks, _ in self.terms for b in blocks))

    def without(self, names: Sequence[str]) -> KernelRecipe:
        """Return the recipe with blocks left out."""
        kept = (
            (tuple(b for b in blocks if b not in names), weight) for blocks, weight in self.terms
        )
        merged: dict[tuple[str, ...], float] = {}
        for blocks, weight in kept:
            if blocks:
                merged[blocks] = merged.get(blocks, 0.0) + weight
        return replace(self, terms=tuple(merged.items()))


def _view(block: Array, sharpness: float) -> View:
    binary_or_count = block.shape[1] <= KEPT_AXES
    lengths = np.sqrt((block * block).sum(1))
    if not binary_or_count and np.allclose(lengths[lengths > 1e-9], 1.0, atol=1e-3):
        # unit vectors are left as they are: their lengths already agree
        mean, scale = np.zeros(block.shape[1]), np.ones(block.shape[1])
    else:
        mean, scale = block.mean(0), block.std(0) + 1e-3
    seen = np.clip((block - mean) / scale, -3.0, 3.0)
    axes = np.eye(block.shape[1])
    if block.shape[1] > KEPT_AXES:
        centred = seen - seen.mean(0)
        axes = _main_axes(centred)
    probe = (seen @ axes)[:_PROBED]
    squares = (probe * probe).sum(1)
    distances = squares[:, None] + squares[None] - 2 * probe @ probe.T
    apart = distances[distances > 1e-6]
    typical = float(np.median(apart)) if apart.size else 1.0
    return View(mean, scale, axes * np.sqrt(sharpness / typical))


def _main_axes(centred: Array) -> Array:
    axes = np.linalg.svd(centred, full_matrices=False)[2][:KEPT_AXES]
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])
    return np.asarray((axes * signs[:, None]).T)


def _terms(recipe: KernelRecipe, views: Mapping[str, View], rows: Rows) -> tuple[Term, ...]:
    out = []
    for blocks, weight in recipe.terms:
        # a product of kernels is made as wide as a single one
        width = 1 / np.sqrt(np.sqrt(len(blocks)))
        points = np.hstack([views[b](rows[b]) for b in blocks]) * width
        out.append(Term(blocks, weight, points.astype(np.float16).astype(np.float64), float(width)))
    return tuple(out)


def fit_kernels(
    recipe: KernelRecipe,
    rows: Rows,
    labels: NDArray[np.int64],
    n_classes: int,
    scenario: NDArray[np.int64],
) -> dict[int, Kernel]:
    """Fit one kernel ridge over the points of one or two scenarios.

    Args:
        recipe: the kernel.
        rows: blocks of all points.
        labels: class of each point.
        n_classes: number of classes, shared by the scenarios.
        scenario: of each point, 0 or 1.

    Returns:
        scenario -> a model over all classes for points of that scenario.
    """
    views = {name: _view(rows[name], recipe.sharpness) for name in recipe.blocks()}
    terms = _terms(recipe, views, rows)
    kernel: Array = np.zeros((len(labels), len(labels)))
    for term in terms:
        kernel += term.weight * gaussian(term.points, term.points)
    kernel *= np.where(scenario[:, None] == scenario[None], 1.0, recipe.across)
    wanted = np.zeros((len(labels), n_classes))
    wanted[np.arange(len(labels)), labels] = 1.0
    prior = {s: wanted[scenario == s].mean(0) for s in sorted(set(scenario.tolist()))}
    centred = wanted - np.array([prior[s] for s in scenario.tolist()])
    solved = np.linalg.solve(kernel + recipe.ridge * np.eye(len(labels)), centred)
    return {
        s: Kernel(
            views,
            terms,
            solved * np.where(scenario == s, 1.0, recipe.across)[:, None],
            prior[s],
        )
        for s in prior
    }


def columns(kernel: Kernel, kept: Sequence[int]) -> Kernel:
    """Return the kernel with some classes only, in the given order, idle points left out."""
    coefficients = kernel.coefficients[:, list(kept)]
    used = np.abs(kernel.coefficients).sum(1) > 0
    terms = tuple(replace(t, points=t.points[used]) for t in kernel.terms)
    return Kernel(kernel.views, terms, coefficients[used], kernel.prior[list(kept)])

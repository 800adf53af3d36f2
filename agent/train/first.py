"""Fits level 1: ridge regressions, fold by fold.

Their sums are additive over folds, so leaving one out costs one small solve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.policies.local import level1
from agent.policies.local.level1 import AXES, HEADS, Level1, level1_inputs
from agent.train.corpus import FEELINGS, Corpus, Target, level1_targets

Array = NDArray[np.float64]

_PENALTY: Final[Mapping[str, float]] = {
    "utterance": 2,
    "move": 2,
    "pattern_couple": 5,
    "pattern_family": 5,
    "next_move": 5,
}
_PENALTY_ELSE: Final = 3.0
_AXIS_SCALE: Final = 4.0


@dataclass(frozen=True)
class _Sums:
    gram: Array
    cross: Array


@dataclass(frozen=True)
class FirstLevel:
    """Level 1 of a corpus: final heads, and outputs that never saw the row's own fold.

    Attributes:
        heads: fitted on everything.
        held_out: shape (rows, WIDTH), each fold's rows by heads fitted on the other folds.
    """

    heads: Level1
    held_out: Array


def fold_groups(sizes: Mapping[str, int], families: frozenset[str], n: int) -> dict[str, int]:
    """Spread groups over folds, largest first, families apart from couples.

    Args:
        sizes: group -> number of rows.
        families: the groups that are families.
        n: number of folds.
    """
    folds: dict[str, int] = {}
    for family in (True, False):
        load = [0] * n if family else _loads(folds, sizes, n)
        for group in sorted(sizes, key=lambda g: (-sizes[g], g)):
            if (group in families) is family:
                folds[group] = min(range(n), key=lambda k: (load[k], k))
                load[folds[group]] += sizes[group]
    return folds


def _loads(folds: Mapping[str, int], sizes: Mapping[str, int], n: int) -> list[int]:
    load = [0] * n
    for group, k in folds.items():
        load[k] += sizes[group]
    return load


def corpus_folds(corpus: Corpus, n: int) -> dict[str, int]:
    """Return group -> fold for a corpus."""
    sizes = dict.fromkeys(corpus.groups, 0)
    for session in corpus.sessions:
        sizes[session.group] += len(session.turns)
    families = frozenset(s.group for s in corpus.sessions if s.scenario == "family")
    return fold_groups(sizes, families, n)


def fit_first(corpus: Corpus, n_folds: int) -> FirstLevel:
    """Fit every level-1 head on a corpus and predict it fold by fold."""
    vectors = np.vstack([s.vectors for s in corpus.sessions])
    counts = np.vstack([s.counts for s in corpus.sessions])
    mean, scale = counts.mean(0), counts.std(0) + 1e-6
    inputs = level1_inputs(vectors, counts, mean, scale)
    folds = corpus_folds(corpus, n_folds)
    fold = np.concatenate([np.full(len(s.turns), folds[s.group]) for s in corpus.sessions])
    targets = _on_axes(corpus, level1_targets(corpus))
    weights = np.zeros((inputs.shape[1], level1.WIDTH))
    held_out = np.zeros((len(inputs), level1.WIDTH))
    for name, _ in HEADS:
        target, place = targets[name], level1.SLICES[name]
        sums = [_sums(inputs[fold == k], target, fold == k) for k in range(n_folds)]
        penalty = _PENALTY.get(name, _PENALTY_ELSE)
        weights[:, place] = _solve(sums, penalty)
        for k in range(n_folds):
            rest = _solve([s for j, s in enumerate(sums) if j != k], penalty)
            held_out[fold == k, place] = inputs[fold == k] @ rest
    feelings = dict(zip(FEELINGS, _feeling_places(corpus), strict=True))
    lean = _stretch(held_out[:, level1.SLICES["warmth"]], targets["warmth"])
    return FirstLevel(Level1(weights, mean, scale, feelings, lean), held_out)


def _stretch(outputs: Array, target: Target) -> tuple[float, float]:
    """Return slope and offset that give outputs the targets' mean and spread.

    A ridge shrinks its answers towards the mean; a picture of who stands how towards whom needs
    the spread back. The targets' 90th percentile becomes 1.
    """
    made, gold = outputs[target.known][:, 0], target.values[target.known][:, 0]
    wide = max(float(np.quantile(np.abs(gold), 0.9)), 1e-6)
    slope = float(gold.std() / max(float(made.std()), 1e-6))
    return slope / wide, float(gold.mean() - slope * made.mean()) / wide


def _sums(inputs: Array, target: Target, rows: NDArray[np.bool_]) -> _Sums:
    known = target.known[rows]
    x, y = inputs[known], target.values[rows][known]
    return _Sums(x.T @ x, x.T @ y)


def _solve(sums: Sequence[_Sums], penalty: float) -> Array:
    gram = np.sum([s.gram for s in sums], axis=0)
    cross = np.sum([s.cross for s in sums], axis=0)
    return np.asarray(np.linalg.solve(gram + penalty * np.eye(len(gram)), cross))


def _axes(vectors: Array) -> tuple[Array, Array]:
    """Return mean and principal axes, signs fixed by each axis's largest entry."""
    mean = vectors.mean(0)
    axes = np.linalg.svd(vectors - mean, full_matrices=False)[2][:AXES]
    signs = np.sign(axes[np.arange(AXES), np.abs(axes).argmax(1)])
    return mean, (axes * signs[:, None]).T * _AXIS_SCALE


def _on_axes(corpus: Corpus, targets: dict[str, Target]) -> dict[str, Target]:
    out = dict(targets)
    for name in ("emotion", "attitude"):
        target = targets[name]
        mean, axes = _axes(target.values[target.known])
        out[name] = Target((target.values - mean) @ axes, target.known)
    return out


def _feeling_places(corpus: Corpus) -> Array:
    target = level1_targets(corpus)["emotion"]
    mean, axes = _axes(target.values[target.known])
    return np.asarray((corpus.anchors["feelings"] - mean) @ axes)

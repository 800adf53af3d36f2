"""Temperatures: how far probabilities may be trusted, measured out-of-fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.policies.local.heads import Head, log_softmax
from agent.train.second import Key, Table

Array = NDArray[np.float64]

_TEMPERATURES: Final = np.exp(np.linspace(np.log(0.3), np.log(3.0), 93))


def by_head(name: str, data: Mapping[Key, Table]) -> tuple[Table, ...]:
    """Return the tables a head decides about."""
    task = {"pattern": "rpp", "strategy": "ssp", "timing": "itp", "target": "stp"}
    kind, _, scenario = name.partition("/")
    return tuple(table for (t, s), table in data.items() if t == task[kind] and scenario in ("", s))


def log_scores(head: Head, table: Table) -> tuple[Array, NDArray[np.int64]]:
    """Return log mean probabilities and gold classes, one row per decision point.

    For candidate rows (STP) the classes are the point's candidates, filled up with -inf; points
    whose gold was not present are left out.
    """
    if len(table.points) == len(table.gold) and not any(table.candidates):
        return np.log(np.clip(head.mixed(table.blocks), 1e-6, None)), table.gold
    flat = replace(head, temperature=1.0)
    scores, gold = [], []
    most = int(np.bincount(table.point).max())
    for k in range(len(table.points)):
        rows = np.flatnonzero(table.point == k)
        if not table.gold[rows].any():
            continue
        shares = flat.shares({n: b[rows] for n, b in table.blocks.items()})
        scores.append(np.pad(np.log(shares), (0, most - len(rows)), constant_values=-1e9))
        gold.append(int(table.gold[rows].argmax()))
    return np.array(scores), np.array(gold)


def best_temperature(scores: Sequence[Array], gold: Sequence[NDArray[np.int64]]) -> float:
    """Return the temperature with the least log-loss over held-out scores."""

    def loss(t: float) -> float:
        total = 0.0
        for s, y in zip(scores, gold, strict=True):
            total -= float(log_softmax(s / t)[np.arange(len(y)), y].sum())
        return total

    losses = [loss(float(t)) for t in _TEMPERATURES]
    return float(_TEMPERATURES[int(np.argmin(losses))])


def calibrated(
    heads: Mapping[str, Head], held_out: Sequence[tuple[Mapping[str, Head], Mapping[Key, Table]]]
) -> dict[str, Head]:
    """Return the heads with temperatures.

    Args:
        heads: fitted on everything.
        held_out: per fold, heads fitted without it and its tables.
    """
    out = {}
    for name, head in heads.items():
        found = [
            log_scores(others[name], table)
            for others, data in held_out
            if name in others
            for table in by_head(name, data)
        ]
        found = [(s, y) for s, y in found if len(y)]
        if not found:
            out[name] = head
            continue
        temperature = best_temperature([s for s, _ in found], [y for _, y in found])
        out[name] = replace(head, temperature=temperature)
    return out

"""Prediction records as the sums the statistics work on, one table per variant and task."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.labels import Scenario
from eval.instances import Task
from eval.metrics import OK, RankingPrediction, label_class, target_class
from eval.runner import Record
from eval.scoring import ReadingScores, itp_prediction, ranking_prediction
from eval.stats import Cluster, Figure, Floats, Units


def units_of(task: Task, records: Sequence[Record], readings: ReadingScores | None = None) -> Units:
    """Return the table of one variant's records of one task (each unit once)."""
    if task == "itp":
        return _itp(records)
    if task in ("er", "vp"):
        given = [(readings or {}).get((r.variant, r.repeat, r.unit), {}) for r in records]
        names = dict.fromkeys(name for scores in given for name in scores)
        return mean_units(records, {n: [scores.get(n) for scores in given] for n in names})
    return _ranking(task, records)


def clusters_of(records: Sequence[Record]) -> tuple[Cluster, ...]:
    """Return whose unit each record is."""
    return tuple(Cluster(r.scenario, r.group) for r in records)


def mean_units(records: Sequence[Record], values: Mapping[str, Sequence[float | None]]) -> Units:
    """Return a table of plain means.

    Args:
        records: one per unit.
        values: figure -> a value per unit; None leaves the unit out of that figure.
    """
    columns: list[Floats] = []
    figures: dict[str, Figure] = {}
    for place, (name, given) in enumerate(values.items()):
        known = np.asarray([v is not None for v in given], dtype=np.float64)
        columns += [np.asarray([v or 0.0 for v in given], dtype=np.float64), known]
        figures[name] = _ratio(2 * place, 2 * place + 1)
    table = np.stack(columns, 1) if columns else np.zeros((len(records), 0))
    return Units(tuple(r.unit for r in records), clusters_of(records), table, figures)


def _itp(records: Sequence[Record]) -> Units:
    made = [itp_prediction(r) for r in records]
    gold = np.asarray([p.gold for p in made], dtype=bool)
    right = np.asarray([p.right for p in made], dtype=bool)
    table = np.stack([gold & right, ~gold & ~right, gold & ~right, ~gold & right], 1)
    figures: dict[str, Figure] = {
        "f1_yes": lambda s: _over(2 * s[..., 0], 2 * s[..., 0] + s[..., 1] + s[..., 2]),
        "precision_yes": lambda s: _over(s[..., 0], s[..., 0] + s[..., 1]),
        "recall_yes": lambda s: _over(s[..., 0], s[..., 0] + s[..., 2]),
        "accuracy": lambda s: _over(s[..., 0] + s[..., 3], s.sum(-1)),
        "balanced_accuracy": _balanced,
    }
    pairs = None
    if all(p.status != OK or p.probability is not None for p in made):
        worst = {True: -1.0, False: 2.0}
        score = [
            worst[p.gold] if p.status != OK or p.probability is None else p.probability
            for p in made
        ]
        pairs = (gold, np.asarray(score, dtype=np.float64))
    return Units(
        tuple(r.unit for r in records),
        clusters_of(records),
        table.astype(np.float64),
        figures,
        right,
        pairs,
    )


def _ranking(task: Task, records: Sequence[Record]) -> Units:
    made = [ranking_prediction(r) for r in records]
    rank = np.asarray([p.rank for p in made])
    reciprocal = np.where(rank > 0, 1 / np.maximum(rank, 1), 0.0)
    hits = [(rank >= 1) & (rank <= k) for k in (1, 2, 3)]
    ones = np.ones(len(made))
    by_class, classes = _classes(made, target_class if task == "stp" else label_class)
    table = np.concatenate(
        [np.stack([*hits, reciprocal, ones], 1).astype(np.float64), by_class], axis=1
    )
    figures: dict[str, Figure] = {f"recall_at_{k}": _ratio(k - 1, 4) for k in (1, 2, 3)}
    figures["mrr"] = _ratio(3, 4)
    figures["macro_f1"] = lambda s: _macro(s[..., 5:], classes)
    ids = tuple(r.unit for r in records)
    return Units(ids, clusters_of(records), table, figures, rank == 1)


def _classes(
    made: Sequence[RankingPrediction], class_of: Callable[[Scenario, str], Hashable]
) -> tuple[Floats, int]:
    """Return hit, miss and false alarm per class and unit, shape (units, 3 * classes)."""
    golds = [class_of(p.scenario, p.gold) for p in made]
    place = {name: i for i, name in enumerate(dict.fromkeys(golds))}
    n = len(place)
    table = np.zeros((len(made), 3 * n))
    for row, (prediction, gold) in enumerate(zip(made, golds, strict=True)):
        first = prediction.ranking[0] if prediction.ranking else ""
        if prediction.rank == 1:
            table[row, place[gold]] += 1
            continue
        table[row, n + place[gold]] += 1
        answered = class_of(prediction.scenario, first)
        if prediction.status == OK and first and answered in place:
            table[row, 2 * n + place[answered]] += 1
    return table, n


def _macro(sums: Floats, n: int) -> Floats:
    hit, miss, alarm = sums[..., :n], sums[..., n : 2 * n], sums[..., 2 * n : 3 * n]
    present = (hit + miss) > 0
    f1 = np.where(present, 2 * hit / np.maximum(2 * hit + miss + alarm, 1), 0.0)
    return _over(f1.sum(-1), present.sum(-1).astype(np.float64))


def _balanced(sums: Floats) -> Floats:
    tp, fp, fn, tn = (sums[..., i] for i in range(4))
    yes, no = tp + fn, fp + tn
    parts = _over(tp, yes) * (yes > 0) + _over(tn, no) * (no > 0)
    return _over(parts, (yes > 0).astype(np.float64) + (no > 0))


def _ratio(part: int, whole: int) -> Figure:
    def figure(sums: Floats) -> Floats:
        out = np.full(sums.shape[:-1], np.nan)
        np.divide(sums[..., part], sums[..., whole], out=out, where=sums[..., whole] > 0)
        return out

    return figure


def _over(part: Any, whole: Any) -> NDArray[np.float64]:
    """Divide; a zero denominator gives 0, as in the official scripts."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    out: NDArray[np.float64] = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return out

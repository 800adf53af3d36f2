"""Turns prediction records into the metrics of every variant, task and scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from eval.instances import DECISION_TASKS, Task
from eval.metrics import (
    OK,
    ItpPrediction,
    Outcome,
    RankingPrediction,
    Scoped,
    itp_metrics,
    outcome,
    ranking_metrics,
    target_class,
)
from eval.runner import Record

Metrics: TypeAlias = dict[str, dict[str, Any]]
"""variant -> task -> scope (all, couple, family) -> metric -> value."""

HEADLINE = {"itp": "f1_yes", "rpp": "recall_at_1", "stp": "recall_at_1", "ssp": "recall_at_1"}
"""The metric that stands for a task in the table (the paper's choice)."""


def score(records: Iterable[Record]) -> Metrics:
    """Return the metrics of each variant and decision task.

    Failures count as wrong; ``errors_excluded`` under each task holds the figures without them,
    and ``outcome`` the numbers planned, scored and failed.
    """
    grouped: dict[str, dict[Task, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        grouped[record.variant][record.task].append(record)
    return {
        variant: {task: _task(task, by_task[task]) for task in DECISION_TASKS if task in by_task}
        for variant, by_task in grouped.items()
    }


def task_metrics(task: Task, records: Sequence[Record]) -> Scoped:
    """Return the figures of one task's records under ``all``, ``couple`` and ``family``."""
    if task == "itp":
        return itp_metrics(itp_prediction(r) for r in records)
    class_of = target_class if task == "stp" else None
    return ranking_metrics((ranking_prediction(r) for r in records), class_of)


def itp_prediction(record: Record) -> ItpPrediction:
    """Return an ITP record in the form the metrics take."""
    answer = record.ranking[0] == "yes" if record.ranking else None
    return ItpPrediction(
        scenario=record.scenario,
        gold=record.gold == "yes",
        answer=answer,
        probability=record.probabilities.get("yes"),
        status=record.status,
    )


def ranking_prediction(record: Record) -> RankingPrediction:
    """Return an RPP, STP or SSP record in the form the metrics take."""
    return RankingPrediction(
        scenario=record.scenario,
        gold=record.gold,
        ranking=tuple(record.ranking),
        status=record.status,
    )


def outcomes(records: Iterable[Record]) -> dict[str, Outcome]:
    """Return how many instances of each variant were planned, scored and failed."""
    by_variant: dict[str, list[RankingPrediction]] = defaultdict(list)
    for r in records:
        by_variant[r.variant].append(RankingPrediction(r.scenario, "", status=r.status))
    return {variant: outcome(items) for variant, items in by_variant.items()}


def _task(task: Task, records: Sequence[Record]) -> dict[str, Any]:
    figures: dict[str, Any] = {str(k): v for k, v in task_metrics(task, records).items()}
    kept = [r for r in records if r.status == OK]
    counted = outcome(RankingPrediction(r.scenario, "", status=r.status) for r in records)
    figures["outcome"] = {
        "planned": counted.planned,
        "scored": counted.scored,
        "errors": counted.errors,
        "by_status": counted.by_status,
    }
    if len(kept) != len(records):
        figures["errors_excluded"] = task_metrics(task, kept)
    return figures

"""Turns prediction records into the metrics of every variant, task and scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from agent.labels import Scenario
from eval.instances import TASKS, Task
from eval.metrics import (
    OK,
    SCOPES,
    Figures,
    ItpPrediction,
    Outcome,
    RankingPrediction,
    Scoped,
    itp_metrics,
    outcome,
    ranking_metrics,
    target_class,
)
from eval.runner import Protocol, Record

Metrics: TypeAlias = dict[str, dict[str, Any]]
"""variant -> task -> scope (all, couple, family) -> metric -> value."""

ReadingScores: TypeAlias = Mapping[tuple[str, int, str], Mapping[str, float | None]]
"""(variant, repeat, unit) of an ER or VP record -> score name -> value, None for no score."""

HEADLINE: Final[Mapping[Task, str]] = {
    "itp": "f1_yes",
    "rpp": "recall_at_1",
    "stp": "recall_at_1",
    "ssp": "recall_at_1",
    "er": "score",
    "vp": "score",
}
"""The metric that stands for a task in the table and in comparisons (the paper's choice)."""


def score(
    records: Iterable[Record],
    *,
    protocol: Protocol = "paper",
    rpp_unlabelled: Mapping[Scenario, int] | None = None,
    readings: ReadingScores | None = None,
) -> Metrics:
    """Return the metrics of each variant and task, over the first repeat.

    Failures count as wrong; ``errors_excluded`` under each task holds the figures without them,
    and ``outcome`` the numbers planned, scored and failed. Beside the scopes stand

    * ITP: ``supported_yes``: the same, where only a therapist row with a support strategy is a
      yes (back-channels are not);
    * RPP: ``as_published``: unlabelled therapist rows counted as wrong, as the paper's
      percentages do;
    * STP: ``candidates_differ``: instances whose official candidates need future rows;
    * STP and SSP under the live protocol: ``asked_anyway``: the figures without the rule that
      silence at the moment of support is a miss.

    Args:
        records: any number of variants.
        protocol: which reading of the tasks the records follow.
        rpp_unlabelled: therapist rows annotated without a pattern, by scenario.
        readings: scores of ER and VP answers.
    """
    grouped: dict[str, dict[Task, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.repeat == 0:
            grouped[record.variant][record.task].append(record)
    return {
        variant: {
            task: _task(task, by_task[task], protocol, rpp_unlabelled or {}, readings or {})
            for task in TASKS
            if task in by_task
        }
        for variant, by_task in grouped.items()
    }


def task_metrics(
    task: Task, records: Sequence[Record], readings: ReadingScores | None = None
) -> Scoped:
    """Return the figures of one task's records under ``all``, ``couple`` and ``family``."""
    if task == "itp":
        return itp_metrics(itp_prediction(r) for r in records)
    if task in ("er", "vp"):
        return _reading_metrics(records, readings or {})
    class_of = target_class if task == "stp" else None
    return ranking_metrics((ranking_prediction(r) for r in records), class_of)


def as_scored(records: Iterable[Record], protocol: Protocol) -> list[Record]:
    """Return the records as they are scored.

    Under the live protocol a policy with its own timing has given no support where it would
    have stayed silent: its ranking for that row is empty.
    """
    if protocol == "paper":
        return list(records)
    return [
        r.model_copy(update={"ranking": []}) if r.silent and r.task in ("stp", "ssp") else r
        for r in records
    ]


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


def outcome_of(records: Iterable[Record]) -> Outcome:
    """Return how many of the records were planned, scored and failed."""
    return outcome(RankingPrediction(r.scenario, "", status=r.status) for r in records)


def outcomes(records: Iterable[Record]) -> dict[str, Outcome]:
    """Return how many instances of each variant were planned, scored and failed."""
    by_variant: dict[str, list[Record]] = defaultdict(list)
    for r in records:
        by_variant[r.variant].append(r)
    return {variant: outcome_of(items) for variant, items in by_variant.items()}


def _task(
    task: Task,
    records: Sequence[Record],
    protocol: Protocol,
    rpp_unlabelled: Mapping[Scenario, int],
    readings: ReadingScores,
) -> dict[str, Any]:
    scored = as_scored(records, protocol)
    figures: dict[str, Any] = {str(k): v for k, v in task_metrics(task, scored, readings).items()}
    counted = outcome_of(records)
    figures["outcome"] = {
        "planned": counted.planned,
        "scored": counted.scored,
        "errors": counted.errors,
        "by_status": counted.by_status,
    }
    kept = [r for r in scored if r.status == OK]
    if len(kept) != len(records):
        figures["errors_excluded"] = task_metrics(task, kept, readings)
    if task == "itp" and protocol == "paper":
        figures["supported_yes"] = task_metrics(task, [_supported(r) for r in records])
    if task == "rpp":
        figures["as_published"] = _as_published(figures, rpp_unlabelled)
    if task == "stp":
        figures["candidates_differ"] = sum(bool(r.candidates_differ) for r in records)
    if task in ("stp", "ssp") and protocol == "live":
        figures["asked_anyway"] = task_metrics(task, records)
    return figures


def _supported(record: Record) -> Record:
    return record.model_copy(update={"gold": "yes" if record.supported else "no"})


def _as_published(figures: Mapping[str, Any], rpp_unlabelled: Mapping[Scenario, int]) -> Scoped:
    """Return RPP's accuracy with unlabelled therapist rows counted as wrong.

    Source: the paper's RPP percentages fit 2,605 = all annotated therapist rows.
    """
    found: Scoped = {}
    for scope in SCOPES:
        n, accuracy = figures[scope]["n"], figures[scope]["recall_at_1"]
        extra = sum(v for s, v in rpp_unlabelled.items() if scope in ("all", s))
        right = n * accuracy if n else 0.0
        found[scope] = {"accuracy": right / (n + extra) if n + extra else None, "n": n + extra}
    return found


def _reading_metrics(records: Sequence[Record], readings: ReadingScores) -> Scoped:
    scoped: Scoped = {}
    for scope in SCOPES:
        here = [r for r in records if scope in ("all", r.scenario)]
        given = [readings.get((r.variant, r.repeat, r.unit), {}) for r in here]
        figures: Figures = {}
        for name in dict.fromkeys(name for scores in given for name in scores):
            known = [v for v in (scores.get(name) for scores in given) if v is not None]
            figures[name] = sum(known) / len(known) if known else None
            if len(known) != len(here):
                figures[f"n_{name}"] = len(known)
        scoped[scope] = figures | {"n": len(here)}
    return scoped

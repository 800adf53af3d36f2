"""Everything beside the plain metrics: intervals, comparisons, repeats, reference lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agent.labels import Scenario
from eval.instances import TASKS, Task
from eval.live import timing_figures
from eval.metrics import SCOPES
from eval.references import CHANCE, chance
from eval.runner import Protocol, Record
from eval.scoring import HEADLINE, ReadingScores, as_scored, outcomes, score, task_metrics
from eval.stats import (
    FEW_GROUPS,
    LEVEL,
    POWER,
    RESAMPLES,
    Difference,
    Units,
    all_intervals,
    difference,
    spread,
    with_holm,
)
from eval.units import units_of


def statistics(
    records: Sequence[Record],
    references: Sequence[Record] = (),
    *,
    protocol: Protocol = "paper",
    readings: ReadingScores | None = None,
    rpp_unlabelled: Mapping[Scenario, int] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Return the content of ``statistics.json``.

    Args:
        records: of all variants, in the order of the table.
        references: of the floors that did not run as variants.
        protocol: which reading of the tasks the records follow.
        readings: scores of ER and VP answers.
        rpp_unlabelled: therapist rows annotated without a pattern, by scenario.
        seed: of the resampling.
        resamples: their number.
    """
    scored = as_scored(records, protocol)
    tables = unit_tables(scored, readings)
    names = list(tables)
    lines = unit_tables(as_scored(references, protocol))
    found: dict[str, Any] = {
        "level": LEVEL,
        "power": POWER,
        "resamples": resamples,
        "seed": seed,
        "few_groups": FEW_GROUPS,
        "intervals": _intervals({**tables, **lines}, seed, resamples),
        "comparisons": compare_pairs(
            tables, [(names[0], other) for other in names[1:]], seed, resamples
        ),
        "outcome": {name: asdict(o) for name, o in outcomes(records).items()},
        "repeats": _repeats(scored, readings or {}),
        "reference": {
            CHANCE: chance([*records, *references]),
            **score(references, protocol=protocol, rpp_unlabelled=rpp_unlabelled),
        },
    }
    if protocol == "live":
        found["live"] = _live(records, references)
    return found


def unit_tables(
    records: Iterable[Record], readings: ReadingScores | None = None
) -> dict[str, dict[Task, Units]]:
    """Return variant -> task -> table of units, over the first repeat."""
    grouped: dict[str, dict[Task, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.repeat == 0:
            grouped[record.variant][record.task].append(record)
    return {
        variant: {task: units_of(task, tasks[task], readings) for task in TASKS if task in tasks}
        for variant, tasks in grouped.items()
    }


def compare_pairs(
    tables: Mapping[str, Mapping[Task, Units]],
    pairs: Iterable[tuple[str, str]],
    seed: int = 0,
    resamples: int = RESAMPLES,
    metrics: Mapping[Task, str] = HEADLINE,
) -> list[dict[str, Any]]:
    """Return the paired differences of each pair of variants, in each scope.

    Each is B minus A on the units both answered; the p-values of one pair and scope are
    corrected over its tasks (Holm).
    """
    found = []
    for a, b in pairs:
        shared = [task for task in tables[a] if task in tables[b]]
        for scope in SCOPES:
            made: dict[str, Difference] = {}
            for task in shared:
                one, two = tables[a][task].scope(scope), tables[b][task].scope(scope)
                result = difference(one, two, metrics[task], seed, resamples)
                if result is not None:
                    made[task] = result
            if made:
                tasks = {
                    task: {"metric": metrics[_task(task)], **asdict(d)}
                    for task, d in with_holm(made).items()
                }
                found.append({"a": a, "b": b, "scope": scope, "tasks": tasks})
    return found


def _task(name: str) -> Task:
    return next(task for task in TASKS if task == name)


def _intervals(
    tables: Mapping[str, Mapping[Task, Units]], seed: int, resamples: int
) -> dict[str, Any]:
    return {
        variant: {
            task: {
                scope: {name: asdict(interval) for name, interval in figures.items()}
                for scope, figures in all_intervals(units, seed, resamples).items()
            }
            for task, units in tasks.items()
        }
        for variant, tasks in tables.items()
    }


def _repeats(records: Sequence[Record], readings: ReadingScores) -> dict[str, Any]:
    """Return the spread of every headline figure over repeats, where there are several."""
    grouped: dict[tuple[str, Task], dict[int, list[Record]]] = defaultdict(dict)
    for r in records:
        grouped[r.variant, r.task].setdefault(r.repeat, []).append(r)
    found: dict[str, Any] = {}
    for (variant, task), by_repeat in grouped.items():
        if len(by_repeat) < 2:
            continue
        values = []
        for repeat in sorted(by_repeat):
            value = task_metrics(task, by_repeat[repeat], readings)["all"].get(HEADLINE[task])
            if value is not None:
                values.append(float(value))
        if values:
            entry = {"metric": HEADLINE[task], **spread(values)}
            found.setdefault(variant, {})[task] = entry
    return found


def _live(records: Sequence[Record], references: Sequence[Record]) -> dict[str, Any]:
    by_variant: dict[str, list[Record]] = defaultdict(list)
    for r in (*records, *references):
        if r.task == "itp" and r.repeat == 0:
            by_variant[r.variant].append(r)
    return {variant: timing_figures(items) for variant, items in by_variant.items()}

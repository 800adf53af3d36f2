"""Lines that always stand in the table: chance, always-yes, majority, last speaker, published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import fsum
from typing import Any, Final

from agent.conversation import Turn, participants_of
from agent.decision import Decision
from agent.labels import PATTERNS, STRATEGIES
from agent.policies.base import Policy, View
from agent.policies.floors import AlwaysYes, LastSpeaker, Majority
from agent.reading import Reading
from agent.rescue.annotations import scenario_of
from eval.instances import Task
from eval.metrics import SCOPES, TOP, Figures, Scoped
from eval.points import Point
from eval.runner import Record, Replayer, ReplayOptions

CHANCE: Final = "chance"


@cache
def published() -> dict[str, Any]:
    """Return the published results: ``source``, ``caveats`` and ``results``, one per model."""
    text = files("eval.data").joinpath("published_results.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


async def reference_records(
    samples: Sequence[Sequence[Point]], options: ReplayOptions, without: Iterable[str] = ()
) -> list[Record]:
    """Return the answers of the floors at every point, without a run of the graph.

    A floor reads only names and order, so it can be asked directly; the answers are those it
    gives as a variant.

    Args:
        samples: the points of each sample.
        options: how samples are shown.
        without: variants that run anyway.
    """
    records: list[Record] = []
    for policy in (AlwaysYes(), Majority(), LastSpeaker()):
        if policy.name not in without:
            replayer = Replayer(policy, options)
            for points in samples:
                turns = replayer.turns(points[-1])
                for point in points:
                    records += await _asked(policy, replayer, point, turns)
    return records


async def _asked(
    policy: Policy, replayer: Replayer, point: Point, turns: Sequence[Turn]
) -> list[Record]:
    scenario = scenario_of(point.sample)
    records: list[Record] = []
    for units, first in replayer.windows(point):
        seen = turns[first : point.visible]
        view = View(scenario, participants_of(seen), seen, (), None)
        nothing = Reading(turns=())
        spoken = await policy.time(view, nothing)
        pattern = await policy.pattern(view, nothing)
        ordered = sorted(pattern.items(), key=lambda kv: -kv[1])
        decision = Decision.model_validate(
            {
                "turn_id": seen[-1].id if seen else 0,
                "scenario": scenario,
                "intervene": spoken.probability >= policy.threshold,
                "probability": spoken.probability,
                "threshold": policy.threshold,
                "asked": True,
                "targets": (await policy.target(view, nothing)).items,
                "strategies": (await policy.strategy(view, nothing, view.group)).items,
                # no turn, no pattern: the graph does not ask for one either
                "pattern": [{"label": k, "score": v} for k, v in ordered] if seen else [],
                "policy": policy.name,
                "policy_version": policy.version,
            }
        )
        records += replayer.records(point, units, {"decision": decision, "readings": []})
    return records


def chance(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """Return what blind guessing is expected to reach on the instances of the records.

    ITP: a fair coin (F1 at the expected counts); rankings: all orders of the candidates equally
    likely; the candidates of STP are those of the decision point.
    """
    by_task: dict[Task, dict[str, Record]] = {}
    for record in records:
        by_task.setdefault(record.task, {}).setdefault(record.unit, record)
    found: dict[str, dict[str, Any]] = {}
    for task, by_unit in by_task.items():
        if task in ("er", "vp"):
            continue
        scoped: Scoped = {}
        for scope in SCOPES:
            here = [r for r in by_unit.values() if scope in ("all", r.scenario)]
            scoped[scope] = _coin(here) if task == "itp" else _any_order(here)
        found[task] = {str(k): v for k, v in scoped.items()}
    return found


def _coin(records: Sequence[Record]) -> Figures:
    n = len(records)
    if not n:
        return {"n": 0, "f1_yes": None}
    share = sum(r.gold == "yes" for r in records) / n
    return {
        "n": n,
        "f1_yes": 2 * share * 0.5 / (share + 0.5),
        "precision_yes": share,
        "recall_yes": 0.5,
        "accuracy": 0.5,
        "balanced_accuracy": 0.5,
        "auc": 0.5,
    }


def _any_order(records: Sequence[Record]) -> Figures:
    n = len(records)
    if not n:
        return {"n": 0, "recall_at_1": None, "mrr": None}
    figures: Figures = {"n": n}
    sizes = [_choices(r) for r in records]
    for k in range(1, TOP + 1):
        hits = (min(k, len(c)) / len(c) if r.gold in c else 0.0 for r, c in _pairs(records, sizes))
        figures[f"recall_at_{k}"] = fsum(hits) / n
    means = (
        fsum(1 / i for i in range(1, min(TOP, len(c)) + 1)) / len(c) if r.gold in c else 0.0
        for r, c in _pairs(records, sizes)
    )
    figures["mrr"] = fsum(means) / n
    return figures


def _pairs(
    records: Sequence[Record], sizes: Sequence[Sequence[str]]
) -> Iterator[tuple[Record, Sequence[str]]]:
    return zip(records, sizes, strict=True)


def _choices(record: Record) -> Sequence[str]:
    if record.task == "stp":
        return record.candidates or ()
    return (PATTERNS if record.task == "rpp" else STRATEGIES)[record.scenario]


def published_figure(result: Mapping[str, Any], task: str, metric: str) -> float | None:
    """Return a published figure on this project's scale (rates 0 to 1), or None.

    RPP stands under ``as_published`` only, since that is how it was counted.
    """
    names = {
        ("itp", "f1_yes"): "itp_f1",
        ("rpp", "as_published"): "rpp_accuracy",
        ("stp", "recall_at_1"): "stp_recall_at_1",
        ("stp", "mrr"): "stp_mrr",
        ("ssp", "recall_at_1"): "ssp_recall_at_1",
        ("ssp", "mrr"): "ssp_mrr",
    }
    if (task, metric) in names:
        return float(result[names[task, metric]]) / 100
    if metric == "score" and task in ("er", "vp"):
        return float(result[f"{task}_judge"])
    return None

"""Carries a plan out into a run folder, and scores what is in one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from agent.llm import CallRecord
from eval.counterbalance import SwappedReplayer
from eval.plan import Plan
from eval.points import Point, Unit, unit_id
from eval.references import reference_records
from eval.runner import Record, Replayer
from eval.scoring import ReadingScores, score
from eval.slices import FACTS, facts_of
from eval.statistics import statistics
from eval.stats import RESAMPLES
from eval.stopping import run_until_stopped
from eval.store import RunStore, read_lines, read_manifest, read_records, write_json, write_jsonl

METRICS: Final = "metrics.json"
STATISTICS: Final = "statistics.json"
REFERENCES: Final = "references.jsonl"

_HISTORY: Final = {"moves", "pattern_history"}
"""Parts of the state that earlier lines already tell."""

Progress = Callable[[str, int, int], None]
"""Told a variant's name, how many turns went through, and how many it has in all."""
Maker = type[Replayer]


async def carry_out(
    plan: Plan, store: RunStore, progress: Progress | None = None, replayer: Maker = Replayer
) -> None:
    """Run what is not done yet, and bring the predictions into the plan's order.

    Args:
        plan: the plan.
        store: the run folder.
        progress: told how far it is.
        replayer: how samples are shown, :class:`~eval.counterbalance.SwappedReplayer` for the
            second half of a counterbalanced run.

    Raises:
        ReplayError: naming sample and row, when something other than a policy fails.
        StoreError: when the folder cannot be written; finished samples are kept.
    """
    if replayer is Replayer:
        lines = [r.model_dump(mode="json", exclude_none=True) for r in await _lines(plan)]
        write_jsonl(store.folder / REFERENCES, lines)
        write_json(store.folder / FACTS, facts_of(plan.samples))
    waiting: dict[tuple[str, int], list[tuple[Point, ...]]] = defaultdict(list)
    done = store.done
    for batch, points, _ in plan.batches():
        if batch not in done:
            waiting[batch[0], batch[1]].append(points)
    for variant in plan.variants:
        for repeat in range(plan.choice.repeats):
            samples = waiting.get((variant.name, repeat))
            if samples:
                await _run(plan, store, variant.name, repeat, samples, progress, replayer)
    store.finish(plan.order())


async def _run(
    plan: Plan,
    store: RunStore,
    name: str,
    repeat: int,
    samples: Sequence[tuple[Point, ...]],
    progress: Progress | None,
    maker: Maker,
) -> None:
    variant = next(v for v in plan.variants if v.name == name)
    # what a policy remembers of one half must not shape the other: either may run alone, later
    held = repeat == 0 and maker is Replayer
    policy = plan.policies[name] if held else variant.make(plan.settings, repeat, plan.client)
    kept = _Keeper(name, repeat)
    replayer = maker(policy, plan.choice.options(repeat), variant.withhold_state, name, kept.point)
    kept.know(samples)
    log = plan.client.log if plan.client else None
    if log is not None:
        log.listeners.append(kept.call)
    total = sum(points[-1].visible for points in samples)
    if progress:
        progress(name, 0, total)
    # all samples, also the finished ones: vectors depend in their last digits on what is encoded
    # together, and a run that goes on must answer as one that was never interrupted
    await policy.prepare([replayer.turns(points[-1]) for points in plan.points])
    try:
        async for records in replayer.run(
            samples, (lambda n: progress(name, n, total)) if progress else None
        ):
            sample = records[0].sample_id
            store.add(records, kept.decisions.pop(sample, ()), kept.calls.pop(sample, ()))
    finally:
        if log is not None:
            log.listeners.remove(kept.call)
            # what was paid for is told, also when its sample was not finished
            for calls in kept.calls.values():
                store.add([], (), calls)


class _Keeper:
    """Collects decisions and calls until their sample is finished."""

    def __init__(self, variant: str, repeat: int) -> None:
        self._of = {"variant": variant, "repeat": repeat}
        self._samples: dict[str, tuple[str, int]] = {}
        self.decisions: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.calls: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def point(self, point: Point, units: Sequence[Unit], state: Mapping[str, Any]) -> None:
        """Take down one decision, the state it was made in, and the time it took."""
        sample = point.sample.sample_id
        decision = state["decision"]
        where = {**self._of, "sample_id": sample, "visible": point.visible}
        tasks = [u.task for u in units]
        self.decisions[sample].append(
            {
                **where,
                "tasks": tasks,
                "decision": decision.model_dump(mode="json", exclude={"timings"}),
                "state": state["relations"].model_dump(
                    mode="json", exclude_defaults=True, exclude=_HISTORY
                ),
            }
        )
        timings = {name: round(ms, 3) for name, ms in decision.timings.items()}
        self.calls[sample].append(
            {
                "kind": "decision",
                **where,
                "status": decision.status,
                "ms": round(sum(timings.values()), 3),
                "nodes": timings,
            }
        )

    def call(self, record: CallRecord) -> None:
        """Take down one call of a model."""
        sample, visible = self._samples.get(record.unit, ("", 0))
        where = {**self._of, "sample_id": sample, "visible": visible}
        self.calls[sample].append({"kind": "model", **where, **asdict(record)})

    def know(self, samples: Sequence[Sequence[Point]]) -> None:
        """Learn which sample a point's opaque id belongs to."""
        for points in samples:
            for p in points:
                place = unit_id(p.sample.sample_id, p.visible, "point")
                self._samples[place] = (p.sample.sample_id, p.visible)


def score_folder(
    folder: Path,
    readings: ReadingScores | None = None,
    labels: Mapping[str, str] | None = None,
    resamples: int = RESAMPLES,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score what a run folder holds and write ``metrics.json`` and ``statistics.json``.

    Args:
        folder: of the run.
        readings: scores of ER and VP answers.
        labels: who gave them, put beside the scopes of ER and VP.
        resamples: of the bootstrap.

    Returns:
        Both contents.

    Raises:
        StoreError: when the folder holds no run or cannot be read or written.
    """
    manifest = read_manifest(folder)
    records = read_records(folder)
    protocol = manifest["configuration"]["protocol"]
    references = [Record.model_validate(line) for line in read_lines(folder, REFERENCES)]
    metrics = score(
        records,
        protocol=protocol,
        rpp_unlabelled=manifest["rpp_unlabelled"],
        readings=readings,
    )
    for tasks in metrics.values():
        for task in ("er", "vp"):
            if task in tasks:
                tasks[task].update(labels or {})
    found = statistics(
        records,
        references,
        protocol=protocol,
        readings=readings,
        rpp_unlabelled=manifest["rpp_unlabelled"],
        seed=manifest["seed"],
        resamples=resamples,
    )
    found["planned"] = planned(manifest)
    write_json(folder / METRICS, metrics)
    write_json(folder / STATISTICS, found)
    return metrics, found


def planned(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of units planned for each variant, all repeats."""
    found: dict[str, int] = defaultdict(int)
    for batch in manifest["batches"]:
        found[batch["variant"]] += batch["units"]
    return dict(found)


async def _lines(plan: Plan) -> list[Record]:
    names = [v.name for v in plan.variants]
    return await reference_records(plan.points, plan.choice.options(), names)


def run(
    plan: Plan, store: RunStore, progress: Progress | None = None, *, swapped: bool = False
) -> None:
    """Carry the plan out, see :func:`carry_out`, and close the connections.

    Args:
        plan: the plan.
        store: the run folder.
        progress: told how far it is.
        swapped: show every point with names and order changed.
    """

    async def all_of_it() -> None:
        try:
            await carry_out(plan, store, progress, SwappedReplayer if swapped else Replayer)
        finally:
            if plan.client is not None:
                await plan.client.aclose()

    run_until_stopped(all_of_it())

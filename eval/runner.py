"""Runs samples through the compiled graph and turns decisions into prediction records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, ConfigDict

from agent.context import Context, Request
from agent.conversation import Mode, Turn
from agent.decision import Decision
from agent.graph import compile_graph
from agent.labels import Scenario
from agent.policies.base import Policy
from agent.rescue.annotations import scenario_of
from agent.rescue.splits import group_of
from agent.rescue.turns import turns_of
from eval.instances import (
    ErInstance,
    ItpInstance,
    RppInstance,
    SspInstance,
    StpInstance,
    Task,
    VpInstance,
)
from eval.metrics import top_ranking
from eval.points import Point, Unit


class ReplayError(RuntimeError):
    """The replay itself broke at a sample and row; the cause is attached."""


class Record(BaseModel):
    """One line of ``predictions.jsonl``: one instance and one variant's answer.

    Attributes:
        unit: opaque id of the instance.
        task: itp, stp, ssp, rpp, er or vp.
        sample_id: the sample.
        row: the instance's row (1-based; ITP: the row after which the question is asked).
        variant: the policy's name.
        scenario: couple or family.
        group: the couple or family, unit of the bootstrap.
        gold: the gold answer.
        status: ok, or why there is no answer.
        ranking: the three best valid answers, "" where there are fewer (ITP: yes/no).
        probabilities: label -> score as the policy gave them.
        candidates: STP's candidates as the policy had them.
        candidates_differ: STP: the official list, made with future rows, is another set.
        supported: ITP: a gold yes whose therapist row has a support strategy.
        known_target: SSP's given target.
        answer: ER and VP: the words and numbers read.
        policy_version: of the policy.
        error: one line without conversation text.
    """

    model_config = ConfigDict(extra="forbid")

    unit: str
    task: Task
    sample_id: str
    row: int
    variant: str
    scenario: Scenario
    group: str
    gold: Any
    status: str = "ok"
    ranking: list[str] = []
    probabilities: dict[str, float] = {}
    candidates: list[str] | None = None
    candidates_differ: bool | None = None
    supported: bool | None = None
    known_target: str | None = None
    answer: dict[str, Any] | None = None
    policy_version: str = ""
    error: str = ""


@dataclass(frozen=True)
class ReplayOptions:
    """How a sample is shown.

    Attributes:
        context: rows before a point that may be seen (None: all; RPP always sees all).
        mode: RESCUE's input mode.
        addressees: "given" as annotated, or "inferred" by the policy from the words.
        concurrency: samples in flight.
    """

    context: int | None = None
    mode: Mode = "dialogue"
    addressees: str = "given"
    concurrency: int = 1


@dataclass
class Replayer:
    """Replays samples with one policy through the one graph.

    Args:
        policy: the policy.
        options: how samples are shown.
        withhold_state: hides the relational state (the no-state variant).
    """

    policy: Policy
    options: ReplayOptions = field(default_factory=ReplayOptions)
    withhold_state: bool = False

    def __post_init__(self) -> None:
        self._graph: CompiledStateGraph[Any, Context, Any, Any] = compile_graph()
        self._context = Context(policy=self.policy, withhold_state=self.withhold_state)

    async def run(
        self,
        samples: Sequence[Sequence[Point]],
        on_turns: Callable[[int], None] | None = None,
    ) -> AsyncIterator[list[Record]]:
        """Yield the records of one sample after the other, in the samples' order.

        Args:
            samples: the points of each sample.
            on_turns: told how many turns went through, for a progress bar.
        """
        await self.policy.prepare([self._turns(points[-1]) for points in samples])
        gate = asyncio.Semaphore(self.options.concurrency)

        async def one(points: Sequence[Point]) -> list[Record]:
            async with gate:
                return await self.sample(points, on_turns)

        tasks = [asyncio.ensure_future(one(points)) for points in samples]
        try:
            for task in tasks:
                yield await task
        finally:
            for task in tasks:
                task.cancel()

    async def sample(
        self, points: Sequence[Point], on_turns: Callable[[int], None] | None = None
    ) -> list[Record]:
        """Return the records of one sample's points.

        Raises:
            ReplayError: naming sample and row, when something other than the policy fails.
        """
        turns = self._turns(points[-1])
        records: list[Record] = []
        state: dict[str, Any] = {}
        done = 0
        for point in points:
            try:
                if self.options.context is None:
                    state = await self._step(point, point.units, turns[done : point.visible], state)
                    records += self._records(point, point.units, state["decision"])
                else:
                    records += await self._windowed(point, turns)
            except Exception as error:
                where = f"{point.sample.sample_id} after row {point.visible}"
                raise ReplayError(
                    f"the replay failed at {where}: {type(error).__name__}"
                ) from error
            if on_turns:
                on_turns(point.visible - done)
            done = point.visible
        return records

    async def _windowed(self, point: Point, turns: Sequence[Turn]) -> list[Record]:
        """Ask with the last rows only; RPP sees all rows, as in the paper's setting."""
        size = self.options.context or 0
        whole = tuple(u for u in point.units if u.task == "rpp")
        short = tuple(u for u in point.units if u.task != "rpp")
        records: list[Record] = []
        for units, first in ((short, max(0, point.visible - size)), (whole, 0)):
            if units:
                state = await self._step(point, units, turns[first : point.visible], {})
                records += self._records(point, units, state["decision"])
        return records

    async def _step(
        self, point: Point, units: Sequence[Unit], incoming: Sequence[Turn], state: dict[str, Any]
    ) -> dict[str, Any]:
        known = point.known_target if any(u.task == "ssp" for u in units) else None
        given = {
            "scenario": scenario_of(point.sample),
            "participants": [],
            **state,
            "incoming": list(incoming),
            "request": Request(decide="always", known_target=known, reply=False),
        }
        out: dict[str, Any] = await self._graph.ainvoke(given, context=self._context)
        return out

    def _turns(self, last: Point) -> tuple[Turn, ...]:
        # rows after the last point are never even converted
        turns = turns_of(last.sample.rows[: last.visible], self.options.mode)
        if self.options.addressees == "given":
            return turns
        return tuple(
            t if t.by_agent else t.model_copy(update={"addressees": (), "addressees_given": False})
            for t in turns
        )

    def _records(self, point: Point, units: Sequence[Unit], decision: Decision) -> list[Record]:
        return [
            self._record(point, unit, decision)
            for unit in units
            if unit.task in self.policy.answers
        ]

    def _record(self, point: Point, unit: Unit, decision: Decision) -> Record:
        instance = unit.instance
        record = Record(
            unit=unit.id,
            task=unit.task,
            sample_id=instance.sample_id,
            row=instance.row,
            variant=self.policy.name,
            scenario=instance.scenario,
            group=group_of(instance.sample_id),
            gold=_gold(unit),
            status=decision.status,
            error=decision.error,
            policy_version=decision.policy_version,
        )
        if isinstance(instance, ItpInstance):
            record.supported = instance.supported
        elif isinstance(instance, SspInstance):
            record.known_target = instance.target
        elif isinstance(instance, StpInstance):
            record.candidates_differ = instance.candidates_differ
            record.candidates = list(instance.present)
        if decision.status == "ok":
            _answer(record, unit, decision)
        return record


def _gold(unit: Unit) -> Any:
    instance = unit.instance
    if isinstance(instance, ErInstance):
        return {
            "speaker": instance.speaker,
            "emotion": instance.gold_emotion,
            "intensity": instance.gold_intensity,
        }
    if isinstance(instance, VpInstance):
        return [list(triple) for triple in instance.gold]
    return instance.gold


def _answer(record: Record, unit: Unit, decision: Decision) -> None:
    instance = unit.instance
    if isinstance(instance, ItpInstance):
        record.probabilities = {"yes": decision.probability}
        record.ranking = ["yes" if decision.intervene else "no"]
        return
    if isinstance(instance, StpInstance):
        items, allowed = decision.targets, instance.candidates
    elif isinstance(instance, SspInstance):
        items, allowed = decision.strategies, tuple(i.label for i in decision.strategies)
    elif isinstance(instance, RppInstance):
        items, allowed = decision.pattern, tuple(i.label for i in decision.pattern)
    else:
        return
    record.probabilities = {i.label: i.score for i in items}
    record.ranking = list(top_ranking((i.label for i in items), allowed))

"""Runs samples through the compiled graph and turns decisions into prediction records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, ConfigDict

from agent.context import Context, Request
from agent.conversation import Mode, Turn
from agent.decision import Decision
from agent.graph import compile_graph
from agent.labels import Scenario
from agent.llm import scope as llm_scope
from agent.policies.base import Policy
from agent.reading import TurnReading
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
from eval.points import Point, Unit, unit_id


class ReplayError(RuntimeError):
    """The replay itself broke at a sample and row; the cause is attached."""


Protocol = Literal["paper", "live"]
"""How the tasks are read: as the paper does, or as a room meets them."""


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
        visible: number of rows the decision could see.
        repeat: which repetition, from 0.
        silent: True when a policy that decides on its own timing would have said nothing here;
            None when it has no timing of its own.
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
    visible: int = 0
    repeat: int = 0
    silent: bool | None = None


@dataclass(frozen=True)
class ReplayOptions:
    """How a sample is shown.

    Attributes:
        context: rows before a point that may be seen (None: all; RPP always sees all).
        mode: RESCUE's input mode.
        addressees: "given" as annotated, or "inferred" by the policy from the words.
        concurrency: samples in flight.
        protocol: "paper" gives SSP's known target, "live" leaves the target to the policy.
        repeat: which repetition, from 0.
        llm_cache: whether answers of a model may be kept on disk.
    """

    context: int | None = None
    mode: Mode = "dialogue"
    addressees: str = "given"
    concurrency: int = 1
    protocol: Protocol = "paper"
    repeat: int = 0
    llm_cache: bool = True


@dataclass
class Replayer:
    """Replays samples with one policy through the one graph.

    Args:
        policy: the policy.
        options: how samples are shown.
        withhold_state: hides the relational state (the no-state variant).
        variant: the name in the records; the policy's own when empty.
        on_point: told about every decision: its point, what was asked, and the graph's state.
    """

    policy: Policy
    options: ReplayOptions = field(default_factory=ReplayOptions)
    withhold_state: bool = False
    variant: str = ""
    on_point: Callable[[Point, Sequence[Unit], Mapping[str, Any]], None] | None = None

    def __post_init__(self) -> None:
        self._graph: CompiledStateGraph[Any, Context, Any, Any] = compile_graph()
        self._context = Context(policy=self.policy, withhold_state=self.withhold_state)

    async def run(
        self,
        samples: Sequence[Sequence[Point]],
        on_turns: Callable[[int], None] | None = None,
    ) -> AsyncIterator[list[Record]]:
        """Yield the records of one sample at a time, as samples are finished.

        With a concurrency of 1 that is the samples' order.

        Args:
            samples: the points of each sample.
            on_turns: told how many turns went through, for a progress bar.
        """
        await self.policy.prepare([self.turns(points[-1]) for points in samples])
        gate = asyncio.Semaphore(self.options.concurrency)

        async def one(points: Sequence[Point]) -> list[Record]:
            async with gate:
                return await self.sample(points, on_turns)

        tasks = [asyncio.ensure_future(one(points)) for points in samples]
        try:
            for finished in asyncio.as_completed(tasks):
                yield await finished
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def sample(
        self, points: Sequence[Point], on_turns: Callable[[int], None] | None = None
    ) -> list[Record]:
        """Return the records of one sample's points.

        Raises:
            ReplayError: naming sample and row, when something other than the policy fails.
        """
        turns = self.turns(points[-1])
        records: list[Record] = []
        state: dict[str, Any] = {}
        done = 0
        for point in points:
            try:
                if self.options.context is None:
                    state = await self._step(point, point.units, turns[done : point.visible], state)
                    records += self.records(point, point.units, state)
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
        records: list[Record] = []
        for units, first in self.windows(point):
            state = await self._step(point, units, turns[first : point.visible], {})
            records += self.records(point, units, state)
        return records

    def windows(self, point: Point) -> Iterator[tuple[tuple[Unit, ...], int]]:
        """Yield what is asked at a point with the first row shown for it (0-based).

        With a context of some rows only, RPP still sees all rows, as in the paper's setting.
        """
        if self.options.context is None:
            yield point.units, 0
            return
        whole = tuple(u for u in point.units if u.task == "rpp")
        short = tuple(u for u in point.units if u.task != "rpp")
        if short:
            yield short, max(0, point.visible - self.options.context)
        if whole:
            yield whole, 0

    async def _step(
        self, point: Point, units: Sequence[Unit], incoming: Sequence[Turn], state: dict[str, Any]
    ) -> dict[str, Any]:
        given = self.given(point, units, incoming, state)
        place = unit_id(point.sample.sample_id, point.visible, "point")
        options = self.options
        with llm_scope(unit=place, repeat=options.repeat, cache=options.llm_cache):
            out: dict[str, Any] = await self._graph.ainvoke(given, context=self._context)
        if self.on_point:
            self.on_point(point, units, out)
        return out

    def given(
        self, point: Point, units: Sequence[Unit], incoming: Sequence[Turn], state: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the graph's input at a point: its state so far, and what is new and asked."""
        given_target = self.options.protocol == "paper" and any(u.task == "ssp" for u in units)
        known = point.known_target if given_target else None
        return {
            "scenario": scenario_of(point.sample),
            "participants": [],
            **state,
            "incoming": list(incoming),
            "request": Request(decide="always", known_target=known, reply=False),
        }

    def turns(self, last: Point) -> tuple[Turn, ...]:
        """Return the turns of a sample up to its last point, as they are shown."""
        # rows after the last point are never even converted
        turns = turns_of(last.sample.rows[: last.visible], self.options.mode)
        if self.options.addressees == "given":
            return turns
        return tuple(
            t if t.by_agent else t.model_copy(update={"addressees": (), "addressees_given": False})
            for t in turns
        )

    def records(
        self, point: Point, units: Sequence[Unit], state: Mapping[str, Any]
    ) -> list[Record]:
        """Return the records of what was asked at a point, from the graph's state after it."""
        return [
            self._record(point, unit, state) for unit in units if unit.task in self.policy.answers
        ]

    def _record(self, point: Point, unit: Unit, state: Mapping[str, Any]) -> Record:
        instance = unit.instance
        decision: Decision = state["decision"]
        record = Record(
            unit=unit.id,
            task=unit.task,
            sample_id=instance.sample_id,
            row=instance.row,
            variant=self.variant or self.policy.name,
            scenario=instance.scenario,
            group=group_of(instance.sample_id),
            gold=_gold(unit),
            status=decision.status,
            error=decision.error,
            policy_version=decision.policy_version,
            visible=point.visible,
            repeat=self.options.repeat,
        )
        if isinstance(instance, ItpInstance):
            record.supported = instance.supported
        elif isinstance(instance, SspInstance):
            if self.options.protocol == "paper":
                record.known_target = instance.target
        elif isinstance(instance, StpInstance):
            record.candidates_differ = instance.candidates_differ
            record.candidates = list(instance.present)
        if decision.status == "ok":
            if "itp" in self.policy.answers:
                record.silent = not decision.intervene
            _answer(record, unit, decision)
            if unit.task in ("er", "vp"):
                record.answer = _reading(unit, state["readings"])
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


def _reading(unit: Unit, readings: Sequence[TurnReading]) -> dict[str, Any]:
    """Return what was read out of the instance's own row; empty where nothing was."""
    row = unit.instance.row
    read = next((r for r in readings if r.turn_id == row), None)
    if unit.task == "er":
        felt = read.emotion if read else None
        return {
            "emotion": felt.description if felt else "",
            "intensity": round(felt.intensity) if felt else None,
        }
    stances = read.stances if read else ()
    return {
        "viewpoints": [
            [read.speaker if read else "", s.target, s.viewpoint] for s in stances if s.viewpoint
        ]
    }


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

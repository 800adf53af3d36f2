"""The graph's state channels and what all nodes share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypedDict, TypeVar

from langgraph.runtime import Runtime

from agent.context import Context, Request
from agent.conversation import Turn, participants_of
from agent.decision import Decision, DecisionStatus, Ranking, Reply, Timing
from agent.labels import Scenario
from agent.policies.base import PolicyError, View
from agent.reading import Reading, TurnReading
from agent.state import RelationalState

T = TypeVar("T")


def append(old: list[T] | None, new: list[T] | None) -> list[T]:
    """Reducer: add to the end."""
    return [*(old or []), *(new or [])]


class Failure(TypedDict):
    """Why there is no decision."""

    status: DecisionStatus
    error: str


class GraphState(TypedDict, total=False):
    """Channels. ``scenario``, ``participants``, ``incoming`` and ``request`` come from the caller.

    ``participants`` are the people known to be in the room; people met in turns are added.
    Everything from ``look`` on belongs to the current run and is reset by ``observe``.
    """

    scenario: Scenario
    participants: list[str]
    incoming: list[Turn]
    request: Request
    turns: Annotated[list[Turn], append]
    readings: Annotated[list[TurnReading], append]
    relations: RelationalState
    look: Reading | None
    timing: Timing | None
    targets: Ranking | None
    strategies: Ranking | None
    reply: Reply | None
    failure: Failure | None
    timings: dict[str, float]
    decision: Decision | None


class Node(Protocol):
    """A node as LangGraph calls it."""

    def __call__(
        self, state: GraphState, *, runtime: Runtime[Context]
    ) -> Awaitable[dict[str, Any]]:
        """Return the changed channels."""


def view_of(state: GraphState, context: Context) -> View:
    """Return what the policy may know now: what the request's viewer may see, nothing else."""
    turns, readings = state["turns"], state.get("readings", [])
    request = state["request"]
    viewer = request.viewer
    if any(not t.visible(viewer) for t in turns):
        kept = [i for i, t in enumerate(turns) if t.visible(viewer)]
        readings = [readings[i] for i in kept if i < len(readings)]
        turns = [turns[i] for i in kept]
    return View(
        scenario=state["scenario"],
        participants=participants_of((), state["participants"]),
        turns=turns,
        readings=readings,
        relations=None if context.withhold_state else state["relations"],
        viewer=viewer,
        decide="always" if request.speak_now else request.decide,
    )


def looked(state: GraphState) -> Reading:
    """Return the current reading.

    Raises:
        LookupError: when perceive has not run, which would be a wiring mistake.
    """
    look = state.get("look")
    if look is None:
        raise LookupError("a decision node ran before perceive")
    return look


class _Body(Protocol):
    def __call__(
        self, state: GraphState, runtime: Runtime[Context]
    ) -> Awaitable[dict[str, Any]]: ...


def node(name: str) -> Callable[[_Body], Node]:
    """Measure a node and turn a policy's failure into a recorded status."""

    def wrap(run: _Body) -> Node:
        async def wrapped(state: GraphState, *, runtime: Runtime[Context]) -> dict[str, Any]:
            start = time.perf_counter()
            try:
                out = await run(state, runtime)
            except PolicyError as error:
                out = {"failure": Failure(status=error.status, error=str(error))}
            spent = (time.perf_counter() - start) * 1000
            timings = out.pop("timings", None)
            before = state.get("timings", {}) if timings is None else timings
            return {**out, "timings": {**before, name: spent}}

        wrapped.__name__ = name
        wrapped.__doc__ = run.__doc__
        return wrapped

    return wrap

"""perceive: read the new turns and update the picture of the relations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context
from agent.nodes.channels import Failure, GraphState, node, view_of
from agent.policies.base import PolicyError
from agent.reading import Reading, TurnReading
from agent.update import update, with_pattern


@node("perceive")
async def perceive(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the policy for a reading; a failed reading leaves the turns in, unread."""
    context = runtime.context
    viewer = state["request"].viewer
    incoming = [t for t in state.get("incoming") or [] if t.visible(viewer)]
    view = view_of(state, context)
    failure: Failure | None = None
    try:
        look = await context.policy.read(view, len(incoming))
    except PolicyError as error:
        failure = Failure(status=error.status, error=str(error))
        look = Reading(turns=tuple(TurnReading(turn_id=t.id, speaker=t.speaker) for t in incoming))
    relations = state["relations"]
    for turn, reading in zip(incoming, look.turns, strict=True):
        relations = update(relations, turn, reading)
    readings = _in_place(state, look)
    if failure is None and view.turns:
        after = replace(
            view,
            readings=[*view.readings, *look.turns],
            relations=None if context.withhold_state else relations,
        )
        try:
            pattern = await context.policy.pattern(after, look)
        except PolicyError as error:
            failure = Failure(status=error.status, error=str(error))
        else:
            relations = with_pattern(relations, view.turns[-1].id, pattern)
    await context.hooks.state(relations)
    return {"readings": readings, "relations": relations, "look": look, "failure": failure}


def _in_place(state: GraphState, look: Reading) -> list[TurnReading]:
    """Give hidden turns an empty reading, so that readings stay aligned with turns."""
    public = {reading.turn_id: reading for reading in look.turns}
    return [
        public.get(t.id) or TurnReading(turn_id=t.id, speaker=t.speaker)
        for t in state.get("incoming") or []
    ]

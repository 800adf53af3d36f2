"""observe: take the new turns in."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context, Request
from agent.conversation import participants_of
from agent.nodes.channels import GraphState, node
from agent.update import initial_state


@node("observe")
async def observe(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Append the incoming turns, meet new people and reset what belongs to a single run."""
    incoming = state.get("incoming") or []
    known = state.get("turns") or []
    last = known[-1].id if known else 0
    for turn in incoming:
        if turn.id <= last:
            raise ValueError(f"turn {turn.id} is not newer than turn {last}")
        last = turn.id
        await runtime.context.hooks.turn(turn)
    people = participants_of(incoming, state.get("participants") or ())
    return {
        "turns": incoming,
        "participants": list(people),
        "relations": state.get("relations") or initial_state(state["scenario"], people),
        "request": state.get("request") or Request(),
        "look": None,
        "timing": None,
        "targets": None,
        "strategies": None,
        "reply": None,
        "failure": None,
        "decision": None,
        "timings": {},
    }

"""target: whom to support."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context
from agent.nodes.channels import GraphState, looked, node, view_of


@node("target")
async def target(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the policy to rank the people present and the group."""
    view = view_of(state, runtime.context)
    return {"targets": await runtime.context.policy.target(view, looked(state))}


def chosen_target(state: GraphState) -> str | None:
    """Return the target that the strategy is for: the caller's known one, else the first."""
    known = state["request"].known_target
    if known is not None:
        return known
    targets = state.get("targets")
    return targets.items[0].label if targets and targets.items else None

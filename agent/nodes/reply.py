"""reply: find the words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context
from agent.nodes.channels import GraphState, looked, node, view_of
from agent.nodes.target import chosen_target


@node("reply")
async def reply(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the policy for the words of the chosen strategy to the chosen target."""
    goal, strategies = chosen_target(state), state.get("strategies")
    if goal is None or strategies is None:
        raise LookupError("reply ran without a target and a strategy")
    given = runtime.context
    view = replace(view_of(state, given), careful=given.careful, sheltering=given.sheltering)
    label = strategies.items[0].label
    return {"reply": await runtime.context.policy.reply(view, looked(state), goal, label)}

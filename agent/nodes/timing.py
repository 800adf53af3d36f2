"""time: speak now, or not?"""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context
from agent.nodes.channels import GraphState, looked, node, view_of


@node("time")
async def timing(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the policy for the probability of intervening now."""
    view = view_of(state, runtime.context)
    return {"timing": await runtime.context.policy.time(view, looked(state))}


def threshold(context: Context) -> float:
    """Return the probability at which the agent speaks."""
    return context.policy.threshold if context.threshold is None else context.threshold


def wants_to_speak(state: GraphState, context: Context) -> bool:
    """Return whether the policy's probability reaches the threshold, or a person asked."""
    spoken = state.get("timing")
    if state["request"].speak_now:
        return True
    return spoken is not None and spoken.probability >= threshold(context)


def after_time(state: GraphState, runtime: Runtime[Context]) -> str:
    """Route: ``target`` when the agent speaks or was asked for a decision, else ``silent``."""
    if state.get("failure"):
        return "record"
    asked = state["request"].decide == "always"
    return "target" if asked or wants_to_speak(state, runtime.context) else "silent"

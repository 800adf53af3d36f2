"""time: speak now, or not?"""

from __future__ import annotations

from typing import Any, Final

from langgraph.runtime import Runtime

from agent.context import Context
from agent.nodes.channels import GraphState, looked, node, view_of

EASE: Final = 0.08
LEAST: Final = 0.4


@node("time")
async def timing(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the policy for the probability of intervening now."""
    view = view_of(state, runtime.context)
    return {"timing": await runtime.context.policy.time(view, looked(state))}


def threshold(state: GraphState, context: Context) -> float:
    """Return the probability at which the agent speaks now.

    With patience set it falls by ``EASE`` a turn once that many turns passed without the agent,
    down to ``LEAST`` of itself (the silence factor of Inner Thoughts, CHI 2025, as a threshold).
    """
    own = context.policy.threshold if context.threshold is None else context.threshold
    if context.patience is None:
        return own
    waited = max(0, state["relations"].quiet_turns - context.patience)
    return own * max(LEAST, 1.0 - EASE * waited)


def wants_to_speak(state: GraphState, context: Context) -> bool:
    """Return whether the policy's probability reaches the threshold, or a person asked."""
    spoken = state.get("timing")
    if state["request"].speak_now:
        return True
    return spoken is not None and spoken.probability >= threshold(state, context)


async def after_time(state: GraphState, runtime: Runtime[Context]) -> str:
    """Route: ``target`` when the agent speaks or was asked for a decision, else ``silent``."""
    if state.get("failure"):
        return "record"
    asked = state["request"].decide == "always"
    return "target" if asked or wants_to_speak(state, runtime.context) else "silent"

"""strategy: how to support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context
from agent.decision import Ranked, Ranking
from agent.labels import Scenario, definitions
from agent.nodes.channels import Failure, GraphState, looked, node, view_of
from agent.nodes.target import chosen_target


@node("strategy")
async def strategy(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the policy to rank the strategies for the target, without those switched off."""
    goal = chosen_target(state)
    if goal is None:
        return {"failure": Failure(status="parse_error", error="the policy ranked no target")}
    view = view_of(state, runtime.context)
    ranking = await runtime.context.policy.strategy(view, looked(state), goal)
    off, avoid = runtime.context.strategies_off, runtime.context.avoid
    kept = [item for item in ranking.items if item.label not in off]
    first = next((i for i, item in enumerate(kept) if item.label not in avoid), len(kept))
    items = tuple(kept[first:])
    reasons = _reasons(ranking, items, state["scenario"])
    return {"strategies": Ranking(items=items, reasons=reasons, evidence=ranking.evidence)}


def _reasons(ranking: Ranking, items: Sequence[Ranked], scenario: Scenario) -> tuple[str, ...]:
    """Return the reasons for what is taken: those for a passed-over label would tell of it."""
    if not items or not ranking.reasons or ranking.common or items[0] == ranking.items[0]:
        return ranking.reasons
    known = {d.name: d for d in definitions("strategy", scenario)}
    return (known[items[0].label].definition,)


async def after_strategy(state: GraphState, runtime: Runtime[Context]) -> str:
    """Route: ``reply`` when words are wanted and a strategy is left, else ``record``."""
    strategies = state.get("strategies")
    ready = not state.get("failure") and strategies is not None and bool(strategies.items)
    return "reply" if ready and state["request"].reply else "record"

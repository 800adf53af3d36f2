"""record: write down what was decided and why, also when nothing was said."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context
from agent.decision import Decision, Ranked, Ranking, Reason, Timing
from agent.nodes.channels import GraphState, node
from agent.nodes.target import chosen_target
from agent.nodes.timing import threshold, wants_to_speak


@node("record")
async def record(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Build the decision record and pass it, and the reply, to the hooks."""
    if state["request"].decide == "never":
        return {"incoming": [], "decision": None}
    decision = _decision(state, runtime.context)
    await runtime.context.hooks.decision(decision)
    if decision.reply is not None:
        await runtime.context.hooks.reply(decision.reply)
    return {"incoming": [], "decision": decision}


def _decision(state: GraphState, context: Context) -> Decision:
    turns, failure, spoken = state["turns"], state.get("failure"), state.get("timing")
    reasons = _reasons(state)
    seen = [t.id for t in turns if t.visible(state["request"].viewer)]
    return Decision(
        turn_id=seen[-1] if seen else 0,
        scenario=state["scenario"],
        intervene=failure is None and wants_to_speak(state, context),
        probability=spoken.probability if spoken else 0.0,
        threshold=threshold(state, context),
        asked=state["request"].decide == "always",
        targets=_items(state.get("targets")),
        strategies=_items(state.get("strategies")),
        target=chosen_target(state) if state.get("targets") else None,
        pattern=Ranking.of(state["relations"].pattern).items,
        reasons=reasons,
        evidence=tuple(sorted({i for r in reasons for i in r.evidence})),
        policy=context.policy.name,
        policy_version=context.policy.version,
        status=failure["status"] if failure else "ok",
        error=failure["error"] if failure else "",
        reply=state.get("reply"),
        timings=dict(state.get("timings", {})),
    )


def _items(ranking: Ranking | None) -> tuple[Ranked, ...]:
    return ranking.items if ranking else ()


def _reasons(state: GraphState) -> tuple[Reason, ...]:
    parts: list[tuple[str, Timing | Ranking | None]] = [
        ("time", state.get("timing")),
        ("target", state.get("targets")),
        ("strategy", state.get("strategies")),
    ]
    return tuple(
        Reason(node=name, text=text, evidence=part.evidence)
        for name, part in parts
        if part is not None
        for text in part.reasons
    )

"""The graph: wiring only. The room compiles ``builder`` with a checkpointer, the replay without.

observe -> perceive -> time -> (silent | target -> strategy -> reply) -> record

Routes are coroutines like the nodes: LangGraph sends a plain function through a thread.
"""

from __future__ import annotations

from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from agent.context import Context
from agent.nodes.channels import GraphState
from agent.nodes.observe import observe
from agent.nodes.perceive import perceive
from agent.nodes.record import record
from agent.nodes.reply import reply
from agent.nodes.silent import silent
from agent.nodes.strategy import after_strategy, strategy
from agent.nodes.target import target
from agent.nodes.timing import after_time, timing

CHECKPOINT_TYPES: Final = (
    ("agent.context", "Request"),
    ("agent.conversation", "BackgroundLine"),
    ("agent.conversation", "Cue"),
    ("agent.conversation", "Turn"),
    ("agent.decision", "Decision"),
    ("agent.decision", "Ranked"),
    ("agent.decision", "Ranking"),
    ("agent.decision", "Reason"),
    ("agent.decision", "Reply"),
    ("agent.decision", "Timing"),
    ("agent.reading", "Plan"),
    ("agent.reading", "Reading"),
    ("agent.reading", "StanceReading"),
    ("agent.reading", "TurnReading"),
    ("agent.state", "RelationalState"),
)
"""Our types a checkpoint may hold; anything else is refused when it is read back."""


def serializer() -> JsonPlusSerializer:
    """Return the checkpoint serializer that knows our types and no others."""
    return JsonPlusSerializer(allowed_msgpack_modules=list(CHECKPOINT_TYPES))


async def after_perceive(state: GraphState, runtime: Runtime[Context]) -> str:
    """Route: straight to ``record`` when no decision is wanted or the reading failed."""
    skip = state["request"].decide == "never" or state.get("failure")
    return "record" if skip else "time"


async def after_target(state: GraphState, runtime: Runtime[Context]) -> str:
    """Route: ``record`` after a failure, else ``strategy``."""
    return "record" if state.get("failure") else "strategy"


def _build() -> StateGraph[GraphState, Context, GraphState, GraphState]:
    graph = StateGraph(GraphState, context_schema=Context)
    graph.add_node("observe", observe)
    graph.add_node("perceive", perceive)
    graph.add_node("time", timing)
    graph.add_node("silent", silent)
    graph.add_node("target", target)
    graph.add_node("strategy", strategy)
    graph.add_node("reply", reply)
    graph.add_node("record", record)
    graph.add_edge(START, "observe")
    graph.add_edge("observe", "perceive")
    graph.add_conditional_edges("perceive", after_perceive, ["time", "record"])
    graph.add_conditional_edges("time", after_time, ["target", "silent", "record"])
    graph.add_conditional_edges("target", after_target, ["strategy", "record"])
    graph.add_conditional_edges("strategy", after_strategy, ["reply", "record"])
    graph.add_edge("silent", "record")
    graph.add_edge("reply", "record")
    graph.add_edge("record", END)
    return graph


builder: Final = _build()


def compile_graph(
    checkpointer: BaseCheckpointSaver[str] | None = None,
) -> CompiledStateGraph[Any, Context, Any, Any]:
    """Compile the one graph, for the room (with a saver) or the replay (without)."""
    return builder.compile(checkpointer=checkpointer)

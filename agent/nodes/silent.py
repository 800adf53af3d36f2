"""silent: listen on."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from agent.context import Context
from agent.nodes.channels import GraphState, node


@node("silent")
async def silent(state: GraphState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Leave the floor to the people in the room; the record still tells why."""
    return {"targets": None, "strategies": None, "reply": None}

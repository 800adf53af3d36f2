"""The LLM policies that are compared: the graph with and without its state, and plain prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agent.decision import Reply
from agent.llm import LLMClient
from agent.policies.base import Policy, View
from agent.policies.llm.policy import Fallback, LLMPolicy
from agent.policies.llm.prompting import Variant
from agent.reading import Reading
from agent.settings import Settings

__all__ = ["VARIANTS", "LLMPolicy", "Variant", "make"]

WINDOW_ROWS: Final = 3
"""Rows of context in the paper's zero-shot setting (arXiv 2609.09657)."""

VARIANTS: Final = {
    variant.name: variant
    for variant in (
        Variant("agent", "read_agent", "reply_agent", picture=True),
        Variant("agent-no-state", "read_agent", "reply_agent"),
        Variant("agent-hybrid", "read_agent", "reply_agent", picture=True, estimates=True),
        Variant("plain-window", "read_plain", "reply_plain", rows=WINDOW_ROWS),
        Variant("plain-history", "read_plain", "reply_plain"),
    )
}


def make(
    name: str,
    settings: Settings,
    client: LLMClient | None = None,
    local: Callable[[], Policy] | None = None,
) -> LLMPolicy:
    """Return the variant of that name.

    Args:
        name: a key of ``VARIANTS``.
        settings: about the server, when no client is given.
        client: shared by the variants of a run, so that one budget and one log cover all.
        local: gives the local policy, for the hybrid's numbers and for replies in reserve.

    Raises:
        UnknownPrice: when a money budget is set for a model of unknown price.
    """
    return LLMPolicy(
        VARIANTS[name],
        client or LLMClient(settings),
        local=local,
        fallback=_fallback(local) if local else None,
    )


def _fallback(local: Callable[[], Policy]) -> Fallback:
    held: list[Policy] = []

    async def reply(view: View, reading: Reading, target: str, strategy: str) -> Reply:
        # loaded at first need: most replies pass
        if not held:
            held.append(local())
        return await held[0].reply(view, reading, target, strategy)

    return reply

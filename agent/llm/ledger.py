"""Books what a call took: tokens, money, and whether the server read the whole prompt."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent.llm import parse as found
from agent.llm.budget import Budget, Price
from agent.llm.outcome import usage_of
from agent.llm.record import CallRecord
from agent.llm.tokens import at_least, looks_cut
from agent.llm.transport import Sent
from agent.prompts import Message

_LOG: Final = logging.getLogger("kith.llm")


class Ledger:
    """Fills in a call's record and spends from the budget.

    Args:
        budget: of the run.
        price: of the model, None when unknown.
    """

    def __init__(self, budget: Budget, price: Price | None) -> None:
        self._budget = budget
        self._price = price
        self._warned = False

    def booked(self, record: CallRecord, messages: Sequence[Message], sent: Sent) -> CallRecord:
        """Return the record with tokens, cost and whether the prompt was cut."""
        texts = [text for _, text in messages]
        tokens_in, tokens_out, reasoning = usage_of(sent)
        lower_in = sum(map(at_least, texts))
        # the budget counts our own lower bound where the server says nothing
        said = at_least(found.content_text(sent.message.content))
        self._budget.spend(
            lower_in if tokens_in is None else tokens_in,
            said if tokens_out is None else tokens_out,
            self._price,
        )
        cut = looks_cut(lower_in, tokens_in)
        if cut:
            self._warn(tokens_in, lower_in)
        cost = None
        if self._price is not None and tokens_in is not None and tokens_out is not None:
            cost = self._price.cost(tokens_in, tokens_out)
        return replace(
            record,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            tokens_reasoning=reasoning,
            front_cut=cut,
            cost_usd=cost,
        )

    def _warn(self, counted: int | None, lower: int) -> None:
        if self._warned:
            return
        self._warned = True
        _LOG.warning(
            "the model server counts far fewer prompt tokens (%s) than were sent (at least "
            "%s): it drops a part of long prompts. Raise its context length (ollama: "
            "OLLAMA_CONTEXT_LENGTH) or lower KITH_CONTEXT_TOKENS.",
            counted,
            lower,
        )

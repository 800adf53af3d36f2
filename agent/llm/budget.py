"""Token and money budgets, and the price table."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from agent.llm.errors import LLMError


class UnknownPrice(ValueError):
    """A money budget was set for a model whose price is not known."""


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a call in US dollars."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6


@cache
def _table() -> dict[str, Any]:
    text = files("agent.llm").joinpath("prices.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def price_table_date() -> str:
    """Return the date the price table was last checked."""
    return str(_table()["checked"])


def price_of(model: str, given_in: float | None, given_out: float | None) -> Price | None:
    """Return the model's price: as given, else from the table, else None."""
    if given_in is not None and given_out is not None:
        return Price(given_in, given_out)
    row = _table()["usd_per_million_tokens"].get(model)
    return Price(row["input"], row["output"]) if row else None


@dataclass
class Budget:
    """What a run may spend. Shared by all clients of a run.

    Calls that are in flight when the limit is reached are finished and kept, so the sums may end
    a little above it.

    Attributes:
        tokens: limit on prompt plus answer tokens, None for no limit.
        usd: limit in US dollars, None for no limit.
        spent_tokens: so far.
        spent_usd: so far.
    """

    tokens: int | None = None
    usd: float | None = None
    spent_tokens: int = field(default=0)
    spent_usd: float = field(default=0.0)

    def check(self) -> None:
        """Refuse a further call when a limit is reached.

        Raises:
            LLMError: with status ``budget``.
        """
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            raise LLMError("budget", f"the budget of {self.tokens} tokens is spent")
        if self.usd is not None and self.spent_usd >= self.usd:
            raise LLMError("budget", f"the budget of {self.usd:g} USD is spent")

    def spend(self, tokens_in: int, tokens_out: int, price: Price | None) -> None:
        """Book a call."""
        self.spent_tokens += tokens_in + tokens_out
        if price is not None:
            self.spent_usd += price.cost(tokens_in, tokens_out)

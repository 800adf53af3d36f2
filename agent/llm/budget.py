"""Token and money budgets, and prices."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.llm.errors import LLMError


class UnknownPrice(ValueError):
    """A money budget was set, but no price."""


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a call in US dollars."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6


def price_of(given_in: float | None, given_out: float | None) -> Price | None:
    """Return the price the settings name, or None.

    Vendors change their prices, so none ships with the project.
    """
    if given_in is None or given_out is None:
        return None
    return Price(given_in, given_out)


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

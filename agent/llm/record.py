"""The record of every model call, and the scope that says what a call belongs to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from agent.decision import DecisionStatus

Purpose = Literal["first", "more_room", "repair", "probe"]
CallStatus = DecisionStatus | Literal["cancelled"]


@dataclass(frozen=True)
class Scope:
    """What the calls made inside belong to.

    Attributes:
        unit: opaque id of the decision point, "" outside an evaluation.
        repeat: index of the repetition; part of the answer cache's key.
        cache: whether answers may be kept on disk. Off by default, so that nothing that is said
            in a room is ever kept there.
    """

    unit: str = ""
    repeat: int = 0
    cache: bool = False


_OUTSIDE: Final = Scope()
_SCOPE: Final[ContextVar[Scope]] = ContextVar("kith_llm_scope")


def current_scope() -> Scope:
    """Return the scope of the running task."""
    return _SCOPE.get(_OUTSIDE)


@contextmanager
def scope(*, unit: str = "", repeat: int = 0, cache: bool = True) -> Iterator[Scope]:
    """Mark the calls made inside as belonging to an evaluation's unit.

    Args:
        unit: opaque id of the decision point.
        repeat: index of the repetition.
        cache: whether answers may be kept on disk (the setting ``llm_cache`` must agree).
    """
    here = Scope(unit=unit, repeat=repeat, cache=cache)
    token = _SCOPE.set(here)
    try:
        yield here
    finally:
        _SCOPE.reset(token)


@dataclass(frozen=True)
class CallRecord:
    """One model call. Holds numbers and names only, no conversation text.

    Attributes:
        role: whose call it is: ``agent`` or ``judge``.
        node: the graph node (or other place) it was made from.
        policy: the policy's name, "" for none.
        purpose: first ask, ask with more room, repair turn, or probe of the server.
        model: as sent.
        rung: how a structured answer was asked for, ``reply`` for free text.
        status: ok or what went wrong.
        tokens_in: prompt tokens, None when the server did not say.
        tokens_out: answer tokens (with reasoning), None when the server did not say.
        tokens_reasoning: of those, hidden reasoning; None when the server did not say.
        latency_ms: from the first try to the end, waits between tries included.
        retries: tries after the first.
        cache_hit: answered from disk, without a request; its tokens are those once paid.
        front_cut: the server saw far fewer prompt tokens than were sent.
        cost_usd: None when tokens or price are unknown.
        unit: as in the scope.
        repeat: as in the scope.
    """

    role: str
    node: str
    policy: str
    purpose: Purpose
    model: str
    rung: str
    status: CallStatus
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    latency_ms: float = 0.0
    retries: int = 0
    cache_hit: bool = False
    front_cut: bool = False
    cost_usd: float | None = None
    unit: str = ""
    repeat: int = 0


@dataclass
class CallTotals:
    """Sums over records.

    Attributes:
        calls: requests that were answered by the server or failed there.
        cache_hits: answers from disk.
        failed: calls whose status is not ok.
        retries: further tries.
        tokens_in: known prompt tokens.
        tokens_out: known answer tokens.
        tokens_reasoning: known reasoning tokens.
        unknown_tokens: calls whose token numbers the server did not give.
        cost_usd: known cost.
    """

    calls: int = 0
    cache_hits: int = 0
    failed: int = 0
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    unknown_tokens: int = 0
    cost_usd: float = 0.0

    def add(self, record: CallRecord) -> None:
        """Add one record."""
        self.calls += not record.cache_hit
        self.cache_hits += record.cache_hit
        self.failed += record.status != "ok"
        self.retries += record.retries
        self.tokens_in += record.tokens_in or 0
        self.tokens_out += record.tokens_out or 0
        self.tokens_reasoning += record.tokens_reasoning or 0
        self.unknown_tokens += record.status == "ok" and record.tokens_in is None
        self.cost_usd += record.cost_usd or 0.0


@dataclass
class CallLog:
    """Collects records and passes them on.

    Attributes:
        records: all so far, in order of completion.
        listeners: called with each record.
    """

    records: list[CallRecord] = field(default_factory=list)
    listeners: list[Callable[[CallRecord], None]] = field(default_factory=list)

    def add(self, record: CallRecord) -> None:
        """Keep a record, with the running task's unit and repeat filled in."""
        here = current_scope()
        record = replace(record, unit=here.unit, repeat=here.repeat)
        self.records.append(record)
        for listener in self.listeners:
            listener(record)

    def totals(self, **equal: str) -> CallTotals:
        """Sum the records whose fields have the given values, e.g. ``policy="agent"``."""
        sums = CallTotals()
        for record in self.records:
            if all(getattr(record, name) == value for name, value in equal.items()):
                sums.add(record)
        return sums


class JsonlCalls:
    """A listener that appends each record as one JSON line.

    Raises:
        OSError: when the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, record: CallRecord) -> None:
        """Append the record; an unknown number is null."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")

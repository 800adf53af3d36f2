"""How a conversation is shown to a model: numbered lines of data, never instructions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.conversation import Turn
from agent.labels import THERAPIST
from agent.llm.tokens import estimate
from agent.policies.base import View

HELPER: Final = "helper"
"""How the supporting side is called in prompts."""


def as_data(value: object) -> str:
    """Write a value as JSON that can close neither a string nor the fence around it."""
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    # nothing that a person types may look like a tag of ours, a line break or a direction mark
    text = text.replace("<", "\\u003c").replace(">", "\\u003e")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


@dataclass(frozen=True)
class Lines:
    """The shown part of a conversation.

    Lines carry their position among the visible turns (1-based), not the turn's id: a gap between
    ids would tell that somebody said something in private.

    Attributes:
        turns: all visible turns.
        first: position of the first shown line.
    """

    turns: tuple[Turn, ...]
    first: int

    @property
    def text(self) -> str:
        """One JSON object a line."""
        shown = [line_of(n, t) for n, t in self.numbered()]
        left_out = self.first - 1
        if left_out:
            shown.insert(0, as_data({"left_out": f"{left_out} earlier lines"}))
        return "\n".join(shown)

    def numbered(self) -> list[tuple[int, Turn]]:
        """Return the shown turns with their positions."""
        return [(n, t) for n, t in enumerate(self.turns, 1) if n >= self.first]

    def numbers(self) -> dict[int, int]:
        """Return turn id -> position of the visible turns."""
        return {t.id: n for n, t in enumerate(self.turns, 1)}

    def ids(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the ids of shown lines, ascending; numbers of other lines are left out."""
        known = {n: t.id for n, t in self.numbered()}
        return tuple(sorted({known[n] for n in numbers if n in known}))


def lines_of(view: View, rows: int | None, room: int) -> Lines:
    """Choose the lines to show.

    Args:
        view: the visible conversation.
        rows: at most so many, None for all.
        room: at most so many tokens by our own estimate; the newest line is always shown.
    """
    turns = tuple(view.turns)
    first = max(1, len(turns) - rows + 1) if rows is not None else 1
    used, start = 0, len(turns)
    for n in range(len(turns), first - 1, -1):
        used += estimate(line_of(n, turns[n - 1]))
        if used > room and n < len(turns):
            break
        start = n
    return Lines(turns, max(1, start))


def line_of(number: int, turn: Turn) -> str:
    """Return a turn as one JSON object on one line."""
    entry: dict[str, Any] = {"line": number}
    if turn.by_agent:
        entry["by"] = HELPER
    else:
        entry["by"], entry["name"] = "participant", turn.speaker
    if turn.addressees:
        entry["to"] = [HELPER if a == THERAPIST else a for a in turn.addressees]
    if turn.start is not None:
        entry["at"] = _clock(turn.start)
    entry["text"] = turn.text
    if turn.background:
        entry["meanwhile"] = [
            {"name": HELPER if b.speaker == THERAPIST else b.speaker, "text": b.text}
            for b in turn.background
        ]
    if turn.cues:
        entry["seen"] = [{"name": c.person, c.kind: c.description} for c in turn.cues]
    return as_data(entry)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"

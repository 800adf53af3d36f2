"""What a room shows, who shows it, and who listens along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ui.records import Line


@dataclass(frozen=True)
class Event:
    """Something a port shows.

    Attributes:
        kind: ``line`` (a new line), ``erased`` (keys to take away), ``panel`` (the picture
            changed), ``people`` (who is here changed), ``thinking``, ``notice`` or ``left`` (whose
            tab it is has left the room).
        line: the line, for ``line``.
        keys: line keys, for ``erased``.
        text: a sentence, for ``notice``.
        on: for ``thinking``; for ``notice``, whether it stays until it is closed.
    """

    kind: Literal["line", "erased", "panel", "people", "thinking", "notice", "playback", "left"]
    line: Line | None = None
    keys: tuple[str, ...] = ()
    text: str = ""
    on: bool = False


class Port(Protocol):
    """One browser tab of one person. ``push`` must return at once."""

    person: str

    def push(self, event: Event) -> None:
        """Take an event; deliver it later, in order."""


class Listener(Protocol):
    """What the agent's side of a room offers (see ``ui.companion``)."""

    def heard(self, line: Line) -> None:
        """Notice a new line."""

    async def forget(self, seqs: Sequence[int]) -> None:
        """Rebuild everything without these lines."""

"""What a room is made of, as it is stored."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Literal

from agent.labels import Scenario

Mode = Literal["shared", "hot_seat", "demo"]
"""A browser each, one browser for all, or a demo conversation that plays."""


@dataclass(frozen=True)
class RoomInfo:
    """A room's settings.

    Attributes:
        id: unguessable.
        scenario: couple or family.
        mode: ``shared`` (a browser each), ``hot_seat`` (one browser plays all) or ``demo``.
        talk: talkativeness 0 to 1, None for the policy's own.
        strategies_off: what the agent may not do here.
        paused: the agent does not read or speak.
        generation: counts the rebuilds of the graph's threads.
        script: id of the demo conversation that is played.
        position: rows of the script played so far.
    """

    id: str
    scenario: Scenario
    mode: Mode
    created: float
    touched: float
    talk: float | None = None
    strategies_off: tuple[str, ...] = ()
    paused: bool = False
    generation: int = 0
    script: str = ""
    position: int = 0


def new_room_info(scenario: Scenario, mode: Mode, script: str = "") -> RoomInfo:
    """Return a fresh room with an unguessable id."""
    now = time.time()
    return RoomInfo(secrets.token_urlsafe(12), scenario, mode, now, now, script=script)


@dataclass(frozen=True)
class Person:
    """Somebody in a room. ``consented`` and ``gone`` are times, or None."""

    id: str
    name: str
    role: str
    age: str
    colour: int
    consented: float | None = None
    gone: float | None = None


@dataclass(frozen=True)
class Line:
    """One line of the transcript.

    Attributes:
        seq: order within the room, never shown to anybody.
        key: unguessable id that clients see.
        visible_to: None for everybody, else names.
        erased: when its speaker took it back (the text is then gone), or None.
    """

    seq: int
    key: str
    speaker: str
    text: str
    at: float
    addressees: tuple[str, ...] = ()
    given: bool = False
    visible_to: tuple[str, ...] | None = None
    erased: float | None = None

    def visible(self, viewer: str | None) -> bool:
        """Whether ``viewer`` may see it; None asks for what everybody may see."""
        return self.visible_to is None or (viewer is not None and viewer in self.visible_to)


@dataclass(frozen=True)
class DecisionRow:
    """A stored decision record (JSON) with the line it followed and the reply it led to."""

    id: int
    viewer: str | None
    seq: int
    reply: int | None
    record: str


@dataclass(frozen=True)
class Correction:
    """A belief that somebody marked as wrong.

    Attributes:
        kind: ``emotion`` or ``viewpoint``.
        person: whose emotion, or whose viewpoint.
        other: whom the viewpoint is about, else "".
        evidence: ``seq`` of the lines that may not found it again.
    """

    kind: Literal["emotion", "viewpoint"]
    person: str
    other: str
    evidence: tuple[int, ...]

    @property
    def key(self) -> str:
        """The belief's key in ``RelationalState.rejected``."""
        if self.kind == "emotion":
            return f"emotion:{self.person}"
        return f"viewpoint:{self.person}>{self.other}"

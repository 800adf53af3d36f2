"""What was said, by whom, to whom, and who may see it.

A turn corresponds to one row of a RESCUE sample. Only what a listener could notice is kept:
speaker, addressees, words, background lines, time and (by mode) tone and posture. Annotations
such as emotions or strategies have no place here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.labels import RESERVED_NAMES, THERAPIST

Mode = Literal["dialogue", "audio", "visual", "audiovisual"]
"""RESCUE's input modes: which cues beside the words are handed to a policy."""


class BackgroundLine(BaseModel):
    """A line spoken over somebody else's turn (RESCUE's ``background_dialogue``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    speaker: str
    addressees: tuple[str, ...] = ()
    text: str


class Cue(BaseModel):
    """A cue beside the words: RESCUE's tone, posture, face, self-directed or interaction field."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["tone", "posture", "face", "self", "interaction"]
    person: str
    description: str
    addressees: tuple[str, ...] = ()


class Turn(BaseModel):
    """One turn of the conversation.

    Attributes:
        id: position in the transcript, 1-based and strictly increasing (gaps are allowed).
        speaker: participant's name, or ``Therapist`` for the supporting side.
        text: the words.
        addressees: whom the turn is spoken to; names, ``Therapist`` or the group label.
        addressees_given: True when a person or the data said so, False when nobody did.
        background: lines spoken over this turn.
        start: seconds since the conversation's start, or None.
        end: seconds since the conversation's start, or None.
        cues: tone and visual cues, when the mode hands them out.
        visible_to: None for everybody in the room; else the participants (besides the agent)
            who may see the turn, e.g. only the speaker of a whisper.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int = Field(ge=1)
    speaker: str = Field(min_length=1)
    text: str
    addressees: tuple[str, ...] = ()
    addressees_given: bool = False
    background: tuple[BackgroundLine, ...] = ()
    start: float | None = None
    end: float | None = None
    cues: tuple[Cue, ...] = ()
    visible_to: tuple[str, ...] | None = None

    @property
    def by_agent(self) -> bool:
        """Whether the supporting side (the therapist, in RESCUE) spoke."""
        return self.speaker == THERAPIST

    def visible(self, viewer: str | None) -> bool:
        """Whether ``viewer`` may see the turn; None asks for what everybody may see."""
        return self.visible_to is None or (viewer is not None and viewer in self.visible_to)


def visible_turns(turns: Iterable[Turn], viewer: str | None) -> tuple[Turn, ...]:
    """Return the turns ``viewer`` may see (None: the public ones), in order."""
    return tuple(t for t in turns if t.visible(viewer))


def participants_of(turns: Sequence[Turn], known: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the participants met so far, in order of first appearance.

    ``known`` come first; then speakers and named addressees of each turn in turn order. The
    therapist and the group labels are no participants.
    """
    seen = dict.fromkeys(known)
    for turn in turns:
        for name in (turn.speaker, *turn.addressees):
            if name and name not in RESERVED_NAMES:
                seen.setdefault(name)
    return tuple(seen)

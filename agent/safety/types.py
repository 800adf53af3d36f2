"""Types of the safety layer: the kinds of concern and the flag that records one."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from pydantic import BaseModel, ConfigDict

Kind = Literal[
    "self_harm",
    "violence",
    "coercive_control",
    "child_abuse",
    "threat",
    "medical",
    "dependency",
]
Source = Literal["rules", "llm"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class TurnLike(Protocol):
    """One turn of a conversation, as the safety layer needs it."""

    @property
    def speaker(self) -> str:
        """Return the name of the person who spoke."""
        ...

    @property
    def text(self) -> str:
        """Return the words of the turn."""
        ...


class Turn(BaseModel):
    """A plain turn for callers that have no turn type of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    speaker: str
    text: str


class Evidence(BaseModel):
    """What a flag rests on: the rule and the turns, never their words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str
    turn_ids: tuple[int, ...]


class Flag(BaseModel):
    """One concern found in one turn.

    Attributes:
        kind: The kind of concern.
        turn_id: Index of the turn (or its own ``turn_id``) that raised it.
        speaker: Who wrote that turn.
        about: Who is at risk: a participant's name, ``third_person`` for somebody outside the
            room, or None when it cannot be told.
        actor: The participant said to do the harm, or None. It is the speaker in "should I hit
            him".
        evidence: The rule that fired and the turns it used; no text.
        source: Which layer raised it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    turn_id: int
    speaker: str
    about: str | None
    actor: str | None
    evidence: Evidence
    source: Source = "rules"

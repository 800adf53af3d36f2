"""The running picture of the relations in the room. Types only; see ``update`` for the changes.

Follows the paper's formulation (arXiv 2609.09657, section 3): individual states, directed
interpersonal states and one group pattern. Every belief carries the ids of the turns it rests on.
All fields are JSON-able, so a state survives a checkpoint unchanged.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.labels import Scenario

StanceKind = Literal["ally", "conflict", "mixed", "neutral"]

EVIDENCE_KEPT: Final = 6
"""Evidence turn ids kept per belief, newest last."""
PATTERN_POINTS_KEPT: Final = 40
"""Points of the pattern's course kept, newest last."""
MOVES_KEPT: Final = 12
"""Moves of the agent kept, newest last."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Emotion(_Model):
    """What a person seems to feel.

    Attributes:
        description: a short phrase, "" when nothing was read.
        valence: -1 (unpleasant) to 1 (pleasant).
        intensity: 0 to 10, RESCUE's scale.
    """

    description: str = ""
    valence: float = Field(default=0.0, ge=-1, le=1)
    intensity: float = Field(default=0.0, ge=0, le=10)


class PersonState(_Model):
    """One participant.

    Attributes:
        emotion: the latest reading, smoothed in valence and intensity.
        emotion_evidence: ids of the turns it rests on.
        turns: number of turns spoken.
        words: number of words spoken.
        floor_share: own words over all participants' words, 0 to 1.
        profile: decayed shares of utterance types, summing to 1 once the person has spoken.
        pursuit: decayed tendency to press (0 to 1).
        withdrawal: decayed tendency to retreat (0 to 1).
        last_turn: id of the last own turn, or None.
    """

    emotion: Emotion = Field(default_factory=Emotion)
    emotion_evidence: list[int] = Field(default_factory=list)
    turns: int = 0
    words: int = 0
    floor_share: float = 0.0
    profile: dict[str, float] = Field(default_factory=dict)
    pursuit: float = 0.0
    withdrawal: float = 0.0
    last_turn: int | None = None


class Stance(_Model):
    """How ``source`` stands towards ``target``.

    Attributes:
        kind: ally, conflict, mixed or neutral, derived from the two warmth sums.
        strength: 0 to 1.
        warmth: decayed evidence for alliance, >= 0.
        tension: decayed evidence for conflict, >= 0.
        viewpoint: what the source thinks of the target, in words.
        attitude: the tone of it, in one or two words.
        evidence: ids of the turns it rests on.
        viewpoint_evidence: ids of the turns the viewpoint was read from.
    """

    kind: StanceKind = "neutral"
    strength: float = 0.0
    warmth: float = 0.0
    tension: float = 0.0
    viewpoint: str = ""
    attitude: str = ""
    evidence: list[int] = Field(default_factory=list)
    viewpoint_evidence: list[int] = Field(default_factory=list)


class Bid(_Model):
    """Something a person reached out with that still waits for an answer."""

    turn_id: int
    source: str
    target: str
    kind: Literal["request", "repair", "disclosure"]


class PatternPoint(_Model):
    """The leading pattern after a turn."""

    turn_id: int
    label: str
    probability: float


class Move(_Model):
    """A turn of the supporting side: whom it was spoken to, and how (best guess)."""

    turn_id: int
    target: str
    strategy: str = ""


class RelationalState(_Model):
    """The whole picture after a turn.

    Attributes:
        scenario: couple or family.
        participants: names in order of first appearance.
        people: per participant.
        stances: source -> target -> stance, for ordered pairs with any evidence.
        pattern: distribution over the scenario's patterns (sums to 1; empty before any turn).
        pattern_history: the leading pattern's recent course.
        pursuer: who presses, when one clearly does.
        withdrawer: who retreats, when one clearly does.
        bids: open bids, oldest first.
        moves: recent moves of the supporting side, newest last.
        support: turns of the supporting side spoken to each participant (a turn to the group
            counts in equal parts), floats.
        last_turn: id of the newest turn taken in, or None.
        quiet_turns: participants' turns since the supporting side last spoke.
        rejected: beliefs a person marked as wrong: "emotion:NAME" or "viewpoint:A>B" to the
            turn ids that may not found them again.
    """

    scenario: Scenario
    participants: list[str] = Field(default_factory=list)
    people: dict[str, PersonState] = Field(default_factory=dict)
    stances: dict[str, dict[str, Stance]] = Field(default_factory=dict)
    pattern: dict[str, float] = Field(default_factory=dict)
    pattern_history: list[PatternPoint] = Field(default_factory=list)
    pursuer: str | None = None
    withdrawer: str | None = None
    bids: list[Bid] = Field(default_factory=list)
    moves: list[Move] = Field(default_factory=list)
    support: dict[str, float] = Field(default_factory=dict)
    last_turn: int | None = None
    quiet_turns: int = 0
    rejected: dict[str, list[int]] = Field(default_factory=dict)

    def stance(self, source: str, target: str) -> Stance:
        """Return the stance of ``source`` towards ``target`` (neutral when nothing is known)."""
        return self.stances.get(source, {}).get(target) or Stance()

"""What a policy read out of new turns: the input of the state's update."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from agent.decision import Ranked
from agent.state import Emotion


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StanceReading(_Model):
    """How the speaker stood towards one other participant in this turn.

    Attributes:
        target: the other participant.
        warmth: 0 to 1.
        tension: 0 to 1.
        viewpoint: what the speaker thinks of them, in words; "" when nothing was said.
        attitude: one or two words; "" when nothing was said.
    """

    target: str
    warmth: float = Field(default=0.0, ge=0, le=1)
    tension: float = Field(default=0.0, ge=0, le=1)
    viewpoint: str = ""
    attitude: str = ""


class TurnReading(_Model):
    """The reading of one turn.

    Attributes:
        turn_id: the turn.
        speaker: its speaker.
        addressees: the turn's addressees: as given, else inferred.
        utterance_types: distribution over ``labels.UTTERANCE_TYPES`` (participants' turns).
        emotion: the speaker's emotion, or None (the therapist's turns).
        stances: towards other participants.
        strategies: distribution over the scenario's strategies (the therapist's turns).
        extras: further numbers a policy wants to find again on later turns.
    """

    turn_id: int
    speaker: str
    addressees: tuple[str, ...] = ()
    utterance_types: dict[str, float] = Field(default_factory=dict)
    emotion: Emotion | None = None
    stances: tuple[StanceReading, ...] = ()
    strategies: dict[str, float] = Field(default_factory=dict)
    extras: dict[str, float] = Field(default_factory=dict)


class Plan(_Model):
    """A whole decision made in one go by a policy that reads and decides in the same call.

    Attributes:
        probability: of intervening now, 0 to 1.
        targets: best first.
        strategies: per possible target, best first. Asked for each target, so that a known
            target (SSP in the paper's setting) never has to enter the prompt.
        reasons: short sentences.
        evidence: turn ids.
    """

    probability: float = Field(ge=0, le=1)
    targets: tuple[Ranked, ...]
    strategies: dict[str, tuple[Ranked, ...]]
    reasons: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()


class Reading(_Model):
    """Everything read in one look at the conversation.

    Attributes:
        turns: one reading per new turn, in order.
        pattern: distribution over the scenario's patterns when the same look gave one.
        plan: the decision when the same look gave one.
    """

    turns: tuple[TurnReading, ...]
    pattern: dict[str, float] | None = None
    plan: Plan | None = None

"""What the room remembers about care it gave, and what it plans to say. JSON-able, no words kept.

The state lists what was asked, offered and answered. It holds no score, no level and no label on
a person (NICE NG225), and no sentence of anybody.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.labels import Scenario
from agent.safety.types import Flag, Kind, Source

Topic = Literal[
    "self_harm",
    "violence",
    "coercive_control",
    "child_abuse",
    "medical",
    "actor",
    "target",
    "other",
    "company",
]
"""What a message is about: the kinds of concern, seen from the person it goes to.

``company`` is a question alone: whether somebody is, or could be, with them.
"""


CHECKS_KEPT: Final = 400
"""Pieces of evidence a room keeps."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Check(_Model):
    """What each layer made of one turn: the evidence behind what was done.

    Attributes:
        seq: the turn's place in the room's transcript.
        kind: the kind of concern.
        rule: the rule that found it, "" when only the language model did.
        sources: the layers that raised it.
        cleared_by: the layer that took the alarm back, or None.
    """

    seq: int
    kind: Kind
    rule: str
    sources: tuple[Source, ...]
    cleared_by: Literal["llm"] | None = None


class PersonCare(_Model):
    """What was said to one person and what they chose.

    Attributes:
        turns: turns of theirs that were looked at.
        spoken: those among them that everybody heard.
        noticed: kind -> their turn at which a doubtful alarm was last kept back.
        overheard: kind -> their public turn at which one was last found: what everybody may
            notice rests on that alone.
        asked: topic -> their turn at which the direct question was last put.
        given: kind of help -> their turn at which places were last named.
        count: topic -> how many messages it has had.
        waiting: the topic whose question has no answer yet.
        unsure: answers to it that were neither yes nor no and were left at that.
        crisis: the place of the public line in which they last spoke of ending their life, and
            their public turns up to it; None when there is none, or they answered "no" since.
        silent: public turns by others, while they were there, since their last one.
        invited: whether they were invited to speak, which happens once.
        reminded: time of their own last reminder that this is an AI, seconds since the epoch.
        told_audience: whether they know who sees these messages.
        country: ISO code they chose or their browser named; None when not known.
        language: ISO code they last used, or their browser named; None when not known.
        country_asked: whether the room asked them for the country.
    """

    turns: int = 0
    spoken: int = 0
    noticed: dict[Kind, int] = Field(default_factory=dict)
    overheard: dict[Kind, int] = Field(default_factory=dict)
    asked: dict[Topic, int] = Field(default_factory=dict)
    given: dict[str, int] = Field(default_factory=dict)
    count: dict[Topic, int] = Field(default_factory=dict)
    waiting: Topic | None = None
    unsure: int = 0
    crisis: tuple[int, int] | None = None
    silent: int = 0
    invited: bool = False
    reminded: float | None = None
    told_audience: bool = False
    country: str | None = None
    language: str | None = None
    country_asked: bool = False


class CareState(_Model):
    """A room's care, stored beside the transcript.

    Attributes:
        people: by name.
        joint_off: joint strategies stay off from now on.
        joint_since: the turn they went off with, or None.
        harm_aloud: harm between people was spoken of for everybody to hear.
        general_due: the note to everybody waits for the next public turn.
        general_told: it was given: a second one would tell when somebody whispered again.
        minors: people who said to be under eighteen, for everybody to hear.
        minors_alone: people who said so to the agent alone: no public word may rest on it.
        reminded: time of the last reminder that this is an AI, seconds since the epoch.
        looked: per thread ("" for the public one) the last turn looked at.
        checks: evidence, oldest first.
    """

    people: dict[str, PersonCare] = Field(default_factory=dict)
    joint_off: bool = False
    joint_since: int | None = None
    harm_aloud: bool = False
    general_due: bool = False
    general_told: bool = False
    minors: tuple[str, ...] = ()
    minors_alone: tuple[str, ...] = ()
    reminded: float | None = None
    looked: dict[str, int] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()

    def of(self, name: str) -> PersonCare:
        """Return what is known of a person, empty at first."""
        return self.people.get(name, PersonCare())

    def with_person(self, name: str, person: PersonCare) -> CareState:
        """Return the state with one person replaced."""
        return self.model_copy(update={"people": {**self.people, name: person}})

    def without(self, seqs: set[int]) -> CareState:
        """Return the state without the evidence of erased turns; what was decided stays decided."""
        return self.model_copy(
            update={"checks": tuple(c for c in self.checks if c.seq not in seqs)}
        )

    def without_person(self, name: str) -> CareState:
        """Return the state without a person."""
        return self.model_copy(
            update={
                "people": {n: p for n, p in self.people.items() if n != name},
                "minors": tuple(n for n in self.minors if n != name),
                "minors_alone": tuple(n for n in self.minors_alone if n != name),
                "looked": {n: s for n, s in self.looked.items() if n != name},
            }
        )


@dataclass(frozen=True)
class Heard:
    """A turn that was just said.

    Attributes:
        seq: its place in the transcript.
        speaker: who said it.
        text: the words.
        private: said to the agent alone.
        at: seconds since the epoch.
    """

    seq: int
    speaker: str
    text: str
    private: bool = False
    at: float = 0.0


@dataclass(frozen=True)
class Setting:
    """The room around a turn.

    Attributes:
        scenario: couple or family.
        people: names of those who take part.
        here: those among them who are there just now.
        minors: names of those under eighteen, by their place in the room.
        shared_screen: everybody looks at one screen, so nothing is private.
        country: of the installation, where the operator set one.
        paused: the room asked for quiet: a whisper is looked at for danger and nothing else.
    """

    scenario: Scenario
    people: tuple[str, ...]
    minors: frozenset[str] = frozenset()
    shared_screen: bool = False
    country: str | None = None
    paused: bool = False
    here: tuple[str, ...] = ()


@dataclass(frozen=True)
class Message:
    """Words for one person alone."""

    to: str
    text: str


@dataclass(frozen=True)
class CarePlan:
    """What to do about a turn.

    Attributes:
        private: messages to single persons, in order.
        public: words for the whole room, or None.
        notice: a passing note for everybody, or None.
        strategies_off: strategies no public or private decision may use from now on.
        careful: replies may not take for granted that nobody is at fault.
        hold: the policy's own reply to this turn is left out.
        switched: joint strategies went off with this turn.
    """

    private: tuple[Message, ...] = ()
    public: str | None = None
    notice: str | None = None
    strategies_off: frozenset[str] = frozenset()
    careful: bool = False
    hold: bool = False
    switched: bool = False


def evidence_of(
    seq: int,
    flags: Sequence[Flag],
    cleared: Sequence[Flag] = (),
    agreed: Collection[Kind] = (),
) -> tuple[Check, ...]:
    """Return what is kept as evidence for a turn: rules and layers, no words.

    Args:
        seq: the turn's place in the transcript.
        flags: alarms that stand.
        cleared: alarms that the language model took back.
        agreed: kinds that both layers raised.
    """
    both: tuple[Source, ...] = ("rules", "llm")
    standing = [
        Check(
            seq=seq,
            kind=f.kind,
            rule=f.evidence.rule,
            sources=both if f.kind in agreed else (f.source,),
        )
        for f in flags
    ]
    gone = [
        Check(seq=seq, kind=f.kind, rule=f.evidence.rule, sources=(f.source,), cleared_by="llm")
        for f in cleared
    ]
    return (*standing, *gone)

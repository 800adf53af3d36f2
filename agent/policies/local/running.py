"""The running picture of one conversation, updated turn by turn at constant cost.

Everything the heads read is kept here: decayed profiles per person, decayed moves of the
supporting side, and small records of the newest turns. Nothing depends on names or on the
order in which people are listed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.conversation import Turn
from agent.encoder import DIMENSION
from agent.labels import GROUP_LABEL, RESERVED_NAMES, THERAPIST, Scenario
from agent.policies.local import level1
from agent.policies.local.text import words_of

Array = NDArray[np.float64]

KEPT: Final = 16
"""Newest turns kept as records."""
FAST: Final = 0.5
SLOW: Final = 0.85
_MEDIAN_GAP: Final = 0.4
_WORDS_PER_SECOND: Final = 2.7
_OVERLAP: Final = 0.05
_N_SPEAKER: Final = level1.SPEAKER.stop - level1.SPEAKER.start
_N_SUPPORT: Final = level1.SUPPORT.stop - level1.SUPPORT.start


@dataclass(slots=True)
class Person:
    """One participant. ``last`` and ``asked`` are positions of turns, -1 for never."""

    fast: Array = field(default_factory=lambda: np.zeros(_N_SPEAKER))
    slow: Array = field(default_factory=lambda: np.zeros(_N_SPEAKER))
    total: Array = field(default_factory=lambda: np.zeros(_N_SPEAKER))
    newest: Array = field(default_factory=lambda: np.zeros(_N_SPEAKER))
    fast_weight: float = 0.0
    slow_weight: float = 0.0
    turns: int = 0
    words: float = 0.0
    floor: float = 0.0
    floor_fast: float = 0.0
    last: int = -1
    asked: int = -1
    supported: float = 0.0
    support_turns: float = 0.0
    voice: Array = field(default_factory=lambda: np.zeros(DIMENSION))

    def fast_profile(self) -> Array:
        """The newest few own turns' mean outputs."""
        return self.fast / self.fast_weight if self.turns else self.fast

    def slow_profile(self) -> Array:
        """The last dozen own turns' mean outputs."""
        return self.slow / self.slow_weight if self.turns else self.slow

    def mean_profile(self) -> Array:
        """The mean over all own turns, drawn to zero while they are few."""
        return self.total / (self.turns + 2)


@dataclass(frozen=True, slots=True)
class Record:
    """One turn as the heads see it.

    Attributes:
        position: 0-based.
        turn_id: the turn's id.
        speaker: a name, or ``Therapist``.
        addressee: a name, ``Therapist``, the group label, or "" when unknown.
        words: number of words.
        duration: seconds.
        gap: seconds since the turn before ended, negative when they overlap.
        background: who spoke over it.
        counts: the surface counts.
        vector: the sentence vector.
        outputs: the level-1 outputs.
    """

    position: int
    turn_id: int
    speaker: str
    addressee: str
    words: int
    duration: float
    gap: float
    background: tuple[str, ...]
    text: str
    counts: Array
    vector: Array
    outputs: Array

    @property
    def by_agent(self) -> bool:
        """Whether the supporting side spoke."""
        return self.speaker == THERAPIST


def addressee_label(addressees: Iterable[str], scenario: Scenario) -> str:
    """Reduce addressees to one label: a name, the group's, ``Therapist``, or ""."""
    names = [a for a in addressees if a]
    people = [a for a in names if a != THERAPIST]
    if not people:
        return THERAPIST if names else ""
    return people[0] if len(people) == 1 else GROUP_LABEL[scenario]


class Running:
    """The picture after ``count`` turns."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario: Scenario = scenario
        self.group = GROUP_LABEL[scenario]
        self.people: dict[str, Person] = {}
        self.records: deque[Record] = deque(maxlen=KEPT)
        self.count = 0
        self.last_speaker: str | None = None
        self.quiet = 0
        self.support_run = 0
        self.last_support: Record | None = None
        self.alternation = 0.0
        self.overlap = 0.0
        self.gap = 0.0
        self.support_floor = 0.0
        self.pattern_slice = level1.SLICES[f"pattern_{scenario}"]
        size = self.pattern_slice.stop - self.pattern_slice.start
        self.pattern_fast = np.zeros(size)
        self.pattern_slow = np.zeros(size)
        self.pattern_total = np.zeros(size)
        self.support_fast = np.zeros(_N_SUPPORT)
        self.support_slow = np.zeros(_N_SUPPORT)
        self.next_move = np.zeros(len(level1.MOVES))
        self.vector_mean = np.zeros(DIMENSION)
        self._end: float | None = None

    def meet(self, names: Iterable[str]) -> None:
        """Add people who have not been met."""
        for name in names:
            if name and name not in self.people and name not in RESERVED_NAMES:
                self.people[name] = Person()

    @property
    def newest(self) -> Record | None:
        """The newest turn."""
        return self.records[-1] if self.records else None

    def others(self, name: str | None) -> list[str]:
        """People other than ``name``, the latest speakers first."""
        rest = [n for n in self.people if n != name]
        return sorted(rest, key=lambda n: (-self.people[n].last, -self.people[n].asked))

    def clear_first(self, names: Sequence[str]) -> str | None:
        """Return the first of ``names`` (from ``others``), None when another one ties with it."""
        standing = [(self.people[n].last, self.people[n].asked) for n in names[:2]]
        tied = len(standing) == 2 and standing[0] == standing[1]
        return names[0] if names and not tied else None

    def observe(
        self, turn: Turn, addressee: str, counts: Array, vector: Array, outputs: Array
    ) -> Record:
        """Take one turn in."""
        words = len(words_of(turn.text))
        duration, gap = self._clock(turn, words)
        record = Record(
            position=self.count,
            turn_id=turn.id,
            speaker=turn.speaker,
            addressee=addressee,
            words=words,
            duration=duration,
            gap=gap,
            background=tuple(line.speaker for line in turn.background),
            text=turn.text,
            counts=counts,
            vector=vector,
            outputs=outputs,
        )
        self.meet((addressee, *(() if turn.by_agent else (turn.speaker,))))
        self._age(record)
        if turn.by_agent:
            self._support(record)
        else:
            self._participant(record)
        for line in turn.background:
            if line.speaker in self.people:
                self.people[line.speaker].floor_fast += len(words_of(line.text))
        self.records.append(record)
        self.count += 1
        return record

    def _clock(self, turn: Turn, words: int) -> tuple[float, float]:
        start, end = turn.start, turn.end
        if start is None or end is None or end <= start:
            # a chat's message times say when a line was sent, not how it was spoken
            self._end = None
            return words / _WORDS_PER_SECOND, _MEDIAN_GAP if self.count else 0.0
        gap = start - self._end if self._end is not None else _MEDIAN_GAP if self.count else 0.0
        self._end = end
        return end - start, float(np.clip(gap, -2.0, 5.0))

    def _age(self, record: Record) -> None:
        self.overlap = self.overlap * 0.7 + 0.3 * float(record.gap < -_OVERLAP)
        self.gap = self.gap * 0.7 + 0.3 * record.gap
        scores = record.outputs[self.pattern_slice]
        self.pattern_fast = self.pattern_fast * 0.6 + scores
        self.pattern_slow = self.pattern_slow * 0.9 + scores
        self.pattern_total = self.pattern_total + scores
        self.vector_mean = self.vector_mean * 0.7 + record.vector
        for person in self.people.values():
            person.floor *= 0.9
            person.floor_fast *= 0.6
            person.supported *= 0.7
        self.support_floor *= 0.9

    def _support(self, record: Record) -> None:
        outputs = record.outputs[level1.SUPPORT]
        self.support_fast = self.support_fast * FAST + outputs
        self.support_slow = self.support_slow * SLOW + outputs
        self.support_run += 1
        self.quiet = 0
        self.last_support = record
        self.support_floor += record.words
        to_group = record.addressee == self.group
        for name in self.people if to_group else (record.addressee,):
            person = self.people.get(name)
            if person is not None:
                person.asked = record.position
                person.supported += 0.5 if to_group else 1.0
                person.support_turns += 1

    def _participant(self, record: Record) -> None:
        self.quiet += 1
        self.support_run = 0
        self.next_move = self.next_move * FAST + record.outputs[level1.SLICES["next_move"]]
        person = self.people.get(record.speaker)
        if person is None:  # a line of the whole group, or of nobody known
            return
        outputs = record.outputs[level1.SPEAKER]
        person.fast = person.fast * FAST + outputs
        person.fast_weight = person.fast_weight * FAST + 1
        person.slow = person.slow * SLOW + outputs
        person.slow_weight = person.slow_weight * SLOW + 1
        person.total = person.total + outputs
        person.newest = outputs
        person.turns += 1
        person.words += record.words
        person.floor += record.words
        person.floor_fast += record.words
        person.last = record.position
        person.voice = person.voice * 0.6 + record.vector
        switched = self.last_speaker not in (None, record.speaker)
        self.alternation = self.alternation * 0.8 + (0.2 if switched else 0.0)
        self.last_speaker = record.speaker

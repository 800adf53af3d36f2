"""Whom a turn is spoken to, when nobody says so.

Two logistic models score every possible listener: one for turns of participants (the supporting
side or another participant), one for turns of the supporting side (a participant or the
group). They read names called, who spoke and asked before, second and third person, and two
level-1 outputs; earlier turns count with the addressees inferred for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.conversation import Turn
from agent.labels import THERAPIST
from agent.policies.local import level1
from agent.policies.local.running import Record, Running
from agent.policies.local.text import SURFACE, calls, mentions

Array = NDArray[np.float64]

PARTICIPANT_FEATURES: Final = 25
SUPPORT_FEATURES: Final = 19
_TO_SUPPORT: Final = level1.SLICES["to_support"].start
_TO_GROUP: Final = level1.SLICES["to_group"].start
_YOU, _THEY, _WE, _ASKS, _SHORT = (
    SURFACE.index(n) for n in ("rate_you", "rate_they", "rate_we", "ends_asking", "short")
)
_CALLED: Final = 3.0
"""Added for a name called: too rare in recorded sessions (1 turn in 200) to be learned there,
common where people write to each other."""
_BOTH: Final = re.compile(
    r"\b(?:both|you two|you three|you guys|you all|each other|one another|everyone|everybody"
    r"|together|family|couple)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Listener:
    """The two models' weights; the last entry is the constant.

    Attributes:
        participant: shape (PARTICIPANT_FEATURES + 1,).
        support: shape (SUPPORT_FEATURES + 1,).
    """

    participant: Array
    support: Array

    def scores(
        self, running: Running, turn: Turn, counts: Array, outputs: Array
    ) -> dict[str, float]:
        """Return a score per possible listener, the highest for the likeliest.

        Args:
            running: the picture before the turn.
            turn: the turn.
            counts: its surface counts.
            outputs: its level-1 outputs.
        """
        weights = self.support if turn.by_agent else self.participant
        called = _vocative(running, turn)
        return {
            name: float(row @ weights[:-1] + weights[-1]) + _CALLED * (name in called)
            for name, row in listener_rows(running, turn, counts, outputs).items()
        }

    def infer(self, running: Running, turn: Turn, counts: Array, outputs: Array) -> str:
        """Return the likeliest listener: a name, the group label or ``Therapist``."""
        scores = self.scores(running, turn, counts, outputs)
        # equal scores: people nobody could tell apart yet, in the order of their names
        return max(sorted(scores), key=lambda name: scores[name])


def listener_rows(running: Running, turn: Turn, counts: Array, outputs: Array) -> dict[str, Array]:
    """Return the features of every possible listener of a turn."""
    if turn.by_agent:
        names = [*running.people, running.group]
        return {n: _support_row(running, turn, counts, outputs, n) for n in names}
    names = [n for n in running.people if n != turn.speaker]
    return {n: _participant_row(running, turn, counts, outputs, n) for n in (THERAPIST, *names)}


def _previous_own(running: Running, speaker: str) -> Record | None:
    return next((r for r in reversed(running.records) if r.speaker == speaker), None)


def _called(running: Running, turn: Turn) -> set[str]:
    return {n for n in running.people if n != turn.speaker and mentions(turn.text, n)}


def _vocative(running: Running, turn: Turn) -> set[str]:
    return {n for n in running.people if n != turn.speaker and calls(turn.text, n)}


def _participant_row(
    running: Running, turn: Turn, counts: Array, outputs: Array, name: str
) -> Array:
    newest, own = running.newest, _previous_own(running, turn.speaker)
    called, spoken_to = _called(running, turn), _vocative(running, turn)
    support = float(name == THERAPIST)
    person = 1.0 - support
    before = newest.speaker if newest else ""
    to_before = newest.addressee if newest else ""
    follows_self = before == turn.speaker
    asked = running.last_support is not None and running.last_support.addressee == turn.speaker
    last = running.people[name].last if name in running.people else -1
    lean = float(outputs[_TO_SUPPORT]) - 0.5
    return np.array(
        [
            support,
            support * lean,
            person * lean,
            float(name in called),
            person * float(bool(called) and name not in called),
            support * float(bool(called)),
            float(before == name),
            float(before == name and to_before == turn.speaker),
            float(not follows_self and to_before == name),
            float(follows_self and to_before == name),
            float(not follows_self and own is not None and own.addressee == name),
            support * float(asked),
            support * float(asked and running.quiet == 0),
            support * float(running.support_run > 0),
            support * min(running.quiet, 5) / 5,
            person * float(counts[_YOU]),
            support * float(counts[_YOU]),
            support * float(counts[_THEY]),
            person * float(counts[_ASKS]),
            support * float(counts[_SHORT]),
            person * (1.0 / (1 + running.count - last) if last >= 0 else 0.0),
            person * (max(0, len(running.people) - 2)),
            float(name in spoken_to),
            person * float(bool(spoken_to) and name not in spoken_to),
            support * float(bool(spoken_to)),
        ]
    )


def _support_row(running: Running, turn: Turn, counts: Array, outputs: Array, name: str) -> Array:
    newest, called = running.newest, _called(running, turn)
    spoken_to = _vocative(running, turn)
    group = float(name == running.group)
    person = 1.0 - group
    before = running.last_support
    again = newest is not None and newest.by_agent
    last = running.people[name].last if name in running.people else -1
    lean = float(outputs[_TO_GROUP])
    return np.array(
        [
            group,
            group * lean,
            group * float(bool(_BOTH.search(turn.text))),
            group * float(len(called) > 1),
            group * float(running.count == 0),
            float(name in called),
            float(name in called and len(called) == 1),
            person * float(bool(called) and name not in called),
            float(name == running.last_speaker),
            float(newest is not None and newest.speaker == name and newest.addressee == THERAPIST),
            float(newest is not None and newest.speaker != name and newest.addressee == name),
            float(again and before is not None and before.addressee == name),
            float(not again and before is not None and before.addressee == name),
            group * float(counts[_WE]),
            person * float(counts[_YOU]),
            float(name == running.last_speaker) * float(counts[_SHORT]),
            person * (1.0 / (1 + running.count - last) if last >= 0 else 0.0),
            float(name in spoken_to),
            float(bool(spoken_to) and name not in spoken_to),
        ]
    )

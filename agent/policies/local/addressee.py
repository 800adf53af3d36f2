"""Whom a turn is spoken to, when nobody says so.

Used in live rooms, and in the replay with inferred addressees. Evidence, strongest first: a
name called, an answer to whoever asked, what the words sound like (two level-1 heads), habit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.conversation import Turn
from agent.labels import THERAPIST
from agent.policies.local import level1
from agent.policies.local.running import Running
from agent.policies.local.text import mentions

Array = NDArray[np.float64]

_TO_SUPPORT: Final = level1.SLICES["to_support"].start
_TO_GROUP: Final = level1.SLICES["to_group"].start


def infer(running: Running, turn: Turn, outputs: Array) -> str:
    """Return the likely addressee: a name, the group label or ``Therapist``.

    Args:
        running: the picture before the turn.
        turn: the turn.
        outputs: its level-1 outputs.
    """
    called = [n for n in running.people if n != turn.speaker and mentions(turn.text, n)]
    if turn.by_agent:
        return _from_support(running, called, outputs)
    return _from_participant(running, turn, called, outputs)


def _from_support(running: Running, called: list[str], outputs: Array) -> str:
    if outputs[_TO_GROUP] >= 0.5 or not running.people:
        return running.group
    if len(called) == 1:
        return called[0]
    newest = running.newest
    if newest is not None and newest.by_agent and newest.addressee:
        return newest.addressee
    return running.last_speaker or running.group


def _from_participant(running: Running, turn: Turn, called: list[str], outputs: Array) -> str:
    score = outputs[_TO_SUPPORT]
    newest = running.newest
    if newest is not None:
        if newest.by_agent:
            score += 0.25
        elif newest.speaker == turn.speaker:
            score += 0.2 if newest.addressee == THERAPIST else -0.3
        else:
            score += 0.1 if newest.addressee == THERAPIST else -0.35
    if score >= 0.5:
        return THERAPIST
    if len(called) == 1:
        return called[0]
    others = running.others(turn.speaker)
    return others[0] if others else THERAPIST

"""What was said for all to hear, and what it means for the agent's public lines (S4, S22).

Nothing in here rests on a whisper: what the others can see must not tell that there was one (S16).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from agent.labels import STRATEGIES, Scenario
from agent.safety.care_state import CareState, Heard
from agent.safety.care_weigh import topic_of
from agent.safety.types import Flag, Kind

JOINT: Final = frozenset({"enact", "join", "repair", "detach", "goal_align", "reframe"})
"""Strategies that ask both to take part, or take for granted that nobody is at fault."""
SUPPORTIVE: Final = frozenset({"safeguard", "join"})
"""Strategies that shelter or stand beside somebody, and neither probe nor explain."""
OPEN_TURNS: Final = 6
"""Public turns of a person after which a crisis they spoke of aloud is no longer open."""
SILENT_TURNS: Final = 8
"""Public turns by others after which somebody who is there counts as silent."""


def strategies_off(state: CareState, scenario: Scenario) -> frozenset[str]:
    """Return the joint strategies where somebody may be harmed by somebody (S15)."""
    return JOINT & frozenset(STRATEGIES[scenario]) if state.joint_off else frozenset()


def avoided(state: CareState, scenario: Scenario) -> frozenset[str]:
    """Return the strategies that no decision may use now (S4, S15)."""
    off = strategies_off(state, scenario)
    return off | (frozenset(STRATEGIES[scenario]) - SUPPORTIVE) if crisis_open(state) else off


def crisis_open(state: CareState) -> bool:
    """Return whether somebody spoke aloud of ending their life a few turns ago."""
    return any(
        p.crisis is not None and p.spoken - p.crisis[1] < OPEN_TURNS for p in state.people.values()
    )


def as_seen(state: CareState, people: Collection[str], upto: int | None = None) -> CareState:
    """Return the state for a decision: open crises of those who take part, up to a turn.

    Args:
        state: of the room.
        people: whose crises count: nobody's in a private talk, which may go into it.
        upto: the newest turn the decision may know; None for the newest there is.
    """
    changed = {
        name: person.model_copy(update={"crisis": None})
        for name, person in state.people.items()
        if person.crisis is not None
        and (name not in people or (upto is not None and person.crisis[0] > upto))
    }
    return state.model_copy(update={"people": {**state.people, **changed}}) if changed else state


def noted(
    state: CareState, heard: Heard, flags: Sequence[Flag], quiet: Collection[Kind]
) -> CareState:
    """Return the state after a turn, with the crisis its speaker spoke of aloud."""
    aloud = any(f.kind == "self_harm" and topic_of(f, heard.speaker) == "self_harm" for f in flags)
    if heard.private or not aloud or "self_harm" in quiet:
        return state
    person = state.of(heard.speaker)
    changed = person.model_copy(update={"crisis": (heard.seq, person.spoken)})
    return state.with_person(heard.speaker, changed)


def counted(state: CareState, heard: Heard, here: Sequence[str]) -> CareState:
    """Return the state after a turn, with how long each person there has not spoken aloud."""
    if heard.private:
        return state
    for name in dict.fromkeys((heard.speaker, *here)):
        person = state.of(name)
        silent = 0 if name == heard.speaker else person.silent + 1
        state = state.with_person(name, person.model_copy(update={"silent": silent}))
    return state


def to_invite(state: CareState, here: Sequence[str], spoken_to: str) -> str | None:
    """Return who has been silent for long and was never invited: the longest silent, or None.

    Args:
        state: of the room.
        here: those who take part and are there.
        spoken_to: whom the line is for anyway.
    """
    if state.harm_aloud or crisis_open(state):
        return None
    waiting = [
        name
        for name in here
        if name != spoken_to
        and not state.of(name).invited
        and state.of(name).silent >= SILENT_TURNS
    ]
    return max(waiting, key=lambda name: state.of(name).silent, default=None)

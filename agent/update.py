"""How one turn changes the relational state: pure functions, no clock, no model.

Replaying the same turns with the same readings gives the same state. Nothing is changed in
place: a new state is returned that shares the untouched parts with the old one.
"""

from __future__ import annotations

from typing import Final

from agent.conversation import Turn
from agent.labels import GROUP_LABEL, RESERVED_NAMES, Scenario
from agent.reading import StanceReading, TurnReading
from agent.state import (
    EVIDENCE_KEPT,
    MOVES_KEPT,
    PATTERN_POINTS_KEPT,
    Bid,
    Emotion,
    Move,
    PatternPoint,
    PersonState,
    RelationalState,
    Stance,
    StanceKind,
)

PROFILE_DECAY: Final = 0.75
STANCE_DECAY: Final = 0.85
EMOTION_WEIGHT: Final = 0.65
"""Weight of the newest turn in the smoothed valence and intensity."""
BID_LIFETIME: Final = 12
"""Turn ids after which an unanswered bid is no longer counted as open."""
STANCE_FLOOR: Final = 0.25
"""Warmth or tension below this leaves a stance neutral."""

_BID_KINDS: Final = ("request", "repair", "disclosure")
_DODGES: Final = frozenset({"withdrawal", "accusation", "defense"})
_PRESSING: Final = ("accusation", "request")
_ROLE_MINIMUM: Final = 0.3
_ROLE_LEAD: Final = 0.12


def initial_state(scenario: Scenario, participants: tuple[str, ...] = ()) -> RelationalState:
    """Return the empty picture of a room."""
    return RelationalState(
        scenario=scenario,
        participants=list(participants),
        people={name: PersonState() for name in participants},
    )


def update(state: RelationalState, turn: Turn, reading: TurnReading) -> RelationalState:
    """Take one turn in.

    Args:
        state: the picture before the turn.
        turn: the turn.
        reading: what a policy read out of it (may be empty, never of another turn).

    Returns:
        The picture after the turn.

    Raises:
        ValueError: when the reading belongs to another turn, or the turn is not newer than the
            last one taken in.
    """
    if reading.turn_id != turn.id or reading.speaker != turn.speaker:
        raise ValueError(f"reading of turn {reading.turn_id} given for turn {turn.id}")
    if state.last_turn is not None and turn.id <= state.last_turn:
        raise ValueError(f"turn {turn.id} is not newer than turn {state.last_turn}")
    addressees = turn.addressees or reading.addressees
    state = _with_people(state, (turn.speaker, *addressees))
    if turn.by_agent:
        changed = _after_support(state, turn, reading, addressees)
    else:
        changed = _after_participant(state, turn, reading, addressees)
    return changed.model_copy(update={"last_turn": turn.id})


def with_pattern(
    state: RelationalState, turn_id: int, pattern: dict[str, float]
) -> RelationalState:
    """Set the group's pattern after a turn and extend its course."""
    if not pattern:
        return state
    label = max(pattern, key=lambda k: pattern[k])
    point = PatternPoint(turn_id=turn_id, label=label, probability=pattern[label])
    history = [p for p in state.pattern_history if p.turn_id != turn_id]
    return state.model_copy(
        update={
            "pattern": dict(pattern),
            "pattern_history": [*history, point][-PATTERN_POINTS_KEPT:],
        }
    )


def reject_emotion(state: RelationalState, person: str) -> RelationalState:
    """Forget what ``person`` was thought to feel, for good as far as that evidence goes.

    Raises:
        KeyError: when nobody of that name is in the room.
    """
    known = state.people[person]
    people = dict(state.people)
    people[person] = known.model_copy(update={"emotion": Emotion(), "emotion_evidence": []})
    return state.model_copy(
        update={
            "people": people,
            "rejected": _rejecting(state, f"emotion:{person}", known.emotion_evidence),
        }
    )


def reject_viewpoint(state: RelationalState, source: str, target: str) -> RelationalState:
    """Forget what ``source`` was thought to think of ``target``, and the stance built on it.

    Raises:
        KeyError: when there is no such stance.
    """
    stance = state.stances[source][target]
    stances = {name: dict(row) for name, row in state.stances.items()}
    del stances[source][target]
    evidence = sorted({*stance.evidence, *stance.viewpoint_evidence})
    return state.model_copy(
        update={
            "stances": stances,
            "rejected": _rejecting(state, f"viewpoint:{source}>{target}", evidence),
        }
    )


def _rejecting(state: RelationalState, key: str, turn_ids: list[int]) -> dict[str, list[int]]:
    rejected = dict(state.rejected)
    rejected[key] = sorted({*rejected.get(key, []), *turn_ids})
    return rejected


def _with_people(state: RelationalState, names: tuple[str, ...]) -> RelationalState:
    new = [n for n in dict.fromkeys(names) if n not in RESERVED_NAMES and n not in state.people]
    if not new:
        return state
    return state.model_copy(
        update={
            "participants": [*state.participants, *new],
            "people": {**state.people, **{name: PersonState() for name in new}},
        }
    )


def _after_support(
    state: RelationalState, turn: Turn, reading: TurnReading, addressees: tuple[str, ...]
) -> RelationalState:
    named = [a for a in addressees if a in state.people]
    target = named[0] if len(named) == 1 else GROUP_LABEL[state.scenario]
    receivers = named or state.participants
    support = dict(state.support)
    for name in receivers:
        support[name] = support.get(name, 0.0) + 1.0 / len(receivers)
    strategy = max(reading.strategies, key=lambda k: reading.strategies[k], default="")
    move = Move(turn_id=turn.id, target=target, strategy=strategy)
    return state.model_copy(
        update={
            "support": support,
            "moves": [*state.moves, move][-MOVES_KEPT:],
            "quiet_turns": 0,
        }
    )


def _after_participant(
    state: RelationalState, turn: Turn, reading: TurnReading, addressees: tuple[str, ...]
) -> RelationalState:
    if turn.speaker not in state.people:
        # several spoke at once, or nobody knows who: the floor moved, but nobody's picture did
        return state.model_copy(update={"quiet_turns": state.quiet_turns + 1})
    people = dict(state.people)
    people[turn.speaker] = _person_after(state, turn, reading)
    total = sum(p.words for p in people.values())
    if total:
        people = {
            name: p.model_copy(update={"floor_share": p.words / total})
            for name, p in people.items()
        }
    bids = _bids_after(state, turn, reading, addressees)
    pursuer = _leader({name: p.pursuit for name, p in people.items()})
    withdrawer = _leader({name: p.withdrawal for name, p in people.items()})
    return state.model_copy(
        update={
            "people": people,
            "stances": _stances_after(state, turn, reading),
            "bids": bids,
            "pursuer": pursuer,
            "withdrawer": withdrawer if withdrawer != pursuer else None,
            "quiet_turns": state.quiet_turns + 1,
        }
    )


def _person_after(state: RelationalState, turn: Turn, reading: TurnReading) -> PersonState:
    old = state.people[turn.speaker]
    types = reading.utterance_types
    first = not old.profile
    profile = old.profile
    pursuit, withdrawal = old.pursuit, old.withdrawal
    if types:
        keys = dict.fromkeys((*old.profile, *types))
        keep = 0.0 if first else PROFILE_DECAY
        profile = {k: keep * old.profile.get(k, 0.0) + (1 - keep) * types.get(k, 0.0) for k in keys}
        pressing = sum(types.get(k, 0.0) for k in _PRESSING)
        pursuit = keep * old.pursuit + (1 - keep) * pressing
        withdrawal = keep * old.withdrawal + (1 - keep) * types.get("withdrawal", 0.0)
    emotion, evidence = _emotion_after(state, turn, reading, old)
    return old.model_copy(
        update={
            "emotion": emotion,
            "emotion_evidence": evidence,
            "turns": old.turns + 1,
            "words": old.words + len(turn.text.split()),
            "profile": profile,
            "pursuit": pursuit,
            "withdrawal": withdrawal,
            "last_turn": turn.id,
        }
    )


def _emotion_after(
    state: RelationalState, turn: Turn, reading: TurnReading, old: PersonState
) -> tuple[Emotion, list[int]]:
    read = reading.emotion
    if read is None or turn.id in state.rejected.get(f"emotion:{turn.speaker}", ()):
        return old.emotion, old.emotion_evidence
    weight = EMOTION_WEIGHT if old.emotion_evidence else 1.0
    emotion = Emotion(
        description=read.description or old.emotion.description,
        valence=weight * read.valence + (1 - weight) * old.emotion.valence,
        intensity=weight * read.intensity + (1 - weight) * old.emotion.intensity,
    )
    return emotion, [*old.emotion_evidence, turn.id][-EVIDENCE_KEPT:]


def _stances_after(
    state: RelationalState, turn: Turn, reading: TurnReading
) -> dict[str, dict[str, Stance]]:
    readings = [
        s
        for s in reading.stances
        if s.target in state.people
        and s.target != turn.speaker
        and turn.id not in state.rejected.get(f"viewpoint:{turn.speaker}>{s.target}", ())
    ]
    if not readings:
        return state.stances
    row = dict(state.stances.get(turn.speaker, {}))
    for read in readings:
        row[read.target] = _stance_after(row.get(read.target, Stance()), turn.id, read)
    return {**state.stances, turn.speaker: row}


def _stance_after(old: Stance, turn_id: int, read: StanceReading) -> Stance:
    warmth = STANCE_DECAY * old.warmth + (1 - STANCE_DECAY) * 2 * read.warmth
    tension = STANCE_DECAY * old.tension + (1 - STANCE_DECAY) * 2 * read.tension
    says_something = bool(read.viewpoint or read.attitude)
    return Stance(
        kind=stance_kind(warmth, tension),
        strength=min(1.0, max(warmth, tension)),
        warmth=warmth,
        tension=tension,
        viewpoint=read.viewpoint or old.viewpoint,
        attitude=read.attitude or old.attitude,
        evidence=[*old.evidence, turn_id][-EVIDENCE_KEPT:],
        viewpoint_evidence=[*old.viewpoint_evidence, turn_id][-EVIDENCE_KEPT:]
        if says_something
        else old.viewpoint_evidence,
    )


def stance_kind(warmth: float, tension: float) -> StanceKind:
    """Name a stance: ``mixed`` when both are there and neither is twice the other."""
    high, low = max(warmth, tension), min(warmth, tension)
    if high < STANCE_FLOOR:
        return "neutral"
    if low >= STANCE_FLOOR and high < 2 * low:
        return "mixed"
    return "ally" if warmth > tension else "conflict"


def _bids_after(
    state: RelationalState, turn: Turn, reading: TurnReading, addressees: tuple[str, ...]
) -> list[Bid]:
    types = reading.utterance_types
    leading = max(types, key=lambda k: types[k], default="")
    answers = leading not in _DODGES
    bids = [
        b
        for b in state.bids
        if turn.id - b.turn_id <= BID_LIFETIME
        and not (answers and b.target == turn.speaker and b.source in addressees)
    ]
    if leading in _BID_KINDS:
        waiting = {(b.source, b.target) for b in bids}
        bids += [
            Bid.model_validate(
                {"turn_id": turn.id, "source": turn.speaker, "target": name, "kind": leading}
            )
            for name in addressees
            if name in state.people and name != turn.speaker and (turn.speaker, name) not in waiting
        ]
    return bids


def _leader(scores: dict[str, float]) -> str | None:
    """Return who leads clearly, or None."""
    if len(scores) < 2:
        return None
    (first, top), (_, second) = sorted(scores.items(), key=lambda kv: -kv[1])[:2]
    return first if top >= _ROLE_MINIMUM and top - second >= _ROLE_LEAD else None

"""The relational state: what a turn changes, evidence, corrections, determinism."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.conversation import Turn
from agent.labels import PATTERNS, UTTERANCE_TYPES
from agent.reading import StanceReading, TurnReading
from agent.state import Emotion, RelationalState
from agent.update import (
    initial_state,
    reject_emotion,
    reject_viewpoint,
    stance_kind,
    update,
    with_pattern,
)

NAMES = ("Ana", "Ben", "Cy")


def said(i: int, speaker: str, to: tuple[str, ...], text: str = "some words here") -> Turn:
    return Turn(id=i, speaker=speaker, text=text, addressees=to)


def read(turn: Turn, kind: str = "accusation", **extra: object) -> TurnReading:
    types = {} if turn.by_agent else {kind: 1.0}
    return TurnReading(turn_id=turn.id, speaker=turn.speaker, utterance_types=types, **extra)


def blame(target: str) -> StanceReading:
    return StanceReading(target=target, tension=1.0, viewpoint="is never there", attitude="bitter")


def test_a_turn_changes_the_speaker_and_nobody_else() -> None:
    before = initial_state("couple", ("Ana", "Ben"))
    turn = said(1, "Ana", ("Ben",))
    after = update(
        before,
        turn,
        read(
            turn,
            emotion=Emotion(description="lonely", valence=-0.6, intensity=7),
            stances=(blame("Ben"),),
        ),
    )
    assert before == initial_state("couple", ("Ana", "Ben"))
    ana, ben = after.people["Ana"], after.people["Ben"]
    assert (ana.turns, ana.words, ana.floor_share) == (1, 3, 1.0)
    assert ana.emotion.description == "lonely" and ana.emotion_evidence == [1]
    assert ben.turns == 0 and ben.emotion_evidence == []
    stance = after.stance("Ana", "Ben")
    assert stance.tension > 0 and stance.evidence == [1] and stance.viewpoint == "is never there"
    assert after.stance("Ben", "Ana").evidence == []


def test_repeated_blame_becomes_conflict_and_its_evidence_is_kept() -> None:
    state = initial_state("couple", ("Ana", "Ben"))
    for i in range(1, 10):
        turn = said(i, "Ana", ("Ben",))
        state = update(state, turn, read(turn, stances=(blame("Ben"),)))
    stance = state.stance("Ana", "Ben")
    assert stance.kind == "conflict" and stance.strength == 1.0
    assert stance.evidence == [4, 5, 6, 7, 8, 9]


def test_who_presses_and_who_retreats() -> None:
    state = initial_state("couple", ("Ana", "Ben"))
    for i in range(1, 9):
        who, kind = ("Ana", "request") if i % 2 else ("Ben", "withdrawal")
        turn = said(i, who, ("Ben" if i % 2 else "Ana",))
        state = update(state, turn, read(turn, kind))
    assert (state.pursuer, state.withdrawer) == ("Ana", "Ben")


def test_a_bid_stays_open_until_it_is_answered_and_a_dodge_is_no_answer() -> None:
    state = initial_state("couple", ("Ana", "Ben"))
    for i, who, kind, open_bids in (
        (1, "Ana", "request", 1),
        (2, "Ben", "withdrawal", 1),
        (3, "Ben", "validation", 0),
    ):
        turn = said(i, who, ("Ben",) if who == "Ana" else ("Ana",))
        state = update(state, turn, read(turn, kind))
        assert len(state.bids) == open_bids, i


def test_support_is_counted_for_those_spoken_to() -> None:
    state = initial_state("couple", ("Ana", "Ben"))
    for i, to in enumerate((("Ana",), ("Couple",), ("Ana", "Ben")), 1):
        turn = said(i, "Therapist", to)
        state = update(state, turn, read(turn))
    assert state.support == {"Ana": 2.0, "Ben": 1.0}
    assert [m.target for m in state.moves] == ["Ana", "Couple", "Couple"]


def test_a_group_or_unknown_speaker_moves_the_floor_only() -> None:
    state = initial_state("family", NAMES)
    for i, speaker in enumerate(("Family", "Nobody"), 1):
        turn = said(i, speaker, ("Therapist",))
        state = update(state, turn, read(turn))
    assert state.quiet_turns == 2 and all(p.turns == 0 for p in state.people.values())


def test_what_a_person_marked_as_wrong_does_not_come_back_from_the_same_evidence() -> None:
    def play(state: RelationalState) -> RelationalState:
        turn = said(1, "Ana", ("Ben",))
        emotion = Emotion(description="spiteful", valence=-0.9, intensity=9)
        return update(state, turn, read(turn, emotion=emotion, stances=(blame("Ben"),)))

    state = reject_viewpoint(reject_emotion(play(initial_state("couple")), "Ana"), "Ana", "Ben")
    assert state.people["Ana"].emotion == Emotion() and state.stances["Ana"] == {}
    again = play(initial_state("couple").model_copy(update={"rejected": state.rejected}))
    assert again.people["Ana"].emotion == Emotion() and again.stance("Ana", "Ben").viewpoint == ""
    turn = said(2, "Ana", ("Ben",))
    later = update(again, turn, read(turn, emotion=Emotion(description="sad", intensity=4)))
    assert later.people["Ana"].emotion.description == "sad"


@pytest.mark.parametrize("wrong", [(2, "Ana"), (1, "Ben")])
def test_a_reading_of_another_turn_is_refused(wrong: tuple[int, str]) -> None:
    with pytest.raises(ValueError, match="given for turn 1"):
        update(
            initial_state("couple"),
            said(1, "Ana", ()),
            TurnReading(turn_id=wrong[0], speaker=wrong[1]),
        )


def test_the_pattern_keeps_its_course() -> None:
    state = initial_state("couple")
    for i, label in enumerate(PATTERNS["couple"], 1):
        state = with_pattern(state, i, {label: 0.9})
    assert [p.label for p in state.pattern_history] == list(PATTERNS["couple"])
    assert state.pattern == {PATTERNS["couple"][-1]: 0.9}


@pytest.mark.parametrize(
    ("warmth", "tension", "kind"),
    [(0, 0, "neutral"), (0.9, 0.1, "ally"), (0.1, 0.9, "conflict"), (0.5, 0.6, "mixed")],
)
def test_stance_kinds(warmth: float, tension: float, kind: str) -> None:
    assert stance_kind(warmth, tension) == kind


turns = st.lists(
    st.tuples(
        st.sampled_from((*NAMES, "Therapist")),
        st.lists(st.sampled_from((*NAMES, "Therapist", "Family")), max_size=3, unique=True),
        st.sampled_from(UTTERANCE_TYPES),
        st.floats(-1, 1),
        st.floats(0, 10),
        st.floats(0, 1),
    ),
    max_size=25,
)


@given(turns)
def test_any_conversation_gives_one_valid_json_able_state(steps) -> None:
    def play() -> RelationalState:
        state = initial_state("family", NAMES)
        for i, (speaker, to, kind, valence, intensity, heat) in enumerate(steps, 1):
            turn = said(i, speaker, tuple(to))
            others = tuple(
                StanceReading(target=n, tension=heat, warmth=1 - heat)
                for n in to
                if n in NAMES and n != speaker
            )
            emotion = Emotion(valence=valence, intensity=intensity)
            state = update(state, turn, read(turn, kind, emotion=emotion, stances=others))
        return state

    state = play()
    assert play() == state
    assert RelationalState.model_validate_json(state.model_dump_json()) == state
    words = sum(p.words for p in state.people.values())
    shares = sum(p.floor_share for p in state.people.values())
    assert shares == pytest.approx(1.0 if words else 0.0)
    assert sum(state.support.values()) == pytest.approx(
        sum(1 for speaker, *_ in steps if speaker == "Therapist")
    )
    seen = {i for i, step in enumerate(steps, 1)}
    for row in state.stances.values():
        for stance in row.values():
            assert set(stance.evidence) <= seen and 0 <= stance.strength <= 1

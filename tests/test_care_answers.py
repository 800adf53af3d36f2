"""Answers to a direct question, and alarms that count only because of a whisper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.safety import cues, resources
from agent.safety.care import REMIND_SECONDS, care
from agent.safety.care_state import CareState, Heard
from agent.safety.care_words import word
from agent.safety.types import Evidence, Flag
from tests.test_care_rules import COUPLE, FAMILY, Talk


@pytest.mark.parametrize("text", ["I don't know", "I'm not sure", "No idea", "no lo sé", "不知道"])
@pytest.mark.parametrize("first", ["I want to die", "he hits me"])
def test_an_unsure_answer_is_no_answer_and_is_asked_again(first: str, text: str) -> None:
    talk = Talk()
    talk.told("Ana", first)
    talk.told("Ana", text)
    assert talk.state.of("Ana").waiting is not None, "the question stays open"


@pytest.mark.parametrize(
    "text",
    ["Sometimes", "Maybe", "I am scared", "I do not feel safe", "yes but he is outside the door"],
)
def test_half_a_yes_is_not_taken_for_safety(text: str) -> None:
    talk = Talk()
    talk.told("Ana", "he hits me")
    said = talk("Ana", text).private
    assert said and all("glad you are safe" not in m.text for m in said)


def test_what_reads_as_two_languages_stays_in_english() -> None:
    assert cues.language_of("No idea") == "en" and cues.language_of("no, never") == "en"
    assert cues.language_of("no quiero vivir") == "es"


@pytest.mark.parametrize("kind", ["coercive_control", "threat", "dependency", "self_harm"])
def test_s16_a_doubt_from_a_whisper_changes_nothing_that_others_notice(kind: str) -> None:
    def found(turn: int) -> Flag:
        return Flag(
            kind=kind,  # type: ignore[arg-type]
            turn_id=turn,
            speaker="Ana",
            about="Ben" if kind == "threat" else "Ana",
            actor="Ana" if kind == "threat" else "Ben",
            evidence=Evidence(rule=f"sentence_model.{kind}", turn_ids=(turn,)),
        )

    def aloud(whispers: int) -> list[tuple[object, ...]]:
        state, out = CareState(), []
        for seq in range(1, 13):
            doubt = (found(seq).kind,)
            if seq <= whispers or (whispers and 6 <= seq <= 8):
                state, _ = care(
                    state, COUPLE, Heard(seq, "Ana", "So it is.", True), [found(seq)], doubt
                )
            state, plan = care(
                state, COUPLE, Heard(seq, "Ana", "It was.", False), [found(seq)], doubt
            )
            others = tuple(m for m in plan.private if m.to != "Ana")
            out.append((plan.public, plan.notice, plan.hold, others))
        return out

    state, plan = care(
        CareState(), COUPLE, Heard(1, "Ana", "So it is.", True), [found(1)], (found(1).kind,)
    )
    assert not plan.private
    _, plan = care(state, COUPLE, Heard(2, "Ana", "It was."), [found(2)], (found(2).kind,))
    assert not plan.hold and plan.public is None
    assert bool(plan.private) is (kind != "dependency"), "she herself is met"
    if kind != "threat":  # whose second whisper leads to a note for everybody, as was decided
        assert aloud(0) == aloud(1) == aloud(4)


def test_imminent_risk_names_the_emergency_number_everywhere() -> None:
    for country in resources.countries():
        numbers = [
            r.contact for r in resources.load() if (r.country, r.kind) == (country, "emergency")
        ]
        for name in ("Ana", "Mia"):
            talk = Talk(replace(FAMILY, country=country))
            said = talk.told(name, "I want to end it tonight, I have the pills here")
            assert any(n in said for n in numbers), (country, name)


def test_the_note_for_everybody_comes_once() -> None:
    talk = Talk()
    for notices in (1, 0, 0):
        talk("Ana", "I'm going to hurt him tonight")
        plans = [talk("Ben", "Good morning.", False), talk("Ben", "Coffee?", False)]
        assert len([p for p in plans if p.notice]) == notices


@pytest.mark.parametrize(("answer", "says"), [("no", "999"), ("yes", "glad there is somebody")])
def test_what_follows_the_imminent_message_is_read(answer: str, says: str) -> None:
    talk = Talk()
    talk.told("Ana", "I want to die")
    assert "with you right now?" in talk.told("Ana", "yes")
    assert says in talk.told("Ana", answer)
    assert "answering so plainly" not in " ".join(m.text for m in talk("Ana", "no").private)


@pytest.mark.parametrize(
    ("first", "danger", "safe"),
    [
        ("he hit me last night", "no", "glad you are safe"),
        ("my uncle touches my son", "no", "safe right now"),
    ],
)
def test_the_imminent_message_of_the_other_topics_asks_and_hears(
    first: str, danger: str, safe: str
) -> None:
    talk = Talk()
    talk.told("Ana", first)
    assert "safe now?" in talk.told("Ana", danger)
    assert "999" in talk.told("Ana", "no"), "still in danger"
    assert safe in talk.told("Ana", "yes")


@pytest.mark.parametrize(("answer", "says"), [("yes", "999"), ("no", "answering so plainly")])
def test_after_two_unclear_answers_the_next_one_counts(answer: str, says: str) -> None:
    talk = Talk()
    talk.told("Ana", "I want to die")
    talk.told("Ana", "Well, you know how it goes with Mondays")
    assert not talk("Ana", "Anyway, how was the film").hold, "it is not pressed"
    assert says in talk.told("Ana", answer)


def test_a_question_does_not_wait_for_ever() -> None:
    talk = Talk()
    talk.told("Ana", "I want to die")
    for text in ("Well, Mondays", "Anyway, how was the film", "The bus was late"):
        talk("Ana", text)
    assert talk.state.of("Ana").waiting is None


SCREEN = replace(COUPLE, shared_screen=True)


@pytest.mark.parametrize("between", [0, 1])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("yes, I have been for weeks and I do not know what to do any more", "999"),
        ("Yes.", "999"),
        ("tonight", "999"),
        ("no", "answering so plainly"),
    ],
)
def test_an_answer_at_one_screen_counts_within_two_lines(
    between: int, text: str, says: str
) -> None:
    talk = Talk(SCREEN)
    talk("Ana", "I want to die", False)
    for _ in range(between):
        assert talk("Ana", "Well, you know.", False).public is None
    assert talk("Ben", "yes", False).public is None, "only who was asked answers"
    plan = talk("Ana", text, False)
    assert plan.public and says in plan.public and not plan.private


@pytest.mark.parametrize(
    "text",
    [
        "No, I never said that you had to come to my mother with us",
        "We could still go and see the film at the old cinema tonight with them",
    ],
)
def test_talk_with_the_others_at_one_screen_is_no_answer(text: str) -> None:
    talk = Talk(SCREEN)
    talk("Ana", "I want to die", False)
    assert talk("Ana", text, False).public is None
    for _ in range(2):
        talk("Ana", "Well.", False)
    assert talk("Ana", "no", False).public is None, "too long ago"


def test_s23_s10_who_whispered_to_be_young_is_reminded_alone() -> None:
    room = replace(FAMILY, minors=frozenset())
    talk = Talk(room)
    talk("Mia", "Hello.", False)
    talk("Mia", "I'm 15 and I hate school")
    for private in (True, False):
        talk.at += REMIND_SECONDS - 1
        assert not talk("Mia", "The bus was late.", private).private
        talk.at += 1
        plan = talk("Mia", "And the train.", private)
        assert [m.to for m in plan.private] == ["Mia"] and not plan.hold
        assert plan.private[0].text == word("reminder_alone", name="Mia")
        assert plan.notice is None and plan.public is None
        assert not talk("Mia", "Go on.", private).private
    talk.at += 2 * REMIND_SECONDS
    quiet = talk("Ana", "I see.", False)
    assert quiet.notice is None and not quiet.private, "nobody else learns of it"
    talk.setting = replace(room, paused=True)
    assert not talk("Mia", "Still there?").private

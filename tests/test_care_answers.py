"""Answers to a direct question, and alarms that count only because of a whisper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.safety import cues, resources
from agent.safety.care import care
from agent.safety.care_state import CareState, Heard
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

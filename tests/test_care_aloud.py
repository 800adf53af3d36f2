"""What is said aloud: a crisis that is not probed in public (S4), a silent person (S22)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.labels import GROUP_LABEL, SCENARIOS, STRATEGIES, Scenario
from agent.policies.base import View
from agent.policies.llm import VARIANTS
from agent.policies.llm.check import faults_of, shown_faults
from agent.policies.llm.prompting import prepare_reply
from agent.replies import ReplyWriter
from agent.safety.care_aloud import (
    OPEN_TURNS,
    SILENT_TURNS,
    SUPPORTIVE,
    avoided,
    crisis_open,
    to_invite,
)
from agent.safety.care_state import CareState
from agent.safety.care_words import word
from tests.reply_checks import talk as view_of
from tests.rooms import Steady, Tab, companion_of, room_of
from tests.test_care_room import Choosing, say, started
from tests.test_care_rules import COUPLE, FAMILY, Talk
from ui.room import Room

CRISIS = "I want to kill myself"
PROBING = ("evoke", "reframe", "enact", "track", "join")


async def speak_now(room: Room) -> str:
    """Have the agent speak and return the strategy it took."""
    companion_of(room).ask()
    await companion_of(room).idle()
    decided = companion_of(room).last_decision()
    assert decided is not None
    return str(decided[1].strategy)


async def test_s4_nobody_is_probed_in_public_while_a_crisis_said_aloud_is_open(
    tmp_path: Path,
) -> None:
    policy = Choosing(*PROBING)
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CRISIS)
    assert await speak_now(room) == "join"
    decision = companion_of(room).last_decision()[1]
    assert "evoke" not in decision.model_dump_json(), "no reason tells what was passed over"
    assert [v for w, v in policy.views if w == "reply"][-1].sheltering
    await say(room, ben, "Shall we talk about it?")
    assert companion_of(room).last_decision()[1].strategy == "join"
    await say(room, ben, "What can I say to her?", private=True)
    assert not [v for w, v in policy.views if w == "reply"][-1].sheltering, "a private talk may ask"
    # and after a restart
    await desk.close()
    policy = Choosing(*PROBING)
    desk = await started(tmp_path, policy)
    again = await desk.hall.open(room.info.id)
    assert again is not None
    tabs = {"Ana": Tab(ana.person), "Ben": Tab(ben.person)}
    for tab in tabs.values():
        again.join(tab)
    await say(again, tabs["Ben"], "And now?")
    assert companion_of(again).last_decision()[1].strategy == "join"
    await say(again, tabs["Ana"], "no", private=True)
    await say(again, tabs["Ben"], "I am here.")
    assert companion_of(again).last_decision()[1].strategy == "join", "a whisper changes nothing"
    await desk.close()


async def test_s4_a_crisis_is_open_for_some_of_their_own_turns_and_while_they_take_part(
    tmp_path: Path,
) -> None:
    desk = await started(tmp_path, Choosing(*PROBING))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CRISIS)
    for _ in range(OPEN_TURNS - 1):
        await say(room, ana, "The bus was late.")
    await say(room, ben, "It often is.")
    assert companion_of(room).last_decision()[1].strategy == "join"
    await say(room, ana, "So we walked.")
    assert companion_of(room).last_decision()[1].strategy == "evoke"
    await say(room, ana, CRISIS)
    assert await speak_now(room) == "join"
    await room.goodbye(ana.person)
    await say(room, ben, "She went out.")
    assert companion_of(room).last_decision()[1].strategy == "evoke"
    await desk.close()


async def test_s4_a_whispered_crisis_changes_no_public_decision(tmp_path: Path) -> None:
    policy = Choosing(*PROBING)
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CRISIS, private=True)
    assert await speak_now(room) == "evoke"
    await say(room, ben, "Shall we talk?")
    assert companion_of(room).last_decision()[1].strategy == "evoke"
    assert not any(v.sheltering for _, v in policy.views)
    await desk.close()


async def test_s4_what_else_about_an_old_reply_stays_what_it_was(tmp_path: Path) -> None:
    desk = await started(tmp_path, Choosing(*PROBING))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ben, "Good evening.")
    ask = {"what": "what_else", "key": room.lines[1].key}
    before = await desk.run(room, ben.person, ask)
    await say(room, ana, CRISIS)
    assert await desk.run(room, ben.person, ask) == before
    await desk.close()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_s4_only_supportive_strategies_are_left_and_one_always_is(scenario: Scenario) -> None:
    heard = Talk()
    heard("Ana", CRISIS, False)
    left = set(STRATEGIES[scenario]) - avoided(heard.state, scenario)
    assert left == SUPPORTIVE
    both = heard.state.model_copy(update={"joint_off": True})
    assert set(STRATEGIES[scenario]) - avoided(both, scenario) == {"safeguard"}
    assert avoided(CareState(), scenario) == frozenset()


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("careful", [False, True])
def test_s4_the_public_words_ask_nothing_and_repeat_nothing(
    writer: ReplyWriter, scenario: Scenario, careful: bool
) -> None:
    lines: list[tuple[str, str]] = [("Ben", "I feel so sad."), ("Ana", CRISIS)]
    for strategy in SUPPORTIVE:
        for target in ("Ana", "Ben", GROUP_LABEL[scenario]):
            said = list(lines)
            for _ in range(7):
                view = replace(view_of(*said, scenario=scenario), sheltering=True)
                view = replace(view, participants=("Ben", "Ana"))
                text = writer.write(view, target, strategy, careful=careful).text
                assert "?" not in text and "“" not in text and "kill" not in text
                assert not [f for f in shown_faults(text, view) if "crisis" in f], text
                said += [("Therapist", text)]


def test_s4_a_models_public_words_may_not_speak_of_the_crisis() -> None:
    view = view_of(("Ana", CRISIS), ("Ben", "What?"))
    for text in (
        "Ana, what is the hardest part of it for you?",
        "Ana, you said you want to kill yourself.",
        "Ana, thinking of suicide is lonely.",
        "Ana, tell us more about it.",
    ):
        assert not [f for f in faults_of(text, view, "Ana") if "crisis" in f]
        assert [f for f in faults_of(text, replace(view, sheltering=True), "Ana") if "crisis" in f]
    good = "Ana, nothing has to be settled now. We can go slowly."
    assert faults_of(good, replace(view, sheltering=True), "Ana") == ()


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_s4_a_model_is_told_not_to_ask_only_while_a_crisis_is_open(name: str) -> None:
    view = view_of(("Ana", CRISIS), ("Ben", "What?"))

    def prompt(view: View) -> str:
        messages = prepare_reply(VARIANTS[name], view, "Ana", "join", room=8000)
        return " ".join(text for _, text in messages)

    assert "ask no question" in prompt(replace(view, sheltering=True))
    assert "ask no question" not in prompt(view)


def test_s4_an_unclear_answer_or_a_whisper_does_not_end_it_and_a_denial_keeps_it() -> None:
    heard = Talk()
    heard("Ana", CRISIS, False)
    heard("Ana", "Hm, well.")
    heard("Ana", "yes")
    assert crisis_open(heard.state)
    heard("Ana", "no")
    assert crisis_open(heard.state), "that nobody is with her ends nothing"


# a silent person


def invitations(room: Room, name: str) -> list[str]:
    return [x.text for x in room.lines if x.text.endswith(word("invite", name=name))]


async def test_s22_a_silent_person_is_invited_once_in_a_line_of_kith(tmp_path: Path) -> None:
    policy = Steady(0.0)
    desk = await started(tmp_path, policy)
    room, (ana, ben, mia) = await room_of(desk, "Ana", "Ben", "Mia", scenario="family")
    talking = (ana, ben)
    for turn in range(SILENT_TURNS):
        await say(room, talking[turn % 2], f"Line {turn} about the garden.")
    assert len(room.lines) == SILENT_TURNS, "nobody is invited by a line of its own"
    await say(room, mia, "I like the garden.", private=True)
    assert not invitations(room, "Mia"), "not in private"
    await speak_now(room)
    (invited,) = invitations(room, "Mia")
    assert invited.startswith("Ana, what did you hear just now?") and "only listen" in invited
    # never again, also after a restart
    await desk.close()
    desk = await started(tmp_path, Steady(1.0))
    again = await desk.hall.open(room.info.id)
    assert again is not None
    tabs = [Tab(t.person) for t in (ana, ben, mia)]
    for tab in tabs:
        again.join(tab)
    for turn in range(2 * SILENT_TURNS):
        await say(again, tabs[turn % 2], f"Line {turn} about the house.")
    assert len(invitations(again, "Mia")) == 1
    assert not invitations(again, "Ana") and not invitations(again, "Ben")
    await desk.close()


async def test_s22_nobody_is_invited_early_or_who_spoke_or_is_away(tmp_path: Path) -> None:
    desk = await started(tmp_path, Steady(1.0))
    room, (ana, ben, mia) = await room_of(desk, "Ana", "Ben", "Mia", scenario="family")
    late = await room.add_person("Leo", "other", "adult", consented=False)
    for turn in range(SILENT_TURNS - 1):
        await say(room, (ana, ben)[turn % 2], f"Line {turn} about the garden.")
    await say(room, mia, "I was reading.")
    for turn in range(SILENT_TURNS - 1):
        await say(room, (ana, ben)[turn % 2], f"Line {turn} about the house.")
    assert not any(word("invite", name="") in x.text for x in room.lines)
    assert companion_of(room).carer.state.of(late.name).silent == 0
    await desk.close()


@pytest.mark.parametrize("said", [CRISIS, "Ben hits me and keeps my bank card"])
async def test_s22_nobody_is_invited_while_somebody_may_be_in_danger(
    tmp_path: Path, said: str
) -> None:
    desk = await started(tmp_path, Steady(0.0))
    room, (ana, ben, _) = await room_of(desk, "Ana", "Ben", "Mia", scenario="family")
    for turn in range(SILENT_TURNS):
        await say(room, ben, f"Line {turn} about the garden.")
    await say(room, ana, said)
    await speak_now(room)
    assert not invitations(room, "Mia")
    await desk.close()


def test_s22_whispers_count_for_nothing_and_it_is_the_same_in_every_run() -> None:
    setting = replace(FAMILY, here=FAMILY.people)
    plain, whispering = Talk(setting), Talk(setting)
    for turn in range(5):
        for heard in (plain, whispering):
            heard("Ana", f"Line {turn} about the garden.", False)
        whispering("Mia", "I like it.")
    assert plain.state.of("Mia").silent == whispering.state.of("Mia").silent == 5
    assert plain.state.of("Ana").silent == 0
    assert Talk(COUPLE)("Ana", "Hello.", False).public is None


def test_s22_a_whispered_concern_does_not_stop_an_invitation_one_said_aloud_does() -> None:
    whispered, aloud = Talk(), Talk()
    for talk, private in ((whispered, True), (aloud, False)):
        talk("Ana", "Ben hits me when he is drunk.", private)
        silent = talk.state.of("Cem").model_copy(update={"silent": SILENT_TURNS})
        talk.state = talk.state.with_person("Cem", silent)
        assert talk.state.joint_off
    assert to_invite(whispered.state, ("Ana", "Ben", "Cem"), "Ana") == "Cem"
    assert to_invite(aloud.state, ("Ana", "Ben", "Cem"), "Ana") is None

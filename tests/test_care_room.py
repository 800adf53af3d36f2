"""Care in the room: who is told, who learns nothing, and what survives a restart."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from agent.conversation import Turn
from agent.decision import Ranking
from agent.labels import THERAPIST
from agent.policies.base import View
from agent.reading import Reading
from agent.safety.care_words import word
from tests.rooms import Steady, Tab, companion_of, desk_for, room_of
from ui.desk import Desk
from ui.export import markdown, rescue_jsonl
from ui.inputs import Refused
from ui.panel import line_view, panel_view
from ui.room import Room


class Choosing(Steady):
    """Ranks the strategies in a fixed order and speaks to the first person."""

    def __init__(self, *order: str, probability: float = 1.0) -> None:
        super().__init__(probability)
        self.order = order

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        self._seen("strategy", view)
        rest = [s for s in view.strategies if s not in self.order]
        ranked = [*self.order, *rest]
        scores = {s: 1.0 - i / len(ranked) for i, s in enumerate(ranked)}
        return Ranking.of(scores, (f"{ranked[0]} is what helps here",))


async def started(folder: Path, policy: Steady, **more: Any) -> Desk:
    desk = desk_for(folder, policy, country="GB", **more)
    await desk.engine.start()
    return desk


async def say(room: Room, tab: Tab, text: str, private: bool = False) -> None:
    await room.say(tab.person, text, private=private)
    await companion_of(room).idle()


def private_words(room: Room, name: str) -> list[str]:
    return [x.text for x in room.lines if x.speaker == THERAPIST and x.visible_to == (name,)]


def timeless(text: str) -> str:
    """Take out what differs between any two runs: ids, keys and times."""
    text = re.sub(r'"timings": ?\{[^}]*\}', "", text)
    text = re.sub(r"\b\d{10}\.\d+\b", "T", text)
    text = re.sub(r"\b(at|start_time|end_time|created)\W{1,4}[\d.e-]+", r"\1 T", text)
    text = re.sub(r"room/\d{8}T\d{6}", "ROOM", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "KEY", text)
    return re.sub(r"'id': '[\w-]{12}'|person='[\w-]{12}'", "ID", text)


async def seen_by_ben(folder: Path, whisper: str, caplog: Any) -> dict[str, str]:
    """Everything that Ben and the operator's logs get in one conversation, as text."""
    caplog.clear()
    log = folder / "decisions.jsonl"
    desk = await started(folder, Choosing("safeguard", "track"), decision_log=log)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, "You came home late again.")
    reply = room.lines[1].key
    else_before = await desk.run(room, ben.person, {"what": "what_else", "key": reply})
    await say(room, ana, whisper, private=True)
    await say(room, ben, "There was a meeting.")
    await say(room, ana, "There is always a meeting.")
    await say(room, ben, "That is how work is.")
    await say(room, ben, "You said I had an affair, and I did not.")
    await say(room, ana, "Can you keep a secret?")
    else_after = await desk.run(room, ben.person, {"what": "what_else", "key": reply})
    companion = companion_of(room)
    keys = [x.key for x in room.visible_lines("Ben")]
    events = []
    for e in ben.events:
        view = None if e.line is None else line_view(room, e.line, ben.person)
        events.append((e.kind, view, e.keys, e.text, e.on))
    why = [await why_of(desk, room, ben, k) for k in keys if _by(room, k)]
    seen = {
        "events": repr(events),
        "panel": repr(panel_view(room, companion, ben.person)),
        "settings": repr(panel_view(room, companion, ben.person)["settings"]),
        "markdown": markdown(room, companion, ben.person),
        "jsonl": rescue_jsonl(room, companion, ben.person),
        "why": repr(why),
        "what else": repr([else_before, else_after]),
        "log": caplog.text,
        "decision log": log.read_text(encoding="utf-8"),
    }
    for number, key in enumerate(keys):
        seen = {k: v.replace(key, f"line-{number}") for k, v in seen.items()}
    await desk.close()
    return {k: timeless(v) for k, v in seen.items()}


async def why_of(desk: Desk, room: Room, tab: Tab, key: str) -> Any:
    try:
        return await desk.run(room, tab.person, {"what": "why", "key": key})
    except Refused as refusal:
        return str(refusal)


def _by(room: Room, key: str) -> bool:
    line = room.line_by_key(key)
    return line is not None and line.speaker == THERAPIST


@pytest.mark.parametrize(
    "whisper",
    [
        "Ben controls all the money and reads all my messages",
        "Ben hits me when he drinks",
        "I want to die",
        "I'm 15 and I am scared of him",
        "Ben decides who I may see",
    ],
)
async def test_s16_the_other_gets_the_same_bytes_with_and_without_a_flag(
    tmp_path, caplog, whisper: str
) -> None:
    caplog.set_level(logging.DEBUG, logger="kith")
    with_flag = await seen_by_ben(tmp_path / "a", whisper, caplog)
    without = await seen_by_ben(tmp_path / "b", "I like the new lamp in the hall", caplog)
    for place, text in without.items():
        assert with_flag[place] == text, place
    assert "safeguard" in with_flag["decision log"]


async def test_s16_what_else_about_an_old_reply_does_not_change_with_a_flag(tmp_path) -> None:
    desk = await started(tmp_path, Choosing("enact", "track"))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ben, "Good evening.")
    ask = {"what": "what_else", "key": room.lines[1].key}
    before = await desk.run(room, ben.person, ask)
    await say(room, ana, "he keeps my bank card and he hits me", private=True)
    assert await desk.run(room, ben.person, ask) == before
    await say(room, ben, "Shall we talk?")
    later = {"what": "what_else", "key": room.lines[-1].key}
    assert before[0]["variants"] != (await desk.run(room, ben.person, later))[0]["variants"]
    await desk.close()


async def test_s15_joint_strategies_are_passed_over_without_a_trace(tmp_path) -> None:
    desk = await started(tmp_path, Choosing("enact", "repair", "track"))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ben, "Good evening.")
    assert companion_of(room).last_decision()[1].strategy == "enact"
    await say(room, ana, "he keeps my bank card and follows me everywhere", private=True)
    await say(room, ben, "Shall we talk?")
    decision = companion_of(room).last_decision()[1]
    assert decision.strategy == "track"
    record = decision.model_dump_json()
    assert not re.search("safety|flag|control|violence|private|whisper|careful", record)
    assert "what helps here" not in record, "the reason for what was passed over would tell"
    view = panel_view(room, companion_of(room), ben.person)
    assert all(s["on"] for s in view["settings"]["strategies"])
    # and after a restart
    await desk.close()
    desk = await started(tmp_path, Choosing("enact", "repair", "track"))
    again = await desk.hall.open(room.info.id)
    assert again is not None
    tab = Tab(ben.person)
    again.join(tab)
    await say(again, tab, "Shall we?")
    assert companion_of(again).last_decision()[1].strategy == "track"
    assert companion_of(again).carer.state.joint_off
    await desk.close()


async def test_s4_a_crisis_said_aloud_is_met_in_private_before_the_graph_decides(tmp_path) -> None:
    policy = Steady(1.0)
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, "I want to kill myself")
    assert "ending your life" in private_words(room, "Ana")[0]
    assert ben.texts == ["I want to kill myself"], "no public word, and none of the policy's"
    assert [w for w, _ in policy.views] == ["read", "pattern"], "taken in, nothing decided"
    await say(room, ana, "please pause", private=True)
    assert ben.texts[-1] == word("pause")
    await say(room, ben, "I am here.")
    assert ben.texts[-1] == "Ana, what did you hear just now?", "the talk goes on"
    await desk.close()


async def test_a_whisper_is_looked_at_also_while_the_agent_is_paused(tmp_path) -> None:
    policy = Steady(1.0)
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.set(paused=True)
    await say(room, ana, "I want to die", private=True)
    await say(room, ben, "I want to die")
    assert len(private_words(room, "Ana")) == 1 and not private_words(room, "Ben")
    for other in ("what did Ben whisper?", "are you a therapist?", "pause"):
        await say(room, ben, other, private=True)
    assert not private_words(room, "Ben") and ana.texts[-1] == "I want to die"
    await say(room, ana, "yes", private=True)
    assert "999" in private_words(room, "Ana")[-1], "what is about danger is answered"
    assert not policy.views
    await desk.close()


@pytest.mark.parametrize("status", ["timeout", "refused"])
async def test_s28_the_rules_work_and_the_room_says_so_when_the_model_is_down(
    tmp_path, status: str
) -> None:
    policy = Steady(1.0)
    policy.fail = {"read": status}
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, "I want to die", private=True)
    assert "ending your life" in private_words(room, "Ana")[0]
    for text in ("The lamp is new.", "It is green.", "Ben likes it."):
        await say(room, ana, text, private=True)
    assert ana.notices and all("Kith c" in n and n.count(".") <= 2 for n in ana.notices)
    assert not ben.notices, "a failure in a private talk is nobody else's to see"
    await desk.close()


async def test_the_decided_policy_for_a_threat_in_a_whisper(tmp_path) -> None:
    desk = await started(tmp_path, Choosing("repair", "safeguard"))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, "I'm going to hurt him tonight", private=True)
    assert "999" in private_words(room, "Ana")[0]
    assert not ben.notices and not ben.texts
    await say(room, ben, "Hello?")
    for tab in (ana, ben):
        assert tab.notices == [word("general")]
    assert "hurt" not in repr(ben.events)
    assert companion_of(room).last_decision()[1].strategy == "safeguard"
    await desk.close()


async def test_s23_a_teens_place_in_the_room_counts(tmp_path) -> None:
    desk = await started(tmp_path, Steady(1.0))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben", scenario="family")
    mia = await room.add_person("Mia", "sibling", "teen", consented=True)
    await say(room, ana, "You had an affair, and I know it.")
    assert ben.texts[-1] == word("minor_topic")
    await say(room, Tab(mia.id), "Can you keep a secret?", private=True)
    assert "secret ally" in private_words(room, "Mia")[-1]
    await desk.close()


async def test_s24_no_viewpoint_of_an_absent_person_is_stored(tmp_path) -> None:
    from agent.reading import StanceReading, TurnReading
    from agent.update import initial_state, update

    turn = Turn(id=1, speaker="Ana", text="My mother thinks you are lazy, Ben.")
    stances = tuple(
        StanceReading(target=t, tension=0.9, viewpoint="lazy") for t in ("My mother", "Ben")
    )
    before = initial_state("couple", ("Ana", "Ben"))
    after = update(before, turn, TurnReading(turn_id=1, speaker="Ana", stances=stances))
    assert set(after.stances["Ana"]) == {"Ben"} and set(after.people) == {"Ana", "Ben"}
    desk = await started(tmp_path, Steady(0.0))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, "My mother thinks you are lazy, Ben.")
    view = panel_view(room, companion_of(room), ben.person)
    assert {p["name"] for p in view["people"]} == {"Ana", "Ben"}
    assert {s["to"] for s in view["stances"]} <= {"Ana", "Ben"}
    told = [s["text"] for s in view["sentences"] if "never listens" in s["text"]]
    assert told and all("as told by Ana" in t for t in told)
    await desk.close()


async def test_erasing_takes_the_evidence_along_and_keeps_the_protection(tmp_path) -> None:
    desk = await started(tmp_path, Steady(0.0))
    room, (ana, _) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, "he hits me", private=True)
    stored = json.loads(await desk.store.care(room.info.id) or "{}")
    assert stored["checks"] and "hits" not in json.dumps(stored)
    await room.erase(ana.person, [room.lines[0].key])
    stored = json.loads(await desk.store.care(room.info.id) or "{}")
    assert not stored["checks"] and stored["joint_off"]
    await desk.close()


async def test_a_careful_reply_leaves_out_joint_words(tmp_path) -> None:
    policy = Steady(1.0)
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, "he hits me", private=True)
    await say(room, ben, "Well?")
    views = [v for w, v in policy.views if w == "reply"]
    assert views[-1].careful and not any(v.careful for w, v in policy.views if w != "reply")
    await desk.close()


def test_a_models_words_are_checked_for_joint_steps_only_where_care_is_needed() -> None:
    from dataclasses import replace as changed

    from agent.policies.llm.check import faults_of
    from agent.update import initial_state

    relations = initial_state("couple", ("Ana", "Ben"))
    view = View("couple", ("Ana", "Ben"), [], [], relations)
    for text in (
        "Ana, could you see his side of it?",
        "Both of you, try to tell each other what you need.",
        "Ana, turn to him and say it.",
    ):
        target = "Ana" if text.startswith("Ana") else "Couple"
        assert faults_of(text, view, target) == ()
        assert faults_of(text, changed(view, careful=True), target) == ("it asks for a joint step",)
    assert faults_of("Ana, take your time.", changed(view, careful=True), "Ana") == ()


async def test_s30_nothing_of_a_person_is_processed_before_they_accept(tmp_path) -> None:
    from ui.pages import consent

    policy = Steady(1.0)
    desk = await started(tmp_path, policy)
    room, _ = await room_of(desk, "Ana", "Cleo")
    ben = await room.add_person("Ben", "partner", "")
    with pytest.raises(Refused, match="confirm"):
        await room.say(ben.id, "he hits me", private=True)
    await companion_of(room).idle()
    assert not policy.views and not companion_of(room).carer.state.people
    with pytest.raises(Refused, match="confirm"):
        await desk.run(room, ben.id, {"what": "panel"})
    page = consent("Ben", "/consent", together=False)
    for topic in ("Who sees what", "whisper", "stored", "Limits", "not therapy", "an AI", "agree"):
        assert topic in page
    await room.consent(ben.id)
    await say(room, Tab(ben.id), "Hello.")
    assert policy.views
    await desk.close()

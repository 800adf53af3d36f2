"""The agent in the room: failures, pause and speak now, strategies off, what else, votes."""

from __future__ import annotations

import pytest

from agent.labels import THERAPIST
from tests.rooms import Steady, Tab, companion_of, everything_seen, room_of, started
from ui.desk import Desk
from ui.inputs import Refused
from ui.panel import panel_view
from ui.room import Room


async def test_a_server_that_is_down_is_said_once_and_recovers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("ui.engine.POLICY_NAMES", ("local", "agent"))
    llm, local = Steady(1.0), Steady(1.0)
    llm.name, local.name = "agent", "local"
    desk = await started(
        tmp_path, llm, others={"local": local}, openai_base_url="http://127.0.0.1:9"
    )
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    llm.fail = {"read": "timeout"}
    for text in ("one", "two"):
        await room.say(ana.person, text)
        await companion_of(room).idle()
    assert len(ben.notices) == 1 and "goes on with its own" in ben.notices[0]
    assert len([x for x in room.lines if x.speaker == THERAPIST]) == 2
    assert companion_of(room).last_decision()[1].policy == "local"
    llm.fail = {}
    desk.engine.recovered()
    await room.say(ana.person, "three")
    await companion_of(room).idle()
    assert ben.notices[1:] == ["Kith is back."]
    await desk.close()


async def test_a_failure_in_a_private_talk_changes_nothing_for_the_others(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("ui.engine.POLICY_NAMES", ("local", "agent"))
    views = []
    for failing in (False, True):
        llm, local = Steady(1.0), Steady(1.0)
        llm.name, local.name = "agent", "local"
        server = {"openai_base_url": "http://127.0.0.1:9"}
        desk = await started(tmp_path / str(failing), llm, others={"local": local}, **server)
        room, (ana, ben) = await room_of(desk, "Ana", "Ben")
        llm.fail = {"read": "timeout"} if failing else {}
        await room.say(ana.person, "for you only", private=True)
        await companion_of(room).idle()
        assert len(ana.notices) == failing, "she is told, and answered all the same"
        assert ana.texts[-1] == "Ana, what did you hear just now?"
        llm.fail = {}
        await room.say(ben.person, "It was late.")
        await companion_of(room).idle()
        decision = companion_of(room).last_decision()
        panel = panel_view(room, companion_of(room), ben.person)
        shown = [x["text"] for x in panel["sentences"]]
        views.append((decision[1].policy, panel["decision"]["policy"], shown, ben.texts))
        assert not ben.notices and [e.kind for e in ben.events].count("panel") == 1
        assert not local.views or failing
        await room.say(ana.person, "and still", private=True)
        await companion_of(room).idle()
        assert ("agent", "local")[failing] == companion_of(room).decisions[-1][1].policy
        await desk.close()
    assert views[0] == views[1] and views[1][0] == "agent"


async def test_a_run_that_breaks_off_is_made_good_by_the_next(tmp_path) -> None:
    class Once(Steady):
        broken = False

        async def pattern(self, view, reading):
            if len(view.turns) == 2 and not self.broken:
                self.broken = True
                raise RuntimeError("broke off")
            return await super().pattern(view, reading)

    desk = await started(tmp_path, Once(0.0))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    for i, tab in enumerate((ana, ben, ana)):
        await room.say(tab.person, f"line {i}")
        await companion_of(room).idle()
    state = companion_of(room).public.relations
    assert (state.people["Ana"].turns, state.people["Ben"].turns) == (2, 1)
    assert len(ana.notices) == 2 and ana.notices[1] == "Kith is back."
    await desk.close()


async def test_an_exception_shows_no_word_of_itself(tmp_path, caplog) -> None:
    class Broken(Steady):
        async def read(self, view, new):
            raise RuntimeError("sk-secret-key and what Ana whispered")

    desk = await started(tmp_path, Broken())
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "hello")
    await companion_of(room).idle()
    assert "RuntimeError" in caplog.text
    for text in (caplog.text, everything_seen(room, ben), everything_seen(room, ana)):
        assert "sk-secret" not in text and "whispered" not in text
    assert len(ben.notices) == 1 and "cannot be reached" in ben.notices[0]
    await room.say(ben.person, "still a chat")
    await companion_of(room).idle()
    assert ana.texts == ["hello", "still a chat"] and len(ben.notices) == 1
    await desk.close()


async def test_pause_and_speak_now_and_strategies_off(tmp_path) -> None:
    policy = Steady(0.0)
    desk = await started(tmp_path, policy)
    room, (ana, _) = await room_of(desk, "Ana", "Ben")
    await desk.run(room, ana.person, {"what": "pause", "on": True})
    await room.say(ana.person, "just us")
    await companion_of(room).idle()
    assert not policy.views
    await desk.run(room, ana.person, {"what": "pause", "on": False})
    off = ["counterbalance"]
    await desk.run(room, ana.person, {"what": "strategies", "off": off})
    await desk.run(room, ana.person, {"what": "speak_now"})
    await companion_of(room).idle()
    assert room.lines[-1].speaker == THERAPIST
    assert companion_of(room).last_decision()[1].strategy not in (None, "counterbalance")
    await desk.run(room, ana.person, {"what": "talk", "value": 1.0})
    await room.say(ana.person, "and now")
    await companion_of(room).idle()
    assert room.lines[-1].speaker == THERAPIST, "at full talkativeness the threshold is zero"
    with pytest.raises(Refused, match="has to stay on"):
        await room.set(strategies_off=[x["name"] for x in _strategies(room, desk, ana)])
    with pytest.raises(Refused, match="has to stay on"):
        names = [x["name"] for x in _strategies(room, desk, ana)]
        await room.set(strategies_off=[x for x in names if x not in ("enact", "repair")])
    await desk.close()


def _strategies(room: Room, desk: Desk, tab: Tab) -> list[dict[str, str]]:
    view = desk.panel(room, tab.person)["view"]
    found: list[dict[str, str]] = view["settings"]["strategies"]
    return found


async def test_what_else_and_votes_change_nothing_in_the_room(tmp_path) -> None:
    policy = Steady(1.0)
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "You never listen.")
    await companion_of(room).idle()
    before = (list(room.lines), companion_of(room).public.relations)
    key = room.lines[-1].key
    (answer,) = await desk.run(room, ben.person, {"what": "what_else", "key": key})
    assert answer["variants"][0]["title"].startswith("Without the picture")
    assert policy.views[-1][1].relations is None
    assert (list(room.lines), companion_of(room).public.relations) == before
    (why,) = await desk.run(room, ben.person, {"what": "why", "key": key})
    assert why["decision"]["why"][0]["evidence"] == [room.lines[0].key]
    await desk.run(room, ben.person, {"what": "vote", "key": key, "vote": -1})
    await desk.run(room, ana.person, {"what": "vote", "key": key, "vote": 1})
    await desk.run(room, ana.person, {"what": "vote", "key": key, "vote": 0})
    row = companion_of(room).last_decision()[0]
    assert "id" not in why["decision"], "a count of decisions would tell that somebody whispers"
    assert await desk.store.votes(room.info.id) == [(row.id, ben.person, -1)]
    await room.say(ana.person, "for you only", private=True)
    await companion_of(room).idle()
    with pytest.raises(Refused):
        await desk.run(room, ben.person, {"what": "why", "key": room.lines[-1].key})
    await desk.close()

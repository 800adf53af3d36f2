"""The room without a browser: order, one answer, visibility, restarts, forgetting."""

from __future__ import annotations

import asyncio
import logging
import sqlite3

import pytest

from agent.labels import THERAPIST
from agent.rescue import parse_sample
from tests.rooms import Steady, Tab, companion_of, everything_seen, room_of, started
from ui.desk import Desk
from ui.echo import repeats
from ui.export import markdown, rescue_jsonl
from ui.inputs import LONGEST_LINE, Refused
from ui.panel import panel_view
from ui.playback import scripts
from ui.room import MOST_PEOPLE, MOST_ROOMS, Room


async def test_five_messages_in_a_moment_are_stored_in_order_and_answered_once(tmp_path) -> None:
    policy = Steady(1.0)
    desk = await started(tmp_path, policy, settle=0.1)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    for i in range(5):
        await room.say((ana, ben)[i % 2].person, f"line {i}")
        await asyncio.sleep(0.04)
    await companion_of(room).idle()
    texts = [x.text for x in room.lines]
    assert texts == [*(f"line {i}" for i in range(5)), "Ana, what did you hear just now?"]
    assert ana.texts == ben.texts == texts
    assert [x.text for x in await desk.store.lines(room.info.id)] == texts
    assert [w for w, _ in policy.views].count("read") == 1
    await desk.close()


async def test_what_is_said_while_the_agent_thinks_is_kept_and_looked_at_once(tmp_path) -> None:
    policy = Steady(1.0, seconds=0.2)
    desk = await started(tmp_path, policy)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "first")
    await asyncio.sleep(0.12)
    for text in ("second", "third", "fourth"):
        await room.say(ben.person, text)
    await companion_of(room).idle()
    assert [x.text for x in room.lines if x.speaker != THERAPIST] == [
        "first",
        "second",
        "third",
        "fourth",
    ]
    assert policy.most_running == 1
    assert len([x for x in room.lines if x.speaker == THERAPIST]) == 2
    await desk.close()


async def test_a_message_that_is_sent_twice_is_stored_once(tmp_path) -> None:
    desk = await started(tmp_path, Steady())
    room, (ana, _) = await room_of(desk, "Ana", "Ben")
    first = await room.say(ana.person, "hello", key="k1")
    again = await room.say(ana.person, "hello", key="k1")
    assert first is again and ana.texts == ["hello"]
    await desk.close()


async def test_a_whisper_stays_between_one_person_and_the_agent(tmp_path, caplog) -> None:
    canary = "the heron nests at midnight"
    policy = Steady(1.0)
    desk = await started(tmp_path, policy)
    caplog.set_level(logging.DEBUG)
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.say(ben.person, "I am listening.")
    await companion_of(room).idle()
    await room.say(ana.person, canary, private=True)
    await companion_of(room).idle()
    await room.say(ben.person, "What did you say?")
    await companion_of(room).idle()
    assert canary in ana.texts and canary not in everything_seen(room, ben)
    answers = [x for x in room.lines if x.speaker == THERAPIST and x.visible_to == ("Ana",)]
    assert len(answers) == 1 and answers[0].key not in everything_seen(room, ben)
    public = [v for _, v in policy.views if v.viewer is None]
    private = [v for _, v in policy.views if v.viewer == "Ana"]
    assert not any(canary in t.text for v in public for t in v.turns)
    assert any(canary in t.text for v in private for t in v.turns)
    companion = companion_of(room)
    assert canary in markdown(room, companion, ana.person)
    for text in (markdown, rescue_jsonl):
        assert canary not in text(room, companion, ben.person)
    assert canary not in caplog.text
    await desk.close()


async def test_nothing_the_others_see_depends_on_a_whisper(tmp_path) -> None:
    views = []
    for whispers in (False, True):
        desk = await started(tmp_path / str(whispers), Steady(0.2))
        room, (ana, ben) = await room_of(desk, "Ana", "Ben")
        for text in ("You never listen.", "That is not true.", "It is."):
            await room.say(ana.person, text)
            if whispers:
                await room.say(ana.person, "between us", private=True)
            await companion_of(room).idle()
        state = companion_of(room).public.relations
        texts = [e.line.text for e in ben.events if e.line is not None]
        kinds = [e.kind for e in ben.events]
        views.append((state, texts, kinds))
        await desk.close()
    assert views[0] == views[1]


async def test_a_room_survives_a_restart(tmp_path) -> None:
    desk = await started(tmp_path, Steady(0.0))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "You are late.")
    await room.say(ben.person, "I know.")
    await companion_of(room).idle()
    await room.set(talk=0.9, strategies_off=["reframe"])
    before = companion_of(room).public.relations
    await desk.close()

    policy = Steady(0.0)
    desk = await started(tmp_path, policy)
    again = await desk.hall.open(room.info.id)
    assert again is not None and again.lines == room.lines and again.people == room.people
    assert again.info.talk == 0.9 and again.info.strategies_off == ("reframe",)
    await companion_of(again).wake_up()
    assert companion_of(again).public.relations == before
    assert not policy.views, "the checkpoint is used, nothing is read again"
    await again.say(ana.person, "We should go.")
    await companion_of(again).idle()
    assert companion_of(again).public.relations.people["Ana"].turns == 2
    await desk.close()


@pytest.mark.parametrize("damage", ["lost", "other words"])
async def test_the_picture_is_rebuilt_from_the_transcript(tmp_path, damage: str) -> None:
    desk = await started(tmp_path, Steady(0.0))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "You are late.")
    await companion_of(room).idle()
    await room.say(ben.person, "I know.")
    await companion_of(room).idle()
    before = companion_of(room).public.relations
    await desk.close()
    if damage == "lost":
        for file in tmp_path.glob("checkpoints*"):
            file.unlink()
    else:
        with sqlite3.connect(tmp_path / "rooms.sqlite") as db:
            db.execute("DROP TRIGGER lines_append_only")
            db.execute("UPDATE lines SET text='You are very late.' WHERE seq=1")
    desk = await started(tmp_path, Steady(0.0))
    again = await desk.hall.open(room.info.id)
    assert again is not None
    await companion_of(again).wake_up()
    after = companion_of(again).public.relations
    assert after is not None and before is not None
    assert after.people["Ana"].turns == before.people["Ana"].turns == 1
    assert after.stances["Ana"]["Ben"].evidence == before.stances["Ana"]["Ben"].evidence
    await desk.close()


async def test_a_belief_marked_as_wrong_leaves_and_does_not_come_back(tmp_path) -> None:
    desk = await started(tmp_path, Steady(0.0))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    for i in range(8):
        await room.say(ana.person, f"You never listen {i}.")
    await companion_of(room).idle()
    view = panel_view(room, companion_of(room), ana.person)
    assert view["stances"][0]["viewpoint"] == "never listens"
    with pytest.raises(Refused, match="Only the person"):
        await desk.run(room, ben.person, {"what": "correct", "person": "Ana", "other": "Ben"})
    for other in ("Ben", ""):
        await desk.run(room, ana.person, {"what": "correct", "person": "Ana", "other": other})
    view = panel_view(room, companion_of(room), ana.person)
    assert view["stances"] == [] and view["people"][0]["emotion"] == ""
    # a rebuild reads the same lines again and must not find it again
    await room.say(ben.person, "I will erase this.")
    await companion_of(room).idle()
    await room.erase(ben.person, [room.lines[-1].key])
    view = panel_view(room, companion_of(room), ana.person)
    assert view["stances"] == [] and view["people"][0]["emotion"] == ""
    await room.say(ana.person, "But now you do not listen.")
    await companion_of(room).idle()
    view = panel_view(room, companion_of(room), ana.person)
    assert view["stances"][0]["evidence"] == [room.lines[-1].key]
    await desk.close()


async def test_erased_lines_are_gone_everywhere(tmp_path) -> None:
    secret = "I kept the letters from Lisbon in a box"

    class Echo(Steady):
        async def reply(self, view, reading, target, strategy):
            reply = await super().reply(view, reading, target, strategy)
            return reply.model_copy(update={"text": f"You said: {view.turns[-1].text}"})

    desk = await started(tmp_path, Echo(1.0))
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    line = await room.say(ana.person, secret)
    await companion_of(room).idle()
    with pytest.raises(Refused, match="Only the person who said"):
        await room.erase(ben.person, [line.key])
    assert await room.erase(ana.person, [line.key]) == 1
    erased = [k for e in ben.events if e.kind == "erased" for k in e.keys]
    assert erased == [x.key for x in room.lines], "the reply that repeats the words goes too"
    assert companion_of(room).public.relations is None
    assert secret not in markdown(room, companion_of(room), ben.person)
    await desk.close()
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes(), file.name


async def test_the_transcript_only_grows(tmp_path) -> None:
    desk = await started(tmp_path, Steady())
    room, (ana, _) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "hello")
    with sqlite3.connect(tmp_path / "rooms.sqlite") as db:
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            db.execute("UPDATE lines SET text='goodbye'")
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("INSERT INTO lines SELECT * FROM lines")
    await desk.close()


async def test_two_processes_worth_of_writers_share_the_file(tmp_path) -> None:
    desks = [await started(tmp_path, Steady(0.6)) for _ in range(2)]

    async def talk(desk: Desk) -> Room:
        room, tabs = await room_of(desk, "Ana", "Ben")
        for i in range(50):
            await room.say(tabs[i % 2].person, f"line {i}")
            await asyncio.sleep(0.002)
        await companion_of(room).idle()
        return room

    rooms = await asyncio.gather(*(talk(d) for d in desks for _ in range(2)))
    for room in rooms:
        stored = await desks[0].store.lines(room.info.id)
        assert [x.text for x in stored if x.speaker != THERAPIST] == [
            f"line {i}" for i in range(50)
        ]
    for desk in desks:
        await desk.close()


async def test_nobody_is_processed_before_consent(tmp_path) -> None:
    desk = await started(tmp_path, Steady())
    room, _ = await room_of(desk, "Ana")
    ben = await room.add_person("Ben", "partner", "")
    with pytest.raises(Refused, match="confirm"):
        await room.say(ben.id, "hello")
    assert room.names() == ["Ana"]
    await room.consent(ben.id)
    await room.say(ben.id, "hello")
    await room.goodbye(ben.id)
    with pytest.raises(Refused, match="not in this room any more"):
        await room.say(ben.id, "hello")
    await desk.close()


async def test_limits(tmp_path) -> None:
    desk = await started(tmp_path, Steady())
    room, _ = await room_of(desk, *(f"P{i}" for i in range(MOST_PEOPLE)), scenario="family")
    with pytest.raises(Refused, match="as many as fit"):
        await room.add_person("One more", "other", "adult")
    rooms = [await room_of(desk, "Ana") for _ in range(MOST_ROOMS - 1)]
    with pytest.raises(Refused, match="rooms are open"):
        await desk.hall.create("couple", "shared")
    quiet, tabs = rooms[0]
    quiet.leave(tabs[0])
    await desk.hall.create("couple", "shared")
    assert quiet.info.id not in desk.hall.rooms
    assert len(desk.hall.rooms) == MOST_ROOMS
    await desk.close()


async def test_old_rooms_are_swept_away(tmp_path) -> None:
    desk = await started(tmp_path, Steady(), retention_days=1)
    room, (ana, _) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "a line of long ago")
    await companion_of(room).idle()
    room.leave(ana)
    room.ports.clear()
    with sqlite3.connect(tmp_path / "rooms.sqlite") as db:
        db.execute("UPDATE rooms SET touched = touched - 90000")
    await desk._sweep()
    assert await desk.hall.open(room.info.id) is None
    await desk.close()
    for file in tmp_path.glob("*.sqlite*"):
        if file.name.startswith("rooms"):
            assert b"a line of long ago" not in file.read_bytes()
    with sqlite3.connect(tmp_path / "checkpoints.sqlite") as db:
        assert db.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)


async def test_five_hundred_turns_and_odd_lines(tmp_path) -> None:
    desk = await started(tmp_path, Steady(0.0))
    room, (ana, ben) = await room_of(desk, 'Ana O\'Neil "Annie"', "בן")
    odd = ["שלום, מה שלומך?", "👩‍👩‍👧 fine", "bell\x07 and \x1b[31mcolour", "a\r\nb"]
    for i in range(500):
        await room.say((ana, ben)[i % 2].person, odd[i % 4])
    await companion_of(room).idle()
    kept = ["שלום, מה שלומך?", "👩‍👩‍👧 fine", "bell and [31mcolour", "a\nb"]
    assert [x.text for x in room.lines] == [kept[i % 4] for i in range(500)]
    assert [x.text for x in await desk.store.lines(room.info.id)] == ben.texts
    for bad, sentence in (("", "empty"), (" \n\x00 ", "empty"), ("x" * 100_000, "100,000")):
        with pytest.raises(Refused, match=sentence):
            await room.say(ana.person, bad)
    assert len(room.lines) == 500
    await room.say(ana.person, "x" * LONGEST_LINE)
    await companion_of(room).idle()
    await desk.close()


async def test_a_demo_plays_step_by_step_with_the_agent_live(tmp_path) -> None:
    desk = await started(tmp_path, Steady(0.6))
    script = next(iter(scripts().values()))
    room, person = await desk.create_demo(script.id)
    tab = Tab(person)
    room.join(tab)
    await desk.run(room, person, {"what": "play", "how": "step"})
    await companion_of(room).idle()
    assert room.lines[0].text == script.rows[0].dialogue_cleaned
    assert room.lines[-1].speaker == THERAPIST
    player = desk.player(room)
    assert player is not None and player.view()["position"] == 1
    player.set_speed(4.0)
    await desk.run(room, person, {"what": "play", "how": "play"})
    assert player.playing
    await asyncio.sleep(0.2)
    await desk.run(room, person, {"what": "play", "how": "pause"})
    await companion_of(room).idle()
    said = [x.text for x in room.lines if x.speaker != THERAPIST]
    assert said == [r.dialogue_cleaned for r in script.rows[: len(said)]] and not player.playing
    with pytest.raises(Refused):
        player.set_speed(3.3)
    await desk.close()


async def test_the_export_is_a_rescue_sample(tmp_path) -> None:
    desk = await started(tmp_path, Steady(1.0))
    room, (ana, _) = await room_of(desk, "Ana", "Ben")
    await room.say(ana.person, "You *never* listen.")
    await companion_of(room).idle()
    text = rescue_jsonl(room, companion_of(room), ana.person)
    sample = parse_sample(__import__("json").loads(text))
    assert [r.primary_speaker for r in sample.rows] == ["Ana", THERAPIST]
    assert sample.rows[1].support_strategy[0].strategy_type == "counterbalance"
    assert "You \\*never\\* listen" in markdown(room, companion_of(room), ana.person)
    await desk.close()


def test_repeats() -> None:
    assert repeats("You said that you never listen to me.", "you never listen to me")
    assert repeats("So: go away?", "Go away!")
    assert not repeats("What did you hear?", "I went home and cried")
    assert not repeats("Yes.", "Yes.")

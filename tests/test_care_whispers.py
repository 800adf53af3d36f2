"""Erasing, correcting and tracing beside a whisper: the other one notices nothing (S12)."""

from __future__ import annotations

import asyncio
import sqlite3
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith import Client, tracing_context

from agent.labels import THERAPIST
from agent.safety.care_words import word
from tests.rooms import Steady, companion_of, desk_for, everything_seen, room_of
from tests.test_care_privacy import CANARIES, assert_clean, say, texts_for
from ui.desk import Desk
from ui.erase import search
from ui.export import markdown, rescue_jsonl
from ui.inputs import Refused


async def test_s12_erasing_a_whisper_shows_nothing_to_the_other(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady(1.0))
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ben, "Who is right?")
    assert ben.texts[-1] == word("verdict")
    whisper = f"{CANARIES[0]}, and who is right, what happened and what it was like"
    await say(room, ana, whisper, private=True)
    await say(room, ben, "It was late.")
    events, before = list(ben.events), everything_seen(room, ben)
    generation, public = room.info.generation, companion_of(room).public.relations
    (line,) = [x for x in room.lines if x.text == whisper]
    await desk.run(room, ana.person, {"what": "erase", "keys": [line.key]})
    assert ben.events == events and everything_seen(room, ben) == before
    assert companion_of(room).public.relations is public and room.info.generation == generation
    assert "erased" in [e.kind for e in ana.events] and "panel" in [e.kind for e in ana.events]
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"Marcello" not in file.read_bytes(), file.name
    await say(room, ana, "And now?", private=True)
    assert texts_for(room, "Ana"), "her own talk goes on"
    await desk.close()


async def test_erased_words_leave_every_file_at_once(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady(1.0))
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CANARIES[1])
    await say(room, ben, "I see.")
    await desk.run(room, ana.person, {"what": "erase", "keys": [room.lines[0].key]})
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"Zephyrbank" not in file.read_bytes(), file.name
    await desk.close()


class Traces:
    """A trace service on loopback that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _take(self) -> None:
                outer.got.append(self.rfile.read(int(self.headers.get("content-length") or 0)))
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_POST = do_PATCH = do_GET = _take

            def log_message(self, *_: Any) -> None:
                """Stay quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


async def test_s12_a_trace_service_gets_the_public_talk_at_most(tmp_path) -> None:
    traces = Traces()
    client = Client(api_url=traces.url, api_key="k", auto_batch_tracing=False)
    desk = desk_for(tmp_path, Steady(1.0))
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    with tracing_context(enabled=True, client=client):
        await say(room, ben, "We should eat at the harbour.")
        await say(room, ana, CANARIES[0], private=True)
        (private,) = [x for x in room.lines if x.speaker == THERAPIST and x.visible_to]
        await desk.run(room, ana.person, {"what": "what_else", "key": private.key})
        await say(room, ben, "Well?")
    wait_for_all_tracers()
    client.flush()
    traces.server.shutdown()
    got = b"".join(traces.got).decode("utf-8", "replace")
    assert "harbour" in got, "the public talk is traced where somebody switched it on"
    assert_clean(got)
    await desk.close()


async def test_s12_a_correction_tells_nothing_of_anothers_private_talk(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady(1.0))
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ben, "I see.")
    await say(room, ana, "It was late.", private=True)
    ask = {"what": "correct", "person": "Ben"}
    await desk.run(room, ben.person, ask)
    told = companion_of(room).private["Ana"]
    assert told.relations is not None
    told.relations.people["Ben"].emotion_evidence.append(1)
    events = list(ben.events)
    with pytest.raises(Refused, match="not in the picture"):
        await desk.run(room, ben.person, ask)
    assert ben.events == events
    await desk.close()


async def test_s13_pressing_twice_shares_once_and_taking_back_leaves_nothing(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady(0.0))
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CANARIES[1], private=True)
    ask = {"what": "release", "key": room.lines[0].key, "on": True}
    pressed = [desk.run(room, ana.person, ask) for _ in range(3)]
    done = await asyncio.gather(*pressed, return_exceptions=True)
    assert [isinstance(d, Refused) for d in done].count(True) == 2
    assert ben.texts == [CANARIES[1]]
    await desk.run(room, ana.person, {**ask, "on": False})
    assert not room.visible_lines("Ben")
    await desk.close()


async def refuses(desk: Desk, what: str, table: str) -> None:
    """Have the database refuse to write to a table, until the trigger is dropped."""
    end = "BEGIN SELECT RAISE(ABORT, 'full'); END"
    trigger = f"CREATE TRIGGER fails BEFORE {what} ON {table} {end}"
    await desk.store.run(lambda db: db.execute(trigger))


@pytest.mark.parametrize("step", ["lines", "releases"])
async def test_s13_a_line_and_its_consent_are_stored_together_or_not_at_all(
    tmp_path, step: str
) -> None:
    desk = desk_for(tmp_path, Steady(0.0))
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CANARIES[1], private=True)
    ask = {"what": "release", "key": room.lines[0].key, "on": True}
    await refuses(desk, "INSERT", step)
    with pytest.raises(sqlite3.Error):
        await desk.run(room, ana.person, ask)
    assert not ben.texts and not room.visible_lines("Ben")
    assert not [x for x in await desk.store.lines(room.info.id) if x.visible_to is None]
    assert await desk.ledger.entries(room.info.id) == []
    await desk.store.run(lambda db: db.execute("DROP TRIGGER fails"))
    await desk.run(room, ana.person, ask)
    assert ben.texts == [CANARIES[1]], "it can be shared once the trouble is over"
    (entry,) = await desk.ledger.entries(room.info.id)
    assert entry.granted == room.lines[-1].at and entry.shown == room.lines[-1].seq
    await desk.close()


@pytest.mark.parametrize("step", ["lines", "releases"])
async def test_s13_a_consent_that_cannot_be_taken_back_now_can_be_later(
    tmp_path, step: str
) -> None:
    desk = desk_for(tmp_path, Steady(0.0))
    await desk.engine.start()
    room, (ana, _) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CANARIES[1], private=True)
    ask = {"what": "release", "key": room.lines[0].key, "on": True}
    await desk.run(room, ana.person, ask)
    await refuses(desk, "UPDATE", step)
    with pytest.raises(sqlite3.Error):
        await desk.run(room, ana.person, {**ask, "on": False})
    (entry,) = await desk.ledger.entries(room.info.id)
    assert entry.revoked is None and [x.text for x in room.visible_lines("Ben")] == [CANARIES[1]]
    await desk.store.run(lambda db: db.execute("DROP TRIGGER fails"))
    await desk.run(room, ana.person, {**ask, "on": False})
    (entry,) = await desk.ledger.entries(room.info.id)
    assert entry.revoked and not room.visible_lines("Ben")
    await desk.close()


async def test_s13_erasing_the_public_line_takes_the_consent_back(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady(0.0))
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ana, CANARIES[1], private=True)
    ask = {"what": "release", "key": room.lines[0].key, "on": True}
    await desk.run(room, ana.person, ask)
    keys = [x.key for x in room.visible_lines("Ben")]
    *_, told = await desk.run(room, ana.person, {"what": "erase", "keys": keys})
    assert told == {"kith": "releases", "keys": []}
    await desk.run(room, ana.person, ask)
    assert [x.text for x in room.visible_lines("Ben")] == [CANARIES[1]]
    with pytest.raises(Refused, match="Only the person"):
        await desk.run(room, ben.person, {"what": "erase", "keys": [ask["key"]]})
    assert [e.revoked is None for e in await desk.ledger.entries(room.info.id)] == [False, True]
    await desk.close()


async def test_s12_what_kith_said_to_one_person_alone_is_theirs_to_erase(tmp_path) -> None:
    desk = desk_for(tmp_path, Steady(1.0), decision_log=tmp_path / "decisions.jsonl")
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await say(room, ben, "I see.")
    await say(room, ana, "he hits me", private=True)
    (told,) = [x for x in room.lines if x.speaker == THERAPIST and x.visible_to]
    (public,) = [x for x in room.lines if x.speaker == THERAPIST and not x.visible_to]
    companion, events = companion_of(room), list(ben.events)
    before = everything_seen(room, ben), markdown(room, companion, ben.person)
    picture, generation = companion.public.relations, room.info.generation
    for person, key in ((ben.person, told.key), (ana.person, public.key)):
        with pytest.raises(Refused, match="Only the person"):
            await desk.run(room, person, {"what": "erase", "keys": [key]})
    await desk.run(room, ana.person, {"what": "erase", "keys": [told.key]})
    assert [e.keys for e in ana.events if e.kind == "erased"] == [(told.key,)]
    for text in (markdown, rescue_jsonl):
        assert told.text not in text(room, companion, ana.person)
        assert "he hits me" in text(room, companion, ana.person), "her own line stays"
    assert not search(tmp_path, None, [told.text[:30], told.text[-30:]])[1]
    assert ben.events == events
    assert before == (everything_seen(room, ben), markdown(room, companion, ben.person))
    assert companion.public.relations is picture and room.info.generation == generation
    assert companion.carer.state.joint_off, "what follows for everybody's safety stays"
    await say(room, ana, "And now?", private=True)
    assert room.lines[-1].speaker == THERAPIST, "her own talk goes on"
    await desk.close()

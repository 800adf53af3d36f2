"""Data at rest: permissions, retention, and erasing a room or a person from real files."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.rooms import Steady, Tab, companion_of, desk_for, room_of, settings_for
from ui.desk import Desk
from ui.erase import CannotErase, erase_person, erase_room, search
from ui.room import Room

ANAS = ("The blue suitcase stands behind the door.", "I never told him about the suitcase.")
BENS = "I am going to the harbour on Friday."


async def lived_in(folder: Path, **more: Any) -> tuple[Desk, Room, Tab, Tab]:
    """A room with talk, whispers, decisions, votes, corrections, consents and care."""
    desk = desk_for(folder, Steady(1.0), decision_log=folder / "decisions.jsonl", **more)
    await desk.engine.start()
    room, (ana, ben) = await room_of(desk, "Ana", "Ben")
    await talk(room, ana, ANAS[0])
    await talk(room, ana, ANAS[1], private=True)
    await talk(room, ben, BENS)
    await talk(room, ana, "he hits me", private=True)
    key = room.lines[1].key
    await desk.run(room, ana.person, {"what": "vote", "key": key, "vote": 1})
    whisper = next(x for x in room.lines if x.text == ANAS[1])
    await desk.run(room, ana.person, {"what": "release", "key": whisper.key, "on": True})
    await companion_of(room).idle()
    await desk.run(room, ana.person, {"what": "correct", "person": "Ana", "other": "Ben"})
    return desk, room, ana, ben


async def talk(room: Room, tab: Tab, text: str, private: bool = False) -> None:
    await room.say(tab.person, text, private=private)
    await companion_of(room).idle()


def counted(folder: Path) -> dict[str, int]:
    tables = ("rooms", "people", "lines", "decisions", "votes", "corrections", "releases", "care")
    with sqlite3.connect(folder / "rooms.sqlite") as db:
        return {t: db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables}


async def test_only_the_owner_may_read_what_is_stored(tmp_path) -> None:
    folder = tmp_path / "data"
    desk, *_ = await lived_in(folder)
    for path in [folder, *folder.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, (path.name, oct(mode))
    await desk.close()


async def test_a_room_is_erased_everywhere(tmp_path) -> None:
    desk, room, *_ = await lived_in(tmp_path)
    other, (cleo, _) = await room_of(desk, "Cleo", "Dan")
    await talk(other, cleo, "We bought a yellow kayak.")
    await desk.close()
    log = tmp_path / "decisions.jsonl"
    before = log.read_text(encoding="utf-8").count("\n")
    assert search(tmp_path, log, [*ANAS, BENS])[1], "it is there before"
    report = erase_room(tmp_path, room.info.id, log)
    assert report.found == () and report.lines >= 5 and report.decisions and report.threads == 2
    assert report.logged and log.read_text(encoding="utf-8").count("\n") == before - report.logged
    assert search(tmp_path, log, [*ANAS, BENS, room.info.id])[1] == ()
    left = counted(tmp_path)
    assert left["rooms"] == 1 and left["people"] == 2 and left["releases"] == left["votes"] == 0
    desk = desk_for(tmp_path, Steady(0.0))
    await desk.engine.start()
    again = await desk.hall.open(other.info.id)
    assert again is not None and again.lines[0].text == "We bought a yellow kayak."
    assert await desk.hall.open(room.info.id) is None
    await desk.close()


async def test_a_person_is_erased_everywhere_and_the_others_stay(tmp_path) -> None:
    desk, room, ana, ben = await lived_in(tmp_path)
    await desk.close()
    log = tmp_path / "decisions.jsonl"
    report = erase_person(tmp_path, ana.person, log)
    assert report.found == () and report.lines >= 4
    assert search(tmp_path, log, [*ANAS, "he hits me", ana.person, '"Ana"'])[1] == ()
    with sqlite3.connect(tmp_path / "rooms.sqlite") as db:
        trigger = "SELECT count(*) FROM sqlite_master WHERE type='trigger'"
        assert db.execute(trigger).fetchone() == (1,)
        care = json.loads(db.execute("SELECT state FROM care").fetchone()[0])
    assert "Ana" not in care["people"] and care["joint_off"]
    assert counted(tmp_path)["people"] == 1
    desk = desk_for(tmp_path, Steady(0.0))
    await desk.engine.start()
    again = await desk.hall.open(room.info.id)
    assert again is not None and [x.text for x in again.visible_lines("Ben")] == [BENS]
    await companion_of(again).wake_up()
    assert "Ana" not in repr(companion_of(again).public.relations)
    tab = Tab(ben.person)
    again.join(tab)
    await talk(again, tab, "I am still here.")
    assert again.lines[-1].text == "I am still here."
    await desk.close()


async def test_nothing_is_erased_while_the_room_runs_or_for_unknown_ids(tmp_path) -> None:
    desk, room, *_ = await lived_in(tmp_path)
    with pytest.raises(CannotErase, match="running"):
        erase_room(tmp_path, room.info.id)
    await desk.close()
    with pytest.raises(CannotErase, match="no room"):
        erase_room(tmp_path, "unknown")
    with pytest.raises(CannotErase, match="no person"):
        erase_person(tmp_path, "unknown")
    with pytest.raises(CannotErase, match="there is no"):
        erase_room(tmp_path / "elsewhere", "x")
    assert counted(tmp_path)["rooms"] == 1


async def test_the_command(tmp_path) -> None:
    desk, room, ana, _ = await lived_in(tmp_path)
    await desk.close()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "KITH_"))}
    env |= {"KITH_DATA_DIR": str(tmp_path), "KITH_DECISION_LOG": str(tmp_path / "decisions.jsonl")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ui.erase", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    listed = run("--list")
    assert room.info.id in listed.stdout and ana.person in listed.stdout
    assert run().returncode == 2
    assert run("--room", "x").returncode == 1
    done = run("--person", ana.person)
    assert done.returncode == 0 and "none was found" in done.stdout, done.stderr
    assert "suitcase" not in done.stdout + done.stderr
    assert run("--room", room.info.id).returncode == 0


async def test_retention_takes_the_traces_along(tmp_path) -> None:
    desk, room, *_ = await lived_in(tmp_path, retention_days=1)
    log = tmp_path / "decisions.jsonl"
    assert log.read_text(encoding="utf-8")
    room.ports.clear()
    with sqlite3.connect(tmp_path / "rooms.sqlite") as db:
        db.execute("UPDATE rooms SET touched = touched - 90000")
    await desk._sweep()
    await desk.close()
    assert log.read_text(encoding="utf-8") == ""
    assert search(tmp_path, log, [*ANAS, BENS, room.info.id])[1] == ()


async def test_an_erased_line_leaves_the_log_too(tmp_path) -> None:
    desk, room, ana, _ = await lived_in(tmp_path)
    log = tmp_path / "decisions.jsonl"
    before = log.read_text(encoding="utf-8").count("\n")
    await room.erase(ana.person, [room.lines[0].key])
    assert log.read_text(encoding="utf-8").count("\n") < before
    await desk.close()


def test_settings_of_the_folder(tmp_path) -> None:
    assert settings_for(tmp_path).retention_days is None
    assert settings_for(tmp_path, retention_days=30).retention_days == 30


async def test_a_part_of_a_long_line_is_found_as_well(tmp_path) -> None:
    desk, room, ana, _ = await lived_in(tmp_path)
    await talk(room, ana, " ".join(f"Heron {i} stands still in the reeds." for i in range(100)))
    await desk.close()
    with closing(sqlite3.connect(tmp_path / "checkpoints.sqlite")) as db:
        rest = db.execute("SELECT checkpoint FROM checkpoints WHERE thread_id LIKE '%public%'")
        spread = max((row[0] for row in rest), key=len)
    with closing(sqlite3.connect(tmp_path / "notes.sqlite")) as db, db:
        db.execute("CREATE TABLE kept(what)")
        db.execute("INSERT INTO kept VALUES (?)", (spread,))
    report = erase_person(tmp_path, ana.person, tmp_path / "decisions.jsonl")
    assert report.found == ("notes.sqlite",)


async def test_nothing_is_erased_where_only_the_checkpoints_are_in_use(tmp_path) -> None:
    desk, room, ana, _ = await lived_in(tmp_path)
    await desk.close()
    with closing(sqlite3.connect(tmp_path / "checkpoints.sqlite")) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("SELECT count(*) FROM checkpoints").fetchone()
        for erase in (
            lambda: erase_person(tmp_path, ana.person),
            lambda: erase_room(tmp_path, room.info.id),
        ):
            with pytest.raises(CannotErase, match="running"):
                erase()
    assert counted(tmp_path)["people"] == 2 and counted(tmp_path)["decisions"]
    assert erase_person(tmp_path, ana.person, tmp_path / "decisions.jsonl").found == ()

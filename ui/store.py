"""The rooms on disk: people, an append-only transcript, decisions, votes and corrections.

SQLite in WAL mode, every call on one worker thread, so that writes keep their order and the event
loop never waits for the disk. The transcript is the truth; the graph's checkpoints are a cache.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from ui.records import Correction, DecisionRow, Line, Person, RoomInfo
from ui.schema import SCHEMA

T = TypeVar("T")
BUSY_MS: Final = 10_000


class Store:
    """The one owner of the rooms' database file.

    Raises:
        sqlite3.Error: from every method, when the file cannot be read or written.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kith-store")
        self._db: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the database, in a transaction, on its own thread."""

        def on_thread() -> T:
            if self._db is None:
                self._db = self._open()
            with self._db:
                return work(self._db)

        return await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)

    def _open(self) -> sqlite3.Connection:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.file, timeout=BUSY_MS / 1000, check_same_thread=False)
        # its write-ahead files get the same permissions
        self.file.chmod(0o600)
        db.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        _write_ahead(db)
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA foreign_keys=ON")
        # an erased line must not linger in free pages
        db.execute("PRAGMA secure_delete=ON")
        db.executescript(SCHEMA)
        return db

    async def close(self) -> None:
        """Close the file; the store can be used again."""

        def on_thread() -> None:
            if self._db is not None:
                self._db.close()
                self._db = None

        await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)

    # rooms and people

    async def add_room(self, info: RoomInfo) -> None:
        """Store a new room."""
        await self.run(
            lambda db: db.execute(
                "INSERT INTO rooms(id, scenario, mode, created, touched, script) "
                "VALUES (?,?,?,?,?,?)",
                (info.id, info.scenario, info.mode, info.created, info.touched, info.script),
            )
        )

    async def room(self, room: str) -> RoomInfo | None:
        """Return a room, or None."""

        def work(db: sqlite3.Connection) -> RoomInfo | None:
            row = db.execute(
                "SELECT id, scenario, mode, created, touched, talk, strategies_off, paused, "
                "generation, script, position FROM rooms WHERE id=?",
                (room,),
            ).fetchone()
            if row is None:
                return None
            return RoomInfo(*row[:6], tuple(json.loads(row[6])), bool(row[7]), *row[8:])

        return await self.run(work)

    async def change_room(self, info: RoomInfo) -> None:
        """Store a room's settings."""
        values = (
            info.touched,
            info.talk,
            json.dumps(info.strategies_off),
            int(info.paused),
            info.generation,
            info.script,
            info.position,
            info.id,
        )
        await self.run(
            lambda db: db.execute(
                "UPDATE rooms SET touched=?, talk=?, strategies_off=?, paused=?, generation=?, "
                "script=?, position=? WHERE id=?",
                values,
            )
        )

    async def delete_room(self, room: str) -> None:
        """Delete a room and everything in it."""
        await self.run(lambda db: db.execute("DELETE FROM rooms WHERE id=?", (room,)))
        await self.shrink()

    async def untouched_since(self, when: float) -> list[str]:
        """Return the ids of rooms in which nothing was said since ``when``."""
        return await self.run(
            lambda db: [r[0] for r in db.execute("SELECT id FROM rooms WHERE touched<?", (when,))]
        )

    async def people(self, room: str) -> list[Person]:
        """Return the people of a room in the order they came."""
        return await self.run(
            lambda db: [
                Person(*row)
                for row in db.execute(
                    "SELECT id, name, role, age, colour, consented, gone FROM people "
                    "WHERE room=? ORDER BY rowid",
                    (room,),
                )
            ]
        )

    async def put_person(self, room: str, person: Person) -> None:
        """Add a person, or store what changed."""
        values = (
            room,
            person.id,
            person.name,
            person.role,
            person.age,
            person.colour,
            person.consented,
            person.gone,
        )
        await self.run(
            lambda db: db.execute(
                "INSERT INTO people VALUES (?,?,?,?,?,?,?,?) ON CONFLICT(room, id) DO UPDATE SET "
                "role=excluded.role, age=excluded.age, consented=excluded.consented, "
                "gone=excluded.gone",
                values,
            )
        )

    # the transcript

    async def append(self, room: str, line: Line, consent: tuple[str, int] | None = None) -> None:
        """Add a line.

        Args:
            room: the room's id.
            line: the line.
            consent: for a line that shows a whisper, whose it is (person id) and the whisper's
                place: the consent is stored with the line, or neither is.

        Raises:
            sqlite3.IntegrityError: when its place or key is taken.
        """

        def work(db: sqlite3.Connection) -> None:
            if consent is not None:
                db.execute(
                    "INSERT INTO releases(room, person, whisper, shown, granted) "
                    "VALUES (?,?,?,?,?)",
                    (room, *consent, line.seq, line.at),
                )
            _insert(db, room, line)

        await self.run(work)

    async def lines(self, room: str) -> list[Line]:
        """Return the transcript, erased lines included (without their text)."""

        def work(db: sqlite3.Connection) -> list[Line]:
            rows = db.execute(
                "SELECT seq, key, speaker, text, at, addressees, given, visible_to, erased "
                "FROM lines WHERE room=? ORDER BY seq",
                (room,),
            )
            return [
                Line(
                    *row[:5],
                    tuple(json.loads(row[5])),
                    bool(row[6]),
                    None if row[7] is None else tuple(json.loads(row[7])),
                    row[8],
                )
                for row in rows
            ]

        return await self.run(work)

    async def erase(self, room: str, seqs: Sequence[int]) -> None:
        """Take the words of lines away for good, also from the log beside the file.

        A consent to show a whisper ends with either of its lines.
        """
        rows = [(time.time(), room, seq) for seq in seqs]

        def work(db: sqlite3.Connection) -> None:
            db.executemany(
                "UPDATE lines SET text='', addressees='[]', erased=? WHERE room=? AND seq=?", rows
            )
            for place in ("shown", "whisper"):
                db.executemany(
                    f"UPDATE releases SET revoked=? WHERE room=? AND {place}=? AND revoked IS NULL",
                    rows,
                )

        await self.run(work)
        await self.shrink()

    async def shrink(self) -> None:
        """Write everything to the file and empty the log beside it."""

        def on_thread() -> None:
            if self._db is not None:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)

    # decisions, votes, corrections

    async def add_decision(
        self, room: str, viewer: str | None, seq: int, reply: int | None, record: str
    ) -> int:
        """Store a decision record; returns its id."""

        def work(db: sqlite3.Connection) -> int:
            cursor = db.execute(
                "INSERT INTO decisions(room, viewer, seq, reply, record, at) VALUES (?,?,?,?,?,?)",
                (room, viewer, seq, reply, record, time.time()),
            )
            return int(cursor.lastrowid or 0)

        return await self.run(work)

    async def decisions(self, room: str) -> list[DecisionRow]:
        """Return the decision records of a room in order."""
        return await self.run(
            lambda db: [
                DecisionRow(*row)
                for row in db.execute(
                    "SELECT id, viewer, seq, reply, record FROM decisions WHERE room=? ORDER BY id",
                    (room,),
                )
            ]
        )

    async def replace_records(self, records: Sequence[tuple[int, str]]) -> None:
        """Overwrite decision records, by id (used when lines they quote are erased)."""
        await self.run(
            lambda db: db.executemany(
                "UPDATE decisions SET record=? WHERE id=?", [(text, i) for i, text in records]
            )
        )

    async def vote(self, decision: int, person: str, vote: int) -> None:
        """Store a person's thumb: 1 up, -1 down, 0 takes it back."""

        def work(db: sqlite3.Connection) -> None:
            if vote:
                db.execute(
                    "INSERT INTO votes VALUES (?,?,?,?) ON CONFLICT(decision, person) "
                    "DO UPDATE SET vote=excluded.vote, at=excluded.at",
                    (decision, person, vote, time.time()),
                )
            else:
                db.execute("DELETE FROM votes WHERE decision=? AND person=?", (decision, person))

        await self.run(work)

    async def votes(self, room: str) -> list[tuple[int, str, int]]:
        """Return (decision id, person id, vote) of a room."""
        return await self.run(
            lambda db: [
                (row[0], row[1], row[2])
                for row in db.execute(
                    "SELECT v.decision, v.person, v.vote FROM votes v "
                    "JOIN decisions d ON d.id=v.decision WHERE d.room=? ORDER BY v.decision",
                    (room,),
                )
            ]
        )

    async def add_correction(self, room: str, correction: Correction) -> None:
        """Remember that a belief was marked as wrong."""
        c = correction
        values = (room, c.kind, c.person, c.other, json.dumps(list(c.evidence)), time.time())
        await self.run(
            lambda db: db.execute(
                "INSERT INTO corrections(room, kind, person, other, evidence, at) "
                "VALUES (?,?,?,?,?,?)",
                values,
            )
        )

    async def corrections(self, room: str) -> list[Correction]:
        """Return every correction, oldest first."""
        return await self.run(
            lambda db: [
                Correction(*row[:3], tuple(json.loads(row[3])))
                for row in db.execute(
                    "SELECT kind, person, other, evidence FROM corrections "
                    "WHERE room=? ORDER BY id",
                    (room,),
                )
            ]
        )

    # care

    async def care(self, room: str) -> str | None:
        """Return the stored care of a room as JSON, or None."""

        def work(db: sqlite3.Connection) -> str | None:
            row = db.execute("SELECT state FROM care WHERE room=?", (room,)).fetchone()
            return None if row is None else str(row[0])

        return await self.run(work)

    async def put_care(self, room: str, state: str) -> None:
        """Store the care of a room."""
        await self.run(
            lambda db: db.execute(
                "INSERT INTO care VALUES (?,?) "
                "ON CONFLICT(room) DO UPDATE SET state=excluded.state",
                (room, state),
            )
        )


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch to WAL; two processes that open a new file at once do not wait for each other."""
    for _ in range(50):
        try:
            db.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            time.sleep(0.05)
        else:
            return
    db.execute("PRAGMA journal_mode=WAL")


def _insert(db: sqlite3.Connection, room: str, line: Line) -> None:
    db.execute(
        "INSERT INTO lines VALUES (?,?,?,?,?,?,?,?,?,?)",
        (
            room,
            line.seq,
            line.key,
            line.speaker,
            line.text,
            json.dumps(line.addressees),
            int(line.given),
            None if line.visible_to is None else json.dumps(line.visible_to),
            line.at,
            line.erased,
        ),
    )
    db.execute("UPDATE rooms SET touched=? WHERE id=?", (line.at, room))

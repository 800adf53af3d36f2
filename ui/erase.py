"""Erase a room or a person everywhere, and prove it: ``python -m ui.erase --room ID``.

Transcript, decisions, votes, corrections, care, consents, checkpoints, vectors and the decision
log. Afterwards every file of the data folder is searched for what was erased.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from agent.labels import THERAPIST
from agent.safety.care_state import CareState
from agent.settings import load_settings
from ui.traces import drop_from_log

ROOMS: Final = "rooms.sqlite"
CHECKPOINTS: Final = "checkpoints.sqlite"
SHORTEST: Final = 10
"""Characters from which a line is searched for: shorter ones ("I know.") are anybody's."""
_TRIGGER: Final = "lines_append_only"
PIECE: Final = 60
"""Characters of the pieces that a longer line is searched for in, too: a database spreads a long
text over pages, and a copy may hold a part of it."""
_CHUNK: Final = 1 << 20


class CannotErase(RuntimeError):
    """Nothing was erased; the message says why."""


@dataclass(frozen=True)
class Report:
    """What an erasure did.

    Attributes:
        lines: lines whose words are gone.
        decisions: decision records that are gone.
        threads: checkpoint threads that are gone.
        logged: lines taken out of the decision log.
        searched: files searched afterwards.
        phrases: phrases searched for.
        found: files that still hold one of them; empty when the erasure is complete.
    """

    lines: int
    decisions: int
    threads: int
    logged: int
    searched: int
    phrases: int
    found: tuple[str, ...]


def _open(file: Path) -> sqlite3.Connection:
    """Open a database for this process alone; overwritten pages keep nothing.

    Raises:
        CannotErase: when the file is missing or another process has it open.
    """
    if not file.exists():
        raise CannotErase(f"there is no {file.name} in {file.parent}")
    db = sqlite3.connect(file, timeout=2)
    try:
        # leaving WAL mode works only where nobody else has the file open
        db.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        db.close()
        raise CannotErase("the room is running: stop it first, then erase") from error
    db.execute("PRAGMA secure_delete=ON")
    # VACUUM would copy the file to the system's temporary folder
    db.execute("PRAGMA temp_store=MEMORY")
    db.execute("PRAGMA foreign_keys=ON")
    return db


def erase_room(data: Path, room: str, log: Path | None = None) -> Report:
    """Erase a room.

    Args:
        data: the data folder.
        room: the room's id.
        log: the decision log, where one is kept.

    Raises:
        CannotErase: when there is no such room, or it is in use.
        sqlite3.Error: when a file is damaged.
    """
    db = _open(data / ROOMS)
    try:
        if db.execute("SELECT 1 FROM rooms WHERE id=?", (room,)).fetchone() is None:
            raise CannotErase("there is no room of that id")
        texts = [r[0] for r in db.execute("SELECT text FROM lines WHERE room=?", (room,))]
        keys = [r[0] for r in db.execute("SELECT key FROM lines WHERE room=?", (room,))]
        people = [r[0] for r in db.execute("SELECT id FROM people WHERE room=?", (room,))]
        records = _records(db, room)
        # what can be made again goes first: after a failure the command can be run once more
        threads = _forget_threads(data, room)
        logged = drop_from_log(log, records)
        with db:
            db.execute("DELETE FROM rooms WHERE id=?", (room,))
        phrases = _phrases([*texts, room, *keys, *people], _kept(db))
        db.execute("VACUUM")
    finally:
        db.close()
    searched, found = search(data, log, phrases)
    said = len([t for t in texts if t])
    return Report(said, len(records), threads, logged, searched, len(phrases), found)


def erase_person(data: Path, person: str, log: Path | None = None) -> Report:
    """Erase a person from their room: their place, words, whispers, and what was made of them.

    What others said stays theirs. The room's picture is read again from what is left.

    Args:
        data: the data folder.
        person: the person's id.
        log: the decision log, where one is kept.

    Raises:
        CannotErase: when there is no such person, or the room is in use.
        sqlite3.Error: when a file is damaged.
    """
    db = _open(data / ROOMS)
    try:
        row = db.execute("SELECT room, name FROM people WHERE id=?", (person,)).fetchone()
        if row is None:
            raise CannotErase("there is no person of that id")
        room, name = row
        seqs, texts, keys = _lines_of(db, room, name)
        records = _records(db, room)
        threads = _forget_threads(data, room)
        logged = drop_from_log(log, records)
        with db:
            _take_out(db, room, person, name, seqs)
        phrases = _phrases([*texts, person, *keys], _kept(db))
        db.execute("VACUUM")
    finally:
        db.close()
    searched, found = search(data, log, phrases)
    return Report(len(seqs), len(records), threads, logged, searched, len(phrases), found)


def _records(db: sqlite3.Connection, room: str) -> list[str]:
    return [r[0] for r in db.execute("SELECT record FROM decisions WHERE room=?", (room,))]


def _kept(db: sqlite3.Connection) -> str:
    """Return all that is still said in any room: a phrase in it proves nothing."""
    return "\n".join(r[0] for r in db.execute("SELECT text FROM lines WHERE text<>''"))


def _phrases(texts: Iterable[str], kept: str) -> list[str]:
    wanted = [part for text in texts for part in (text, *_pieces(text))]
    return list(dict.fromkeys(t for t in wanted if len(t) >= SHORTEST and t not in kept))


def _pieces(text: str) -> list[str]:
    """Return a long line in pieces of about ``PIECE`` characters; none for a short one."""
    if len(text) <= PIECE:
        return []
    return [text[i : i + PIECE] for i in range(0, len(text) - PIECE // 2, PIECE)]


def _lines_of(
    db: sqlite3.Connection, room: str, name: str
) -> tuple[list[int], list[str], list[str]]:
    """Return a person's lines, and the agent's that were made for them or name them."""
    seqs, texts, keys = [], [], []
    rows = db.execute(
        "SELECT seq, key, speaker, text, addressees, visible_to FROM lines WHERE room=?", (room,)
    )
    for seq, key, speaker, text, addressees, visible_to in rows:
        own = speaker == name or (visible_to is not None and name in json.loads(visible_to))
        about = speaker == THERAPIST and (name in text or name in json.loads(addressees))
        if own or about:
            seqs.append(seq)
            texts.append(text)
            if own:
                keys.append(key)
    return seqs, texts, keys


def _take_out(db: sqlite3.Connection, room: str, person: str, name: str, seqs: list[int]) -> None:
    """Change what is stored; the transcript's own guard is lifted for it and put back."""
    guard = db.execute("SELECT sql FROM sqlite_master WHERE name=?", (_TRIGGER,)).fetchone()[0]
    db.execute(f"DROP TRIGGER {_TRIGGER}")
    nobody = f"gone-{sum(1 for _ in db.execute('SELECT 1 FROM people WHERE room=?', (room,)))}"
    marks = ",".join("?" * len(seqs))
    db.execute(
        f"UPDATE lines SET text='', addressees='[]', key=hex(randomblob(16)), erased=?, "
        f"visible_to=CASE WHEN visible_to IS NULL THEN NULL ELSE '[]' END "
        f"WHERE room=? AND seq IN ({marks})",
        (time.time(), room, *seqs),
    )
    db.execute("UPDATE lines SET speaker=? WHERE room=? AND speaker=?", (nobody, room, name))
    rows = db.execute("SELECT seq, addressees FROM lines WHERE room=?", (room,)).fetchall()
    for seq, addressees in rows:
        left = [a for a in json.loads(addressees) if a != name]
        db.execute(
            "UPDATE lines SET addressees=? WHERE room=? AND seq=?", (json.dumps(left), room, seq)
        )
    db.execute(guard)
    db.execute("DELETE FROM decisions WHERE room=?", (room,))
    db.execute("DELETE FROM votes WHERE person=?", (person,))
    db.execute("DELETE FROM releases WHERE room=? AND person=?", (room, person))
    db.execute("DELETE FROM corrections WHERE room=? AND (person=? OR other=?)", (room, name, name))
    stored = db.execute("SELECT state FROM care WHERE room=?", (room,)).fetchone()
    if stored is not None:
        left_care = CareState.model_validate_json(stored[0]).without_person(name)
        left_care = left_care.without(set(seqs))
        db.execute("UPDATE care SET state=? WHERE room=?", (left_care.model_dump_json(), room))
    db.execute("DELETE FROM people WHERE room=? AND id=?", (room, person))


def _forget_threads(data: Path, room: str) -> int:
    file = data / CHECKPOINTS
    if not file.exists():
        return 0
    db = _open(file)
    try:
        found = db.execute(
            "SELECT count(DISTINCT thread_id) FROM checkpoints WHERE thread_id LIKE ? || ':%'",
            (room,),
        ).fetchone()[0]
        with db:
            for table in ("checkpoints", "writes"):
                db.execute(f"DELETE FROM {table} WHERE thread_id LIKE ? || ':%'", (room,))
        db.execute("VACUUM")
        return int(found)
    finally:
        db.close()


def search(data: Path, log: Path | None, phrases: Iterable[str]) -> tuple[int, tuple[str, ...]]:
    """Search every file of the data folder, and the decision log, for phrases.

    Returns:
        How many files were searched, and the names of those that hold one of the phrases.
    """
    files = sorted(f for f in data.rglob("*") if f.is_file())
    if log is not None and log.is_file() and log not in files:
        files.append(log)
    wanted = [form for p in phrases for form in _forms(p)]
    found = [f.name for f in files if _holds(f, wanted)]
    return len(files), tuple(found)


def _forms(phrase: str) -> list[bytes]:
    """Return a phrase as it may lie on disk: plain, and as JSON with and without escapes."""
    plain = [phrase, json.dumps(phrase)[1:-1], json.dumps(phrase, ensure_ascii=False)[1:-1]]
    return [text.encode("utf-8", "replace") for text in dict.fromkeys(plain)]


def _holds(file: Path, wanted: list[bytes]) -> bool:
    longest = max((len(w) for w in wanted), default=1)
    tail = b""
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            block = tail + chunk
            if any(w in block for w in wanted):
                return True
            tail = block[-longest:]
    return False


def listing(data: Path) -> list[str]:
    """Return one line per room and person, with their ids.

    Raises:
        CannotErase: when there are no rooms.
    """
    if not (data / ROOMS).exists():
        raise CannotErase(f"there is no {ROOMS} in {data}")
    db = sqlite3.connect(data / ROOMS)
    try:
        out = []
        for room, created in db.execute("SELECT id, created FROM rooms ORDER BY created"):
            day = time.strftime("%Y-%m-%d", time.localtime(created))
            out.append(f"room {room} of {day}")
            for who in db.execute("SELECT id, name FROM people WHERE room=?", (room,)):
                out.append(f"  person {who[0]} {who[1]}")
        return out
    finally:
        db.close()


def main(
    room: Annotated[str | None, typer.Option(help="Id of the room to erase.")] = None,
    person: Annotated[str | None, typer.Option(help="Id of the person to erase.")] = None,
    show: Annotated[bool, typer.Option("--list", help="List rooms and people.")] = False,
) -> None:
    """Erase a room or a person everywhere, and search what is left for their words.

    Stop the room first. The data folder and the decision log are those of the settings.
    """
    settings = load_settings()
    data, log = settings.data_dir, settings.decision_log
    if sum((room is not None, person is not None, show)) != 1:
        typer.echo("Say one of --room ID, --person ID or --list.", err=True)
        raise typer.Exit(2)
    try:
        if show:
            typer.echo("\n".join(listing(data)) or "There are no rooms.")
            return
        report = erase_room(data, room, log) if room else erase_person(data, str(person), log)
    except CannotErase as error:
        typer.echo(f"Nothing was erased: {error}.", err=True)
        raise typer.Exit(1) from None
    typer.echo(
        f"Erased {report.lines} lines, {report.decisions} decisions, {report.threads} checkpoint "
        f"threads, {report.logged} log lines."
    )
    if report.found:
        typer.echo(f"Still found in: {', '.join(report.found)}", err=True)
        raise typer.Exit(1)
    typer.echo(f"Searched {report.searched} files for {report.phrases} phrases: none was found.")


if __name__ == "__main__":
    typer.run(main)

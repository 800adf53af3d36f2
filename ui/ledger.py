"""Consent to show a whisper: one line at a time, by its writer alone, and revocable (S13).

Sharing writes the words again as a public line of their writer. What the room says in public is
made from public lines only, so without an entry in here nothing of a whisper can reach it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ui.inputs import Refused
from ui.records import Line
from ui.room import Room
from ui.store import Store


@dataclass(frozen=True)
class Release:
    """One consent.

    Attributes:
        person: id of the writer.
        whisper: place of the whispered line.
        shown: place of the public line that repeats it.
        granted: when, seconds since the epoch.
        revoked: when it was taken back, or None.
    """

    person: str
    whisper: int
    shown: int
    granted: float
    revoked: float | None


class Ledger:
    """The consents of all rooms, stored beside the transcripts; entries are never deleted.

    Args:
        store: the rooms on disk.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        # a second press of the button must not share twice: taking back would leave a copy
        self._order = asyncio.Lock()

    async def entries(self, room: str) -> list[Release]:
        """Return a room's consents, oldest first, revoked ones included."""
        return await self.store.run(
            lambda db: [
                Release(*row)
                for row in db.execute(
                    "SELECT person, whisper, shown, granted, revoked FROM releases "
                    "WHERE room=? ORDER BY id",
                    (room,),
                )
            ]
        )

    async def grant(self, room: Room, person: str, key: str) -> Line:
        """Show a whisper to everybody because its writer says so.

        Returns:
            The public line.

        Raises:
            Refused: when it is not a whisper of that person, or is shared already.
        """
        async with self._order:
            line = self._own(room, person, key)
            if await self._active(room, line.seq) is not None:
                raise Refused("That is shared already.")
            # asked again: it may have been erased meanwhile
            return await room.share(person, self._own(room, person, key))

    async def revoke(self, room: Room, person: str, key: str) -> None:
        """Take a shared whisper out of the room and out of the agent's memory again.

        Raises:
            Refused: when it is not a shared whisper of that person.
        """
        line = self._own(room, person, key)
        entry = await self._active(room, line.seq)
        if entry is None:
            raise Refused("That is not shared.")
        shown = room.line_by_seq(entry.shown)
        if shown is not None and not shown.erased:
            # the consent ends in the same step
            await room.erase(person, [shown.key])
        else:
            await self._end(room, line.seq)

    async def shown_for(self, room: Room, keys: Sequence[str]) -> list[str]:
        """Return the keys of the public lines that show whispers."""
        found = []
        for key in keys:
            line = room.line_by_key(key)
            entry = await self._active(room, line.seq) if line is not None else None
            shown = room.line_by_seq(entry.shown) if entry is not None else None
            found += [shown.key] if shown is not None else []
        return found

    async def shared(self, room: Room, person: str) -> list[str]:
        """Return the keys of a person's whispers that are shared now."""
        entries = await self.entries(room.info.id)
        own = [e for e in entries if e.person == person and e.revoked is None]
        lines = [room.line_by_seq(e.whisper) for e in own]
        return [x.key for x in lines if x is not None and not x.erased]

    def _own(self, room: Room, person: str, key: str) -> Line:
        line, name = room.line_by_key(key), room.people[person].name
        whispered = line is not None and line.visible_to == (name,)
        if line is None or not whispered or line.speaker != name or line.erased:
            raise Refused("Only your own whispers can be shared, and only by you.")
        return line

    async def _active(self, room: Room, whisper: int) -> Release | None:
        entries = await self.entries(room.info.id)
        return next((e for e in entries if e.whisper == whisper and e.revoked is None), None)

    async def _end(self, room: Room, whisper: int) -> None:
        values = (time.time(), room.info.id, whisper)

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE releases SET revoked=? WHERE room=? AND whisper=? AND revoked IS NULL",
                values,
            )

        await self.store.run(work)

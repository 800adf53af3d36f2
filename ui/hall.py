"""All rooms of this process: making, opening, closing and cleaning up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from agent.labels import SCENARIOS, Scenario
from ui.inputs import Refused
from ui.records import Mode, new_room_info
from ui.room import MOST_ROOMS, Listener, Room
from ui.store import Store


class Hall:
    """Keeps at most ``MOST_ROOMS`` rooms in memory; the others rest on disk.

    Args:
        store: the rooms on disk.
        companion: makes the agent of a room that is opened; None for rooms without one.
    """

    def __init__(self, store: Store, companion: Callable[[Room], Listener] | None = None) -> None:
        self.store = store
        self.companion = companion
        self.before_delete: Callable[[str], Awaitable[None]] | None = None
        self.rooms: dict[str, Room] = {}
        self._opening = asyncio.Lock()

    async def create(self, scenario: str, mode: Mode, script: str = "") -> Room:
        """Make a room.

        Raises:
            Refused: for an unknown scenario, or when the house is full.
        """
        known: tuple[Scenario, ...] = SCENARIOS
        match = next((s for s in known if s == scenario), None)
        if match is None:
            raise Refused("Please choose a couple or a family.")
        async with self._opening:
            self._make_space()
            info = new_room_info(match, mode, script)
            await self.store.add_room(info)
            return self._keep(Room(info, self.store, {}, []))

    async def open(self, room: str) -> Room | None:
        """Return a room, from memory or disk; None when there is none.

        Raises:
            Refused: when the house is full.
        """
        if room in self.rooms:
            return self.rooms[room]
        async with self._opening:
            if room in self.rooms:
                return self.rooms[room]
            info = await self.store.room(room)
            if info is None:
                return None
            self._make_space()
            people = {p.id: p for p in await self.store.people(room)}
            return self._keep(Room(info, self.store, people, await self.store.lines(room)))

    def _keep(self, room: Room) -> Room:
        if self.companion is not None:
            room.companion = self.companion(room)
        self.rooms[room.info.id] = room
        return room

    def _make_space(self) -> None:
        if len(self.rooms) < MOST_ROOMS:
            return
        idle = [r for r in self.rooms.values() if not r.ports]
        if not idle:
            raise Refused(
                f"{MOST_ROOMS} rooms are open, and that is as many as this house holds. "
                "Please try again in a while."
            )
        oldest = min(idle, key=lambda r: r.info.touched)
        del self.rooms[oldest.info.id]

    async def delete(self, room: str) -> None:
        """Delete a room for good."""
        self.rooms.pop(room, None)
        if self.before_delete is not None:
            await self.before_delete(room)
        await self.store.delete_room(room)

    async def sweep(self, days: int | None) -> list[str]:
        """Delete rooms in which nothing was said for so many days; returns their ids."""
        if days is None:
            return []
        old = await self.store.untouched_since(time.time() - days * 86400)
        gone = [room for room in old if not (room in self.rooms and self.rooms[room].ports)]
        for room in gone:
            await self.delete(room)
        return gone

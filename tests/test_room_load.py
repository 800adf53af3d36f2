"""50 rooms, 4 people each, 20 messages a person, on one event loop: none lost, none doubled."""

from __future__ import annotations

import asyncio
import statistics
import time

from agent.labels import THERAPIST
from tests.rooms import Steady, Tab, companion_of, desk_for, room_of
from ui.room import Event, Room

ROOMS, PEOPLE, MESSAGES = 50, 4, 20


class TimedTab(Tab):
    def __init__(self, person: str) -> None:
        super().__init__(person)
        self.arrived: list[tuple[str, float]] = []

    def push(self, event: Event) -> None:
        super().push(event)
        if event.line is not None:
            self.arrived.append((event.line.text, time.perf_counter()))


async def test_fifty_rooms(tmp_path, capsys) -> None:
    desk = desk_for(tmp_path, Steady(0.3), settle=0.05)
    await desk.engine.start()
    sent: dict[str, float] = {}

    async def talk(room: Room, tab: TimedTab) -> None:
        for _ in range(MESSAGES):
            text = f"This is line {len(sent)} of the evening."
            sent[text] = time.perf_counter()
            await room.say(tab.person, text)
            await asyncio.sleep(0.05)

    rooms: list[tuple[Room, list[TimedTab]]] = []
    for _ in range(ROOMS):
        room, _tabs = await room_of(desk, *(f"P{i}" for i in range(PEOPLE)), scenario="family")
        room.ports.clear()
        tabs = [TimedTab(p) for p in room.people]
        for tab in tabs:
            room.join(tab)
        rooms.append((room, tabs))
    await asyncio.gather(*(talk(r, t) for r, tabs in rooms for t in tabs))
    await asyncio.gather(*(companion_of(r).idle() for r, _ in rooms))

    waits = []
    for room, tabs in rooms:
        order = [x.text for x in room.lines]
        assert [x.text for x in await desk.store.lines(room.info.id)] == order
        said = [x.text for x in room.lines if x.speaker != THERAPIST]
        assert len(said) == len(set(said)) == PEOPLE * MESSAGES
        for tab in tabs:
            assert tab.texts == order
            waits += [(at - sent[text]) * 1000 for text, at in tab.arrived if text in sent]
        for number in range(PEOPLE):
            own = [t for t in said if t.split()[1] == str(number)]
            assert own == sorted(own, key=lambda t: int(t.split()[2]))
    await desk.close()
    cuts = statistics.quantiles(waits, n=20)
    with capsys.disabled():
        line = f"fan-out of {len(waits)} deliveries: p50 {cuts[9]:.1f} ms, p95 {cuts[18]:.1f} ms"
        print(f"\n{line}")  # noqa: T201

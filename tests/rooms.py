"""Rooms for tests: the real store, graph and checkpoints, with a policy that answers at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent.conversation import Turn
from agent.decision import Reply, Timing
from agent.policies.base import View
from agent.reading import Reading, TurnReading
from agent.settings import Settings, load_settings
from tests.fakes import QueuePolicy
from ui.companion import Companion
from ui.desk import Desk
from ui.panel import line_view, panel_view
from ui.room import Event, Room


class Steady(QueuePolicy):
    """Speaks with the same probability every time; the others are spoken to where none is named."""

    def __init__(self, probability: float = 0.0, seconds: float = 0.0) -> None:
        super().__init__()
        self.probability = probability
        self.seconds = seconds
        self.running = 0
        self.most_running = 0

    async def read(self, view: View, new: int) -> Reading:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(self.seconds)
            return await super().read(view, new)
        finally:
            self.running -= 1

    def _reading(self, turn: Turn, view: View) -> TurnReading:
        if turn.by_agent or turn.addressees:
            return super()._reading(turn, view)
        others = tuple(p for p in view.participants if p != turn.speaker)
        return super()._reading(turn.model_copy(update={"addressees": others}), view)

    async def time(self, view: View, reading: Reading) -> Timing:
        self._seen("time", view)
        return Timing(
            probability=self.probability,
            reasons=("two people talk past each other",),
            evidence=tuple(t.id for t in view.turns[-2:]),
        )

    async def reply(self, view: View, reading: Reading, target: str, strategy: str) -> Reply:
        self._seen("reply", view)
        text = f"{target}, what did you hear just now?"
        return Reply(text=text, source="library", target=target, strategy=strategy)


class Tab:
    """A port that keeps what it got."""

    def __init__(self, person: str) -> None:
        self.person = person
        self.events: list[Event] = []

    def push(self, event: Event) -> None:
        self.events.append(event)

    @property
    def texts(self) -> list[str]:
        return [e.line.text for e in self.events if e.line is not None]

    @property
    def notices(self) -> list[str]:
        return [e.text for e in self.events if e.kind == "notice"]


def settings_for(folder: Path, **more: Any) -> Settings:
    return load_settings(
        data_dir=folder, **{"openai_api_key": None, "openai_base_url": None, **more}
    )


def desk_for(
    folder: Path, policy: QueuePolicy, settle: float = 0.03, others: Any = None, **more: Any
) -> Desk:
    def make(name: str, settings: Settings) -> Any:
        return (others or {}).get(name, policy)

    return Desk(settings_for(folder, **more), make, settle)


async def room_of(desk: Desk, *names: str, scenario: str = "couple") -> tuple[Room, list[Tab]]:
    """A shared room in which everybody consented and has a tab open."""
    room = await desk.hall.create(scenario, "shared")
    role = "partner" if scenario == "couple" else "other"
    people = [await room.add_person(n, role, "adult", consented=True) for n in names]
    tabs = [Tab(p.id) for p in people]
    for tab in tabs:
        room.join(tab)
    return room, tabs


def companion_of(room: Room) -> Companion:
    assert isinstance(room.companion, Companion)
    return room.companion


def everything_seen(room: Room, tab: Tab) -> str:
    """All that a person's browser was ever given, as one text."""
    seen = [repr(e) for e in tab.events]
    seen += [
        repr(line_view(room, x, tab.person)) for x in room.visible_lines(room.viewer_of(tab.person))
    ]
    seen.append(repr(panel_view(room, companion_of(room), tab.person)))
    return "\n".join(seen)


async def started(folder: Path, policy: Steady, **more: object) -> Desk:
    """Return a desk with its graph open."""
    desk = desk_for(folder, policy, **more)  # type: ignore[arg-type]
    await desk.engine.start()
    return desk

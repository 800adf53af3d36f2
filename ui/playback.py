"""Plays a demo conversation in a room, at a chosen speed, with the agent live.

The people's lines come from the script; the helper's do not: that chair is the agent's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.demo import demo_path
from agent.labels import SCENARIOS, Scenario
from agent.rescue import Row, Sample, read_dataset
from agent.rescue.annotations import is_client
from ui.companion import Companion
from ui.inputs import Refused
from ui.room import Event, Room

SPEEDS: Final = (0.5, 1.0, 2.0, 4.0)
READING_SECONDS: Final = 1.2
SECONDS_PER_WORD: Final = 0.16


class Script(NamedTuple):
    """A demo conversation: who plays, and the people's lines in order."""

    id: str
    title: str
    summary: str
    scenario: Scenario
    people: tuple[str, ...]
    rows: tuple[Row, ...]


@cache
def scripts() -> dict[str, Script]:
    """Return the bundled demo conversations by id (``couple/ana_and_ben``).

    Raises:
        LookupError: when the package has none.
    """
    found: dict[str, Script] = {}
    for scenario in SCENARIOS:
        for file in sorted((demo_path() / scenario).glob("*.json")):
            script = _script(file, scenario)
            found[script.id] = script
    if not found:
        raise LookupError("the package holds no demo conversations")
    return found


def _script(file: Path, scenario: Scenario) -> Script:
    dataset = read_dataset(file)
    sample: Sample = dataset.samples[0]
    rows = tuple(r for r in sample.rows if is_client(r) and r.dialogue_cleaned.strip())
    people = tuple(dict.fromkeys(r.primary_speaker.strip() for r in rows))
    return Script(
        id=f"{scenario}/{file.stem}",
        title=sample.title or file.stem.replace("_", " "),
        summary=sample.summary,
        scenario=scenario,
        people=people,
        rows=rows,
    )


class Player:
    """Plays one script in one room."""

    def __init__(self, room: Room, companion: Companion, script: Script) -> None:
        self.room = room
        self.companion = companion
        self.script = script
        self.speed = 1.0
        self._task: asyncio.Task[None] | None = None
        self._stepping = asyncio.Lock()

    @property
    def playing(self) -> bool:
        """Whether it goes on by itself."""
        return self._task is not None and not self._task.done()

    @property
    def at_end(self) -> bool:
        """Whether every line was played."""
        return self.room.info.position >= len(self.script.rows)

    def view(self) -> dict[str, Any]:
        """Return what the play bar shows."""
        return {
            "title": self.script.title,
            "position": self.room.info.position,
            "total": len(self.script.rows),
            "playing": self.playing,
            "speed": self.speed,
            "speeds": list(SPEEDS),
        }

    async def step(self) -> Row | None:
        """Play the next line; None at the end."""
        async with self._stepping:
            if self.at_end:
                return None
            row = self.script.rows[self.room.info.position]
            info = self.room.info
            await self.room.keep(replace(info, position=info.position + 1))
            await self.room.script_line(
                row.primary_speaker.strip(), row.dialogue_cleaned, _names(row.target)
            )
        self.room.push(Event("playback"))
        return row

    def play(self) -> None:
        """Go on by itself."""
        if not self.playing and not self.at_end:
            self._task = asyncio.create_task(self._run())
            self.room.push(Event("playback"))

    def pause(self) -> None:
        """Stop after the current line."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.room.push(Event("playback"))

    def set_speed(self, speed: float) -> None:
        """Choose a speed.

        Raises:
            Refused: when it is not one of ``SPEEDS``.
        """
        if speed not in SPEEDS:
            raise Refused("There is no such speed.")
        self.speed = speed
        self.room.push(Event("playback"))

    async def _run(self) -> None:
        while (row := await self.step()) is not None:
            before = len(self.room.lines)
            await self.companion.idle()
            said = [row.dialogue_cleaned, *(x.text for x in self.room.lines[before:])]
            words = sum(len(text.split()) for text in said)
            await asyncio.sleep((READING_SECONDS + SECONDS_PER_WORD * words) / self.speed)
        self._task = None
        self.room.push(Event("playback"))


def _names(target: Sequence[str]) -> list[str]:
    return [name.strip() for name in target if name.strip()]

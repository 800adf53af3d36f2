"""A room: who is in it, the order of what is said, and who hears it. No Chainlit in here.

Every line is stored before anybody hears it. Visibility is decided here, once: a port only ever
receives what its person may see.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from agent.labels import GROUP_LABEL, STRATEGIES, THERAPIST, Scenario
from agent.safety.care import JOINT
from ui.echo import repeats
from ui.inputs import (
    LEFT,
    ONE_STAYS_ON,
    YOUNG,
    YOUNG_CAME,
    Refused,
    clean_age,
    clean_line,
    clean_name,
    clean_role,
)
from ui.ports import Event, Listener, Port
from ui.records import Line, Person, RoomInfo
from ui.store import Store

__all__ = ["MOST_PEOPLE", "MOST_ROOMS", "Event", "Listener", "Port", "Room"]

MOST_PEOPLE: Final = 8
MOST_ROOMS: Final = 50
GRACE_SECONDS: Final = 20.0
"""How long somebody who lost the connection still counts as present."""


@dataclass
class Room:
    """A live room.

    Attributes:
        info: settings, as stored.
        people: everybody who was ever invited, by id.
        lines: the transcript, erased lines included.
        ports: the open tabs.
        companion: the agent, or None in tests of the room alone.
    """

    info: RoomInfo
    store: Store
    people: dict[str, Person]
    lines: list[Line]
    ports: list[Port] = field(default_factory=list)
    companion: Listener | None = None
    _order: asyncio.Lock = field(default_factory=asyncio.Lock)
    _last_seen: dict[str, float] = field(default_factory=dict)

    @property
    def scenario(self) -> Scenario:
        """Couple or family."""
        return self.info.scenario

    @property
    def one_browser(self) -> bool:
        """Whether one browser plays everybody (hot seat, demo)."""
        return self.info.mode != "shared"

    def names(self) -> list[str]:
        """Return the names of those who take part: consented and not gone."""
        return [p.name for p in self.present()]

    def present(self) -> list[Person]:
        """Return those who take part, in the order they came."""
        return [p for p in self.people.values() if p.consented and not p.gone]

    def named(self, name: str) -> Person | None:
        """Return the person of that name, or None."""
        return next((p for p in self.people.values() if p.name == name), None)

    def viewer_of(self, person: str) -> str | None:
        """Return under whose name a person looks; None where only public lines can be seen."""
        return None if self.one_browser else self.people[person].name

    def visible_lines(self, viewer: str | None) -> list[Line]:
        """Return what a viewer may see, erased lines left out."""
        return [x for x in self.lines if not x.erased and x.visible(viewer)]

    def line_by_key(self, key: str) -> Line | None:
        """Return a line, or None."""
        return next((x for x in reversed(self.lines) if x.key == key), None)

    def line_by_seq(self, seq: int) -> Line | None:
        """Return a line, or None. Lines lie in order of ``seq``, from 1 without gaps."""
        return self.lines[seq - 1] if 0 < seq <= len(self.lines) else None

    # talking

    async def say(
        self,
        person: str,
        text: str,
        *,
        key: str = "",
        speaker: str = "",
        to: str = "",
        private: bool = False,
    ) -> Line:
        """Take a person's line: store it, pass it on, let the agent notice it.

        Args:
            person: id of whose browser sent it.
            text: as typed.
            key: the client's id of the message, "" to make one. A key taken before returns
                the line it belongs to: a message that is sent twice is stored once.
            speaker: in a one-browser room, who speaks.
            to: name of the person it is said to, "" for nobody in particular.
            private: for the agent alone.

        Raises:
            Refused: with a sentence for the person.
        """
        who = self._speaker(person, speaker)
        words = clean_line(text)
        addressees = (to,) if to else ()
        if private:
            if self.one_browser:
                raise Refused("Everybody shares this screen, so nothing said here can be private.")
            addressees = (THERAPIST,)
        elif to and to not in (*self.names(), THERAPIST):
            raise Refused(f"“{to}” is not in this room.")
        return await self._append(
            speaker=who.name,
            text=words,
            key=key,
            addressees=addressees,
            visible_to=(who.name,) if private else None,
        )

    async def share(self, person: str, whisper: Line) -> Line:
        """Say a whisper again for everybody; the consent to it is stored in the same step.

        Raises:
            Refused: with a sentence for the person.
            sqlite3.Error: when it cannot be stored; then there is neither line nor consent.
        """
        return await self._append(
            speaker=self._speaker(person, "").name,
            text=whisper.text,
            key="",
            addressees=(),
            visible_to=None,
            consent=(person, whisper.seq),
        )

    def _speaker(self, person: str, speaker: str) -> Person:
        own = self.people.get(person)
        who = own
        if self.one_browser and speaker:
            who = self.named(speaker)
        if own is None or who is None or who.gone:
            raise Refused(LEFT)
        if who.consented is None:
            raise Refused("Please read and confirm how the room works first.")
        return who

    async def reply(self, text: str, target: str, viewer: str | None) -> Line:
        """Store and pass on what the agent says; to ``viewer`` alone when there is one."""
        return await self._append(
            speaker=THERAPIST,
            text=text,
            key="",
            addressees=(target,),
            visible_to=None if viewer is None else (viewer,),
        )

    async def script_line(self, speaker: str, text: str, addressees: Iterable[str]) -> Line:
        """Store and pass on a line of a demo conversation."""
        known = (*self.names(), THERAPIST, GROUP_LABEL[self.scenario])
        return await self._append(
            speaker=speaker,
            text=clean_line(text),
            key="",
            addressees=tuple(a for a in addressees if a in known),
            visible_to=None,
        )

    async def _append(
        self,
        *,
        speaker: str,
        text: str,
        key: str,
        addressees: tuple[str, ...],
        visible_to: tuple[str, ...] | None,
        consent: tuple[str, int] | None = None,
    ) -> Line:
        async with self._order:
            if key:
                known = self.line_by_key(key)
                if known is not None:
                    return known
            line = Line(
                seq=len(self.lines) + 1,
                key=key or str(uuid.uuid4()),
                speaker=speaker,
                text=text,
                at=time.time(),
                addressees=addressees,
                given=bool(addressees),
                visible_to=visible_to,
            )
            await self.store.append(self.info.id, line, consent)
            self.lines.append(line)
            self.info = replace(self.info, touched=line.at)
            self.push(Event("line", line=line))
        if self.companion is not None:
            self.companion.heard(line)
        return line

    # being heard

    def push(self, event: Event, viewer: str | None = None) -> None:
        """Hand an event to every port that may have it; with ``viewer``, to that person's only."""
        for port in list(self.ports):
            # a tab that somebody who left forgot on another device
            if self.people[port.person].gone:
                continue
            looker = self.viewer_of(port.person)
            if viewer is not None and looker != viewer:
                continue
            if event.line is not None and not event.line.visible(looker):
                continue
            port.push(event)

    def join(self, port: Port) -> None:
        """Connect a tab."""
        if port not in self.ports:
            self.ports.append(port)
        self._last_seen[port.person] = time.time()
        self.push(Event("people"))

    def leave(self, port: Port) -> None:
        """Disconnect a tab; its person counts as present for ``GRACE_SECONDS``."""
        if port in self.ports:
            self.ports.remove(port)
            self._last_seen[port.person] = time.time()
            later = GRACE_SECONDS + 0.1
            asyncio.get_running_loop().call_later(later, self.push, Event("people"))

    def here(self, person: str) -> bool:
        """Whether a person has a tab open, or had until a moment ago."""
        if any(p.person == person for p in self.ports):
            return True
        return time.time() - self._last_seen.get(person, 0.0) < GRACE_SECONDS

    # people

    async def add_person(self, name: str, role: str, age: str, consented: bool = False) -> Person:
        """Make a place for somebody.

        Raises:
            Refused: when the room is full or the name cannot be used.
        """
        if len([p for p in self.people.values() if not p.gone]) >= MOST_PEOPLE:
            raise Refused(f"This room has {MOST_PEOPLE} people, and that is as many as fit.")
        person = Person(
            id=secrets.token_urlsafe(9),
            name=clean_name(name, [p.name for p in self.people.values()]),
            role=clean_role(self.scenario, role),
            age=clean_age(self.scenario, age),
            colour=len(self.people) % MOST_PEOPLE,
            consented=time.time() if consented else None,
        )
        await self._put(person)
        return person

    async def consent(self, person: str) -> None:
        """Record that a person read how the room works and wants to take part."""
        known = self.people[person]
        comes_in = known.consented is None or known.gone is not None
        await self._put(replace(known, consented=known.consented or time.time(), gone=None))
        if comes_in and known.age in YOUNG and not self.one_browser:
            # a newcomer sees the transcript: the others must know who reads what they said
            others = {p.id for p in self.present()} - {person}
            for port in [p for p in self.ports if p.person in others]:
                port.push(Event("notice", text=YOUNG_CAME, on=True))

    async def goodbye(self, person: str) -> None:
        """Record that a person left."""
        await self._put(replace(self.people[person], gone=time.time()))
        for port in [p for p in self.ports if p.person == person]:
            port.push(Event("left"))

    async def _put(self, person: Person) -> None:
        await self.store.put_person(self.info.id, person)
        self.people[person.id] = person
        self.push(Event("people"))

    # settings

    async def set(
        self,
        *,
        talk: float | None = None,
        paused: bool | None = None,
        strategies_off: Iterable[str] | None = None,
    ) -> None:
        """Change how the agent behaves here; everybody sees it.

        Raises:
            Refused: when a value is out of range.
        """
        info = self.info
        if talk is not None:
            if not 0 <= talk <= 1:
                raise Refused("Talkativeness goes from 0 to 1.")
            info = replace(info, talk=talk)
        if paused is not None:
            info = replace(info, paused=paused)
        if strategies_off is not None:
            off = tuple(dict.fromkeys(strategies_off))
            known = STRATEGIES[self.scenario]
            if not set(off) <= set(known):
                raise Refused("There is no such way of supporting.")
            if set(known) <= set(off) | JOINT:
                # whatever is known of somebody's safety: else the last way left on would tell
                raise Refused(ONE_STAYS_ON)
            info = replace(info, strategies_off=off)
        await self.keep(info)
        self.push(Event("panel"))

    async def keep(self, info: RoomInfo) -> None:
        """Store changed settings."""
        self.info = info
        await self.store.change_room(info)

    # forgetting

    async def erase(self, person: str, keys: Sequence[str], answers: bool = False) -> int:
        """Erase own lines and what one was told in private; returns how many lines.

        Replies that repeat the words go too, where those were heard: else it tells of a whisper.

        Args:
            person: who erases.
            keys: of the lines.
            answers: whether everything that was told them in private goes as well.

        Raises:
            Refused: when a line is somebody else's.
        """
        mine = {self.people[person].name}
        if self.one_browser:
            mine = {p.name for p in self.people.values()}
        told = (self.people[person].name,)
        lines = [x for key in keys if (x := self.line_by_key(key)) and not x.erased]
        if any(x.speaker not in mine and not _told_alone(x, told) for x in lines):
            raise Refused("Only the person who said something can take it back.")
        echoes = [
            x
            for x in self.lines
            if x.speaker == THERAPIST
            and not x.erased
            and (
                (answers and _told_alone(x, told))
                or any(
                    said.visible_to in (None, x.visible_to) and repeats(x.text, said.text)
                    for said in lines
                    if said.speaker in mine
                )
            )
        ]
        gone = list({x.seq: x for x in (*lines, *echoes)}.values())
        async with self._order:
            await self.store.erase(self.info.id, [x.seq for x in gone])
            for x in gone:
                self.lines[x.seq - 1] = replace(x, text="", addressees=(), erased=time.time())
        for x in gone:
            viewer = x.visible_to[0] if x.visible_to else None
            self.push(Event("erased", keys=(x.key,)), viewer)
        if gone and self.companion is not None:
            await self.companion.forget([x.seq for x in gone])
        return len(lines)


def _told_alone(line: Line, told: tuple[str]) -> bool:
    """Whether the agent said a line to this one person and nobody else."""
    return line.speaker == THERAPIST and line.visible_to == told

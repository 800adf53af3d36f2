"""Looks at every line for somebody's safety before the agent decides, and does what follows.

Nothing in here is logged, and nothing of it reaches anybody but the person it is for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from agent.conversation import Turn
from agent.labels import GROUP_LABEL, THERAPIST
from agent.safety.care import care
from agent.safety.care_aloud import as_seen, to_invite
from agent.safety.care_state import (
    CHECKS_KEPT,
    CarePlan,
    CareState,
    Heard,
    Setting,
    evidence_of,
)
from agent.safety.care_words import word
from agent.safety.llm_check import Combined
from agent.safety.types import Kind
from ui.engine import Engine
from ui.inputs import YOUNG
from ui.records import Line
from ui.room import Event, Room
from ui.traces import traced

Found: TypeAlias = tuple[Combined, frozenset[Kind]]
"""What both layers found in a line, and the kinds that leave doubt."""

SECOND_LOOKS: Final = 3
LOOK_BACK: Final = 14
"""Earlier lines a line is read in the light of."""


class Carer:
    """The safety side of one room.

    Args:
        room: the room.
        engine: runs the checks.

    Attributes:
        state: what was asked, offered and answered; stored with the room.
    """

    def __init__(self, room: Room, engine: Engine) -> None:
        self.room = room
        self.engine = engine
        self.state = CareState()
        self._order = asyncio.Lock()
        self._loaded = False

    async def load(self) -> None:
        """Read the stored state, once."""
        async with self._order:
            await self._ready()

    async def _ready(self) -> None:
        if self._loaded:
            return
        stored = await self.room.store.care(self.room.info.id)
        if stored is not None:
            self.state = CareState.model_validate_json(stored)
        self._loaded = True

    async def look(self, lines: Sequence[Line], viewer: str | None) -> CarePlan:
        """Check new lines of a thread, deliver what has to be said, and return the plan.

        Args:
            lines: the thread's lines that were not taken in yet; those looked at before or in
                another thread are skipped.
            viewer: whose private talk it is, None for the public conversation.
        """
        async with self._order:
            await self._ready()
            place = viewer or ""
            seen = self.state.looked.get(place, 0)
            new = [x for x in lines if x.seq > seen and self._here(x, viewer)]
        if not new:
            return CarePlan()
        # outside the lock: a whisper that is looked at must not make the others wait
        found = await self._found(new, viewer)
        async with self._order:
            plan = self._plan(new, found)
            looked = {**self.state.looked, place: new[-1].seq}
            self.state = self.state.model_copy(update={"looked": looked})
            await self._store()
            await self._deliver(plan)
            return plan

    def _here(self, line: Line, viewer: str | None) -> bool:
        """Whether a line belongs to this thread: public lines are looked at in the public one."""
        if line.speaker == THERAPIST:
            return False
        return line.visible_to is None if viewer is None else line.visible_to == (viewer,)

    async def _found(self, new: Sequence[Line], viewer: str | None) -> dict[int, Found]:
        """Return what both layers make of each new line, by its place."""
        known = self.room.visible_lines(viewer)
        before = [x for x in known if x.seq < new[0].seq][-LOOK_BACK:]
        lines = [*before, *(x for x in known if new[0].seq <= x.seq <= new[-1].seq)]
        turns = [
            Turn(
                id=x.seq,
                speaker=x.speaker,
                text=x.text,
                addressees=x.addressees,
                addressees_given=x.given,
            )
            for x in lines
        ]
        people, scenario = self.room.names(), self.room.scenario
        flags, doubts = await self.engine.check(turns, people, scenario, private=viewer is not None)
        out: dict[int, Found] = {}
        for line in new:
            own = [f for f in flags if f.turn_id == line.seq]
            upto = [t for t in turns if t.id <= line.seq]
            # of a long backlog only the newest lines are worth the model's time
            late = line.seq >= new[-SECOND_LOOKS:][0].seq
            place = self.room.info.id, viewer
            second = self.engine.second_look(upto, people, scenario, own, place) if late else None
            with traced(viewer):
                both = Combined(tuple(own)) if second is None else await second
            weak = {kind for seq, kind in doubts if seq == line.seq} - both.agreed
            out[line.seq] = both, frozenset(weak)
        return out

    def _plan(self, new: Sequence[Line], found: dict[int, Found]) -> CarePlan:
        whole, held = CarePlan(), False
        for line in new:
            both, weak = found[line.seq]
            heard = Heard(line.seq, line.speaker, line.text, line.visible_to is not None, line.at)
            self.state, plan = care(self.state, self.setting(), heard, both.flags, weak)
            evidence = evidence_of(line.seq, both.flags, both.cleared, both.agreed)
            checks = (*self.state.checks, *evidence)[-CHECKS_KEPT:]
            self.state = self.state.model_copy(update={"checks": checks})
            whole = replace(
                plan,
                private=(*whole.private, *plan.private),
                public=plan.public or whole.public,
                notice=plan.notice or whole.notice,
                # the newest line is the one that is answered
                hold=plan.hold or held,
            )
            held = held or (plan.hold and bool(plan.private))
        return whole

    def setting(self) -> Setting:
        """Return the room as the rules of care see it."""
        people = self.room.present()
        return Setting(
            scenario=self.room.scenario,
            people=tuple(p.name for p in people),
            minors=frozenset(p.name for p in people if p.age in YOUNG),
            shared_screen=self.room.one_browser,
            country=self.engine.settings.country,
            paused=self.room.info.paused,
            here=self._here_now(),
        )

    def _here_now(self) -> tuple[str, ...]:
        """Return who takes part and looks at the room: nobody can answer who is away."""
        room = self.room
        return tuple(p.name for p in room.present() if room.one_browser or room.here(p.id))

    def known(self, viewer: str | None, upto: int | None = None) -> CareState:
        """Return what a decision may rest on.

        Args:
            viewer: whose private talk it is made in, None for the public conversation.
            upto: the newest line it may know, None for the newest there is.
        """
        return as_seen(self.state, self.room.names() if viewer is None else (), upto)

    async def invited(self, text: str, target: str) -> str:
        """Return a public line, with an invitation of somebody who has long been silent (S22).

        Nobody is invited twice, whatever becomes of the line.
        """
        async with self._order:
            await self._ready()
            name = to_invite(self.known(None), self._here_now(), target)
            if name is None or self.room.info.mode == "demo":
                return text
            person = self.state.of(name).model_copy(update={"invited": True})
            self.state = self.state.with_person(name, person)
            await self._store()
            return f"{text} {word('invite', name=name)}"

    async def _deliver(self, plan: CarePlan) -> None:
        for message in plan.private:
            await self.room.reply(message.text, message.to, message.to)
        if plan.public is not None:
            await self.room.reply(plan.public, GROUP_LABEL[self.room.scenario], None)
        if plan.notice is not None:
            self.room.push(Event("notice", text=plan.notice))

    async def place(
        self, name: str, country: str | None, language: str | None, *, chosen: bool = False
    ) -> None:
        """Note where a person is and what they read, so that help near them can be named.

        Args:
            name: whose.
            country: ISO code, or None when it is not known.
            language: ISO code, or None.
            chosen: whether the person chose the country; a guess never replaces a choice.
        """
        async with self._order:
            await self._ready()
            known = self.state.of(name)
            changed = known.model_copy(
                update={
                    "country": country if chosen and country else known.country or country,
                    "language": known.language or language,
                }
            )
            if changed != known:
                self.state = self.state.with_person(name, changed)
                await self._store()

    async def forget(self, seqs: set[int]) -> None:
        """Take the evidence of erased lines away; joint strategies that went off stay off."""
        async with self._order:
            await self._ready()
            self.state = self.state.without(seqs)
            await self._store()

    async def forget_person(self, name: str) -> None:
        """Take a person out of the state."""
        async with self._order:
            await self._ready()
            self.state = self.state.without_person(name)
            await self._store()

    async def _store(self) -> None:
        await self.room.store.put_care(self.room.info.id, self.state.model_dump_json())

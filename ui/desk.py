"""Everything the process holds, and what a browser may ask of it. No Chainlit in here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal

from agent.conversation import Turn
from agent.decision import Decision
from agent.policies import make_policy
from agent.settings import Settings
from ui.companion import SETTLE_SECONDS, Companion
from ui.engine import Engine, Maker
from ui.hall import Hall
from ui.inputs import LEFT, Refused
from ui.launch import auth_secret, make_private
from ui.ledger import Ledger
from ui.links import Links, Member
from ui.panel import decision_view, panel_view, variant_view
from ui.playback import Player, scripts
from ui.records import DecisionRow
from ui.room import Room
from ui.store import Store
from ui.traces import drop_from_log

log = logging.getLogger("kith.room")
DAY_SECONDS = 86400.0

Answer = dict[str, Any]


class Desk:
    """The rooms of this process and the commands their browsers send.

    Args:
        settings: of the process.
        make: makes policies by name.
        settle: quiet time before the agent looks, in seconds.
    """

    def __init__(
        self, settings: Settings, make: Maker = make_policy, settle: float = SETTLE_SECONDS
    ) -> None:
        self.settings = settings
        make_private(settings.data_dir)
        self.store = Store(settings.data_dir / "rooms.sqlite")
        self.ledger = Ledger(self.store)
        self.engine = Engine(settings, settings.data_dir / "checkpoints.sqlite", make)
        self.settle = settle
        self.hall = Hall(self.store, self._companion)
        self.hall.before_delete = self._forget_traces
        self.secret = auth_secret(settings)
        self.links = Links(self.secret, settings.link_hours)
        self._players: dict[str, Player] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def _companion(self, room: Room) -> Companion:
        return Companion(room, self.engine, self.settle)

    # life

    async def start(self) -> None:
        """Open the files, tidy old rooms away and load the policy in the background."""
        await self.engine.start()
        await self._sweep()
        self._spawn(self._warm_up())
        self._spawn(self._keep_tidy())

    async def close(self) -> None:
        """Stop and close everything."""
        for task in self._tasks:
            task.cancel()
        await self.engine.close()
        await self.store.close()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _warm_up(self) -> None:
        try:
            policy = await self.engine.policy(self.engine.main)
            # a first reading loads what a policy loads late, e.g. its encoder
            await policy.prepare([[Turn(id=1, speaker="A", text="Good evening.")]])
        except Exception as error:
            # a room without its agent is still a chat; each room says so when it matters
            log.error("policy %r cannot be loaded: %s", self.engine.main, type(error).__name__)

    async def _keep_tidy(self) -> None:
        while True:
            await asyncio.sleep(DAY_SECONDS)
            await self._sweep()

    async def _forget_traces(self, room: str) -> None:
        """Take a room that is about to be deleted out of the decision log."""
        records = [row.record for row in await self.store.decisions(room)]
        await asyncio.to_thread(drop_from_log, self.settings.decision_log, records)

    async def _sweep(self) -> None:
        for room in await self.hall.sweep(self.settings.retention_days):
            await self.engine.forget_room(room)

    # rooms and people

    async def find(self, member: Member | None) -> tuple[Room, str] | None:
        """Return the room and person id of a member who takes part there, or None."""
        if member is None:
            return None
        room = await self.hall.open(member.room)
        if room is None or member.person not in room.people:
            return None
        return None if room.people[member.person].gone else (room, member.person)

    async def create_demo(self, script_id: str) -> tuple[Room, str]:
        """Make a room that plays a demo conversation.

        Raises:
            Refused: when there is no such conversation.
        """
        script = scripts().get(script_id)
        if script is None:
            raise Refused("There is no such demo conversation.")
        room = await self.hall.create(script.scenario, "demo", script.id)
        role, age = ("partner", "adult") if script.scenario == "couple" else ("other", "adult")
        people = [await room.add_person(n, role, age, consented=True) for n in script.people]
        return room, people[0].id

    async def delete_room(self, room: Room) -> None:
        """Delete a room, its transcript and what the agent made of it."""
        await self.hall.delete(room.info.id)
        await self.engine.forget_room(room.info.id)

    def companion(self, room: Room) -> Companion:
        """Return a room's agent."""
        if not isinstance(room.companion, Companion):
            raise LookupError("this room was opened without an agent")
        return room.companion

    def player(self, room: Room) -> Player | None:
        """Return the player of a demo room, or None."""
        script = scripts().get(room.info.script)
        if script is None:
            return None
        key = room.info.id
        if key not in self._players or self._players[key].room is not room:
            self._players[key] = Player(room, self.companion(room), script)
        return self._players[key]

    # commands

    async def run(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        """Do what a browser asks; returns what to tell that browser.

        Raises:
            Refused: with a sentence for the person.
        """
        command = self._COMMANDS.get(str(data.get("what", "")))
        if command is None:
            raise Refused("This page is older than the room. Please reload it.")
        if room.people[person].gone:
            raise Refused(LEFT)
        if room.people[person].consented is None:
            raise Refused("Please read and confirm how the room works first.")
        return await command(self, room, person, data)

    def panel(self, room: Room, person: str) -> Answer:
        """Return the relations panel for a person."""
        return {"kith": "panel", "view": panel_view(room, self.companion(room), person)}

    def playback(self, room: Room) -> Answer:
        """Return the play bar's state; without a player there is none."""
        player = self.player(room)
        return {"kith": "playback", "view": None if player is None else player.view()}

    async def votes(self, room: Room, person: str) -> Answer:
        """Return the person's own thumbs by line key."""
        companion = self.companion(room)
        await companion.load()
        own = {i: v for i, who, v in await self.store.votes(room.info.id) if who == person}
        given = [(row.reply, own[row.id]) for row, _ in companion.decisions if row.id in own]
        lines = [(room.line_by_seq(reply), vote) for reply, vote in given if reply]
        return {"kith": "votes", "votes": {x.key: v for x, v in lines if x and not x.erased}}

    async def _panel(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        return [self.panel(room, person)]

    async def _speak_now(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        if not room.visible_lines(None):
            raise Refused("Say something first; then Kith has something to answer.")
        self.companion(room).ask()
        return []

    async def _pause(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        await room.set(paused=bool(data.get("on")))
        return []

    async def _talk(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        await room.set(talk=_number(data.get("value")))
        return []

    async def _strategies(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        await room.set(strategies_off=_texts(data.get("off")))
        return []

    async def _correct(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        about, other = _text(data.get("person")), _text(data.get("other"))
        if not room.one_browser and about != room.people[person].name:
            raise Refused("Only the person it is about can say that it is wrong.")
        kind: Literal["viewpoint", "emotion"] = "viewpoint" if other else "emotion"
        if not await self.companion(room).correct(kind, about, other):
            raise Refused("That is not in the picture any more.")
        return [_notice("Thank you. That is out of the picture.")]

    async def _erase(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        keys = _texts(data.get("keys"))
        shared = await self.ledger.shared(room, person)
        count = await room.erase(person, [*keys, *await self.ledger.shown_for(room, keys)])
        told = _notice("Erased, also from Kith’s memory." if count else "It was gone already.")
        # the public line that shows a whisper can be erased like any other
        now = await self.releases(room, person)
        return [told] if now["keys"] == shared else [told, now]

    async def releases(self, room: Room, person: str) -> Answer:
        """Return which of a person's whispers are shared with everybody, by line key."""
        return {"kith": "releases", "keys": await self.ledger.shared(room, person)}

    async def _release(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        key = _text(data.get("key"))
        if data.get("on"):
            await self.ledger.grant(room, person, key)
        else:
            await self.ledger.revoke(room, person, key)
        return [await self.releases(room, person)]

    async def _behind(self, room: Room, person: str, key: str) -> tuple[DecisionRow, Decision]:
        """Return the decision behind a reply that the person may see."""
        line, viewer = room.line_by_key(key), room.viewer_of(person)
        companion = self.companion(room)
        await companion.load()
        seen = line is not None and line.visible(viewer) and not line.erased
        known = companion.decision_for(line, viewer) if line is not None and seen else None
        if known is None:
            raise Refused("There is no decision behind that line.")
        return known

    async def _what_else(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        key = _text(data.get("key"))
        row, taken = await self._behind(room, person, key)
        variants = await self.companion(room).what_else(row, taken)
        views = [variant_view(title, decision) for title, decision in variants]
        return [{"kith": "what_else", "key": key, "variants": views}]

    async def _why(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        key = _text(data.get("key"))
        known = await self._behind(room, person, key)
        return [{"kith": "why", "key": key, "decision": decision_view(room, *known)}]

    async def _vote(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        key, vote = _text(data.get("key")), int(_number(data.get("vote")))
        if vote not in (-1, 0, 1):
            raise Refused("A thumb goes up or down.")
        row, _ = await self._behind(room, person, key)
        await self.store.vote(row.id, person, vote)
        return [{"kith": "voted", "key": key, "vote": vote}]

    async def _add_person(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        if room.info.mode != "hot_seat":
            raise Refused("Others join with a link of their own: see People.")
        role, age = _text(data.get("role")), _text(data.get("age"))
        await room.add_person(_text(data.get("name")), role, age, consented=True)
        return []

    async def _play(self, room: Room, person: str, data: dict[str, Any]) -> list[Answer]:
        player = self.player(room)
        if player is None:
            raise Refused("No demo conversation is open here.")
        how = _text(data.get("how"))
        if how == "step":
            player.pause()
            await player.step()
        elif how == "play":
            player.play()
        elif how == "pause":
            player.pause()
        elif how == "speed":
            player.set_speed(_number(data.get("speed")))
        else:
            raise Refused("There is no such button.")
        return []

    _COMMANDS: ClassVar[dict[str, Callable[..., Awaitable[list[Answer]]]]] = {
        "panel": _panel,
        "speak_now": _speak_now,
        "pause": _pause,
        "talk": _talk,
        "strategies": _strategies,
        "correct": _correct,
        "erase": _erase,
        "release": _release,
        "what_else": _what_else,
        "why": _why,
        "vote": _vote,
        "add_person": _add_person,
        "play": _play,
    }


def _notice(text: str) -> Answer:
    return {"kith": "notice", "text": text}


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [_text(v) for v in value[:500]] if isinstance(value, list) else []


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("That is not a number.")
    return float(value)

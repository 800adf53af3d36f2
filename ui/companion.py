"""The agent's side of one room: when it listens, that it answers once, how it forgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from agent.context import Request
from agent.decision import Decision
from agent.labels import THERAPIST
from agent.safety.care_state import CareState
from ui.carer import Carer
from ui.engine import TRANSIENT, Engine, is_transient
from ui.records import Correction, DecisionRow, Line
from ui.room import Event, Room
from ui.talk import Talk
from ui.traces import drop_from_log, traced

log = logging.getLogger("kith.room")

SETTLE_SECONDS: Final = 0.35
"""How long it has to be quiet before the agent looks at what was said."""
LONGEST_WAIT: Final = 2.5
"""After so many seconds it looks even when people go on writing."""
SLOW_SECONDS: Final = 8.0

_SLOW = "Kith is taking longer than usual. You can go on talking."
_DOWN_STAND_IN = "The language model cannot be reached. Kith goes on with its own small model."
_DOWN = "Kith cannot be reached just now. You can go on talking; it will catch up by itself."
_BACK = "Kith is back."
_NO_ANSWER = "Kith could not find an answer this time. “Urgent help” at the top is always there."


class Companion:
    """Listens to a room.

    Args:
        room: the room.
        engine: graph and policies.
        settle: quiet time before a look, in seconds.
    """

    def __init__(self, room: Room, engine: Engine, settle: float = SETTLE_SECONDS) -> None:
        self.room = room
        self.engine = engine
        self.settle = settle
        self.public = Talk(room, engine, None)
        self.private: dict[str, Talk] = {}
        self.carer = Carer(room, engine)
        self.decisions: list[tuple[DecisionRow, Decision]] = []
        self._loaded = False
        self._locks: dict[str | None, asyncio.Lock] = {}
        self._wanted: dict[str | None, asyncio.Event] = {}
        self._tasks: dict[str | None, asyncio.Task[None]] = {}
        self._asked: set[str | None] = set()
        self._last_heard: dict[str | None, float] = {}
        self._said_down: set[str | None] = set()

    # hearing

    def heard(self, line: Line) -> None:
        """Notice a line; the look itself happens in a task of its own."""
        if line.speaker == THERAPIST:
            return
        self._wake(line.visible_to[0] if line.visible_to else None)

    def ask(self) -> None:
        """Have the agent say something now."""
        self._asked.add(None)
        self._wake(None)

    def _wake(self, viewer: str | None) -> None:
        self._last_heard[viewer] = asyncio.get_running_loop().time()
        wanted = self._wanted.setdefault(viewer, asyncio.Event())
        wanted.set()
        task = self._tasks.get(viewer)
        if task is None or task.done():
            self._tasks[viewer] = asyncio.create_task(self._listen(viewer, wanted))

    async def idle(self) -> None:
        """Wait until nothing is left to look at."""
        while tasks := [t for t in self._tasks.values() if not t.done()]:
            await asyncio.wait(tasks)

    async def _listen(self, viewer: str | None, wanted: asyncio.Event) -> None:
        while wanted.is_set():
            await self._settle(viewer)
            wanted.clear()
            await self._look_safely(viewer)

    async def _settle(self, viewer: str | None) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        while viewer not in self._asked:
            quiet = loop.time() - self._last_heard[viewer]
            if quiet >= self.settle or loop.time() - start >= LONGEST_WAIT:
                return
            await asyncio.sleep(self.settle - quiet)

    async def _look_safely(self, viewer: str | None) -> None:
        """Look; whatever goes wrong, the room stays a plain chat and no detail reaches it."""
        task = asyncio.create_task(self._look(viewer))
        try:
            done, _ = await asyncio.wait([task], timeout=SLOW_SECONDS)
            if not done:
                self.room.push(Event("notice", text=_SLOW), viewer)
            await task
        except Exception as error:
            # the message may hold what somebody said: only the kind and the place are logged
            log.error("a look at the room failed: %s at %s", type(error).__name__, _place(error))
            self._say_down(_DOWN, viewer)
        finally:
            self.room.push(Event("thinking", on=False), viewer)

    # a failure in a private talk is told to that person alone: the others must not learn of it

    def _say_down(self, sentence: str, viewer: str | None) -> None:
        if viewer not in self._said_down:
            self._said_down.add(viewer)
            self.room.push(Event("notice", text=sentence), viewer)

    def _say_back(self, viewer: str | None) -> None:
        if viewer in self._said_down:
            self._said_down.discard(viewer)
            self.room.push(Event("notice", text=_BACK), viewer)

    # looking

    def _lock(self, viewer: str | None) -> asyncio.Lock:
        return self._locks.setdefault(viewer, asyncio.Lock())

    def _talk(self, viewer: str | None) -> Talk:
        if viewer is None:
            return self.public
        return self.private.setdefault(viewer, Talk(self.room, self.engine, viewer))

    async def _look(self, viewer: str | None) -> None:
        asked = viewer in self._asked
        self._asked.discard(viewer)
        paused = self.room.info.paused and not asked
        if paused and viewer is None:
            return
        async with self._lock(viewer):
            await self.load()
            talk = self._talk(viewer)
            if not await talk.load(self._decided(viewer)):
                await self._rebuild(talk)
            if not asked and all(x.speaker == THERAPIST for x in talk.waiting()):
                return
            plan = await self.carer.look(talk.waiting(), viewer)
            # a whisper to a paused room is still looked at for danger, and for nothing else
            if paused:
                return
            if plan.hold and not asked:
                await self._take_in(talk)
                self.room.push(Event("panel"), viewer)
                return
            self.room.push(Event("thinking", on=True), viewer)
            request = Request(
                speak_now=asked or viewer is not None,
                viewer=viewer,
                known_target=viewer,
            )
            decision = await self._decide(talk, request)
            if decision is not None:
                await self._act(decision, viewer, asked)

    async def _decide(self, talk: Talk, request: Request) -> Decision | None:
        standing_in = self.engine.down(talk.place) and self.engine.stand_in is not None
        viewer, care = talk.viewer, self.carer.known(talk.viewer)
        decision = await talk.look(await self.engine.policy_now(talk.place), request, care=care)
        if is_transient(decision):
            self.engine.failed(talk.place)
            if self.engine.stand_in is None:
                self._say_down(_DOWN, viewer)
                return decision
            self._say_down(_DOWN_STAND_IN, viewer)
            decision = await talk.look(await self.engine.policy_now(talk.place), request, care=care)
        elif not standing_in:
            self._say_back(viewer)
        return decision

    async def _act(self, decision: Decision, viewer: str | None, asked: bool) -> None:
        reply: Line | None = None
        held = self.room.info.paused and not asked
        if decision.reply is not None and not held:
            words = decision.reply
            text = words.text
            if viewer is None:
                text = await self.carer.invited(text, words.target)
            reply = await self.room.reply(text, words.target, viewer)
        elif decision.status not in ("ok", *TRANSIENT) and (asked or viewer is not None):
            self.room.push(Event("notice", text=_NO_ANSWER), viewer)
        await self._keep(decision, viewer, reply)
        self.room.push(Event("panel"), viewer)

    async def _keep(self, decision: Decision, viewer: str | None, reply: Line | None) -> None:
        record = decision.model_dump_json()
        seq, answer = decision.turn_id, reply.seq if reply else None
        row_id = await self.room.store.add_decision(self.room.info.id, viewer, seq, answer, record)
        self.decisions.append((DecisionRow(row_id, viewer, seq, answer, record), decision))

    async def load(self) -> None:
        """Read the stored decisions once."""
        if self._loaded:
            return
        rows = await self.room.store.decisions(self.room.info.id)
        self.decisions = [(row, Decision.model_validate_json(row.record)) for row in rows]
        await self.carer.load()
        self._loaded = True

    async def wake_up(self) -> None:
        """After a restart: find the picture again, so that the panel is there at once."""
        async with self._lock(None):
            await self.load()
            if not await self.public.load(self._decided(None)):
                await self._rebuild(self.public)
        self.room.push(Event("panel"))

    # what was decided

    def last_decision(self) -> tuple[DecisionRow, Decision] | None:
        """Return the newest public decision, or None."""
        return next((d for d in reversed(self.decisions) if d[0].viewer is None), None)

    def decision_for(self, line: Line, viewer: str | None) -> tuple[DecisionRow, Decision] | None:
        """Return the decision that led to a reply, when the viewer may see it."""
        for row, decision in self.decisions:
            if row.reply == line.seq and row.viewer in (None, viewer):
                return row, decision
        return None

    # correcting and forgetting

    async def correct(
        self, kind: Literal["emotion", "viewpoint"], person: str, other: str = ""
    ) -> bool:
        """Take a belief out of every picture, for good as far as its evidence goes.

        Args:
            kind: of belief.
            person: whom the belief is about, or whose viewpoint it is said to be.
            other: whom the viewpoint is about.

        Returns:
            False when there was nothing to take out.
        """
        # everything said so far counts as its evidence: the picture keeps only the newest ids
        seqs = tuple(x.seq for x in self.room.lines if x.speaker == person and not x.erased)
        correction = Correction(kind, person, other, seqs)
        found: set[str | None] = set()
        for talk in [self.public, *self.private.values()]:
            async with self._lock(talk.viewer):
                if await talk.reject(correction):
                    found.add(talk.viewer)
        if found:
            await self.room.store.add_correction(self.room.info.id, correction)
        # what somebody told in private must not show in the answer, or in an event, of another
        if found & {None, person}:
            self.room.push(Event("panel"), None if None in found else person)
        return bool(found & {None, person})

    async def forget(self, seqs: Sequence[int]) -> None:
        """Rebuild the public picture without these lines; private ones follow when needed.

        A line that one person alone could see changes nothing, and shows nothing, elsewhere.
        """
        gone = set(seqs)
        known = [x for seq in seqs if (x := self.room.line_by_seq(seq)) is not None]
        if known and all(x.visible_to for x in known):
            for viewer in dict.fromkeys(name for x in known for name in x.visible_to or ()):
                await self._forget_private(gone, viewer)
            return
        async with self._lock(None):
            for talk in [self.public, *self.private.values()]:
                await talk.drop()
            self.private.clear()
            await self._blank_records(gone)
            await self.carer.forget(gone)
            info = self.room.info
            await self.room.keep(replace(info, generation=info.generation + 1))
            await self._take_in(self.public)
        await self._leave_no_copy()
        self.room.push(Event("panel"))

    async def _forget_private(self, gone: set[int], viewer: str) -> None:
        async with self._lock(viewer):
            await self._talk(viewer).drop()
            del self.private[viewer]
            await self._blank_records(gone)
            await self.carer.forget(gone)
        await self._leave_no_copy()
        self.room.push(Event("panel"), viewer)

    async def _leave_no_copy(self) -> None:
        """Empty the write-ahead files, which still hold what was written before."""
        await self.engine.shrink()
        await self.room.store.shrink()

    async def _blank_records(self, gone: set[int]) -> None:
        """Take reasons and words out of decision records that rest on erased lines."""
        await self.load()
        changed: list[tuple[int, str]] = []
        for i, (row, decision) in enumerate(self.decisions):
            if not gone & {*decision.evidence, decision.turn_id, row.reply or 0}:
                continue
            blank = decision.model_copy(
                update={
                    "reasons": (),
                    "evidence": tuple(s for s in decision.evidence if s not in gone),
                    "reply": None if row.reply in gone else decision.reply,
                }
            )
            record = blank.model_dump_json()
            changed.append((row.id, record))
            self.decisions[i] = (replace(row, record=record), blank)
        await self.room.store.replace_records(changed)
        log = self.engine.settings.decision_log
        await asyncio.to_thread(drop_from_log, log, [record for _, record in changed])

    async def _rebuild(self, talk: Talk) -> None:
        """Read the transcript again into an empty thread, up to where was decided before."""
        await talk.drop()
        await self._take_in(talk, self._decided(talk.viewer))

    def _decided(self, viewer: str | None) -> int:
        return max((row.seq for row, _ in self.decisions if row.viewer == viewer), default=0)

    async def _take_in(self, talk: Talk, upto: int | None = None) -> None:
        if talk.waiting(upto):
            request = Request(decide="never", viewer=talk.viewer)
            await talk.look(await self.engine.policy_now(talk.place), request, upto)

    # what else

    async def what_else(self, row: DecisionRow, taken: Decision) -> list[tuple[str, Decision]]:
        """Ask the other variants what they would have decided in place of a decision.

        Nothing of it reaches the room's own threads: the runs keep no checkpoint. What the room
        learned about somebody's safety later is left out: asked twice, the answer stays the same.
        """
        state = self.carer.known(row.viewer, row.seq)
        later = state.joint_since is not None and row.seq < state.joint_since
        care = CareState() if later and row.viewer is None else state
        end = row.reply or row.seq + 1
        before = [x for x in self.room.visible_lines(row.viewer) if x.seq < end]
        return [
            (title, await self._imagine(name, withhold, before, row.viewer, care))
            for title, name, withhold in self._variants(taken.policy)
        ]

    def _variants(self, taken: str) -> list[tuple[str, str, bool]]:
        variants = [("Without the picture of the relations", taken, True)]
        if self.engine.settings.has_llm:
            variants.append(("A plain language model", "plain-history", False))
        if taken != "local" and self.engine.main != "local":
            variants.append(("Kith’s own small model", "local", False))
        return variants

    async def _imagine(
        self,
        name: str,
        withhold: bool,
        lines: Sequence[Line],
        viewer: str | None,
        care: CareState,
    ) -> Decision:
        policy = await self.engine.policy(name)
        talk = Talk(self.room, self.engine, viewer)
        with traced(viewer):
            out = await self.engine.bare_graph.ainvoke(
                {
                    "scenario": self.room.scenario,
                    "participants": self.room.names(),
                    "incoming": talk.turns(lines),
                    "request": Request(decide="always", viewer=viewer, known_target=viewer),
                },
                context=self.engine.context(
                    policy, self.room.info, withhold, care=care, logged=False
                ),
            )
        decision: Decision = out["decision"]
        return decision


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "?"
    return f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"

"""One thread of the graph: the public conversation, or one person's private talk with the agent.

Turn ids are positions in what the thread's viewer may see, so nobody can tell from a number that
somebody else whispered. The mapping to the transcript's own order stays in here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agent.context import Request
from agent.conversation import Turn
from agent.decision import Decision
from agent.policies import Policy
from agent.safety.care_state import CareState
from agent.state import RelationalState
from agent.update import initial_state, reject_emotion, reject_viewpoint
from ui.engine import Engine, Place
from ui.records import Correction, Line
from ui.room import Room
from ui.traces import traced


class Talk:
    """A thread and how far it has listened.

    Attributes:
        viewer: None for the public conversation, else whose private talk this is.
        seqs: the transcript's order of the turns taken in; turn ``i`` of the thread is
            ``seqs[i - 1]``.
        relations: the picture after them, or None before the first.
    """

    def __init__(self, room: Room, engine: Engine, viewer: str | None) -> None:
        self.room = room
        self.engine = engine
        self.viewer = viewer
        self.seqs: list[int] = []
        self.relations: RelationalState | None = None
        self._known = False
        self._broken = False

    @property
    def thread_id(self) -> str:
        """The checkpoint thread: a rebuilt room has new ones."""
        kind = "public" if self.viewer is None else f"private:{self.viewer}"
        return f"{self.room.info.id}:{kind}:{self.room.info.generation}"

    @property
    def place(self) -> Place:
        """Which talk it is, for what the engine keeps per talk."""
        return self.room.info.id, self.viewer

    @property
    def config(self) -> Any:
        """The graph's configuration for this thread."""
        return {"configurable": {"thread_id": self.thread_id}}

    def waiting(self, upto: int | None = None) -> list[Line]:
        """Return the visible lines this thread has not taken in (up to a place, if given)."""
        last = self.seqs[-1] if self.seqs else 0
        lines = self.room.visible_lines(self.viewer)
        return [x for x in lines if x.seq > last and (upto is None or x.seq <= upto)]

    async def load(self, decided: int) -> bool:
        """Find the thread's checkpoint again.

        Args:
            decided: the newest line that a stored decision of this thread has seen.

        Returns:
            False when the checkpoint does not match the transcript, lacks decided lines, or
            stems from a run that broke off (it may hold turns without their readings).
        """
        if self._broken:
            return False
        if self._known:
            return True
        values = (await self.engine.graph.aget_state(self.config)).values
        turns: Sequence[Turn] = values.get("turns") or []
        known = self.room.visible_lines(self.viewer)
        lines = known[: len(turns)]
        enough = len(turns) >= len([x for x in known if x.seq <= decided])
        same = (
            enough
            and len(lines) == len(turns)
            and all(
                line.speaker == turn.speaker and line.text == turn.text and turn.id == position
                for position, (line, turn) in enumerate(zip(lines, turns, strict=True), 1)
            )
        )
        if not same:
            return False
        self.seqs = [x.seq for x in lines]
        self.relations = values.get("relations")
        self._known = True
        for correction in await self.room.store.corrections(self.room.info.id):
            if set(self._evidence(correction)) <= set(correction.evidence):
                await self.reject(correction)
        return True

    async def look(
        self,
        policy: Policy,
        request: Request,
        upto: int | None = None,
        care: CareState | None = None,
    ) -> Decision | None:
        """Run the graph once over everything that waits (up to a place, if given).

        Returns:
            The decision, its turn ids translated to the transcript's order; None when none
            was asked for.
        """
        lines = self.waiting(upto)
        values: dict[str, Any] = {
            "scenario": self.room.scenario,
            "participants": self.room.names(),
            "incoming": self.turns(lines, len(self.seqs)),
            "request": request,
        }
        if self.relations is None:
            values["relations"] = await self._blank(lines)
        self._broken = True
        with traced(self.viewer):
            out = await self.engine.graph.ainvoke(
                values,
                self.config,
                context=self.engine.context(
                    policy, self.room.info, care=care, logged=self.viewer is None
                ),
                durability="exit",
            )
        self.seqs += [x.seq for x in lines]
        self.relations = out["relations"]
        self._known, self._broken = True, False
        decision: Decision | None = out["decision"]
        return None if decision is None else translate(decision, self.seqs)

    def turns(self, lines: Iterable[Line], offset: int = 0) -> list[Turn]:
        """Return lines as turns of this thread."""
        return [
            Turn(
                id=position,
                speaker=x.speaker,
                text=x.text,
                addressees=x.addressees,
                addressees_given=x.given,
                visible_to=x.visible_to,
            )
            for position, x in enumerate(lines, offset + 1)
        ]

    async def _blank(self, lines: Sequence[Line]) -> RelationalState:
        """Return the picture before any turn, with what people marked as wrong kept out."""
        positions = {x.seq: i for i, x in enumerate(lines, 1)}
        rejected: dict[str, list[int]] = {}
        for correction in await self.room.store.corrections(self.room.info.id):
            known = [positions[s] for s in correction.evidence if s in positions]
            before = rejected.get(correction.key, [])
            rejected[correction.key] = sorted({*before, *known})
        state = initial_state(self.room.scenario, tuple(self.room.names()))
        return state.model_copy(update={"rejected": rejected})

    def _evidence(self, correction: Correction) -> list[int]:
        """Return the places a belief rests on now."""
        state = self.relations
        if state is None:
            return []
        if correction.kind == "emotion":
            person = state.people.get(correction.person)
            ids = person.emotion_evidence if person else []
        else:
            stance = state.stance(correction.person, correction.other)
            ids = [*stance.evidence, *stance.viewpoint_evidence]
        return [self.seqs[i - 1] for i in ids if 0 < i <= len(self.seqs)]

    async def reject(self, correction: Correction) -> bool:
        """Take a belief out of the picture; False when there is none."""
        state = self.relations
        if state is None or not self._evidence(correction):
            return False
        if correction.kind == "emotion":
            changed = reject_emotion(state, correction.person)
        else:
            changed = reject_viewpoint(state, correction.person, correction.other)
        # as_node: the update stands where a finished run stands
        await self.engine.graph.aupdate_state(self.config, {"relations": changed}, as_node="record")
        self.relations = changed
        return True

    async def drop(self) -> None:
        """Delete the thread's checkpoints and start from nothing."""
        if self.engine.saver is not None:
            await self.engine.saver.adelete_thread(self.thread_id)
        self.seqs = []
        self.relations = None
        self._known, self._broken = True, False


def translate(decision: Decision, seqs: Sequence[int]) -> Decision:
    """Return the record with the thread's turn ids replaced by the transcript's order."""

    def to_seqs(ids: Iterable[int]) -> tuple[int, ...]:
        return tuple(seqs[i - 1] for i in ids if 0 < i <= len(seqs))

    return decision.model_copy(
        update={
            "turn_id": seqs[decision.turn_id - 1] if decision.turn_id else 0,
            "reasons": tuple(
                r.model_copy(update={"evidence": to_seqs(r.evidence)}) for r in decision.reasons
            ),
            "evidence": to_seqs(decision.evidence),
        }
    )

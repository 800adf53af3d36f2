"""What all rooms share on the agent's side: the compiled graph and whoever decides."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeAlias

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agent.context import Context
from agent.conversation import Turn
from agent.decision import Decision
from agent.graph import compile_graph, serializer
from agent.hooks import DecisionLog, Hooks
from agent.labels import Scenario
from agent.llm import LLMClient
from agent.policies import POLICY_NAMES, Policy, make_policy
from agent.safety import Flag, Kind, check
from agent.safety.care_aloud import avoided, crisis_open
from agent.safety.care_state import CareState
from agent.safety.doubt import doubtful
from agent.safety.llm_check import Combined, LLMCheck, combine
from agent.settings import Settings
from ui.records import RoomInfo

RETRY_SECONDS: Final = 30.0
"""How long the main policy is left alone after it failed."""
TRANSIENT: Final = frozenset({"timeout", "http", "budget"})
"""Statuses that say the server is unwell, rather than the answer."""
PATIENCE: Final = 3
"""Turns without the agent after which it grows readier to speak."""
BUSY_MS: Final = 10_000
_CHECK_SECONDS: Final = 8.0

# its debug lines hold every statement's values, and so everything that is said
logging.getLogger("aiosqlite").setLevel(logging.WARNING)

Maker = Callable[[str, Settings], Policy]
Place: TypeAlias = tuple[str, str | None]
"""A room's id, and whose private talk there it is (None for the public one)."""


class Engine:
    """Holds the graph, the policy and, where it is allowed, the policy that stands in.

    Args:
        settings: of the process.
        file: the checkpoints' SQLite file, a cache of what the graph knows.
        make: makes policies by name.
    """

    def __init__(self, settings: Settings, file: Path, make: Maker = make_policy) -> None:
        self.settings = settings
        self.file = file
        self._make = make
        self._stack = AsyncExitStack()
        self._policies: dict[str, Policy] = {}
        self._loading = asyncio.Lock()
        self._down_until: dict[Place, float] = {}
        self._second: LLMCheck | None = None
        self._checking = ThreadPoolExecutor(1, thread_name_prefix="kith-safety")
        self.graph: Any = None
        self.bare_graph: Any = compile_graph()
        self.saver: AsyncSqliteSaver | None = None

    @property
    def main(self) -> str:
        """The name of the policy that decides here."""
        chosen = self.settings.policy
        if chosen != "auto":
            return chosen
        return "agent" if self.settings.has_llm and "agent" in POLICY_NAMES else "local"

    @property
    def stand_in(self) -> str | None:
        """The name of the policy that steps in; None where the settings insist on one."""
        return "local" if self.settings.policy == "auto" and self.main != "local" else None

    # kept per talk: what fails in one person's private talk must change nothing for the others

    def down(self, place: Place) -> bool:
        """Whether the main policy failed in a talk a moment ago."""
        return time.monotonic() < self._down_until.get(place, 0.0)

    def failed(self, place: Place) -> None:
        """Leave the main policy alone for a while in a talk."""
        now = time.monotonic()
        still = {known: until for known, until in self._down_until.items() if until > now}
        self._down_until = {**still, place: now + RETRY_SECONDS}

    def recovered(self) -> None:
        """Trust the main policy again, in every talk."""
        self._down_until = {}

    async def start(self) -> None:
        """Open the checkpoint file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        saver = await self._stack.enter_async_context(
            AsyncSqliteSaver.from_conn_string(str(self.file))
        )
        saver.serde = serializer()
        await saver.conn.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        # an erased thread must not linger in free pages
        await saver.conn.execute("PRAGMA secure_delete=ON")
        self.file.touch(0o600)
        self.file.chmod(0o600)
        await saver.setup()
        self.saver = saver
        self.graph = compile_graph(saver)

    async def close(self) -> None:
        """Close the checkpoint file."""
        await self._stack.aclose()
        self._checking.shutdown(wait=False)

    async def forget_room(self, room: str) -> None:
        """Delete every checkpoint of a room."""
        if self.saver is None:
            return
        found = await self.saver.conn.execute_fetchall(
            "SELECT DISTINCT thread_id FROM checkpoints WHERE thread_id LIKE ? || ':%'", (room,)
        )
        for (thread_id,) in found:
            await self.saver.adelete_thread(thread_id)
        await self.shrink()

    async def shrink(self) -> None:
        """Write everything to the checkpoint file and empty the log beside it."""
        if self.saver is not None:
            async with self.saver.lock:
                await self.saver.conn.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")

    async def policy(self, name: str) -> Policy:
        """Return a policy, loading it once, off the event loop.

        Raises:
            UnknownPolicy: when there is none of that name.
        """
        async with self._loading:
            if name not in self._policies:
                self._policies[name] = await asyncio.to_thread(self._make, name, self.settings)
            return self._policies[name]

    async def policy_now(self, place: Place) -> Policy:
        """Return who decides in a talk now: the main policy, or the stand-in while that is down."""
        if self.stand_in is not None and self.down(place):
            return await self.policy(self.stand_in)
        return await self.policy(self.main)

    async def check(
        self,
        turns: Sequence[Turn],
        people: Sequence[str],
        scenario: Scenario,
        *,
        private: bool = False,
    ) -> tuple[list[Flag], frozenset[tuple[int, Kind]]]:
        """Return what the rules find in turns, and (turn id, kind) of alarms that leave doubt.

        One at a time, off the event loop.
        """

        def work() -> tuple[list[Flag], frozenset[tuple[int, Kind]]]:
            flags = check(turns, people, scenario)
            return flags, doubtful(flags, turns, people, private=private)

        return await asyncio.get_running_loop().run_in_executor(self._checking, work)

    async def second_look(
        self,
        turns: Sequence[Turn],
        people: Sequence[str],
        scenario: Scenario,
        found: list[Flag],
        place: Place,
    ) -> Combined:
        """Let the language model look at the newest turn too, where there is one to ask."""
        if not (self.settings.has_llm and self.settings.safety_llm) or self.down(place):
            return combine(turns[-1], found, None)
        if self._second is None:
            # people are waiting, and the rules stand without it: no retries
            brief = {"max_retries": 0, "timeout": min(self.settings.timeout, _CHECK_SECONDS)}
            client = LLMClient(self.settings.model_copy(update={**brief, "llm_cache": False}))
            self._second = LLMCheck(client, _CHECK_SECONDS)
        return combine(turns[-1], found, await self._second.read(turns, people, scenario))

    def context(
        self,
        policy: Policy,
        info: RoomInfo,
        withhold_state: bool = False,
        *,
        care: CareState | None = None,
        logged: bool = True,
    ) -> Context:
        """Return the runtime context of a run for a room.

        Args:
            policy: makes the decisions.
            info: the room's settings.
            withhold_state: hides the picture from the policy.
            care: what the room knows about somebody's safety.
            logged: whether the decision may go to the log; never for a private talk.
        """
        log = self.settings.decision_log if logged and not withhold_state else None
        known = care or CareState()
        return Context(
            policy=policy,
            hooks=Hooks([DecisionLog(log)] if log else []),
            threshold=self.threshold(policy, info),
            patience=PATIENCE,
            strategies_off=frozenset(info.strategies_off),
            avoid=avoided(known, info.scenario),
            careful=known.joint_off,
            sheltering=crisis_open(known),
            withhold_state=withhold_state,
        )

    def threshold(self, policy: Policy, info: RoomInfo) -> float | None:
        """Turn talkativeness into a threshold: 0.5 is the policy's own, 0 silence, 1 always."""
        own = policy.threshold if self.settings.threshold is None else self.settings.threshold
        if info.talk is None:
            return own
        if info.talk <= 0.5:
            return own + (1.0 - own) * (1 - 2 * info.talk)
        return own * (2 - 2 * info.talk)


def is_transient(decision: Decision | None) -> bool:
    """Whether a decision failed because the model server is unwell."""
    return decision is not None and decision.status in TRANSIENT

"""Places where others may listen to the graph, and the built-in decision log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent.conversation import Turn
from agent.decision import Decision, Reply
from agent.state import RelationalState


class Hook:
    """Base class: override what you want to hear. Exceptions propagate to the caller."""

    async def on_turn(self, turn: Turn) -> None:
        """Receive a turn, once, before it is read."""

    async def on_state(self, state: RelationalState) -> None:
        """Receive the picture after the new turns."""

    async def on_decision(self, decision: Decision) -> None:
        """Receive the record of every decision, also of a silent one."""

    async def on_reply(self, reply: Reply) -> None:
        """Receive what the agent says."""


class DecisionLog(Hook):
    """Appends every decision record as one JSON line to a file.

    Records hold names and the words of viewpoints: switch this on only where that is wanted.

    Raises:
        OSError: when the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    async def on_decision(self, decision: Decision) -> None:
        """Append the record."""
        await asyncio.to_thread(self._append, decision.model_dump_json())

    def _append(self, line: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            # names and viewpoints: for its owner alone
            self.path.chmod(0o600)
            file.write(line + "\n")


class Hooks:
    """Calls several hooks in order."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self.hooks = tuple(hooks)

    async def turn(self, turn: Turn) -> None:
        """Pass a turn on."""
        for hook in self.hooks:
            await hook.on_turn(turn)

    async def state(self, state: RelationalState) -> None:
        """Pass a state on."""
        for hook in self.hooks:
            await hook.on_state(state)

    async def decision(self, decision: Decision) -> None:
        """Pass a decision on."""
        for hook in self.hooks:
            await hook.on_decision(decision)

    async def reply(self, reply: Reply) -> None:
        """Pass a reply on."""
        for hook in self.hooks:
            await hook.on_reply(reply)

"""Policies and their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from agent.policies.base import Policy, PolicyError, Task, View
from agent.policies.floors import AlwaysYes, Floor, LastSpeaker, Majority, Seeded
from agent.settings import Settings

if TYPE_CHECKING:
    from agent.llm import LLMClient

__all__ = [
    "LLM_NAMES",
    "POLICY_NAMES",
    "Policy",
    "PolicyError",
    "Task",
    "UnknownPolicy",
    "View",
    "make_policy",
]


class UnknownPolicy(ValueError):
    """No policy of that name."""


def _local(settings: Settings) -> Policy:
    # imported here: brings numpy heads and the reply library, which floors do not need
    from agent.policies.local import LocalPolicy

    return LocalPolicy.from_settings(settings)


def _llm(name: str, settings: Settings, client: LLMClient | None = None) -> Policy:
    # imported here: brings the client library, which nothing else needs
    from agent.policies.llm import make

    return make(name, settings, client, local=lambda: _local(settings))


def _floor(make: Callable[[Settings], Floor], settings: Settings) -> Policy:
    floor = make(settings)
    # in a room it decides alone, and speaks in the local policy's words
    floor.words = lambda: _local(settings)
    return floor


LLM_NAMES: Final = ("agent", "agent-no-state", "agent-hybrid", "plain-window", "plain-history")
"""The policies that need a model server."""

_MAKERS: Final[dict[str, Callable[[Settings], Policy]]] = {
    "local": _local,
    "floor-always-yes": partial(_floor, lambda settings: AlwaysYes()),
    "floor-majority": partial(_floor, lambda settings: Majority()),
    "floor-random": partial(_floor, lambda settings: Seeded(settings.seed)),
    "floor-last-speaker": partial(_floor, lambda settings: LastSpeaker()),
    **{name: partial(_llm, name) for name in LLM_NAMES},
}

POLICY_NAMES: Final = tuple(_MAKERS)


def make_policy(name: str, settings: Settings, client: LLMClient | None = None) -> Policy:
    """Return the policy of that name.

    Args:
        name: one of ``POLICY_NAMES``.
        settings: the settings.
        client: for the policies that need a model: shared by all of a run, so that one budget
            and one log of calls cover them; a new one when None.

    Raises:
        UnknownPolicy: naming the ones there are.
        UnknownPrice: when a money budget is set for a model of unknown price.
    """
    if name not in _MAKERS:
        raise UnknownPolicy(f"unknown policy {name!r}: there are {', '.join(_MAKERS)}")
    if name in LLM_NAMES:
        return _llm(name, settings, client)
    return _MAKERS[name](settings)

"""Policies and their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agent.policies.base import Policy, PolicyError, Task, View
from agent.policies.floors import AlwaysYes, LastSpeaker, Majority, Seeded
from agent.settings import Settings

__all__ = ["POLICY_NAMES", "Policy", "PolicyError", "Task", "UnknownPolicy", "View", "make_policy"]


class UnknownPolicy(ValueError):
    """No policy of that name."""


def _local(settings: Settings) -> Policy:
    # imported here: brings numpy heads and the reply library, which floors do not need
    from agent.policies.local import LocalPolicy

    return LocalPolicy.from_settings(settings)


_MAKERS: Final[dict[str, Callable[[Settings], Policy]]] = {
    "local": _local,
    "floor-always-yes": lambda settings: AlwaysYes(),
    "floor-majority": lambda settings: Majority(),
    "floor-random": lambda settings: Seeded(settings.seed),
    "floor-last-speaker": lambda settings: LastSpeaker(),
}

POLICY_NAMES: Final = tuple(_MAKERS)


def make_policy(name: str, settings: Settings) -> Policy:
    """Return the policy of that name.

    Raises:
        UnknownPolicy: naming the ones there are.
    """
    if name not in _MAKERS:
        raise UnknownPolicy(f"unknown policy {name!r}: there are {', '.join(_MAKERS)}")
    return _MAKERS[name](settings)

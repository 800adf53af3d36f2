"""What a run of the graph is given besides its state: policies, hooks, knobs. Nothing global."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict

from agent.hooks import Hooks
from agent.policies.base import Policy


class Request(BaseModel):
    """What the caller wants of this run.

    Attributes:
        decide: ``auto`` lets the policy choose silence; ``always`` asks for target and strategy
            also where it would stay silent; ``never`` only takes the turns in.
        known_target: ranks strategies for this target instead of the policy's own first choice
            (SSP in the paper's setting). It reaches ``Policy.strategy`` alone.
        reply: whether words are wanted.
        speak_now: a person asked the agent to speak: overrides the timing.
        viewer: None for the room; a participant's name for a private talk with that person,
            whose thread may hold turns that only they can see.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    decide: Literal["auto", "always", "never"] = "auto"
    known_target: str | None = None
    reply: bool = True
    speak_now: bool = False
    viewer: str | None = None


@dataclass(frozen=True)
class Context:
    """The graph's runtime context.

    Attributes:
        policy: makes every decision.
        hooks: listeners.
        threshold: probability at which the agent speaks; None takes the policy's own.
        patience: participants' turns without the agent after which the threshold begins to fall,
            so that a live room is not left alone for good; None: it never falls (the replay).
        strategies_off: strategies the people in the room do not want.
        avoid: strategies that are never chosen, for somebody's safety. What is ranked behind the
            chosen one stays in the record, so that it does not tell that any are avoided.
        careful: replies may not take for granted that nobody is at fault.
        sheltering: replies ask nothing and repeat nothing of what was said.
        withhold_state: hides the relational state from the policy (the no-state variant).
    """

    policy: Policy
    hooks: Hooks = field(default_factory=Hooks)
    threshold: float | None = None
    patience: int | None = None
    strategies_off: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()
    careful: bool = False
    sheltering: bool = False
    withhold_state: bool = False

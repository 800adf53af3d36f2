"""The one interface between the graph and whatever makes the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from agent.conversation import Turn
from agent.decision import DecisionStatus, Ranking, Reply, Timing
from agent.labels import GROUP_LABEL, PATTERNS, STRATEGIES, Scenario
from agent.reading import Reading, TurnReading
from agent.state import RelationalState

Task = Literal["itp", "stp", "ssp", "rpp", "er", "vp"]


class PolicyError(RuntimeError):
    """A policy could not answer; its status is recorded instead of a label.

    The message must hold no conversation text and no key.
    """

    def __init__(self, status: DecisionStatus, message: str) -> None:
        super().__init__(message)
        self.status: DecisionStatus = status


@dataclass(frozen=True)
class View:
    """All that a policy may know at a decision point.

    Attributes:
        scenario: couple or family.
        participants: people present so far, in order of first appearance.
        turns: the visible turns up to now, oldest first.
        readings: the reading of each of ``turns`` that was read before, by position; shorter
            than ``turns`` while the newest ones are being read.
        relations: the picture after the turns read so far; None when a variant withholds it.
        viewer: None for a public decision; a participant's name for a private talk with them.
        decide: what the caller wants: ``auto`` may end in silence, ``always`` needs an answer,
            ``never`` only takes turns in. A policy may spare work by it, not change an answer.
        careful: for words only: they may neither ask for a joint step nor take for granted that
            nobody is at fault, because somebody may be in danger from another.
        sheltering: for words only: they ask nothing and repeat nothing, because somebody's crisis
            is met in private and not in front of the others.
    """

    scenario: Scenario
    participants: tuple[str, ...]
    turns: Sequence[Turn]
    readings: Sequence[TurnReading]
    relations: RelationalState | None
    viewer: str | None = None
    decide: Literal["auto", "always", "never"] = "always"
    careful: bool = False
    sheltering: bool = False

    @property
    def group(self) -> str:
        """The label of the group as a target."""
        return GROUP_LABEL[self.scenario]

    @property
    def candidates(self) -> tuple[str, ...]:
        """Possible targets: the people present so far, then the group."""
        return (*self.participants, self.group)

    @property
    def patterns(self) -> tuple[str, ...]:
        """The scenario's patterns."""
        return PATTERNS[self.scenario]

    @property
    def strategies(self) -> tuple[str, ...]:
        """The scenario's strategies."""
        return STRATEGIES[self.scenario]


@runtime_checkable
class Policy(Protocol):
    """Reads turns and decides. Every method raises ``PolicyError`` when it cannot answer.

    Attributes:
        name: as in the variant lists.
        version: changes whenever decisions may change (weights, prompts, rules).
        answers: the tasks whose answers are meant to be scored.
        threshold: default probability at which it speaks.
    """

    name: str
    version: str
    answers: frozenset[Task]
    threshold: float

    async def prepare(self, dialogues: Sequence[Sequence[Turn]]) -> None:
        """Do work in bulk ahead of many calls (e.g. encode); must not change any answer."""

    async def read(self, view: View, new: int) -> Reading:
        """Read the last ``new`` turns of the view (one ``TurnReading`` each, in order)."""

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        """Return the distribution over the scenario's patterns; {} when it has none to give."""

    async def time(self, view: View, reading: Reading) -> Timing:
        """Return whether to speak now."""

    async def target(self, view: View, reading: Reading) -> Ranking:
        """Rank the view's candidates."""

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        """Rank the scenario's strategies for a target."""

    async def reply(self, view: View, reading: Reading, target: str, strategy: str) -> Reply:
        """Say it."""

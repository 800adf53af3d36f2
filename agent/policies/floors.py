"""Floors: lines every other policy has to beat. They read nothing but names and order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from agent.conversation import Turn
from agent.decision import Ranking, Reply, Timing
from agent.policies.base import Policy, PolicyError, Task, View
from agent.priors import Priors, load_priors
from agent.reading import Reading, TurnReading


class Floor:
    """Common part: empty readings, flat rankings in the given order, another's words.

    Attributes:
        words: gives the policy that speaks for it, called at first need; None: it cannot speak.
    """

    name: str = "floor"
    version: str = "1"
    answers: frozenset[Task] = frozenset()
    threshold: float = 0.5
    words: Callable[[], Policy] | None = None
    _voice: Policy | None = None

    async def prepare(self, dialogues: Sequence[Sequence[Turn]]) -> None:
        """Nothing to prepare."""

    async def read(self, view: View, new: int) -> Reading:
        """Read nothing."""
        turns = view.turns[len(view.turns) - new :]
        return Reading(turns=tuple(TurnReading(turn_id=t.id, speaker=t.speaker) for t in turns))

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        """No pattern."""
        return {}

    async def time(self, view: View, reading: Reading) -> Timing:
        """Never speak."""
        return Timing(probability=0.0)

    async def target(self, view: View, reading: Reading) -> Ranking:
        """Rank candidates in their given order."""
        return _in_order(view.candidates)

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        """Rank strategies in the taxonomy's order."""
        return _in_order(view.strategies)

    async def reply(self, view: View, reading: Reading, target: str, strategy: str) -> Reply:
        """Let another policy say what the floor decided.

        Raises:
            PolicyError: when there is none, or it cannot.
        """
        if self._voice is None:
            if self.words is None:
                raise PolicyError("refused", "a floor has no words")
            self._voice = self.words()
        return await self._voice.reply(view, reading, target, strategy)


class AlwaysYes(Floor):
    """Intervenes after every turn."""

    name = "floor-always-yes"
    answers = frozenset({"itp"})

    async def time(self, view: View, reading: Reading) -> Timing:
        """Speak, always."""
        return Timing(probability=1.0)


class LastSpeaker(Floor):
    """Supports the last participant who spoke, then the group, then the others by recency."""

    name = "floor-last-speaker"
    answers = frozenset({"stp"})

    async def target(self, view: View, reading: Reading) -> Ranking:
        """Rank by recency, the group second."""
        recent = [t.speaker for t in reversed(view.turns) if not t.by_agent]
        order = list(dict.fromkeys(recent))
        order += [p for p in view.participants if p not in order]
        return _in_order((*order[:1], view.group, *order[1:]))


class Majority(Floor):
    """Answers with the training split's label shares, whatever is said."""

    name = "floor-majority"
    answers = frozenset({"itp", "rpp", "ssp"})

    def __init__(self, priors: Priors | None = None) -> None:
        self._priors = load_priors() if priors is None else priors

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        """Return the pattern shares of the scenario."""
        shares = self._priors[f"{view.scenario}/pattern"]
        return {label: shares[label] for label in view.patterns}

    async def time(self, view: View, reading: Reading) -> Timing:
        """Return the share of turns after which a therapist spoke."""
        return Timing(probability=self._priors[f"{view.scenario}/intervene"]["yes"])

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        """Return the strategy shares of the scenario."""
        shares = self._priors[f"{view.scenario}/strategy"]
        return Ranking.of({label: shares[label] for label in view.strategies})


class Seeded(Floor):
    """Draws every answer from a hash of the seed and the turns' ids: random, yet repeatable."""

    name = "floor-random"
    answers = frozenset({"itp", "stp", "ssp", "rpp"})

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        """Draw a distribution."""
        draws = {label: self._draw(view, label) for label in view.patterns}
        total = sum(draws.values())
        return {label: value / total for label, value in draws.items()}

    async def time(self, view: View, reading: Reading) -> Timing:
        """Draw a probability."""
        return Timing(probability=self._draw(view, "time"))

    async def target(self, view: View, reading: Reading) -> Ranking:
        """Draw an order of the candidates."""
        return Ranking.of({c: self._draw(view, f"target/{c}") for c in view.candidates})

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        """Draw an order of the strategies."""
        return Ranking.of({s: self._draw(view, f"strategy/{s}") for s in view.strategies})

    def _draw(self, view: View, what: str) -> float:
        # the words enter the hash, so that equal positions of two dialogues differ
        last = view.turns[-1] if view.turns else None
        key = f"{self._seed}|{len(view.turns)}|{last.text if last else ''}|{what}"
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:6], "big") / 2**48


def _in_order(labels: Sequence[str]) -> Ranking:
    n = len(labels)
    weights = [n - i for i in range(n)]
    total = sum(weights)
    return Ranking.of({label: w / total for label, w in zip(labels, weights, strict=True)})

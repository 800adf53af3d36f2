"""A policy whose answers are a queue, and that records what it was shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from agent.conversation import Turn
from agent.decision import Ranking, Reply, Timing
from agent.policies.base import PolicyError, View
from agent.reading import Reading, StanceReading, TurnReading
from agent.state import Emotion


class QueuePolicy:
    name = "queue"
    version = "test"
    answers = frozenset({"itp", "stp", "ssp", "rpp"})
    threshold = 0.5

    def __init__(self, probabilities: Sequence[float] = ()) -> None:
        self.probabilities = deque(probabilities)
        self.views: list[tuple[str, View]] = []
        self.targets_asked: list[str] = []
        self.fail: dict[str, str] = {}

    def _seen(self, what: str, view: View) -> None:
        self.views.append((what, view))
        if what in self.fail:
            raise PolicyError(self.fail[what], f"{what} failed")  # type: ignore[arg-type]

    async def prepare(self, dialogues: Sequence[Sequence[Turn]]) -> None:
        return None

    async def read(self, view: View, new: int) -> Reading:
        self._seen("read", view)
        turns = view.turns[len(view.turns) - new :]
        return Reading(turns=tuple(self._reading(t, view) for t in turns))

    def _reading(self, turn: Turn, view: View) -> TurnReading:
        if turn.by_agent:
            return TurnReading(
                turn_id=turn.id, speaker=turn.speaker, strategies={view.strategies[0]: 1.0}
            )
        others = [a for a in turn.addressees if a in view.participants and a != turn.speaker]
        return TurnReading(
            turn_id=turn.id,
            speaker=turn.speaker,
            utterance_types={"accusation": 1.0},
            emotion=Emotion(description="hurt", valence=-0.5, intensity=6),
            stances=tuple(
                StanceReading(target=o, tension=0.9, viewpoint="never listens", attitude="bitter")
                for o in others
            ),
        )

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        self._seen("pattern", view)
        n = len(view.patterns)
        return {p: (2.0 if i == 0 else 1.0) / (n + 1) for i, p in enumerate(view.patterns)}

    async def time(self, view: View, reading: Reading) -> Timing:
        self._seen("time", view)
        return Timing(
            probability=self.probabilities.popleft(),
            reasons=("two people talk past each other",),
            evidence=tuple(t.id for t in view.turns[-2:]),
        )

    async def target(self, view: View, reading: Reading) -> Ranking:
        self._seen("target", view)
        n = len(view.candidates)
        return Ranking.of({c: 1.0 - i / n for i, c in enumerate(view.candidates)})

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        self._seen("strategy", view)
        self.targets_asked.append(target)
        n = len(view.strategies)
        return Ranking.of({s: 1.0 - i / n for i, s in enumerate(view.strategies)})

    async def reply(self, view: View, reading: Reading, target: str, strategy: str) -> Reply:
        self._seen("reply", view)
        return Reply(text=f"{target}, go on.", source="library", target=target, strategy=strategy)

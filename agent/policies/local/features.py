"""Numbers for the four decisions, in named blocks, read off a running picture.

Roles instead of names: the last participant who spoke, the one before, the group, the rest.
A block is a flat array; which blocks a head reads is written in its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.encoder import DIMENSION
from agent.labels import THERAPIST
from agent.policies.local import level1
from agent.policies.local.running import Person, Record, Running
from agent.policies.local.sequence import (
    Memory,
    SequenceModel,
    move_probabilities,
    target_probabilities,
)
from agent.policies.local.text import SURFACE, mentions

Array = NDArray[np.float64]
Blocks = dict[str, Array]

LOOK_BACK: Final = 4
"""Newest turns described one by one."""
_NEVER: Final = 3.2
"""Log distance that stands for 'never'."""
_ASKS, _TRAILS, _SHORT, _QUESTION = (
    SURFACE.index(n) for n in ("ends_asking", "trails_off", "short", "question")
)
_N_SPEAKER: Final = level1.SPEAKER.stop
_N_SUPPORT: Final = level1.SUPPORT.stop - level1.SUPPORT.start
_PER_TURN: Final = 18


def _distance(now: int, then: int) -> float:
    return float(np.log1p(now - then)) if then >= 0 else _NEVER


def _one_hot(index: int, size: int) -> list[float]:
    return [1.0 if i == index else 0.0 for i in range(size)]


def unit(vector: Array) -> Array:
    """Return the vector at unit length; zero stays zero."""
    length = float(np.sqrt(vector @ vector))
    return vector / length if length > 1e-9 else vector


class Reader:
    """Reads features off one picture; made anew for each decision point.

    Args:
        running: the picture.
        sequence: the turn transformer and what it remembers; adds its probabilities as a block.
    """

    def __init__(
        self, running: Running, sequence: tuple[SequenceModel, Memory] | None = None
    ) -> None:
        self.run = running
        self.sequence = sequence
        self.last = running.last_speaker
        self.others = running.others(self.last)
        self.other = running.clear_first(self.others)

    def _role(self, name: str) -> int:
        if name == THERAPIST:
            return 0
        if name == self.last:
            return 1
        if name == self.other:
            return 2
        return 3 if name == self.run.group else 4

    @cached_property
    def structure(self) -> Array:
        """Who spoke to whom, how long, how fast."""
        run = self.run
        floor = sum(sorted(p.floor for p in run.people.values())) + run.support_floor + 1
        fast = sum(sorted(p.floor_fast for p in run.people.values())) + 1
        out = [
            float(np.log1p(run.count)),
            float(np.log1p(run.quiet)),
            float(min(run.quiet, 6)),
            float(np.log1p(run.support_run)),
            float(len(run.people) - 2),
            run.alternation,
            run.overlap,
            run.gap,
            float(run.last_support is None),
        ]
        for name in (self.last, self.other):
            out += self._person(run.people[name] if name else None, floor, fast)
        out.append(run.support_floor / floor)
        for back in range(1, LOOK_BACK + 1):
            out += self._turn(back)
        return np.array(out)

    def _person(self, person: Person | None, floor: float, fast: float) -> list[float]:
        if person is None:
            return [0.0] * 5 + [_NEVER, 0.0]
        return [
            person.floor / floor,
            person.floor_fast / fast,
            float(np.log1p(person.turns)),
            person.supported,
            float(person.asked > person.last),
            _distance(self.run.count - 1, person.last),
            float(np.log1p(person.words)),
        ]

    def _turn(self, back: int) -> list[float]:
        if len(self.run.records) < back:
            return [0.0] * _PER_TURN
        record = self.run.records[-back]
        return [
            *_one_hot(min(3, self._role(record.speaker)), 4),
            *_one_hot(self._role(record.addressee) if record.addressee else 5, 5),
            float(np.log1p(record.words)),
            float(np.log1p(record.duration)),
            record.gap,
            float(record.gap < -0.05),
            record.counts[_ASKS],
            record.counts[_TRAILS],
            record.counts[_SHORT],
            float(len(record.background)),
            record.words / (record.duration + 1),
        ]

    def _profile(self, names: Sequence[str], kind: str) -> Array:
        people = [self.run.people[n] for n in names if n in self.run.people]
        people = [p for p in people if p.turns]
        if not people:
            return np.zeros(_N_SPEAKER)
        if len(people) == 1:
            return np.asarray(getattr(people[0], f"{kind}_profile")())
        weights = np.array([p.floor + 1e-3 for p in people])
        profiles = np.array([getattr(p, f"{kind}_profile")() for p in people])
        # summed in an order that does not depend on how people are listed
        order = np.lexsort(profiles.T[::-1])
        return np.asarray((weights / weights.sum())[order] @ profiles[order])

    def _newest(self, names: Sequence[str]) -> Person | None:
        people = [self.run.people[n] for n in names if n in self.run.people]
        spoke = [p for p in people if p.turns]
        return max(spoke, key=lambda p: p.last) if spoke else None

    @cached_property
    def _group_blocks(self) -> Blocks:
        run = self.run
        return {
            "structure": self.structure,
            "pattern": np.concatenate(
                [run.pattern_fast, run.pattern_slow * 0.3, run.pattern_total / (run.count + 3)]
            ),
            "support": np.concatenate([run.support_fast, run.support_slow * 0.5]),
            "next_move": run.next_move,
            "newest_vector": run.newest.vector if run.newest else np.zeros(DIMENSION),
            "recent_vector": unit(run.vector_mean),
        }

    def pattern(self) -> Blocks:
        """For the pattern of the group (RPP)."""
        last, rest = [self.last] if self.last else [], self.others
        fast = self._profile(last, "fast"), self._profile(rest, "fast")
        slow = self._profile(last, "slow"), self._profile(rest, "slow")
        mean = self._profile(last, "mean"), self._profile(rest, "mean")
        blocks = {
            **self._group_blocks,
            "profiles": np.concatenate([fast[0], slow[0], fast[1], slow[1]]),
            "contrast": np.concatenate(
                [
                    slow[0] + slow[1],
                    abs(slow[0] - slow[1]),
                    mean[0] + mean[1],
                    abs(mean[0] - mean[1]),
                ]
            ),
        }
        if self.sequence is not None:
            model, memory = self.sequence
            blocks["sequence"] = model.pattern(memory, self.run.scenario)
        return blocks

    def timing(self) -> Blocks:
        """For whether to speak now (ITP)."""
        newest = self.run.newest
        person = self.run.people[self.last] if self.last else None
        outputs = newest.outputs if newest else np.zeros(level1.WIDTH)
        last, rest = [self.last] if self.last else [], self.others
        blocks = {
            **self._group_blocks,
            "profiles": np.concatenate(
                [self._profile(names, kind) for names in (last, rest) for kind in ("fast", "slow")]
            ),
            "next_support": outputs[level1.SLICES["next_support"]],
            "newest": person.newest if person else np.zeros(_N_SPEAKER),
        }
        if self.sequence is not None:
            yes = self.sequence[0].timing(self.sequence[1])
            blocks["sequence"] = np.array([1 - yes, yes])
        return blocks

    def _named(self, target: str) -> list[str]:
        return list(self.run.people) if target == self.run.group else [target]

    def relation(self, target: str) -> tuple[Array, Array]:
        """Return how ``target`` stands in the conversation, and products of the main facts."""
        run, now = self.run, self.run.count - 1
        to_group = target == run.group
        names = self._named(target)
        people = [run.people[n] for n in names if n in run.people]
        spoke, support = self._newest(names), run.last_support
        again = float(support is not None and support.addressee == target)
        role = [
            float(target == self.last),
            float(target == self.other),
            float(to_group),
            float(not to_group and target not in (self.last, self.other)),
        ]
        floor = sum(sorted(p.floor for p in run.people.values())) + 1
        facts = [
            *role,
            _distance(now, spoke.last) if spoke else _NEVER,
            sum(sorted(p.supported for p in people)),
            sum(sorted(p.floor for p in people)) / floor,
            again,
            float(support is not None and support.addressee == run.group),
            _distance(now, support.position) if support else _NEVER,
            float(any(p.asked > p.last for p in people)),
        ]
        asks = float(run.newest.counts[_QUESTION]) if run.newest else 0.0
        crossed = np.outer(role[:3], [float(min(run.quiet, 4)), again, asks]).ravel()
        return np.array(facts), crossed

    def strategy(self, target: str) -> Blocks:
        """For how to support ``target``, a participant or the group (SSP)."""
        run = self.run
        names = self._named(target)
        rest = [n for n in run.people if n not in names]
        spoke = self._newest(names)
        facts, crossed = self.relation(target)
        voices = sorted((run.people[n] for n in names if n in run.people), key=lambda p: p.last)
        blocks = {
            **self._group_blocks,
            "relation": facts,
            "crossed": crossed,
            "profiles": np.concatenate(
                [
                    self._profile(names, "fast"),
                    self._profile(names, "slow"),
                    self._profile(rest, "fast"),
                    spoke.newest if spoke else np.zeros(_N_SPEAKER),
                ]
            ),
            "target_voice": unit(sum((p.voice for p in voices), np.zeros(DIMENSION))),
        }
        if self.sequence is not None:
            model, memory = self.sequence
            outputs = model.candidates(memory, [target], np.concatenate([facts, crossed])[None])
            blocks["sequence"] = move_probabilities(outputs, run.scenario)
        return blocks

    def candidates(self, names: Sequence[str]) -> list[Blocks]:
        """For whom to support (STP): one set of blocks per candidate."""
        rows = [self.candidate(name) for name in names]
        if self.sequence is not None:
            model, memory = self.sequence
            facts = np.array([np.concatenate(self.relation(n)) for n in names])
            shares = target_probabilities(model.candidates(memory, names, facts))
            for row, share in zip(rows, shares.tolist(), strict=True):
                row["sequence"] = np.array([1 - share, share])
        return rows

    def candidate(self, name: str) -> Blocks:
        """For supporting ``name`` rather than the others (STP); one row per candidate."""
        run, now = self.run, self.run.count - 1
        group = name == run.group
        person = None if group else run.people.get(name, Person())
        newest, support = run.newest, run.last_support
        structure = [
            *self._standing(name, person),
            float(support is not None and support.addressee == name),
            _distance(now, support.position) if support else _NEVER,
            float(newest is not None and not group and mentions(newest.text, name)),
            float(newest.background.count(name)) if newest else 0.0,
            float(newest is not None and newest.by_agent),
            float(np.log1p(run.quiet)),
            float(np.log1p(run.support_run)),
            run.alternation,
        ]
        for back in range(1, LOOK_BACK):
            structure += self._towards(back, name)
        everyone = list(run.people)
        own = (
            [person.newest, person.fast_profile()]
            if person
            else [self._profile(everyone, "fast")] * 2
        )
        outputs = newest.outputs if newest else np.zeros(level1.WIDTH)
        spoken = newest is not None and not newest.by_agent
        return {
            "structure": np.array(structure),
            "own": np.concatenate(own),
            "newest": outputs[level1.SPEAKER] * spoken,
            "support": np.concatenate([outputs[level1.SUPPORT] * (not spoken), run.support_fast]),
        }

    def _standing(self, name: str, person: Person | None) -> list[float]:
        run, now = self.run, self.run.count - 1
        n = max(1, len(run.people))
        role = [
            float(person is None),
            float(name == self.last),
            float(name == self.other),
            float(person is not None and name not in (self.last, self.other)),
            float(n),
        ]
        if person is None:
            mean = sum(sorted(p.supported for p in run.people.values())) / n
            return [*role, _NEVER, 1 / n, mean, 0.0, 0.0, 0.0, 0.0, _NEVER]
        floor = sum(sorted(p.floor for p in run.people.values())) + 1
        return [
            *role,
            _distance(now, person.last),
            person.floor / floor,
            person.supported,
            float(np.log1p(person.turns)),
            float(np.log1p(person.support_turns)),
            person.support_turns / (1 + run.count),
            float(person.asked > person.last),
            _distance(now, person.asked),
        ]

    def _towards(self, back: int, name: str) -> list[float]:
        if len(self.run.records) < back:
            return [0.0] * 7
        record: Record = self.run.records[-back]
        return [
            float(record.speaker == name),
            float(record.addressee == name),
            float(record.addressee == THERAPIST),
            float(np.log1p(record.words)),
            record.counts[_ASKS],
            record.counts[_SHORT],
            record.counts[_TRAILS],
        ]

"""Sessions as arrays for the turn transformer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.labels import PATTERNS, STRATEGIES
from agent.policies.local import level1
from agent.policies.local.features import Reader
from agent.policies.local.running import Record, Running, addressee_label
from agent.policies.local.sequence import (
    ROW_INPUTS,
    VECTOR_SCALE,
    WINDOW,
    relation,
    row_inputs,
)
from agent.train.corpus import Corpus, level1_targets, points
from agent.train.net import AHEAD, OWN

Array = NDArray[np.float64]


@dataclass
class TrainingSession:
    """One session as the transformer is trained on it; rows are positions, -1 stands for none."""

    family: bool
    vectors: NDArray[np.float32]
    rows: Array
    counts: Array
    related: NDArray[np.int64]
    known: Mapping[str, tuple[NDArray[np.float32], NDArray[np.bool_]]]
    pattern: list[tuple[int, int]]
    timing: list[tuple[int, float]]
    strategy: list[tuple[int, NDArray[np.float32], int, int]]
    target: list[tuple[int, NDArray[np.float32], list[int], int]]


def training_sessions(corpus: Corpus) -> list[TrainingSession]:
    """Return the sessions with inputs, relations between rows, and what is to be learned."""
    targets = level1_targets(corpus)
    out = []
    wanted: dict[tuple[int, int], list[tuple[str, Any]]] = {}
    for task in ("rpp", "itp", "ssp", "stp"):
        for point in points(corpus, task):
            wanted.setdefault((point.session, point.position), []).append((task, point))
    for index, session in enumerate(corpus.sessions):
        rows = slice(corpus.offsets[index], corpus.offsets[index + 1])
        n = len(session.turns)
        item = TrainingSession(
            session.scenario == "family",
            session.vectors.astype(np.float32) * np.float32(VECTOR_SCALE),
            np.zeros((n, ROW_INPUTS)),
            session.counts,
            np.full((n, WINDOW), -1),
            {
                k: (targets[k].values[rows].astype(np.float32), targets[k].known[rows])
                for k in (*OWN, *AHEAD)
            },
            [],
            [],
            [],
            [],
        )
        running, records = Running(session.scenario), list[Record]()
        nothing = np.zeros(level1.WIDTH)
        for i, turn in enumerate(session.turns):
            for task, point in wanted.get((index, i), ()):
                _add_point(item, task, point, running, i - 1)
            label = addressee_label(turn.addressees, session.scenario)
            records.append(
                running.observe(turn, label, session.counts[i], session.vectors[i], nothing)
            )
            item.rows[i] = row_inputs(records[i], records[i - 1] if i else None, session.scenario)
            for back in range(min(i + 1, WINDOW)):
                item.related[i, back] = relation(records[i], records[i - back], session.scenario)
        out.append(item)
    return out


def _add_point(item: TrainingSession, task: str, point: Any, running: Running, row: int) -> None:
    scenario = running.scenario
    if row < 0:
        return  # nothing was said yet: there is nothing to learn from
    if task == "rpp":
        item.pattern.append((row, PATTERNS[scenario].index(point.gold)))
        return
    if task == "itp":
        item.timing.append((row, float(point.gold == "yes")))
        return
    reader = Reader(running)

    def facts(name: str) -> NDArray[np.float32]:
        return np.concatenate(reader.relation(name)).astype(np.float32)

    def last(name: str) -> int:
        return running.people[name].last if name in running.people else -1

    if task == "ssp":
        label = STRATEGIES[scenario].index(point.gold)
        item.strategy.append((row, facts(point.target), last(point.target), label))
        return
    names = [*running.people, running.group]
    if point.gold in names:
        item.target.append(
            (
                row,
                np.array([facts(n) for n in names]),
                [last(n) for n in names],
                names.index(point.gold),
            )
        )

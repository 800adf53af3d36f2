"""Fits the decision heads on features that hold only out-of-fold level-1 outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from agent.labels import PATTERNS, SCENARIOS, STRATEGIES, Scenario
from agent.policies.local.features import Blocks, Reader
from agent.policies.local.heads import Head, Linear, Part, log_softmax
from agent.policies.local.running import Running, addressee_label
from agent.policies.local.store import Weights
from agent.train.corpus import Corpus, Point, points
from agent.train.first import fit_first

Array = NDArray[np.float64]

INNER_FOLDS: Final = 7
PATTERN_BLOCKS: Final = ("structure", "profiles", "contrast", "pattern", "support", "next_move")
TIMING_BLOCKS: Final = ("structure", "support", "next_move", "profiles", "next_support", "newest")
STRATEGY_BLOCKS: Final = (
    "relation",
    "crossed",
    "structure",
    "support",
    "next_move",
    "profiles",
    "pattern",
)
TARGET_BLOCKS: Final = ("structure", "own")


@dataclass(frozen=True)
class Table:
    """Feature rows of one task.

    Attributes:
        blocks: name -> shape (rows, width).
        gold: class of each row.
        point: index of the decision point of each row (several rows each for STP).
        points: the decision points.
        candidates: the candidate of each row (STP only).
        group: of each row.
    """

    blocks: Mapping[str, Array]
    gold: NDArray[np.int64]
    point: NDArray[np.int64]
    points: tuple[Point, ...]
    candidates: tuple[str, ...]
    group: tuple[str, ...]

    def rows(self, names: Sequence[str]) -> Array:
        """Return the blocks side by side."""
        return np.hstack([self.blocks[n] for n in names])


def replay(corpus: Corpus, outputs: Array) -> Iterator[tuple[int, int, Running]]:
    """Yield (session, position, picture of the turns before it) in order."""
    for index, session in enumerate(corpus.sessions):
        running = Running(session.scenario)
        start = corpus.offsets[index]
        for i, turn in enumerate(session.turns):
            yield index, i, running
            running.observe(
                turn,
                addressee_label(turn.addressees, session.scenario),
                session.counts[i],
                session.vectors[i],
                outputs[start + i],
            )


def _labels(task: str, scenario: Scenario) -> tuple[str, ...]:
    if task == "itp":
        return ("no", "yes")
    if task == "stp":
        return ("rest", "target")
    return PATTERNS[scenario] if task == "rpp" else STRATEGIES[scenario]


def tables(corpus: Corpus, outputs: Array) -> dict[tuple[str, Scenario], Table]:
    """Return the feature tables of the four tasks for both scenarios."""
    wanted: dict[tuple[int, int], list[tuple[str, Point]]] = {}
    for task in ("itp", "rpp", "stp", "ssp"):
        for point in points(corpus, task):
            wanted.setdefault((point.session, point.position), []).append((task, point))
    found: dict[tuple[str, Scenario], list[tuple[Point, list[tuple[str, Blocks, int]]]]] = {}
    for index, i, running in replay(corpus, outputs):
        tasks = wanted.get((index, i))
        if not tasks:
            continue
        reader = Reader(running)
        for task, point in tasks:
            key = (task, running.scenario)
            found.setdefault(key, []).append((point, _rows(task, reader, point)))
    return {key: _table(corpus, rows) for key, rows in found.items()}


def _rows(task: str, reader: Reader, point: Point) -> list[tuple[str, Blocks, int]]:
    run = reader.run
    if task == "stp":
        candidates = (*run.people, run.group)
        return [(c, reader.candidate(c), int(c == point.gold)) for c in candidates]
    gold = _labels(task, run.scenario).index(point.gold)
    makers: dict[str, Callable[[], Blocks]] = {
        "itp": reader.timing,
        "rpp": reader.pattern,
        "ssp": lambda: reader.strategy(point.target),
    }
    return [("", makers[task](), gold)]


def _table(corpus: Corpus, found: Sequence[tuple[Point, list[tuple[str, Blocks, int]]]]) -> Table:
    flat = [(k, row) for k, (_, rows) in enumerate(found) for row in rows]
    names = flat[0][1][1].keys()
    return Table(
        blocks={n: np.array([row[1][n] for _, row in flat]) for n in names},
        gold=np.array([row[2] for _, row in flat]),
        point=np.array([k for k, _ in flat]),
        points=tuple(p for p, _ in found),
        candidates=tuple(row[0] for _, row in flat),
        group=tuple(corpus.sessions[found[k][0].session].group for k, _ in flat),
    )


def fit_linear(rows: Array, gold: NDArray[np.int64], n_classes: int, strength: float) -> Linear:
    """Fit a multinomial logistic regression; absent classes get a low constant score."""
    mean, scale = rows.mean(0), rows.std(0) + 1e-3
    inputs = np.clip((rows - mean) / scale, -4.0, 4.0)
    model = LogisticRegression(C=strength, max_iter=400).fit(inputs, gold)
    weights, bias = np.zeros((rows.shape[1], n_classes)), np.full(n_classes, -6.0)
    if len(model.classes_) == 2:
        weights[:, model.classes_[1]], bias[model.classes_] = (
            model.coef_[0],
            (0, model.intercept_[0]),
        )
    else:
        weights[:, model.classes_], bias[model.classes_] = model.coef_.T, model.intercept_
    return Linear(mean, scale, weights, bias)


def _head(labels: tuple[str, ...], table: Table, blocks: tuple[str, ...], strength: float) -> Head:
    model = fit_linear(table.rows(blocks), table.gold, len(labels), strength)
    return Head(labels, (Part(model, blocks, 1.0),), 1.0, np.zeros(len(labels)))


def _joined(a: Table, b: Table | None, names: Sequence[str]) -> Table:
    if b is None:
        return a
    return Table(
        {n: np.vstack([a.blocks[n], b.blocks[n]]) for n in names},
        np.concatenate([a.gold, b.gold]),
        np.concatenate([a.point, b.point + len(a.points)]),
        (*a.points, *b.points),
        (*a.candidates, *b.candidates),
        (*a.group, *b.group),
    )


def fit(corpus: Corpus, about: Mapping[str, object] | None = None) -> Weights:
    """Fit everything on a corpus."""
    with threadpool_limits(1):  # sums in another order would change the last bits
        first = fit_first(corpus, INNER_FOLDS)
        data = tables(corpus, first.held_out)
        heads: dict[str, Head] = {}
        for scenario in SCENARIOS:
            if ("rpp", scenario) not in data:
                continue
            labels = PATTERNS[scenario]
            heads[f"pattern/{scenario}"] = _head(
                labels, data["rpp", scenario], PATTERN_BLOCKS, 0.003
            )
            labels = STRATEGIES[scenario]
            heads[f"strategy/{scenario}"] = _head(
                labels, data["ssp", scenario], STRATEGY_BLOCKS, 0.003
            )
        both = _joined(data["itp", "couple"], data.get(("itp", "family")), TIMING_BLOCKS)
        heads["timing"] = _head(("no", "yes"), both, TIMING_BLOCKS, 0.003)
        both = _joined(data["stp", "couple"], data.get(("stp", "family")), TARGET_BLOCKS)
        heads["target"] = _head(("rest", "target"), both, TARGET_BLOCKS, 0.03)
    return Weights(first.heads, heads, 0.5, dict(about or {}))


__all__ = ["fit", "fit_linear", "log_softmax", "replay", "tables"]

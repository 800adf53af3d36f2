"""Fits the decision heads on features that hold only out-of-fold level-1 outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from agent.labels import PATTERNS, SCENARIOS, STRATEGIES, Scenario
from agent.policies.local.features import Blocks, Reader
from agent.policies.local.heads import Given, Head, Linear, Model, Part
from agent.policies.local.level1 import MOVES, move_index
from agent.policies.local.running import Running, addressee_label
from agent.policies.local.sequence import Memory, SequenceModel
from agent.train.corpus import Corpus, Point, points
from agent.train.kernels import KernelRecipe, columns, fit_kernels

Array = NDArray[np.float64]
Key = tuple[str, Scenario]
Listen = Callable[[Running, int, int], str]

TASKS: Final = ("itp", "rpp", "stp", "ssp")

PATTERN_KERNEL: Final = KernelRecipe(
    terms=(
        (("structure",), 1.0),
        (("profiles",), 0.4),
        (("contrast",), 0.4),
        (("recent_vector",), 1.0),
        (("newest_vector",), 1.0),
    ),
    ridge=8.0,
    sharpness=1.0,
)
STRATEGY_KERNEL: Final = KernelRecipe(
    terms=(
        (("relation", "support"), 2.0),
        (("relation", "target_voice"), 2.0),
        (("crossed",), 1.0),
        (("recent_vector",), 1.0),
    ),
    ridge=10.0,
    sharpness=0.25,
    across=0.7,
)


@dataclass(frozen=True)
class Recipe:
    """Which models make which decision, chosen by cross-validation on train and dev.

    Attributes:
        pattern: kernel of the pattern heads.
        strategy: kernel of the strategy heads, shared by both scenarios.
        timing: blocks of the logistic timing head.
        target: blocks of the logistic target head.
        weights: decision -> weight of the transformer beside a weight of one for the rest.
        rare: how far pattern scores are turned towards rare labels, 0 (not) to 1 (fully).
    """

    pattern: KernelRecipe = PATTERN_KERNEL
    strategy: KernelRecipe = STRATEGY_KERNEL
    timing: tuple[str, ...] = (
        "structure",
        "support",
        "next_move",
        "profiles",
        "next_support",
        "newest",
    )
    timing_strength: float = 0.003
    target: tuple[str, ...] = ("structure", "own")
    target_strength: float = 0.03
    weights: Mapping[str, float] = field(
        default_factory=lambda: {"pattern": 0.5, "strategy": 0.5, "timing": 0.5, "target": 0.25}
    )
    rare: float = 0.2


@dataclass(frozen=True)
class Table:
    """Feature rows of one task.

    Attributes:
        blocks: name -> shape (rows, width).
        gold: class of each row.
        point: index of the decision point of each row (several rows each for STP).
        points: the decision points.
        candidates: the candidate of each row (STP only).
        group: couple or family of each row.
    """

    blocks: Mapping[str, Array]
    gold: NDArray[np.int64]
    point: NDArray[np.int64]
    points: tuple[Point, ...]
    candidates: tuple[str, ...]
    group: tuple[str, ...]


def labels_of(task: str, scenario: Scenario) -> tuple[str, ...]:
    """Return the classes of a task's rows."""
    if task == "itp":
        return ("no", "yes")
    if task == "stp":
        return ("rest", "target")
    return PATTERNS[scenario] if task == "rpp" else STRATEGIES[scenario]


def replay(
    corpus: Corpus,
    outputs: Array,
    sequence: SequenceModel | None = None,
    listen: Listen | None = None,
) -> Iterator[tuple[int, int, Running, Memory]]:
    """Yield (session, position, picture of the turns before it, transformer's memory).

    Args:
        corpus: the sessions.
        outputs: level-1 outputs of all rows.
        sequence: remembers the turns; None leaves the memory empty.
        listen: gives a turn's addressee (picture before it, session, position); None takes the
            annotated one.
    """
    for index, session in enumerate(corpus.sessions):
        running, memory = Running(session.scenario), Memory()
        start = corpus.offsets[index]
        for i, turn in enumerate(session.turns):
            yield index, i, running, memory
            label = addressee_label(turn.addressees, session.scenario)
            if listen is not None:
                running.meet(session.names[i])
                label = listen(running, index, i)
            running.observe(turn, label, session.counts[i], session.vectors[i], outputs[start + i])
            if sequence is not None:
                sequence.step(memory, running.records, session.scenario)


def tables(
    corpus: Corpus,
    outputs: Array,
    sequence: SequenceModel | None = None,
    listen: Listen | None = None,
) -> dict[Key, Table]:
    """Return the feature tables of the four tasks for both scenarios."""
    wanted: dict[tuple[int, int], list[tuple[str, Point]]] = {}
    for task in TASKS:
        for point in points(corpus, task):
            wanted.setdefault((point.session, point.position), []).append((task, point))
    found: dict[Key, list[tuple[Point, list[tuple[str, Blocks, int]]]]] = {}
    for index, i, running, memory in replay(corpus, outputs, sequence, listen):
        tasks = wanted.get((index, i))
        if not tasks:
            continue
        reader = Reader(running, None if sequence is None else (sequence, memory))
        for task, point in tasks:
            rows = _rows(task, reader, point)
            found.setdefault((task, running.scenario), []).append((point, rows))
    return {key: _table(corpus, rows) for key, rows in found.items()}


def _rows(task: str, reader: Reader, point: Point) -> list[tuple[str, Blocks, int]]:
    run = reader.run
    if task == "stp":
        candidates = (*run.people, run.group)
        rows = zip(candidates, reader.candidates(candidates), strict=True)
        return [(name, row, int(name == point.gold)) for name, row in rows]
    gold = labels_of(task, run.scenario).index(point.gold)
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


def fit_linear(
    table: Mapping[str, Array], blocks: tuple[str, ...], gold: NDArray[np.int64], strength: float
) -> Linear:
    """Fit a two-class logistic regression."""
    rows = np.hstack([table[name] for name in blocks])
    mean, scale = rows.mean(0), rows.std(0) + 1e-3
    inputs = np.clip((rows - mean) / scale, -4.0, 4.0)
    model = LogisticRegression(C=strength, max_iter=400).fit(inputs, gold)
    weights = np.hstack([np.zeros((rows.shape[1], 1)), model.coef_.T])
    return Linear(blocks, mean, scale, weights, np.array([0.0, model.intercept_[0]]))


def _joined(data: Mapping[Key, Table], task: str) -> tuple[dict[str, Array], NDArray[np.int64]]:
    """Return the rows of both scenarios, without blocks whose width differs."""
    parts = [data[task, s] for s in SCENARIOS if (task, s) in data]
    names = [n for n in parts[0].blocks if len({p.blocks[n].shape[1] for p in parts}) == 1]
    rows = {n: np.vstack([p.blocks[n] for p in parts]) for n in names}
    return rows, np.concatenate([p.gold for p in parts])


def _which(data: Mapping[Key, Table], task: str) -> NDArray[np.int64]:
    sizes = [len(data[task, s].gold) if (task, s) in data else 0 for s in SCENARIOS]
    return np.repeat(np.arange(len(SCENARIOS)), sizes)


def _head(
    name: str, labels: tuple[str, ...], model: Model, recipe: Recipe, with_sequence: bool
) -> Head:
    weight = recipe.weights.get(name.split("/")[0], 0.0)
    parts = [Part(model, 1.0)]
    if with_sequence and weight > 0:
        parts.append(Part(Given(), weight))
    return Head(labels, tuple(parts), 1.0, np.zeros(len(labels)))


def fit_heads(data: Mapping[Key, Table], recipe: Recipe, with_sequence: bool) -> dict[str, Head]:
    """Fit the decision heads, uncalibrated, on tables of out-of-fold features."""
    heads: dict[str, Head] = {}
    for scenario in SCENARIOS:
        if ("rpp", scenario) not in data:
            continue
        table, labels = data["rpp", scenario], PATTERNS[scenario]
        none = np.zeros(len(table.gold), dtype=np.int64)
        kernel = fit_kernels(recipe.pattern, table.blocks, table.gold, len(labels), none)[0]
        shares = np.bincount(table.gold, minlength=len(labels)) + 1.0
        head = _head("pattern", labels, columns(kernel, range(len(labels))), recipe, with_sequence)
        offset = -recipe.rare * np.log(shares / shares.sum())
        heads[f"pattern/{scenario}"] = Head(labels, head.parts, 1.0, offset)
    heads.update(_strategy_heads(data, recipe, with_sequence))
    rows, gold = _joined(data, "itp")
    model = fit_linear(rows, recipe.timing, gold, recipe.timing_strength)
    heads["timing"] = _head("timing", ("no", "yes"), model, recipe, with_sequence)
    rows, gold = _joined(data, "stp")
    model = fit_linear(rows, recipe.target, gold, recipe.target_strength)
    heads["target"] = _head("target", ("rest", "target"), model, recipe, with_sequence)
    return heads


def _strategy_heads(
    data: Mapping[Key, Table], recipe: Recipe, with_sequence: bool
) -> dict[str, Head]:
    rows, _ = _joined(data, "ssp")
    which = _which(data, "ssp")
    places = {s: [move_index(s, label) for label in STRATEGIES[s]] for s in SCENARIOS}
    gold = np.concatenate(
        [np.array(places[s])[data["ssp", s].gold] for s in SCENARIOS if ("ssp", s) in data]
    )
    fitted = fit_kernels(recipe.strategy, rows, gold, len(MOVES), which)
    return {
        f"strategy/{s}": _head(
            "strategy", STRATEGIES[s], columns(fitted[k], places[s]), recipe, with_sequence
        )
        for k, s in enumerate(SCENARIOS)
        if k in fitted
    }

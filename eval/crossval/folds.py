"""One fold: fit on the other groups, answer every decision point of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agent.labels import GROUP_LABEL, SCENARIOS, THERAPIST, UTTERANCE_TYPES
from agent.policies.local import level1
from agent.policies.local.heads import Head
from agent.train.corpus import Corpus, Point, Session, level1_targets
from agent.train.first import corpus_folds
from agent.train.fit import Fitted, Plan, fit_parts, held_out_tables, outputs_of
from agent.train.listener import walk
from agent.train.second import Key, Recipe, Table, fit_heads, labels_of

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

FOLDS: Final = 8

LEVEL1_BLOCKS: Final = (
    "profiles",
    "contrast",
    "pattern",
    "support",
    "next_move",
    "next_support",
    "newest",
    "own",
)
PERSON_BLOCKS: Final = ("profiles", "contrast", "own", "newest", "target_voice")
VECTOR_BLOCKS: Final = ("recent_vector", "newest_vector", "target_voice")
STRUCTURE_BLOCKS: Final = ("structure", "relation", "crossed")

FULL: Final = "local"
INFERRED: Final = "local, addressees inferred"
PLAIN: Final = "without the transformer"
PRIOR: Final = "label shares of the training groups"
LAST: Final = "last speaker, then the group"


@dataclass(frozen=True)
class Ablation:
    """A recipe with something left out; fitted without the transformer.

    Attributes:
        name: as printed.
        recipe: what is left.
        tasks: where it differs from the whole and makes sense.
    """

    name: str
    recipe: Recipe
    tasks: tuple[str, ...] = ("itp", "rpp", "stp", "ssp")


def ablations(whole: Recipe) -> tuple[Ablation, ...]:
    """Return the ablations of a recipe."""
    return (
        Ablation(PLAIN, whole),
        Ablation("no relational state", _without(whole, PERSON_BLOCKS)),
        Ablation("no level-1 heads", _without(whole, LEVEL1_BLOCKS)),
        Ablation("vectors only", _vectors(whole), ("itp", "rpp", "ssp")),
        Ablation("structure only", _only(whole, STRUCTURE_BLOCKS)),
        Ablation("no interactions with the target", _additive(whole), ("ssp",)),
    )


def _without(recipe: Recipe, names: Sequence[str]) -> Recipe:
    return replace(
        recipe,
        pattern=recipe.pattern.without(names),
        strategy=recipe.strategy.without(names),
        timing=tuple(b for b in recipe.timing if b not in names),
        target=tuple(b for b in recipe.target if b not in names),
    )


def _only(recipe: Recipe, names: Sequence[str]) -> Recipe:
    every = {*recipe.pattern.blocks(), *recipe.strategy.blocks(), *recipe.timing, *recipe.target}
    return _without(recipe, [b for b in every if b not in names])


def _vectors(recipe: Recipe) -> Recipe:
    kept = _only(recipe, VECTOR_BLOCKS)
    return replace(kept, timing=("recent_vector", "newest_vector"), target=recipe.target)


def _additive(recipe: Recipe) -> Recipe:
    terms = {(block,): weight for blocks, weight in recipe.strategy.terms for block in blocks}
    terms.pop(("crossed",), None)
    return replace(recipe, strategy=replace(recipe.strategy, terms=tuple(terms.items())))


def fold_of(corpus: Corpus) -> dict[str, int]:
    """Return group -> fold."""
    return corpus_folds(corpus, FOLDS)


def run_fold(
    corpus: Corpus, k: int, plan: Plan, progress: Progress, folder: Path | None = None
) -> dict[str, Any]:
    """Fit without fold ``k`` and return its answers as JSON-able data.

    Args:
        corpus: all sessions.
        k: the fold that is left out.
        plan: what is trained.
        progress: is told of finished training runs.
        folder: where finished training runs are kept.
    """
    folds = fold_of(corpus)
    rest = corpus.subset(g for g in corpus.groups if folds[g] != k)
    left = corpus.subset(g for g in corpus.groups if folds[g] == k)
    fitted = fit_parts(rest, plan, plan.sequence, progress, folder)
    given = held_out_tables(fitted, left)
    answers = _answers(FULL, fitted.heads, given, left)
    answers += _answers(INFERRED, fitted.heads, held_out_tables(fitted, left, True), left)
    for ablation in ablations(plan.recipe):
        heads = fit_heads(fitted.tables, ablation.recipe, False)
        kept = {key: table for key, table in given.items() if key[0] in ablation.tasks}
        answers += _answers(ablation.name, heads, kept, left)
    answers += _floors(fitted, given, left)
    return {
        "fold": k,
        "groups": list(left.groups),
        "answers": answers,
        "addressees": _addressees(fitted, left),
        "level1": _level1(fitted, left),
    }


_HEAD_OF: Final[Mapping[str, str]] = {
    "itp": "timing",
    "stp": "target",
    "rpp": "pattern",
    "ssp": "strategy",
}


def _head(heads: Mapping[str, Head], key: Key) -> Head:
    kind = _HEAD_OF[key[0]]
    return heads[kind if kind in heads else f"{kind}/{key[1]}"]


def _answers(
    variant: str, heads: Mapping[str, Head], data: Mapping[Key, Table], corpus: Corpus
) -> list[dict[str, Any]]:
    out = []
    for key, table in data.items():
        head = _head(heads, key)
        if key[0] == "stp":
            out += _target_answers(variant, head, table, corpus)
            continue
        mixed, offset = head.mixed(table.blocks), head.offset.tolist()
        for row, point in enumerate(table.points):
            scores = dict(zip(labels_of(*key), mixed[row].tolist(), strict=True))
            out.append(
                _answer(variant, key[0], corpus.sessions[point.session], point, scores, offset)
            )
    return out


def _target_answers(variant: str, head: Head, table: Table, corpus: Corpus) -> list[dict[str, Any]]:
    out = []
    for k, point in enumerate(table.points):
        rows = np.flatnonzero(table.point == k)
        shares = head.shares({n: b[rows] for n, b in table.blocks.items()}).tolist()
        scores = dict(zip((table.candidates[r] for r in rows), shares, strict=True))
        out.append(_answer(variant, "stp", corpus.sessions[point.session], point, scores, ()))
    return out


def _answer(
    variant: str,
    task: str,
    session: Session,
    point: Point,
    scores: Mapping[str, float],
    offset: Sequence[float],
) -> dict[str, Any]:
    return {
        "variant": variant,
        "task": task,
        "scenario": session.scenario,
        "group": session.group,
        "sample_id": session.sample.sample_id,
        # ITP is asked after a row, the others about one
        "row": point.position + (task != "itp"),
        "gold": point.gold,
        "scores": {label: round(score, 6) for label, score in scores.items()},
        "offset": [round(x, 6) for x in offset],
    }


def _floors(fitted: Fitted, data: Mapping[Key, Table], corpus: Corpus) -> list[dict[str, Any]]:
    out = []
    for key, table in data.items():
        if key[0] == "stp":
            for k, point in enumerate(table.points):
                names = [table.candidates[r] for r in np.flatnonzero(table.point == k)]
                session = corpus.sessions[point.session]
                scores = _recency(session, point.position, names)
                out.append(_answer(LAST, "stp", session, point, scores, ()))
            continue
        if key not in fitted.tables:
            continue
        labels = labels_of(*key)
        counts = np.bincount(fitted.tables[key].gold, minlength=len(labels)) + 1e-3
        shares = dict(zip(labels, (counts / counts.sum()).tolist(), strict=True))
        for point in table.points:
            session = corpus.sessions[point.session]
            out.append(_answer(PRIOR, key[0], session, point, shares, ()))
    return out


def _recency(session: Session, position: int, names: Sequence[str]) -> dict[str, float]:
    spoken = [t.speaker for t in reversed(session.turns[:position]) if not t.by_agent]
    order = list(dict.fromkeys(s for s in spoken if s in names))
    group = GROUP_LABEL[session.scenario]
    order = [*order[:1], group, *order[1:], *(n for n in names if n not in order and n != group)]
    return {name: 1.0 / (2 + i) for i, name in enumerate(order)}


def _addressees(fitted: Fitted, corpus: Corpus) -> list[dict[str, Any]]:
    outputs = outputs_of(fitted.first, corpus)
    out = []
    for by_agent, gold, _, guess in walk(corpus, outputs, fitted.listener):
        out.append(
            {
                "by_agent": by_agent,
                "gold": _kind(gold),
                "kind": _kind(guess),
                "right": gold == guess,
            }
        )
    return out


def _kind(label: str) -> str:
    if label == THERAPIST:
        return "therapist"
    return "group" if label in GROUP_LABEL.values() else "person"


def _level1(fitted: Fitted, corpus: Corpus) -> dict[str, Any]:
    """Return what the level-1 heads get right on rows they were not fitted on."""
    outputs, targets = outputs_of(fitted.first, corpus), level1_targets(corpus)
    kinds, strength = targets["utterance"], targets["intensity"]
    guess = outputs[:, level1.SLICES["utterance"]].argmax(1)
    right = (guess == kinds.values.argmax(1))[kinds.known]
    error = 2 * np.abs(outputs[:, level1.SLICES["intensity"]] - strength.values)[strength.known]
    constant = 2 * np.abs(strength.values[strength.known])
    moves = targets["move"]
    hits = (outputs[:, level1.SLICES["move"]].argmax(1) == moves.values.argmax(1))[moves.known]
    return {
        "utterance_right": int(right.sum()),
        "utterance_n": len(right),
        "utterance_counts": dict(
            zip(UTTERANCE_TYPES, kinds.values[kinds.known].sum(0).tolist(), strict=True)
        ),
        "intensity_error": float(error.sum()),
        "intensity_error_constant": float(constant.sum()),
        "intensity_n": len(error),
        "move_right": int(hits.sum()),
        "move_n": len(hits),
    }


__all__ = ["FOLDS", "SCENARIOS", "fold_of", "run_fold"]

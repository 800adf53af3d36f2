"""The whole training: level 1, addressees, the turn transformer, decisions, calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from agent.policies.local.addressee import Listener
from agent.policies.local.heads import Head
from agent.policies.local.running import Running, addressee_label
from agent.policies.local.sequence import SequenceModel
from agent.policies.local.store import Weights
from agent.train import sequence as sequences
from agent.train.calibrate import calibrated
from agent.train.corpus import Corpus
from agent.train.first import FirstLevel, corpus_folds, fit_first
from agent.train.listener import fit_listener
from agent.train.net import Recipe as SequenceRecipe
from agent.train.second import Key, Listen, Recipe, Table, fit_heads, tables

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

INNER_FOLDS: Final = 7
CALIBRATION_FOLDS: Final = 3


@dataclass(frozen=True)
class Plan:
    """What is trained.

    Attributes:
        recipe: the decision heads.
        sequence: the turn transformer, or None for none.
        calibration: the transformer trained for calibration only.
    """

    recipe: Recipe = field(default_factory=Recipe)
    sequence: SequenceRecipe | None = field(default_factory=SequenceRecipe)
    calibration: SequenceRecipe | None = field(default_factory=lambda: SequenceRecipe(runs=1))


@dataclass(frozen=True)
class Fitted:
    """Uncalibrated weights of a corpus, and the tables they were fitted on."""

    first: FirstLevel
    listener: Listener
    sequence: SequenceModel | None
    heads: dict[str, Head]
    tables: dict[Key, Table]


def _silent(what: str, done: int, of: int) -> None:
    """Show no progress."""


def fit_parts(
    corpus: Corpus,
    plan: Plan,
    recipe: SequenceRecipe | None,
    progress: Progress = _silent,
    folder: Path | None = None,
) -> Fitted:
    """Fit everything but the temperatures."""
    with threadpool_limits(1):  # sums in another order would change the last bits
        first = fit_first(corpus, INNER_FOLDS)
        listener = fit_listener(corpus, first.held_out)
        data = tables(corpus, first.held_out)
        heads = fit_heads(data, plan.recipe, recipe is not None)
        model = None
        if recipe is not None:
            model = sequences.fit_sequence(corpus, recipe, progress=progress, folder=folder)
    return Fitted(first, listener, model, heads, data)


def outputs_of(first: FirstLevel, corpus: Corpus) -> Array:
    """Return level-1 outputs of a corpus the heads were not fitted on."""
    rows = [
        first.heads.outputs(vector, counts)
        for session in corpus.sessions
        for vector, counts in zip(session.vectors, session.counts, strict=True)
    ]
    return np.array(rows)


def held_out_tables(fitted: Fitted, corpus: Corpus, inferred: bool = False) -> dict[Key, Table]:
    """Return the tables of sessions that were not fitted on.

    Args:
        fitted: the weights.
        corpus: other sessions.
        inferred: whether participants' addressees are inferred instead of taken from the
            annotation; whom the supporting side spoke to is known to itself.
    """
    outputs = outputs_of(fitted.first, corpus)

    def listen(running: Running, index: int, i: int) -> str:
        session = corpus.sessions[index]
        turn, seen = session.turns[i], outputs[corpus.offsets[index] + i]
        if turn.by_agent:
            return addressee_label(turn.addressees, session.scenario)
        return fitted.listener.infer(running, turn, session.counts[i], seen)

    chosen: Listen | None = listen if inferred else None
    return tables(corpus, outputs, fitted.sequence, chosen)


def fit(
    corpus: Corpus,
    plan: Plan | None = None,
    about: Mapping[str, object] | None = None,
    progress: Progress = _silent,
    folder: Path | None = None,
) -> Weights:
    """Fit everything on a corpus, calibrated out-of-fold within it.

    Args:
        corpus: the sessions.
        plan: what is trained.
        about: where the sessions come from; stored with the weights.
        progress: is told what was finished.
        folder: where long steps are kept, so that a killed training goes on.
    """
    plan = Plan() if plan is None else plan
    folds = corpus_folds(corpus, CALIBRATION_FOLDS)
    held_out = []
    for k in range(CALIBRATION_FOLDS):
        rest = corpus.subset(g for g in corpus.groups if folds[g] != k)
        recipe = plan.calibration if plan.sequence else None
        part = fit_parts(rest, plan, recipe, folder=folder)
        left = corpus.subset(g for g in corpus.groups if folds[g] == k)
        held_out.append((part.heads, held_out_tables(part, left)))
        progress("calibration", k + 1, CALIBRATION_FOLDS)
    whole = fit_parts(corpus, plan, plan.sequence, progress, folder)
    heads = calibrated(whole.heads, held_out)
    return Weights(whole.first.heads, whole.listener, whole.sequence, heads, 0.5, dict(about or {}))


def timing_threshold(weights: Weights, corpus: Corpus) -> float:
    """Return the probability at which the agent speaks, chosen on sessions not fitted on.

    The one with the best balanced accuracy over all turns of participants, as often as they
    come (natural prevalence), rounded to a hundredth.
    """
    rows = [
        weights.level1.outputs(vector, counts)
        for session in corpus.sessions
        for vector, counts in zip(session.vectors, session.counts, strict=True)
    ]
    data = tables(corpus, np.array(rows), weights.sequence)
    found = [table for (task, _), table in data.items() if task == "itp"]
    said = np.concatenate([weights.heads["timing"].proba(t.blocks)[:, 1] for t in found])
    gold = np.concatenate([t.gold for t in found])
    steps = np.arange(0.2, 0.805, 0.01)
    both = [((said >= t)[gold == 1].mean() + (said < t)[gold == 0].mean()) / 2 for t in steps]
    return float(round(steps[int(np.argmax(both))], 2))

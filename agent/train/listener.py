"""Fits addressee inference and measures it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from agent.policies.local.addressee import (
    PARTICIPANT_FEATURES,
    SUPPORT_FEATURES,
    Listener,
    listener_rows,
)
from agent.policies.local.running import Running, addressee_label
from agent.train.corpus import Corpus

Array = NDArray[np.float64]

_STRENGTH = 1.0
_ROUNDS = 2
"""The second round is fitted on histories with the first round's inferred addressees."""


def fit_listener(corpus: Corpus, outputs: Array) -> Listener:
    """Fit the two models.

    Args:
        corpus: the sessions.
        outputs: out-of-fold level-1 outputs of all rows.
    """
    listener: Listener | None = None
    for _ in range(_ROUNDS):
        rows: dict[bool, list[tuple[Array, bool]]] = {True: [], False: []}
        for by_agent, gold, found, _ in walk(corpus, outputs, listener):
            rows[by_agent] += [(row, name == gold) for name, row in found.items()]
        listener = Listener(
            _fit(rows[False], PARTICIPANT_FEATURES), _fit(rows[True], SUPPORT_FEATURES)
        )
    assert listener is not None
    return listener


def _fit(rows: list[tuple[Array, bool]], width: int) -> Array:
    x, y = np.array([r for r, _ in rows]).reshape(-1, width), np.array([g for _, g in rows])
    model = LogisticRegression(C=_STRENGTH, max_iter=1000).fit(x, y)
    return np.concatenate([model.coef_[0], model.intercept_])


def walk(
    corpus: Corpus, outputs: Array, listener: Listener | None
) -> Iterator[tuple[bool, str, dict[str, Array], str]]:
    """Yield (by the supporting side, annotated addressee, features, inferred) per turn.

    Turns without an annotated addressee are passed over. With a listener the history holds
    inferred addressees of participants' turns; whom the supporting side spoke to is known to
    itself.
    """
    for index, session in enumerate(corpus.sessions):
        running = Running(session.scenario)
        for i, turn in enumerate(session.turns):
            # names of people spoken to are known in a room, even when they never spoke
            running.meet(session.names[i])
            seen = outputs[corpus.offsets[index] + i]
            gold = addressee_label(turn.addressees, session.scenario)
            guess = gold
            if listener is not None:
                guess = listener.infer(running, turn, session.counts[i], seen)
            if gold:
                found = listener_rows(running, turn, session.counts[i], seen)
                yield turn.by_agent, gold, found, guess
            heard = gold if turn.by_agent else guess
            running.observe(turn, heard, session.counts[i], session.vectors[i], seen)

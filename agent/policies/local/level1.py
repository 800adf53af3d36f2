"""Level-1 heads: one linear map from a turn's words to what its speaker seems to be doing.

Fitted on RESCUE's annotations of single rows (utterance type, emotion, viewpoint and attitude,
support strategy) and on what came next (pattern, strategy, whether the therapist spoke). Their
outputs are regression scores, not probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.labels import PATTERNS, STRATEGIES, UTTERANCE_TYPES

Array = NDArray[np.float64]

AXES: Final = 5
"""Principal axes kept of emotion descriptions, and of attitudes."""

MOVES: Final = tuple(
    dict.fromkeys(
        f"{scenario}:{label}" if label == "join" else label
        for scenario, labels in STRATEGIES.items()
        for label in labels
    )
)
"""Strategies of both scenarios; ``join`` differs between them and stands twice."""

SPEAKER_HEADS: Final = (
    ("utterance", len(UTTERANCE_TYPES)),
    ("intensity", 1),
    ("valence", 1),
    ("emotion", AXES),
    ("viewpoint", 1),
    ("warmth", 1),
    ("attitude", AXES),
)
SUPPORT_HEADS: Final = (("move", len(MOVES)), ("supports", 1))
NEXT_HEADS: Final = (
    ("pattern_couple", len(PATTERNS["couple"])),
    ("pattern_family", len(PATTERNS["family"])),
    ("next_move", len(MOVES)),
    ("next_support", 1),
    ("to_support", 1),
    ("to_group", 1),
)
HEADS: Final = (*SPEAKER_HEADS, *SUPPORT_HEADS, *NEXT_HEADS)
SIZES: Final = dict(HEADS)


def _slices() -> dict[str, slice]:
    out, start = {}, 0
    for name, size in HEADS:
        out[name] = slice(start, start + size)
        start += size
    return out


SLICES: Final = _slices()
SPEAKER: Final = slice(0, sum(n for _, n in SPEAKER_HEADS))
SUPPORT: Final = slice(SPEAKER.stop, SPEAKER.stop + sum(n for _, n in SUPPORT_HEADS))
WIDTH: Final = SLICES["to_group"].stop


def move_index(scenario: str, label: str) -> int:
    """Return the position of a scenario's strategy in ``MOVES``."""
    return MOVES.index(f"{scenario}:{label}" if label == "join" else label)


@dataclass(frozen=True)
class Level1:
    """The heads' weights.

    Attributes:
        weights: shape (dim + surface + 1, WIDTH).
        mean: of the surface counts.
        scale: of the surface counts.
        feelings: word -> its place on the emotion axes, shape (AXES,) each.
        lean: slope and offset that bring the shrunken warmth head back to -1 to 1.
    """

    weights: Array
    mean: Array
    scale: Array
    feelings: dict[str, Array]
    lean: tuple[float, float] = (1.0, 0.0)

    def inputs(self, vector: Array, counts: Array) -> Array:
        """Return the input row of one turn."""
        rows = level1_inputs(vector[None], counts[None], self.mean, self.scale)
        return np.asarray(rows[0])

    def outputs(self, vector: Array, counts: Array) -> Array:
        """Return the outputs of one turn, shape (WIDTH,)."""
        return np.asarray(self.inputs(vector, counts) @ self.weights)

    @cached_property
    def feeling_table(self) -> tuple[tuple[str, ...], Array]:
        """The words and their places, one row each."""
        return tuple(self.feelings), np.array(list(self.feelings.values()))


def level1_inputs(vectors: Array, counts: Array, mean: Array, scale: Array) -> Array:
    """Return the heads' input rows, shape (n, dim + surface + 1)."""
    # surface counts are shrunk so that one penalty suits them and the unit-length vectors
    small = (counts - mean) / scale * 0.15
    return np.hstack([vectors, small, np.full((len(vectors), 1), 0.3)])

"""A small causal transformer over turns, in numpy, one turn at a time.

A turn attends to at most ``WINDOW`` turns, itself included. What attention knows about another
turn is how it relates to the present one (same speaker, spoken to me, ...), never a name. The
weights of several training runs are kept side by side and their probabilities averaged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.labels import GROUP_LABEL, PATTERNS, STRATEGIES, THERAPIST, Scenario
from agent.policies.local.running import Record

Array = NDArray[np.float64]
Small = NDArray[np.float32]

WINDOW: Final = 16
ROW_INPUTS: Final = 13
RELATIONS: Final = 12
LAYERS: Final = 2
HEADS: Final = 4
VECTOR_SCALE: Final = 8.0
"""Brings the entries of a unit-length vector near to one."""

OUTPUTS: Final = {
    "couple": slice(0, len(PATTERNS["couple"])),
    "family": slice(len(PATTERNS["couple"]), len(PATTERNS["couple"]) + len(PATTERNS["family"])),
}
TIMING: Final = OUTPUTS["family"].stop
"""Position of the logit of speaking now."""
MOVES: Final = {
    "couple": slice(0, len(STRATEGIES["couple"])),
    "family": slice(
        len(STRATEGIES["couple"]), len(STRATEGIES["couple"]) + len(STRATEGIES["family"])
    ),
}
TARGET: Final = MOVES["family"].stop
"""Position of the score of being the target."""


def row_inputs(record: Record, before: Record | None, scenario: Scenario) -> Array:
    """Return what is known of a turn besides its words, shape (ROW_INPUTS,)."""
    group = GROUP_LABEL[scenario]
    to = record.addressee
    return np.array(
        [
            float(record.by_agent),
            float(to == THERAPIST),
            float(to == group),
            float(to not in ("", THERAPIST, group)),
            float(before is not None and before.speaker == record.speaker),
            float(before is not None and to == before.speaker),
            float(before is not None and before.addressee == record.speaker),
            float(np.log1p(record.duration)) - 1.5,
            record.gap * 0.5,
            float(record.gap < -0.05),
            float(len(record.background)),
            float(np.log1p(record.position)) / 3,
            float(scenario == "family"),
        ]
    )


def relation(now: Record, then: Record, scenario: Scenario) -> int:
    """Return how an earlier turn relates to the present one, 0 to RELATIONS - 1."""
    if now.speaker == then.speaker:
        who = 0
    elif then.by_agent:
        who = 1
    else:
        who = 3 if now.by_agent else 2
    if then.addressee == now.speaker:
        return who * 3
    return who * 3 + (1 if then.addressee == GROUP_LABEL[scenario] else 2)


@dataclass
class Memory:
    """What the transformer remembers of a conversation.

    Attributes:
        keys: per layer, newest last; each of shape (runs, HEADS, width / HEADS).
        values: likewise.
        hidden: of the newest turn, shape (runs, width); None before any.
        by_speaker: of each speaker's last turn.
    """

    keys: tuple[deque[Small], ...] = field(
        default_factory=lambda: tuple(deque(maxlen=WINDOW) for _ in range(LAYERS))
    )
    values: tuple[deque[Small], ...] = field(
        default_factory=lambda: tuple(deque(maxlen=WINDOW) for _ in range(LAYERS))
    )
    hidden: Small | None = None
    by_speaker: dict[str, Small] = field(default_factory=dict)


def gelu(x: Small) -> Small:
    """Return the tanh form of GELU."""
    out: Small = 0.5 * x * (1 + np.tanh(np.float32(0.7978845608) * (x + 0.044715 * x * x * x)))
    return out


def _softmax(x: Small) -> Small:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    out: Small = e / e.sum(axis=-1, keepdims=True)
    return out


@dataclass(frozen=True)
class SequenceModel:
    """The weights, each with a leading axis over training runs.

    Attributes:
        weights: name -> array. Matrices are stored input first, (runs, in, out).
        mean: of the surface counts.
        scale: of the surface counts.
    """

    weights: Mapping[str, Small]
    mean: Array
    scale: Array

    def _linear(self, name: str, x: Small) -> Small:
        w = self.weights
        out: Small = (x[:, None, :] @ w[f"{name}.weight"])[:, 0] + w[f"{name}.bias"]
        return out

    def _norm(self, name: str, x: Small) -> Small:
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        out: Small = centred / scale * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return out

    def step(self, memory: Memory, records: Collection[Record], scenario: Scenario) -> None:
        """Take the newest of ``records`` in."""
        recent = list(records)[-WINDOW:]
        newest = recent[-1]
        counts = np.clip((newest.counts - self.mean) / self.scale, -3, 3) * 0.5
        row = row_inputs(newest, recent[-2] if len(recent) > 1 else None, scenario)
        runs = len(self.weights["vec.bias"])
        vector = np.broadcast_to(
            np.float32(newest.vector * VECTOR_SCALE), (runs, len(newest.vector))
        )
        aux = np.broadcast_to(
            np.float32(np.concatenate([row, counts])), (runs, len(row) + len(counts))
        )
        x = self._linear("vec", vector) + self._linear("aux", aux)
        related = np.array([relation(newest, r, scenario) for r in recent])
        distance = np.arange(len(recent))[::-1]
        for layer in range(LAYERS):
            x = x + self._attend(layer, memory, x, related, distance)
            y = self._linear(f"{layer}.f1", self._norm(f"{layer}.n2", x))
            x = x + self._linear(f"{layer}.f2", gelu(y))
        memory.hidden = self._norm("n", x)
        memory.by_speaker[newest.speaker] = memory.hidden

    def _attend(
        self,
        layer: int,
        memory: Memory,
        x: Small,
        related: NDArray[np.int64],
        distance: NDArray[np.int64],
    ) -> Small:
        y = self._norm(f"{layer}.n1", x)
        shape = (len(x), HEADS, x.shape[1] // HEADS)
        query = self._linear(f"{layer}.q", y).reshape(shape)
        memory.keys[layer].append(self._linear(f"{layer}.k", y).reshape(shape))
        memory.values[layer].append(self._linear(f"{layer}.v", y).reshape(shape))
        keys = np.stack(list(memory.keys[layer])[-len(related) :], axis=2)
        values = np.stack(list(memory.values[layer])[-len(related) :], axis=2)
        scores = (keys @ query[..., None])[..., 0] / np.float32(np.sqrt(shape[2]))
        bias = self.weights[f"{layer}.rel"][:, related] + self.weights[f"{layer}.dist"][:, distance]
        share = _softmax(scores + bias.transpose(0, 2, 1))
        mixed = (share[..., None, :] @ values)[..., 0, :].reshape(x.shape)
        return self._linear(f"{layer}.o", mixed)

    def _hidden(self, memory: Memory) -> Small:
        if memory.hidden is not None:
            return memory.hidden
        return np.zeros_like(self.weights["vec.bias"])

    def pattern(self, memory: Memory, scenario: Scenario) -> Array:
        """Return the mean probabilities of the scenario's patterns."""
        scores = self._linear("out", self._hidden(memory))[:, OUTPUTS[scenario]]
        return np.asarray(_softmax(scores).mean(axis=0), dtype=np.float64)

    def timing(self, memory: Memory) -> float:
        """Return the mean probability of speaking now."""
        scores = self._linear("out", self._hidden(memory))[:, TIMING]
        return float((1 / (1 + np.exp(-scores))).mean())

    def candidates(self, memory: Memory, names: Sequence[str], relations: Array) -> Small:
        """Return raw outputs for candidates, shape (runs, candidates, outputs).

        Args:
            memory: of the conversation.
            names: of the candidates; the group has no turn of its own.
            relations: how each stands, shape (candidates, width).
        """
        now = self._hidden(memory)
        own = np.stack([memory.by_speaker.get(n, np.zeros_like(now)) for n in names], axis=1)
        here = np.broadcast_to(now[:, None], own.shape)
        facts = np.broadcast_to(np.float32(relations), (len(now), *relations.shape))
        x = np.concatenate([here, own, facts], axis=-1)
        w = self.weights
        hidden = gelu(x @ w["c1.weight"] + w["c1.bias"][:, None])
        out: Small = hidden @ w["c2.weight"] + w["c2.bias"][:, None]
        return out


def move_probabilities(outputs: Small, scenario: Scenario) -> Array:
    """Return the mean probabilities of the strategies for one candidate's outputs."""
    return np.asarray(_softmax(outputs[:, 0, MOVES[scenario]]).mean(axis=0), dtype=np.float64)


def target_probabilities(outputs: Small) -> Array:
    """Return the mean probabilities over the candidates."""
    return np.asarray(_softmax(outputs[..., TARGET]).mean(axis=0), dtype=np.float64)

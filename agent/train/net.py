"""The turn transformer in torch, as it is trained; ``agent.policies.local.sequence`` runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as fn

from agent.policies.local import level1
from agent.policies.local.sequence import (
    HEADS,
    LAYERS,
    RELATIONS,
    ROW_INPUTS,
    TARGET,
    TIMING,
    WINDOW,
)
from agent.policies.local.text import SURFACE

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]

WIDTH: Final = 64
FACTS: Final = 20
AHEAD: Final = ("pattern_couple", "pattern_family", "next_move")
OWN: Final = ("utterance", "intensity", "valence", "viewpoint", "warmth", "move", "supports")
AHEAD_SIZES: Final = [level1.SIZES[n] for n in AHEAD]


@dataclass(frozen=True)
class Recipe:
    """How the transformer is trained.

    Attributes:
        runs: training runs whose probabilities are averaged.
        epochs: passes over the sessions.
        batch: sessions a step.
        rate: highest learning rate.
        decay: weight decay.
        dropout: within the layers.
        input_dropout: of the sentence vectors.
        auxiliary: weight of the tasks that only shape the layers.
        smoothing: of the labels.
        crop: probability that a session's beginning is forgotten.
    """

    runs: int = 3
    epochs: int = 24
    batch: int = 16
    rate: float = 2e-3
    decay: float = 0.05
    dropout: float = 0.4
    input_dropout: float = 0.5
    auxiliary: float = 0.5
    smoothing: float = 0.1
    crop: float = 0.5


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.f1, self.f2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.rel = nn.Parameter(torch.zeros(RELATIONS, HEADS))
        self.dist = nn.Parameter(torch.zeros(WINDOW, HEADS))


class Net(nn.Module):
    """The transformer with its output heads."""

    def __init__(self, recipe: Recipe, dim: int) -> None:
        super().__init__()
        self.input_drop, self.drop = nn.Dropout(recipe.input_dropout), nn.Dropout(recipe.dropout)
        self.vec, self.aux = nn.Linear(dim, WIDTH), nn.Linear(ROW_INPUTS + len(SURFACE), WIDTH)
        self.layers = nn.ModuleList(_Layer() for _ in range(LAYERS))
        self.n = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, TIMING + 1 + sum(AHEAD_SIZES))
        self.own = nn.Linear(WIDTH, level1.SUPPORT.stop)
        self.c1, self.c2 = nn.Linear(2 * WIDTH + FACTS, WIDTH), nn.Linear(WIDTH, TARGET + 1)

    def forward(self, vectors: Tensor, aux: Tensor, related: Tensor) -> Tensor:
        """Return hidden states, shape (sessions, rows, WIDTH)."""
        rows = vectors.shape[1]
        x = self.drop(self.vec(self.input_drop(vectors)) + self.aux(aux))
        back = (torch.arange(rows)[:, None] - torch.arange(WINDOW)[None]).clamp(min=0)
        hidden_pairs = (related < 0)[..., None]
        for module in self.layers:
            layer = cast(_Layer, module)
            y = layer.n1(x)
            shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
            query = layer.q(y).view(shape)
            keys, values = layer.k(y).view(shape)[:, back], layer.v(y).view(shape)[:, back]
            scores = torch.einsum("bnhe,bnwhe->bnwh", query, keys) / (WIDTH / HEADS) ** 0.5
            scores = scores + layer.rel[related.clamp(min=0)] + layer.dist
            share = scores.masked_fill(hidden_pairs, -1e9).softmax(2)
            mixed = torch.einsum("bnwh,bnwhe->bnhe", share, values).reshape(x.shape)
            x = x + self.drop(layer.o(mixed))
            y = layer.f1(layer.n2(x))
            x = x + self.drop(layer.f2(fn.gelu(y, approximate="tanh")))
        out: Tensor = self.n(x)
        return out

    def candidate(self, here: Tensor, own: Tensor, facts: Tensor) -> Tensor:
        """Return target and strategy scores of candidates, one row each."""
        x = self.drop(torch.cat([here, own, facts], -1))
        out: Tensor = self.c2(self.drop(fn.gelu(self.c1(x), approximate="tanh")))
        return out

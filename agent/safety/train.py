"""Train the safety adapter on the sentences under ``prompts/safety/sentences``.

``python -m agent.safety.train`` takes about ten minutes on one CPU core and rewrites
``data/adapter.npz``. It needs torch; reading the adapter does not.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agent.safety.reader import ADAPTER, MAX_TOKENS, SCALE, base_folder
from agent.safety.samples import OVERLAP, Sample, load_last, load_samples
from agent.safety.types import KINDS

RANK = 8
EPOCHS = 4
LAST_EPOCHS = 2
_RATE = 2e-3
_LAST_RATE = 5e-4
_REPEAT_EVERY = 2
_BATCH = 32
_DROPOUT = 0.1
_POSITIVE_WEIGHT = 4.0
_LAST_POSITIVE_WEIGHT = 1.5
_SHARE_OF_OTHERS = 0.4


class LowRank(nn.Module):
    """A frozen linear layer plus a trained low-rank change."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.A = nn.Parameter(torch.randn(RANK, linear.in_features) * 0.02)
        self.B = nn.Parameter(torch.zeros(linear.out_features, RANK))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for ``x`` of shape (..., in)."""
        out: Tensor = self.linear(x) + SCALE * (x @ self.A.T) @ self.B.T
        return out


class Net(nn.Module):
    """MiniLM with low-rank changes and one output per kind."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import AutoModel, AutoTokenizer

        folder = str(base_folder())
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model: Any = AutoModel.from_pretrained(
            folder, local_files_only=True, attn_implementation="eager"
        )
        self.model.requires_grad_(False)
        for _, module in list(self.model.encoder.named_modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, LowRank(child))
        self.head = nn.Linear(self.model.config.hidden_size, len(KINDS))
        with torch.no_grad():
            self.head.weight.mul_(5.0)
            self.head.bias.fill_(-1.0)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return logits of shape (texts, kinds)."""
        batch = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        )
        hidden = self.model(**batch).last_hidden_state
        weight = batch["attention_mask"][..., None].float()
        mean = (hidden * weight).sum(1) / weight.sum(1)
        out: Tensor = self.head(nn.functional.normalize(mean, dim=-1))
        return out


def targets(samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
    """Return 0/1 targets and weights, both of shape (samples, kinds)."""
    y = torch.zeros(len(samples), len(KINDS))
    weight = torch.tensor([[s.weight] * len(KINDS) for s in samples])
    for row, label in enumerate(s.kind for s in samples):
        for column, kind in enumerate(KINDS):
            if label == kind:
                y[row, column] = 1.0
            elif label is not None:
                weight[row, column] = 0.0 if label in OVERLAP[kind] else _SHARE_OF_OTHERS
    return y, weight


def vary(text: str, rng: random.Random) -> str:
    """Return a text with a name for a pronoun, a word dropped, or its last mark dropped."""
    if rng.random() < 0.3:
        text = re.sub(r"\bpartner\b", lambda _: rng.choice(["alex", "partner", "he"]), text)
    if rng.random() < 0.25:
        text = re.sub(r"\bhe\b", "alex", text, count=1)
    words = text.split()
    if rng.random() < 0.3 and len(words) > 5:
        words.pop(rng.randrange(len(words)))
        text = " ".join(words)
    return text.rstrip(".!?") if rng.random() < 0.3 else text


def batches(texts: Sequence[str], rng: random.Random) -> list[list[int]]:
    """Return the rows of every batch of one epoch; texts of a batch are of similar length."""
    order = list(range(len(texts)))
    rng.shuffle(order)
    out: list[list[int]] = []
    for start in range(0, len(order), 8 * _BATCH):
        near = sorted(order[start : start + 8 * _BATCH], key=lambda i: len(texts[i]))
        out += [near[at : at + _BATCH] for at in range(0, len(near), _BATCH)]
    rng.shuffle(out)
    return out


def _optimizer(net: Net, steps: int) -> tuple[torch.optim.Optimizer, Any]:
    low_rank = [p for p in net.model.parameters() if p.requires_grad]
    groups = [
        {"params": low_rank, "lr": _RATE},
        {"params": list(net.head.parameters()), "lr": 10 * _RATE},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [_RATE, 10 * _RATE], total_steps=steps, pct_start=0.1
    )
    return optimizer, schedule


def train(samples: Sequence[Sample], seed: int = 0) -> Net:
    """Return a trained net.

    Args:
        samples: Canonical sentences with their kinds.
        seed: Seed of weights, order and variation.
    """
    torch.manual_seed(seed)
    rng = random.Random(seed)
    net = Net()
    net.eval()
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = _DROPOUT
            module.train()
    optimizer, schedule = _optimizer(net, EPOCHS * math.ceil(len(samples) / _BATCH))
    for _ in range(EPOCHS):
        _epoch(net, samples, optimizer, rng, schedule)
    return net.eval()


def polish(net: Net, last: Sequence[Sample], samples: Sequence[Sample], seed: int = 0) -> Net:
    """Return the net after a short round at a small rate.

    Args:
        net: trained.
        last: what to learn.
        samples: what it learned before; every second is repeated, so that it is not forgotten.
        seed: Seed of order and variation.
    """
    rng = random.Random(seed)
    mixed = [*last, *samples[::_REPEAT_EVERY]]
    trained = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=_LAST_RATE, weight_decay=0.01)
    for _ in range(LAST_EPOCHS):
        _epoch(net, mixed, optimizer, rng, positive_weight=_LAST_POSITIVE_WEIGHT)
    return net.eval()


def _epoch(
    net: Net,
    samples: Sequence[Sample],
    optimizer: torch.optim.Optimizer,
    rng: random.Random,
    schedule: Any = None,
    positive_weight: float = _POSITIVE_WEIGHT,
) -> None:
    texts = [s.text for s in samples]
    y, weight = targets(samples)
    trained = [p for p in net.parameters() if p.requires_grad]
    positive = torch.full((len(KINDS),), positive_weight)
    for rows in batches(texts, rng):
        loss = nn.functional.binary_cross_entropy_with_logits(
            net([vary(texts[i], rng) for i in rows]),
            y[rows],
            weight=weight[rows],
            pos_weight=positive,
            reduction="none",
        )
        optimizer.zero_grad()
        loss.sum(1).mean().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        if schedule is not None:
            schedule.step()


def save(net: Net, path: Path) -> None:
    """Write a net's low-rank changes and head as float16 arrays."""
    arrays = {
        name.removeprefix("model."): value.detach().numpy().astype(np.float16)
        for name, value in net.named_parameters()
        if value.requires_grad
    }
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def main() -> None:
    """Train on every sentence and write the adapter beside this module."""
    samples = load_samples()
    net = polish(train(samples), load_last(), samples)
    save(net, Path(__file__).parent / "data" / ADAPTER)
    sys.stdout.write(f"{len(samples)} sentences -> {ADAPTER}\n")


if __name__ == "__main__":
    main()

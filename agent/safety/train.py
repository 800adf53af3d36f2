"""``python -m agent.safety.train``: train the safety adapter, bit for bit repeatable.

It learns from the sentences under ``prompts/safety/sentences`` and from ordinary talk of the demo
set and of RESCUE's train split, on one CPU core (20 minutes with the data), and rewrites
``data/adapter.npz``. It needs torch; reading the adapter does not. The same sentences, seed and
kind of processor give the same bytes.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich.console import Console
from torch import Tensor, nn

from agent.rescue.reader import DataError, read_dataset
from agent.rescue.splits import SplitError, select
from agent.safety.reader import ADAPTER, MAX_TOKENS, SCALE, base_folder
from agent.safety.samples import OVERLAP, Sample, load_samples
from agent.safety.types import KINDS
from agent.settings import SettingsError, load_settings

RANK = 16
EPOCHS = 4
_RATE = 1e-3
_BATCH = 32
_DROPOUT = 0.1
_POSITIVE_WEIGHT = 2.0
_SHARE_OF_OTHERS = 0.4
_OUT = Path(__file__).parent / "data" / ADAPTER

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)


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


def train(samples: Sequence[Sample], seed: int = 0, epochs: int = EPOCHS) -> Net:
    """Return a trained net.

    Args:
        samples: Canonical sentences with their kinds.
        seed: Seed of weights, order and variation.
        epochs: How often every sentence is seen.
    """
    # more threads add in another order and give other last bits
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = random.Random(seed)
    net = Net()
    net.eval()
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = _DROPOUT
            module.train()
    optimizer, schedule = _optimizer(net, epochs * math.ceil(len(samples) / _BATCH))
    for _ in range(epochs):
        _epoch(net, samples, optimizer, schedule, rng)
    return net.eval()


def _epoch(
    net: Net,
    samples: Sequence[Sample],
    optimizer: torch.optim.Optimizer,
    schedule: Any,
    rng: random.Random,
) -> None:
    texts = [s.text for s in samples]
    y, weight = targets(samples)
    trained = [p for p in net.parameters() if p.requires_grad]
    positive = torch.full((len(KINDS),), _POSITIVE_WEIGHT)
    for rows in batches(texts, rng):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net([vary(texts[i], rng) for i in rows])
        loss = nn.functional.binary_cross_entropy_with_logits(
            logits.float(), y[rows], weight=weight[rows], pos_weight=positive, reduction="none"
        )
        optimizer.zero_grad()
        loss.sum(1).mean().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()


def save(net: Net, path: Path) -> None:
    """Write a net's low-rank changes and head as float16 arrays."""
    arrays = {
        name.removeprefix("model."): value.detach().numpy().astype(np.float16)
        for name, value in net.named_parameters()
        if value.requires_grad
    }
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(help="RESCUE .jsonl or folder; else KITH_RESCUE; else without.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = _OUT,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and variation.")] = 0,
) -> None:
    """Train on every sentence and write the adapter.

    The shipped adapter has also learned from the sessions of RESCUE's train split what ordinary
    talk sounds like, and may be used for research only, as those. Without the data you get one
    that is free of them and raises more false alarms in spoken sessions.
    """
    console = Console(stderr=True)
    try:
        path = data or load_settings().rescue
        sessions = None if path is None else select(read_dataset(path), "train")
    except (DataError, SettingsError, SplitError, OSError) as error:
        console.print(str(error), markup=False)
        raise typer.Exit(2) from None
    samples = load_samples(sessions)
    save(train(samples, seed), out)
    heard = 0 if sessions is None else len(sessions.samples)
    console.print(f"{len(samples)} sentences, {heard} sessions -> {out}", markup=False)


if __name__ == "__main__":
    app()

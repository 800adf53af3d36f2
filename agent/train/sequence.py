"""Trains the turn transformer with torch and hands its weights over to numpy."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as fn

from agent.policies.local import level1
from agent.policies.local.sequence import (
    MOVES,
    OUTPUTS,
    ROW_INPUTS,
    TARGET,
    TIMING,
    WINDOW,
    SequenceModel,
)
from agent.policies.local.text import SURFACE
from agent.train import net, sessions
from agent.train.corpus import Corpus
from agent.train.net import AHEAD, AHEAD_SIZES, FACTS, OWN, Net, Recipe
from agent.train.sessions import TrainingSession, training_sessions

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]


def _batch(
    items: Sequence[TrainingSession],
    mean: Array,
    scale: Array,
    recipe: Recipe,
    draw: np.random.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(i.rows) for i in items)
    dim = items[0].vectors.shape[1]
    vectors = np.zeros((len(items), longest, dim), np.float32)
    aux = np.zeros((len(items), longest, ROW_INPUTS + len(SURFACE)), np.float32)
    related = np.full((len(items), longest, WINDOW), -1)
    related[:, :, 0] = 0
    for b, item in enumerate(items):
        n = len(item.rows)
        counts = np.clip((item.counts - mean) / scale, -3, 3) * 0.5
        vectors[b, :n], aux[b, :n] = item.vectors, np.hstack([item.rows, counts])
        related[b, :n] = item.related
        if n > 12 and draw.random() < recipe.crop:
            start = int(draw.integers(1, n // 2))
            for i in range(start, n):
                related[b, i, i - start + 1 :] = -1
    return torch.from_numpy(vectors), torch.from_numpy(aux), torch.from_numpy(related)


def _losses(net: Net, items: Sequence[TrainingSession], hidden: Tensor, recipe: Recipe) -> Tensor:
    out = net.out(net.drop(hidden))
    total = _pattern_loss(out, items, recipe) + _timing_loss(out, items)
    total = total + _strategy_loss(net, hidden, items, recipe) + _target_loss(net, hidden, items)
    places, start = [], TIMING + 1
    for name, size in zip(AHEAD, AHEAD_SIZES, strict=True):
        places.append((name, out[..., start : start + size]))
        start += size
    own = net.own(hidden)
    places += [(name, own[..., level1.SLICES[name]]) for name in OWN]
    for name, scores in places:
        total = total + recipe.auxiliary * _known_loss(name, scores, items)
    return total


def _known_loss(name: str, scores: Tensor, items: Sequence[TrainingSession]) -> Tensor:
    wanted, found = [], []
    for b, item in enumerate(items):
        values, known = item.known[name]
        if known.any():
            wanted.append(torch.from_numpy(values[known]))
            found.append(scores[b, : len(known)][torch.from_numpy(known)])
    if not wanted:
        return torch.zeros(())
    goal, score = torch.cat(wanted), torch.cat(found)
    if goal.shape[1] > 1:
        return fn.cross_entropy(score, goal)
    return 2 * fn.mse_loss(score, goal)


def _split(
    scores: Tensor,
    labels: Sequence[int],
    family: Sequence[bool],
    places: Mapping[str, slice],
    s: float,
) -> Tensor:
    """Cross-entropy of each scenario's labels, weighted by its share."""
    total, is_family = torch.zeros(()), torch.tensor(family)
    goal = torch.tensor(labels)
    for scenario, mask in (("couple", ~is_family), ("family", is_family)):
        if bool(mask.any()):
            loss = fn.cross_entropy(
                scores[mask][:, places[scenario]], goal[mask], label_smoothing=s
            )
            total = total + loss * mask.float().mean()
    return total


def _pattern_loss(out: Tensor, items: Sequence[TrainingSession], recipe: Recipe) -> Tensor:
    found = [(b, i, y, it.family) for b, it in enumerate(items) for i, y in it.pattern]
    if not found:
        return torch.zeros(())
    b, i, y, family = zip(*found, strict=True)
    return _split(out[list(b), list(i)], y, family, OUTPUTS, recipe.smoothing)


def _timing_loss(out: Tensor, items: Sequence[TrainingSession]) -> Tensor:
    found = [(b, i, y) for b, it in enumerate(items) for i, y in it.timing]
    if not found:
        return torch.zeros(())
    b, i, y = zip(*found, strict=True)
    return fn.binary_cross_entropy_with_logits(out[list(b), list(i), TIMING], torch.tensor(y))


def _strategy_loss(
    net: Net, hidden: Tensor, items: Sequence[TrainingSession], recipe: Recipe
) -> Tensor:
    found = [(b, *p, it.family) for b, it in enumerate(items) for p in it.strategy]
    if not found:
        return torch.zeros(())
    b, i, facts, last, y, family = zip(*found, strict=True)
    spoke = torch.tensor([float(k >= 0) for k in last])[:, None]
    own = hidden[list(b), [max(0, k) for k in last]] * spoke
    scores = net.candidate(hidden[list(b), list(i)], own, torch.from_numpy(np.array(facts)))
    return _split(scores, y, family, MOVES, recipe.smoothing)


def _target_loss(net: Net, hidden: Tensor, items: Sequence[TrainingSession]) -> Tensor:
    found = [(b, *p) for b, it in enumerate(items) for p in it.target]
    if not found:
        return torch.zeros(())
    most = max(len(f[2]) for f in found)
    place, own_row = torch.zeros(len(found), 2, dtype=torch.long), torch.zeros(len(found), most)
    facts, real = torch.zeros(len(found), most, FACTS), torch.zeros(len(found), most)
    for k, (b, i, f, last, _) in enumerate(found):
        place[k] = torch.tensor([b, i])
        own_row[k, : len(last)] = torch.tensor(last, dtype=torch.float)
        own_row[k, len(last) :] = -1
        facts[k, : len(f)], real[k, : len(f)] = torch.from_numpy(f), 1
    here = hidden[place[:, 0], place[:, 1]][:, None].expand(-1, most, -1)
    spoke = (own_row >= 0).float()[..., None]
    own = hidden[place[:, :1], own_row.clamp(min=0).long()] * spoke
    scores = net.candidate(here, own, facts)[..., TARGET].masked_fill(real == 0, -1e9)
    return fn.cross_entropy(scores, torch.tensor([f[4] for f in found]))


def fit_sequence(
    corpus: Corpus,
    recipe: Recipe,
    seed: int = 0,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> SequenceModel:
    """Train ``recipe.runs`` transformers, one thread, from fixed seeds.

    Args:
        corpus: the sessions.
        recipe: how.
        seed: of the first run.
        progress: is told of every finished run.
        folder: where finished runs are kept, so that a killed training goes on; None keeps none.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        items = training_sessions(corpus)
        counts = np.vstack([i.counts for i in items])
        mean, scale = counts.mean(0), counts.std(0) + 1e-3
        runs = []
        for run in range(recipe.runs):
            runs.append(_kept(items, mean, scale, recipe, seed + run, folder))
            if progress is not None:
                progress("turn transformer", run + 1, recipe.runs)
        weights = {name: np.stack([r[name] for r in runs]) for name in runs[0]}
        return SequenceModel({n: w.astype(np.float32) for n, w in weights.items()}, mean, scale)
    finally:
        torch.set_num_threads(threads)


def _kept(
    items: Sequence[TrainingSession],
    mean: Array,
    scale: Array,
    recipe: Recipe,
    seed: int,
    folder: Path | None,
) -> dict[str, NDArray[np.float16]]:
    """Train one run, or read it where it was finished before."""
    if folder is None:
        return exported(_train(items, mean, scale, recipe, seed))
    file = folder / f"{_fingerprint(items, recipe, seed)}.npz"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        found = exported(_train(items, mean, scale, recipe, seed))
        part = file.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as out:
            np.savez(out, allow_pickle=False, **found)
        part.replace(file)
    with np.load(file) as data:
        return {name: data[name] for name in data.files}


def _fingerprint(items: Sequence[TrainingSession], recipe: Recipe, seed: int) -> str:
    one_run = replace(recipe, runs=1)
    sha = hashlib.sha256(f"{one_run!r}/{seed}/{torch.__version__}".encode())
    for source in (__file__, net.__file__, sessions.__file__):
        sha.update(Path(source).read_bytes())
    for item in items:
        for array in (item.vectors, item.rows, item.counts, item.related):
            sha.update(np.ascontiguousarray(array).tobytes())
        for values, known in item.known.values():
            sha.update(values.tobytes() + known.tobytes())
        sha.update(repr((item.pattern, item.timing, item.strategy, item.target)).encode())
    return sha.hexdigest()[:24]


def _train(
    items: Sequence[TrainingSession], mean: Array, scale: Array, recipe: Recipe, seed: int
) -> Net:
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)
    net = Net(recipe, items[0].vectors.shape[1])
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    steps = recipe.epochs * -(-len(items) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.rate, total_steps=steps, pct_start=0.15
    )
    net.train()
    for _ in range(recipe.epochs):
        order = draw.permutation(len(items))
        for start in range(0, len(order), recipe.batch):
            chosen = [items[j] for j in order[start : start + recipe.batch]]
            hidden = net(*_batch(chosen, mean, scale, recipe, draw))
            loss = _losses(net, chosen, hidden, recipe)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    return net.eval()


def exported(net: Net) -> dict[str, NDArray[np.float16]]:
    """Return a trained net's weights as numpy reads them, in the precision they are stored in."""
    out: dict[str, NDArray[np.float16]] = {}
    for name, tensor in net.state_dict().items():
        short = name.removeprefix("layers.")
        if short.startswith("own"):
            continue  # only shaped the layers
        value = tensor.numpy()
        if short.endswith(".weight") and value.ndim == 2:
            value = value.T
        if short.startswith("out"):
            value = value[..., : TIMING + 1]
        out[short] = np.ascontiguousarray(value).astype(np.float16)
    return out

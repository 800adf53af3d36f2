"""What a worker process of the cross-validation does; importable, since workers are spawned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from agent.encoder import make_encoder
from agent.rescue.reader import load_dataset
from agent.rescue.splits import collection_of, split_ids
from agent.train.corpus import Corpus, read_corpus
from agent.train.fit import Plan
from eval.crossval.folds import run_fold

SPLITS: Final = ("train", "dev")


def read(path: Path, cache: Path) -> Corpus:
    """Return the sessions of train and dev; the test split is never looked at here."""
    encoder = make_encoder("minilm", cache / "vectors")
    dataset = load_dataset(path)
    collection = collection_of(s.sample_id for s in dataset.samples)
    samples = dataset.samples
    if collection is not None:
        kept = {i for name in SPLITS for i in split_ids(name, collection)}
        samples = tuple(s for s in samples if s.sample_id in kept)
    corpus = read_corpus(samples, encoder)
    encoder.save()
    return corpus


def answer_fold(path: Path, cache: Path, folder: Path, k: int, transformer: bool) -> int:
    """Run one fold and write its answers; return its number."""
    plan = Plan() if transformer else Plan(sequence=None)
    found = run_fold(read(path, cache), k, plan, lambda what, done, of: None, cache / "train")
    part = folder / f"fold-{k}.part"
    part.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    part.replace(folder / f"fold-{k}.json")
    return k

"""The committed splits: which sample is train, dev or test, and whose conversation it is.

Couples and families are never divided between splits (``splits.json`` groups the ids), since
several samples of one couple overlap and a split by sample would leak.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final, Literal, get_args

from agent.rescue.reader import Dataset

SplitName = Literal["train", "dev", "test", "all"]
SPLIT_NAMES: Final[tuple[SplitName, ...]] = get_args(SplitName)

Collection = Literal["rescue", "demo"]
"""Whose ids: RESCUE-BENCH's, or those of the bundled demo conversations."""

_FILES: Final[dict[Collection, tuple[str, str]]] = {
    "rescue": ("agent.rescue", "splits.json"),
    "demo": ("agent.demo", "splits.json"),
}


class SplitError(ValueError):
    """A split that does not exist, or that the data at hand does not have."""


@dataclass(frozen=True)
class SplitTable:
    """One committed split file: split -> group -> sample ids."""

    dataset: str
    rule: str
    splits: dict[str, dict[str, tuple[str, ...]]]

    def ids(self, name: SplitName) -> tuple[str, ...]:
        """Returns the ids of a split in the file's order."""
        chosen = self.splits.values() if name == "all" else (self.splits[name],)
        return tuple(i for groups in chosen for ids in groups.values() for i in ids)


@cache
def split_table(collection: Collection = "rescue") -> SplitTable:
    """Reads the committed split file of a collection."""
    package, name = _FILES[collection]
    raw = json.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
    splits = {
        split: {group: tuple(ids) for group, ids in groups.items()}
        for split, groups in raw["splits"].items()
    }
    return SplitTable(raw["dataset"], raw["rule"], splits)


def split_ids(name: str, collection: Collection = "rescue") -> tuple[str, ...]:
    """Returns the sample ids of ``train``, ``dev``, ``test`` or ``all``.

    Raises:
        SplitError: when there is no such split.
    """
    return split_table(collection).ids(_split_name(name))


@cache
def _groups() -> dict[str, str]:
    return {
        sample_id: group
        for collection in _FILES
        for groups in split_table(collection).splits.values()
        for group, ids in groups.items()
        for sample_id in ids
    }


def group_of(sample_id: str) -> str:
    """Returns the couple or family a sample belongs to (the unit of every bootstrap).

    A sample outside the committed files (an own conversation) is a group of its own.
    """
    return _groups().get(sample_id, sample_id)


def collection_of(sample_ids: Iterable[str]) -> Collection | None:
    """Returns the collection all the ids belong to, or None for other data."""
    wanted = set(sample_ids)
    for collection in _FILES:
        if wanted and wanted <= set(split_ids("all", collection)):
            return collection
    return None


def select(dataset: Dataset, name: str) -> Dataset:
    """Returns the part of a dataset that belongs to a split, in the dataset's order.

    Other data than RESCUE's and the demo set has no splits; only ``all`` is allowed there.

    Raises:
        SplitError: for an unknown split, data without splits, or no sample of that split.
    """
    split = _split_name(name)
    if split == "all":
        return dataset
    collection = collection_of(sample.sample_id for sample in dataset.samples)
    if collection is None:
        raise SplitError(f"{dataset.path} holds ids outside the committed splits: use split 'all'")
    wanted = frozenset(split_ids(split, collection))
    samples = tuple(sample for sample in dataset.samples if sample.sample_id in wanted)
    if not samples:
        raise SplitError(f"{dataset.path} holds no sample of the split {split!r}")
    return replace(dataset, samples=samples)


def missing_ids(dataset: Dataset, name: str, collection: Collection) -> tuple[str, ...]:
    """Returns the ids of a split that the dataset lacks."""
    present = {sample.sample_id for sample in dataset.samples}
    return tuple(i for i in split_ids(name, collection) if i not in present)


def _split_name(name: str) -> SplitName:
    for split in SPLIT_NAMES:
        if name == split:
            return split
    raise SplitError(f"unknown split {name!r}: allowed are {', '.join(SPLIT_NAMES)}")

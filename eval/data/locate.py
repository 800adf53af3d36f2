"""Where the data comes from: what was named, the setting, the cache, or the demo set."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.demo import demo_path
from agent.rescue import DataError, Dataset, Fault, read_dataset
from agent.rescue.reader import BENCHMARK_NAME
from agent.rescue.splits import Collection, collection_of, missing_ids
from agent.settings import Settings, load_settings
from eval.data.published import DATA_COMMIT, REPOSITORY_URL

SourceKind = Literal["given", "setting", "cache", "demo"]

DEMO_BANNER = (
    "DEMO DATA: invented conversations written for this project, not RESCUE-BENCH. "
    "The figures show that everything runs and cannot be compared with published results. "
    "Fetch the benchmark with: python -m eval.data fetch"
)


@dataclass(frozen=True)
class DataSource:
    """The data a command works on.

    Attributes:
        path: the file or folder.
        kind: how it was found.
        collection: whose conversations they are by their ids: "rescue", "demo", or None for
            anything else.
        banner: a text every output shows, or ``""`` for complete RESCUE data.
        sha256: hex digest of the data read.
        dataset: the samples and faults.
    """

    path: Path
    kind: SourceKind
    collection: Collection | None
    banner: str
    sha256: str
    dataset: Dataset = field(repr=False)

    def sound(self) -> Dataset:
        """Returns the dataset.

        Unknown labels do not stop it: the official rules leave such rows out of the task the
        label belongs to, and :attr:`label_faults` names each one.

        Raises:
            DataError: when something in it cannot be read.
        """
        if self.dataset.broken:
            raise DataError(self.dataset.broken)
        return self.dataset

    @property
    def label_faults(self) -> tuple[Fault, ...]:
        """The labels outside their closed sets; their rows are no instances."""
        return tuple(fault for fault in self.dataset.faults if fault.kind == "label")


def cached_file(settings: Settings) -> Path:
    """Returns where the fetched benchmark is kept (it may not exist yet)."""
    return settings.cache_path / "rescue" / BENCHMARK_NAME


def no_data_hint(place: Path) -> str:
    """Returns a sentence that says what to download and that it belongs at ``place``."""
    return (
        f"Download {BENCHMARK_NAME} (commit {DATA_COMMIT}) from {REPOSITORY_URL} on a machine "
        f"with network access and put it at {place}, or point KITH_RESCUE or --data at it."
    )


def locate(given: Path | str | None = None, settings: Settings | None = None) -> DataSource:
    """Finds and reads the data.

    The first that applies: ``given`` (the ``--data`` option), the setting ``KITH_RESCUE``,
    the fetched benchmark in the cache folder, the bundled demo set. A path that is named but
    does not exist is a fault of the result, never a reason to go on to the next place.

    Args:
        given: the path named on the command line.
        settings: by default those of the environment.

    Raises:
        SettingsError: when the environment holds a wrong setting.
    """
    if given:
        return _source(Path(given).expanduser(), "given")
    settings = settings or load_settings()
    if settings.rescue:
        return _source(settings.rescue.expanduser(), "setting")
    cached = cached_file(settings)
    if cached.is_file():
        return _source(cached, "cache")
    return _source(demo_path(), "demo")


def _source(path: Path, kind: SourceKind) -> DataSource:
    dataset = read_dataset(path)
    collection = collection_of(sample.sample_id for sample in dataset.samples)
    if kind == "demo":
        collection = "demo"
    banner = _banner(dataset, collection)
    return DataSource(path, kind, collection, banner, dataset.sha256, dataset)


def _banner(dataset: Dataset, collection: Collection | None) -> str:
    if collection == "demo":
        return DEMO_BANNER
    if collection is None:
        return (
            "OWN DATA: these conversations are not RESCUE-BENCH's; the figures cannot be "
            "compared with published results."
        )
    missing = len(missing_ids(dataset, "all", "rescue"))
    if missing:
        present = len(dataset.samples)
        return f"PART OF RESCUE-BENCH: {present} of {present + missing} samples are here."
    return ""

"""The published facts about ``benchmark_191.jsonl``, and how a dataset compares with them.

Source: paper arXiv 2609.09657, Table 3 (sizes) and Table 6 (task counts). The official
sources are the repository and its data commit; the data is for research only and is never
part of this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from agent.labels import SCENARIOS, Scenario
from agent.rescue import Dataset
from agent.rescue.annotations import is_therapist, scenario_of
from agent.rescue.reader import BENCHMARK_NAME
from eval.instances import build_instances

REPOSITORY: Final = "Tomsawyerhu/RESCUE-bench"
DATA_COMMIT: Final = "0d0b0793"
DATA_URL: Final = f"https://raw.githubusercontent.com/{REPOSITORY}/{DATA_COMMIT}/{BENCHMARK_NAME}"
REPOSITORY_URL: Final = f"https://github.com/{REPOSITORY}/tree/{DATA_COMMIT}"

TABLE_3: Final = "Table 3"
TABLE_6: Final = "Table 6"

Counts = dict[str, dict[Scenario, int]]
"""Count name -> scenario -> number."""


class Published(NamedTuple):
    """One published count: what it counts, where it stands, and its two numbers."""

    name: str
    table: str
    couple: int
    family: int

    def of(self, scenario: Scenario) -> int:
        """Returns the number for one scenario."""
        return self.couple if scenario == "couple" else self.family


PUBLISHED: Final = (
    Published("samples", TABLE_3, 174, 17),
    Published("rows", TABLE_3, 5875, 1204),
    Published("therapist rows", TABLE_3, 2079, 567),
    Published("itp", TABLE_6, 2722, 284),
    Published("rpp", TABLE_6, 1608, 525),
    Published("stp", TABLE_6, 1290, 347),
    Published("ssp", TABLE_6, 1290, 347),
    Published("er", TABLE_6, 844, 82),
    Published("vp", TABLE_6, 775, 80),
)


def count(dataset: Dataset) -> Counts:
    """Counts samples, rows, therapist rows and task instances by scenario."""
    scenarios = [(sample, scenario_of(sample)) for sample in dataset.samples]
    tasks = build_instances(dataset.samples).counts()
    found: Counts = {name: dict.fromkeys(SCENARIOS, 0) for name in _SIZES}
    for sample, scenario in scenarios:
        found["samples"][scenario] += 1
        found["rows"][scenario] += len(sample.rows)
        found["therapist rows"][scenario] += sum(map(is_therapist, sample.rows))
    return found | {str(task): numbers for task, numbers in tasks.items()}


def mismatches(found: Counts, published: tuple[Published, ...] = PUBLISHED) -> Iterator[str]:
    """Yields a sentence for every count that differs from the published one."""
    for entry in published:
        for scenario in SCENARIOS:
            expected, actual = entry.of(scenario), found[entry.name][scenario]
            if expected != actual:
                yield f"{entry.name}, {scenario}: {actual:,} found, {expected:,} published"


_SIZES: Final = tuple(entry.name for entry in PUBLISHED if entry.table == TABLE_3)

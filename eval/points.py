"""Decision points: where a replay stops and asks, and which instances are answered there.

All instances of a sample that may see the same rows share one point, hence one run of the
graph and, with an LLM, one call. A point knows the gold; what is handed to the graph is built
from ``visible`` and the turns alone.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.rescue import Sample
from eval.instances import Instance, Instances, SspInstance, Task


@dataclass(frozen=True)
class Unit:
    """One instance of one task.

    Attributes:
        id: opaque (a hash of sample, row and task): safe to show to a model.
        task: the task.
        instance: the instance with its gold.
    """

    id: str
    task: Task
    instance: Instance


@dataclass(frozen=True)
class Point:
    """A place in a sample.

    Attributes:
        sample: the sample.
        visible: number of rows, from the first, that may be seen.
        units: what is asked there.
    """

    sample: Sample
    visible: int
    units: tuple[Unit, ...]

    @property
    def known_target(self) -> str | None:
        """SSP's given target, which reaches the strategy step alone."""
        return next(
            (u.instance.target for u in self.units if isinstance(u.instance, SspInstance)), None
        )


def unit_id(sample_id: str, row: int, task: Task | Literal["point"]) -> str:
    """Returns the opaque id of an instance or a point: 16 hex digits of a SHA-256."""
    return hashlib.sha256(f"{sample_id}|{row}|{task}".encode()).hexdigest()[:16]


def build_points(
    samples: Iterable[Sample], instances: Instances, tasks: Sequence[Task]
) -> tuple[tuple[Point, ...], ...]:
    """Returns the points of each sample that has any, by ascending ``visible``."""
    by_place: dict[tuple[str, int], list[Unit]] = defaultdict(list)
    for task in tasks:
        for instance in instances.of(task):
            unit = Unit(unit_id(instance.sample_id, instance.row, task), task, instance)
            by_place[instance.sample_id, instance.visible_rows].append(unit)
    places: dict[str, list[int]] = defaultdict(list)
    for sample_id, visible in by_place:
        places[sample_id].append(visible)
    return tuple(
        tuple(
            Point(sample, visible, tuple(by_place[sample.sample_id, visible]))
            for visible in sorted(places[sample.sample_id])
        )
        for sample in samples
        if sample.sample_id in places
    )

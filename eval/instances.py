"""The task instances of RESCUE-BENCH, exactly as the official scripts select them.

Each function takes samples and returns the instances in sample order. Positions are
1-based. An instance holds gold labels, so it never reaches a policy: what a policy may see
is the rows up to ``visible_rows`` without their annotation.

Source: paper arXiv 2609.09657, section 4 and Table 6; official code d38edcc4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from agent.labels import SCENARIOS, Scenario
from agent.rescue import Row, Sample
from agent.rescue.annotations import (
    ER_MIN_WORDS,
    even_positions,
    first_strategy,
    gold_emotion,
    gold_pattern,
    gold_strategy,
    gold_target,
    gold_viewpoints,
    group_label,
    is_therapist,
    participants_of,
    people_present,
    relation_label,
    scenario_of,
    target_label,
    word_count,
)

Task = Literal["itp", "rpp", "stp", "ssp", "er", "vp"]
TASKS: Final[tuple[Task, ...]] = get_args(Task)
DECISION_TASKS: Final[tuple[Task, ...]] = ("itp", "rpp", "stp", "ssp")
"""The tasks answered by a label; ER and VP are answered in words."""

PER_SAMPLE_READINGS: Final = 5
"""ER and VP keep at most this many rows of a sample."""

ER_SKIPPED_SHARE: Final = 0.3
"""ER leaves out this share of the conversation at its start, rounded up (the last row is kept)."""

YesNo = Literal["yes", "no"]


class ItpInstance(NamedTuple):
    """Is the therapist the next to speak after ``row``?

    ``supported`` is True for a "yes" whose therapist row carries a support strategy: gold
    "yes" also holds back-channels, and a second figure leaves them out.
    """

    sample_id: str
    scenario: Scenario
    row: int
    gold: YesNo
    supported: bool

    @property
    def visible_rows(self) -> int:
        """How many rows, from the first, a policy may see."""
        return self.row


class StpInstance(NamedTuple):
    """Whom does the therapist support in ``row``?

    Attributes:
        candidates: the official list. It reads the whole sample, future rows included, and
            serves scoring and the comparison with the official figures only.
        present: who spoke or was spoken to before ``row``, then the group label. This is
            what a policy is given.
    """

    sample_id: str
    scenario: Scenario
    row: int
    gold: str
    candidates: tuple[str, ...]
    present: tuple[str, ...]

    @property
    def visible_rows(self) -> int:
        """How many rows, from the first, a policy may see."""
        return self.row - 1

    @property
    def candidates_differ(self) -> bool:
        """Whether looking at the present only changes the set of candidates."""
        return set(self.candidates) != set(self.present)


class SspInstance(NamedTuple):
    """Which strategy does the therapist use in ``row`` towards the known ``target``?"""

    sample_id: str
    scenario: Scenario
    row: int
    target: str
    gold: str

    @property
    def visible_rows(self) -> int:
        """How many rows, from the first, a policy may see."""
        return self.row - 1


class RppInstance(NamedTuple):
    """Which relation pattern holds at the therapist's ``row``?"""

    sample_id: str
    scenario: Scenario
    row: int
    gold: str

    @property
    def visible_rows(self) -> int:
        """How many rows, from the first, a policy may see."""
        return self.row - 1


class ErInstance(NamedTuple):
    """What does ``speaker`` feel in ``row``, and how strongly (0-10)?"""

    sample_id: str
    scenario: Scenario
    row: int
    speaker: str
    gold_emotion: str
    gold_intensity: int

    @property
    def visible_rows(self) -> int:
        """How many rows, from the first, a policy may see (the row itself is read)."""
        return self.row


class VpInstance(NamedTuple):
    """What does ``speaker`` think of whom in ``row``? Gold: (source, target, viewpoint)."""

    sample_id: str
    scenario: Scenario
    row: int
    speaker: str
    gold: tuple[tuple[str, str, str], ...]

    @property
    def visible_rows(self) -> int:
        """How many rows, from the first, a policy may see (the row itself is read)."""
        return self.row


Instance: TypeAlias = (
    ItpInstance | StpInstance | SspInstance | RppInstance | ErInstance | VpInstance
)


@dataclass(frozen=True)
class Instances:
    """All instances of a list of samples, by task."""

    itp: tuple[ItpInstance, ...]
    rpp: tuple[RppInstance, ...]
    stp: tuple[StpInstance, ...]
    ssp: tuple[SspInstance, ...]
    er: tuple[ErInstance, ...]
    vp: tuple[VpInstance, ...]

    def of(self, task: Task) -> Sequence[Instance]:
        """Returns the instances of one task."""
        by_task: dict[Task, Sequence[Instance]] = {
            "itp": self.itp,
            "rpp": self.rpp,
            "stp": self.stp,
            "ssp": self.ssp,
            "er": self.er,
            "vp": self.vp,
        }
        return by_task[task]

    def counts(self) -> dict[Task, dict[Scenario, int]]:
        """Returns the number of instances by task and scenario (the paper's Table 6)."""
        return {
            task: {s: sum(i.scenario == s for i in self.of(task)) for s in SCENARIOS}
            for task in TASKS
        }


def build_instances(samples: Iterable[Sample]) -> Instances:
    """Returns the instances of all six tasks."""
    samples = tuple(samples)
    return Instances(
        itp=itp_instances(samples),
        rpp=rpp_instances(samples),
        stp=stp_instances(samples),
        ssp=ssp_instances(samples),
        er=er_instances(samples),
        vp=vp_instances(samples),
    )


def _boundaries(sample: Sample) -> Iterator[ItpInstance]:
    scenario = scenario_of(sample)
    for row, (before, after) in enumerate(zip(sample.rows, sample.rows[1:], strict=False), 1):
        if is_therapist(before):
            continue
        yes = is_therapist(after)
        supported = yes and first_strategy(after) is not None
        yield ItpInstance(sample.sample_id, scenario, row, "yes" if yes else "no", supported)


def itp_instances(samples: Iterable[Sample]) -> tuple[ItpInstance, ...]:
    """Returns the balanced set: as many "yes" as "no" in every sample, evenly spaced."""
    chosen: list[ItpInstance] = []
    for sample in samples:
        by_gold: dict[YesNo, list[ItpInstance]] = {"yes": [], "no": []}
        for boundary in _boundaries(sample):
            by_gold[boundary.gold].append(boundary)
        n = min(map(len, by_gold.values()))
        kept = [
            items[position]
            for items in by_gold.values()
            for position in even_positions(len(items), n)
        ]
        chosen.extend(sorted(kept, key=lambda instance: instance.row))
    return tuple(chosen)


def natural_itp_instances(samples: Iterable[Sample]) -> tuple[ItpInstance, ...]:
    """Returns every boundary after a client row, at natural prevalence (live protocol)."""
    return tuple(boundary for sample in samples for boundary in _boundaries(sample))


def rpp_instances(samples: Iterable[Sample]) -> tuple[RppInstance, ...]:
    """Returns the labelled therapist rows; a couple row needs a row before it."""
    chosen: list[RppInstance] = []
    for sample in samples:
        scenario = scenario_of(sample)
        for position, row in enumerate(sample.rows, 1):
            gold = gold_pattern(row, scenario)
            if gold is not None and _has_context(scenario, position):
                chosen.append(RppInstance(sample.sample_id, scenario, position, gold))
    return tuple(chosen)


def rpp_unlabelled_rows(samples: Iterable[Sample]) -> tuple[tuple[str, Scenario, int], ...]:
    """Returns the therapist rows annotated without a clear pattern, as (id, scenario, row).

    The paper's RPP percentages fit a denominator that holds these rows as well, each
    counted as wrong; the "as the paper counted it" figure needs their number.
    """
    return tuple(
        (sample.sample_id, scenario, position)
        for sample in samples
        for scenario in (scenario_of(sample),)
        for position, row in enumerate(sample.rows, 1)
        if is_therapist(row)
        and relation_label(row, scenario) == ""
        and _has_context(scenario, position)
    )


def _has_context(scenario: Scenario, position: int) -> bool:
    return scenario == "family" or position > 1


def official_candidates(sample: Sample, gold: str | None = None) -> tuple[str, ...]:
    """Returns the official STP candidates: they read future rows, so never show them.

    Every participant, the group label, every label met in therapist targets, and ``gold``
    if it is still missing.
    """
    scenario = scenario_of(sample)
    therapist_targets = (
        target_label(row.target, scenario) for row in sample.rows if is_therapist(row)
    )
    labels = [*participants_of(sample), group_label(scenario), *therapist_targets, gold or ""]
    return tuple(dict.fromkeys(label for label in labels if label))


def present_candidates(rows: Sequence[Row], scenario: Scenario) -> tuple[str, ...]:
    """Returns the people present in ``rows`` and the group label, without looking ahead."""
    return (*people_present(rows), group_label(scenario))


def stp_instances(samples: Iterable[Sample]) -> tuple[StpInstance, ...]:
    """Returns the therapist rows with a strategy whose target is known."""
    chosen: list[StpInstance] = []
    for sample in samples:
        scenario = scenario_of(sample)
        official = official_candidates(sample)
        for position, row in enumerate(sample.rows, 1):
            gold = gold_target(row, scenario)
            if gold is None:
                continue
            candidates = official if gold in official else (*official, gold)
            present = present_candidates(sample.rows[: position - 1], scenario)
            chosen.append(
                StpInstance(sample.sample_id, scenario, position, gold, candidates, present)
            )
    return tuple(chosen)


def ssp_instances(samples: Iterable[Sample]) -> tuple[SspInstance, ...]:
    """Returns the STP rows whose strategy is in the scenario's list, with the gold target."""
    chosen: list[SspInstance] = []
    for sample in samples:
        scenario = scenario_of(sample)
        for position, row in enumerate(sample.rows, 1):
            target = gold_target(row, scenario)
            gold = gold_strategy(row, scenario)
            if target is not None and gold is not None:
                chosen.append(SspInstance(sample.sample_id, scenario, position, target, gold))
    return tuple(chosen)


def er_instances(samples: Iterable[Sample]) -> tuple[ErInstance, ...]:
    """Returns up to five annotated client rows of a sample, past its first 30% of rows."""
    chosen: list[ErInstance] = []
    for sample in samples:
        length = len(sample.rows)
        skipped = min(length - 1, ceil(ER_SKIPPED_SHARE * length))
        found: list[ErInstance] = []
        for position, row in enumerate(sample.rows[skipped:], skipped + 1):
            emotion = gold_emotion(row)
            if emotion is None or word_count(row.dialogue_cleaned) < ER_MIN_WORDS:
                continue
            speaker = row.primary_speaker.strip()
            found.append(
                ErInstance(sample.sample_id, scenario_of(sample), position, speaker, *emotion)
            )
        chosen.extend(found[i] for i in even_positions(len(found), PER_SAMPLE_READINGS))
    return tuple(chosen)


def vp_instances(samples: Iterable[Sample]) -> tuple[VpInstance, ...]:
    """Returns up to five client rows of a sample with a viewpoint of the speaker's own."""
    chosen: list[VpInstance] = []
    for sample in samples:
        found: list[VpInstance] = []
        for position, row in enumerate(sample.rows, 1):
            viewpoints = gold_viewpoints(row)
            if viewpoints:
                speaker = row.primary_speaker.strip()
                found.append(
                    VpInstance(sample.sample_id, scenario_of(sample), position, speaker, viewpoints)
                )
        chosen.extend(found[i] for i in even_positions(len(found), PER_SAMPLE_READINGS))
    return tuple(chosen)

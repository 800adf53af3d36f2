"""Nothing handed to a policy holds a gold label, an annotation, a later row or another answer.

A spy stands where a policy stands in the real graph and keeps every argument it is given, taken
apart down to the last field. The samples carry a canary, found nowhere else, in every annotation
field and in every row, so that whatever leaks is named.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from agent.conversation import Turn
from agent.decision import Ranking
from agent.policies.base import View
from agent.reading import Reading
from agent.rescue import Sample
from agent.rescue.schema import Row
from agent.rescue.turns import MODES
from eval.instances import TASKS, Task, build_instances
from eval.points import Point, Unit, build_points
from eval.runner import Record, Replayer, ReplayOptions
from tests.fakes import QueuePolicy

CONTEXTS = (None, 0, 1, 3)
ONLY_IN_GOLD = "Zebulon"
"""A person named by the annotation alone: the target of a strategy, never spoken to."""
LATECOMER = "Quentin"
"""Speaks for the first time in the last row but one."""

CUES = {
    "audio": ("tone_of_voice",),
    "visual": (
        "body_posture",
        "facial_expressions",
        "self_directed_behavior",
        "interaction_behavior",
    ),
}
SHOWN = {"primary_speaker", "target", "dialogue_cleaned", "background_dialogue", "start_time"}
SHOWN |= {"end_time", *itertools.chain(*CUES.values())}


def _seconds(row: int) -> float:
    return 70_000.0 + 10 * row


def _row(number: int, speaker: str, scenario: str) -> dict[str, Any]:
    """A row whose every text is a canary: ``late`` for what is shown, ``gold`` for the rest."""
    therapist = speaker == "Therapist"

    def late(field: str) -> str:
        return f"late-{number:02d}-{field}"

    def gold(field: str) -> str:
        return f"gold-{number:02d}-{field}"

    pattern, other = (
        ("relation_cycle_state", "relation_pattern")
        if scenario == "couple"
        else ("relation_pattern", "relation_cycle_state")
    )
    return {
        "row_index": 88_000 + number,
        "start_time": _seconds(number),
        "end_time": _seconds(number) + 1,
        "primary_speaker": speaker,
        "target": ["Ana" if speaker != "Ana" else "Ben"],
        "dialogue_cleaned": late("these are the very words"),
        "background_dialogue": [
            {"speaker": "Ben", "target": ["Ana"], "content": late("background")}
        ],
        "utterance_type": gold("utterance_type"),
        "tone_of_voice": late("tone"),
        "body_posture": [{"person": speaker, "description": late("posture")}],
        "facial_expressions": [{"person": speaker, "description": late("face")}],
        "self_directed_behavior": [{"person": speaker, "description": late("self")}],
        "interaction_behavior": [
            {"initiator": speaker, "target": ["Ana"], "description": late("interaction")}
        ],
        "internal_emotion": [
            {"person": speaker, "emotion_description": gold("emotion"), "intensity": 7}
        ],
        "viewpoints_attitudes": [
            {
                "source": speaker,
                "target": ONLY_IN_GOLD,
                "viewpoint": gold("viewpoint"),
                "attitude": gold("attitude"),
            }
        ],
        "support_strategy": [
            {
                "provider": gold("provider"),
                "target": [ONLY_IN_GOLD],
                "strategy_type": "reframe" if therapist else gold("strategy_type"),
                "strategy_content": gold("strategy_content"),
            }
        ],
        pattern: "repair_softening" if therapist else gold("pattern"),
        other: gold("other_pattern"),
        "relation_cycle_reason": gold("cycle_reason"),
        "relation_cycle_evidence_rows": [99_000 + number],
        "relation_pattern_reason": gold("pattern_reason"),
        "relation_pattern_evidence_rows": [99_000 + number],
    }


SPEAKERS = ("Ana", "Ben", "Therapist", "Ana", "Ana", "Therapist", "Ben", "Ben", "Therapist")
SPEAKERS += ("Therapist", "Ana", LATECOMER, "Therapist", "Ana", "Ben", "Ana")


def _sample(scenario: str) -> Sample:
    rows = [_row(n, speaker, scenario) for n, speaker in enumerate(SPEAKERS, 1)]
    return Sample.model_validate(
        {
            "sample_id": f"canary-id/{scenario}",
            "scenario": scenario,
            "participants": ["gold-00-participants"],
            "source_file": "gold-00-source_file",
            "title": "gold-00-title",
            "summary": "gold-00-summary",
            "rows": rows,
        }
    )


class Spy(QueuePolicy):
    """Keeps what it is given, with the point being asked about, and answers something."""

    answers = frozenset(TASKS)  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(itertools.repeat(0.4, 10_000))  # type: ignore[arg-type]
        self.visible = 0
        self.given: list[tuple[int, str, tuple[Any, ...]]] = []
        self.prepared: list[Any] = []

    def _keep(self, what: str, *arguments: Any) -> None:
        self.given.append((self.visible, what, arguments))

    async def prepare(self, dialogues: Sequence[Sequence[Turn]]) -> None:
        self.prepared.append(dialogues)

    async def read(self, view: View, new: int) -> Reading:
        self._keep("read", view, new)
        return await super().read(view, new)

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        self._keep("pattern", view, reading)
        return await super().pattern(view, reading)

    async def time(self, view: View, reading: Reading) -> Any:
        self._keep("time", view, reading)
        return await super().time(view, reading)

    async def target(self, view: View, reading: Reading) -> Ranking:
        self._keep("target", view, reading)
        return await super().target(view, reading)

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        self._keep("strategy", view, reading)
        return await super().strategy(view, reading, target)


class Watched(Replayer):
    """Tells the spy which point is being asked about."""

    async def _step(self, point: Point, *arguments: Any) -> dict[str, Any]:
        self.policy.visible = point.visible  # type: ignore[attr-defined]
        return await super()._step(point, *arguments)


def leaves(thing: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar in an argument. An unknown kind of object is refused: it could hide rows."""
    if thing is None or isinstance(thing, str | int | float | bool):
        yield path, thing
    elif isinstance(thing, BaseModel):
        for key, value in {**thing.__dict__, **(thing.model_extra or {})}.items():
            yield from leaves(value, f"{path}.{key}")
        for name, value in (thing.__pydantic_private__ or {}).items():
            yield from leaves(value, f"{path}.{name}")
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from leaves(getattr(thing, field.name), f"{path}.{field.name}")
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield f"{path}[key]", key
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(thing, list | tuple):
        for number, value in enumerate(thing):
            yield from leaves(value, f"{path}[{number}]")
    else:
        raise AssertionError(f"{path} is a {type(thing).__name__}: what is in it is unknown")


async def replayed(points: Sequence[Point], **options: Any) -> tuple[Spy, list[Record]]:
    spy = Spy()
    records: list[Record] = []
    async for made in Watched(spy, ReplayOptions(**options)).run([points]):
        records += made
    return spy, records


def points_of(sample: Sample, tasks: Sequence[Task]) -> tuple[Point, ...]:
    (points,) = build_points([sample], build_instances([sample]), tasks)
    return points


def offences(visible: int, arguments: Any, mode: str, sample_id: str) -> list[str]:
    found = []
    for path, value in leaves(arguments):
        text = str(value)
        later = any(f"late-{row:02d}" in text for row in range(visible + 1, len(SPEAKERS) + 1))
        time = isinstance(value, float) and value >= _seconds(visible + 1)
        future_id = "turn" in path and isinstance(value, int) and visible < value < 1000
        annotated = "gold-" in text or ONLY_IN_GOLD in text or sample_id in text
        numbered = isinstance(value, int) and value >= 88_000
        early = LATECOMER in text and visible < SPEAKERS.index(LATECOMER) + 1
        hidden = {
            "tone": mode not in ("audio", "audiovisual"),
            "posture": mode not in ("visual", "audiovisual"),
            "face": mode not in ("visual", "audiovisual"),
            "self": mode not in ("visual", "audiovisual"),
            "interaction": mode not in ("visual", "audiovisual"),
        }
        cue = any(off and text.endswith(f"-{kind}") for kind, off in hidden.items())
        if later or time or future_id or annotated or numbered or early or cue:
            found.append(f"after row {visible}, {path}: {value!r}")
    return found


@pytest.mark.parametrize("scenario", ["couple", "family"])
@pytest.mark.parametrize("task", [*TASKS, "all"])
async def test_no_view_holds_a_canary(task: str, scenario: str) -> None:
    sample = _sample(scenario)
    tasks = TASKS if task == "all" else (task,)
    points = points_of(sample, tasks)  # type: ignore[arg-type]
    assert points, "the sample has no instance of the task"
    for mode, context, addressees in itertools.product(MODES, CONTEXTS, ("given", "inferred")):
        spy, records = await replayed(points, mode=mode, context=context, addressees=addressees)
        assert {r.task for r in records} == set(tasks)
        assert {what for _, what, _ in spy.given} == {
            "read",
            "pattern",
            "time",
            "target",
            "strategy",
        } - ({"pattern"} if context == 0 and task not in ("rpp", "all") else set())
        for visible, what, arguments in spy.given:
            assert not offences(visible, arguments, mode, sample.sample_id), what
        if context is not None and tasks != ("rpp",):
            short = [a[0] for v, _, a in spy.given if isinstance(a[0], View)]
            assert any(len(view.turns) <= context for view in short)


@pytest.mark.parametrize("scenario", ["couple", "family"])
async def test_the_known_target_reaches_the_strategy_step_alone(scenario: str) -> None:
    points = points_of(_sample(scenario), ("ssp",))
    assert {p.known_target for p in points} == {ONLY_IN_GOLD}
    spy, records = await replayed(points)
    assert set(spy.targets_asked) == {ONLY_IN_GOLD}
    assert {r.known_target for r in records} == {ONLY_IN_GOLD}
    for _, _, arguments in spy.given:
        assert not [path for path, value in leaves(arguments) if ONLY_IN_GOLD in str(value)]


@pytest.mark.parametrize("scenario", ["couple", "family"])
async def test_the_live_protocol_gives_no_target_at_all(scenario: str) -> None:
    sample = _sample(scenario)
    spy, records = await replayed(points_of(sample, ("ssp",)), protocol="live")
    assert ONLY_IN_GOLD not in spy.targets_asked and spy.targets_asked
    assert {r.known_target for r in records} == {None}
    for visible, _, arguments in spy.given:
        assert not offences(visible, arguments, "dialogue", sample.sample_id)


@pytest.mark.parametrize("context", CONTEXTS)
async def test_bulk_preparation_sees_words_only_and_nothing_past_the_last_point(
    context: int | None,
) -> None:
    sample = _sample("couple")
    points = points_of(sample, ("ssp",))
    spy, _ = await replayed(points, context=context)
    assert not offences(points[-1].visible, spy.prepared, "dialogue", sample.sample_id)


async def test_bulk_preparation_changes_no_answer() -> None:
    points = points_of(_sample("family"), TASKS)
    spy, records = await replayed(points)
    alone = Watched(Spy(), ReplayOptions())
    assert await alone.sample(points) == records
    assert alone.policy.given == spy.given  # type: ignore[attr-defined]


def _other_gold(unit: Unit) -> Unit:
    instance: Any = unit.instance
    changes: dict[str, Any] = {
        "itp": lambda: {"gold": "no" if instance.gold == "yes" else "yes", "supported": True},
        "stp": lambda: {"gold": "Ana", "present": ("Nobody", "knows")},
        "ssp": lambda: {"gold": "track", "target": "Ana"},
        "rpp": lambda: {"gold": "mixed_transition"},
        "er": lambda: {"gold_emotion": "another", "gold_intensity": 1},
        "vp": lambda: {"gold": (("Ben", "Ana", "another"),)},
    }[unit.task]()
    return dataclasses.replace(unit, instance=instance._replace(**changes))


def _annotated_otherwise(row: Row, keep: frozenset[str]) -> Row:
    blank = Row(primary_speaker="", target=(), dialogue_cleaned="")
    changes = {name: getattr(blank, name) for name in Row.model_fields if name not in keep}
    return row.model_copy(update=changes)


@pytest.mark.parametrize("scenario", ["couple", "family"])
async def test_other_gold_other_annotation_and_other_later_rows_change_no_view(
    scenario: str,
) -> None:
    sample = _sample(scenario)
    points = points_of(sample, TASKS)
    spy, records = await replayed(points, mode="audiovisual")
    stranger = Row(primary_speaker="Stranger", target=("Therapist",), dialogue_cleaned="Else.")
    for last, point in enumerate(points):
        rows = [_annotated_otherwise(row, frozenset(SHOWN)) for row in sample.rows[: point.visible]]
        rows += [stranger] * (len(sample.rows) - point.visible)
        changed = sample.model_copy(update={"rows": tuple(rows), "scenario": scenario})
        again = [
            Point(changed, p.visible, tuple(map(_other_gold, p.units))) for p in points[: last + 1]
        ]
        other, answers = await replayed(again, mode="audiovisual")
        assert other.given == spy.given[: len(other.given)]
        assert other.given[-1][0] == point.visible
        for answer, record in zip(answers, records, strict=False):
            given = {"gold", "supported", "known_target", "candidates", "candidates_differ"}
            assert answer.model_dump(exclude=given) == record.model_dump(exclude=given)


async def test_every_field_of_a_row_is_either_shown_or_carries_a_canary() -> None:
    row = _row(1, "Therapist", "couple")
    assert set(row) == set(Row.model_fields), "a new field needs a canary here"
    unmarked = {
        name
        for name, value in row.items()
        if "gold-01" not in json.dumps(value) and name not in SHOWN
    }
    # a label must be valid to make an instance, and numbers are told by their size
    assert unmarked == {
        "relation_cycle_state",
        "row_index",
        "relation_cycle_evidence_rows",
        "relation_pattern_evidence_rows",
    }


def test_the_watch_would_notice() -> None:
    turn = Turn(id=5, speaker="Ana", text="late-05-these are the very words")
    view = View("couple", ("Ana",), (turn,), (), None)
    assert offences(4, view, "dialogue", "x")
    assert not offences(5, view, "dialogue", "x")
    with pytest.raises(AssertionError, match="a Point"):
        list(leaves([object.__new__(_Opaque)]))
    assert get_args(Task) == TASKS


class _Opaque:
    """Stands for an object that could carry a sample along."""


_Opaque.__name__ = "Point"

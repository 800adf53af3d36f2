"""The rows and samples of RESCUE-BENCH as pydantic models.

The models follow the released data (RESCUE-BENCH, ``benchmark_191.jsonl``). They are
tolerant where the data itself varies: an absent field, ``null`` and ``""`` mean the same
for every text and list, a single name may stand where a list of names is expected, and
times may overlap or be missing. They are strict about types: a number where a text belongs
is an error.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

T = TypeVar("T")


def _text(value: Any) -> Any:
    return "" if value is None else value


def _items(value: Any) -> Any:
    return () if value is None or value == "" else value


def _names(value: Any) -> Any:
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple):
        return tuple("" if name is None else name for name in value)
    return value


def _number(value: Any) -> Any:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        raise ValueError("expected a number, found true or false")
    return value


def _seconds(value: Any) -> Any:
    """Reads seconds; ``mm:ss`` and ``hh:mm:ss`` are turned into seconds."""
    if isinstance(value, str) and ":" in value:
        parts = value.strip().split(":")
        try:
            numbers = [float(part) for part in parts]
        except ValueError:
            raise ValueError("expected seconds, mm:ss or hh:mm:ss") from None
        if len(parts) > 3:
            raise ValueError("expected seconds, mm:ss or hh:mm:ss")
        total = 0.0
        for number in numbers:
            total = total * 60 + number
        return total
    return _number(value)


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


Text = Annotated[str, BeforeValidator(_text)]
"""A text; ``null`` and an absent field read as ``""``."""

Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
"""Names of people or of the group; ``null`` and ``""`` read as no names."""

Items = Annotated[tuple[T, ...], BeforeValidator(_items)]
"""A list of annotation items; ``null`` and ``""`` read as an empty list."""

Seconds = Annotated[float | None, BeforeValidator(_seconds), AfterValidator(_finite)]
"""A time in seconds from the start of the clip, or nothing."""


class _Part(BaseModel):
    """Shared settings: immutable, unknown keys are ignored, errors never show the input."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class BackgroundUtterance(_Part):
    """Something said over or beside the row's main utterance."""

    speaker: Text = ""
    target: Names = ()
    content: Text = ""


class Observation(_Part):
    """A visible behaviour of one person (posture, face, self-directed)."""

    person: Text = ""
    description: Text = ""


class Interaction(_Part):
    """A visible behaviour of one person towards others."""

    initiator: Text = ""
    target: Names = ()
    description: Text = ""


class Emotion(_Part):
    """An emotion of one person; ``intensity`` is on a scale of 0 to 10."""

    person: Text = ""
    emotion_description: Text = ""
    intensity: Annotated[float | None, BeforeValidator(_number), AfterValidator(_finite)] = None


class Viewpoint(_Part):
    """What ``source`` thinks about ``target``, and with which attitude."""

    source: Text = ""
    target: Text = ""
    viewpoint: Text = ""
    attitude: Text = ""


class Strategy(_Part):
    """A support strategy the therapist uses towards one person or the group."""

    provider: Text = ""
    target: Names = ()
    strategy_type: Text = ""
    strategy_content: Text = ""


class Row(_Part):
    """One utterance with its annotation.

    ``primary_speaker``, ``target`` and ``dialogue_cleaned`` must be there (they may be
    empty); every other field may be absent. For ``relation_pattern`` and
    ``relation_cycle_state`` ``None`` means "not annotated" and ``""`` "annotated, no clear
    pattern"; use :func:`agent.rescue.annotations.relation_label` to read them, since the
    field that counts depends on the scenario.
    """

    primary_speaker: Text
    target: Names
    dialogue_cleaned: Text
    start_time: Seconds = None
    end_time: Seconds = None
    utterance_type: Text = ""
    background_dialogue: Items[BackgroundUtterance] = ()
    tone_of_voice: Text = ""
    body_posture: Items[Observation] = ()
    facial_expressions: Items[Observation] = ()
    self_directed_behavior: Items[Observation] = ()
    interaction_behavior: Items[Interaction] = ()
    internal_emotion: Items[Emotion] = ()
    viewpoints_attitudes: Items[Viewpoint] = ()
    support_strategy: Items[Strategy] = ()
    relation_cycle_state: str | None = None
    relation_cycle_reason: str | None = None
    relation_cycle_evidence_rows: Items[int] = ()
    relation_pattern: str | None = None
    relation_pattern_reason: str | None = None
    relation_pattern_evidence_rows: Items[int] = ()
    row_index: int | None = None


class Sample(_Part):
    """One conversation: an id, who declares what about it, and its rows in order.

    ``scenario`` is what the file declares (``""`` when it declares nothing); the scenario
    the tasks use is :func:`agent.rescue.annotations.scenario_of`. ``title`` and ``summary``
    are ours: the demo conversations have them, the benchmark does not.
    """

    sample_id: str = Field(min_length=1)
    scenario: Text = ""
    participants: Names = ()
    source_file: Text = ""
    title: Text = ""
    summary: Text = ""
    rows: tuple[Row, ...] = Field(min_length=1)

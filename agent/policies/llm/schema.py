"""The shape of a reading's answer: flat, closed labels, reasons before verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from agent.labels import UTTERANCE_TYPES, Scenario
from agent.policies.llm.transcript import HELPER

REASON: Final = 240
WORDS: Final = 160
FEELING: Final = 60
TONE: Final = 40
EVIDENCE: Final = 4
TOP: Final = 3
MOODS: Final = {
    "very_unpleasant": -1.0,
    "unpleasant": -0.5,
    "neutral": 0.0,
    "pleasant": 0.5,
    "very_pleasant": 1.0,
}
UNCLEAR: Final = "unclear"


@dataclass(frozen=True)
class Question:
    """What a reading is asked for.

    Attributes:
        scenario: couple or family.
        people: participants, in the view's order.
        group: the group's label.
        patterns: labels.
        strategies: labels.
        asked: numbers of the lines to read.
        first: number of the first shown line.
        last: number of the last shown line, 0 before any.
        extra: a further possible target (a known target who has not appeared yet).
    """

    scenario: Scenario
    people: tuple[str, ...]
    group: str
    patterns: tuple[str, ...]
    strategies: tuple[str, ...]
    asked: tuple[int, ...]
    first: int
    last: int
    extra: str | None = None

    @property
    def candidates(self) -> tuple[str, ...]:
        """Possible targets."""
        more = (self.extra,) if self.extra is not None else ()
        return (*self.people, self.group, *more)

    @property
    def addressees(self) -> tuple[str, ...]:
        """Possible addressees of a line."""
        return (*self.people, self.group, HELPER, UNCLEAR)

    @property
    def strategy_fields(self) -> dict[str, str]:
        """Field name -> the candidate it ranks strategies for. Names may not be field names."""
        return {f"strategies_{i}": c for i, c in enumerate(self.candidates, 1)}


@lru_cache(maxsize=256)
def schema_of(question: Question) -> dict[str, Any]:
    """Return the JSON schema of the answer; every field is required. Not to be changed."""
    fields: dict[str, Any] = {}
    if question.asked:
        fields["turns"] = _array(_turn(question), len(question.asked))
        if len(question.people) > 1:
            fields["views"] = _array(_view(question), 2 * len(question.asked), at_least=0)
    fields["pattern_reason"] = _text(REASON)
    fields["pattern"] = _ranking(question.patterns)
    fields["pattern_percent"] = _number(100)
    fields["timing_reason"] = _text(REASON)
    fields["evidence"] = _array(_number(max(question.last, 1), 1), EVIDENCE, at_least=0)
    fields["speak"] = _one_of(("yes", "no"))
    fields["speak_percent"] = _number(100)
    fields["target_reason"] = _text(REASON)
    fields["targets"] = _ranking(question.candidates)
    fields["strategy_reason"] = _text(REASON)
    for name in question.strategy_fields:
        fields[name] = _ranking(question.strategies)
    return _object(fields)


def _turn(question: Question) -> dict[str, Any]:
    return _object(
        {
            "line": {"type": "integer", "enum": list(question.asked)},
            "to": _one_of(question.addressees),
            "type": _one_of(UTTERANCE_TYPES),
            "feeling": _text(FEELING),
            "mood": _one_of(tuple(MOODS)),
            "intensity": _number(10),
        }
    )


def _view(question: Question) -> dict[str, Any]:
    return _object(
        {
            "line": {"type": "integer", "enum": list(question.asked)},
            "about": _one_of(question.people),
            "viewpoint": _text(WORDS),
            "attitude": _text(TONE),
            "warmth": _number(10),
            "tension": _number(10),
        }
    )


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


def _number(most: int, least: int = 0) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


def _one_of(labels: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(labels)}


def _array(items: dict[str, Any], most: int, at_least: int | None = None) -> dict[str, Any]:
    least = most if at_least is None else at_least
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _ranking(labels: Sequence[str]) -> dict[str, Any]:
    return _array(_one_of(labels), min(TOP, len(labels)))

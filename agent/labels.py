"""The closed label sets of RESCUE-BENCH, read once from ``prompts/labels``.

Source of the names: RESCUE-BENCH (arXiv 2609.09657) and its annotation guideline. The
definitions are this project's own words and live as data beside the other prompt texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, get_args

import yaml

Scenario = Literal["couple", "family"]
SCENARIOS: Final[tuple[Scenario, ...]] = get_args(Scenario)

LabelKind = Literal["pattern", "strategy", "utterance_type"]

THERAPIST: Final = "Therapist"
"""Speaker name of the supporting side, in RESCUE's rows and in every transcript of ours."""

GROUP_LABEL: Final[Mapping[Scenario, str]] = MappingProxyType(
    {"couple": "Couple", "family": "Family"}
)
NOBODY: Final = "Nobody"
"""Speaker of a turn whose speaker is not known."""
RESERVED_NAMES: Final = frozenset({THERAPIST, NOBODY, *GROUP_LABEL.values()})
"""Names no participant may carry."""


class UnknownLabel(ValueError):
    """A label outside its closed set.

    Args:
        kind: which set was meant.
        label: the offending value.
        allowed: the set, in order.
        scenario: for sets that differ by scenario.
    """

    def __init__(
        self, kind: str, label: object, allowed: tuple[str, ...], scenario: str | None = None
    ) -> None:
        where = f" for scenario {scenario!r}" if scenario else ""
        super().__init__(f"unknown {kind} {label!r}{where}: allowed are {', '.join(allowed)}")
        self.kind = kind
        self.label = label
        self.allowed = allowed


class Neighbour(NamedTuple):
    """A label that is easily mistaken for another, and what tells them apart."""

    name: str
    difference: str


class LabelDefinition(NamedTuple):
    """One label in plain words."""

    name: str
    title: str
    definition: str
    use_when: str
    not_when: str
    neighbours: tuple[Neighbour, ...]


_FILES: Final[Mapping[tuple[LabelKind, Scenario], str]] = MappingProxyType(
    {
        ("pattern", "couple"): "couple_patterns",
        ("pattern", "family"): "family_patterns",
        ("strategy", "couple"): "couple_strategies",
        ("strategy", "family"): "family_strategies",
        ("utterance_type", "couple"): "utterance_types",
        ("utterance_type", "family"): "utterance_types",
    }
)


def _definition(entry: Mapping[str, Any]) -> LabelDefinition:
    return LabelDefinition(
        name=entry["name"],
        title=entry["title"],
        definition=entry["definition"],
        use_when=entry["use_when"],
        not_when=entry["not_when"],
        neighbours=tuple(Neighbour(n["name"], n["difference"]) for n in entry["neighbours"]),
    )


@cache
def _load(name: str) -> tuple[LabelDefinition, ...]:
    text = files("prompts").joinpath("labels", f"{name}.yaml").read_text(encoding="utf-8")
    return tuple(_definition(entry) for entry in yaml.safe_load(text)["labels"])


def definitions(kind: LabelKind, scenario: Scenario) -> tuple[LabelDefinition, ...]:
    """Return the definitions of a set, in the taxonomy's order.

    Raises:
        UnknownLabel: when ``scenario`` or ``kind`` is not one of ours.
    """
    if scenario not in SCENARIOS:
        raise UnknownLabel("scenario", scenario, SCENARIOS)
    if (kind, scenario) not in _FILES:
        raise UnknownLabel("label kind", kind, get_args(LabelKind))
    return _load(_FILES[kind, scenario])


def _names(kind: LabelKind) -> Mapping[Scenario, tuple[str, ...]]:
    return MappingProxyType({s: tuple(d.name for d in definitions(kind, s)) for s in SCENARIOS})


PATTERNS: Final = _names("pattern")
STRATEGIES: Final = _names("strategy")
UTTERANCE_TYPES: Final = _names("utterance_type")["couple"]


def check_label(kind: LabelKind, scenario: Scenario, label: str) -> str:
    """Return ``label`` when it belongs to the set.

    Raises:
        UnknownLabel: naming the label and what is allowed.
    """
    allowed = tuple(d.name for d in definitions(kind, scenario))
    if label not in allowed:
        raise UnknownLabel(kind, label, allowed, scenario)
    return label


def title_of(kind: LabelKind, scenario: Scenario, label: str) -> str:
    """Return the human title of a label ("Pursue and withdraw").

    Raises:
        UnknownLabel: when the label is not in the set.
    """
    check_label(kind, scenario, label)
    return next(d.title for d in definitions(kind, scenario) if d.name == label)

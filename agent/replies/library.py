"""The written reply library: frames with slots, and when each of them fits."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final, Literal, get_args

import yaml

from agent.labels import SCENARIOS, STRATEGIES, check_label

TargetKind = Literal["one", "pair", "group"]
Slot = Literal["name", "other", "quote", "feeling", "name_a", "name_b", "names"]
Condition = Literal[
    "just_spoke", "quiet", "hurting", "heard_other", "after_agent", "both_spoke", "early", "later"
]

ANY: Final = "any"
"""Scenario and strategy of the frames that serve every scenario and strategy."""
PRIVATE: Final = "private"
"""Strategy of the frames for a talk with one person alone."""
SHELTERING: Final = "sheltering"
"""Strategy of the frames for the room while somebody's crisis is met in private."""
SLOT: Final = re.compile(r"\{(\w+)\}")

_LONGEST_REPLY: Final = 800
_LONGEST_VALUE: Final = 200


class LibraryError(ValueError):
    """A reply text breaks the library's rules; the message names the file or the frame."""


@dataclass(frozen=True)
class Frame:
    """One written reply with slots.

    Attributes:
        id: unique, e.g. ``couple.join.03``.
        scenario: couple, family or ``any``.
        strategy: the strategy it realises, ``any``, ``private`` or ``sheltering``.
        target: one person, a pair, or the group.
        patterns: the patterns it is written for; empty means any.
        needs: slots that must be filled.
        conditions: situations it needs, see ``prompts/replies/conditions.yaml``.
        text: the words, slots in braces.
    """

    id: str
    scenario: str
    strategy: str
    target: TargetKind
    patterns: frozenset[str]
    needs: frozenset[Slot]
    conditions: frozenset[Condition]
    text: str

    @cached_property
    def _matcher(self) -> re.Pattern[str]:
        parts = re.split(r"\{\w+\}", self.text)
        slot = rf".{{1,{_LONGEST_VALUE}}}?"
        return re.compile(slot.join(re.escape(part) for part in parts), re.DOTALL)

    def made(self, said: str) -> bool:
        """Whether ``said`` is this frame with its slots filled."""
        if len(said) > _LONGEST_REPLY:
            return False
        return self._matcher.fullmatch(" ".join(said.split())) is not None

    @property
    def opening(self) -> str:
        """The first two words, by which a listener notices repetition."""
        return " ".join(self.text.split()[:2])

    def sample(self) -> str:
        """Return the text with neutral words in its slots, as the encoder reads it."""
        return SLOT.sub(lambda m: _NEUTRAL[m.group(1)], self.text)


_NEUTRAL: Final[Mapping[str, str]] = {
    "name": "my friend",
    "other": "the other one",
    "quote": "that",
    "feeling": "upset",
    "name_a": "you",
    "name_b": "you",
    "names": "all of you",
}


class ReplyLibrary:
    """All frames, in file order.

    Args:
        frames: with unique ids.

    Raises:
        LibraryError: on a doubled id.
    """

    def __init__(self, frames: Iterable[Frame]) -> None:
        self.frames: tuple[Frame, ...] = tuple(frames)
        self._by_id = {frame.id: frame for frame in self.frames}
        if len(self._by_id) != len(self.frames):
            raise LibraryError("two reply frames carry the same id")

    def __getitem__(self, frame_id: str) -> Frame:
        return self._by_id[frame_id]

    def of(self, scenario: str, strategy: str) -> tuple[Frame, ...]:
        """Return the frames of one strategy of one scenario, in file order."""
        return tuple(f for f in self.frames if (f.scenario, f.strategy) == (scenario, strategy))

    @cached_property
    def digest(self) -> str:
        """Hash of all that the index depends on: ids, places and words."""
        rows = [[f.id, f.scenario, f.strategy, f.target, f.sample()] for f in self.frames]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _read(*parts: str) -> Any:
    source = files("prompts").joinpath(*parts)
    try:
        return yaml.safe_load(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LibraryError(f"prompts/{'/'.join(parts)} is missing") from error
    except yaml.YAMLError as error:
        raise LibraryError(f"prompts/{'/'.join(parts)} is not valid YAML: {error}") from error


def _conditions() -> dict[str, frozenset[Condition]]:
    listed: dict[Condition, list[str]] = _read("replies", "conditions.yaml")["conditions"]
    unknown = set(listed) - set(get_args(Condition))
    if unknown:
        raise LibraryError(f"conditions.yaml: unknown condition {sorted(unknown)[0]!r}")
    found: dict[str, set[Condition]] = {}
    for condition, ids in listed.items():
        for frame_id in ids:
            found.setdefault(frame_id, set()).add(condition)
    return {frame_id: frozenset(names) for frame_id, names in found.items()}


def _frames(
    where: Sequence[str],
    scenario: str,
    strategy: str,
    conditions: dict[str, frozenset[Condition]],
) -> Iterable[Frame]:
    for entry in _read(*where)["frames"]:
        if entry["target"] not in get_args(TargetKind):
            raise LibraryError(f"{entry['id']}: unknown target {entry['target']!r}")
        slots = set(SLOT.findall(entry["text"]))
        if slots != set(entry["needs"]) or not slots <= set(get_args(Slot)):
            raise LibraryError(f"{entry['id']}: its needs are not its slots")
        for scene in SCENARIOS if scenario == ANY else (scenario,):
            for pattern in entry["patterns"]:
                check_label("pattern", scene, pattern)  # type: ignore[arg-type]
        yield Frame(
            id=entry["id"],
            scenario=scenario,
            strategy=strategy,
            target=entry["target"],
            patterns=frozenset(entry["patterns"]),
            needs=frozenset(entry["needs"]),
            conditions=conditions.get(entry["id"], frozenset()),
            text=" ".join(entry["text"].split()),
        )


@cache
def load_library() -> ReplyLibrary:
    """Read ``prompts/replies``.

    Raises:
        LibraryError: naming the file or frame that breaks the rules.
        UnknownLabel: when a frame is tagged with a pattern that its scenario does not have.
    """
    conditions = _conditions()
    frames: list[Frame] = []
    for scenario in SCENARIOS:
        for strategy in STRATEGIES[scenario]:
            where = ("replies", scenario, f"{strategy}.yaml")
            frames += _frames(where, scenario, strategy, conditions)
    frames += _frames(("replies", "openings.yaml"), ANY, ANY, conditions)
    frames += _frames(("replies", "private.yaml"), ANY, PRIVATE, conditions)
    frames += _frames(("replies", "sheltering.yaml"), ANY, SHELTERING, conditions)
    library = ReplyLibrary(frames)
    for frame_id in conditions:
        if frame_id not in library._by_id:
            raise LibraryError(f"conditions.yaml: no frame is called {frame_id!r}")
    return library


@dataclass(frozen=True)
class Feelings:
    """Plain words for feelings.

    Attributes:
        words: from a word of a reading to a word to say, longest key first.
        cells: valence -> arousal -> words, the safest first.
        unguessed: words that are not said as a guess.
    """

    words: Mapping[str, str]
    cells: Mapping[str, Mapping[str, tuple[str, ...]]]
    unguessed: frozenset[str]


@cache
def load_feelings() -> Feelings:
    """Read ``prompts/feelings.yaml``.

    Raises:
        LibraryError: when the file is missing or unreadable.
    """
    raw = _read("feelings.yaml")
    ordered = sorted(raw["words"].items(), key=lambda kv: (-len(kv[0]), kv[0]))
    cells = {v: {a: tuple(ws) for a, ws in row.items()} for v, row in raw["cells"].items()}
    unguessed = frozenset(raw["unguessed"])
    return Feelings(words=dict(ordered), cells=cells, unguessed=unguessed)


@cache
def load_quoting() -> Mapping[str, tuple[str, ...]]:
    """Read ``prompts/quoting.yaml``: word lists by name.

    Raises:
        LibraryError: when the file is missing or unreadable.
    """
    raw: dict[str, str] = _read("quoting.yaml")
    return {name: tuple(words.split()) for name, words in raw.items()}

"""Pairs of single signs: two different ones from one speaker, close together, raise a flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from agent.safety.engine import load_guards, load_signs
from agent.safety.types import Kind

_OWN_TURNS = 4
_GUARDS = ("past", "fiction", "joke", "trivial")


class ReadLike(Protocol):
    """What is needed of a turn here."""

    @property
    def turn_id(self) -> int:
        """Return the turn's id."""
        ...

    @property
    def speaker(self) -> str:
        """Return the speaker's name."""
        ...

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return canonical sentences."""
        ...


def _groups(kind: str, sentence: str) -> set[str]:
    guards = load_guards()
    extra = ("child_topic", "parental", "agreed") if kind == "coercive_control" else ()
    if any(guards[name].clears(sentence) for name in (*_GUARDS, *extra)):
        return set()
    _, groups = load_signs()[kind]
    return {name for name, patterns in groups.items() if any(p.search(sentence) for p in patterns)}


def pairs(reads: Sequence[ReadLike]) -> dict[Kind, tuple[int, ...]]:
    """Return the kinds for which the newest turn completes a pair, with the turns that hold it.

    Args:
        reads: The conversation so far; the newest turn is last.
    """
    newest = reads[-1]
    own = [r for r in reads if r.speaker == newest.speaker][-_OWN_TURNS:]
    out: dict[Kind, tuple[int, ...]] = {}
    for kind, (anchors, _) in load_signs().items():
        seen: dict[str, int] = {}
        latest: set[str] = set()
        for read in own:
            found = {g for sentence in read.sentences for g in _groups(kind, sentence)}
            for group in found:
                seen.setdefault(group, read.turn_id)
            if read is newest:
                latest = found
        if latest and len(seen) >= 2 and anchors & seen.keys():
            out[cast(Kind, kind)] = tuple(sorted(set(seen.values()) | {newest.turn_id}))
    return out

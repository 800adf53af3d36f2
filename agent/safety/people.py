"""Who is at risk and who acts, as far as a matched rule tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from agent.labels import THERAPIST
from agent.safety.engine import Hit
from agent.safety.text import NAME
from agent.safety.types import Kind, TurnLike

THIRD_PERSON = "third_person"
_BOTS = frozenset({"therapist", "kith", "bot", "assistant", "agent", "ai"})
_OTHER = re.compile(r"\b(?:he|him|his|they|them|you|your|partner)\b")
_OUTSIDE = re.compile(
    r"\b(?:ex|parent|parents|stepparent|inlaw|sibling|child|children|relative|grandparent|boss|"
    r"friend|teacher|coach|neighbou?r|baby)\b"
)


class Roles(NamedTuple):
    """Who is at risk and who does the harm; None where the words do not tell."""

    about: str | None
    actor: str | None


def names(turns: Sequence[TurnLike], participants: Sequence[str]) -> list[str]:
    """Return the people in the room, sorted by length so that longer names are masked first."""
    people = {p for p in participants if p.strip()} | {t.speaker for t in turns}
    people = {p for p in people if p != THERAPIST and p.strip().lower() not in _BOTS}
    return sorted(people, key=lambda n: (-len(n), n))


def _named(text: str, everyone: Sequence[str], speaker: str) -> str | None:
    for index in re.findall(rf"{NAME}(\d+)", text):
        if int(index) < len(everyone) and everyone[int(index)] != speaker:
            return everyone[int(index)]
    return None


def other_person(text: str, everyone: Sequence[str], speaker: str) -> str | None:
    """Return the participant the words point to, when that can be told."""
    found = _named(text, everyone, speaker)
    if found is not None:
        return found
    others = [n for n in everyone if n != speaker]
    if len(others) == 1 and _OTHER.search(text) and not _OUTSIDE.search(text):
        return others[0]
    return None


def roles(hit: Hit, speaker: str, everyone: Sequence[str]) -> Roles:
    """Return the roles for a matched rule."""
    other = other_person(hit.match, everyone, speaker) or other_person(
        hit.sentence, everyone, speaker
    )
    frame = hit.rule.frame
    if frame == "self":
        return Roles(speaker, None)
    if frame == "third":
        return Roles(other or THIRD_PERSON, None)
    if frame == "victim" or hit.rule.about_speaker:
        return Roles(speaker, other)
    if frame in ("actor", "speaker_acts"):
        return Roles(other or THIRD_PERSON, speaker)
    if frame == "child":
        return Roles(THIRD_PERSON, other)
    return Roles(None, None)


def plain_roles(kind: Kind, text: str, speaker: str, everyone: Sequence[str]) -> Roles:
    """Return the roles for a finding that comes without a frame."""
    other = other_person(text, everyone, speaker)
    first_person = re.search(r"\b(?:i|me|my|we|us)\b", text) is not None
    acts = re.match(r"(?:\w+ )?i\b", text) is not None and not re.search(r"\bme\b|\bmy\b", text)
    if kind in ("self_harm", "dependency"):
        return Roles(speaker if first_person else (other or THIRD_PERSON), None)
    if kind == "threat":
        return Roles(other or THIRD_PERSON, speaker if acts else None)
    if kind in ("violence", "coercive_control"):
        return Roles(other, speaker) if acts else Roles(speaker, other)
    return Roles(None, None)

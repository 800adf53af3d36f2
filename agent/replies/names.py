"""Names as they can stand inside a sentence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_MOST_WORDS: Final = 4
_MOST_CHARS: Final = 40
_MOST_LISTED: Final = 5
_MOST_LISTED_WORDS: Final = 12
_NOT_A_NAME: Final = frozenset({"unknown", "therapist", "couple", "family", "n/a", "none"})
_QUOTES: Final = str.maketrans({"“": '"', "”": '"', "{": " ", "}": " ", "<": " ", ">": " "})
_ISOLATE: Final = "\u2068"
_POP: Final = "\u2069"
# emoji are joined by a zero-width joiner; Persian and others need the non-joiner inside words
_JOINERS: Final = frozenset("\u200c\u200d")


def said_name(name: str) -> str | None:
    """Return ``name`` as a sentence can carry it, or None when it cannot be spoken.

    Control, direction and surrogate characters go; so do punctuation marks at the ends and
    doubled ones inside; a very long name is cut between words. "Unknown" is not a name.
    """
    text = unicodedata.normalize("NFC", name[:400]).translate(_QUOTES)
    kept = (c if c in _JOINERS or unicodedata.category(c)[0] != "C" else " " for c in text)
    text = " ".join("".join(kept).split())
    text = re.sub(r"\s+([,.;:!?])", r"\1", text)
    text = re.sub(r"([,.;:!?])(?:\s*[,.;:!?])+", r"\1", text)
    words: list[str] = []
    for word in text.split()[:_MOST_WORDS]:
        if len(" ".join([*words, word])) > _MOST_CHARS:
            break
        words.append(word)
    text = _bare(" ".join(words))
    if not text or text.casefold() in _NOT_A_NAME:
        return None
    return f"{_ISOLATE}{text}{_POP}" if _runs_right_to_left(text) else text


def _bare(text: str) -> str:
    start, end = 0, len(text)
    while start < end and not _speakable(text[start]):
        start += 1
    # a closing bracket or quote stays when its partner is inside
    while end > start and not (
        _speakable(text[end - 1])
        or (text[end - 1] in "\"')" and _is_paired(text[start:end], text[end - 1]))
    ):
        end -= 1
    return text[start:end] if any(_speakable(c) for c in text[start:end]) else ""


def _speakable(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMNS" and char not in "`´^¨<>=+|~$"


def _is_paired(text: str, mark: str) -> bool:
    return text.count("(") == text.count(")") if mark == ")" else text.count(mark) % 2 == 0


def _runs_right_to_left(text: str) -> bool:
    return any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text)


def listed(names: Sequence[str]) -> str | None:
    """Return "A, B and C", or None when somebody cannot be named or the list would be long."""
    said = distinct(names)
    if said is None or len(said) < 2 or len(said) > _MOST_LISTED:
        return None
    if sum(len(name.split()) for name in said) > _MOST_LISTED_WORDS:
        return None
    return f"{', '.join(said[:-1])} and {said[-1]}"


def distinct(names: Sequence[str]) -> list[str] | None:
    """Return the spoken names, or None when one is missing or two sound the same."""
    said = [said_name(name) for name in names]
    spoken = [name for name in said if name is not None]
    if len(spoken) < len(said) or len({name.casefold() for name in spoken}) < len(spoken):
        return None
    return spoken

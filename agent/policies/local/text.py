"""What the heads read of the words: masked, pronoun-free text and a few surface counts.

Names and gendered words never reach an encoder, so two conversations that differ only in them
are the same conversation to every head.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAME_TOKEN: Final = "Alex"
"""Stands for every participant's name in what the encoder reads."""

_NEUTRAL: Final = {
    **dict.fromkeys(("he", "she"), "they"),
    **dict.fromkeys(("him", "his", "her", "hers"), "their"),
    **dict.fromkeys(("himself", "herself"), "themself"),
    **dict.fromkeys(("he's", "she's"), "they're"),
    **dict.fromkeys(("he'd", "she'd"), "they'd"),
    **dict.fromkeys(("he'll", "she'll"), "they'll"),
    **dict.fromkeys(("husband", "wife"), "spouse"),
    **dict.fromkeys(("boyfriend", "girlfriend"), "partner"),
    **dict.fromkeys(("man", "woman", "guy"), "person"),
    **dict.fromkeys(("men", "women"), "people"),
}
_NEUTRAL_WORD: Final = re.compile(
    r"\b(?:" + "|".join(sorted(map(re.escape, _NEUTRAL), key=len, reverse=True)) + r")\b", re.I
)
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_TRAILING: Final = ("...", "…", "-", "—", "–", "â")

_I = "i i'm i've i'd i'll me my mine myself"
_YOU = "you you're you've you'd you'll your yours yourself"
_WE = "we we're we've us our ours"
_THEY = "they they're they'd them their themself"
_NOT = "not no never don't didn't can't won't isn't wasn't doesn't nothing"
_FEEL = "feel feels felt feeling hurt sad scared afraid angry lonely love"
_THANKS = "sorry apologize understand appreciate thank thanks"
_ALWAYS = "always never every everything constantly"
_PAST = "was were had did went said told came got"
_ASK = "why what how when where who"
_YES = "yeah yes okay ok right mm hmm mhm uh um sure"
_WANT = "want need wish please can could would"
_COUNTED: Final = tuple(
    frozenset(words.split())
    for words in (_I, _YOU, _WE, _THEY, _NOT, _FEEL, _THANKS, _ALWAYS, _PAST, _ASK, _YES, _WANT)
)
_OPENERS: Final = tuple(frozenset(words.split()) for words in (_YES, _ASK, _I, _YOU))

SURFACE: Final = (
    "words",
    "short",
    "question",
    "ends_asking",
    "trails_off",
    "exclaims",
    "commas",
    *(f"rate_{n}" for n in "i you we they not feel thanks always past ask yes want".split()),
    *(f"opens_{n}" for n in "yes ask i you".split()),
)
"""Names of the surface counts, in order."""


@lru_cache(maxsize=512)
def _name_pattern(names: frozenset[str]) -> re.Pattern[str] | None:
    parts = sorted((re.escape(n) for n in names if n.strip()), key=lambda n: (-len(n), n))
    return re.compile(r"(?<!\w)(?:" + "|".join(parts) + r")(?!\w)", re.I) if parts else None


def masked(text: str, names: Iterable[str]) -> str:
    """Return ``text`` with names replaced by one token and gendered words by neutral ones."""
    pattern = _name_pattern(frozenset(names))
    plain = text.replace("’", "'")
    if pattern is not None:
        plain = pattern.sub(NAME_TOKEN, plain)
    return _NEUTRAL_WORD.sub(lambda m: _NEUTRAL[m.group(0).lower()], plain)


def mentions(text: str, name: str) -> bool:
    """Return whether ``name`` stands in ``text`` as a word of its own, in any case."""
    pattern = _name_pattern(frozenset((name,)))
    return pattern is not None and pattern.search(text) is not None


def calls(text: str, name: str) -> bool:
    """Return whether a turn calls ``name``: set apart at its very start or end."""
    return _call_pattern(name).search(text.strip()) is not None


@lru_cache(maxsize=512)
def _call_pattern(name: str) -> re.Pattern[str]:
    word = rf"(?<!\w){re.escape(name)}(?!\w)"
    opening = r"^(?:(?:and|but|so|oh|hey|okay|ok|well|no|yes|yeah|listen|look)\W+)?"
    return re.compile(rf"{opening}{word}\s*[,!?…:]|,\s*{word}\s*\W*$", re.IGNORECASE)


def words_of(text: str) -> list[str]:
    """Return the lower-case words of ``text``."""
    return _WORD.findall(text.replace("’", "'").lower())


def surface(text: str) -> Array:
    """Return the surface counts of a masked text, shape ``(len(SURFACE),)``."""
    words, tail = words_of(text), text.rstrip()
    n = max(1, len(words))
    rates = [min(1.0, 5 * sum(w in kind for w in words) / n) for kind in _COUNTED]
    opens = [float(bool(words) and words[0] in kind) for kind in _OPENERS]
    marks = [
        float(np.log1p(len(words))),
        float(len(words) <= 3),
        float("?" in tail),
        float(tail.endswith("?")),
        float(tail.endswith(_TRAILING)),
        float("!" in tail),
        tail.count(",") / n,
    ]
    return np.array([*marks, *rates, *opens], dtype=np.float64)

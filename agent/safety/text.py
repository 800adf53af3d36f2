"""Canonical text for the safety rules.

Rules and the sentence model both read canonical text: lower case, contractions written out,
partners, pronouns and names reduced to one form each. A swap of names or genders therefore
cannot change what is found (safety.md S20).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from agent.safety.data_files import load_yaml

_QUOTES = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "“": '"', "”": '"', "…": "..."})
_LEET = str.maketrans({"1": "i", "0": "o", "3": "e", "4": "a", "@": "a", "$": "s", "!": "i"})
_ZERO_WIDTH = re.compile("[​-‏⁠﻿]")
_LEET_TOKEN = re.compile(r"\b(?=[a-z@$!134]*[a-z])(?=\w*[0134@$!])[a-z0134@$!]{3,}(?=\W|$)")
_MEASURE = re.compile(r"\d+[a-z]{1,2}\d*|[a-z]{1,2}\d+")
"""``4pm``, ``3rd``, ``mp3``: digits that are digits."""
_SPLIT = re.compile(r"(?<=[.!?;])\s+|\n+|\s+[-–—]+\s+|\.{2,}\s*")
_POSSESSIVE_STOP = re.compile(
    r"(?:to|and|or|but|about|at|in|on|for|with|when|if|because|so|that|again|back|every|all|"
    r"from|until|then|as|by|off|up|down|out|is|was|not|a|an|the|into|like|over|what|how|who|"
    r"where|alone|too|now|today|tonight|before|after|while|anymore|even|just|really|hard|use|"
    r"see|go|leave|talk|have|do|know|feel|come|stay|work|get|against|around|wear|eat|drive|"
    r"speak|sleep|first|yesterday|once|twice|my|his|your|our|this|there|here|more|last|lose)\b"
)
NAME = "xname"
_NEAR = 2
_BELONGS = re.compile(
    r"(?:that|it|this|all that|all of it)(?: all)? (?:was|were|is|happened|has been)\b"
    r"(?=.*\b(?:years?|decades) (?:ago|back|now)\b|.*\bbehind (?:me|us|him)\b)"
    r"|(?:the|this|our|my|that) \w+(?: \w+)?,? i mean\b"
)


@lru_cache(maxsize=1)
def _tables() -> tuple[list[tuple[re.Pattern[str], str]], dict[str, str]]:
    raw = load_yaml("rules/normalise.yaml")
    subs = [(re.compile(item["find"]), item["put"]) for item in raw["rewrites"]]
    words = {word: target for target, group in raw["words"].items() for word in group.split()}
    return subs, words


def plain(text: str) -> str:
    """Return lower-case text with plain quotes and no invisible characters."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    return re.sub(r"[ \t]+", " ", _ZERO_WIDTH.sub("", text)).lower().strip()


def _unleet(text: str) -> str:
    def put(match: re.Match[str]) -> str:
        word = match.group().rstrip("!")
        if not re.search("[a-z]", word) or _MEASURE.fullmatch(word):
            return match.group()
        return word.translate(_LEET) + match.group()[len(word) :]

    return _LEET_TOKEN.sub(put, text)


def _her(text: str) -> str:
    def put(match: re.Match[str]) -> str:
        following = match.group(1) or ""
        if not following or _POSSESSIVE_STOP.match(following.strip()):
            return f"him{following}"
        return f"his{following}"

    return re.sub(r"\bher\b(\s+\w+)?", put, text)


def mask_names(text: str, names: Sequence[str]) -> str:
    """Return text with each participant's name replaced by ``xname0``, ``xname1`` and so on."""
    for index, name in enumerate(names):
        if name.strip():
            pattern = rf"(?<!\w){re.escape(plain(name))}(?:'s)?(?!\w)"
            text = re.sub(pattern, f"{NAME}{index}", text)
    return text


def canonical(text: str, names: Sequence[str] = ()) -> str:
    """Return the canonical form of a turn.

    Args:
        text: What was written.
        names: Participants' names, in a fixed order.

    Returns:
        Lower-case text in which ``he``, ``him``, ``his`` and ``partner`` stand for every gender
        and every word for a partner.
    """
    subs, words = _tables()
    out = mask_names(_unleet(plain(text)), names)
    for pattern, put in subs:
        out = pattern.sub(put, out)
    out = _her(out)
    out = re.sub(r"[a-z]+", lambda m: words.get(m.group(), m.group()), out)
    return re.sub(r"[ \t]+", " ", out).strip()


def fragments(text: str) -> list[str]:
    """Split canonical text at marks and line ends; at least one for text that is not empty."""
    parts = (part.strip() for part in _SPLIT.split(text))
    return [part for part in parts if re.search(r"\w", part)]


def sentences(text: str) -> list[str]:
    """Split canonical text into sentences; at least one for text that is not empty.

    A sentence that only says how long ago the one before it was, or what it was about ("the lease,
    I mean"), stays with that one.
    """
    out: list[str] = []
    for part in fragments(text):
        if out and _BELONGS.match(part):
            out[-1] += f" {part}"
        else:
            out.append(part)
    return out


def readings(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return what the sentence model reads of a turn: every sentence, and every two in a row.

    Args:
        parts: The turn's sentences.

    Returns:
        Pairs of a reading and its surroundings: the reading with up to two sentences before and
        after it. What a fragment alone seems to say counts only where its surroundings agree.
    """
    out = []
    for at, part in enumerate(parts):
        out.append((part, " ".join(parts[max(0, at - _NEAR) : at + _NEAR + 1])))
        if at + 1 < len(parts):
            around = parts[max(0, at + 1 - _NEAR) : at + 1 + _NEAR]
            out.append((f"{part} {parts[at + 1]}", " ".join(around)))
    return out


def encoder_text(text: str) -> str:
    """Return canonical text in the form the sentence model reads: names become one word."""
    return re.sub(rf"{NAME}\d+", "alex", text)

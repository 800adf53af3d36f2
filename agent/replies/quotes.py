"""Picks a few of a person's own words and turns them towards that person.

The rules err on the side of no quote: "I can't say anything right" turned into "you can't say
anything right" would be an insult. Word lists are data, see ``prompts/quoting.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from agent.replies.library import load_quoting

FEWEST_WORDS: Final = 2
MOST_WORDS: Final = 8

_READ_CHARS: Final = 3000
_CURLS: Final = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'", "\u00a0": " "})
_SENTENCE: Final = re.compile(r"[^.!?;:…\n–—]+(?:\.\.\.|[.!?;:…\n–—]|$)")
_CUT_OFF: Final = ("…", "–", "—", "-")
_SPOKEN_BY_OTHERS: Final = re.compile("[\"“”„«»]|(?:^|\\s)'|'(?:\\s|$)")
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?(?:-[a-z]+)*|\d{1,2}", re.IGNORECASE)
_OTHERS: Final = frozenset(
    "you your yours you're you've you'd you'll yourself ya u he he's he'd he'll him his himself "
    "she she's she'd she'll her hers herself they they're they've they'd them their theirs".split()
)
_SECOND: Final = {
    "i": "you",
    "i'm": "you're",
    "i've": "you've",
    "i'd": "you'd",
    "i'll": "you'll",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
}
_BE: Final = {"am": "are", "was": "were", "wasn't": "weren't"}
_NEGATIVE: Final = re.compile(r"(?:n't|\bnot|\bno)\b")
_SPEAKING_WORDS: Final = 4
"""Fewer words only speak for themselves when they name a feeling."""
_IMAGE_WORDS: Final = 5
"""A whole sentence of so many words may stand without any word of feeling."""
_PLURAL: Final = frozenset({"we", "we're", "we've", "we'd", "we'll", "our"})
_LIKENESS: Final = re.compile(r"^(?!.*\blike\b.*\blike\b).*(?:feel|felt|was) like (?:a|an|the) ")
_ELIDING: Final = frozenset({"and", "but", "or", "then", "who"})


class _Clause(NamedTuple):
    words: tuple[str, ...]
    whole: bool


def pick_quote(text: str, names: Iterable[str] = (), avoid: Sequence[str] = ()) -> str | None:
    """Return 2 to 8 words of ``text`` turned to the second person, or None.

    Args:
        text: the addressed person's own turn.
        names: everybody in the room; a clause that names one of them is left out.
        avoid: texts already said; a quote that stands in one of them is not used again.

    The result carries no punctuation at its ends, no name, no "he" or "she", nothing about the
    other person, and nothing that would be an insult, a threat or an alarm when said back.
    """
    text = text[-_READ_CHARS:].translate(_CURLS)
    if _is_unsafe(text):
        return None
    named = {w.casefold() for name in names for w in re.findall(r"\w+", name)}
    best: tuple[float, str] | None = None
    for place, clause in enumerate(_clauses(text)):
        quote = _turned(clause.words) if _is_fit(clause, named) else None
        if quote is None or any(quote in said for said in avoid):
            continue
        score = _score(clause) + 0.05 * min(place, 10)
        if best is None or score > best[0]:
            best = (score, quote)
    return best[1] if best else None


def _is_unsafe(text: str) -> bool:
    flat = text.casefold()
    return bool(_starting("unsafe").search(flat) or _phrases("unsafe_phrases").search(flat))


@cache
def _starting(name: str) -> re.Pattern[str]:
    """Match any word of the list at a word start; short ones as whole words."""
    words = load_quoting()[name]
    stems = [re.escape(w) + ("" if len(w) > 4 else r"(?!\w)") for w in words]
    return re.compile(rf"(?<!\w)(?:{'|'.join(stems)})", re.IGNORECASE)


@cache
def _phrases(name: str) -> re.Pattern[str]:
    parts = [r"\s+".join(map(re.escape, p.split("_"))) for p in load_quoting()[name]]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE)


@cache
def _listed(name: str) -> frozenset[str]:
    return frozenset(load_quoting()[name])


def _clauses(text: str) -> Iterator[_Clause]:
    before = ""
    for match in _SENTENCE.finditer(text):
        sentence, lead = match.group(), before
        before = sentence.rstrip()[-1:]
        if sentence.endswith(("?", "...", *_CUT_OFF)) or lead in (":", *_CUT_OFF):
            continue
        if _SPOKEN_BY_OTHERS.search(sentence):
            continue
        yield from _parts(sentence.rstrip(".!;:\n "))


def _parts(sentence: str) -> Iterator[_Clause]:
    parts = [part.split() for part in sentence.split(",")]
    seen: list[str] = []
    for position, part in enumerate(parts):
        following = parts[position + 1] if position + 1 < len(parts) else []
        turned_round = bool(following) and following[0].casefold() in _listed("turns")
        lead = {w.casefold() for w in seen}
        framed = bool(lead & _listed("frames")) or any(w.endswith("n't") for w in lead)
        seen += part
        if turned_round or framed:
            continue
        words = list(part)
        while words and words[0].casefold() in _listed("leads"):
            words.pop(0)
        if words and all(_WORD.fullmatch(w) for w in words):
            yield _Clause(tuple(words), len(parts) == 1)


def _is_fit(clause: _Clause, named: set[str]) -> bool:
    words = clause.words
    low = [w.casefold() for w in words]
    if not FEWEST_WORDS < len(low) <= MOST_WORDS:
        return False
    if low[0] not in _listed("starts") or low[-1] in _listed("ends"):
        return False
    if _OTHERS & set(low) or any(set(re.findall(r"\w+", w)) & named for w in low):
        return False
    if any(a == b for a, b in pairwise(low)):
        return False
    if any(w[0].isupper() and w.casefold() not in _SECOND for w in words[1:]):
        return False
    if not (set(low) & set(_SECOND) or low[0] in _PLURAL):
        return False
    if not set(low) & _listed("heart") and not _is_image(clause, low):
        return False
    if len(low) < _SPEAKING_WORDS and not set(low) & _listed("states"):
        return False
    if len(low) <= _SPEAKING_WORDS and low[-1] in _listed("pointers"):
        return False
    flat = " ".join(low)
    if "like" in low and not _LIKENESS.search(flat):
        return False
    if _starting("judging").search(flat):
        return False
    return not _NEGATIVE.search(flat) or bool(_phrases("negatives").search(flat))


def _is_image(clause: _Clause, low: list[str]) -> bool:
    """Whether a clause without a word of feeling is concrete enough to be worth keeping."""
    plain = low[0] in ("i", "my") and clause.whole and len(low) >= _IMAGE_WORDS
    return plain and not set(low) & _listed("abstract")


def _turned(words: tuple[str, ...]) -> str | None:
    low = [w.casefold() for w in words]
    out: list[str] = []
    subject = False
    for position, word in enumerate(low):
        if word in _BE:
            if subject:
                word = _BE[word]
            elif word == "am" or low[position - 1] in _ELIDING:
                return None
        subject = low[position] == "i" or (subject and word in _listed("softeners"))
        out.append(_SECOND.get(word, word))
    return " ".join(out) if _states_are_kind(out) else None


def _states_are_kind(words: list[str]) -> bool:
    for position, word in enumerate(words):
        pair = (word, words[position + 1] if position + 1 < len(words) else "")
        start = position + 1 if word == "you're" else position + 2
        if word != "you're" and pair not in (("you", "are"), ("you", "were")):
            continue
        rest = [w for w in words[start:] if w not in _listed("softeners")]
        if not rest or rest[0] not in _listed("states"):
            return False
    return True


def _score(clause: _Clause) -> float:
    low = [w.casefold() for w in clause.words]
    heart = len(set(low) & _listed("heart"))
    # mid-length clauses carry an image; very short ones sound like an echo
    length = 1.0 - abs(len(low) - 5.5) / 5.5
    return (0.5 if clause.whole else 0.0) + 0.6 * min(heart, 2) + 0.5 * length

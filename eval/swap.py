"""Swaps the people of a conversation: each takes another's name, in every place it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from agent.conversation import BackgroundLine, Cue, Turn

_TITLES: Final = frozenset(
    {"aunt", "dr", "grandma", "grandpa", "miss", "mr", "mrs", "ms", "the", "uncle"}
)
_NO_SPACES: Final = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts that put no space between words."""


class Swap:
    """A change of names among the people of one conversation.

    Two people take each other's name. With more, everybody takes the next one's, so that nobody
    keeps theirs. Group labels and ``Therapist`` stay.

    Args:
        people: names in their order.

    Attributes:
        to: name -> the name that stands in its place.
    """

    def __init__(self, people: Sequence[str]) -> None:
        self.to: dict[str, str] = dict(zip(people, [*people[1:], *people[:1]], strict=True))

    @cached_property
    def back(self) -> Swap:
        """The change that undoes this one."""
        undone = Swap(())
        undone.to = {new: old for old, new in self.to.items()}
        return undone

    def name(self, name: str) -> str:
        """Return the name that stands for a person; other labels stay as they are."""
        return self.to.get(name, name)

    def text(self, text: str) -> str:
        """Return a text in which every name is changed, all at once.

        A name counts as a whole word as it is written, or all in capitals; a possessive follows
        it. A word in lower case is left: "don", "pat" and "will" are words.
        """
        return self._written.sub(self._replaced, text) if self._words else text

    def turn(self, turn: Turn) -> Turn:
        """Return a turn with the names changed in speakers, addressees, words and cues."""
        return turn.model_copy(
            update={
                "speaker": self.name(turn.speaker),
                "addressees": tuple(map(self.name, turn.addressees)),
                "text": self.text(turn.text),
                "background": tuple(map(self._background, turn.background)),
                "cues": tuple(map(self._cue, turn.cues)),
                "visible_to": turn.visible_to and tuple(map(self.name, turn.visible_to)),
            }
        )

    def _background(self, line: BackgroundLine) -> BackgroundLine:
        return BackgroundLine(
            speaker=self.name(line.speaker),
            addressees=tuple(map(self.name, line.addressees)),
            text=self.text(line.text),
        )

    def _cue(self, cue: Cue) -> Cue:
        return Cue(
            kind=cue.kind,
            person=self.name(cue.person),
            description=self.text(cue.description),
            addressees=tuple(map(self.name, cue.addressees)),
        )

    @cached_property
    def _words(self) -> Mapping[str, str]:
        """Return what may be written for a name -> what is written instead."""
        found = dict(self.to)
        firsts = [name.split()[0] for name in self.to if name.split()]
        for old, new in self.to.items():
            first = old.split()[0] if old.split() else old
            title = first.casefold().rstrip(".") in _TITLES
            if first != old and not title and firsts.count(first) == 1:
                found.setdefault(first, new)
        capitals = {old.upper(): new.upper() for old, new in found.items() if len(old) > 1}
        return {**capitals, **found}

    @cached_property
    def _written(self) -> re.Pattern[str]:
        # longest first: "Anna Maria" before "Anna"
        words = sorted(self._words, key=lambda word: (-len(word), word))
        return re.compile("|".join(map(_whole, words)))

    def _replaced(self, match: re.Match[str]) -> str:
        word = next(w for w in (match.group(), match.group()[:-1]) if w in self._words)
        new = self._words[word]
        if word == match.group():
            return new
        # "James' book" is another's book too
        mark = match.group()[-1]
        return f"{new}{mark}" if new.endswith(("s", "S")) else f"{new}{mark}s"


def _whole(word: str) -> str:
    """Return a pattern for a word on its own: no part of a longer one, and not "Don" in "Don't"."""
    if _NO_SPACES.search(word):
        return re.escape(word)
    alone = rf"(?<!\w)(?<!\w['’]){re.escape(word)}(?!\w|['’][tT]\b)"
    if word.endswith(("s", "S")):
        # inside quotation marks the second one is no possessive
        return rf"(?<!['‘]){alone}['’](?=\s\w)|{alone}"
    return alone

"""The local gate: turns that need no model call to be taken in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agent.conversation import Turn

_LISTENING: Final = frozenset(
    (
        *"mm mmm mhm mm-hm mm-hmm mmhm mmhmm uh-huh uhhuh hm hmm huh ah aha oh uh um".split(),
        *"okay ok right sure yeah alright".split(),
        *("all right", "i see", "go on", "got it"),
    )
)
_WORDS: Final = re.compile(r"[^\w\s'’-]+")


def is_back_channel(turn: Turn, before: Turn | None) -> bool:
    """Whether a turn only shows that its speaker listens ("Mm-hm.", "Okay.").

    An answer to a question is none, however short it is.
    """
    if before is not None and before.text.rstrip().endswith("?"):
        return False
    words = _WORDS.sub(" ", turn.text).casefold().split()
    if not words or len(words) > 4 or turn.background:
        return False
    return _covered(words)


def _covered(words: Sequence[str]) -> bool:
    if not words:
        return True
    for n in (1, 2):
        if " ".join(words[:n]) in _LISTENING and _covered(words[n:]):
            return True
    return False


def nothing_to_read(turns: Sequence[Turn], new: int) -> bool:
    """Whether the last ``new`` turns are all the helper's own or back-channels."""
    start = len(turns) - new
    return new > 0 and all(
        turn.by_agent or is_back_channel(turn, turns[i - 1] if i else None)
        for i, turn in enumerate(turns[start:], start)
    )

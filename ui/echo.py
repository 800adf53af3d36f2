"""Whether words of somebody come back in an answer."""

from __future__ import annotations


def repeats(reply: str, said: str, words: int = 4) -> bool:
    """Whether a reply holds ``words`` consecutive words of what was said (all, if it is short)."""
    spoken, answered = _words(said), _words(reply)
    length = min(words, len(spoken))
    if length < 2:
        return False
    runs = {tuple(spoken[i : i + length]) for i in range(len(spoken) - length + 1)}
    return any(tuple(answered[i : i + length]) in runs for i in range(len(answered) - length + 1))


def _words(text: str) -> list[str]:
    cleaned = "".join(c if c.isalnum() or c == "'" else " " for c in text.casefold())
    return cleaned.split()

"""What the reply tests share: a writer, short talks, and checks of a text."""

from __future__ import annotations

import re
from pathlib import Path

from agent.conversation import Turn, participants_of
from agent.decision import Reply
from agent.labels import Scenario
from agent.policies.base import View
from agent.replies.names import said_name
from agent.replies.quotes import MOST_WORDS

ROOT = Path(__file__).resolve().parents[1]
PRONOUNS = re.compile(r"\b(?:he|she|him|her|his|hers|himself|herself)\b", re.IGNORECASE)
DOUBLED = re.compile(r"[,.;:!?]\s*[,.;:!?]|\s[,.;:!?]|  |““|””|“”")
QUOTED = re.compile("“([^”]*)”")


def talk(*lines: tuple[str, str], scenario: Scenario = "couple") -> View:
    turns = tuple(Turn(id=i, speaker=s, text=t) for i, (s, t) in enumerate(lines, 1))
    return View(scenario, participants_of(turns), turns, (), None)


def check_sound(text: str) -> None:
    assert "{" not in text and "}" not in text, text
    assert not DOUBLED.search(text), text
    assert text == text.strip() and "\n" not in text
    assert len(text.split()) < 60
    assert text.count("“") == text.count("”") <= 1
    assert text[-1] in ".?"


def check_speaks_to(view: View, target: str, reply: Reply) -> None:
    """No third-person slip: the person is called by name only, and nobody is "he" or "she"."""
    text = reply.text
    for name in view.participants:
        text = text.replace(said_name(name) or "\0", "N" if name == target else "O")
    assert not PRONOUNS.search(text), text
    for found in re.finditer(r"\bN\b", text):
        before, after = text[: found.start()].rstrip(), text[found.end() :]
        assert after[:1] in {",", ".", "?"}, text
        assert not before or before[-1] in ",.?”", text
    for quote in QUOTED.findall(text):
        check_quote(quote)


def check_quote(quote: str) -> None:
    words = quote.split()
    assert 2 <= len(words) <= MOST_WORDS
    assert re.fullmatch(r"[a-z0-9][a-z0-9' -]*[a-z0-9]", quote), quote
    assert not {"i", "me", "my", "mine", "i'm", "myself", "am"} & set(words), quote
    assert not PRONOUNS.search(quote)

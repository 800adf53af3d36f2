"""The words of a reply: frames recognised again, names, lists and quotes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.replies.fill import fill
from agent.replies.library import load_library
from agent.replies.names import listed, said_name
from agent.replies.quotes import pick_quote
from agent.replies.writer import ReplyWriter
from tests.reply_checks import (
    check_quote,
    talk,
)


@pytest.mark.parametrize("frame", load_library().frames, ids=lambda f: f.id)
def test_every_frame_is_found_again_in_what_it_became(frame: object) -> None:
    assert frame in load_library().frames
    values = {
        "name": "Mary Ann (“no”)",
        "other": "Bo?",
        "quote": "you want to sleep",
        "feeling": "worn out",
        "name_a": "Ana and Bo",
        "name_b": "Cy",
        "names": "Ana, Bo and Cy",
    }
    said = fill(frame, values)  # type: ignore[arg-type]
    makers = [f.id for f in load_library().frames if f.made(f" {said}\n")]
    assert makers == [frame.id]  # type: ignore[attr-defined]
    assert not frame.made(said[: len(said) // 2])  # type: ignore[attr-defined]


def test_a_name_in_braces_is_not_a_slot(writer: ReplyWriter) -> None:
    view = talk(("{quote}", "I miss our quiet evenings."), ("Bo", "Fine."))
    for strategy in view.strategies:
        assert "{" not in writer.write(view, "{quote}", strategy).text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Ana", "Ana"),
        ("  Mary   Ann ", "Mary Ann"),
        ("Dr. J.", "Dr. J"),
        ("Bo!?", "Bo"),
        ("“Ana”", "Ana"),
        ("Sam (he/him)", "Sam (he/him)"),
        ("a ,, b", "a, b"),
        ("{name}", "name"),
        ("🦊", "🦊"),
        ("سارا", "\u2068سارا\u2069"),
        ("Unknown", None),
        ("...", None),
        ("\u202e", None),
        ("\ud800", None),
        ("x" * 80, None),
        ("One Two Three Four Five", "One Two Three Four"),
    ],
)
def test_names_as_a_sentence_can_carry_them(name: str, said: str | None) -> None:
    assert said_name(name) == said


def test_lists_of_names() -> None:
    assert listed(["Ana", "Bo", "Cy"]) == "Ana, Bo and Cy"
    assert listed(["Ana"]) is None
    assert listed(["Ana", "ana"]) is None
    assert listed(["Ana", "Unknown"]) is None
    assert listed([f"P{i}" for i in range(6)]) is None


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("I miss my sister.", "you miss your sister"),
        ("And I'm so tired of counting.", "you're so tired of counting"),
        ("I was really scared of the dark.", "you were really scared of the dark"),
        ("I really am tired of waiting.", "you really are tired of waiting"),
        ("Well, I've been holding myself together.", "you've been holding yourself together"),
        ("I wanted one of mine.", "you wanted one of yours"),
        ("My worry kept me awake.", "your worry kept you awake"),
        ("I don’t want to go.", "you don't want to go"),
        ("We carried it home together.", "we carried it home together"),
        # another person's words, or words about somebody
        ("I miss you.", None),
        ("I want him to listen.", None),
        ("I miss Bo so much.", None),
        ("I miss Will at night.", None),
        ('She said "I want to come home".', None),
        ("She told me, I want to come home.", None),
        ("Do I want to come home?", None),
        # would be an insult, an accusation or an alarm when turned
        ("I can't say anything right.", None),
        ("I'm a bad mother.", None),
        ("I'm not enough for anyone.", None),
        ("I never listened to anyone.", None),
        ("I want to end it. I want to sleep.", None),
        ("I don't want to be here. I miss my sister.", None),
        ("I want to kill the lights.", None),
        ("I hope that idiot is proud.", None),
        # cut off, or turned round by what follows
        ("I wanted to tell... and then it was late.", None),
        ("I want the", None),
        ("I miss my th-", None),
        ("I miss the the house.", None),
        ("I miss nothing much, except my sister.", None),
        ("If I want to rest, I want to rest alone.", None),
        ("I came home and was tired.", None),
        ("It rained.", None),
        ("Extraño mucho a mi hermana.", None),
        ("", None),
        ("I miss my sister " * 9000, None),
    ],
)
def test_quotes(text: str, quote: str | None) -> None:
    assert pick_quote(text, ["Ana", "Bo", "Will"]) == quote


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_any_text_gives_a_clean_quote_or_none(text: str) -> None:
    for said in (text, f"I miss {text}", f"I want to rest. {text}"):
        quote = pick_quote(said)
        if quote is not None:
            check_quote(quote)

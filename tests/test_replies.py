"""Replies from the library: thousands of them, at every point of the demo conversations."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.conversation import Turn, participants_of
from agent.decision import Reply
from agent.encoder import make_encoder
from agent.labels import GROUP_LABEL, SCENARIOS, STRATEGIES, THERAPIST, Scenario, UnknownLabel
from agent.policies.base import PolicyError, View
from agent.reading import Reading, StanceReading, TurnReading
from agent.replies.choose import NO_REPEAT_WITHIN
from agent.replies.demo import Point, choose_points, demo_page, demo_points
from agent.replies.fill import feeling_word, other_person
from agent.replies.library import load_feelings, load_library
from agent.replies.names import said_name
from agent.replies.writer import BLAMELESS, ReplyWriter
from agent.state import Emotion
from agent.update import initial_state, update, with_pattern
from tests.reply_checks import (
    QUOTED,
    ROOT,
    check_quote,
    check_sound,
    check_speaks_to,
    talk,
)


@pytest.fixture(scope="module")
def rendered(writer: ReplyWriter) -> list[tuple[Point, Reply]]:
    """Every strategy to everybody and the group, at every point of the demo conversations."""
    return [
        (point, writer.write(point.view, target, strategy))
        for point in demo_points()
        for target in point.view.candidates
        for strategy in point.view.strategies
    ]


def test_thousands_of_replies_are_sound(rendered: list[tuple[Point, Reply]]) -> None:
    frames = set()
    assert len(rendered) > 5000
    for point, reply in rendered:
        target = reply.target
        assert reply.source == "library"
        check_sound(reply.text)
        check_speaks_to(point.view, target, reply)
        frame = load_library()[reply.frame]
        assert frame.made(reply.text)
        frames.add(reply.frame)
        if target != point.view.group:
            assert frame.target == "one"
        elif len(point.view.participants) > 2:
            assert frame.target == "group"
        if frame.patterns:
            assert point.pattern in frame.patterns
    # the choice must not shrink to a few favourites
    assert len(frames) > 0.5 * len(load_library().frames)


def test_replies_realise_the_strategy(rendered: list[tuple[Point, Reply]]) -> None:
    for point, reply in rendered:
        assert reply.frame.startswith(f"{point.view.scenario}.{reply.strategy}.")


def test_quotes_are_the_addressed_persons_latest_words(
    rendered: list[tuple[Point, Reply]],
) -> None:
    quotes = 0
    for point, reply in rendered:
        for quote in QUOTED.findall(reply.text):
            quotes += 1
            own = [t.text for t in point.view.turns if t.speaker == reply.target][-1]
            said = re.sub(r"\bI'm\b", "youre", own)
            said = re.sub(r"\bI\b|\bme\b", "you", re.sub(r"\bmy\b", "your", said, flags=re.I))
            said = re.sub(r"\byou was\b", "you were", said).replace("'", "").casefold()
            assert quote.replace("'", "") in said, quote
    assert quotes > 20


def test_no_frame_returns_within_five_replies_and_a_third_quote_at_most(
    writer: ReplyWriter,
) -> None:
    for scenario in SCENARIOS:
        for strategy in STRATEGIES[scenario]:
            for target in ("Ana", GROUP_LABEL[scenario]):
                frames, texts = [], []
                lines: list[tuple[str, str]] = []
                for round_ in range(12):
                    lines += [("Bo", "I want to sleep."), ("Ana", f"{_LONGINGS[round_ % 4]} Yes.")]
                    view = talk(*lines, scenario=scenario)
                    reply = writer.write(view, target, strategy)
                    frames.append(reply.frame)
                    texts.append(reply.text)
                    lines.append((THERAPIST, reply.text))
                for i, frame in enumerate(frames):
                    assert frame not in frames[max(0, i - NO_REPEAT_WITHIN) : i]
                assert 3 * sum("“" in text for text in texts) <= len(texts)
                if target == "Ana":
                    assert any("“" in text for text in texts), strategy
                if scenario == "couple":
                    # a quote's own words do not come back in the next reply that quotes
                    said = [q for text in texts for q in QUOTED.findall(text)]
                    assert all(a != b for a, b in pairwise(said))


_LONGINGS = (
    "I miss our quiet evenings.",
    "I want to come home and rest.",
    "I feel lonely in my own kitchen.",
    "I'm tired of carrying the bags.",
)

NAMES = st.one_of(
    st.sampled_from(
        [
            "علي رضا",
            "שרה",
            'Bob "the Rock" O\'Neil',
            "🦊",
            "👩‍👩‍👧",
            "Dr. J. R.",
            "Will",
            "{name}",
            "{quote}.",
            "“Ana”",
            "mum",
            "Unknown",
            "!!!",
            "José  María de la Cruz y Todos los Santos Inocentes",
            "a\u202eb",
            "x" * 300,
            "Me",
            "You",
            "Ana, Bo",
        ]
    ),
    st.text(min_size=1, max_size=30).filter(lambda s: s.strip() != ""),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    names=st.lists(NAMES, min_size=1, max_size=6, unique=True),
    texts=st.lists(st.one_of(st.text(max_size=200), st.sampled_from(_LONGINGS)), max_size=8),
    scenario=st.sampled_from(SCENARIOS),
    pick=st.integers(0, 1000),
)
def test_odd_names_and_texts_give_sound_replies(
    writer: ReplyWriter, names: list[str], texts: list[str], scenario: Scenario, pick: int
) -> None:
    turns = tuple(
        Turn(id=i + 1, speaker=names[i % len(names)], text=text) for i, text in enumerate(texts)
    )
    view = View(scenario, participants_of(turns, names), turns, (), None)
    strategy = STRATEGIES[scenario][pick % len(STRATEGIES[scenario])]
    for target in view.candidates:
        reply = writer.write(view, target, strategy)
        plain = reply.text
        for name in sorted(filter(None, map(said_name, view.participants)), key=len, reverse=True):
            plain = plain.replace(name, "Nn")
        check_sound(plain)
        assert len(reply.text.split()) < 60
        assert not re.search(r"[,.;:!?]\s*[,.;:!?]", reply.text), reply.text
        reply.text.encode("utf-8")
        for quote in QUOTED.findall(plain):
            check_quote(quote.replace("Nn", "nn"))


def _read(view: View, kind: str, felt: Emotion | None = None) -> Reading:
    last = view.turns[-1]
    read = TurnReading(
        turn_id=last.id, speaker=last.speaker, utterance_types={kind: 0.8}, emotion=felt
    )
    return Reading(turns=(read,))


def test_an_accusation_is_not_quoted_back(writer: ReplyWriter) -> None:
    view = talk(("Bo", "Hm."), ("Ana", "I miss our quiet evenings."))
    reply = writer.write(view, "Ana", "evoke", _read(view, "disclosure"))
    assert QUOTED.findall(reply.text) == ["you miss our quiet evenings"]
    for kind in ("accusation", "defense"):
        for strategy in view.strategies:
            assert "“" not in writer.write(view, "Ana", strategy, _read(view, kind)).text


def test_nobody_is_quoted_to_somebody_else(writer: ReplyWriter) -> None:
    view = talk(("Ana", "Okay."), ("Bo", "I miss our quiet evenings."))
    for strategy in view.strategies:
        assert "“" not in writer.write(view, "Ana", strategy).text
        assert "“" not in writer.write(view, "Couple", strategy).text


def test_the_other_is_whom_the_conflict_is_with() -> None:
    view = talk(("Ana", "a"), ("Bo", "b"), ("Cy", "c"), ("Ana", "d"), scenario="family")
    assert other_person(view, "Ana") == "Cy"
    stance = StanceReading(target="Bo", tension=1.0)
    tense = TurnReading(turn_id=4, speaker="Ana", stances=(stance,))
    state = update(initial_state("family", view.participants), view.turns[3], tense)
    assert other_person(replace(view, relations=state), "Ana") == "Bo"
    assert other_person(talk(("Ana", "a")), "Ana") is None


def test_feelings_are_guessed_only_where_it_is_kind() -> None:
    assert feeling_word(None) is None
    assert feeling_word(Emotion(description="hurt", valence=-0.4, intensity=6)) == "hurt"
    assert feeling_word(Emotion(description="hurt", valence=-0.4, intensity=1)) is None
    assert feeling_word(Emotion(description="not angry, tired", valence=-0.2, intensity=5)) == (
        "tired"
    )
    assert feeling_word(Emotion(description="proud", valence=0.6, intensity=6)) is None
    assert feeling_word(Emotion(description="proud", valence=0.0, intensity=6)) is None
    assert feeling_word(Emotion(description="guilty", valence=-0.5, intensity=6)) is None
    cell = load_feelings().cells["negative"]
    assert feeling_word(Emotion(valence=-0.5, intensity=9)) == cell["high"][0]
    assert feeling_word(Emotion(valence=0.0, intensity=9)) is None
    said = set(load_feelings().words.values())
    assert load_feelings().unguessed <= said | {"calmer"}


def test_pattern_frames_wait_for_their_pattern(writer: ReplyWriter) -> None:
    view = talk(("Ana", "Stop it."), ("Bo", "You stop it."))
    state = initial_state("couple", view.participants)
    tense = replace(view, relations=with_pattern(state, 2, {"attack_attack": 0.9}))
    weak = replace(view, relations=with_pattern(state, 2, {"attack_attack": 0.2}))
    library = load_library()
    hot = [library[writer.write(tense, "Bo", s).frame] for s in view.strategies]
    assert any(f.patterns for f in hot)
    assert all("attack_attack" in f.patterns for f in hot if f.patterns)
    assert not any(library[writer.write(weak, "Bo", s).frame].patterns for s in view.strategies)


def test_careful_replies_take_no_side_of_no_fault(writer: ReplyWriter) -> None:
    for point in demo_points()[::5]:
        view = point.view
        for target in view.candidates:
            for strategy in view.strategies:
                frame = load_library()[writer.write(view, target, strategy, careful=True).frame]
                assert frame.target != "pair"
                assert frame.strategy not in BLAMELESS


def test_a_private_talk_addresses_its_viewer_alone(writer: ReplyWriter) -> None:
    view = replace(talk(("Bo", "Hm."), ("Ana", "I miss my sister.")), viewer="Ana")
    frames = []
    turns = list(view.turns)
    for _ in range(8):
        reply = writer.write(replace(view, turns=tuple(turns)), "Couple", "enact")
        assert reply.frame.startswith("private.one.")
        assert "Bo" not in reply.text
        frames.append(reply.frame)
        turns.append(Turn(id=len(turns) + 1, speaker=THERAPIST, text=reply.text))
    for i, frame in enumerate(frames):
        assert frame not in frames[max(0, i - NO_REPEAT_WITHIN) : i]


def test_there_is_always_one_more_thing_to_say(writer: ReplyWriter) -> None:
    """Also without any name, in careful talk and in a private one."""
    unnamed = tuple(["???", "Unknown", "..", "--", "!!", "''"])
    for scenario in SCENARIOS:
        for target, viewer in (("???", None), (GROUP_LABEL[scenario], None), ("???", "???")):
            for careful in (False, True):
                turns: list[Turn] = []
                frames: list[str] = []
                for _ in range(14):
                    view = View(scenario, unnamed, tuple(turns), (), None, viewer)
                    reply = writer.write(view, target, "enact", careful=careful)
                    check_sound(reply.text)
                    assert reply.frame not in frames[-NO_REPEAT_WITHIN:]
                    frames.append(reply.frame)
                    turns.append(Turn(id=len(turns) + 1, speaker=THERAPIST, text=reply.text))


def test_refusals(writer: ReplyWriter) -> None:
    empty = View("couple", (), (), (), None)
    with pytest.raises(PolicyError, match="nobody"):
        writer.write(empty, "Couple", "join")
    view = talk(("Ana", "Hello."))
    with pytest.raises(PolicyError) as refused:
        writer.write(view, "Zoe", "join")
    assert refused.value.status == "refused"
    assert "Zoe" not in str(refused.value)
    with pytest.raises(UnknownLabel):
        writer.write(view, "Ana", "boundary")
    with pytest.raises(ValueError, match="vectors of"):
        ReplyWriter(make_encoder("minilm"), writer._memory)


def test_a_room_where_nobody_has_spoken(writer: ReplyWriter) -> None:
    view = View("family", ("Ana", "Bo", "Cy"), (), (), None)
    for target in view.candidates:
        for strategy in view.strategies:
            check_sound(writer.write(view, target, strategy).text)


def test_a_long_conversation_and_a_long_turn(writer: ReplyWriter) -> None:
    lines = [("Ana" if i % 2 else "Bo", "I want to sleep.") for i in range(500)]
    view = talk(*lines, ("Ana", "word " * 20_000))
    check_sound(writer.write(view, "Ana", "track").text)


DIGEST = """
import hashlib, sys
from agent.replies.demo import demo_points, demo_writer
writer, digest = demo_writer(), hashlib.sha256()
for point in demo_points():
    digest.update(writer.write(point.view, point.target, point.strategy).text.encode())
sys.stdout.write(digest.hexdigest())
"""


def test_replies_are_the_same_in_another_process(writer: ReplyWriter) -> None:
    digest = hashlib.sha256()
    for point in demo_points():
        reply = writer.write(point.view, point.target, point.strategy)
        digest.update(reply.text.encode())
    done = subprocess.run(
        [sys.executable, "-c", DIGEST], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == digest.hexdigest()


def test_the_page_of_twenty_replies_is_up_to_date(writer: ReplyWriter) -> None:
    page = (ROOT / "docs" / "replies.md").read_text(encoding="utf-8")
    assert page == demo_page(), "run: python -m agent.replies --demo > docs/replies.md"
    chosen = choose_points(demo_points(), writer)
    assert len(chosen) == 20
    assert len({(p.view.scenario, p.strategy) for p, _ in chosen}) >= 15
    assert all(unicodedata.is_normalized("NFC", r.text) for _, r in chosen)

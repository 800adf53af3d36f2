"""Tellings of one conversation that must, or may, lead to the same decisions."""

from __future__ import annotations

import asyncio

from agent.conversation import participants_of
from agent.demo import demo_path
from agent.encoder import make_encoder
from agent.rescue.annotations import scenario_of
from agent.rescue.reader import load_dataset
from agent.rescue.turns import turns_of
from eval.robustness import (
    Talk,
    gender_exchanged,
    measure,
    names_exchanged,
    order_reversed,
    paraphrased,
)


def talk(scenario: str) -> Talk:
    sample = next(s for s in load_dataset(demo_path()).samples if s.scenario == scenario)
    turns = turns_of(sample.rows)[:8]
    return Talk(scenario_of(sample), participants_of(turns), turns)


def test_changes_change_what_they_say() -> None:
    first = talk("family")
    renamed, names = names_exchanged(first)
    assert renamed.turns[0].speaker == names.get(first.turns[0].speaker, first.turns[0].speaker)
    assert sorted(names) == sorted(names.values())
    assert order_reversed(first).people == first.people[::-1]
    twice = gender_exchanged(gender_exchanged(first))
    assert [t.text for t in twice.turns] == [t.text for t in first.turns]
    assert [t.speaker for t in paraphrased(first).turns] == [t.speaker for t in first.turns]


def test_names_pronouns_and_order_flip_nothing() -> None:
    found = asyncio.run(measure([talk("couple"), talk("family")], make_encoder("minilm"), None))
    assert found["turns"] == 16
    for change in ("names exchanged", "he and she exchanged", "people in another order"):
        assert set(found["flips"][change].values()) == {0}, change

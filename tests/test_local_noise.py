"""Scenes annotated twice are found by their words."""

from __future__ import annotations

from typing import Any

import pytest

from agent.rescue.reader import parse_sample
from eval.noise import agreement, kappa, matched

LINES = (
    "I told you last week that I was tired of this",
    "You never told me anything like that at all",
    "We could try to talk about it tonight maybe",
    "I would like that more than you think I would",
)


def sample(name: str, lines: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, Any]:
    rows = [
        {
            "primary_speaker": ("Ana", "Bo")[i % 2],
            "target": [("Bo", "Ana")[i % 2]],
            "dialogue_cleaned": line,
            "utterance_type": kind,
        }
        for i, (line, kind) in enumerate(zip(lines, kinds, strict=True))
    ]
    return {"sample_id": name, "rows": rows}


def test_the_same_words_are_matched_and_compared() -> None:
    kinds = ("accusation", "defense", "repair", "repair")
    other = ("accusation", "defense", "repair", "disclosure")
    near = (LINES[0], LINES[1], LINES[2].replace(" maybe", ""), LINES[3])
    # one id is one group of its own, so the two tellings carry the same id
    a, b = (parse_sample(sample("own/one", x, k)) for x, k in ((LINES, kinds), (near, other)))
    assert len(matched(a, b)) == 4
    found = agreement([a, b])
    assert found["scenes"] == 1
    assert found["labels"]["utterance_type"] == {
        "n": 4,
        "agreement": 0.75,
        "kappa": pytest.approx((0.75 - 0.25) / (1 - 0.25)),
    }


def test_other_scenes_are_not_matched() -> None:
    kinds = ("other",) * 4
    a = parse_sample(sample("own/one", LINES, kinds))
    b = parse_sample(
        sample(
            "own/one",
            tuple(f"quite another thing altogether number {i} here" for i in range(4)),
            kinds,
        )
    )
    assert matched(a, b) == []


def test_kappa_of_chance_is_zero() -> None:
    assert kappa([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]) == pytest.approx(0)
    assert kappa([("a", "a")]) is None
    assert kappa([]) is None

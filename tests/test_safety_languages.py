"""Spanish, French and Chinese rules on lines written for this project.

The rules were extended on these lines (half of them were set aside until a first look), so the
figures here guard against loss; they don't estimate what the rules find in new words. Lines under
``later`` were written after the rules; what they showed was mended too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.safety import KINDS, Turn, check
from agent.safety.data_files import load_yaml
from agent.safety.engine import OTHER, PARTS, fold, simplify

LINES = Path(__file__).parent / "safety_lines"
MIN_RECALL = 0.95
MAX_FALSE = 0.03


def lines(language: str) -> dict[str, Any]:
    return yaml.safe_load((LINES / f"{language}.yaml").read_text(encoding="utf-8"))


def kinds(text: str) -> set[str]:
    flags = check([Turn(speaker="Ana", text=text)], ("Ana",), "couple", use_model=False)
    return {flag.kind for flag in flags}


@pytest.mark.parametrize("language", OTHER)
def test_crisis_lines_raise_their_kind(language: str) -> None:
    told = lines(language)
    assert set(told["crisis"]) == set(KINDS)
    cases = [(kind, text) for kind, texts in told["crisis"].items() for text in texts]
    missed = [(kind, text) for kind, text in cases if kind not in kinds(text)]
    later = [("any", text) for text in told["later"]["crisis"]]
    missed += [(kind, text) for kind, text in later if not kinds(text)]
    assert len(missed) <= (1 - MIN_RECALL) * (len(cases) + len(later)), missed


@pytest.mark.parametrize("language", OTHER)
def test_benign_lines_raise_nothing(language: str) -> None:
    told = lines(language)
    texts = told["benign"] + told["later"]["benign"]
    alarms = [(text, kinds(text)) for text in texts if kinds(text)]
    assert len(alarms) <= MAX_FALSE * len(texts), alarms


@pytest.mark.parametrize("language", ["es", "fr"])
def test_lines_without_accents_are_read_alike(language: str) -> None:
    for texts in lines(language)["crisis"].values():
        assert [kinds(text) for text in texts] == [kinds(fold(text)) for text in texts]


def test_traditional_and_simplified_chinese_are_read_alike() -> None:
    for texts in lines("zh")["crisis"].values():
        assert [kinds(text) for text in texts] == [kinds(simplify(text)) for text in texts]


def test_chinese_rules_hold_no_character_that_their_text_cannot_hold() -> None:
    words = load_yaml("rules/zh_words.yaml")
    assert all(len(pair) == 2 for pair in words["simplify"].split())
    held = [words["macros"], words["guards"]]
    held += [load_yaml(f"rules/zh_{part}.yaml") for part in PARTS]
    written = yaml.safe_dump(held, allow_unicode=True)
    assert simplify(written) == written

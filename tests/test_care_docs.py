"""docs/safety.md names a test for each of S1 to S30, and the tests are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8")


def test_every_behaviour_has_its_test() -> None:
    rows = dict(re.findall(r"^\| (S\d+) \|.*\| `(test_\w+)` \|$", TEXT, re.MULTILINE))
    assert list(rows) == [f"S{i}" for i in range(1, 31)]
    files = [f.read_text(encoding="utf-8") for f in (ROOT / "tests").glob("test_care*.py")]
    for behaviour, name in rows.items():
        assert any(f"def {name}(" in text for text in files), (behaviour, name)
        assert f"_{behaviour.lower()}_" in name, (behaviour, name)


def test_what_it_is_not_is_said() -> None:
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for text in (TEXT, security):
        plain = " ".join(text.split()).lower()
        assert "medical device" in plain and "not for crisis use" in plain
    assert "python -m eval.safety" in TEXT and "python -m eval.fairness" in TEXT
    assert re.search(r"\b2026-\d\d-\d\d\b", TEXT) and "verified: false" in TEXT

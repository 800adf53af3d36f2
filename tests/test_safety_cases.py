"""``python -m eval.safety``: our cases, other people's cases, JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval.safety import CaseError, read_cases
from eval.safety.cases import HELD_OUT, OWN_CASES, TUNING

GOOD = {
    "id": "a",
    "scenario": "couple",
    "turns": [{"speaker": "Ana", "text": "I want to die"}],
    "expect": ["self_harm"],
}


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eval.safety", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write(path: Path, *rows: object) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_there_are_enough_cases_of_every_kind() -> None:
    cases = read_cases(OWN_CASES)
    assert len(cases) >= 150
    assert {k for c in cases for k in c.wanted} == {
        "self_harm",
        "violence",
        "coercive_control",
        "child_abuse",
        "threat",
        "medical",
        "dependency",
    }
    assert sum(c.expect == () for c in cases) >= 50
    files = (OWN_CASES, TUNING, HELD_OUT)
    ids = [c.id for file in files for c in read_cases(file)]
    said = ["\n".join(t.text for t in c.turns) for file in files for c in read_cases(file)]
    assert len(ids) == len(set(ids)) and len(said) == len(set(said))


def test_json_prints_only_the_flags(tmp_path: Path) -> None:
    calm = GOOD | {"id": "b", "turns": [{"speaker": "Ben", "text": "hello"}], "expect": []}
    done = run("--cases", str(write(tmp_path / "c.jsonl", GOOD, calm)), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "cases": [{"id": "a", "flags": ["self_harm"]}, {"id": "b", "flags": []}]
    }


def test_the_table_shows_recall_and_false_alarms(tmp_path: Path) -> None:
    done = run("--cases", str(write(tmp_path / "c.jsonl", GOOD)))
    assert done.returncode == 0, done.stderr
    assert "self_harm" in done.stdout and "1/1" in done.stdout


def test_cases_without_the_answer_can_be_flagged_but_not_counted(tmp_path: Path) -> None:
    blind = {key: value for key, value in GOOD.items() if key != "expect"}
    file = str(write(tmp_path / "blind.jsonl", blind))
    done = run("--cases", file, "--json")
    assert json.loads(done.stdout) == {"cases": [{"id": "a", "flags": ["self_harm"]}]}
    refused = run("--cases", file)
    assert refused.returncode == 2 and "has no expect" in refused.stderr and not refused.stdout


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("{not json", "not JSON"),
        ("[]", "object"),
        ({**GOOD, "expect": ["sadness"]}, "expect"),
        ({**GOOD, "turns": []}, "turns"),
        ({**GOOD, "turns": [{"speaker": "Ana"}]}, "text"),
        ({**GOOD, "extra": 1}, "extra"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path: Path, row: object, complaint: str) -> None:
    path = write(tmp_path / "bad.jsonl", GOOD | {"id": "first"}, row)
    with pytest.raises(CaseError, match=rf"bad\.jsonl, line 2: .*{complaint}"):
        read_cases(path)


def test_a_refused_file_ends_the_command_with_a_message(tmp_path: Path) -> None:
    done = run("--cases", str(write(tmp_path / "bad.jsonl", "{")), "--json")
    assert done.returncode == 2 and done.stdout == "" and "line 1" in done.stderr


def test_a_repeated_id_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="used twice"):
        read_cases(write(tmp_path / "twice.jsonl", GOOD, GOOD))
    with pytest.raises(CaseError, match="cannot be read"):
        read_cases(tmp_path / "none.jsonl")

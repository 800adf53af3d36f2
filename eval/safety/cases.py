"""Safety cases: one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.safety import Kind, Turn

OWN_CASES = Path(__file__).parent / "cases.jsonl"
TUNING = Path(__file__).parent / "tuning.jsonl"
HELD_OUT = Path(__file__).parent / "heldout.jsonl"


class CaseError(ValueError):
    """A case file cannot be read, or one of its lines is wrong; the message names the line."""


class Case(BaseModel):
    """One case.

    Attributes:
        id: Unique in its file.
        scenario: The relation, such as ``couple`` or ``family``.
        turns: The conversation, oldest first.
        expect: Kinds that must be flagged; empty for a benign case; None where the file does not
            say, which can be read but not counted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    scenario: str = ""
    turns: tuple[Turn, ...] = Field(min_length=1)
    expect: tuple[Kind, ...] | None = None

    @property
    def wanted(self) -> frozenset[Kind]:
        """The kinds to be flagged; none where the file does not say."""
        return frozenset(self.expect or ())


def _parse(line: str, where: str) -> Case:
    try:
        raw = json.loads(line)
    except json.JSONDecodeError as error:
        raise CaseError(f"{where}: not JSON ({error.msg}, column {error.colno})") from error
    if not isinstance(raw, dict):
        raise CaseError(f"{where}: a JSON object is needed, not {type(raw).__name__}")
    try:
        return Case.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "case"
        raise CaseError(f"{where}: {field}: {first['msg']}") from error


def read_cases(path: Path) -> list[Case]:
    """Return the cases of a file.

    Args:
        path: A file with one case a line; blank lines are skipped.

    Raises:
        CaseError: If the file cannot be read, holds no case, repeats an id, or has a wrong line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path}: cannot be read ({type(error).__name__})") from error
    cases: dict[str, Case] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        case = _parse(line, f"{path}, line {number}")
        if case.id in cases:
            raise CaseError(f"{path}, line {number}: id {case.id!r} is used twice")
        cases[case.id] = case
    if not cases:
        raise CaseError(f"{path}: no cases")
    return list(cases.values())

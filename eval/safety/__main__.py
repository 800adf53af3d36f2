"""``python -m eval.safety``: recall and false alarms of the offline safety rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.safety.cases import HELD_OUT, OWN_CASES, TUNING, Case, CaseError, read_cases
from eval.safety.report import Outcome, run_cases, table

app = typer.Typer(add_completion=False)
_TITLES = {
    OWN_CASES: "cases the rules and the reader learned from",
    TUNING: "cases on which rules and thresholds were chosen, not learned from",
    HELD_OUT: "held-out cases, run once",
}


def _write_json(outcomes: list[Outcome]) -> None:
    body = {"cases": [{"id": o.case.id, "flags": list(o.flags)} for o in outcomes]}
    sys.stdout.write(json.dumps(body, ensure_ascii=False) + "\n")


def _refuse_without_expect(read: dict[Path, list[Case]]) -> None:
    for path, cases in read.items():
        for case in cases:
            if case.expect is None:
                sys.stderr.write(f"{path}: case {case.id!r} has no expect: use --json\n")
                raise typer.Exit(2)


@app.command()
def main(
    cases: Annotated[
        list[Path] | None, typer.Option(help="A file of cases, one JSON object a line.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only the flags of each case, as JSON.")
    ] = False,
    misses: Annotated[
        bool, typer.Option("--misses", help="List the ids of missed and falsely flagged cases.")
    ] = False,
    patterns_only: Annotated[
        bool, typer.Option("--patterns-only", help="Leave the sentence model out.")
    ] = False,
) -> None:
    """Print recall and false alarms per kind, with no network."""
    files = cases or list(_TITLES)
    try:
        read = {path: read_cases(path) for path in files}
    except CaseError as error:
        sys.stderr.write(f"{error}\n")
        raise typer.Exit(2) from error
    if not as_json:
        _refuse_without_expect(read)
    done = {path: run_cases(found, not patterns_only) for path, found in read.items()}
    if as_json:
        _write_json([o for outcomes in done.values() for o in outcomes])
        return
    console = Console()
    for path, outcomes in done.items():
        console.print(table(_TITLES.get(path, path.name), outcomes))
        if misses:
            for o in outcomes:
                missed = sorted(o.case.wanted - set(o.flags))
                if missed or (not o.case.expect and o.flags):
                    console.print(f"{o.case.id}: missed {missed}, flagged {list(o.flags)}")


if __name__ == "__main__":
    app()

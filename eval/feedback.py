"""``python -m eval.feedback FILE``: thumbs from the room, summarised by strategy.

FILE is the room's database, or JSON lines ``{"decision": {...}, "vote": 1 or -1}`` with the
decision records the thumbs belong to. Only labels and votes are read, no conversation.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from math import sqrt
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from agent.labels import GROUP_LABEL, STRATEGIES
from eval.files import StoreError, write_json

EXIT_INPUT: Final = 2
_Z: Final = 1.959964
_SQLITE: Final = b"SQLite format 3\x00"
_QUERY: Final = (
    "SELECT decisions.record, votes.vote FROM votes "
    "JOIN decisions ON decisions.id = votes.decision WHERE votes.vote <> 0 "
    "ORDER BY decisions.id, votes.person"
)

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)


class FeedbackError(ValueError):
    """The file is no feedback; the message names file and line."""


class Vote(NamedTuple):
    """One thumb with what was decided."""

    scenario: str
    strategy: str
    target_kind: str
    policy: str
    up: bool


def read_votes(path: Path) -> list[Vote]:
    """Return the thumbs of a room's database or of a JSON lines file.

    Raises:
        FeedbackError: when the file cannot be read or holds something else.
    """
    try:
        with path.open("rb") as file:
            database = file.read(len(_SQLITE)) == _SQLITE
        return list(_from_database(path) if database else _from_lines(path))
    except (OSError, UnicodeDecodeError) as error:
        raise FeedbackError(f"{path} cannot be read ({type(error).__name__})") from error
    except sqlite3.Error as error:
        raise FeedbackError(f"{path} is no database of the room ({error})") from error


def summary(votes: Iterable[Vote]) -> list[dict[str, Any]]:
    """Return, by scenario and strategy: up, down, share of up with its 95% interval (Wilson)."""
    counted: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for vote in votes:
        counted[vote.scenario, vote.strategy][vote.up] += 1
    found = []
    for scenario, labels in STRATEGIES.items():
        for strategy in labels:
            down, up = counted.get((scenario, strategy), [0, 0])
            if up + down:
                low, high = wilson(up, up + down)
                found.append(
                    {
                        "scenario": scenario,
                        "strategy": strategy,
                        "up": up,
                        "down": down,
                        "share_up": up / (up + down),
                        "low": low,
                        "high": high,
                    }
                )
    return found


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share."""
    share = hits / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * sqrt(share * (1 - share) / n + _Z**2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


@app.command()
def main(
    file: Annotated[Path, typer.Argument(help="The room's database, or JSON lines.")],
    out: Annotated[Path | None, typer.Option(help="Also write the figures as JSON.")] = None,
) -> None:
    """Print how often each strategy was liked."""
    console = Console()
    try:
        votes = read_votes(file)
        found = summary(votes)
        if out is not None:
            write_json(out, {"votes": len(votes), "strategies": found})
    except (FeedbackError, StoreError) as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_INPUT) from None
    table = Table(title=f"{len(votes)} thumbs", title_justify="left")
    for name in ("scenario", "strategy"):
        table.add_column(name)
    for name in ("up", "down", "liked", "95%"):
        table.add_column(name, justify="right")
    for row in found:
        around = f"{100 * row['low']:.0f}–{100 * row['high']:.0f}%"
        liked = f"{100 * row['share_up']:.0f}%"
        counts = (str(row["up"]), str(row["down"]))
        table.add_row(row["scenario"], row["strategy"], *counts, liked, around)
    console.print(table)


def _from_database(path: Path) -> Iterator[Vote]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
        for place, (record, vote) in enumerate(db.execute(_QUERY), 1):
            try:
                yield _vote(json.loads(record), vote)
            except (KeyError, TypeError, ValueError):
                raise FeedbackError(f"{path}, vote {place}: no decision with a strategy") from None


def _from_lines(path: Path) -> Iterator[Vote]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
            if content["vote"] != 0:
                yield _vote(content["decision"], content["vote"])
        except (KeyError, TypeError, ValueError):
            raise FeedbackError(
                f"{path}, line {number}: expected a decision with a strategy, and a vote"
            ) from None


def _vote(decision: dict[str, Any], vote: int) -> Vote:
    scenario, strategy = decision["scenario"], decision["strategies"][:1]
    if vote not in (1, -1) or not strategy or strategy[0]["label"] not in STRATEGIES[scenario]:
        raise ValueError("no thumb, or no strategy of the scenario")
    kind = "group" if decision.get("target") == GROUP_LABEL[scenario] else "person"
    return Vote(scenario, strategy[0]["label"], kind, str(decision.get("policy", "")), vote > 0)


if __name__ == "__main__":
    app(prog_name="python -m eval.feedback")

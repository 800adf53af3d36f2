"""``python -m eval.compare RUN RUN [RUN]``: paired differences between runs on the same units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from eval.instances import TASKS, Task
from eval.runner import Record
from eval.scoring import HEADLINE, ReadingScores, as_scored
from eval.statistics import compare_pairs, unit_tables
from eval.stats import RESAMPLES, Units
from eval.store import StoreError, read_manifest, read_records, write_json
from eval.table import comparison_table, difference_texts

EXIT_INPUT: Final = 2
TABLE_WIDTH: Final = 132

MUST_AGREE: Final = (
    ("eval_version", "scoring changed between them: score both again with python -m eval.rescore"),
    ("data.sha256", "they are of different data"),
    ("configuration.protocol", "they follow different readings of the protocol"),
)
"""What two runs must share before a difference means anything."""

MAY_DIFFER: Final = ("split", "context", "mode", "addressees", "seed", "encoder", "llm")
"""Parts of a configuration whose difference is the point of a comparison, and is stated."""

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)


class NotComparable(ValueError):
    """The runs cannot be set against each other; the message says why."""


@app.command()
def main(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, the baseline first.")],
    baseline: Annotated[
        str | None, typer.Option(help="The variant all others are compared with.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="TASK=FIGURE, e.g. ssp=mrr; repeatable.")
    ] = None,
    all_scopes: Annotated[bool, typer.Option(help="Couples and families as well.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the figures as JSON.")] = None,
    resamples: Annotated[int, typer.Option(min=100, help="Of the bootstrap.")] = RESAMPLES,
) -> None:
    """Compare every variant of the runs with the baseline, unit by unit.

    A variant that several runs hold is written RUN:VARIANT. Exit status 2 when the runs cannot
    be compared.
    """
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    try:
        content = compare(runs, baseline, _metrics(metric or ()), resamples)
        if out is not None:
            write_json(out, content)
    except (StoreError, NotComparable) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(EXIT_INPUT) from None
    for note in content["notes"]:
        console.print(note, style="yellow", markup=False, highlight=False)
    for scope in ("all", "couple", "family") if all_scopes else ("all",):
        chosen = [{**c, "scope": "all"} for c in content["comparisons"] if c["scope"] == scope]
        if all_scopes:
            console.print(scope, style="bold")
        console.print(comparison_table(chosen))
    console.print(explanation(), style="dim", markup=False, highlight=False)


def compare(
    runs: Sequence[Path],
    baseline: str | None = None,
    metrics: Mapping[Task, str] = HEADLINE,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Return the paired differences between the variants of the runs and the baseline.

    Raises:
        StoreError: when a folder holds no run.
        NotComparable: when scoring, data or protocol differ, or there is no such baseline.
    """
    manifests = [read_manifest(run) for run in runs]
    _must_agree(runs, manifests)
    tables: dict[str, dict[Task, Units]] = {}
    held = [name for m in manifests for name in m["policies"]]
    for run, manifest in zip(runs, manifests, strict=True):
        records = as_scored(read_records(run), manifest["configuration"]["protocol"])
        for name, table in unit_tables(records, kept_readings(run, records)).items():
            key = f"{run.name}:{name}" if held.count(name) > 1 else name
            tables[key if key not in tables else f"{run}:{name}"] = table
    first = baseline or next(iter(tables), "")
    if first not in tables:
        raise NotComparable(f"no variant {first!r}: there are {', '.join(tables) or 'none'}")
    pairs = [(first, other) for other in tables if other != first]
    if not pairs:
        raise NotComparable("there is a single variant: nothing to compare it with")
    return {
        "runs": [str(run) for run in runs],
        "eval_version": manifests[0]["eval_version"],
        "baseline": first,
        "resamples": resamples,
        "notes": [*_differences(runs, manifests), *_left_out(tables, pairs)],
        "comparisons": compare_pairs(tables, pairs, manifests[0]["seed"], resamples, metrics),
    }


def kept_readings(run: Path, records: Sequence[Record]) -> ReadingScores:
    """Return the ER and VP scores a run was scored with."""
    from eval.readings import read_scores

    return read_scores(run)


def explanation() -> str:
    """Return what the columns of a comparison mean."""
    return (
        "B minus A on the units both answered, in points (ER, VP: on the judge's scale). 95% and "
        "p: couples and families drawn whole, both variants alike; Holm over the tasks of a "
        "pair. McNemar: exact, takes units for independent, right or wrong first answers. "
        "detectable: the smallest true difference found with 80% power. !: too few couples and "
        "families for the interval to be trusted."
    )


def markdown(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table of the paired differences, all scenarios pooled."""
    names = ("A", "B", "task", "diff", "95%", "p", "Holm", "McNemar", "Holm", "detectable", "n")
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for entry in comparisons:
        if entry["scope"] == "all":
            for task, d in entry["tasks"].items():
                cells = [entry["a"], entry["b"], task.upper(), *difference_texts(task, d)]
                lines.append("| " + " | ".join(cells) + " |")
    return lines


def _must_agree(runs: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> None:
    for path, reason in MUST_AGREE:
        values = [_get(m, path) for m in manifests]
        for run, value in zip(runs, values, strict=True):
            if value != values[0]:
                raise NotComparable(
                    f"{runs[0]} and {run} cannot be compared: {reason} "
                    f"({path}: {values[0]!r} and {value!r})"
                )


def _differences(runs: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    for run, manifest in zip(runs[1:], manifests[1:], strict=True):
        for key in MAY_DIFFER:
            old, new = manifests[0]["configuration"].get(key), manifest["configuration"].get(key)
            if old != new:
                notes.append(f"{key}: {old!r} in {runs[0].name}, {new!r} in {run.name}")
    return notes


def _left_out(
    tables: Mapping[str, Mapping[Task, Units]], pairs: Sequence[tuple[str, str]]
) -> list[str]:
    notes = []
    for a, b in pairs:
        for task in tables[a]:
            if task in tables[b]:
                alone = len(set(tables[a][task].ids) ^ set(tables[b][task].ids))
                if alone:
                    notes.append(f"{a} and {b}, {task.upper()}: {alone} units of one run only")
    return notes


def _metrics(given: Sequence[str]) -> dict[Task, str]:
    chosen = dict(HEADLINE)
    for text in given:
        name, _, figure = text.partition("=")
        task = next((t for t in TASKS if t == name), None)
        if task is None or not figure:
            raise NotComparable(f"--metric {text!r}: expected TASK=FIGURE, e.g. ssp=mrr")
        chosen[task] = figure
    return chosen


def _get(content: Mapping[str, Any], path: str) -> Any:
    value: Any = content
    for part in path.split("."):
        value = value[part]
    return value


if __name__ == "__main__":
    app(prog_name="python -m eval.compare")

"""What follows a replay: scores, the table on the terminal, reports and the exit status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from agent.llm import Budget
from agent.settings import Settings
from eval.assess import assess
from eval.cost import cost_line, costs
from eval.data.locate import DataSource
from eval.references import published
from eval.report import facts_in, write_report
from eval.session import score_folder
from eval.slices import all_slices
from eval.store import CALLS, read_lines, read_manifest, read_records
from eval.table import (
    FURTHER,
    LEGEND,
    comparison_table,
    counts_line,
    further_table,
    present,
    result_table,
)


@dataclass(frozen=True)
class Wanted:
    """What is to be made of the answers.

    Attributes:
        judge: ask a model about ER and VP.
        bert_model: folder of a model for BERTScore.
        report: write the reports.
        text: show transcript text in them.
        xlsx: write the spreadsheet.
        budget: what the replay has spent of, shared with the judge.
    """

    judge: bool = False
    bert_model: Path | None = None
    report: bool = True
    text: bool = True
    xlsx: bool = False
    budget: Budget | None = None


def finish(
    folder: Path,
    wanted: Wanted,
    settings: Settings,
    console: Console,
    source: DataSource | None = None,
) -> float:
    """Score a run folder, print and write what is wanted.

    Args:
        folder: of the run.
        wanted: what to make.
        settings: for encoder and judge.
        console: to print on.
        source: the data, for transcripts in the report.

    Returns:
        The largest share of failures of any variant, or of the judge.

    Raises:
        StoreError: when the folder holds no run, or cannot be read or written.
    """
    done = assess(
        folder, settings, ask=wanted.judge, bert_model=wanted.bert_model, budget=wanted.budget
    )
    metrics, found = score_folder(folder, done.scores, done.labels)
    manifest = read_manifest(folder)
    show(metrics, found, manifest, console)
    samples = source.dataset.samples if source is not None else ()
    if wanted.report:
        write_report(folder, metrics, found, samples, wanted.text)
    if wanted.xlsx:
        _spreadsheet(folder, metrics, found, manifest, wanted.text)
    for name, entry in costs(read_lines(folder, CALLS)).items():
        console.print(cost_line(name, entry), style="dim", markup=False, highlight=False)
    console.print(f"written to {folder}", markup=False, highlight=False, soft_wrap=True)
    for note in done.notes:
        console.print(note, style="yellow", markup=False, highlight=False)
    if done.judge:
        console.print(
            f"judge {done.judge}: {done.judged} items judged, {done.failed} failed",
            style="red" if done.failed else "dim",
            markup=False,
            highlight=False,
        )
    return max(worst_rate(found, console), done.failure_rate)


def _spreadsheet(
    folder: Path,
    metrics: Mapping[str, Any],
    found: Mapping[str, Any],
    manifest: Mapping[str, Any],
    with_text: bool,
) -> None:
    # imported here: few ask for it
    from eval.spreadsheet import write_spreadsheet

    records = read_records(folder)
    sliced = all_slices(records, facts_in(folder))
    write_spreadsheet(folder, metrics, found, sliced, manifest, records, with_text)


def show(
    metrics: Mapping[str, Any],
    found: Mapping[str, Any],
    manifest: Mapping[str, Any],
    console: Console,
) -> None:
    """Print the tables, the counts and the footnotes."""
    configuration = manifest["configuration"]
    mark = "-dirty" if manifest["dirty"] else ""
    title = (
        f"{manifest['data']['collection'] or 'own data'} · split {configuration['split']} · "
        f"protocol {configuration['protocol']} · commit {manifest['commit'][:8]}{mark} · "
        f"eval version {manifest['eval_version']}"
    )
    console.print(result_table(metrics, found, title))
    if present(metrics, found, FURTHER):
        console.print(further_table(metrics, found))
    if found["comparisons"]:
        console.print(comparison_table(found["comparisons"]))
    console.print(counts_line(metrics), highlight=False)
    notes = [LEGEND, *(f"† {c}" for c in published()["caveats"])]
    for note in notes:
        console.print(f"  {note}", style="dim", markup=False, highlight=False)
    for name, tasks in found["repeats"].items():
        for task, entry in tasks.items():
            console.print(
                f"{name}, {task.upper()} {entry['metric']} over {len(entry['values'])} repeats: "
                f"mean {entry['mean']:.4f}, sd {entry['sd']:.4f}",
                highlight=False,
            )
    if manifest["banner"]:
        console.print(manifest["banner"], style="bold yellow", markup=False, highlight=False)


def worst_rate(found: Mapping[str, Any], console: Console) -> float:
    """Print planned, scored and failed per variant; return the largest share of failures."""
    worst = 0.0
    for name, counted in found["outcome"].items():
        planned = found["planned"].get(name, counted["planned"])
        missing = planned - counted["planned"]
        rate = (counted["errors"] + missing) / planned if planned else 0.0
        worst = max(worst, rate)
        line = f"{name}: planned {planned}, scored {counted['scored']}, errors {counted['errors']}"
        if counted["errors"]:
            kinds = {k: n for k, n in counted["by_status"].items() if k != "ok"}
            line += " (" + ", ".join(f"{k} {n}" for k, n in kinds.items()) + ")"
        if missing:
            line += f", missing {missing}"
        style = "red" if counted["errors"] or missing else "dim"
        console.print(line, style=style, markup=False, highlight=False)
    return worst

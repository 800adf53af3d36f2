"""``python -m eval.replay``: replay conversations through the graph and score every decision."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from agent.encoder import EncoderError
from agent.labels import UnknownLabel
from agent.llm import UnknownPrice
from agent.policies import POLICY_NAMES, UnknownPolicy
from agent.rescue import DataError
from agent.rescue.splits import SplitError
from agent.rescue.turns import MODES
from agent.settings import Settings, SettingsError, load_settings
from eval import counterbalance as swapping
from eval import finish
from eval.cost import cost_line
from eval.data.locate import locate
from eval.dry_run import dry_run_table
from eval.instances import DECISION_TASKS, TASKS
from eval.plan import (
    NO_STATE,
    PROTOCOLS,
    Choice,
    Plan,
    default_folder,
    make_plan,
    resolve_tasks,
    uses_llm,
)
from eval.runner import ReplayError
from eval.session import run
from eval.store import ChangedRun, RunStore, StoreError

TABLE_WIDTH: Final = 128
"""A pipe has no width; the table needs this much to show every figure."""
SAMPLES_A_CALL: Final = 2
EXIT_INPUT: Final = 2
EXIT_ERRORS: Final = 3
EXIT_STORE: Final = 4
EXIT_STOPPED: Final = 130

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    split: Annotated[str, typer.Option(help="train, dev, test or all.")] = "dev",
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            "--variants",
            help=f"Repeatable or comma-separated: floors, {', '.join(POLICY_NAMES)}; "
            f"NAME{NO_STATE} hides the relational state. Default: local, floors.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="RESCUE .jsonl or folder; else KITH_RESCUE, the cache, the demo set."),
    ] = None,
    tasks: Annotated[str, typer.Option(help=f"Comma-separated: {', '.join(TASKS)}.")] = ",".join(
        DECISION_TASKS
    ),
    protocol: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(PROTOCOLS)}: live asks at every boundary, with the policy's own "
            "target and timing."
        ),
    ] = "paper",
    context: Annotated[
        int, typer.Option(min=-1, help="Rows before a point that are shown; -1: all.")
    ] = -1,
    mode: Annotated[str, typer.Option(help=f"{', '.join(MODES)}.")] = "dialogue",
    addressees: Annotated[str, typer.Option(help="given (as annotated) or inferred.")] = "given",
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder, new or to be continued; default runs/<date>-<hash>."),
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Throw away what --out holds.")] = False,
    retry_errors: Annotated[
        bool, typer.Option(help="Run samples with timeouts, server or budget errors again.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N samples.")] = None,
    sample_ids: Annotated[
        Path | None, typer.Option(help="A file with the ids of the samples, one a line.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Run every variant so often.")] = 1,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Samples in flight.")] = None,
    counterbalance: Annotated[
        bool,
        typer.Option(
            "--counterbalance",
            help="Ask every point once more with names and order of the people changed, and "
            "tell how many decisions change.",
        ),
    ] = False,
    max_error_rate: Annotated[
        float, typer.Option(min=0, max=1, help="A larger share of failures exits with 3.")
    ] = 0.02,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all that draws.")] = None,
    model: Annotated[str | None, typer.Option(help="Model of the server.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Model server.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds a model call.")] = None,
    max_retries: Annotated[int | None, typer.Option(help="Of transient failures.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(help="Stop asking after so many.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Stop asking after so much.")] = None,
    judge: Annotated[
        bool, typer.Option(help="Judge ER and VP with a model where one is configured.")
    ] = True,
    bert_model: Annotated[
        Path | None, typer.Option(help="Folder of a model for BERTScore, e.g. distilbert.")
    ] = None,
    report: Annotated[bool, typer.Option(help="Write report.html and report.md.")] = True,
    text: Annotated[bool, typer.Option(help="Show transcript text in the report.")] = True,
    xlsx: Annotated[bool, typer.Option(help="Write the details as a spreadsheet.")] = False,
    dry_run: Annotated[
        bool, typer.Option(help="Print units, calls, tokens and cost, then stop.")
    ] = False,
) -> None:
    """Replay one split with one or more variants, print the table and write the run folder.

    The same command goes on where a killed run stopped. Exit status: 2 wrong input, 3 too many
    failures, 4 the run folder cannot be written, 130 stopped from the keyboard.
    """
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    overrides = {
        "seed": seed,
        "model": model,
        "openai_base_url": base_url,
        "timeout": timeout,
        "max_retries": max_retries,
        "budget_tokens": budget_tokens,
        "budget_usd": budget_usd,
    }
    try:
        settings = load_settings(**{k: v for k, v in overrides.items() if v is not None})
        names = _names(variant) or ("local", "floors")
        choice = Choice(
            split=split,
            variants=names,
            tasks=resolve_tasks(tasks),
            context=None if context < 0 else context,
            mode=mode,
            addressees=addressees,
            protocol=protocol,
            limit=limit,
            sample_ids=_ids(sample_ids),
            repeats=repeats,
            concurrency=concurrency or _concurrency(names, settings),
            counterbalance=counterbalance,
        )
        plan = make_plan(choice, locate(data, settings), settings)
    except (
        SettingsError,
        UnknownPolicy,
        UnknownPrice,
        DataError,
        SplitError,
        UnknownLabel,
        EncoderError,
        UnicodeDecodeError,
        OSError,
    ) as error:
        _say(console, str(error), "red")
        raise typer.Exit(EXIT_INPUT) from None
    for fault in plan.source.label_faults:
        _say(console, f"left out: {fault}", "yellow")
    if plan.source.banner:
        _say(console, plan.source.banner, "bold yellow")
    judged = judge and settings.has_llm
    if dry_run:
        console.print(dry_run_table(plan, judged))
        return
    wanted = finish.Wanted(
        judged, bert_model, report, text, xlsx, plan.client.budget if plan.client else None
    )
    folder = out or default_folder(plan.configuration())
    try:
        _replay(plan, folder, fresh, retry_errors, console)
        failed = finish.finish(folder, wanted, settings, console, plan.source)
        if choice.counterbalance:
            failed = max(failed, _changes(plan, folder, console))
    except (StoreError, EncoderError) as error:
        _say(console, str(error), "red")
        raise typer.Exit(_exit_of(error)) from None
    except KeyboardInterrupt:
        _say(
            console, f"stopped; what is finished is kept in {folder}: the same command goes on", ""
        )
        raise typer.Exit(EXIT_STOPPED) from None
    except ReplayError as error:
        _say(console, f"{error}; what is finished is kept in {folder}", "red")
        raise
    if failed > max_error_rate:
        raise typer.Exit(EXIT_ERRORS)


def _replay(plan: Plan, folder: Path, fresh: bool, retry: bool, console: Console) -> None:
    with RunStore(folder, plan.manifest(), fresh=fresh, retry=retry) as store:
        _carry_out(plan, store, console, swapped=False)
    if plan.choice.counterbalance:
        place, manifest = folder / swapping.FOLDER, swapping.swapped_manifest(plan.manifest())
        with RunStore(place, manifest, fresh=fresh, retry=retry) as store:
            _carry_out(plan, store, console, swapped=True)


def _carry_out(plan: Plan, store: RunStore, console: Console, *, swapped: bool) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    if store.resumed:
        planned, done = sum(1 for _ in plan.batches()), len(store.done)
        _say(console, f"{store.folder}: {done} of {planned} samples are already done", "")
    with Bars(*columns, console=console) as bars:
        started: dict[str, tuple[Any, dt.datetime]] = {}

        def seen(name: str, turns: int, total: int) -> None:
            if turns == 0:
                shown = f"{name}, swapped" if swapped else name
                bar = bars.add_task(shown, total=total, rate="")
                started[name] = (bar, dt.datetime.now(dt.UTC))
                return
            bar, start = started[name]
            bars.advance(bar, turns)
            spent = (dt.datetime.now(dt.UTC) - start).total_seconds()
            done = bars.tasks[bar].completed
            bars.update(bar, rate=f"{done / max(spent, 1e-9):.0f} turns/s")

        run(plan, store, seen, swapped=swapped)


def _changes(plan: Plan, folder: Path, console: Console) -> float:
    """Print what a counterbalanced run found; return its share of failures."""
    found = swapping.write_changes(plan, folder)
    console.print(swapping.changes_table(found))
    for name, entry in found["costs"].items():
        _say(console, cost_line(f"{name}, swapped", entry), "dim")
    return swapping.failure_rate(found)


def _names(given: list[str] | None) -> tuple[str, ...]:
    parts = [name.strip() for text in given or () for name in text.split(",")]
    return tuple(name for name in parts if name)


def _concurrency(names: tuple[str, ...], settings: Settings) -> int:
    """Return the samples in flight: waiting for a server is worth sharing, computing is not.

    More samples than calls may be in flight, so that no place at the server stays free while one
    sample computes or the last ones of a run are finished.
    """
    return SAMPLES_A_CALL * settings.concurrency if any(map(uses_llm, names)) else 1


def _ids(path: Path | None) -> tuple[str, ...] | None:
    if path is None:
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def _exit_of(error: Exception) -> int:
    return EXIT_INPUT if isinstance(error, ChangedRun | EncoderError) else EXIT_STORE


def _say(console: Console, text: str, style: str) -> None:
    console.print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m eval.replay")

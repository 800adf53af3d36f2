"""``python -m eval.replay``: replay conversations through the graph and score every decision."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from agent.labels import UnknownLabel
from agent.policies import POLICY_NAMES, UnknownPolicy, make_policy
from agent.rescue import DataError
from agent.rescue.splits import SplitError, select
from agent.rescue.turns import MODES
from agent.settings import Settings, SettingsError, load_settings
from eval.data.locate import DataSource, locate
from eval.instances import DECISION_TASKS, TASKS, Task, build_instances
from eval.metrics import EVAL_VERSION
from eval.points import Point, build_points
from eval.runner import Record, Replayer, ReplayError, ReplayOptions
from eval.scoring import outcomes, score
from eval.table import counts_line, result_table

FLOORS: Final = tuple(name for name in POLICY_NAMES if name.startswith("floor-"))
PACKAGES: Final = ("langgraph", "langchain-openai", "sentence-transformers", "numpy", "torch")
TABLE_WIDTH: Final = 112
"""A pipe has no width; the table needs this much to show every figure."""
EXIT_INPUT: Final = 2
EXIT_ERRORS: Final = 3

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    split: Annotated[str, typer.Option(help="train, dev, test or all.")] = "dev",
    variant: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Repeatable: floors, {', '.join(POLICY_NAMES)}. Default: local, floors."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="RESCUE .jsonl or folder; else KITH_RESCUE, the cache, the demo set."),
    ] = None,
    tasks: Annotated[str, typer.Option(help=f"Comma-separated: {', '.join(TASKS)}.")] = ",".join(
        DECISION_TASKS
    ),
    context: Annotated[
        int, typer.Option(min=-1, help="Rows before a point that are shown; -1: all.")
    ] = -1,
    mode: Annotated[str, typer.Option(help=f"{', '.join(MODES)}.")] = "dialogue",
    addressees: Annotated[str, typer.Option(help="given (as annotated) or inferred.")] = "given",
    out: Annotated[
        Path | None, typer.Option(help="Output folder; default runs/<date>-<hash>.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N samples.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Samples in flight.")] = 1,
    max_error_rate: Annotated[
        float, typer.Option(min=0, max=1, help="A larger share of failures exits with 3.")
    ] = 0.02,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of floor-random.")] = None,
) -> None:
    """Replay one split with one or more variants, print the table and write the run folder."""
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    try:
        settings = load_settings(**({} if seed is None else {"seed": seed}))
        names = _variants(variant or ["local", "floors"])
        chosen = _tasks(tasks)
        options = _options(context, mode, addressees, concurrency)
        source = locate(data, settings)
        samples = select(source.sound(), split).samples[:limit]
    except (SettingsError, UnknownPolicy, DataError, SplitError, UnknownLabel) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(EXIT_INPUT) from None
    if source.banner:
        console.print(source.banner, style="bold yellow", markup=False, highlight=False)
    for fault in source.label_faults:
        console.print(f"left out: {fault}", style="yellow", markup=False, highlight=False)
    points = build_points(samples, build_instances(samples), chosen)
    try:
        records = asyncio.run(_replay(names, points, options, settings, console))
    except ReplayError as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        raise
    metrics = score(records)
    configuration = {
        "split": split,
        "variants": names,
        "tasks": list(chosen),
        "context": context,
        "mode": mode,
        "addressees": addressees,
        "limit": limit,
        "seed": settings.seed,
        "encoder": settings.encoder,
    }
    folder = out or _default_folder(configuration)
    _write(folder, records, metrics, _manifest(configuration, source, records))
    title = f"{source.collection or 'own data'} · split {split} · commit {_commit()}"
    console.print(result_table(metrics, title))
    console.print(counts_line(metrics), highlight=False)
    if source.banner:
        console.print(source.banner, style="bold yellow", markup=False, highlight=False)
    console.print(f"written to {folder}", markup=False, highlight=False, soft_wrap=True)
    _finish(records, max_error_rate, console)


async def _replay(
    names: Sequence[str],
    points: Sequence[Sequence[Point]],
    options: ReplayOptions,
    settings: Settings,
    console: Console,
) -> list[Record]:
    records: list[Record] = []
    total = sum(p[-1].visible for p in points)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        for name in names:
            bar = progress.add_task(name, total=total, rate="")
            start = dt.datetime.now(dt.UTC)

            def seen(n: int, bar: Any = bar, start: dt.datetime = start) -> None:
                progress.advance(bar, n)
                spent = (dt.datetime.now(dt.UTC) - start).total_seconds()
                done = progress.tasks[bar].completed
                progress.update(bar, rate=f"{done / max(spent, 1e-9):.0f} turns/s")

            replayer = Replayer(make_policy(name, settings), options)
            async for made in replayer.run(points, seen):
                records += made
    return records


def _variants(given: Sequence[str]) -> list[str]:
    names: list[str] = []
    for name in given:
        names += FLOORS if name == "floors" else (name,)
    for name in names:
        if name not in POLICY_NAMES:
            known = ", ".join(("floors", *POLICY_NAMES))
            raise UnknownPolicy(f"unknown variant {name!r}: there are {known}")
    return list(dict.fromkeys(names))


def _tasks(text: str) -> tuple[Task, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TASKS:
            raise UnknownLabel("task", name, TASKS)
    return tuple(task for task in TASKS if task in names)


def _options(context: int, mode: str, addressees: str, concurrency: int) -> ReplayOptions:
    if addressees not in ("given", "inferred"):
        raise UnknownLabel("--addressees", addressees, ("given", "inferred"))
    for known in MODES:
        if mode == known:
            window = None if context < 0 else context
            return ReplayOptions(window, known, addressees, concurrency)
    raise UnknownLabel("mode", mode, MODES)


def _commit() -> str:
    """Return the short commit of the checkout with a mark when it is dirty."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _digest(configuration: dict[str, Any]) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()


def _default_folder(configuration: dict[str, Any]) -> Path:
    day = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    return Path("runs") / f"{day}-{_digest(configuration)[:8]}"


def _manifest(
    configuration: dict[str, Any], source: DataSource, records: Sequence[Record]
) -> dict[str, Any]:
    return {
        "eval_version": EVAL_VERSION,
        "made": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "configuration": configuration,
        "configuration_sha256": _digest(configuration),
        "data": {"kind": source.kind, "collection": source.collection, "sha256": source.sha256},
        "banner": source.banner,
        "policies": dict(sorted({r.variant: r.policy_version for r in records}.items())),
        "packages": {name: version(name) for name in PACKAGES},
        "outcomes": {name: vars(o) for name, o in outcomes(records).items()},
    }


def _write(
    folder: Path, records: Sequence[Record], metrics: dict[str, Any], manifest: dict[str, Any]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(r.model_dump_json(exclude_none=True) + "\n" for r in records)
    (folder / "predictions.jsonl").write_text(lines, encoding="utf-8")
    for name, content in (("metrics.json", metrics), ("manifest.json", manifest)):
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _finish(records: Sequence[Record], max_error_rate: float, console: Console) -> None:
    worst = 0.0
    for name, counted in outcomes(records).items():
        worst = max(worst, counted.error_rate)
        if counted.errors:
            console.print(
                f"{name}: {counted.errors} of {counted.planned} failed: {counted.by_status}",
                style="red",
                markup=False,
            )
    if worst > max_error_rate:
        raise typer.Exit(EXIT_ERRORS)


if __name__ == "__main__":
    app()

"""``python -m eval.crossval``: the local policy by grouped cross-validation over train and dev."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final

# set before numpy is loaded: another number of threads adds in another order
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)

EXIT_INPUT: Final = 2
EXIT_ENDED: Final = 3
WIDTH: Final = 130
_NOT_FITTED: Final = frozenset({"__main__.py", "policy.py", "store.py", "priors.py", "fit.py"})
"""Sources that do not change what a fold answers."""


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(help="RESCUE .jsonl or folder; else KITH_RESCUE, the cache.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the answers and figures.")] = Path(
        "runs/crossval"
    ),
    jobs: Annotated[int, typer.Option(min=1, help="Folds at a time.")] = 2,
    transformer: Annotated[
        bool, typer.Option(help="Train the turn transformer (most of the time goes there).")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the reliability diagram.")] = None,
) -> None:
    """Fit eight times, each time without one eighth of the couples and families.

    A killed run goes on where it stopped: finished folds lie in ``--out``.
    """
    from agent.rescue import DataError
    from agent.settings import SettingsError, load_settings
    from eval.crossval.folds import FOLDS
    from eval.data.locate import locate

    console = Console(width=None if Console().is_terminal else WIDTH)
    try:
        settings = load_settings()
        source = locate(data, settings)
        path = source.path
        key = _key(path, transformer)
    except (DataError, SettingsError, OSError) as error:
        Console(stderr=True).print(str(error), markup=False)
        raise typer.Exit(EXIT_INPUT) from None
    if source.banner:
        console.print(source.banner, markup=False)
    folder = out / key
    folder.mkdir(parents=True, exist_ok=True)
    missing = [k for k in range(FOLDS) if not (folder / f"fold-{k}.json").exists()]
    if missing:
        _encode_once(path, settings.cache_path)
        _run(missing, path, settings.cache_path, folder, jobs, transformer, console)
    folds = [json.loads((folder / f"fold-{k}.json").read_text("utf-8")) for k in range(FOLDS)]
    result = _summary(path, folds, seed)
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (folder / "crossval.json").write_text(text, encoding="utf-8")
    _print(console, result)
    if plot is not None:
        from eval.crossval.plot import reliability

        reliability(result["calibration"], plot)
    console.print(f"written to {folder}", markup=False)


def _key(path: Path, transformer: bool) -> str:
    """Name a folder after the data and the recipe, so that other answers are never mixed in."""
    from agent.train.fit import Plan
    from eval.crossval import folds

    sha = hashlib.sha256()
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    for file in files:
        sha.update(file.read_bytes())
    sha.update(repr((Plan(), transformer)).encode())
    package = Path(folds.__file__).parents[2] / "agent"
    sources = [*(package / "train").glob("*.py"), *(package / "policies/local").glob("*.py")]
    for source in (*sorted(sources), Path(folds.__file__)):
        if source.name not in _NOT_FITTED:
            sha.update(source.read_bytes())
    return sha.hexdigest()[:10]


def _encode_once(path: Path, cache: Path) -> None:
    """Fill the vector cache before several processes would do it side by side."""
    from eval.crossval.work import read

    read(path, cache)


def _run(
    missing: list[int],
    path: Path,
    cache: Path,
    folder: Path,
    jobs: int,
    transformer: bool,
    console: Console,
) -> None:
    from eval.crossval.work import answer_fold

    columns = (TextColumn("folds"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=console) as bar,
        ProcessPoolExecutor(min(jobs, len(missing)), mp_context=get_context("spawn")) as pool,
    ):
        task = bar.add_task("folds", total=len(missing))
        waiting = [pool.submit(answer_fold, path, cache, folder, k, transformer) for k in missing]
        for done in as_completed(waiting):
            try:
                done.result()
            except BrokenProcessPool:
                message = "a fold's process was ended from outside; run again to go on"
                console.print(message, markup=False)
                raise typer.Exit(EXIT_ENDED) from None
            bar.advance(task)


def _summary(path: Path, folds: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    from agent.rescue.reader import load_dataset
    from eval.crossval import report
    from eval.instances import itp_instances

    samples = load_dataset(path).samples
    balanced = frozenset((i.sample_id, i.row) for i in itp_instances(samples))
    records = report.records_of(folds, balanced)
    found = report.figures(records, seed)
    tasks = sorted({task for variant, task in records if variant == report.FULL})
    return {
        "bars": report.against_bars(found),
        "figures": {
            variant: {
                task: {
                    scope: {name: asdict(value) for name, value in figures.items()}
                    for scope, figures in scopes.items()
                }
                for task, scopes in by_task.items()
            }
            for variant, by_task in found.items()
        },
        "calibration": {t: report.calibration(records[report.FULL, t]) for t in tasks},
        "timing": report.timing(records),
        "addressees": report.addressees(folds),
        "level1": report.level1(folds),
        "groups": {f["fold"]: f["groups"] for f in folds},
    }


def _print(console: Console, result: dict[str, Any]) -> None:
    from eval.crossval.report import NATURAL, SHOWN

    for tasks in (("itp", NATURAL), ("rpp",), ("stp",), ("ssp",)):
        shown = [x for x in SHOWN if x[0] in tasks]
        table = Table(title=f"{tasks[0].upper()}, out-of-fold, percent (AUC: 0 to 100)")
        table.add_column("variant")
        for task, scope, figure in shown:
            name = f"{scope} {figure}" + (" (natural)" if task == NATURAL else "")
            table.add_column(name.replace("recall_at_", "R@"), justify="right")
        for variant, found in result["figures"].items():
            cells = [found.get(t, {}).get(s, {}).get(f) for t, s, f in shown]
            if any(c is not None for c in cells):
                texts = ("–" if c is None else f"{100 * c['value']:.1f}" for c in cells)
                table.add_row(variant, *texts)
        console.print(table)
    bars = Table(title="against the bars (95% interval: couples and families drawn)")
    for name in ("figure", "value", "interval", "at least", "aim", ""):
        bars.add_column(name, justify="right")
    for bar in result["bars"]:
        name = f"{bar['task']} {bar['scope']} {bar['figure']}"
        span = f"{100 * bar['low']:.1f} to {100 * bar['high']:.1f}"
        values = (f"{100 * bar[k]:.1f}" for k in ("value", "least", "aim"))
        value, least, aim = values
        bars.add_row(name, value, span, least, aim, bar["state"])
    console.print(bars)
    for name in ("timing", "addressees", "level1"):
        console.print(f"{name}: {json.dumps(result[name])}", markup=False, soft_wrap=True)
    ece = {task: round(found["ece"], 3) for task, found in result["calibration"].items()}
    console.print(f"expected calibration error: {json.dumps(ece)}", markup=False)


if __name__ == "__main__":
    app()

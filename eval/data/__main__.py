"""``python -m eval.data check [PATH]`` and ``python -m eval.data fetch``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn
from rich.table import Table

from agent.labels import SCENARIOS
from agent.rescue.reader import BENCHMARK_NAME
from agent.settings import Settings, SettingsError, load_settings
from eval.data.fetch import FetchError, WrongFile, fetch
from eval.data.locate import cached_file, locate, no_data_hint
from eval.data.published import DATA_URL, PUBLISHED, TABLE_3, TABLE_6, Counts, count, mismatches

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False)

EXIT_FAULTS = 1
EXIT_NO_DOWNLOAD = 2
EXIT_SETTINGS = 2


@app.command()
def check(
    path: Annotated[
        Path | None,
        typer.Argument(help="A .jsonl file, a .json sample or a folder; default: as located."),
    ] = None,
    max_faults: Annotated[int, typer.Option(min=1, help="Faults to list.")] = 20,
) -> None:
    """Print the published counts beside the ones found, and every fault."""
    console = Console()
    source = locate(path, _settings(console))
    if source.banner and source.dataset.samples:
        console.print(source.banner, style="bold yellow", markup=False, highlight=False)
    console.print(f"data: {source.path}", markup=False, highlight=False, soft_wrap=True)
    found = count(source.dataset)
    if source.dataset.samples:
        console.print(_table(TABLE_3, found), _table(TABLE_6, found))
    problems = [str(fault) for fault in source.dataset.faults]
    if source.collection == "rescue" and not source.banner:
        problems.extend(mismatches(found))
    _list(console, problems, max_faults)
    if problems:
        raise typer.Exit(EXIT_FAULTS)


@app.command(name="fetch")
def fetch_command(
    url: Annotated[str, typer.Option(help="Where the file is.")] = DATA_URL,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; default: in the cache folder.")
    ] = None,
) -> None:
    """Download the official file at its pinned commit and verify its counts."""
    console = Console()
    target = out or cached_file(_settings(console))
    try:
        with _bar(console) as bar:
            task = bar.add_task(BENCHMARK_NAME, total=None)
            fetch(url, target, lambda got, total: bar.update(task, completed=got, total=total))
    except FetchError as error:
        _say(console, f"Not fetched: {error}. {no_data_hint(target)}")
        raise typer.Exit(EXIT_NO_DOWNLOAD) from None
    except WrongFile as error:
        _say(console, f"Not stored: {error}.")
        _list(console, error.reasons, 20)
        raise typer.Exit(EXIT_FAULTS) from None
    _say(console, f"Stored {target}; its counts equal the published ones.")


def _settings(console: Console) -> Settings:
    try:
        return load_settings()
    except SettingsError as error:
        _say(console, str(error))
        raise typer.Exit(EXIT_SETTINGS) from None


def _bar(console: Console) -> Progress:
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=console)


def _table(title: str, found: Counts) -> Table:
    table = Table("", title=f"{title}: published | found", title_justify="left")
    for scenario in (*SCENARIOS, "all"):
        table.add_column(scenario, justify="right")
        table.add_column("found", justify="right")
    for entry in (entry for entry in PUBLISHED if entry.table == title):
        published = [entry.of(scenario) for scenario in SCENARIOS]
        here = [found[entry.name][scenario] for scenario in SCENARIOS]
        cells: list[str] = []
        for paper, actual in zip([*published, sum(published)], [*here, sum(here)], strict=True):
            style = "green" if paper == actual else "yellow"
            cells += [f"{paper:,}", f"[{style}]{actual:,}[/{style}]"]
        table.add_row(entry.name.upper() if title == TABLE_6 else entry.name, *cells)
    return table


def _list(console: Console, problems: Sequence[str], limit: int) -> None:
    if not problems:
        _say(console, "No faults.")
        return
    _say(console, f"{len(problems):,} fault{'s' if len(problems) > 1 else ''}:")
    for problem in problems[:limit]:
        _say(console, f"  {problem}")
    if len(problems) > limit:
        _say(console, f"  ... and {len(problems) - limit:,} more")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m eval.data")

"""``python -m eval.rescore RUN``: score a run's answers again, without asking any policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from agent.encoder import EncoderError
from agent.settings import SettingsError, load_settings
from eval import finish
from eval.data.locate import DataSource, locate
from eval.metrics import EVAL_VERSION
from eval.replay import EXIT_ERRORS, EXIT_INPUT, TABLE_WIDTH
from eval.store import MANIFEST, StoreError, read_manifest, write_json

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)

NO_DATA: Final = "the run's data is not at hand: the report shows no transcripts"


@app.command()
def main(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        Path | None, typer.Option(help="The data, for transcripts; else where it was.")
    ] = None,
    judge: Annotated[
        bool, typer.Option(help="Ask the judge about items nobody has judged.")
    ] = False,
    bert_model: Annotated[Path | None, typer.Option(help="Folder of a model.")] = None,
    report: Annotated[bool, typer.Option(help="Write report.html and report.md.")] = True,
    text: Annotated[bool, typer.Option(help="Show transcript text in the report.")] = True,
    xlsx: Annotated[bool, typer.Option(help="Write the details as a spreadsheet.")] = False,
    max_error_rate: Annotated[float, typer.Option(min=0, max=1)] = 0.02,
) -> None:
    """Score a run with this version's rules; kept judgements are used, nothing is asked.

    The manifest then names this version of the scoring.
    """
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    try:
        settings = load_settings()
        manifest = read_manifest(run)
        if manifest["eval_version"] != EVAL_VERSION:
            console.print(
                f"scored by version {manifest['eval_version']} so far, now by {EVAL_VERSION}",
                highlight=False,
            )
            manifest.setdefault("run_eval_version", manifest["eval_version"])
            write_json(run / MANIFEST, manifest | {"eval_version": EVAL_VERSION})
        wanted = finish.Wanted(judge, bert_model, report, text, xlsx)
        source = _source(data or Path(manifest["data_path"]), manifest["data"]["sha256"])
        if source is None and report and text:
            console.print(NO_DATA, style="yellow")
        failed = finish.finish(run, wanted, settings, console, source)
    except (StoreError, SettingsError, EncoderError) as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_INPUT) from None
    if failed > max_error_rate:
        raise typer.Exit(EXIT_ERRORS)


def _source(path: Path, sha256: str) -> DataSource | None:
    """Return the run's data, or None when it is gone or another."""
    if not path.exists():
        return None
    source = locate(path)
    return source if source.sha256 == sha256 and not source.dataset.broken else None


if __name__ == "__main__":
    app(prog_name="python -m eval.rescore")

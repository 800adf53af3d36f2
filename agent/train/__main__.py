"""``python -m agent.train``: fit the local policy's weights, bit for bit repeatable."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

if TYPE_CHECKING:
    from agent.rescue.schema import Sample

EXIT_INPUT: Final = 2

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(help="RESCUE .jsonl or folder; else KITH_RESCUE.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, dev, test or all.")] = "train",
    out: Annotated[Path, typer.Option(help="Folder for the weights.")] = Path("agent/weights"),
    transformer: Annotated[bool, typer.Option(help="Train the turn transformer.")] = True,
) -> None:
    """Fit the local policy's weights.

    The default threshold for speaking is chosen on the dev split when the data holds one and
    it is not fitted on. A killed training goes on where it stopped.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        # before numpy is loaded: another number of threads adds in another order
        os.environ[name] = "1"
    from agent.rescue.reader import DataError, read_dataset
    from agent.rescue.splits import SplitError, select
    from agent.settings import SettingsError, load_settings

    console = Console(stderr=True)
    try:
        settings = load_settings()
        path = data or settings.rescue
        if path is None:
            raise SettingsError("no data: give --data PATH or set KITH_RESCUE")
        dataset = read_dataset(path)
        if dataset.broken:
            raise DataError(dataset.broken)
        chosen = select(dataset, split)
    except (DataError, SettingsError, SplitError, OSError) as error:
        console.print(str(error), markup=False)
        raise typer.Exit(EXIT_INPUT) from None
    for fault in dataset.faults:
        console.print(f"left out: {fault}", markup=False)
    try:
        dev = select(dataset, "dev").samples if split == "train" else ()
    except SplitError:
        dev = ()
    digest = _train(chosen.samples, dev, split, out, transformer, settings.cache_path, console)
    typer.echo(f"weights {digest} written to {out}")


def _train(
    samples: tuple[Sample, ...],
    dev: tuple[Sample, ...],
    split: str,
    out: Path,
    transformer: bool,
    cache: Path,
    console: Console,
) -> str:
    from agent.encoder import MiniLMEncoder
    from agent.policies.local.store import save
    from agent.priors import PRIORS_FILE, dump_priors, label_shares
    from agent.train.corpus import read_corpus
    from agent.train.fit import Plan, fit, timing_threshold

    def progress(what: str, done: int, of: int) -> None:
        console.print(f"{what} {done}/{of}", markup=False)

    # no vector cache: the last bits of a vector depend on what was encoded along with it
    encoder = MiniLMEncoder()
    _one_thread()
    progress("sentence vectors", 0, len(samples))
    corpus = read_corpus(samples, encoder)
    progress("sentence vectors", len(samples), len(samples))
    about = {
        "split": split,
        "samples": len(corpus.sessions),
        "rows": corpus.offsets[-1],
        "groups": len(corpus.groups),
        "encoder": encoder.name,
    }
    plan = Plan() if transformer else Plan(sequence=None)
    weights = fit(corpus, plan, about, progress, cache / "train")
    if dev:
        threshold = timing_threshold(weights, read_corpus(dev, encoder))
        weights = replace(weights, threshold=threshold)
    digest = save(weights, out)
    (out / PRIORS_FILE).write_text(dump_priors(label_shares(samples)), encoding="utf-8")
    return digest


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


if __name__ == "__main__":
    app()

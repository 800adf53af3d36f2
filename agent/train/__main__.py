"""``python -m agent.train --data PATH --split train --out DIR``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

# set before numpy is loaded: another number of threads adds in another order
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import typer

app = typer.Typer(add_completion=False)


@app.command()
def main(
    data: Annotated[Path, typer.Option(help="RESCUE: a .jsonl or a folder.")],
    split: Annotated[str, typer.Option(help="train, dev, test or all.")] = "train",
    out: Annotated[Path, typer.Option(help="Folder for the weights.")] = Path("agent/weights"),
) -> None:
    """Fit the local policy's weights."""
    from agent.encoder import make_encoder
    from agent.policies.local.store import save
    from agent.rescue.reader import load_dataset
    from agent.rescue.splits import select
    from agent.settings import load_settings
    from agent.train.corpus import read_corpus
    from agent.train.fit import fit
    from agent.train.priors import priors

    settings = load_settings()
    encoder = make_encoder("minilm", settings.cache_path / "vectors")
    dataset = select(load_dataset(data), split)
    corpus = read_corpus(dataset.samples, encoder)
    encoder.save()
    about = {
        "split": split,
        "samples": len(corpus.sessions),
        "rows": corpus.offsets[-1],
        "groups": len(corpus.groups),
        "encoder": encoder.name,
    }
    digest = save(fit(corpus, about=about), out)
    text = json.dumps(priors(corpus), indent=1) + "\n"
    (out / "priors.json").write_text(text, encoding="utf-8")
    typer.echo(f"weights {digest} written to {out}")


if __name__ == "__main__":
    app()

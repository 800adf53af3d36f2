"""``python -m eval.noise``: how far two annotations of the same scene agree.

Some samples of one couple overlap: the same scene, cut and annotated twice. Rows of two such
samples are matched by their words (the same speaker, at least five words, all but the same
text). What the two annotations say of the matched rows bounds what any
policy can reach.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import combinations
from math import fsum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from agent.labels import Scenario
from agent.rescue import DataError, Sample
from agent.rescue.annotations import (
    gold_emotion,
    gold_pattern,
    gold_strategy,
    gold_target,
    is_therapist,
    scenario_of,
)
from agent.rescue.schema import Row
from agent.rescue.splits import SplitError, group_of, select
from agent.settings import SettingsError, load_settings
from eval.data.locate import locate

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)

EXIT_INPUT: Final = 2
MIN_WORDS: Final = 5
MIN_RATIO: Final = 0.85
MIN_ROWS: Final = 3
"""Fewer matched rows are chance, not a scene told twice."""
LABELS: Final = ("pattern", "strategy", "target", "utterance_type")
_WORD: Final = re.compile(r"[a-z0-9']+")


def _words(row: Row) -> tuple[str, ...]:
    return tuple(_WORD.findall(row.dialogue_cleaned.lower().replace("’", "'")))


def matched(a: Sample, b: Sample) -> list[tuple[Row, Row]]:
    """Return rows of two samples that hold the same words; [] for other scenes."""
    left = [(row, _words(row)) for row in a.rows]
    right = [(row, _words(row)) for row in b.rows]
    left = [x for x in left if len(x[1]) >= MIN_WORDS]
    right = [x for x in right if len(x[1]) >= MIN_WORDS]
    found: list[tuple[Row, Row]] = []
    used: set[int] = set()
    for row, words in left:
        for place, (other, others) in enumerate(right):
            if place in used or other.primary_speaker != row.primary_speaker:
                continue
            if _same(words, others):
                found.append((row, other))
                used.add(place)
                break
    return found if len(found) >= MIN_ROWS else []


def _same(a: Sequence[str], b: Sequence[str]) -> bool:
    if a == b:
        return True
    if abs(len(a) - len(b)) > 0.3 * max(len(a), len(b)):
        return False
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return matcher.quick_ratio() >= MIN_RATIO and matcher.ratio() >= MIN_RATIO


def overlapping(
    samples: Sequence[Sample],
) -> Iterator[tuple[Sample, Sample, list[tuple[Row, Row]]]]:
    """Yield pairs of samples of one couple or family that tell the same scene."""
    by_group: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_group[group_of(sample.sample_id)].append(sample)
    for group in by_group.values():
        for a, b in combinations(group, 2):
            rows = matched(a, b)
            if rows:
                yield a, b, rows


def _labels(row: Row, scenario: Scenario) -> dict[str, str | None]:
    return {
        "pattern": gold_pattern(row, scenario),
        "strategy": gold_strategy(row, scenario),
        "target": gold_target(row, scenario),
        "utterance_type": None if is_therapist(row) else row.utterance_type or None,
    }


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa (1960), None when it is not defined."""
    n = len(pairs)
    if not n:
        return None
    left, right = (Counter(p[i] for p in pairs) for i in (0, 1))
    chance = fsum(left[k] * right[k] for k in left) / n**2
    agreed = sum(a == b for a, b in pairs) / n
    return None if chance >= 1 else (agreed - chance) / (1 - chance)


def agreement(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return agreement, kappa and n per label, and the intensity's mean difference."""
    pairs: dict[str, list[tuple[str, str]]] = {name: [] for name in LABELS}
    differences: list[float] = []
    scenes = 0
    seen: set[str] = set()
    for a, _, rows in overlapping(samples):
        scenes += 1
        seen.add(group_of(a.sample_id))
        scenario = scenario_of(a)
        for x, y in rows:
            first, second = _labels(x, scenario), _labels(y, scenario)
            for name in LABELS:
                one, two = first[name], second[name]
                if one is not None and two is not None:
                    pairs[name].append((one, two))
            felt, again = gold_emotion(x), gold_emotion(y)
            if felt is not None and again is not None:
                differences.append(abs(felt[1] - again[1]))
    return {
        "scenes": scenes,
        "groups": len(seen),
        "labels": {
            name: {
                "n": len(found),
                "agreement": sum(a == b for a, b in found) / len(found) if found else None,
                "kappa": kappa(found),
            }
            for name, found in pairs.items()
        },
        "intensity": {
            "n": len(differences),
            "mean_difference": fsum(differences) / len(differences) if differences else None,
        },
    }


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(help="RESCUE .jsonl or folder; else KITH_RESCUE, the cache.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, dev, test or all.")] = "all",
    out: Annotated[Path | None, typer.Option(help="Write the figures as JSON.")] = None,
) -> None:
    """Measure how far two annotations of one scene agree."""
    console = Console()
    try:
        source = locate(data, load_settings())
        samples = select(source.sound(), split).samples
    except (DataError, SettingsError, SplitError) as error:
        Console(stderr=True).print(str(error), markup=False)
        raise typer.Exit(EXIT_INPUT) from None
    if source.banner:
        console.print(source.banner, markup=False)
    found = agreement(samples)
    table = Table(
        title=f"{found['scenes']} scenes told twice, {found['groups']} couples or families"
    )
    for name in ("label", "n", "agreement", "kappa"):
        table.add_column(name, justify="left" if name == "label" else "right")
    for name, row in found["labels"].items():
        agreed = "–" if row["agreement"] is None else f"{100 * row['agreement']:.0f}%"
        table.add_row(name, str(row["n"]), agreed, _plain(row["kappa"]))
    difference = found["intensity"]
    table.add_row(
        "intensity (mean difference)",
        str(difference["n"]),
        _plain(difference["mean_difference"]),
        "",
    )
    console.print(table)
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    app()

"""``python -m eval.robustness``: which of the local policy's decisions flip, and on what.

Conversations are told again with names exchanged, with he and she exchanged, with people listed
in another order, in other words (light, rule-made paraphrases) and through the other encoder.
Every turn's four decisions are compared with the first telling's.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from agent.context import Context, Request
from agent.conversation import Turn, participants_of
from agent.decision import Decision
from agent.encoder import Encoder, make_encoder
from agent.graph import compile_graph
from agent.labels import Scenario
from agent.policies.local import LocalPolicy
from agent.policies.local.store import load
from agent.rescue import DataError
from agent.rescue.annotations import scenario_of
from agent.rescue.turns import turns_of
from agent.settings import SettingsError, load_settings
from eval.data.locate import locate
from eval.swap import Swap

app = typer.Typer(help=__doc__, pretty_exceptions_enable=False, add_completion=False)

EXIT_INPUT: Final = 2
DECISIONS: Final = ("intervene", "pattern", "target", "strategy")

_SWAPPED: Final = (
    ("he", "she"),
    ("himself", "herself"),
    ("he's", "she's"),
    ("he'd", "she'd"),
    ("he'll", "she'll"),
    ("husband", "wife"),
    ("boyfriend", "girlfriend"),
    ("man", "woman"),
    # "her" is both his and him; either way round the sentence stays one a person could say
    ("his", "her"),
)
_PHRASES: Final = (
    (r"\bI'm\b", "I am"),
    (r"\bdon't\b", "do not"),
    (r"\bcan't\b", "cannot"),
    (r"\bit's\b", "it is"),
    (r"\bthat's\b", "that is"),
    (r"\byou're\b", "you are"),
    (r"\bI've\b", "I have"),
    (r"\bwon't\b", "will not"),
    (r"\bdidn't\b", "did not"),
    (r"\b(?:you know|I mean|kind of|sort of|like),\s*", ""),
    (r"\breally\b", "truly"),
    (r"\balways\b", "all the time"),
    (r"\bmaybe\b", "perhaps"),
    (r"\bjust\s+", ""),
    (r"\bbecause\b", "since"),
    (r"\bwant to\b", "would like to"),
    (r"\bhave to\b", "need to"),
)


@dataclass(frozen=True)
class Talk:
    """A conversation as it is replayed."""

    scenario: Scenario
    people: tuple[str, ...]
    turns: tuple[Turn, ...]


def _words(turn: Turn, change: Callable[[str], str]) -> Turn:
    lines = tuple(line.model_copy(update={"text": change(line.text)}) for line in turn.background)
    return turn.model_copy(update={"text": change(turn.text), "background": lines})


def names_exchanged(talk: Talk) -> tuple[Talk, dict[str, str]]:
    """Return the conversation with names handed round, and old name -> new name."""
    swap = Swap(talk.people)
    people, turns = tuple(map(swap.name, talk.people)), tuple(map(swap.turn, talk.turns))
    return Talk(talk.scenario, people, turns), swap.to


def gender_exchanged(talk: Talk) -> Talk:
    """Return the conversation with he and she, husband and wife exchanged."""
    both = {a: b for pair in _SWAPPED for a, b in (pair, pair[::-1])}
    pattern = re.compile(r"\b(?:" + "|".join(sorted(both, key=len, reverse=True)) + r")\b", re.I)

    def change(text: str) -> str:
        def one(match: re.Match[str]) -> str:
            new = both[match.group(0).lower()]
            return new.capitalize() if match.group(0)[0].isupper() else new

        return pattern.sub(one, text)

    return Talk(talk.scenario, talk.people, tuple(_words(t, change) for t in talk.turns))


def order_reversed(talk: Talk) -> Talk:
    """Return the conversation with people listed the other way round."""
    return Talk(talk.scenario, talk.people[::-1], talk.turns)


def paraphrased(talk: Talk) -> Talk:
    """Return the conversation in slightly other words."""

    def change(text: str) -> str:
        for old, new in _PHRASES:
            text = re.sub(old, new, text, flags=re.IGNORECASE)
        return text[:1].upper() + text[1:]

    return Talk(talk.scenario, talk.people, tuple(_words(t, change) for t in talk.turns))


async def decisions(talk: Talk, policy: LocalPolicy) -> list[Decision]:
    """Return a decision after every turn."""
    graph = compile_graph()
    state: dict[str, Any] = {"scenario": talk.scenario, "participants": list(talk.people)}
    out = []
    for turn in talk.turns:
        state["incoming"] = [turn]
        state["request"] = Request(decide="always", reply=False)
        state = await graph.ainvoke(state, context=Context(policy=policy))
        out.append(state["decision"])
    return out


def flips(
    first: Sequence[Decision], second: Sequence[Decision], names: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Count decisions that differ (targets compared after renaming); exact ties do not count."""
    found = dict.fromkeys(DECISIONS, 0)
    for a, b in zip(first, second, strict=True):
        found["intervene"] += a.intervene != b.intervene
        found["pattern"] += a.pattern[0].label != b.pattern[0].label
        found["strategy"] += a.strategies[0].label != b.strategies[0].label
        best = a.targets[0].score
        leading = {(names or {}).get(t.label, t.label) for t in a.targets if t.score >= best - 1e-9}
        found["target"] += b.targets[0].label not in leading
    return found


async def measure(talks: Sequence[Talk], encoder: Encoder, other: Encoder | None) -> dict[str, Any]:
    """Return change -> decision -> flips, with the number of turns."""
    weights = load()

    def policy(using: Encoder = encoder) -> LocalPolicy:
        return LocalPolicy(weights, using)

    total: dict[str, dict[str, int]] = {}

    def add(change: str, found: Mapping[str, int]) -> None:
        into = total.setdefault(change, dict.fromkeys(DECISIONS, 0))
        for name, count in found.items():
            into[name] += count

    turns = 0
    for talk in talks:
        first = await decisions(talk, policy())
        turns += len(first)
        renamed, names = names_exchanged(talk)
        add("names exchanged", flips(first, await decisions(renamed, policy()), names))
        add("he and she exchanged", flips(first, await decisions(gender_exchanged(talk), policy())))
        add(
            "people in another order", flips(first, await decisions(order_reversed(talk), policy()))
        )
        add("other words", flips(first, await decisions(paraphrased(talk), policy())))
        if other is not None:
            add("the other encoder", flips(first, await decisions(talk, policy(other))))
    return {"turns": turns, "flips": total}


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(help="RESCUE .jsonl or folder; else KITH_RESCUE, the demo set.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Conversations read.")] = 40,
    out: Annotated[Path | None, typer.Option(help="Write the counts as JSON.")] = None,
) -> None:
    """Count flipped decisions."""
    console = Console()
    try:
        settings = load_settings()
        samples = locate(data, settings).sound().samples[:limit]
    except (DataError, SettingsError) as error:
        Console(stderr=True).print(str(error), markup=False)
        raise typer.Exit(EXIT_INPUT) from None
    talks = []
    for sample in samples:
        turns = turns_of(sample.rows)
        talks.append(Talk(scenario_of(sample), participants_of(turns), turns))
    folder = settings.cache_path / "vectors"
    first, second = make_encoder("minilm", folder), make_encoder("minilm-int8", folder)
    result = asyncio.run(measure(talks, first, second))
    first.save()
    second.save()
    table = Table(title=f"decisions that flip, of {result['turns']} turns")
    for name in ("change", *DECISIONS):
        table.add_column(name, justify="left" if name == "change" else "right")
    for change, found in result["flips"].items():
        shares = (f"{n} ({100 * n / result['turns']:.1f}%)" for n in found.values())
        table.add_row(change, *shares)
    console.print(table)
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    app()

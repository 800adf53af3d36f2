"""What a replay would do and cost, before anything is spent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from rich.table import Table

from agent.llm.budget import price_of
from agent.rescue.turns import turns_of
from eval.plan import Plan, uses_llm
from eval.points import Point

CHARACTERS_A_TOKEN: Final = 4
"""English text; a coarse rule that needs no tokenizer of the model."""
ANSWER_TOKENS: Final = 400
"""A structured decision with its reasons."""
JUDGE_TOKENS_IN: Final = 700
JUDGE_TOKENS_OUT: Final = 60


@dataclass(frozen=True)
class Estimate:
    """What one variant would take, all repeats.

    Attributes:
        units: by task.
        points: runs of the graph.
        calls: of a model, judges included.
        tokens_in: about so many.
        tokens_out: about so many.
        usd: None where the price is not known; 0 without a model.
    """

    units: dict[str, int]
    points: int
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None


def estimates(plan: Plan, judge: bool) -> dict[str, Estimate]:
    """Return an estimate for each variant.

    Args:
        plan: the plan.
        judge: whether an LLM will judge ER and VP.
    """
    overhead = _prompt_tokens()
    found = {}
    for variant in plan.variants:
        tasks = plan.policies[variant.name].answers
        repeats = plan.choice.repeats
        # a counterbalanced run asks everything twice, and judges the first half
        halves = 2 if plan.choice.counterbalance else 1
        units: Counter[str] = Counter()
        points = tokens = 0
        for sample in plan.points:
            for point in sample:
                asked = [u.task for u in point.units if u.task in tasks]
                units.update(asked)
                points += 1
                tokens += overhead + _shown(point, plan) // CHARACTERS_A_TOKEN
        calls, tokens_in, tokens_out = 0, 0, 0
        if uses_llm(variant.policy):
            calls, tokens_in = points * halves, tokens * halves
            tokens_out = calls * ANSWER_TOKENS
        usd: float | None = _usd(plan, tokens_in, tokens_out)
        if judge:
            n = units["er"] + units["vp"]
            calls += n
            tokens_in += n * JUDGE_TOKENS_IN
            tokens_out += n * JUDGE_TOKENS_OUT
            more = _usd(plan, n * JUDGE_TOKENS_IN, n * JUDGE_TOKENS_OUT)
            usd = None if usd is None or more is None else usd + more
        found[variant.name] = Estimate(
            {task: n * repeats for task, n in units.items()},
            points * halves * repeats,
            calls * repeats,
            tokens_in * repeats,
            tokens_out * repeats,
            None if usd is None else usd * repeats,
        )
    return found


def dry_run_table(plan: Plan, judge: bool) -> Table:
    """Return the estimates as a table."""
    table = Table(
        title=f"dry run: {len(plan.samples)} samples, nothing is asked and nothing written",
        caption=f"tokens by length, {CHARACTERS_A_TOKEN} characters each; "
        "prices from KITH_PRICE_INPUT and KITH_PRICE_OUTPUT; retries and repair turns come on top",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("variant")
    for task in plan.choice.tasks:
        table.add_column(task.upper(), justify="right")
    for name in ("decisions", "model calls", "tokens in", "tokens out", "USD"):
        table.add_column(name, justify="right")
    for variant, e in estimates(plan, judge).items():
        usd = "not known" if e.usd is None else f"{e.usd:.2f}"
        units = [f"{e.units.get(task, 0):,}" for task in plan.choice.tasks]
        numbers = [f"{n:,}" for n in (e.points, e.calls, e.tokens_in, e.tokens_out)]
        table.add_row(variant, *units, *numbers, usd)
    return table


def _shown(point: Point, plan: Plan) -> int:
    """Return how many characters of the conversation a point shows."""
    size = plan.choice.context
    first = 0 if size is None else max(0, point.visible - size)
    turns = turns_of(point.sample.rows[first : point.visible], plan.choice.options().mode)
    return sum(
        len(t.speaker) + len(t.text) + sum(len(b.text) for b in t.background) + 12 for t in turns
    )


def _prompt_tokens() -> int:
    """Return the size of the prompts around a conversation, label definitions included."""
    size = 0
    for folder in ("llm", "labels"):
        place = files("prompts").joinpath(folder)
        if place.is_dir():
            size += sum(len(p.read_bytes()) for p in place.iterdir() if p.is_file())
    # one scenario's labels of two are shown
    return size // (2 * CHARACTERS_A_TOKEN)


def _usd(plan: Plan, tokens_in: int, tokens_out: int) -> float | None:
    if tokens_in == 0:
        return 0.0
    price = price_of(plan.settings.price_input, plan.settings.price_output)
    return None if price is None else price.cost(tokens_in, tokens_out)

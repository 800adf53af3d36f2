"""The one table of a replay: rows are variants, columns the tasks' headline metrics.

The rows are made once, as data; the terminal, ``report.md`` and ``report.html`` show the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from rich.table import Table

from eval.metrics import SCOPES
from eval.references import CHANCE, published, published_figure

Kind = Literal["variant", "reference", "published"]


class Column(NamedTuple):
    """A figure of the table; ``part`` is the key beside the scopes it stands under, or ""."""

    task: str
    metric: str
    header: str
    part: str = ""
    rate: bool = True


class Cell(NamedTuple):
    """A figure with its interval; None for what is not there."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    few_groups: bool = False


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    scope: str
    kind: Kind
    cells: tuple[Cell, ...]
    outcome: str = ""


COLUMNS: Final = (
    Column("itp", "f1_yes", "ITP F1"),
    Column("rpp", "recall_at_1", "RPP acc"),
    Column("rpp", "accuracy", "RPP publ.", "as_published"),
    Column("stp", "recall_at_1", "STP R@1"),
    Column("stp", "mrr", "STP MRR"),
    Column("ssp", "recall_at_1", "SSP R@1"),
    Column("ssp", "mrr", "SSP MRR"),
    Column("er", "score", "ER judge", rate=False),
    Column("vp", "score", "VP judge", rate=False),
)
FURTHER: Final = (
    Column("itp", "precision_yes", "ITP prec"),
    Column("itp", "recall_yes", "ITP rec"),
    Column("itp", "balanced_accuracy", "ITP bal.acc"),
    Column("itp", "auc", "ITP AUC"),
    Column("itp", "f1_yes", "ITP F1 supp.", "supported_yes"),
    Column("itp", "silence_accuracy", "silence acc", "live"),
    Column("itp", "met", "met", "live"),
    Column("itp", "latency_turns", "late turns", "live", rate=False),
    Column("rpp", "mrr", "RPP MRR"),
    Column("rpp", "macro_f1", "RPP mF1"),
    Column("stp", "macro_f1", "STP mF1"),
    Column("stp", "recall_at_1", "STP asked", "asked_anyway"),
    Column("ssp", "macro_f1", "SSP mF1"),
    Column("ssp", "recall_at_1", "SSP asked", "asked_anyway"),
    Column("er", "intensity_score", "ER intens.", rate=False),
    Column("er", "emotion_score", "ER emotion", rate=False),
    Column("er", "cosine", "ER cos"),
    Column("er", "bertscore_f1", "ER BERT"),
    Column("vp", "total", "VP 0-6", rate=False),
    Column("vp", "pair_f1", "VP pair F1"),
    Column("vp", "cosine", "VP cos"),
    Column("vp", "bertscore_f1", "VP BERT"),
)
WITHOUT_ERRORS: Final = "no errors"
"""Scope of a line whose figures leave the failures out."""
LEGEND: Final = (
    "Rates in percent, with 95% intervals from a bootstrap over couples and families "
    "(! marks too few of them). Failures count as wrong; a line 'no errors' leaves them out. "
    "RPP publ.: unlabelled therapist rows "
    "counted as wrong, as the paper's percentages do. Judge scores are 1 to 5. "
    "†: as published, zero-shot on all 191 samples."
)


def lines(
    metrics: Mapping[str, Any],
    statistics: Mapping[str, Any],
    columns: Sequence[Column] = COLUMNS,
    with_published: bool = True,
) -> list[Line]:
    """Return the table's lines: variants, then reference lines, then published results."""
    shown = present(metrics, statistics, columns)
    found: list[Line] = []
    for variant, tasks in metrics.items():
        outcome = statistics["outcome"].get(variant, {})
        counts = f"{outcome['scored']}/{outcome['planned']}" if outcome else ""
        for scope in SCOPES:
            cells = tuple(_cell(variant, tasks, statistics, c, scope) for c in shown)
            found.append(Line(variant, scope, "variant", cells, counts if scope == "all" else ""))
            if scope == "all" and any("errors_excluded" in block for block in tasks.values()):
                kept = {t: block.get("errors_excluded", block) for t, block in tasks.items()}
                cells = tuple(Cell(_plain(kept, c)) for c in shown)
                found.append(Line(variant, WITHOUT_ERRORS, "variant", cells))
    for name, tasks in statistics["reference"].items():
        cells = tuple(_cell(name, tasks, statistics, c, "all") for c in shown)
        label = name if name == CHANCE else f"({name.removeprefix('floor-')})"
        if any(cell.value is not None for cell in cells):
            found.append(Line(label, "all", "reference", cells))
    if with_published:
        found += _published(shown)
    return found


def present(
    metrics: Mapping[str, Any], statistics: Mapping[str, Any], columns: Sequence[Column] = COLUMNS
) -> list[Column]:
    """Return the columns for which any line has a figure."""
    blocks = [*metrics.items(), *statistics["reference"].items()]
    return [
        c
        for c in columns
        if any(_cell(name, b, statistics, c, "all").value is not None for name, b in blocks)
    ]


def result_table(
    metrics: Mapping[str, Any],
    statistics: Mapping[str, Any],
    title: str,
    columns: Sequence[Column] = COLUMNS,
    with_published: bool = True,
) -> Table:
    """Return the table for a terminal: intervals stand under their figures."""
    shown = present(metrics, statistics, columns)
    table = Table(title=title, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("variant", overflow="fold")
    table.add_column("scope", no_wrap=True)
    for column in shown:
        table.add_column(header(column, metrics), justify="right", no_wrap=True)
    table.add_column("ok", justify="right", no_wrap=True)
    last: Kind = "variant"
    for line in lines(metrics, statistics, columns, with_published):
        if line.kind != last or (line.kind == "variant" and line.scope == "all"):
            table.add_section()
        last = line.kind
        texts = [f"{text(c, k)}\n{interval(c, k)}".rstrip() for c, k in _zip(line.cells, shown)]
        name = line.name if line.scope in ("all", "191") else ""
        style = "" if line.scope == "all" and line.kind == "variant" else "dim"
        table.add_row(name, line.scope, *texts, line.outcome, style=style)
    return table


def further_table(metrics: Mapping[str, Any], statistics: Mapping[str, Any]) -> Table:
    """Return the further figures, one line a figure, one column a variant (all scenarios)."""
    table = Table(title="further figures, all", title_justify="left", pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for variant in metrics:
        table.add_column(variant, justify="right", overflow="fold")
    for column in present(metrics, statistics, FURTHER):
        cells = [_cell(v, tasks, statistics, column, "all") for v, tasks in metrics.items()]
        shown = [f"{text(c, column)} {interval(c, column)}".rstrip() for c in cells]
        table.add_row(header(column, metrics), *shown)
    return table


def comparison_table(comparisons: Sequence[Mapping[str, Any]]) -> Table:
    """Return the paired differences, all scenarios pooled."""
    table = Table(title="paired differences (B - A)", title_justify="left", pad_edge=False)
    for name in ("A", "B", "task"):
        table.add_column(name, overflow="fold")
    for name in ("diff", "95%", "p", "Holm", "McNemar", "Holm", "detectable", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in comparisons:
        if entry["scope"] == "all":
            for task, d in entry["tasks"].items():
                table.add_row(entry["a"], entry["b"], task.upper(), *difference_texts(task, d))
    return table


def difference_texts(task: str, d: Mapping[str, Any]) -> list[str]:
    """Return a paired difference as texts: value, interval, p, Holm, McNemar, Holm, MDD, n."""
    factor, digits = (1, 2) if task in ("er", "vp") else (100, 1)

    def shown(value: float) -> str:
        return f"{factor * value:+.{digits}f}"

    mark = "!" if d["few_groups"] else ""
    return [
        shown(d["value"]),
        f"{shown(d['low'])} to {shown(d['high'])}{mark}",
        p_text(d["p"]),
        p_text(d["p_holm"]),
        p_text(d["mcnemar_p"]),
        p_text(d["mcnemar_p_holm"]),
        f"{factor * d['detectable']:.{digits}f}",
        str(d["units"]),
    ]


def p_text(p: float | None) -> str:
    """Return a p-value as text."""
    if p is None:
        return "–"
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def counts_line(metrics: Mapping[str, Any]) -> str:
    """Return the numbers of instances by task and scope, as one line."""
    parts = []
    for task in ("itp", "rpp", "stp", "ssp", "er", "vp"):
        figures = next((t[task] for t in metrics.values() if task in t), None)
        if figures:
            n = {scope: figures[scope]["n"] for scope in SCOPES}
            parts.append(
                f"{task.upper()} n={n['all']} (couple {n['couple']}, family {n['family']})"
            )
    return " · ".join(parts)


def header(column: Column, metrics: Mapping[str, Any]) -> str:
    """Return a column's header; where an encoder made the figure, it is named."""
    key = {"cosine": "cosine_encoder", "bertscore_f1": "bertscore_encoder"}.get(column.metric)
    block: Mapping[str, Any] = next(
        (t[column.task] for t in metrics.values() if column.task in t), {}
    )
    return f"{column.header} ({block[key]})" if key and key in block else column.header


def text(cell: Cell, column: Column) -> str:
    """Return a figure as text."""
    return _number(cell.value, column)


def interval(cell: Cell, column: Column) -> str:
    """Return a figure's interval as text, or ""."""
    if cell.low is None or cell.high is None:
        return ""
    mark = "!" if cell.few_groups else ""
    return f"{_number(cell.low, column)}–{_number(cell.high, column)}{mark}"


def _number(value: float | None, column: Column) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if column.rate else f"{value:.2f}"


def _cell(
    name: str,
    tasks: Mapping[str, Any],
    statistics: Mapping[str, Any],
    column: Column,
    scope: str,
) -> Cell:
    if column.part == "live":
        figures = statistics.get("live", {}).get(name, {}).get(scope, {})
        return Cell(figures.get(column.metric)) if column.task == "itp" else Cell()
    block = tasks.get(column.task, {})
    if column.part:
        return Cell(block.get(column.part, {}).get(scope, {}).get(column.metric))
    value = block.get(scope, {}).get(column.metric)
    made = statistics["intervals"].get(name, {}).get(column.task, {}).get(scope, {})
    around = made.get(column.metric)
    if value is None or around is None:
        return Cell(value)
    return Cell(value, around["low"], around["high"], around["few_groups"])


def _plain(tasks: Mapping[str, Any], column: Column) -> float | None:
    """Return a figure without its interval; parts beside the scopes have none without errors."""
    block = tasks.get(column.task, {})
    value: float | None = None if column.part else block.get("all", {}).get(column.metric)
    return value


def _published(columns: Sequence[Column]) -> Iterator[Line]:
    for result in published()["results"]:
        cells = tuple(Cell(published_figure(result, c.task, c.part or c.metric)) for c in columns)
        if any(cell.value is not None for cell in cells):
            yield Line(f"{result['model']} †", "191", "published", cells)


def _zip(cells: Sequence[Cell], columns: Sequence[Column]) -> Iterator[tuple[Cell, Column]]:
    return zip(cells, columns, strict=True)

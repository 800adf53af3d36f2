"""The one table of a replay: rows are variants, columns the tasks' headline metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.table import Table

from eval.metrics import SCOPES
from eval.scoring import Metrics

COLUMNS: Final = (
    ("itp", "f1_yes", "ITP F1"),
    ("itp", "auc", "ITP AUC"),
    ("itp", "balanced_accuracy", "ITP bal.acc"),
    ("rpp", "recall_at_1", "RPP acc"),
    ("rpp", "mrr", "RPP MRR"),
    ("rpp", "macro_f1", "RPP mF1"),
    ("stp", "recall_at_1", "STP R@1"),
    ("stp", "mrr", "STP MRR"),
    ("ssp", "recall_at_1", "SSP R@1"),
    ("ssp", "mrr", "SSP MRR"),
)


def result_table(metrics: Metrics, title: str) -> Table:
    """Return the table: per variant a row for all, and below it couple and family."""
    table = Table(title=title, title_justify="left", show_lines=False, pad_edge=False)
    table.add_column("variant", no_wrap=True)
    table.add_column("scope")
    for _, _, header in _columns(metrics):
        table.add_column(header, justify="right", no_wrap=True)
    for variant, tasks in metrics.items():
        for scope in SCOPES:
            cells = [_cell(tasks, task, scope, key) for task, key, _ in _columns(metrics)]
            name = variant if scope == "all" else ""
            table.add_row(name, scope, *cells, style="" if scope == "all" else "dim")
        table.add_section()
    return table


def counts_line(metrics: Metrics) -> str:
    """Return the numbers of instances by task and scope, as one line."""
    parts = []
    for task in ("itp", "rpp", "stp", "ssp"):
        figures = next((t[task] for t in metrics.values() if task in t), None)
        if figures:
            n = {scope: figures[scope]["n"] for scope in SCOPES}
            parts.append(
                f"{task.upper()} n={n['all']} (couple {n['couple']}, family {n['family']})"
            )
    return " · ".join(parts)


def _columns(metrics: Metrics) -> Sequence[tuple[str, str, str]]:
    present = {task for tasks in metrics.values() for task in tasks}
    return [column for column in COLUMNS if column[0] in present]


def _cell(tasks: dict[str, Any], task: str, scope: str, key: str) -> str:
    value = tasks.get(task, {}).get(scope, {}).get(key)
    return "–" if value is None else f"{100 * value:.1f}"

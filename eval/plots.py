"""The report's plots as SVG: no colour alone carries meaning, and they can be printed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.metrics import SCOPES
from eval.table import Column, present

MARKS: Final = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
COLOURS: Final = ("#0b5394", "#b45f06", "#38761d", "#741b47", "#444444", "#990000", "#134f5c")
STYLE: Final[Any] = {
    "svg.hashsalt": "kith",
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
WIDE: Final = 7.2
"""Inches; shown at the page's width."""


def plots(
    metrics: Mapping[str, Any], statistics: Mapping[str, Any], found: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Yield the plots as (title, alternative text, SVG).

    Args:
        metrics: content of ``metrics.json``.
        statistics: content of ``statistics.json``.
        found: content of ``slices.json``.
    """
    with rc_context(STYLE):
        for column in present(metrics, statistics):
            if not column.part:
                yield _headline(column, metrics, statistics)
        for task in ("itp", "rpp", "stp", "ssp"):
            if any(task in tasks for tasks in found["slices"].values()):
                yield _positions(task, found["slices"])
        main = _main_variant(metrics)
        for task, by_scenario in found["confusion"].get(main, {}).items():
            for scenario, entry in by_scenario.items():
                yield _confusion(main, task, scenario, entry)
        for scenario, entry in found["transitions"].get(main, {}).items():
            yield _transitions(main, scenario, entry)
        if found["calibration"].get(main):
            yield _calibration(main, found["calibration"][main])
        if any(found["threshold_curve"].values()):
            yield _thresholds(found["threshold_curve"])


def _main_variant(metrics: Mapping[str, Any]) -> str:
    """Return the first variant that is no floor, else the first that answers most tasks."""
    for name in metrics:
        if not name.startswith("floor-"):
            return name
    return max(metrics, key=lambda name: len(metrics[name]), default="")


@contextmanager
def _figure(height: float, columns: int = 1) -> Iterator[tuple[Figure, list[Axes]]]:
    figure = Figure(figsize=(WIDE, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)
    yield figure, list(axes[0])


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _headline(
    column: Column, metrics: Mapping[str, Any], statistics: Mapping[str, Any]
) -> tuple[str, str, str]:
    names = [n for n in metrics if column.task in metrics[n]]
    factor = 100 if column.rate else 1
    with _figure(0.9 + 0.42 * len(names)) as (figure, (axis,)):
        for place, scope in enumerate(SCOPES):
            for row, name in enumerate(names):
                intervals = statistics["intervals"][name][column.task].get(scope, {})
                entry = intervals.get(column.metric)
                if entry is None:
                    continue
                y = -row + (1 - place) * 0.22
                value = factor * entry["value"]
                label = scope if row == 0 else None
                axis.plot(value, y, MARKS[place], color=COLOURS[place], ms=6, label=label)
                if entry["low"] is not None:
                    ends = [factor * entry["low"], factor * entry["high"]]
                    axis.plot(ends, [y, y], color=COLOURS[place], lw=1.4)
        axis.set_yticks([-i for i in range(len(names))], names)
        axis.set_xlabel("percent" if column.rate else "score")
        axis.legend(loc="best", fontsize=8, frameon=False)
        alt = f"{column.header} of every variant with 95% intervals; the figures are in the table"
        return column.header, alt, _svg(figure)


def _positions(task: str, slices: Mapping[str, Any]) -> tuple[str, str, str]:
    with _figure(2.8) as (figure, (axis,)):
        for place, (name, tasks) in enumerate(slices.items()):
            values = tasks.get(task, {}).get("position", {})
            bins = sorted(values, key=lambda b: int(b.split("–")[0]))
            if bins:
                axis.plot(
                    bins,
                    [100 * values[b]["right"] for b in bins],
                    marker=MARKS[place % len(MARKS)],
                    color=COLOURS[place % len(COLOURS)],
                    label=name,
                )
        axis.set_ylabel("right, percent")
        axis.set_xlabel("position in the conversation")
        axis.set_ylim(0, 100)
        axis.legend(fontsize=8, frameon=False)
        title = f"{task.upper()} by position in the conversation"
        return title, f"{title}; the figures are in the slices table", _svg(figure)


def _confusion(
    name: str, task: str, scenario: str, entry: Mapping[str, Any]
) -> tuple[str, str, str]:
    labels, answers = entry["labels"], [a or "(none)" for a in entry["answers"]]
    counts = entry["counts"]
    with _figure(1.4 + 0.42 * len(labels)) as (figure, (axis,)):
        shares = [[c / max(1, sum(row)) for c in row] for row in counts]
        _matrix(axis, shares, labels, answers, [[str(c or "") for c in row] for row in counts])
        axis.set_xlabel("answer")
        axis.set_ylabel("gold")
        title = f"{task.upper()} confusion, {scenario}, {name}"
        return title, f"{title}: rows gold, columns answers, numbers of instances", _svg(figure)


def _transitions(name: str, scenario: str, entry: Mapping[str, Any]) -> tuple[str, str, str]:
    kept = [i for i, n in enumerate(entry["n"]) if n]
    rows = [f"{entry['patterns'][i]} ({entry['n'][i]})" for i in kept]
    with _figure(1.6 + 0.38 * max(1, len(rows)), 2) as (figure, axes):
        for axis, key in zip(axes, ("gold", "predicted"), strict=True):
            shares = [entry[key][i] for i in kept]
            texts = [[f"{100 * v:.0f}" if v >= 0.005 else "" for v in row] for row in shares]
            _matrix(axis, shares, rows if key == "gold" else None, entry["strategies"], texts)
            axis.set_title(key, fontsize=10)
        title = f"Strategy after pattern, {scenario}, {name}"
        return title, f"{title}: percent of each row, gold beside predicted", _svg(figure)


def _matrix(
    axis: Axes,
    shares: Sequence[Sequence[float]],
    rows: Sequence[str] | None,
    columns: Sequence[str],
    texts: Sequence[Sequence[str]],
) -> None:
    if not shares:
        return
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.grid(False)
    axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
    axis.set_yticks(range(len(shares)), rows if rows is not None else [""] * len(shares))
    axis.tick_params(axis="y", labelsize=8)
    for y, row in enumerate(shares):
        for x, share in enumerate(row):
            colour = "white" if share > 0.55 else "black"
            axis.text(x, y, texts[y][x], ha="center", va="center", fontsize=8, color=colour)


def _calibration(name: str, tasks: Mapping[str, Any]) -> tuple[str, str, str]:
    with _figure(3.4) as (figure, (axis,)):
        axis.plot([0, 1], [0, 1], color="#999999", lw=1, ls="--", label="calibrated")
        for place, (task, entry) in enumerate(tasks.items()):
            axis.plot(
                [b["confidence"] for b in entry["bins"]],
                [b["right"] for b in entry["bins"]],
                marker=MARKS[place],
                color=COLOURS[place],
                label=f"{task.upper()} (ECE {entry['ece']:.3f})",
            )
        axis.set_xlabel("confidence")
        axis.set_ylabel("share right (ITP: share of yes)")
        axis.legend(fontsize=8, frameon=False)
        title = f"Calibration, {name}"
        return title, f"{title}: confidence against the share that was right", _svg(figure)


def _thresholds(curves: Mapping[str, Any]) -> tuple[str, str, str]:
    with _figure(3.0) as (figure, (axis,)):
        for place, (name, points) in enumerate(curves.items()):
            axis.plot(
                [p["threshold"] for p in points],
                [100 * p["f1"] for p in points],
                marker=MARKS[place % len(MARKS)],
                ms=4,
                color=COLOURS[place % len(COLOURS)],
                label=name,
            )
        axis.set_xlabel("threshold of the probability of yes")
        axis.set_ylabel("ITP F1, percent")
        axis.legend(fontsize=8, frameon=False)
        title = "ITP F1 by threshold"
        return (
            title,
            f"{title}; choosing a threshold here would be tuning on this split",
            _svg(figure),
        )

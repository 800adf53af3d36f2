"""``details.xlsx``: figures, differences, every unit and the slices, for people who ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from openpyxl import Workbook
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from agent.labels import GROUP_LABEL
from eval.browse import Names
from eval.files import unusable
from eval.metrics import SCOPES
from eval.runner import Record
from eval.slices import is_right

SPREADSHEET: Final = "details.xlsx"
_NOT_ALLOWED: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_WIDEST: Final = 60

Rows = Iterable[Sequence[Any]]


def write_spreadsheet(
    folder: Path,
    metrics: Mapping[str, Any],
    statistics: Mapping[str, Any],
    slices: Mapping[str, Any],
    manifest: Mapping[str, Any],
    records: Sequence[Record],
    with_text: bool = True,
) -> None:
    """Write the spreadsheet into a run folder.

    Raises:
        StoreError: when it cannot be written.
    """
    book = Workbook()
    book.remove(book.worksheets[0])
    figures = ("variant", "task", "scope", "figure", "value", "low", "high", "units", "groups")
    _sheet(book, "figures", figures, _figures(metrics, statistics))
    differences = ("A", "B", "scope", "task", "figure", "difference", "low", "high", "p")
    more = ("p (Holm)", "McNemar p", "McNemar p (Holm)", "detectable", "units", "groups")
    _sheet(book, "differences", (*differences, *more), _differences(statistics["comparisons"]))
    units = ("variant", "repeat", "task", "sample", "row", "scenario", "group", "gold", "answer 1")
    rest = ("answer 2", "answer 3", "right", "status", "probabilities", "reading", "unit")
    _sheet(book, "units", (*units, *rest), _units(records, with_text))
    _sheet(
        book,
        "slices",
        ("variant", "task", "dimension", "value", "n", "right"),
        _slices(slices["slices"]),
    )
    run = ((k, json.dumps(v)) for k, v in manifest.items() if k not in ("units", "batches"))
    _sheet(book, "run", ("what", "value"), run)
    try:
        book.save(folder / SPREADSHEET)
    except OSError as error:
        raise unusable(folder, error) from error


def _sheet(book: Workbook, name: str, head: Sequence[str], rows: Rows) -> None:
    sheet = book.create_sheet(name)
    sheet.append(list(head))
    widths = [len(text) for text in head]
    for row in rows:
        cells = [_safe(value) for value in row]
        sheet.append(cells)
        widths = [max(w, len(str(c))) for w, c in zip(widths, cells, strict=True)]
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    for place, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(place)].width = min(_WIDEST, width + 2)
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = sheet.dimensions


def _safe(value: Any) -> Any:
    """Return a cell's value; a text that a spreadsheet would take for a formula is quoted."""
    if not isinstance(value, str):
        return value
    text = _NOT_ALLOWED.sub(" ", value)[:32_000]
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and len(text) > 1 else text


def _figures(metrics: Mapping[str, Any], statistics: Mapping[str, Any]) -> Rows:
    for variant, tasks in metrics.items():
        for task, block in tasks.items():
            for scope in SCOPES:
                made = statistics["intervals"][variant][task].get(scope, {})
                for name, value in block[scope].items():
                    around = made.get(name, {})
                    keys = ("low", "high", "units", "groups")
                    yield (variant, task, scope, name, value, *(around.get(k) for k in keys))


def _differences(comparisons: Iterable[Mapping[str, Any]]) -> Rows:
    keys = ["metric", "value", "low", "high", "p", "p_holm", "mcnemar_p", "mcnemar_p_holm"]
    keys += ["detectable", "units", "groups"]
    for entry in comparisons:
        for task, d in entry["tasks"].items():
            yield (entry["a"], entry["b"], entry["scope"], task, *(d[k] for k in keys))


def _units(records: Sequence[Record], with_text: bool) -> Rows:
    people = {} if with_text else _aliases(records)
    for r in records:
        names = Names(people.get(r.sample_id, {}), with_text or r.task != "stp")
        judged = r.task in ("er", "vp")
        shown = with_text or not judged
        gold = r.gold if isinstance(r.gold, str) else json.dumps(r.gold, ensure_ascii=False)
        ranking = (*map(names, r.ranking), "", "", "")[:3]
        reading = json.dumps(r.answer, ensure_ascii=False) if r.answer and with_text else ""
        chances = json.dumps(r.probabilities, ensure_ascii=False) if names.plain else ""
        yield (
            *(r.variant, r.repeat, r.task, r.sample_id, r.row, r.scenario, r.group),
            *(names(gold) if shown else "", *ranking, None if judged else is_right(r), r.status),
            *(chances, reading, r.unit),
        )


def _aliases(records: Iterable[Record]) -> dict[str, dict[str, str]]:
    """Return P1, P2 ... for the people of every sample, in the order they were met."""
    out: dict[str, dict[str, str]] = {}
    for r in records:
        if r.task == "stp":
            known = out.setdefault(r.sample_id, {})
            for name in (*(r.candidates or ()), *r.ranking, str(r.gold)):
                if name and name not in GROUP_LABEL.values():
                    known.setdefault(name, f"P{len(known) + 1}")
    return out


def _slices(slices: Mapping[str, Any]) -> Rows:
    for variant, tasks in slices.items():
        for task, dimensions in tasks.items():
            for dimension, values in dimensions.items():
                for value, entry in values.items():
                    yield (variant, task, dimension, value, entry["n"], entry["right"])

"""``report.html`` and ``report.md``: one static page without any outside request, and its text."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from agent.rescue import Sample
from eval.browse import browser_data
from eval.compare import explanation, markdown
from eval.cost import cost_line, costs, model_lines
from eval.files import StoreError, replace_bytes, unusable
from eval.references import published
from eval.slices import FACTS, all_slices
from eval.store import CALLS, DECISIONS, read_lines, read_manifest, read_records, write_json
from eval.table import (
    FURTHER,
    LEGEND,
    Column,
    Line,
    counts_line,
    difference_texts,
    header,
    interval,
    lines,
    present,
    text,
)

REPORT_HTML: Final = "report.html"
REPORT_MD: Final = "report.md"
SLICES: Final = "slices.json"


@dataclass(frozen=True)
class Material:
    """What a report is made of: the contents of a run folder."""

    manifest: Mapping[str, Any]
    metrics: Mapping[str, Any]
    statistics: Mapping[str, Any]
    slices: Mapping[str, Any]
    costs: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The report's heading."""
        configuration = self.manifest["configuration"]
        data = self.manifest["data"]["collection"] or "own data"
        return f"Replay of {data}, split {configuration['split']}, {configuration['protocol']}"


def write_report(
    folder: Path,
    metrics: Mapping[str, Any],
    statistics: Mapping[str, Any],
    samples: Sequence[Sample] = (),
    with_text: bool = True,
) -> None:
    """Write ``report.html``, ``report.md`` and ``slices.json`` into a run folder.

    Args:
        folder: of the run.
        metrics: content of ``metrics.json``.
        statistics: content of ``statistics.json``.
        samples: the data, for transcripts; empty when it is not at hand.
        with_text: whether anything that was said may stand in the report.

    Raises:
        StoreError: when the folder cannot be read or written.
    """
    records = read_records(folder)
    found = all_slices(records, facts_in(folder))
    write_json(folder / SLICES, found)
    material = Material(
        read_manifest(folder), metrics, statistics, found, costs(read_lines(folder, CALLS))
    )
    browser = browser_data(records, read_lines(folder, DECISIONS), samples, with_text)
    for name, content in ((REPORT_HTML, html(material, browser)), (REPORT_MD, md(material))):
        try:
            replace_bytes(folder / name, content.encode("utf-8", "replace"))
        except OSError as error:
            raise unusable(folder, error) from error


def md(material: Material) -> str:
    """Return the report as Markdown: tables and notes, nothing of any conversation."""
    m, s = material.metrics, material.statistics
    parts = [f"# {material.title}", ""]
    if material.manifest["banner"]:
        parts += [f"**{material.manifest['banner']}**", ""]
    parts += _md_table(lines(m, s), present(m, s), m)
    parts += ["", counts_line(m), "", LEGEND, ""]
    parts += [f"† {caveat}" for caveat in published()["caveats"]]
    if present(m, s, FURTHER):
        further = lines(m, s, FURTHER, with_published=False)
        parts += ["", "## Further figures", "", *_md_table(further, present(m, s, FURTHER), m)]
    if s["comparisons"]:
        parts += ["", "## Paired differences", "", *markdown(s["comparisons"])]
        parts += ["", explanation()]
    parts += ["", "## Planned, scored, failed", "", *(f"- {x}" for x in _outcomes(material))]
    parts += ["", "## Cost", "", *(f"- {x}" for x in _costs(material))]
    parts += ["", "## Run", "", *(f"- {name}: {value}" for name, value in _facts_of_run(material))]
    return "\n".join(parts) + "\n"


def html(material: Material, browser: Mapping[str, Any]) -> str:
    """Return the page. All text is escaped; script and style are in it."""
    # imported here: takes a second that nothing else needs to wait for
    from eval.plots import plots

    m, s = material.metrics, material.statistics
    body = [f"<h1>{escape(material.title)}</h1>"]
    if material.manifest["banner"]:
        body.append(f'<p class="banner">{escape(material.manifest["banner"])}</p>')
    body.append(_html_table("Headline figures", lines(m, s), present(m, s), m))
    body.append(f'<p class="notes">{escape(counts_line(m))}. {escape(LEGEND)}</p>')
    body.append(_notes("† Published results", published()["caveats"]))
    if present(m, s, FURTHER):
        further = lines(m, s, FURTHER, with_published=False)
        body.append(_html_table("Further figures", further, present(m, s, FURTHER), m))
    body.append(_differences(s["comparisons"]))
    body.append("<h2>Planned, scored, failed</h2>" + _list(_outcomes(material)))
    body.append("<h2>Plots</h2>")
    for title, alt, svg in plots(m, s, material.slices):
        source = base64.b64encode(svg.encode()).decode()
        body.append(
            f"<figure><figcaption>{escape(title)}</figcaption>"
            f'<img class="plot" alt="{escape(alt)}" src="data:image/svg+xml;base64,{source}">'
            "</figure>"
        )
    body.append("<h2>Slices</h2>" + _slices(material.slices["slices"]))
    body.append("<h2>Cost</h2>" + _list(_costs(material)))
    body.append("<h2>Run</h2>" + _list(f"{n}: {v}" for n, v in _facts_of_run(material)))
    body.append(_browser(browser))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(material.title)}</title><style>{_asset('report.css')}</style></head>"
        f"<body>{''.join(body)}<script>{_asset('report.js')}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    return files("eval").joinpath("web", name).read_text(encoding="utf-8")


def facts_in(folder: Path) -> dict[str, Any]:
    """Return what the slices need to know of each sample of a run.

    Raises:
        StoreError: when the folder does not hold it.
    """
    path = folder / FACTS
    try:
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({type(error).__name__})") from error
    return loaded


def _md_table(
    rows: Sequence[Line], columns: Sequence[Column], metrics: Mapping[str, Any]
) -> list[str]:
    names = ["variant", "scope", *(header(c, metrics) for c in columns), "ok"]
    found = ["| " + " | ".join(names) + " |", "|---|---|" + "---:|" * (len(names) - 2)]
    for line in rows:
        cells = [
            f"{text(cell, column)} {_bracket(interval(cell, column))}".rstrip()
            for cell, column in zip(line.cells, columns, strict=True)
        ]
        found.append("| " + " | ".join([line.name, line.scope, *cells, line.outcome]) + " |")
    return found


def _bracket(around: str) -> str:
    return f"[{around}]" if around else ""


def _html_table(
    title: str, rows: Sequence[Line], columns: Sequence[Column], metrics: Mapping[str, Any]
) -> str:
    names = ["variant", "scope", *(header(c, metrics) for c in columns), "ok"]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = []
    for line in rows:
        cells = [
            f"<td>{escape(text(cell, column))}<small>{escape(interval(cell, column))}</small></td>"
            for cell, column in zip(line.cells, columns, strict=True)
        ]
        name = "" if line.scope == "all" and line.kind == "variant" else ' class="sub"'
        body.append(
            f"<tr{name}><td>{escape(line.name)}</td><td>{escape(line.scope)}</td>"
            f"{''.join(cells)}<td>{escape(line.outcome)}</td></tr>"
        )
    return _table(title, head, body)


def _table(title: str, head: str, rows: Sequence[str]) -> str:
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(title)}"><table>'
        f"<caption>{escape(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _differences(comparisons: Sequence[Mapping[str, Any]]) -> str:
    if not comparisons:
        return ""
    names = ["A", "B", "scope", "task", "diff", "95%", "p", "Holm", "McNemar", "Holm"]
    names += ["detectable", "n"]
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = []
    for entry in comparisons:
        for task, d in entry["tasks"].items():
            where = [entry["a"], entry["b"], entry["scope"], task.upper()]
            cells = [*where, *difference_texts(task, d)]
            rows.append("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>")
    table = _table("Paired differences, B minus A", head, rows)
    return f'<h2>Comparisons</h2>{table}<p class="notes">{escape(explanation())}</p>'


def _slices(slices: Mapping[str, Any]) -> str:
    head = "".join(f'<th scope="col">{n}</th>' for n in ("value", "task", "right", "n"))
    parts = []
    for variant, tasks in slices.items():
        dimensions: dict[str, list[str]] = {}
        for task, by_dimension in tasks.items():
            for dimension, values in by_dimension.items():
                for value, entry in values.items():
                    cells = (value, task.upper(), f"{100 * entry['right']:.1f}%", str(entry["n"]))
                    row = "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in cells) + "</tr>"
                    dimensions.setdefault(dimension, []).append(row)
        tables = "".join(_table(name, head, rows) for name, rows in dimensions.items())
        parts.append(f"<details><summary>{escape(variant)}</summary>{tables}</details>")
    return "".join(parts)


def _browser(browser: Mapping[str, Any]) -> str:
    content = json.dumps(browser, ensure_ascii=False).replace("<", "\\u003c")
    more = ""
    if browser["left_out"]:
        more = f"<p>{browser['left_out']:,} more units are in predictions.jsonl.</p>"
    kinds = "".join(
        f'<option value="{value}">{label}</option>'
        for value, label in (
            ("", "all"),
            ("wrong", "wrong"),
            ("right", "right"),
            ("failed", "failed"),
        )
    )
    return (
        '<section class="no-print"><h2>Units</h2><div class="controls">'
        '<label>variant <select id="variant"></select></label>'
        '<label>task <select id="task"></select></label>'
        f'<label>show <select id="kind">{kinds}</select></label></div>'
        '<div class="browser"><div><div class="controls">'
        '<button type="button" id="back" aria-label="earlier units">‹</button>'
        '<span id="count" aria-live="polite"></span>'
        '<button type="button" id="more" aria-label="later units">›</button></div>'
        f'<ul id="list"></ul></div><div id="unit" aria-live="polite"></div></div>{more}</section>'
        f'<script type="application/json" id="units">{content}</script>'
    )


def _notes(title: str, notes: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<details open><summary>{escape(title)}</summary><ul class="notes">{items}</ul></details>'
    )


def _list(items: Any) -> str:
    return "<ul>" + "".join(f"<li>{escape(str(item))}</li>" for item in items) + "</ul>"


def _costs(material: Material) -> list[str]:
    return [
        line
        for name, entry in material.costs.items()
        for line in (cost_line(name, entry), *model_lines(name, entry))
    ]


def _outcomes(material: Material) -> list[str]:
    found = []
    for name, o in material.statistics["outcome"].items():
        planned = material.statistics["planned"].get(name, o["planned"])
        failed = {k: n for k, n in o["by_status"].items() if k != "ok"}
        kinds = " (" + ", ".join(f"{k} {n}" for k, n in failed.items()) + ")" if failed else ""
        found.append(
            f"{name}: planned {planned}, scored {o['scored']}, errors {o['errors']}{kinds}"
        )
    for name, tasks in material.statistics["repeats"].items():
        for task, entry in tasks.items():
            found.append(
                f"{name}, {task.upper()} {entry['metric']} over {len(entry['values'])} repeats: "
                f"mean {entry['mean']:.4f}, sd {entry['sd']:.4f}"
            )
    return found


def _facts_of_run(material: Material) -> list[tuple[str, str]]:
    manifest = material.manifest
    shown = {k: v for k, v in manifest["configuration"].items() if v is not None}
    return [
        ("commit", manifest["commit"] + (" with changes" if manifest["dirty"] else "")),
        ("scoring version", manifest["eval_version"]),
        ("made", manifest["made"]),
        ("data SHA-256", manifest["data"]["sha256"]),
        ("configuration", json.dumps(shown, ensure_ascii=False)),
        ("policies", ", ".join(f"{k} {v}" for k, v in manifest["policies"].items())),
        ("packages", ", ".join(f"{k} {v}" for k, v in manifest["packages"].items())),
    ]

"""The report in Chromium, runs compared and scored again, the spreadsheet."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from agent.demo import demo_path
from agent.labels import GROUP_LABEL
from agent.rescue import load_dataset
from tests.browser import ARGS, CHROMIUM, need_chromium
from tests.test_replay import lines, replay


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    out = folder / "one"
    done = replay(folder, "--variant", "floors", "--out", str(out), "--xlsx")
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGS)
        yield chromium
        chromium.close()


def opened(browser: Any, path: Path, width: int) -> tuple[Any, list[str]]:
    page = browser.new_page(viewport={"width": width, "height": 800})
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:")) else faults.append(r.url),
    )
    page.goto(path.as_uri())
    return page, faults


@pytest.mark.browser
def test_the_report_on_a_wide_screen(run: Path, browser: Any) -> None:
    page, faults = opened(browser, run / "report.html", 1200)
    text = page.inner_text("body")
    for wanted in (
        "DEMO DATA",
        "66.7",
        "chance",
        "GPT-4o",
        "2,605",
        "planned",
        "McNemar",
        "commit",
    ):
        assert wanted in text
    plots = page.locator("img.plot")
    assert plots.count() > 8
    widths = plots.evaluate_all("all => all.map(i => i.naturalWidth)")
    assert min(widths) > 300
    assert all(plots.nth(i).get_attribute("alt") for i in range(plots.count()))
    page.select_option("#variant", "floor-last-speaker")
    page.select_option("#task", "stp")
    page.select_option("#kind", "wrong")
    page.locator("#list button").first.click()
    record = json.loads(page.locator("#unit pre").inner_text(timeout=2000) or "{}") or None
    if record is None:
        page.get_by_text("Raw record").click()
        record = json.loads(page.locator("#unit pre").inner_text())
    assert record["variant"] == "floor-last-speaker" and record["ranking"][0] != record["gold"]
    samples = {s.sample_id: s for s in load_dataset(demo_path()).samples}
    rows = samples[record["sample_id"]].rows
    turns = page.locator("#unit .turn")
    assert turns.count() == record["visible"] == record["row"] - 1
    last = turns.nth(turns.count() - 1).inner_text()
    assert " ".join(rows[record["visible"] - 1].dialogue_cleaned.split()) in " ".join(last.split())
    assert not faults


@pytest.mark.browser
def test_the_report_on_a_phone(run: Path, browser: Any) -> None:
    page, faults = opened(browser, run / "report.html", 390)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390, "the page scrolls sideways"
    sizes = page.evaluate(
        "[...document.querySelectorAll('p, li, td, th, button, select, dd')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 13
    page.select_option("#variant", "floor-random")
    page.select_option("#task", "ssp")
    page.locator("#list button").nth(1).click()
    assert page.locator("#unit .turn").count() > 0
    box = page.locator("#list button").nth(1).bounding_box()
    assert box["height"] >= 40
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.emulate_media(media="print")
    assert not page.locator("#list").is_visible()
    assert page.locator("img.plot").first.is_visible()
    assert not faults


def test_without_text_nothing_that_was_said_is_in_the_report(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    done = replay(tmp_path, str(copy), "--no-text", "--xlsx", module="eval.rescore")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(openpyxl.load_workbook(copy / "details.xlsx")["units"].iter_rows(values_only=True))
    spoken_to = [dict(zip(rows[0], row, strict=True)) for row in rows[1:] if row[2] == "stp"]
    called = {row[key] for row in spoken_to for key in ("gold", "answer 1", "answer 2")} - {None}
    assert {"P1", "P2"} <= called <= {"P1", "P2", "P3", "P4", "P5", "", *GROUP_LABEL.values()}
    assert not any(row["probabilities"] for row in spoken_to)
    pages = [(copy / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")]
    samples = load_dataset(demo_path()).samples
    shown = {line["sample_id"] for line in lines(run / "predictions.jsonl")}
    for sample in samples:
        if sample.sample_id in shown:
            for row in sample.rows:
                said = row.dialogue_cleaned.strip()
                assert len(said) < 12 or not any(json.dumps(said)[1:-1] in p for p in pages)
    assert '"gold": "P1"' in pages[0] and '"speaker"' not in pages[0]


def test_hostile_text_stays_text(run: Path, tmp_path: Path, browser: Any) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    path = copy / "predictions.jsonl"
    first = lines(path)[0]
    evil = "</script><img src=x onerror=document.title='owned'>"
    text = path.read_text().replace(json.dumps(first["gold"]), json.dumps(evil), 1)
    path.write_text(text)
    done = replay(tmp_path, str(copy), module="eval.rescore")
    assert done.returncode == 0, done.stdout + done.stderr
    page, faults = opened(browser, copy / "report.html", 800)
    page.locator("#list button").first.click()
    assert evil in page.locator("#unit dd").first.inner_text()
    assert page.title() != "owned" and not faults


def test_scoring_again_gives_the_same_and_asks_nobody(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    names = ("metrics.json", "statistics.json", "report.md", "report.html", "slices.json")
    for name in names:
        (copy / name).unlink()
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["eval_version"] = "0"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    refused = replay(tmp_path, str(run), str(copy), module="eval.compare")
    assert refused.returncode == 2 and "python -m eval.rescore" in refused.stdout
    done = replay(tmp_path, str(copy), module="eval.rescore")
    assert done.returncode == 0 and "by version 0 so far" in done.stdout
    for name in names:
        assert (copy / name).read_bytes() == (run / name).read_bytes(), name
    assert replay(tmp_path, str(run), str(copy), module="eval.compare").returncode == 0


def test_runs_are_compared_pair_by_pair(run: Path, tmp_path: Path) -> None:
    other, out = tmp_path / "two", tmp_path / "compare.json"
    arguments = ("--variant", "floor-random", "--seed", "5", "--no-report", "--out", str(other))
    assert replay(tmp_path, *arguments).returncode == 0
    done = replay(tmp_path, str(run), str(other), "--out", str(out), module="eval.compare")
    assert done.returncode == 0, done.stdout
    found = json.loads(out.read_text())
    assert found["baseline"] == "floor-always-yes"
    assert "seed: 0 in one, 5 in two" in done.stdout
    names = {c["b"] for c in found["comparisons"]}
    assert {"one:floor-random", "two:floor-random"} <= names
    same = replay(
        tmp_path,
        *(str(run), str(run), "--baseline", "one:floor-random", "--metric", "ssp=mrr"),
        *("--out", str(out)),
        module="eval.compare",
    )
    assert same.returncode == 0, same.stdout
    pair = next(
        c for c in json.loads(out.read_text())["comparisons"] if c["b"].endswith(":floor-random")
    )
    assert {d["value"] for d in pair["tasks"].values()} == {0}
    assert {d["p"] for d in pair["tasks"].values()} == {1}
    assert pair["tasks"]["ssp"]["metric"] == "mrr"


def test_runs_that_cannot_be_compared(run: Path, tmp_path: Path) -> None:
    live = tmp_path / "live"
    arguments = ("--variant", "floor-random", "--protocol", "live", "--no-report")
    assert replay(tmp_path, *arguments, "--out", str(live)).returncode == 0
    for runs, said in (
        ((run, live), "protocol"),
        ((run, tmp_path), "holds no run"),
        ((run, "--baseline", "nobody"), "no variant 'nobody'"),
        ((run, "--metric", "ssp"), "TASK=FIGURE"),
    ):
        done = replay(tmp_path, *map(str, runs), module="eval.compare")
        assert done.returncode == 2 and said in done.stdout and not done.stderr


def test_the_spreadsheet_holds_every_unit(run: Path) -> None:
    book = openpyxl.load_workbook(run / "details.xlsx", read_only=True)
    assert book.sheetnames == ["figures", "differences", "units", "slices", "run"]
    rows = list(book["units"].iter_rows(values_only=True))
    assert len(rows) - 1 == len(lines(run / "predictions.jsonl"))
    counted = Counter(row[0] for row in rows[1:])
    assert counted.keys() == {
        "floor-always-yes",
        "floor-majority",
        "floor-random",
        "floor-last-speaker",
    }
    figures = {(r[0], r[1], r[2], r[3]): r[4] for r in book["figures"].iter_rows(values_only=True)}
    assert figures["floor-always-yes", "itp", "all", "f1_yes"] == pytest.approx(2 / 3)

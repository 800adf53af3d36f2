"""Own conversations: annotated in the browser, replayed like RESCUE data; thumbs by strategy."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.rescue import load_dataset
from eval.annotate import KEY, Annotations, Server, WrongAnnotation
from eval.feedback import FeedbackError, Vote, read_votes, summary, wilson
from eval.files import StoreError
from tests.browser import ARGS, CHROMIUM, need_chromium
from tests.rescue_data import make_row, make_sample, strategy
from tests.test_replay import lines, replay


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """What the room exports: the agent's own decisions stand as its support strategies."""
    rows = [
        make_row("Ana", "Ben", "You were late <again>, and I sat there."),
        make_row("Ben", "Ana", "The bus. It is always something with you."),
        make_row(
            "Therapist", "Ben", "Ben, what was it like?", support_strategy=strategy("evoke", "Ben")
        ),
        make_row("Ben", "Ana", "I felt like a guest at my own table."),
        make_row("Ana", "Ben", "I did not know that."),
        make_row("Therapist", "Ana", "Go on.", support_strategy=strategy("track", "Ana")),
        make_row("Ana", "Ben", "Thank you for telling me."),
        make_row("Therapist", "", "Mm."),
    ]
    path = tmp_path / "room.jsonl"
    other = make_sample(*rows[:3], sample_id="room/2")
    sample = make_sample(*rows, sample_id="room/1", scenario="couple")
    path.write_text("".join(json.dumps(s) + "\n" for s in (sample, other)))
    return path


@pytest.fixture
def served(export: Path, tmp_path: Path) -> Iterator[Server]:
    server = Server(Annotations(export, tmp_path / "out.jsonl"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.browser
def test_annotated_in_the_browser_and_replayed(served: Server, tmp_path: Path) -> None:
    need_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGS)
        page = chromium.new_page(viewport={"width": 390, "height": 800})
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        page.goto(served.url)
        assert "You were late <again>" in page.inner_text("main")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        first, second = (
            page.locator("main > fieldset").nth(0),
            page.locator("main > fieldset").nth(1),
        )
        saved = page.get_by_role("status").get_by_text("saved", exact=True)
        first.locator("[name=verdict]").select_option("right")
        saved.wait_for()
        first.locator("[name=target]").select_option("Couple")
        first.locator("[name=strategy]").select_option("reframe")
        first.locator("[name=comment]").fill("Both, not Ben alone.\n=1+1")
        first.locator("[name=comment]").blur()
        second.locator("[name=verdict]").select_option("wrong")
        page.wait_for_function("document.getElementById('state').textContent === 'saved'")
        page.get_by_text("support was missing here?").first.click()
        page.locator("details fieldset [name=verdict]").first.select_option("missing")
        page.wait_for_function("document.getElementById('state').textContent === 'saved'")
        page.reload()
        assert first.locator("[name=strategy]").input_value() == "reframe"
        assert "Both, not Ben" in first.locator("[name=comment]").input_value()
        chromium.close()
    assert not faults
    out = tmp_path / "out.jsonl"
    rows = load_dataset(out).samples[0].rows
    assert rows[2].support_strategy[0].target == ("Couple",)
    assert rows[2].support_strategy[0].strategy_type == "reframe"
    assert rows[5].support_strategy == ()
    raw = lines(out)[0]["rows"]
    assert raw[0][KEY]["verdict"] == "missing" and raw[5][KEY]["verdict"] == "wrong"

    run = tmp_path / "run"
    done = replay(
        tmp_path,
        *("--data", str(out), "--split", "all", "--protocol", "live", "--variant", "floors"),
        *("--out", str(run), "--tasks", "itp,stp,ssp"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OWN DATA" in done.stdout
    golds = {
        (p["task"], p["row"]): p["gold"]
        for p in lines(run / "predictions.jsonl")
        if p["sample_id"] == "room/1"
    }
    assert golds["stp", 3] == "Couple" and golds["ssp", 3] == "reframe"
    assert golds["itp", 2] == "yes" and golds["itp", 5] == golds["itp", 7] == "no"
    assert ("ssp", 6) not in golds


def test_work_is_taken_up_and_other_conversations_are_refused(export: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    first = Annotations(export, out)
    first.put({"sample": 0, "row": 2, "verdict": "wrong", "comment": "too soon"})
    assert load_dataset(out).samples[0].rows[2].support_strategy == ()
    again = Annotations(export, out)
    again.put({"sample": 0, "row": 5, "verdict": "right"})
    kept = lines(out)[0]["rows"]
    assert kept[2][KEY]["comment"] == "too soon"
    assert kept[5]["support_strategy"][0]["strategy_type"] == "track"
    again.put({"sample": 0, "row": 2, "verdict": ""})
    assert load_dataset(out).samples[0].rows[2].support_strategy[0].strategy_type == "evoke"
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps(make_sample(make_row("Ana"), sample_id="room/9")) + "\n")
    with pytest.raises(StoreError, match="other conversations"):
        Annotations(other, out)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sample": 7, "row": 0}, "sample"),
        ({"sample": 0, "row": 99}, "row"),
        ({"sample": 0, "row": 2, "verdict": "missing"}, "verdict"),
        ({"sample": 0, "row": 0, "verdict": "right"}, "verdict"),
        ({"sample": 0, "row": 2, "verdict": "right", "target": "Nobody here"}, "target"),
        ({"sample": 0, "row": 2, "verdict": "right", "strategy": "boundary"}, "strategy"),
        ({"sample": 0, "row": 2, "comment": "x" * 5000}, "comment"),
        ({"sample": 0, "row": 2, "comment": 3}, "comment"),
    ],
)
def test_a_judgement_that_does_not_fit_is_refused(
    export: Path, tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(WrongAnnotation, match=f"^{field}: "):
        Annotations(export, out).put(change)
    assert not out.exists()


def status(url: str, content: bytes | None = None, host: str | None = None) -> int:
    request = urllib.request.Request(url, content, {"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_nobody_else_gets_in(served: Server) -> None:
    port = served.server_address[1]
    assert served.server_address[0] == "127.0.0.1"
    assert status(served.url) == 200
    assert status(served.url, host="evil.example") == 404
    assert status(f"http://127.0.0.1:{port}/") == 404
    assert status(f"http://127.0.0.1:{port}/guess/save", b"{}") == 404
    for content in (b"no json", b"[]", b"{}", b"x" * 200_000):
        assert status(f"{served.url}save", content) == 400


def decision(label: str, scenario: str = "couple", target: str = "Ana") -> dict[str, Any]:
    strategies = [{"label": label, "score": 0.6}]
    return {"scenario": scenario, "strategies": strategies, "target": target, "policy": "local"}


def test_thumbs_by_strategy(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    votes = [("reframe", 1)] * 3 + [("reframe", -1), ("track", -1), ("track", 0)]
    path.write_text(
        "".join(json.dumps({"decision": decision(s), "vote": v}) + "\n" for s, v in votes)
        + json.dumps({"decision": decision("join", "family", "Family"), "vote": 1})
    )
    done = replay(tmp_path, str(path), "--out", str(tmp_path / "o.json"), module="eval.feedback")
    assert done.returncode == 0 and "6 thumbs" in done.stdout
    found = json.loads((tmp_path / "o.json").read_text())["strategies"]
    shown = {(row["scenario"], row["strategy"]): (row["up"], row["down"]) for row in found}
    assert shown == {
        ("couple", "reframe"): (3, 1),
        ("couple", "track"): (0, 1),
        ("family", "join"): (1, 0),
    }


async def test_thumbs_from_the_rooms_own_database(tmp_path: Path) -> None:
    store_module = pytest.importorskip("ui.store")
    records = pytest.importorskip("ui.records")
    store = store_module.Store(tmp_path / "rooms.sqlite")
    await store.add_room(records.RoomInfo("r", "couple", "shared", 1.0, 1.0))
    first = await store.add_decision("r", None, 1, 2, json.dumps(decision("evoke")))
    await store.vote(first, "p1", 1)
    await store.vote(first, "p2", -1)
    await store.close()
    assert read_votes(store.file) == [
        Vote("couple", "evoke", "person", "local", True),
        Vote("couple", "evoke", "person", "local", False),
    ]


@pytest.mark.parametrize(
    "text",
    ["{}", "nothing", '{"vote": 3}', json.dumps({"decision": decision("boundary"), "vote": 1})],
)
def test_what_is_no_feedback_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(f"\n{text}\n")
    with pytest.raises(FeedbackError, match="line 2"):
        read_votes(path)
    with pytest.raises(FeedbackError, match="cannot be read"):
        read_votes(tmp_path / "missing")


def test_wilson() -> None:
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-3)
    assert wilson(10, 10)[1] == pytest.approx(1) and summary([]) == []

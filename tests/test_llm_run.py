"""What a replay with a model server leaves behind and prints."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from eval.plan import without_secrets
from tests.llm_server import Answer, LLMServer
from tests.rescue_data import REPO
from tests.test_eval_judge import command
from tests.test_replay import environment, lines


def test_a_url_is_kept_without_what_may_be_secret() -> None:
    assert without_secrets("https://me:word@host:8/v1?key=s#f") == "https://host:8/v1"
    assert without_secrets("http://127.0.0.1:9/v1") == "http://127.0.0.1:9/v1"


async def test_a_run_prints_calls_and_tokens_a_decision_and_keeps_no_secret(tmp_path: Path) -> None:
    out = tmp_path / "run"
    async with LLMServer() as server:
        url = server.url.replace("http://", "http://me:hidden-word@")
        arguments = ("--variant", "plain-window,agent", "--limit", "1", "--out", str(out))
        code, said = await command(
            tmp_path, "eval.replay", *arguments, "--base-url", url, "--model", "m"
        )
        assert code == 0, said
        points = sum(d["variant"] == "agent" for d in lines(out / "decisions.jsonl"))
        assert len(server.asked) == 2 * points
    printed = [line for line in said.splitlines() if line.startswith(("plain-window: ", "agent: "))]
    told = [line for line in printed if "calls and" in line]
    assert len(told) == 2 and all("1.0" in line and "tokens a decision" in line for line in told)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["configuration"]["llm"]["openai_base_url"] == server.url
    assert "hidden-word" not in said
    for file in out.rglob("*"):
        if file.is_file():
            assert b"hidden-word" not in file.read_bytes(), file.name


async def test_stopped_from_the_keyboard_a_run_keeps_what_is_done_and_says_so(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    arguments = ("--variant", "agent", "--tasks", "stp", "--out", str(out), "--no-report")
    async with LLMServer() as server:
        arguments += ("--base-url", server.url, "--model", "m", "--concurrency", "1")
        slow = asyncio.Event()

        def fall_asleep(request: dict[str, Any]) -> Answer:
            slow.set()
            return Answer("", delay=600)

        # the first samples are answered, then the server hangs
        server.queue += [server.by_kind] * 20
        server.queue.append(fall_asleep)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "eval.replay", *arguments),
            cwd=REPO,
            env=environment(tmp_path),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        await slow.wait()
        process.send_signal(signal.SIGINT)
        said = (await process.communicate())[0].decode()
        assert process.returncode == 130 and "Traceback" not in said
        assert "the same command goes on" in said
        kept = len(lines(out / "predictions.jsonl"))
        calls = [c for c in lines(out / "calls.jsonl") if c["kind"] == "model"]
        assert kept > 0 and calls[-1]["status"] == "cancelled"
        server.queue.clear()
        before = len(server.requests)
        code, said = await command(tmp_path, "eval.replay", *arguments)
        assert code == 0 and "already done" in said
        assert len(server.requests) - before < len(lines(out / "predictions.jsonl"))


async def test_a_spent_budget_stops_the_asking_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("--variant", "plain-window", "--tasks", "stp", "--out", str(out), "--no-report")
    async with LLMServer() as server:
        arguments += ("--base-url", server.url, "--model", "m", "--concurrency", "1")
        code, said = await command(tmp_path, "eval.replay", *arguments, "--budget-tokens", "9000")
        assert code == 3, said
        statuses = [p["status"] for p in lines(out / "predictions.jsonl")]
        assert (
            0
            < statuses.count("ok")
            < len(statuses)
            == statuses.count("ok") + statuses.count("budget")
        )
        asked = len(server.requests)
        assert asked < len(statuses)
        code, said = await command(tmp_path, "eval.replay", *arguments, "--retry-errors")
        assert code == 0, said
        assert {p["status"] for p in lines(out / "predictions.jsonl")} == {"ok"}
        # what was paid for comes from the disk
        assert len(server.requests) == len(statuses) + 1

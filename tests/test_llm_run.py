"""What a replay with a model server leaves behind and prints."""

from __future__ import annotations

import json
from pathlib import Path

from eval.plan import without_secrets
from tests.llm_server import LLMServer
from tests.test_eval_judge import command
from tests.test_replay import lines


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

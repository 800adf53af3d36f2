"""Real model servers on loopback: ``make test-llm`` fetches them and runs these.

The models are tiny: these tests are about plumbing, and say nothing about any agent's quality.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.context import Context, Request
from agent.graph import compile_graph
from agent.llm import AnswerFault, Ask, LLMClient, LLMError
from agent.llm.ladder import STEPS
from agent.policies.llm import VARIANTS, LLMPolicy
from agent.settings import Settings, load_settings
from tests.llm_turns import turns_of

pytestmark = [pytest.mark.llm, pytest.mark.timeout(600)]
HERE = Path(__file__).parent
ASK = Ask(node="test")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 60},
        "speak": {"type": "string", "enum": ["yes", "no"]},
    },
    "required": ["reason", "speak"],
    "additionalProperties": False,
}
MESSAGES = [("user", "Ana says: you never listen. Should a helper speak now?")]


def home() -> Path:
    given = os.environ.get("KITH_TEST_LLM")
    if not given:
        pytest.skip("real model servers run under make test-llm, which fetches them")
    return Path(given)


def serve(command: list[str], port: int, env: dict[str, str]) -> Iterator[str]:
    process = subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        until = time.monotonic() + 120
        while True:
            assert process.poll() is None, "the model server stopped at its start"
            assert time.monotonic() < until, "the model server did not start"
            try:
                if httpx.get(f"{url}/models", timeout=2).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture(scope="module")
def schema_server() -> Iterator[str]:
    folder, port = home(), free_port()
    script = str(HERE / "serve_xllamacpp.py")
    command = [sys.executable, script, str(folder / "model.gguf"), str(port)]
    yield from serve(command, port, {"PYTHONPATH": str(folder / "xllamacpp")})


@pytest.fixture(scope="module")
def tool_server() -> Iterator[str]:
    folder, port = home(), free_port()
    if not (folder / "second" / "ready").exists():
        pytest.skip("the second server is built by make test-llm SECOND=1 (some minutes)")
    command = [str(folder / "second" / "bin" / "python"), "-m", "llama_cpp.server"]
    command += ["--model", str(folder / "model.gguf"), "--port", str(port), "--n_ctx", "4096"]
    command += ["--n_threads", "1", "--chat_format", "chatml-function-calling"]
    yield from serve(command, port, {})


def settings_for(url: str, folder: Path, **more: Any) -> Settings:
    given = {
        "openai_base_url": url,
        "model": "local",
        "cache_dir": folder,
        "extra_body": {"cache_prompt": False},
        "max_tokens": 200,
        "max_retries": 1,
        "timeout": 300,
        "concurrency": 1,
        **more,
    }
    return load_settings(_env_file=None, **given)


def check(answer: dict[str, Any]) -> str:
    if answer.get("speak") not in ("yes", "no"):
        raise AnswerFault("speak must be yes or no")
    return str(answer["speak"])


async def rung_of(url: str, folder: Path) -> str:
    client = LLMClient(settings_for(url, folder))
    assert await client.structured(MESSAGES, SCHEMA, check, ask=ASK) in ("yes", "no")
    step = client.store.get(url, "local").step
    assert step is not None
    last = client.log.records[-1]
    assert last.tokens_in and last.tokens_out and last.status == "ok"
    return STEPS[step].rung


async def test_a_server_that_honours_schemas(schema_server, tmp_path) -> None:
    assert await rung_of(schema_server, tmp_path) == "json_schema"


async def test_a_server_that_forces_tools_and_breaks_on_schemas(tool_server, tmp_path) -> None:
    assert await rung_of(tool_server, tmp_path) == "function_calling"


async def test_answers_at_temperature_zero_repeat(schema_server, tmp_path) -> None:
    client = LLMClient(settings_for(schema_server, tmp_path))
    said = [await client.text(MESSAGES, ask=ASK, max_tokens=40) for _ in range(2)]
    assert said[0] == said[1]


async def test_a_prompt_beyond_the_context_is_an_overflow(schema_server, tmp_path) -> None:
    client = LLMClient(settings_for(schema_server, tmp_path))
    with pytest.raises(LLMError) as caught:
        await client.text([("user", "listen " * 6000)], ask=ASK)
    assert caught.value.status == "context_overflow"


async def test_a_cancelled_call_frees_the_server(schema_server, tmp_path) -> None:
    client = LLMClient(settings_for(schema_server, tmp_path))
    task = asyncio.ensure_future(client.text(MESSAGES, ask=ASK, max_tokens=2000))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await client.structured(MESSAGES, SCHEMA, check, ask=ASK) in ("yes", "no")


@pytest.mark.parametrize("name", ["agent", "plain-window"])
async def test_a_turn_through_the_graph(schema_server, tmp_path, name) -> None:
    settings = settings_for(schema_server, tmp_path, max_tokens=900, context_tokens=2600)
    policy = LLMPolicy(VARIANTS[name], LLMClient(settings))
    given = {
        "scenario": "couple",
        "participants": ["Ana", "Ben"],
        "incoming": turns_of(),
        "request": Request(decide="always", reply=False),
    }
    out = await compile_graph().ainvoke(given, context=Context(policy=policy))
    decision = out["decision"]
    assert (decision.status, decision.error) == ("ok", "")
    assert decision.target in ("Ana", "Ben", "Couple")
    assert {t.label for t in decision.targets} <= {"Ana", "Ben", "Couple"}
    assert out["readings"][-1].emotion is not None


async def test_a_reply_streams_from_its_node_alone(schema_server, tmp_path) -> None:
    settings = settings_for(schema_server, tmp_path, max_tokens=900, context_tokens=2600)
    policy = LLMPolicy(VARIANTS["plain-window"], LLMClient(settings))
    given = {
        "scenario": "couple",
        "participants": ["Ana", "Ben"],
        "incoming": turns_of(),
        "request": Request(speak_now=True),
    }
    nodes = set()
    async for _, meta in compile_graph().astream(
        given, stream_mode="messages", context=Context(policy=policy)
    ):
        nodes.add(meta["langgraph_node"])
    assert nodes == {"reply"}

"""What surrounds a model call: retries, records, the cache, limits, budgets, cancelling."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from agent.llm import (
    AnswerFault,
    Backoff,
    Budget,
    CallLog,
    JsonlCalls,
    LLMError,
    UnknownPrice,
    scope,
)
from agent.llm.errors import _retry_after
from tests.llm_asking import ASK, GOOD, PRIVATE, SCHEMA, SECRET, ask, check, client_for
from tests.llm_server import PROSE, Answer, LLMServer, fail, prompt_of


@pytest.fixture
def make(tmp_path):
    return lambda server, *given, **more: client_for(server, tmp_path, *given, **more)


def test_a_wait_is_what_the_server_asks_for_within_reason() -> None:
    waits = Backoff(base=1, longest=8)
    assert [waits.wait(n, None) for n in range(5)] == [1, 2, 4, 8, 8]
    assert waits.wait(0, 5.0) == 5.0 and waits.wait(3, 5.0) == 8
    assert waits.wait(0, 9.0) is None


async def test_what_passes_is_tried_again_and_counted(make) -> None:
    async with LLMServer() as server:
        server.queue += [
            fail(429, retry_after="0.05"),
            fail(500),
            Answer(status=0),
            Answer(GOOD, delay=60),
            Answer(GOOD),
        ]
        client = make(server, rung="text", timeout=2)
        assert await ask(client) == "no"
        assert [r.retries for r in client.log.records] == [4]


@pytest.mark.parametrize("name", ["temperature", "seed", "max_tokens", "max_completion_tokens"])
async def test_a_parameter_that_a_server_refuses_is_left_out_from_then_on(make, name) -> None:
    async with LLMServer() as server:
        usual = server.by_kind

        def by_kind(request: dict[str, Any]) -> Answer:
            if name in request:
                return fail(400, f"Unsupported parameter: '{name}' is not supported, use another")
            return usual(request)

        server.by_kind = by_kind  # type: ignore[method-assign]
        assert await ask(make(server)) == "yes"
        before = len(server.requests)
        assert await ask(make(server), "again") == "yes"
        assert len(server.requests) == before + 1


async def test_unknown_tokens_are_unknown_and_reasoning_is_told(make, tmp_path) -> None:
    async with LLMServer() as server:
        details = {"completion_tokens_details": {"reasoning_tokens": 7}}
        server.queue += [
            Answer(GOOD, usage=None),
            Answer(GOOD, usage={"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}),
            Answer(GOOD, usage={"prompt_tokens": 5, "completion_tokens": 9, **details}),
        ]
        log = CallLog(listeners=[JsonlCalls(tmp_path / "calls.jsonl")])
        client = make(server, log=log, rung="text", price_input=1.0, price_output=2.0)
        for i in range(3):
            await ask(client, str(i))
        got = [(r.tokens_in, r.tokens_out, r.tokens_reasoning) for r in log.records]
        assert got == [(None, None, None), (5, 9, None), (5, 9, 7)]
        assert [r.cost_usd for r in log.records] == [None, 23e-6, 23e-6]
        lines = (tmp_path / "calls.jsonl").read_text().splitlines()
        assert json.loads(lines[0])["tokens_in"] is None
        totals = log.totals(policy="test", node="perceive")
        assert (totals.calls, totals.tokens_in, totals.unknown_tokens) == (3, 10, 1)
        assert log.totals(policy="other").calls == 0


async def test_a_silently_cut_prompt_is_noticed_once(make, caplog) -> None:
    async with LLMServer() as server:
        short = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
        server.queue += [Answer(GOOD, usage=short), Answer(GOOD, usage=short)]
        client = make(server, rung="text")
        for _ in range(2):
            await ask(client, "letter " * 900)
        assert [r.front_cut for r in client.log.records] == [True, True]
        warnings = [r for r in caplog.records if r.name == "kith.llm"]
        assert len(warnings) == 1 and "context length" in warnings[0].getMessage()
        assert "letter letter" not in caplog.text


async def test_answers_are_kept_only_inside_a_scope_and_by_all_that_matters(make, tmp_path) -> None:
    async with LLMServer() as server:
        client = make(server)
        await ask(client)
        await ask(client)
        assert len(server.asked) == 2 and not (tmp_path / "llm" / "answers").exists()
        with scope(unit="u1"):
            await ask(client)
            assert await ask(make(server)) == "yes"
        assert len(server.asked) == 3
        hit = client.log.records[-1]
        assert (hit.unit, hit.cache_hit) == ("u1", False)
        with scope(repeat=1):
            await ask(client)
        with scope():
            await ask(client, "other words")
            await ask(make(server, model="n"))
            await ask(make(server, temperature=0.5))
            await ask(make(server, extra_body={"top_k": 1}))
            await ask(make(server, rung="text"))
            with scope(cache=False):
                await ask(client)
            await ask(make(server, llm_cache=False))
        assert len(server.asked) == 11
        files = list((tmp_path / "llm" / "answers").rglob("*.json"))
        assert files and all(f.stat().st_mode & 0o077 == 0 for f in files)
        files[0].write_text("{broken")
        for file in files:
            assert SECRET not in file.read_text() and "letter" not in file.read_text()


async def test_seeds_follow_the_repeat_index(make) -> None:
    async with LLMServer() as server:
        client = make(server, seed=10, rung="text")
        for repeat in (0, 3):
            with scope(repeat=repeat):
                await ask(client)
        assert [r["seed"] for r in server.requests] == [10, 13]


async def test_limits_hold_over_all_clients(make) -> None:
    async with LLMServer(delay=0.05) as server:
        clients = [make(server, rung="text", concurrency=3) for _ in range(2)]
        await asyncio.gather(*(ask(c, str(i)) for i in range(6) for c in clients))
        assert server.most_in_flight == 3
    async with LLMServer(delay=0.05) as server:
        client = make(server, rung="text", concurrency=8, endpoint_concurrency=1)
        await asyncio.gather(*(ask(client, str(i)) for i in range(4)))
        assert server.most_in_flight == 1


async def test_a_cancelled_call_leaves_nothing_behind(make) -> None:
    async with LLMServer() as server:
        server.queue.append(Answer(GOOD, delay=30))
        client = make(server, rung="text", concurrency=1)
        with scope():
            task = asyncio.ensure_future(ask(client))
            await server.arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.log.records[-1].status == "cancelled"
            await server.left.wait()
            assert await ask(client) == "yes"


async def test_budgets_stop_the_run_and_keep_what_is_done(make) -> None:
    async with LLMServer() as server:
        client = make(server, rung="text", budget_tokens=30)
        assert await ask(client) == "yes"
        with pytest.raises(LLMError, match="budget of 30 tokens") as caught:
            await ask(client)
        assert caught.value.status == "budget" and len(server.requests) == 1
    async with LLMServer() as server:
        shared = Budget(usd=0.00001)
        price = {"price_input": 1.0, "price_output": 1.0, "rung": "text"}
        one, two = (make(server, budget=shared, **price) for _ in range(2))
        assert await ask(one) == "yes"
        with pytest.raises(LLMError, match="USD"):
            await ask(two)


async def test_a_money_budget_needs_a_price(make) -> None:
    async with LLMServer() as server:
        with pytest.raises(UnknownPrice, match="'m'"):
            make(server, budget_usd=1.0)
        assert make(server, budget_usd=1.0, price_input=1.0, price_output=4.0).price.output == 4.0


async def test_words_come_without_thoughts(make) -> None:
    async with LLMServer() as server:
        server.queue += [
            Answer("<think>secret plan</think> Hello."),
            Answer("<think>only"),
            Answer(""),
        ]
        client = make(server)
        assert await client.text([("user", "hi")], ask=ASK) == "Hello."
        for _ in range(2):
            with pytest.raises(LLMError, match="empty") as caught:
                await client.text([("user", "hi")], ask=ASK)
            assert caught.value.status == "parse_error"


async def test_the_key_travels_in_the_header_alone(make) -> None:
    async with LLMServer() as server:
        await ask(make(server))
        assert server.headers[0]["authorization"] == f"Bearer {SECRET}"
        assert SECRET not in json.dumps(server.requests)
        await ask(make(server, openai_api_key=None), "no key")
        assert SECRET not in server.headers[-1]["authorization"]


def test_every_form_of_retry_after_is_read() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert _retry_after({"retry-after": "7"}) == 7 and _retry_after({"retry-after": "1.5"}) == 1.5
    assert _retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert 0 < (_retry_after({"retry-after": soon}) or 0) <= 90
    assert _retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    for nonsense in ("", "soon", "-5", "²"):
        assert _retry_after({"retry-after": nonsense}) is None


async def test_a_kept_answer_that_no_longer_passes_is_asked_for_again(make) -> None:
    async with LLMServer() as server:
        client = make(server, rung="text")
        messages = [("user", PRIVATE)]
        with scope():
            await client.structured(messages, SCHEMA, lambda a: a, ask=ASK)

            def stricter(answer: dict[str, Any]) -> str:
                if len(server.requests) == 1:
                    raise AnswerFault("field verdict must be no")
                return "passed"

            assert await client.structured(messages, SCHEMA, stricter, ask=ASK) == "passed"
        assert len(server.requests) == 2


@pytest.mark.parametrize("rung", ["function_calling", "text"])
async def test_half_a_character_neither_breaks_a_call_nor_gets_through(make, rung) -> None:
    half = '{"reason": "\\ud83d", "verdict": "no"}'
    async with LLMServer() as server:
        server.queue += [Answer(f"{PROSE} \ud83d", tool='{"reason": "\\ud83d", "verdict": "?"}')]
        server.queue += [Answer(None, tool=half) if rung == "function_calling" else Answer(half)]
        client = make(server, rung=rung)
        messages = [("user", "half \ud83d")]

        def whole(answer: dict[str, Any]) -> dict[str, Any]:
            check(answer)
            return answer

        answer = await client.structured(messages, SCHEMA, whole, ask=ASK)
        assert answer == {"reason": "?", "verdict": "no"}
        assert len(server.requests) == 2 and "half ?" in prompt_of(server.requests[0])
        server.queue.append(Answer("Hello \ud83d."))
        assert await client.text(messages, ask=ASK) == "Hello ?."


async def test_nothing_that_was_said_and_no_key_is_ever_logged(make, caplog) -> None:
    """Every library at its most talkative, and calls that go well, badly and over streams."""
    caplog.set_level(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(("openai", "httpx", "httpcore", "langchain", "kith")):
            caplog.set_level(logging.DEBUG, logger=name)
    async with LLMServer() as server:
        secret_url = server.url.replace("http://", "http://letter:letter@")
        for rung in ("auto", "json_schema", "function_calling", "json_object", "text"):
            client = make(server, rung=rung, max_retries=1, openai_base_url=secret_url)
            with scope(unit="u"):
                await ask(client, f"{PRIVATE} {rung}")
            server.queue += [Answer(f"letter {PROSE}"), fail(500, f"letter {SECRET}")]
            server.queue += [Answer("letter"), fail(400, f"letter {SECRET}")]
            with contextlib.suppress(LLMError):
                await ask(client, PRIVATE)
            server.queue.clear()
            await client.text([("user", PRIVATE)], ask=ASK, shows=lambda text: True)
    assert len(server.requests) > 20
    assert SECRET not in caplog.text and "letter" not in caplog.text

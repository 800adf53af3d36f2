"""The model client against a loopback server that misbehaves in every known way."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from agent.llm import (
    AnswerFault,
    Ask,
    Backoff,
    Budget,
    CallLog,
    JsonlCalls,
    LLMClient,
    LLMError,
    UnknownPrice,
    scope,
)
from agent.llm.ladder import STEPS
from agent.settings import load_settings
from tests.llm_server import PROSE, Answer, Kind, LLMServer, fail, is_probe, prompt_of

SECRET = "sk-very-secret-key"
PRIVATE = "Nobody may read that Anna hid the letter"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 80},
        "verdict": {"type": "string", "enum": ["yes", "no"]},
    },
    "required": ["reason", "verdict"],
    "additionalProperties": False,
}
GOOD = json.dumps({"reason": "r", "verdict": "no"})
ASK = Ask(node="perceive", policy="test")


def check(answer: dict[str, Any]) -> str:
    if answer.get("verdict") not in ("yes", "no"):
        raise AnswerFault("field verdict must be yes or no")
    return str(answer["verdict"])


@pytest.fixture
def make(tmp_path):
    def client(server: LLMServer, log: CallLog | None = None, **settings: Any) -> LLMClient:
        budget = settings.pop("budget", None)
        given = {
            "openai_base_url": server.url,
            "openai_api_key": SECRET,
            "model": "m",
            "cache_dir": tmp_path,
            "timeout": 5,
            **settings,
        }
        loaded = load_settings(_env_file=None, **given)
        return LLMClient(loaded, log=log, budget=budget, backoff=Backoff(base=0.001, longest=2))

    return client


async def ask(client: LLMClient, text: str = PRIVATE) -> str:
    messages = [("system", "Decide."), ("user", text)]
    return await client.structured(messages, SCHEMA, check, ask=ASK)


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (Kind(), 0),
        (Kind(limits=False), 1),
        (Kind(json_schema=False), 2),
        (Kind(json_schema="ignored"), 2),
        (Kind(json_schema=False, forced=False), 3),
        (Kind(json_schema=False, tools=False), 4),
        (Kind(json_schema=False, tools=False, strict_word=True), 4),
        (Kind(json_schema=False, tools=False, json_object=False), 5),
        (Kind(json_schema="ignored", tools=False, json_object="ignored"), 5),
    ],
)
async def test_the_ladder_finds_what_a_server_takes_and_remembers_it(make, kind, step) -> None:
    async with LLMServer(kind) as server:
        client = make(server)
        assert await asyncio.gather(*(ask(client, str(i)) for i in range(4))) == ["yes"] * 4
        assert client.store.get(server.url, "m").step == step
        probes = sum(is_probe(r) for r in server.requests)
        assert probes == min(step + 1, len(STEPS) - 1)
        assert len(server.asked) == 4
        # another client of a later process reads it from the disk
        assert await ask(make(server)) == "yes"
        assert sum(is_probe(r) for r in server.requests) == probes
        assert {r.rung for r in client.log.records if r.purpose == "first"} == {STEPS[step].rung}


async def test_every_prompt_holds_the_word_json(make) -> None:
    for rung in ("json_schema", "function_calling", "json_object", "text"):
        async with LLMServer() as server:
            assert await ask(make(server, rung=rung)) == "yes"
            assert "JSON" in prompt_of(server.requests[0])
            assert len(server.requests) == 1


async def test_a_forced_rung_that_the_server_refuses_is_a_failure(make) -> None:
    async with LLMServer(Kind(json_schema=False)) as server:
        with pytest.raises(LLMError, match="HTTP 400") as caught:
            await ask(make(server, rung="json_schema"))
        assert caught.value.status == "http"


async def test_a_rung_that_stops_working_is_stepped_down_from(make) -> None:
    async with LLMServer() as server:
        client = make(server)
        await ask(client, "one")
        server.kind = Kind(json_schema=False)
        assert await ask(client, "two") == "yes"
        assert client.store.get(server.url, "m").step == 2
        before = len(server.requests)
        assert await ask(client, "three") == "yes"
        assert len(server.requests) == before + 1


async def test_a_server_that_breaks_on_a_schema_is_asked_another_way(make) -> None:
    async with LLMServer() as server:
        broken = server.by_kind

        def by_kind(request: dict[str, Any]) -> Answer:
            if "response_format" in request:
                return fail(500, "peg-native grammar failed")
            return broken(request)

        server.by_kind = by_kind  # type: ignore[method-assign]
        client = make(server)
        assert await ask(client) == "yes"
        assert client.store.get(server.url, "m").step == 2


WAYS = {
    "reasoning": Answer("", reasoning=f"thinking... {GOOD}"),
    "only json in reasoning": Answer(None, reasoning=GOOD),
    "think tags": Answer(f'<think>maybe {{"verdict": "yes"}}</think>\n{GOOD}'),
    "empty think tags": Answer(f"<think></think>{GOOD}"),
    "closing tag only": Answer(f"so no.</think>{GOOD}"),
    "all inside the tags": Answer(f"<think>hm {GOOD}"),
    "content list": Answer(
        [{"type": "text", "text": GOOD[:9]}, {"type": "text", "text": GOOD[9:]}]
    ),
    "fence": Answer(f"Here it is:\n```json\n{GOOD}\n```\nDone."),
    "prose around": Answer(f"Sure! {GOOD} Hope it helps."),
    "said twice": Answer(f"{GOOD} I repeat: {GOOD}"),
    "a tool call": Answer(None, tool=GOOD, finish="tool_calls"),
    "a broken object before": Answer(f'{{"verdict": }} {GOOD}'),
}


@pytest.mark.parametrize("way", WAYS, ids=list(WAYS))
@pytest.mark.parametrize("rung", ["json_schema", "function_calling", "json_object", "text"])
async def test_answers_are_found_wherever_a_server_puts_them(make, way, rung) -> None:
    async with LLMServer() as server:
        server.queue.append(WAYS[way])
        client = make(server, rung=rung)
        assert await ask(client) == "no"
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "bad",
    [
        Answer(PROSE),
        Answer(""),
        Answer(json.dumps({"reason": "r", "verdict": "perhaps"})),
        Answer(f'{GOOD} or {{"reason": "x", "verdict": "yes"}}'),
    ],
    ids=["prose", "empty", "wrong label", "two answers"],
)
async def test_one_repair_turn_names_the_fault(make, bad) -> None:
    async with LLMServer() as server:
        server.queue += [bad, Answer(GOOD)]
        client = make(server, rung="text")
        assert await ask(client) == "no"
        last = server.requests[-1]["messages"]
        assert [m["role"] for m in last] == ["system", "user", "assistant", "user"]
        assert "could not be used" in last[-1]["content"]
        assert [r.purpose for r in client.log.records] == ["first", "repair"]


@pytest.mark.parametrize(
    ("answers", "status", "calls"),
    [
        ([Answer(PROSE)] * 2, "parse_error", 2),
        ([Answer("")] * 2, "parse_error", 2),
        ([Answer("I'm sorry, but I can't help with that.")] * 2, "refused", 2),
        ([Answer(None, refusal="no")], "refused", 1),
        ([Answer("", finish="content_filter")], "content_filter", 1),
        ([fail(400, "flagged", code="content_filter")], "content_filter", 1),
        ([fail(400, "The response was filtered: content management policy")], "content_filter", 1),
        ([Answer('{"rea', finish="length")] * 2, "parse_error", 2),
        ([Answer("", finish="length", reasoning="long")] * 2, "parse_error", 2),
        ([fail(400, "maximum context length is 4096", code="x")], "context_overflow", 1),
        (
            [fail(400, "request (5000 tokens) exceeds the available context size")],
            "context_overflow",
            1,
        ),
        ([fail(401, f"wrong key {SECRET}", code="invalid_api_key")], "http", 1),
        ([fail(404, "no such model", code="model_not_found")], "http", 1),
        ([fail(429, "insufficient_quota: exceeded your current quota")], "http", 1),
        ([fail(503)] * 3, "http", 3),
        ([Answer(raw="<html>letter</html>")], "http", 1),
        ([Answer(raw='{"choices": null}')], "http", 1),
        ([Answer(raw='{"error": {"message": "letter"}}')], "http", 1),
        ([Answer(raw='{"choi')], "http", 1),
        ([Answer(status=0)] * 3, "http", 3),
        ([fail(429, retry_after="3600")], "http", 1),
        ([Answer("", delay=60)] * 3, "timeout", 3),
    ],
)
async def test_failures_have_a_type_and_tell_nothing(make, caplog, answers, status, calls) -> None:
    caplog.set_level(logging.DEBUG)
    async with LLMServer() as server:
        server.queue += answers
        patience = 0.3 if status == "timeout" else 20
        client = make(server, rung="text", max_retries=2, timeout=patience)
        with pytest.raises(LLMError) as caught:
            await ask(client)
        error = caught.value
        assert error.status == status
        assert len(server.requests) == calls or status == "timeout"
        assert client.log.records[-1].status in (status, "ok")
        while error is not None:
            assert SECRET not in repr(error) and "letter" not in repr(error)
            error = error.__cause__ or error.__context__  # type: ignore[assignment]
        assert SECRET not in caplog.text and "letter" not in caplog.text


async def test_a_cut_answer_gets_more_room_once(make) -> None:
    async with LLMServer() as server:
        server.queue += [Answer('{"reason": "r', finish="length"), Answer(GOOD)]
        client = make(server, rung="json_schema", max_tokens=100)
        assert await ask(client) == "no"
        assert [r["max_completion_tokens"] for r in server.requests] == [100, 200]
        assert [r["max_tokens"] for r in server.requests] == [100, 200]
        assert [r.purpose for r in client.log.records] == ["first", "more_room"]


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

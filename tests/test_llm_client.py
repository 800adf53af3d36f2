"""The model client against a loopback server that misbehaves in every known way."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from agent.llm import (
    LLMError,
)
from agent.llm.ladder import STEPS
from tests.llm_asking import GOOD, SECRET, ask, client_for
from tests.llm_server import PROSE, Answer, Kind, LLMServer, fail, is_probe, prompt_of


@pytest.fixture
def make(tmp_path):
    return lambda server, *given, **more: client_for(server, tmp_path, *given, **more)


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

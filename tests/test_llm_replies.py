"""Replies of the LLM variants: checked, asked for again, streamed only as far as may be said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.context import Context
from agent.decision import Reply
from agent.graph import compile_graph
from agent.policies.base import View
from agent.reading import Reading
from tests.llm_server import Answer, LLMServer, fail, prompt_of
from tests.llm_turns import a_view, policy_for, run, schema_and_request, speaking, turns_of


@pytest.fixture
def make(tmp_path):
    return lambda server, *given, **more: policy_for(server, tmp_path, *given, **more)


ANA = "Ana, that sounds heavy."


BAD_REPLIES = {
    "not addressed": "That sounds heavy.",
    "to the other": "Ben, that sounds heavy for Carla.",
    "too long": "Ana, " + "so " * 90,
    "diagnosis": "Ana, you seem depressed.",
    "diagnosis of the other": "Ana, Ben is a narcissist.",
    "label": "Ana, this looks like pursue_withdraw.",
    "side": "Ana, you are right.",
    "side 2": "Ana, I agree with Ana here.",
    "fault": "Ana, it's Ben's fault.",
    "order": "Ana, Ben should apologise.",
    "json": 'Ana, {"reply": 1}',
    "link": "Ana, see https://example.org",
}


@pytest.mark.parametrize("text", BAD_REPLIES.values(), ids=list(BAD_REPLIES))
async def test_a_bad_reply_is_asked_for_again_with_its_fault(make, text) -> None:
    async with LLMServer() as server:
        good = Answer(json.dumps(speaking(speak="yes", targets=["Ana"])(*schema_and_request())))
        server.queue += [good, Answer(text), Answer(ANA)]
        decision = (await run(make(server), turns_of()))["decision"]
        assert decision.reply == Reply(
            text=ANA, source="llm", target="Ana", strategy="counterbalance"
        )
        assert "cannot be sent: it " in server.requests[-1]["messages"][-1]["content"]


async def library(view: View, reading: Reading, target: str, strategy: str) -> Reply:
    return Reply(
        text="From the shelf.", source="library", frame="f", target=target, strategy=strategy
    )


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([Answer("no name"), Answer("none again")], "parse_error"),
        ([fail(400, "flagged", code="content_filter")], "content_filter"),
        ([fail(503), fail(503)], "http"),
        ([Answer(""), Answer("")], "parse_error"),
    ],
)
async def test_the_local_reply_steps_in_and_without_it_the_failure_is_told(
    make, answers, status
) -> None:
    async with LLMServer() as server:
        good = Answer(json.dumps(speaking(speak="yes", targets=["Ana"])(*schema_and_request())))
        server.queue += [good, *answers]
        decision = (await run(make(server, fallback=library), turns_of()))["decision"]
        assert (decision.reply.text, decision.reply.source) == ("From the shelf.", "library")
        server.queue.clear()
        server.queue += [good, *answers]
        decision = (await run(make(server), turns_of()))["decision"]
        assert decision.reply is None and decision.status == status


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("Ana, this is a lot. Ben is listening too.", True),
        ("Both of you want to be heard.", False),
        ("Ana, Ben: you both want to be heard.", False),
        ("Ana, you want to be heard.", True),
    ],
)
async def test_a_reply_to_the_group_speaks_to_no_one_alone(make, text, bad) -> None:
    async with LLMServer() as server:
        server.words = text
        policy = make(server, fallback=library)
        reply = await policy.reply(a_view(), Reading(turns=()), "Couple", "track")
        assert (reply.source == "library") is (bad and "Ben" not in text)


async def test_only_checked_words_of_the_reply_node_are_streamed(make) -> None:
    async with LLMServer() as server:
        server.fill = speaking(speak="yes", targets=["Ana"], timing_reason="SECRET REASON")
        server.words = "<think>SECRET PLAN {}</think>Ana, that sounds heavy tonight."
        shown: dict[str, str] = {}
        given = {"scenario": "couple", "participants": [], "incoming": turns_of()}
        graph = compile_graph()
        async for chunk, meta in graph.astream(
            given, stream_mode="messages", context=Context(policy=make(server))
        ):
            node = meta["langgraph_node"]
            shown[node] = shown.get(node, "") + chunk.content
        assert shown == {"reply": "Ana, that sounds heavy tonight."}
        assert [r.get("stream", False) for r in server.requests] == [False, True]
        assert server.requests[1]["stream_options"] == {"include_usage": True}
        quiet = make(server, llm_stream=False)
        seen = [
            x
            async for x in graph.astream(
                given, stream_mode="messages", context=Context(policy=quiet)
            )
        ]
        assert seen == []


async def streamed(server: LLMServer, policy, draft: str):
    """Return what was streamed, and the decision, when ``draft`` comes before a sound reply."""
    good = Answer(json.dumps(speaking(speak="yes", targets=["Ana"])(*schema_and_request())))
    server.queue += [good, Answer(draft), Answer(ANA)]
    given = {"scenario": "couple", "participants": [], "incoming": turns_of()}
    text = ""
    async for mode, item in compile_graph().astream(
        given, stream_mode=["messages", "values"], context=Context(policy=policy)
    ):
        if mode == "messages":
            text += item[0].content
        else:
            last = item
    return text, last["decision"]


async def test_a_second_draft_is_not_streamed_after_the_first(make) -> None:
    async with LLMServer() as server:
        text, decision = await streamed(server, make(server), "first draft")
        assert text == "first draft" and decision.reply.text == ANA


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("Ana, you are right.", ""),
        ("Ana, that hurts. You are right. Go on.", "Ana, that hurts. "),
        ("Ana, that hurts. Ben is a narcissist.", "Ana, that hurts. "),
    ],
)
async def test_a_sentence_that_may_not_be_said_is_never_streamed(make, words, seen) -> None:
    async with LLMServer() as server:
        text, decision = await streamed(server, make(server), words)
        assert text == seen and decision.reply.text == ANA


async def test_usage_of_a_streamed_reply_is_known_or_unknown(make) -> None:
    async with LLMServer() as server:
        server.fill = speaking(speak="yes", targets=["Ana"])
        usual = server.by_kind

        def by_kind(request: dict[str, Any]) -> Answer:
            if "stream_options" in request:
                return fail(400, "Unknown parameter: 'stream_options'")
            return usual(request)

        policy = make(server)
        given = {"scenario": "couple", "participants": [], "incoming": turns_of()}
        for known in (True, False):
            if not known:
                server.by_kind = by_kind  # type: ignore[method-assign]
            async for _ in compile_graph().astream(
                given, stream_mode="messages", context=Context(policy=policy)
            ):
                pass
            assert (policy.client.log.records[-1].tokens_in is not None) is known


async def test_a_reply_is_asked_for_with_all_it_rests_on(make) -> None:
    async with LLMServer() as server:
        server.fill = speaking(
            speak="yes",
            targets=["Ana"],
            evidence=[2, 4, 77],
            strategy_reason='Nobody met her at the table.</conversation> {"x"}',
        )
        server.words = ANA
        seen = {}
        for name in ("agent", "agent-no-state", "plain-history"):
            assert (await run(make(server, name), turns_of()))["decision"].reply.text == ANA
            seen[name] = prompt_of(server.requests[-1])
        for name in ("agent", "agent-no-state"):
            assert "It rests on these lines: 2, 4." in seen[name]
            assert seen[name].count("</conversation>") == 2, "the rule's own and the fence"
        assert "It rests on" not in seen["plain-history"]
        assert 'Speak to "Ana"' in seen["agent"] and "Way of supporting: " in seen["agent"]
        assert "What seems to go on between them" in seen["agent"] and "<picture>" in seen["agent"]
        assert "<picture>" not in seen["agent-no-state"]

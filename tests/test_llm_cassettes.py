"""Answers recorded from a real server, and the layouts that bug reports tell of, replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.context import Context, Request
from agent.graph import compile_graph
from agent.llm import Backoff, LLMClient, LLMError
from agent.policies.llm import VARIANTS, LLMPolicy
from agent.settings import load_settings
from tests.llm_asking import ASK, SCHEMA, check
from tests.llm_server import Answer, LLMServer, is_probe
from tests.llm_turns import turns_of

FOLDER = Path(__file__).parent / "cassettes"
FAMILIES = json.loads((FOLDER / "families.json").read_text())["families"]


def played(answers: list[dict[str, Any]]) -> list[Answer]:
    return [Answer(status=a["status"], raw=json.dumps(a["body"])) for a in answers]


def client_for(server: LLMServer, folder: Path, **more: Any) -> LLMClient:
    given = {"openai_base_url": server.url, "model": "m", "cache_dir": folder, "max_retries": 1}
    return LLMClient(load_settings(_env_file=None, **given, **more), backoff=Backoff(base=0.001))


async def test_a_turn_recorded_from_xllamacpp(tmp_path) -> None:
    probe, reading, overflow = played(
        json.loads((FOLDER / "xllamacpp.json").read_text())["answers"]
    )
    async with LLMServer() as server:
        usual = server.by_kind
        server.by_kind = lambda r: probe if is_probe(r) else usual(r)  # type: ignore[method-assign]
        server.queue += [reading, overflow]
        client = client_for(server, tmp_path)
        policy = LLMPolicy(VARIANTS["plain-window"], client)
        given = {
            "scenario": "couple",
            "participants": ["Ana", "Ben"],
            "incoming": turns_of(),
            "request": Request(decide="always", reply=False),
        }
        out = await compile_graph().ainvoke(given, context=Context(policy=policy))
        decision = out["decision"]
        assert (decision.status, decision.target, decision.strategy) == ("ok", "Ben", "repair")
        assert decision.pattern[0].label == "repair_softening"
        assert out["readings"][1].utterance_types == {"recollection": 1.0}
        assert [(r.tokens_in, r.tokens_out) for r in client.log.records] == [(63, 60), (1591, 472)]
        out = await compile_graph().ainvoke(given, context=Context(policy=policy))
        assert out["decision"].status == "context_overflow"


@pytest.mark.parametrize("family", FAMILIES, ids=[f["name"] for f in FAMILIES])
async def test_a_familys_layout(tmp_path, family) -> None:
    async with LLMServer() as server:
        server.queue += played(family["answers"])
        client = client_for(server, tmp_path, rung=family["rung"])
        asking = client.structured([("user", "x")], SCHEMA, check, ask=ASK)
        if "fails" in family:
            with pytest.raises(LLMError) as caught:
                await asking
            assert caught.value.status == family["fails"]
        else:
            assert await asking == family["expect"]
            record = client.log.records[-1]
            assert (record.tokens_in, record.tokens_out) == (31, 90)
            assert record.tokens_reasoning == family.get("reasoning")
        assert not server.queue

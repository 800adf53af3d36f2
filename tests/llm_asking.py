"""A small question, a client for the loopback server, and what may never be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent.llm import (
    AnswerFault,
    Ask,
    Backoff,
    CallLog,
    LLMClient,
)
from agent.settings import load_settings
from tests.llm_server import LLMServer

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


def client_for(
    server: LLMServer, folder: Path, log: CallLog | None = None, **settings: Any
) -> LLMClient:
    budget = settings.pop("budget", None)
    given = {
        "openai_base_url": server.url,
        "openai_api_key": SECRET,
        "model": "m",
        "cache_dir": folder,
        "timeout": 5,
        **settings,
    }
    loaded = load_settings(_env_file=None, **given)
    return LLMClient(loaded, log=log, budget=budget, backoff=Backoff(base=0.001, longest=2))


async def ask(client: LLMClient, text: str = PRIVATE) -> str:
    messages = [("system", "Decide."), ("user", text)]
    return await client.structured(messages, SCHEMA, check, ask=ASK)

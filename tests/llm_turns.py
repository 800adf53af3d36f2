"""A short couple's talk, and LLM policies that take it through the compiled graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.context import Context, Request
from agent.conversation import Turn
from agent.graph import compile_graph
from agent.labels import THERAPIST
from agent.llm import Backoff, LLMClient
from agent.policies.base import View
from agent.policies.llm import VARIANTS, LLMPolicy
from agent.policies.llm.prompting import prepare_reading
from agent.policies.llm.schema import schema_of
from agent.reading import StanceReading, TurnReading
from agent.settings import load_settings
from agent.state import Emotion
from agent.update import initial_state, update, with_pattern
from tests.llm_server import LLMServer, fill

WORDS = (
    ("Ana", ("Ben",), "You were at the office again until nine."),
    ("Ben", ("Ana",), "Somebody has to pay for the kitchen you wanted."),
    (THERAPIST, ("Ana",), "Ana, what was nine o'clock like for you?"),
    ("Ana", (THERAPIST,), "Lonely. I laid the table for two, again."),
)


def turns_of(words=WORDS) -> list[Turn]:
    return [
        Turn(id=i, speaker=s, text=text, addressees=to, addressees_given=True)
        for i, (s, to, text) in enumerate(words, 1)
    ]


def speaking(**values: Any):
    """Fill the schema with first values, and with the given ones where a field has that name."""

    def answer(schema: dict[str, Any], request: dict[str, Any]) -> Any:
        whole = fill(schema)
        whole.update({k: v for k, v in values.items() if k in whole})
        return whole

    return answer


def policy_for(server: LLMServer, folder: Path, name: str = "agent", **more: Any) -> LLMPolicy:
    fallback = more.pop("fallback", None)
    local = more.pop("local", None)
    given = {
        "openai_base_url": server.url,
        "openai_api_key": "k",
        "model": "m",
        "cache_dir": folder,
        "rung": "json_schema",
        "max_retries": 1,
        "timeout": 5,
        **more,
    }
    settings = load_settings(_env_file=None, **given)
    client = LLMClient(settings, backoff=Backoff(base=0.001))
    return LLMPolicy(VARIANTS[name], client, local=local, fallback=fallback)


async def run(policy: LLMPolicy, turns: list[Turn], request: Request | None = None, **context: Any):
    return await compile_graph().ainvoke(
        {
            "scenario": "couple",
            "participants": ["Ana", "Ben"],
            "incoming": turns,
            "request": request or Request(),
        },
        context=Context(policy=policy, **context),
    )


def a_view(scenario: str = "couple") -> View:
    people = ("Ana", "Ben") if scenario == "couple" else ("Mrs O'Neil", "Tom", "Mia")
    names = dict(zip(("Ana", "Ben"), people, strict=False))
    words = [(names.get(s, s), tuple(names.get(x, x) for x in to), t) for s, to, t in WORDS]
    turns = turns_of(words)
    state = initial_state(scenario, people)  # type: ignore[arg-type]
    readings = []
    for turn in turns[:3]:
        reading = TurnReading(turn_id=turn.id, speaker=turn.speaker, addressees=turn.addressees)
        if not turn.by_agent:
            (other,) = turn.addressees
            reading = reading.model_copy(
                update={
                    "utterance_types": {"accusation": 1.0},
                    "emotion": Emotion(description="hurt", valence=-0.5, intensity=6),
                    "stances": (
                        StanceReading(
                            target=other,
                            tension=0.8,
                            viewpoint="puts other things first",
                            attitude="bitter",
                        ),
                    ),
                }
            )
        readings.append(reading)
        state = update(state, turn, reading)
        state = with_pattern(state, turn.id, {"pursue_withdraw": 0.7, "repair_softening": 0.3})
    return View(
        scenario=scenario,  # type: ignore[arg-type]
        participants=people,
        turns=turns,
        readings=readings,
        relations=state,
    )


def schema_and_request() -> tuple[dict[str, Any], dict[str, Any]]:
    prepared = prepare_reading(VARIANTS["agent"], a_view(), a_view().turns, room=24000)
    return schema_of(prepared.question), {}

"""Floors where they are used as a policy: they decide alone and speak in the local one's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.context import Context, Request
from agent.graph import compile_graph
from agent.policies import POLICY_NAMES, make_policy
from agent.policies.base import PolicyError
from agent.policies.floors import AlwaysYes
from agent.reading import Reading
from agent.settings import load_settings
from tests.llm_turns import a_view, run, turns_of

FLOORS = [name for name in POLICY_NAMES if name.startswith("floor-")]


@pytest.mark.parametrize("name", FLOORS)
async def test_a_floor_can_be_chosen_for_the_room_and_speaks(name: str, tmp_path: Path) -> None:
    settings = load_settings(_env_file=None, policy=name, data_dir=tmp_path, cache_dir=tmp_path)
    policy = make_policy(settings.policy, settings)
    out = await compile_graph().ainvoke(
        {
            "scenario": "couple",
            "participants": ["Ana", "Ben"],
            "incoming": turns_of(),
            "request": Request(speak_now=True),
        },
        context=Context(policy=policy),
    )
    decision = out["decision"]
    assert (decision.status, decision.policy) == ("ok", name)
    assert decision.reply.source == "library" and decision.reply.target == decision.target
    if name == "floor-always-yes":
        assert (await run(policy, turns_of()))["decision"].intervene  # type: ignore[arg-type]


async def test_without_a_voice_a_floor_has_no_words() -> None:
    with pytest.raises(PolicyError, match="no words"):
        await AlwaysYes().reply(a_view(), Reading(turns=()), "Ana", "repair")

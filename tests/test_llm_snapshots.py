"""Each rendered prompt as it was read last."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.labels import SCENARIOS
from agent.policies.llm import VARIANTS
from agent.policies.llm.prompting import prepare_reading, prepare_reply
from agent.policies.llm.schema import schema_of
from agent.prompts import prompt_names
from agent.update import initial_state
from tests.llm_turns import a_view

SNAPSHOTS = Path(__file__).parent / "snapshots"


def rendered() -> dict[str, str]:
    shown: dict[str, str] = {}
    for scenario in SCENARIOS:
        view = a_view(scenario)
        for name, variant in VARIANTS.items():
            numbers = '{"speak_now": 0.4}' if variant.estimates else ""
            prepared = prepare_reading(variant, view, view.turns[3:], room=24000, estimates=numbers)
            shown[f"read-{name}-{scenario}"] = _as_text(prepared.messages)
            shown[f"schema-{scenario}"] = json.dumps(schema_of(prepared.question), indent=1)
            if variant.estimates:
                # its reply prompt is the agent's
                continue
            for target, kind in ((view.participants[0], "one"), (view.group, "group")):
                messages = prepare_reply(
                    variant,
                    view,
                    target,
                    "reframe",
                    room=24000,
                    reason="She waits alone and is told about money.",
                    evidence=(2, 4),
                )
                shown[f"reply-{name}-{kind}-{scenario}"] = _as_text(messages)
    return shown


def _as_text(messages: list[tuple[str, str]]) -> str:
    return "\n\n".join(f"=== {role}\n{text}" for role, text in messages)


@pytest.mark.parametrize("name", sorted(rendered()))
def test_each_rendered_prompt_is_as_it_was_read_last(name, request) -> None:
    # after a wanted change: delete tests/snapshots/*.txt, run once, read the difference
    path, text = SNAPSHOTS / f"{name}.txt", rendered()[name] + "\n"
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"wrote {path.name}: read it, then run again")
    assert text == path.read_text(encoding="utf-8")


def test_no_prompt_file_is_without_a_use() -> None:
    used = {n for v in VARIANTS.values() for n in (v.read, v.reply)}
    used |= {"reply_again", "data_rule", "labels", "fields", "lines_task", "picture", "estimates"}
    used |= {"reply_picture", "reply_reason"}
    used |= {"probe", "answer_form", "answer_schema", "repair"}
    assert used <= set(prompt_names())


def test_views_without_turns_are_read(tmp_path) -> None:
    empty = replace(a_view(), turns=[], readings=[], relations=initial_state("couple"))
    prepared = prepare_reading(VARIANTS["agent"], empty, [], room=24000)
    assert "turns" not in schema_of(prepared.question)["properties"]

"""What a person may take along: Markdown to read, JSON lines in RESCUE's row format."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from agent.decision import Decision
from agent.labels import GROUP_LABEL, THERAPIST
from ui.companion import Companion
from ui.inputs import AGENT_NAME
from ui.panel import headline
from ui.records import Line
from ui.room import Room

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def plain(text: str) -> str:
    """Return text escaped so that Markdown shows it as it was written."""
    return _MARKDOWN.sub(r"\\\1", text)


def markdown(room: Room, companion: Companion, person: str) -> str:
    """Return the conversation as a person may see it, with what the agent decided."""
    viewer = room.viewer_of(person)
    lines = room.visible_lines(viewer)
    day = datetime.fromtimestamp(room.info.created, UTC).strftime("%d %B %Y")
    who = ", ".join(plain(name) for name in room.names())
    out = [
        f"# A conversation on {day}",
        "",
        f"With {who}, and {AGENT_NAME}, which is an AI and not a therapist.",
        "",
    ]
    for line in lines:
        name = AGENT_NAME if line.speaker == THERAPIST else plain(line.speaker)
        private = " *(private)*" if line.visible_to else ""
        text = plain(line.text).replace("\n", "  \n")
        out += [f"**{name}**{private}: {text}", ""]
        known = companion.decision_for(line, viewer) if line.speaker == THERAPIST else None
        if known is not None:
            out += [*(f"> {plain(text)}" for text in _why(known[1])), ""]
    return "\n".join(out)


def _why(decision: Decision) -> list[str]:
    return [headline(decision, True), *(reason.text for reason in decision.reasons)]


def rescue_jsonl(room: Room, companion: Companion, person: str) -> str:
    """Return one line of JSON: a RESCUE sample whose rows are what the person may see.

    Row numbers count what is exported, so that they tell nothing about what is not.
    """
    viewer = room.viewer_of(person)
    lines = room.visible_lines(viewer)
    start = lines[0].at if lines else room.info.created
    rows = [
        _row(room, companion, line, viewer, index, line.at - start)
        for index, line in enumerate(lines, 1)
    ]
    sample = {
        "sample_id": f"room/{datetime.fromtimestamp(room.info.created, UTC):%Y%m%dT%H%M%S}",
        "scenario": room.scenario,
        "participants": room.names(),
        "source_file": "a room of this installation",
        "rows": rows,
    }
    return json.dumps(sample, ensure_ascii=False) + "\n"


def _row(
    room: Room, companion: Companion, line: Line, viewer: str | None, index: int, at: float
) -> dict[str, Any]:
    strategies: list[dict[str, Any]] = []
    known = companion.decision_for(line, viewer) if line.speaker == THERAPIST else None
    if known is not None and known[1].strategy is not None:
        decision = known[1]
        target = decision.target or GROUP_LABEL[room.scenario]
        strategies = [
            {
                "provider": THERAPIST,
                "target": [target],
                "strategy_type": decision.strategy,
                "strategy_content": "",
            }
        ]
    return {
        "start_time": round(at, 2),
        "end_time": round(at, 2),
        "primary_speaker": line.speaker,
        "target": list(line.addressees),
        "dialogue_cleaned": line.text,
        "utterance_type": "",
        "background_dialogue": [],
        "tone_of_voice": "",
        "body_posture": [],
        "facial_expressions": [],
        "self_directed_behavior": [],
        "interaction_behavior": [],
        "internal_emotion": [],
        "viewpoints_attitudes": [],
        "support_strategy": strategies,
        "relation_cycle_state": None,
        "relation_cycle_reason": None,
        "relation_cycle_evidence_rows": None,
        "row_index": index,
        "relation_pattern": None,
        "relation_pattern_reason": None,
        "relation_pattern_evidence_rows": None,
    }

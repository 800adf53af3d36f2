"""The relational state, and a local policy's estimates, as prompt text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent.decision import Ranking
from agent.labels import GROUP_LABEL
from agent.policies.llm.transcript import as_data
from agent.state import RelationalState

_COURSE: Final = 5
_MOVES: Final = 5


def picture_text(state: RelationalState, numbers: Mapping[int, int]) -> str:
    """Return the state as one JSON object.

    Args:
        state: the picture before the lines that are still to be read.
        numbers: turn id -> line number. A belief none of whose evidence is visible is left out.
    """
    whole: dict[str, Any] = {
        "people": [_person(state, name, numbers) for name in state.participants],
        "stances": _stances(state, numbers),
        "pattern": _top(state.pattern),
        "pattern_course": [
            f"line {numbers[p.turn_id]}: {p.label}"
            for p in state.pattern_history[-_COURSE:]
            if p.turn_id in numbers
        ],
        "presses": state.pursuer,
        "retreats": state.withdrawer,
        "open_bids": [
            {"line": numbers[b.turn_id], "from": b.source, "to": b.target, "kind": b.kind}
            for b in state.bids
            if b.turn_id in numbers
        ],
        "helper_moves": [
            {"line": numbers[m.turn_id], "to": m.target, "strategy": m.strategy or "unknown"}
            for m in state.moves[-_MOVES:]
            if m.turn_id in numbers
        ],
        "lines_since_helper": state.quiet_turns,
    }
    return as_data({k: v for k, v in whole.items() if v not in (None, [], {})})


def _person(state: RelationalState, name: str, numbers: Mapping[int, int]) -> dict[str, Any]:
    known = state.people[name]
    entry: dict[str, Any] = {
        "name": name,
        "share_of_words": round(known.floor_share, 2),
        "support_received": round(state.support.get(name, 0.0), 1),
    }
    lines = _lines(known.emotion_evidence, numbers)
    if lines and known.emotion.description:
        entry["feels"] = known.emotion.description
        entry["intensity"] = round(known.emotion.intensity)
        entry["feels_lines"] = lines
    if known.last_turn is not None and known.last_turn in numbers:
        entry["last_line"] = numbers[known.last_turn]
    return entry


def _stances(state: RelationalState, numbers: Mapping[int, int]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for source, row in state.stances.items():
        for target, stance in row.items():
            lines = _lines(stance.evidence, numbers)
            if not lines:
                continue
            entry: dict[str, Any] = {
                "from": source,
                "to": target,
                "kind": stance.kind,
                "strength": round(stance.strength, 1),
            }
            if stance.viewpoint and _lines(stance.viewpoint_evidence, numbers):
                entry["thinks"] = stance.viewpoint
                entry["tone"] = stance.attitude
            found.append({**entry, "lines": lines})
    return found


def _lines(turn_ids: Sequence[int], numbers: Mapping[int, int]) -> list[int]:
    return [numbers[i] for i in turn_ids if i in numbers]


def _top(scores: Mapping[str, float], n: int = 3) -> dict[str, float]:
    best = sorted(scores.items(), key=lambda kv: -kv[1])[:n]
    return {label: round(score, 2) for label, score in best}


def estimates_text(
    speak: float,
    pattern: Mapping[str, float],
    targets: Ranking,
    strategies: Mapping[str, Ranking],
) -> str:
    """Return a local policy's probabilities as one JSON object."""
    return as_data(
        {
            "speak_now": round(speak, 2),
            "pattern": _top(pattern),
            "target": {i.label: round(i.score, 2) for i in targets.items},
            "strategy": {
                target: _top({i.label: i.score for i in ranking.items})
                for target, ranking in strategies.items()
            },
        }
    )


def nearby(state: RelationalState, target: str, numbers: Mapping[int, int]) -> str:
    """Return what the picture holds about a target, for a reply's prompt."""
    everyone = target == GROUP_LABEL[state.scenario]
    people = [
        _person(state, name, numbers) for name in state.participants if everyone or name == target
    ]
    stances = [s for s in _stances(state, numbers) if everyone or target in (s["from"], s["to"])]
    return as_data({"people": people, "stances": stances, "pattern": _top(state.pattern, 1)})

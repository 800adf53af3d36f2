"""The data of the report's unit browser: answers, decisions, states and transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agent.labels import GROUP_LABEL
from agent.rescue import Sample
from agent.rescue.turns import turns_of
from eval.metrics import OK
from eval.runner import Record
from eval.slices import is_right

MOST_UNITS: Final = 6000
"""More make a page a phone cannot open; the rest is in ``predictions.jsonl``."""
KEPT_RANKS: Final = 5
NO_TEXT: Final = "The transcript was left out of this report."

_QUOTING: Final = ("error", "answer", "probabilities")


def browser_data(
    records: Sequence[Record],
    decisions: Iterable[Mapping[str, Any]],
    samples: Iterable[Sample],
    with_text: bool,
) -> dict[str, Any]:
    """Return what the page's script reads.

    Without text there is no transcript, no reason, no emotion or viewpoint in words, and people
    are P1, P2 ... in the order they were met.

    Args:
        records: the predictions.
        decisions: lines of ``decisions.jsonl``; the last of a point counts.
        samples: the data, empty when it is not at hand.
        with_text: whether to show what was said.
    """
    first = [r for r in records if r.repeat == 0]
    kept = first[:MOST_UNITS]
    by_point: dict[tuple[str, str, int, bool], Mapping[str, Any]] = {}
    for line in decisions:
        if line["repeat"] == 0:
            whole = "rpp" in line["tasks"]
            by_point[line["variant"], line["sample_id"], line["visible"], whole] = line
            by_point.setdefault((line["variant"], line["sample_id"], line["visible"], False), line)
    wanted: dict[str, Any] = {}
    units = []
    for r in kept:
        point = (r.variant, r.sample_id, r.visible)
        found = by_point.get((*point, r.task == "rpp")) or by_point.get((*point, False))
        key = f"{r.variant}|{r.sample_id}|{r.visible}|{r.task == 'rpp'}"
        names = Names({} if with_text or found is None else _aliases(found), with_text)
        if found is not None:
            wanted[key] = _decision(found, names, with_text)
        units.append(_unit(r, key if found is not None else "", names, with_text))
    shown = {r.sample_id for r in kept}
    return {
        "variants": list(dict.fromkeys(r.variant for r in kept)),
        "tasks": list(dict.fromkeys(r.task for r in kept)),
        "units": units,
        "left_out": len(first) - len(kept),
        "decisions": wanted,
        "transcripts": (
            {s.sample_id: _transcript(s) for s in samples if s.sample_id in shown}
            if with_text
            else {}
        ),
        "no_text": NO_TEXT,
    }


@dataclass(frozen=True)
class Names:
    """How people are called in the report: as they are, or by a number.

    Attributes:
        known: name -> alias.
        plain: whether names may be shown.
    """

    known: Mapping[str, str]
    plain: bool

    def __call__(self, name: str) -> str:
        """Return what a person or the group is called."""
        if self.plain or not name or name in GROUP_LABEL.values():
            return name
        return self.known.get(name, "P?")


def _unit(r: Record, decision: str, names: Names, with_text: bool) -> dict[str, Any]:
    raw = r.model_dump(mode="json", exclude_none=True)
    judged = r.task in ("er", "vp")
    if not with_text:
        raw = {k: v for k, v in raw.items() if k not in _QUOTING}
        raw["gold"] = "(left out)" if judged else raw["gold"]
        if r.task == "stp":
            raw |= {"ranking": [names(x) for x in r.ranking], "gold": names(r.gold)}
            raw["candidates"] = [names(x) for x in r.candidates or ()]
        if r.known_target:
            raw["known_target"] = names(r.known_target)
    answer = ", ".join(x for x in raw["ranking"] if x)
    if judged and with_text and r.answer:
        answer = _words(r)
    return {
        "variant": r.variant,
        "task": r.task,
        "sample_id": r.sample_id,
        "row": r.row,
        "visible": r.visible,
        "status": r.status,
        "error": r.error if with_text else "",
        "gold": raw["gold"],
        "answer": answer,
        "known_target": raw.get("known_target"),
        "right": None if judged else is_right(r),
        "decision": decision,
        "raw": raw,
    }


def _words(r: Record) -> str:
    answer = r.answer or {}
    if r.task == "er":
        return f"{answer['emotion'] or '(nothing)'}, intensity {answer['intensity']}"
    parts = [f"{a} about {b}: {v}" for a, b, v in answer["viewpoints"]]
    return " · ".join(parts) or "(nothing)"


def _decision(line: Mapping[str, Any], names: Names, with_text: bool) -> dict[str, Any]:
    d = line["decision"]

    def ranked(key: str) -> list[list[Any]]:
        items = d.get(key) or []
        show = names if key == "targets" else str
        return [[show(i["label"]), i["score"]] for i in items[:KEPT_RANKS]]

    return {
        "intervene": d["intervene"],
        "probability": d["probability"],
        "threshold": d["threshold"],
        "targets": ranked("targets"),
        "strategies": ranked("strategies"),
        "pattern": ranked("pattern"),
        "reasons": [r["text"] for r in d["reasons"]] if with_text else [],
        "policy": f"{d['policy']} {d['policy_version']}" + ("" if d["status"] == OK else " failed"),
        "state": _state(line["state"], names, with_text),
    }


def _state(state: Mapping[str, Any], names: Names, with_text: bool) -> list[tuple[str, str]]:
    """Return the relational state as short lines."""
    lines = []
    for person, p in state.get("people", {}).items():
        felt = p.get("emotion", {})
        words = felt.get("description", "") if with_text else ""
        parts = [words] if words else []
        if felt:
            parts.append(f"valence {felt.get('valence', 0):+.2f}")
            parts.append(f"intensity {felt.get('intensity', 0):.1f}")
        parts.append(f"floor {100 * p.get('floor_share', 0):.0f}%")
        lines.append((names(person), ", ".join(parts)))
    for source, row in state.get("stances", {}).items():
        for target, stance in row.items():
            said = f", {stance['viewpoint']}" if with_text and stance.get("viewpoint") else ""
            pair = f"{names(source)} to {names(target)}"
            kind = stance.get("kind", "neutral")
            lines.append((pair, f"{kind} {stance.get('strength', 0):.2f}{said}"))
    for role in ("pursuer", "withdrawer"):
        if state.get(role):
            lines.append((role, names(state[role])))
    if state.get("bids"):
        bids = (
            f"{names(b['source'])} to {names(b['target'])} ({b['kind']}, row {b['turn_id']})"
            for b in state["bids"]
        )
        lines.append(("open bids", ", ".join(bids)))
    return lines


def _aliases(line: Mapping[str, Any]) -> dict[str, str]:
    people = line["state"].get("participants", [])
    return {name: f"P{place}" for place, name in enumerate(people, 1)}


def _transcript(sample: Sample) -> list[dict[str, Any]]:
    return [
        {
            "speaker": turn.speaker,
            "to": list(turn.addressees),
            "text": turn.text,
            "agent": turn.by_agent,
            "background": [f"{b.speaker}: {b.text}" for b in turn.background],
        }
        for turn in turns_of(sample.rows)
    ]

"""View models: what one person's browser shows, as plain JSON. Nothing a viewer may not see.

Evidence is given as line keys; a claim whose evidence a viewer cannot see never reaches here,
because the picture comes from a thread that holds only visible turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from agent.decision import Decision
from agent.labels import GROUP_LABEL, THERAPIST, Scenario, definitions
from agent.state import RelationalState, Stance
from ui.companion import Companion
from ui.inputs import AGENT_NAME
from ui.records import DecisionRow, Line, Person
from ui.room import Room

GROUP_WORD: Final = {"couple": "both of you", "family": "all of you"}
FAINT: Final = 0.05
"""Stances weaker than this are not drawn."""


def line_view(room: Room, line: Line, person: str) -> dict[str, Any]:
    """Return what a browser needs to label a line."""
    speaker = room.named(line.speaker)
    agent = line.speaker == THERAPIST
    return {
        "key": line.key,
        "name": AGENT_NAME if agent else line.speaker,
        "agent": agent,
        "colour": None if speaker is None else speaker.colour,
        "side": _side(room, line, person),
        "mine": not agent and (room.one_browser or line.speaker == room.people[person].name),
        "private": line.visible_to is not None,
        "to": [_shown(room.scenario, a) for a in line.addressees],
        "at": line.at,
    }


def _side(room: Room, line: Line, person: str) -> str:
    if line.speaker == THERAPIST:
        return "agent"
    if not room.one_browser:
        return "own" if line.speaker == room.people[person].name else "other"
    first = next(iter(room.people.values()), None)
    return "own" if first is not None and line.speaker == first.name else "other"


def panel_view(room: Room, companion: Companion, person: str) -> dict[str, Any]:
    """Return everything the relations panel shows to a person."""
    state = companion.public.relations
    keys = _Keys(room, companion.public.seqs)
    latest = companion.last_decision()
    view: dict[str, Any] = {
        "scenario": room.scenario,
        "mode": room.info.mode,
        "people": [_person(room, p, state, keys, person) for p in room.present()],
        "stances": _stances(state, keys, room, person),
        "pattern": _pattern(state, keys),
        "bids": _bids(state, keys),
        "decision": None if latest is None else decision_view(room, *latest),
        "settings": settings_view(room),
    }
    view["sentences"] = sentences(view)
    return view


class _Keys:
    """Turns of the public thread to line keys."""

    def __init__(self, room: Room, seqs: Sequence[int]) -> None:
        self._room, self._seqs = room, seqs

    def __call__(self, ids: Iterable[int]) -> list[str]:
        """Return the keys of the lines that are still there, oldest first."""
        seqs = sorted({self._seqs[i - 1] for i in ids if 0 < i <= len(self._seqs)})
        return _keys_of(self._room, seqs)


def _keys_of(room: Room, seqs: Iterable[int]) -> list[str]:
    found = (room.line_by_seq(seq) for seq in seqs)
    return [x.key for x in found if x is not None and not x.erased]


def _person(
    room: Room, person: Person, state: RelationalState | None, keys: _Keys, looker: str
) -> dict[str, Any]:
    known = state.people.get(person.name) if state else None
    total = sum(state.support.values()) if state else 0.0
    share = (state.support.get(person.name, 0.0) / total) if state and total else None
    emotion = known.emotion if known else None
    return {
        "id": person.id,
        "name": person.name,
        "role": person.role,
        "age": person.age,
        "colour": person.colour,
        "here": room.one_browser or room.here(person.id),
        "mine": room.one_browser or person.id == looker,
        "emotion": emotion.description if emotion else "",
        "valence": emotion.valence if emotion else 0.0,
        "intensity": emotion.intensity if emotion else 0.0,
        "evidence": keys(known.emotion_evidence) if known else [],
        "floor": known.floor_share if known else 0.0,
        "support": share,
        "turns": known.turns if known else 0,
        "presses": bool(state and state.pursuer == person.name),
        "retreats": bool(state and state.withdrawer == person.name),
    }


def _stances(
    state: RelationalState | None, keys: _Keys, room: Room, looker: str
) -> list[dict[str, Any]]:
    if state is None:
        return []
    names = set(room.names())
    own = names if room.one_browser else {room.people[looker].name}
    return [
        _stance(source, target, stance, keys, source in own)
        for source, row in state.stances.items()
        for target, stance in row.items()
        if source in names and target in names and (stance.strength >= FAINT or stance.viewpoint)
    ]


def _stance(source: str, target: str, stance: Stance, keys: _Keys, mine: bool) -> dict[str, Any]:
    return {
        "from": source,
        "to": target,
        "kind": stance.kind,
        "strength": stance.strength,
        "viewpoint": stance.viewpoint,
        "attitude": stance.attitude,
        "evidence": keys([*stance.evidence, *stance.viewpoint_evidence]),
        "mine": mine,
    }


def _pattern(state: RelationalState | None, keys: _Keys) -> dict[str, Any] | None:
    if state is None or not state.pattern:
        return None
    label = max(state.pattern, key=lambda k: state.pattern[k])
    known = {d.name: d for d in definitions("pattern", state.scenario)}
    course = [
        {
            "title": known[p.label].title,
            "probability": p.probability,
            "keys": keys([p.turn_id]),
        }
        for p in state.pattern_history[-12:]
    ]
    return {
        "title": known[label].title,
        "about": known[label].definition,
        "probability": state.pattern[label],
        "course": course,
        "evidence": course[-1]["keys"] if course else [],
    }


def _bids(state: RelationalState | None, keys: _Keys) -> list[dict[str, Any]]:
    if state is None:
        return []
    said = {
        "request": "asked {b} for something",
        "repair": "reached out to {b}",
        "disclosure": "opened up to {b}",
    }
    return [
        {
            "text": f"{b.source} {said[b.kind].format(b=b.target)}, and it waits for an answer.",
            "evidence": keys([b.turn_id]),
        }
        for b in state.bids[-3:]
    ]


def decision_view(room: Room, row: DecisionRow, decision: Decision) -> dict[str, Any]:
    """Return a decision in words."""
    reply = room.line_by_seq(row.reply) if row.reply else None
    return {
        "spoke": reply is not None and not reply.erased,
        "reply": [reply.key] if reply is not None and not reply.erased else [],
        "headline": headline(decision, reply is not None),
        "strategy": _strategy(decision),
        "probability": decision.probability,
        "threshold": decision.threshold,
        "why": [{"text": r.text, "evidence": _keys_of(room, r.evidence)} for r in decision.reasons],
        "asked": decision.intervene and decision.probability < decision.threshold,
        "ok": decision.status == "ok",
        "policy": decision.policy,
    }


def _told(reason: str) -> str:
    """Return a policy's reason as a sentence of the room, where the agent has a name."""
    text = reason.replace("the supporting side", AGENT_NAME).replace(THERAPIST, AGENT_NAME)
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def headline(decision: Decision, spoke: bool) -> str:
    """Return one sentence that says what was decided."""
    if decision.status != "ok":
        return "Kith could not decide this time."
    if not spoke and not (decision.asked and decision.targets):
        return "Kith stayed silent and went on listening."
    target = _shown(decision.scenario, decision.target or GROUP_LABEL[decision.scenario])
    way = _strategy(decision)
    verb = "Kith spoke to" if spoke else "It would have spoken to"
    return f"{verb} {target}" + (f": {way['title'].lower()}." if way else ".")


def _strategy(decision: Decision) -> dict[str, str] | None:
    label = decision.strategy
    if label is None:
        return None
    known = {d.name: d for d in definitions("strategy", decision.scenario)}
    return {"title": known[label].title, "about": known[label].definition}


def variant_view(title: str, decision: Decision) -> dict[str, Any]:
    """Return what another variant would have decided."""
    would = decision.intervene
    return {
        "title": title,
        "spoke": would,
        "headline": headline(decision, False)
        if would or decision.status != "ok"
        else "It would have stayed silent.",
        "words": decision.reply.text if decision.reply and would else "",
    }


def settings_view(room: Room) -> dict[str, Any]:
    """Return the room's settings with the names of the ways to support."""
    return {
        "talk": 0.5 if room.info.talk is None else room.info.talk,
        "paused": room.info.paused,
        "strategies": [
            {
                "name": d.name,
                "title": d.title,
                "about": d.definition,
                "on": d.name not in room.info.strategies_off,
            }
            for d in definitions("strategy", room.scenario)
        ],
    }


def _shown(scenario: Scenario, name: str) -> str:
    if name == THERAPIST:
        return AGENT_NAME
    return GROUP_WORD[scenario] if name == GROUP_LABEL[scenario] else name


def sentences(view: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the whole panel as sentences with their evidence: its text form."""
    out: list[dict[str, Any]] = []
    for p in view["people"]:
        if p["emotion"]:
            out.append(
                {
                    "text": f"{p['name']} seems {p['emotion']} "
                    f"({round(p['intensity'])} out of 10).",
                    "evidence": p["evidence"],
                }
            )
    kinds = {
        "ally": "is with",
        "conflict": "is at odds with",
        "mixed": "is of two minds about",
        "neutral": "has no clear stance towards",
    }
    for s in view["stances"]:
        seen = f": “{s['viewpoint']}” (as told by {s['from']})" if s["viewpoint"] else ""
        out.append(
            {"text": f"{s['from']} {kinds[s['kind']]} {s['to']}{seen}.", "evidence": s["evidence"]}
        )
    if view["pattern"]:
        pattern = view["pattern"]
        out.append(
            {"text": f"Between you now: {pattern['title']}.", "evidence": pattern["evidence"]}
        )
    out += view["bids"]
    for p in view["people"]:
        if p["turns"]:
            got = "" if p["support"] is None else f" and {p['support']:.0%} of Kith’s attention"
            out.append(
                {"text": f"{p['name']} had {p['floor']:.0%} of the words{got}.", "evidence": []}
            )
    if view["decision"]:
        decision = view["decision"]
        out.append({"text": decision["headline"], "evidence": decision["reply"]})
        out += decision["why"]
    return out


__all__ = [
    "decision_view",
    "headline",
    "line_view",
    "panel_view",
    "sentences",
    "settings_view",
    "variant_view",
]

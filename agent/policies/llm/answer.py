"""From a model's answer to a reading: exact labels, or a named fault. Nothing is guessed."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent.conversation import Turn
from agent.decision import Ranked
from agent.labels import THERAPIST, UTTERANCE_TYPES
from agent.llm import AnswerFault
from agent.policies.llm.schema import (
    FEELING,
    MOODS,
    REASON,
    TONE,
    UNCLEAR,
    WORDS,
    Question,
    schema_of,
)
from agent.policies.llm.transcript import HELPER, Lines
from agent.reading import Plan, Reading, StanceReading, TurnReading
from agent.state import Emotion

_EVEN: Final = 0.5
_JUST_BELOW: Final = 0.49


def exactly_one(answer: object, allowed: Sequence[str], where: str) -> str:
    """Return the one allowed label that is meant, whatever its case and spacing.

    Raises:
        AnswerFault: when none or several match. No label is ever taken in place of another.
    """
    if isinstance(answer, str) and answer in allowed:
        return answer
    wanted = _folded(answer) if isinstance(answer, str) else None
    found = [label for label in allowed if _folded(label) == wanted]
    if len(found) != 1:
        raise AnswerFault(f"{where} must be exactly one of the allowed values")
    return found[0]


def _folded(label: str) -> str:
    text = unicodedata.normalize("NFKC", label).casefold().replace("_", " ").replace("-", " ")
    return " ".join(text.strip(" \t\n.,:;'\"").split())


def ranking(answer: object, allowed: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the valid labels, best first, each once.

    Raises:
        AnswerFault: when there is none.
    """
    if isinstance(answer, str):
        answer = [answer]
    if not isinstance(answer, list):
        raise AnswerFault(f"{where} must be a list")
    found: list[str] = []
    for item in answer:
        try:
            found.append(exactly_one(item, allowed, where))
        except AnswerFault:
            continue
    if not found:
        raise AnswerFault(f"{where} holds none of the allowed values")
    return tuple(dict.fromkeys(found))


def ranked(labels: Sequence[str]) -> tuple[Ranked, ...]:
    """Score a ranking by place: 1, 1/2, 1/3 of their sum. No probabilities, only the order."""
    total = sum(1 / n for n in range(1, len(labels) + 1))
    return tuple(Ranked(label=x, score=1 / n / total) for n, x in enumerate(labels, 1))


def shares(labels: Sequence[str], percent: float) -> dict[str, float]:
    """Return a distribution over ranked labels.

    The first gets the stated percentage (at least its share by place), the others divide what is
    left by place.
    """
    if len(labels) == 1:
        return {labels[0]: 1.0}
    by_place = {r.label: r.score for r in ranked(labels)}
    first = max(percent / 100, by_place[labels[0]])
    rest = 1 - by_place[labels[0]]
    return {
        label: first if label == labels[0] else (1 - first) * share / rest
        for label, share in by_place.items()
    }


def reading_of(
    answer: Mapping[str, Any], question: Question, lines: Lines, new: Sequence[Turn]
) -> Reading:
    """Turn an answer into a reading.

    Args:
        answer: the model's object.
        question: what was asked.
        lines: what was shown.
        new: the turns to read; those that were not asked about get an empty reading.

    Raises:
        AnswerFault: naming the field that is missing or wrong.
    """
    missing = [f for f in schema_of(question)["required"] if f not in answer and f != "views"]
    if missing:
        raise AnswerFault(f"missing fields: {', '.join(missing)}")
    patterns = ranking(answer["pattern"], question.patterns, "pattern")
    percent = _number(answer["pattern_percent"], 100, "pattern_percent")
    return Reading(
        turns=_turns(answer, question, lines, new),
        pattern=shares(patterns, percent),
        plan=_plan(answer, question, lines),
    )


def _plan(answer: Mapping[str, Any], question: Question, lines: Lines) -> Plan:
    speak = exactly_one(answer["speak"], ("yes", "no"), "speak") == "yes"
    stated = _number(answer["speak_percent"], 100, "speak_percent") / 100
    strategies = {
        candidate: ranked(ranking(answer[field], question.strategies, field))
        for field, candidate in question.strategy_fields.items()
    }
    evidence = answer["evidence"] if isinstance(answer["evidence"], list) else []
    reasons = ("timing_reason", "target_reason", "strategy_reason")
    return Plan(
        # the verdict counts where the two do not go together
        probability=max(stated, _EVEN) if speak else min(stated, _JUST_BELOW),
        targets=ranked(ranking(answer["targets"], question.candidates, "targets")),
        strategies=strategies,
        reasons=tuple(_words(answer[field], REASON, field) for field in reasons),
        evidence=lines.ids([n for n in evidence if isinstance(n, int)]),
    )


def _turns(
    answer: Mapping[str, Any], question: Question, lines: Lines, new: Sequence[Turn]
) -> tuple[TurnReading, ...]:
    numbers = lines.numbers()
    entries = _by_line(answer.get("turns"), question, "turns")
    views = _by_line(answer.get("views"), question, "views")
    if question.asked and not entries:
        raise AnswerFault("turns must hold one entry for each line asked about")
    readings: list[TurnReading] = []
    for turn in new:
        number = numbers[turn.id]
        if number in entries:
            readings.append(_turn(turn, entries[number][0], views.get(number, []), question))
        else:
            readings.append(empty_reading(turn))
    return tuple(readings)


def empty_reading(turn: Turn) -> TurnReading:
    """Return a reading that says nothing about a turn."""
    return TurnReading(turn_id=turn.id, speaker=turn.speaker, addressees=turn.addressees)


def _by_line(entries: object, question: Question, where: str) -> dict[int, list[dict[str, Any]]]:
    if entries is None:
        return {}
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise AnswerFault(f"{where} must be a list of objects")
    found: dict[int, list[dict[str, Any]]] = {}
    for entry in entries:
        line = entry.get("line")
        number = int(line) if isinstance(line, str) and line.isdecimal() else line
        if number in question.asked:
            found.setdefault(number, []).append(entry)
    return found


def _turn(
    turn: Turn, entry: Mapping[str, Any], views: Sequence[Mapping[str, Any]], question: Question
) -> TurnReading:
    kind = exactly_one(entry.get("type"), UTTERANCE_TYPES, "turns.type")
    mood = exactly_one(entry.get("mood"), tuple(MOODS), "turns.mood")
    emotion = Emotion(
        description=_words(entry.get("feeling"), FEELING, "turns.feeling"),
        valence=MOODS[mood],
        intensity=_number(entry.get("intensity"), 10, "turns.intensity"),
    )
    return TurnReading(
        turn_id=turn.id,
        speaker=turn.speaker,
        addressees=turn.addressees or _addressees(entry, turn, question),
        utterance_types={kind: 1.0},
        emotion=emotion,
        stances=_stances(turn, views, question),
    )


def _addressees(entry: Mapping[str, Any], turn: Turn, question: Question) -> tuple[str, ...]:
    label = exactly_one(entry.get("to"), question.addressees, "turns.to")
    if label in (UNCLEAR, turn.speaker):
        return ()
    return (THERAPIST,) if label == HELPER else (label,)


def _stances(
    turn: Turn, views: Sequence[Mapping[str, Any]], question: Question
) -> tuple[StanceReading, ...]:
    stances: dict[str, StanceReading] = {}
    for view in views:
        about = exactly_one(view.get("about"), question.people, "views.about")
        if about == turn.speaker or about in stances:
            continue
        stances[about] = StanceReading(
            target=about,
            warmth=_number(view.get("warmth"), 10, "views.warmth") / 10,
            tension=_number(view.get("tension"), 10, "views.tension") / 10,
            viewpoint=_words(view.get("viewpoint"), WORDS, "views.viewpoint"),
            attitude=_words(view.get("attitude"), TONE, "views.attitude"),
        )
    return tuple(stances.values())


def _number(value: object, most: int, where: str) -> float:
    if isinstance(value, str):
        text = value.strip().removesuffix("%")
        value = float(text) if text.replace(".", "", 1).isdecimal() else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise AnswerFault(f"{where} must be a number from 0 to {most}")
    return float(value)


def _words(value: object, longest: int, where: str) -> str:
    if not isinstance(value, str):
        raise AnswerFault(f"{where} must be text")
    text = " ".join(value.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"

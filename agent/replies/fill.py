"""Fills a frame's slots, each once, from values that are safe inside a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.policies.base import View
from agent.reading import Reading, TurnReading
from agent.replies.library import SLOT, Frame, Slot, load_feelings
from agent.replies.names import distinct, listed, said_name
from agent.replies.quotes import pick_quote
from agent.state import Emotion

MOST_REPLY_WORDS: Final = 60

_FELT_FROM: Final = 3.0
"""Least intensity (0-10) at which a feeling is worth a word."""
_UNPLEASANT_BELOW: Final = -0.1
_PLEASANT_ABOVE: Final = 0.15
_NEGATIONS: Final = ("not", "no", "less", "never", "without", "hardly")
_NOT_QUOTED: Final = frozenset({"accusation", "defense", "withdrawal"})
_QUOTED_WITHIN: Final = 6
"""A person's words are only quoted while no more than this many turns have followed."""


@dataclass(frozen=True)
class Addressee:
    """Whom a reply is spoken to.

    Attributes:
        one: the participant, or None for several.
        present: everybody in the room, in order.
    """

    one: str | None
    present: tuple[str, ...]


def fill(frame: Frame, values: Mapping[Slot, str]) -> str:
    """Return the frame's text with its slots filled.

    Raises:
        KeyError: when a slot has no value.
    """
    known: dict[str, str] = {str(slot): value for slot, value in values.items()}
    return SLOT.sub(lambda match: known[match.group(1)], frame.text)


def slot_values(
    view: View, to: Addressee, other: str | None, reading: Reading | None, said: Sequence[str]
) -> dict[Slot, str]:
    """Return the values that can be had for the slots.

    Args:
        view: what may be known.
        to: whom the reply is spoken to.
        other: the second person a reply to one person may mention.
        reading: the reading of the newest turns, when it is not yet in the view.
        said: the agent's recent texts, whose quotes are not used again.
    """
    values: dict[Slot, str] = {}
    if to.one is None:
        names = listed(to.present)
        if names:
            values["names"] = names
        pair = distinct(to.present) if len(to.present) == 2 else None
        if pair:
            values["name_a"], values["name_b"] = pair
        return values
    name = said_name(to.one)
    if name:
        values["name"] = name
    met = said_name(other) if other else None
    if met and (name is None or met.casefold() != name.casefold()):
        values["other"] = met
    quote = _quote(view, to.one, reading, said)
    if quote:
        values["quote"] = quote
    feeling = feeling_word(_emotion(view, to.one, reading))
    if feeling:
        values["feeling"] = feeling
    return values


def other_person(view: View, person: str) -> str | None:
    """Return whom a reply to ``person`` may mention.

    The participant towards whom the person stands in the strongest conflict; else the last
    other participant who spoke; else the only other one there.
    """
    others = [p for p in view.participants if p != person]
    if view.relations is not None:
        stances = {p: view.relations.stance(person, p) for p in others}
        tense = [p for p in others if stances[p].kind in ("conflict", "mixed")]
        if tense:
            return max(tense, key=lambda p: stances[p].tension)
    spoken = next((t.speaker for t in reversed(view.turns) if t.speaker in others), None)
    return spoken or (others[0] if len(others) == 1 else None)


def feeling_word(emotion: Emotion | None) -> str | None:
    """Return a plain word for an emotion that was read, or None.

    Only unpleasant or mixed feelings of some intensity: naming a pleasant one as a guess
    ("maybe you feel happy") sounds false.
    """
    if emotion is None or emotion.intensity < _FELT_FROM or emotion.valence > _PLEASANT_ABOVE:
        return None
    feelings = load_feelings()
    described = f" {' '.join(emotion.description.casefold().replace(',', ' ').split())} "
    for key, word in feelings.words.items():
        before, found, _ = described.partition(f" {key} ")
        if found and before.split()[-1:] not in ([n] for n in _NEGATIONS):
            return None if word in feelings.unguessed else word
    if emotion.valence > _UNPLEASANT_BELOW:
        return None
    arousal = "low" if emotion.intensity < 4.5 else "mid" if emotion.intensity < 7.5 else "high"
    return feelings.cells["negative"][arousal][0]


def last_own_turn(view: View, person: str) -> int | None:
    """Return the position of the person's latest turn with words, or None."""
    for position in range(len(view.turns) - 1, -1, -1):
        if view.turns[position].speaker == person and view.turns[position].text.strip():
            return position
    return None


def reading_of(view: View, position: int, reading: Reading | None) -> TurnReading | None:
    """Return the reading of the turn at ``position``, wherever it is."""
    turn_id = view.turns[position].id
    if reading is not None:
        for found in reading.turns:
            if found.turn_id == turn_id:
                return found
    return view.readings[position] if position < len(view.readings) else None


def _quote(view: View, person: str, reading: Reading | None, said: Sequence[str]) -> str | None:
    position = last_own_turn(view, person)
    if position is None or len(view.turns) - 1 - position > _QUOTED_WITHIN:
        return None
    read = reading_of(view, position, reading)
    types = read.utterance_types if read else {}
    if types and max(types, key=lambda k: types[k]) in _NOT_QUOTED:
        return None
    return pick_quote(view.turns[position].text, view.participants, said)


def _emotion(view: View, person: str, reading: Reading | None) -> Emotion | None:
    if view.relations is not None:
        known = view.relations.people.get(person)
        return known.emotion if known and known.emotion_evidence else None
    position = last_own_turn(view, person)
    read = reading_of(view, position, reading) if position is not None else None
    return read.emotion if read else None

"""Turns a RESCUE row into what a listener could notice: the whitelist of the replay.

Everything else in a row (emotions, viewpoints, strategies, patterns, utterance types) is
annotation and must never reach a policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, get_args

from agent.conversation import BackgroundLine, Cue, Mode, Turn
from agent.labels import NOBODY
from agent.rescue.schema import Observation, Row

MODES: Final[tuple[Mode, ...]] = get_args(Mode)


def turns_of(rows: Sequence[Row], mode: Mode = "dialogue") -> tuple[Turn, ...]:
    """Returns the rows as turns; ids are the 1-based positions.

    Args:
        rows: of one sample, in order.
        mode: RESCUE's input mode. ``dialogue`` hands out words, addressees, background lines and
            times; ``audio`` adds the tone of voice, ``visual`` the four visual fields,
            ``audiovisual`` both.
    """
    return tuple(turn_of(row, position, mode) for position, row in enumerate(rows, 1))


def turn_of(row: Row, position: int, mode: Mode = "dialogue") -> Turn:
    """Returns one row as a turn with the id ``position``."""
    addressees = _names(row.target)
    return Turn(
        id=position,
        speaker=row.primary_speaker.strip() or NOBODY,
        text=row.dialogue_cleaned,
        addressees=addressees,
        addressees_given=bool(addressees),
        background=tuple(
            BackgroundLine(speaker=b.speaker.strip(), addressees=_names(b.target), text=b.content)
            for b in row.background_dialogue
        ),
        start=row.start_time,
        end=row.end_time,
        cues=tuple(_cues(row, mode)),
    )


def _cues(row: Row, mode: Mode) -> Iterable[Cue]:
    if mode in ("audio", "audiovisual") and row.tone_of_voice:
        yield Cue(kind="tone", person=row.primary_speaker.strip(), description=row.tone_of_voice)
    if mode in ("visual", "audiovisual"):
        yield from _observed("posture", row.body_posture)
        yield from _observed("face", row.facial_expressions)
        yield from _observed("self", row.self_directed_behavior)
        for seen in row.interaction_behavior:
            yield Cue(
                kind="interaction",
                person=seen.initiator.strip(),
                description=seen.description,
                addressees=_names(seen.target),
            )


def _observed(kind: str, seen: Iterable[Observation]) -> Iterable[Cue]:
    for item in seen:
        yield Cue.model_validate(
            {"kind": kind, "person": item.person.strip(), "description": item.description}
        )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))

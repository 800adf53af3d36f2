"""Renders replies at points of the bundled demo conversations, for reading and for the docs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from agent.conversation import Turn, participants_of
from agent.decision import Reply
from agent.demo import demo_path
from agent.encoder import make_encoder
from agent.labels import GROUP_LABEL, Scenario
from agent.memory import ReplyMemory
from agent.policies.base import View
from agent.reading import StanceReading, TurnReading
from agent.replies.writer import ReplyWriter
from agent.rescue.reader import load_dataset
from agent.rescue.schema import Row, Sample
from agent.rescue.turns import turns_of
from agent.state import Emotion
from agent.update import initial_state, update, with_pattern

SHOWN: Final = 20
_CONTEXT: Final = 4
_HEAD: Final = """# Twenty replies from the library

Made by `python -m agent.replies --demo`. At each point the target, the strategy and the pattern
are the ones that the conversation's author annotated; the words are the library's. No language
model takes part. The people and the conversations are invented.
"""


@dataclass(frozen=True)
class Point:
    """A place in a demo conversation where the written therapist speaks.

    Attributes:
        title: of the conversation.
        view: everything before it.
        target: whom the therapist speaks to.
        strategy: the annotated strategy.
        pattern: the annotated pattern, "" when there is none.
    """

    title: str
    view: View
    target: str
    strategy: str
    pattern: str


@lru_cache(maxsize=1)
def demo_points() -> tuple[Point, ...]:
    """Return every decision point of the demo set, conversation by conversation.

    Raises:
        DataError: when a demo conversation is unsound.
    """
    samples = load_dataset(demo_path()).samples
    return tuple(point for sample in samples for point in _points(sample))


def _points(sample: Sample) -> Iterator[Point]:
    turns = turns_of(sample.rows)
    scenario: Scenario = "family" if "/family/" in f"/{sample.sample_id}" else "couple"
    state = initial_state(scenario)
    readings: list[TurnReading] = []
    for position, (row, turn) in enumerate(zip(sample.rows, turns, strict=True)):
        if turn.by_agent and position and row.support_strategy:
            people = participants_of(turns[:position])
            to = row.support_strategy[0]
            target = to.target[0] if len(to.target) == 1 else GROUP_LABEL[scenario]
            if target in (*people, GROUP_LABEL[scenario]):
                pattern = row.relation_cycle_state or row.relation_pattern or ""
                known = with_pattern(state, position, {pattern: 0.6} if pattern else {})
                view = View(scenario, people, turns[:position], tuple(readings), known)
                yield Point(sample.sample_id, view, target, to.strategy_type.strip(), pattern)
        readings.append(_annotated(row, turn))
        state = update(state, turn, readings[-1])


def _annotated(row: Row, turn: Turn) -> TurnReading:
    if turn.by_agent:
        return TurnReading(turn_id=turn.id, speaker=turn.speaker)
    felt = next((e for e in row.internal_emotion if e.person == turn.speaker), None)
    return TurnReading(
        turn_id=turn.id,
        speaker=turn.speaker,
        addressees=turn.addressees,
        utterance_types={row.utterance_type: 1.0} if row.utterance_type else {},
        emotion=Emotion(description=felt.emotion_description, intensity=felt.intensity or 0.0)
        if felt
        else None,
        stances=tuple(
            StanceReading(target=v.target, tension=0.5, viewpoint=v.viewpoint)
            for v in row.viewpoints_attitudes
            if v.source == turn.speaker and v.target and row.utterance_type == "accusation"
        ),
    )


def choose_points(
    points: Sequence[Point], writer: ReplyWriter, most: int = SHOWN
) -> list[tuple[Point, Reply]]:
    """Return points with their replies that show many strategies and target kinds.

    At most one point comes from each conversation; where a reply quotes, it is that one.
    """
    by_title: dict[str, list[Point]] = {}
    for point in points:
        by_title.setdefault(point.title, []).append(point)
    shown: Counter[tuple[str, ...]] = Counter()
    chosen: list[tuple[Point, Reply]] = []
    for own in _alternating(list(by_title.values()))[:most]:
        written = [(p, writer.write(p.view, p.target, p.strategy)) for p in own]
        best = min(written, key=lambda pr: ("“" not in pr[1].text, _seen(shown, pr[0])))
        shown.update(_kinds(best[0]))
        chosen.append(best)
    return chosen


def _seen(shown: Counter[tuple[str, ...]], point: Point) -> list[int]:
    return [shown[kind] for kind in _kinds(point)]


def _kinds(point: Point) -> tuple[tuple[str, ...], ...]:
    to_group = str(point.target == point.view.group)
    return (point.view.scenario, point.strategy), (to_group,), (point.pattern,)


def _alternating(groups: list[list[Point]]) -> list[list[Point]]:
    families = [g for g in groups if g[0].view.scenario == "family"]
    couples = [g for g in groups if g[0].view.scenario == "couple"]
    return [*couples[: SHOWN - len(families)], *families, *couples[SHOWN - len(families) :]]


def demo_writer() -> ReplyWriter:
    """Return a writer whose index lives in memory."""
    encoder = make_encoder("minilm-int8")
    return ReplyWriter(encoder, ReplyMemory(encoder))


def demo_page() -> str:
    """Return ``docs/replies.md``."""
    writer = demo_writer()
    parts = [_HEAD]
    for number, (point, reply) in enumerate(choose_points(demo_points(), writer), 1):
        parts.append(_entry(number, point, reply))
    return "\n".join(parts)


def _entry(number: int, point: Point, reply: Reply) -> str:
    pattern = f", pattern `{point.pattern}`" if point.pattern else ""
    lines = [
        f"## {number}. {point.title.removeprefix('demo/')}",
        "",
        f"To {reply.target}, `{point.strategy}`{pattern}; frame `{reply.frame}`.",
        "",
    ]
    for turn in point.view.turns[-_CONTEXT:]:
        lines += [f"> {turn.speaker}: {' '.join(turn.text.split())}", ">"]
    return "\n".join([*lines[:-1], "", f"**{reply.text}**", ""])

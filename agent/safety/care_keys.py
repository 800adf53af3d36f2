"""Which text of care fits, which help goes with it, and which question it puts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.safety import cues
from agent.safety.care_state import PersonCare, Topic
from agent.safety.care_words import has
from agent.safety.resources import ResourceKind
from agent.safety.types import Flag

HELP: Final[dict[Topic, tuple[ResourceKind, ...]]] = {
    "self_harm": ("suicide_crisis",),
    "other": ("suicide_crisis",),
    "company": ("suicide_crisis",),
    "violence": ("domestic_violence",),
    "coercive_control": ("domestic_violence",),
    "child_abuse": ("child",),
    "target": ("domestic_violence",),
    "actor": ("emergency",),
    "medical": ("emergency",),
}
_COMPANY: Final = frozenset({"self_harm.imminent", "self_harm.more_1", "self_harm.more_3"})
"""Texts that ask for the company of somebody, and not for what a person thinks of doing."""
_ASKING: Final = (".ask", ".again", ".child", ".imminent")
_ANSWER_WITHIN: Final = 2
"""Own lines within which somebody at a shared screen answers."""
_SHORT: Final = 6
"""Words up to which a line at a shared screen is an answer where it starts with no or is about
now: longer ones are talk with the others."""


def key_of(
    person: PersonCare,
    topic: Topic,
    flags: Sequence[Flag],
    *,
    denial: bool,
    urgent: bool,
    young: bool,
) -> str:
    """Return the key of the next text about a topic.

    Args:
        person: who gets it.
        topic: what it is about.
        flags: of the turn it answers.
        denial: what was said before is taken back.
        urgent: it is about now, or means are at hand.
        young: the one who spoke is under eighteen.
    """
    if topic == "other":
        return "self_harm.other"
    if denial and has(f"{topic}.again"):
        return f"{topic}.again"
    if urgent and has(f"{topic}.imminent"):
        return f"{topic}.imminent"
    if topic == "actor" and {f.kind for f in flags} == {"coercive_control"}:
        return "actor.control"
    if topic == "actor" and any(f.kind == "threat" for f in flags):
        asks = any(f.evidence.rule.endswith("ask_to_hit") for f in flags)
        if not asks and topic not in person.count:
            return "actor.threat"
    if topic not in person.count or not has(f"{topic}.more_1"):
        return "child_abuse.child" if young and topic == "child_abuse" else f"{topic}.ask"
    options = [f"{topic}.more_{i}" for i in (1, 2, 3) if has(f"{topic}.more_{i}")]
    return options[(person.count[topic] - 1) % len(options)]


def question_of(key: str, topic: Topic) -> Topic | None:
    """Return what a text's question is about, where a plain yes or no answers it, else None."""
    if key in _COMPANY:
        return "company"
    return topic if key.endswith(_ASKING) and topic not in ("actor", "medical") else None


def answers_at_the_screen(person: PersonCare, topic: Topic, text: str) -> bool:
    """Return whether a line at a shared screen answers: soon after the question, in few words."""
    if topic not in ("self_harm", "company"):
        return False
    if person.turns - person.asked.get(topic, 0) > _ANSWER_WITHIN:
        return False
    said = cues.answer(text)
    short = len(text.split()) <= _SHORT
    now = cues.urgent(text, True)
    return said == "yes" or (short and (said == "no" or now)) or cues.at_hand(text, True)

"""Which alarms of a turn count, which comes first, and what it is about for its speaker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from agent.safety import cues
from agent.safety.care_state import CareState, Heard, Topic
from agent.safety.types import Flag, Kind

SECOND_ALARM: Final = 8
"""Own turns within which a second doubtful alarm counts."""
_SHORT_QUESTION: Final = 10
_ORDER: Final[tuple[Kind, ...]] = (
    "self_harm",
    "child_abuse",
    "violence",
    "coercive_control",
    "threat",
    "medical",
    "dependency",
)


def _by_sentence_model(flag: Flag) -> bool:
    return flag.source == "rules" and flag.evidence.rule.startswith("sentence_model.")


def without_noise(flags: Sequence[Flag], heard: Heard) -> Sequence[Flag]:
    """Drop what only the sentence model found in a short question about the room itself."""
    short = len(heard.text.split()) <= _SHORT_QUESTION
    if short and cues.asked(heard.text, heard.private) is not None:
        return [f for f in flags if not _by_sentence_model(f)]
    return flags


def weighed(
    state: CareState, heard: Heard, flags: Sequence[Flag], doubtful: Collection[Kind]
) -> tuple[CareState, Sequence[Flag], frozenset[Kind]]:
    """Keep doubtful alarms back until there is a second one.

    Nothing is kept back that names a means, a weapon or a way that is shut.

    Returns:
        The state, the alarms that stand, and the kinds among them that stand in a public line
        only because of a whisper: nobody else may notice those (S16).
    """
    weak = [f for f in flags if f.kind in doubtful]
    if not weak:
        return state, flags, frozenset()
    if any(cues.at_hand(heard.text, f.kind == "self_harm") for f in weak):
        return state, flags, frozenset()
    person = state.of(heard.speaker)

    def again(found: Mapping[Kind, int], turns: int, kind: Kind) -> bool:
        return kind in found and turns - found[kind] <= SECOND_ALARM

    standing = [f for f in flags if f not in weak or again(person.noticed, person.turns, f.kind)]
    aloud = {f.kind for f in weak if again(person.overheard, person.spoken, f.kind)}
    quiet = {f.kind for f in standing if f in weak} - aloud
    changed = {"noticed": {**person.noticed, **{f.kind: person.turns for f in weak}}}
    if not heard.private:
        changed["overheard"] = {**person.overheard, **{f.kind: person.spoken for f in weak}}
    state = state.with_person(heard.speaker, person.model_copy(update=changed))
    # many whispers must not put a second public alarm out of reach either
    standing += [f for f in weak if not heard.private and f.kind in aloud and f not in standing]
    return state, standing, frozenset() if heard.private else frozenset(quiet)


def leading(flags: Sequence[Flag], speaker: str) -> Flag | None:
    """Return the flag to act on: what a rule found before what a model found, worst first."""

    def rank(flag: Flag) -> tuple[bool, bool, int]:
        model = flag.evidence.rule.startswith(("sentence_model.", "signs."))
        acts = flag.actor == speaker and flag.kind in ("violence", "threat")
        own = flag.kind == "self_harm"
        # the model hears a child in much that has none in it
        place = len(_ORDER) if model and flag.kind == "child_abuse" else _ORDER.index(flag.kind)
        return (model and flag.source == "rules", not (acts or own), place)

    return min(flags, key=rank, default=None)


def topic_of(flag: Flag, speaker: str) -> Topic:
    """Return what a flag is about, seen from the one who spoke."""
    if flag.kind == "self_harm":
        return "self_harm" if flag.about in (speaker, None) else "other"
    if flag.kind == "child_abuse":
        return "child_abuse"
    if flag.kind == "medical":
        return "medical"
    if flag.actor == speaker:
        return "actor"
    return "coercive_control" if flag.kind == "coercive_control" else "violence"

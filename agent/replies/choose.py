"""Chooses a frame: what fits the moment, was not said lately, and is nearest to the situation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agent.policies.base import View
from agent.replies.fill import Addressee
from agent.replies.library import Condition, Frame, Slot, TargetKind

NO_REPEAT_WITHIN: Final = 5
"""A frame stays unused for this many of the agent's replies."""
QUOTE_GAP: Final = 2
"""Replies without a quote between two that use one: at most a third of them quote."""
LOOK_BACK: Final = 15
"""The agent's past turns that are looked through for frames used before."""

_EARLY_TURNS: Final = 10
_NEAR_TURNS: Final = 4
_SPOKEN_WITHIN: Final = 6
_PATTERN_FROM: Final = 0.3

_BONUS_PATTERN: Final = 0.15
_BONUS_QUOTE: Final = 0.3
_BONUS_PAIR: Final = 0.03
_MINUS_USED: Final = 0.3
_MINUS_OPENING: Final = 0.15


@dataclass(frozen=True)
class Moment:
    """What the choice depends on besides the strategy.

    Attributes:
        kinds: target kinds that fit.
        values: slots that can be filled.
        holds: conditions that hold now.
        pattern: the leading pattern, or None when none leads clearly.
        pattern_probability: of it, 0 to 1.
        said: the agent's past texts, newest last.
        quote: whether this reply may quote.
    """

    kinds: frozenset[TargetKind]
    values: Mapping[Slot, str]
    holds: frozenset[Condition]
    pattern: str | None
    pattern_probability: float
    said: Sequence[str]
    quote: bool


def leading_pattern(distribution: Mapping[str, float]) -> tuple[str | None, float]:
    """Return the leading pattern and its probability; None when it hardly leads."""
    if not distribution:
        return None, 0.0
    label = max(distribution, key=lambda k: distribution[k])
    probability = distribution[label]
    return (label, probability) if probability >= _PATTERN_FROM else (None, 0.0)


def conditions_now(
    view: View, to: Addressee, other: str | None, *, hurting: bool
) -> frozenset[Condition]:
    """Return which of the library's conditions hold.

    Args:
        view: what may be known.
        to: whom the reply is spoken to.
        other: whom it may mention.
        hurting: whether the person addressed was read as feeling something unpleasant.
    """
    people = [t.speaker for t in view.turns if not t.by_agent]
    last = people[-1] if people else None
    recent = {t.speaker for t in view.turns[-_SPOKEN_WITHIN:] if not t.by_agent}
    holds: dict[Condition, bool] = {
        "just_spoke": to.one is not None and last == to.one,
        "quiet": to.one is not None and last is not None and last != to.one,
        "heard_other": other is not None and last == other,
        "hurting": hurting,
        "after_agent": any(t.by_agent for t in view.turns[-_NEAR_TURNS:]),
        "both_spoke": len(recent) >= 2,
        "early": len(view.turns) < _EARLY_TURNS,
        "later": len(view.turns) >= _EARLY_TURNS,
    }
    return frozenset(name for name, is_so in holds.items() if is_so)


def may_quote(said: Sequence[str]) -> bool:
    """Whether a quote is allowed after the agent's past texts, newest last."""
    return not any("“" in text for text in said[-QUOTE_GAP:])


def fitting(frames: Iterable[Frame], moment: Moment) -> list[Frame]:
    """Return the frames that may be said now, in library order."""
    recent = moment.said[-NO_REPEAT_WITHIN:]
    return [f for f in frames if _fits(f, moment) and not any(f.made(text) for text in recent)]


def _fits(frame: Frame, moment: Moment) -> bool:
    return (
        frame.target in moment.kinds
        and (not frame.patterns or moment.pattern in frame.patterns)
        and all(slot in moment.values for slot in frame.needs)
        and frame.conditions <= moment.holds
        and (moment.quote or "quote" not in frame.needs)
    )


def best(frames: Collection[Frame], moment: Moment, nearness: Mapping[str, float]) -> Frame:
    """Return the best of ``frames``; equal ones by id.

    Args:
        frames: at least one.
        moment: the moment.
        nearness: frame id -> cosine between the frame and the situation.
    """
    return min(frames, key=lambda f: (-_score(f, moment, nearness), f.id))


def _score(frame: Frame, moment: Moment, nearness: Mapping[str, float]) -> float:
    score = nearness.get(frame.id, 0.0)
    if frame.patterns:
        score += _BONUS_PATTERN * moment.pattern_probability
    if "quote" in frame.needs:
        score += _BONUS_QUOTE
    if frame.target == "pair":
        score += _BONUS_PAIR
    earlier = moment.said[-LOOK_BACK:]
    if any(frame.made(text) for text in earlier):
        score -= _MINUS_USED
    if any(text.startswith(frame.opening) for text in earlier[-2:]):
        score -= _MINUS_OPENING
    # rounded so that the last bits of a sum cannot decide
    return round(score, 4)

"""Builds the prompts of a variant from a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from agent.conversation import Turn
from agent.labels import LabelKind, Scenario, definitions
from agent.policies.base import View
from agent.policies.llm.check import MOST_WORDS
from agent.policies.llm.picture import nearby, picture_text
from agent.policies.llm.schema import Question
from agent.policies.llm.transcript import Lines, as_data, lines_of
from agent.prompts import Message, fragment, load_prompt, render

SETTING: Final = {"couple": "two partners", "family": "a family"}
READ_AT_ONCE: Final = 6
"""Lines of participants read in one call; earlier ones of a long backlog stay unread."""
REPLY_LINES: Final = 14
_SHORT_BELOW: Final = 6000
_LINES_SHARE: Final = 0.75

ReadPrompt = Literal["read_agent", "read_plain"]
ReplyPrompt = Literal["reply_agent", "reply_plain"]
FRAGMENTS: Final = ("data_rule", "labels", "fields", "lines_task")


@dataclass(frozen=True)
class Variant:
    """What tells one LLM policy from another; everything else is the same for all.

    Attributes:
        name: as in the variant lists.
        read: prompt of the reading call.
        reply: prompt of the reply call.
        rows: rows shown, None for all.
        picture: whether the relational state stands in the prompt.
        estimates: whether a local policy's probabilities do.
    """

    name: str
    read: ReadPrompt
    reply: ReplyPrompt
    rows: int | None = None
    picture: bool = False
    estimates: bool = False

    def tags(self) -> tuple[str, ...]:
        """Return the tags of the prompts it uses, for its version."""
        used = [self.read, self.reply, "reply_again", *FRAGMENTS]
        used += ["picture", "reply_picture"] if self.picture else []
        used += ["estimates"] if self.estimates else []
        used += ["reply_reason"] if self.reply == "reply_agent" else []
        return tuple(load_prompt(name).tag for name in used)


@dataclass(frozen=True)
class Prepared:
    """A question, ready to be asked.

    Attributes:
        messages: the prompt.
        question: its closed sets.
        lines: what is shown.
    """

    messages: list[Message]
    question: Question
    lines: Lines


def prepare_reading(
    variant: Variant,
    view: View,
    new: Sequence[Turn],
    *,
    room: int,
    estimates: str = "",
    extra: str | None = None,
) -> Prepared:
    """Build the reading call.

    Args:
        variant: which prompt, and what it may show.
        view: the conversation.
        new: turns not read before.
        room: tokens for the whole prompt, by our own estimate.
        estimates: a local policy's probabilities as text.
        extra: a further possible target.
    """
    lines = lines_of(view, variant.rows, int(room * _LINES_SHARE))
    shown = {t.id for _, t in lines.numbered()}
    numbers = lines.numbers()
    asked = [numbers[t.id] for t in new if not t.by_agent and t.id in shown][-READ_AT_ONCE:]
    question = Question(
        scenario=view.scenario,
        people=view.participants,
        group=view.group,
        patterns=view.patterns,
        strategies=view.strategies,
        asked=tuple(asked),
        first=lines.first,
        last=len(view.turns),
        extra=extra,
    )
    given = {
        "setting": SETTING[view.scenario],
        "people": as_data(list(view.participants)),
        "data_rule": fragment("data_rule"),
        "labels": _labels(view.scenario, short=room < _SHORT_BELOW),
        "lines": lines.text,
        "fields": _fields(question),
    }
    if variant.read == "read_agent":
        given["picture"] = _picture(variant, view, numbers)
        given["estimates"] = estimates
    return Prepared(render(variant.read, given), question, lines)


def prepare_reply(
    variant: Variant,
    view: View,
    target: str,
    strategy: str,
    *,
    room: int,
    reason: str = "",
    evidence: Sequence[int] = (),
) -> list[Message]:
    """Build the reply call.

    Args:
        variant: which prompt, and what it may show.
        view: the conversation.
        target: whom it is for.
        strategy: the way of supporting.
        room: tokens for the whole prompt, by our own estimate.
        reason: why that way, as the reading had it.
        evidence: ids of the turns this rests on.
    """
    rows = variant.rows or REPLY_LINES
    lines = lines_of(view, rows, int(room * _LINES_SHARE))
    told = next(d for d in definitions("strategy", view.scenario) if d.name == strategy)
    given = {
        "setting": SETTING[view.scenario],
        "data_rule": fragment("data_rule"),
        "address": _address(view, target),
        "strategy": f"{told.title}. {told.definition} {told.use_when}",
        "lines": lines.text,
        "words": str(MOST_WORDS - 20),
    }
    if view.sheltering:
        given["strategy"] += f"\n\n{fragment('reply_sheltering')}"
    if variant.reply == "reply_agent":
        numbers = lines.numbers()
        given["picture"] = _near(variant, view, target, numbers)
        shown = [numbers[i] for i in evidence if numbers.get(i, 0) >= lines.first]
        given["reason"] = _why(reason, shown)
    return render(variant.reply, given)


def _picture(variant: Variant, view: View, numbers: dict[int, int]) -> str:
    if not variant.picture or view.relations is None or view.relations.last_turn is None:
        return ""
    return fragment("picture", {"state": picture_text(view.relations, numbers)})


def _near(variant: Variant, view: View, target: str, numbers: dict[int, int]) -> str:
    state = view.relations
    if not variant.picture or state is None:
        return ""
    pattern = "not known yet"
    if state.pattern:
        leading = max(state.pattern, key=lambda k: state.pattern[k])
        told = next(d for d in definitions("pattern", view.scenario) if d.name == leading)
        pattern = f"{told.title}. {told.definition}"
    near = nearby(state, target, numbers)
    return fragment("reply_picture", {"pattern": pattern, "near": near})


def _why(reason: str, lines: Sequence[int]) -> str:
    if not lines:
        return ""
    told = as_data(reason or "somebody needs it")
    return fragment("reply_reason", {"reason": told, "lines": ", ".join(map(str, lines))})


def _address(view: View, target: str) -> str:
    if target == view.group:
        return "Speak to all of them together; name nobody alone."
    return f"Speak to {as_data(target)} and say that name once. The others listen: mind them too."


def _fields(question: Question) -> str:
    task = ""
    if question.asked:
        task = fragment("lines_task", {"lines": ", ".join(str(n) for n in question.asked)})
    ranked = [f"{field} for {as_data(c)}" for field, c in question.strategy_fields.items()]
    return fragment(
        "fields",
        {
            "lines_task": task,
            "candidates": ", ".join(as_data(c) for c in (*question.people, question.group)),
            "strategy_fields": ", ".join(ranked),
        },
    )


@cache
def _labels(scenario: Scenario, *, short: bool) -> str:
    return fragment(
        "labels",
        {
            "patterns": _defined("pattern", scenario, short),
            "strategies": _defined("strategy", scenario, short),
            "utterance_types": _defined("utterance_type", scenario, True),
        },
    )


def _defined(kind: LabelKind, scenario: Scenario, short: bool) -> str:
    lines = []
    for label in definitions(kind, scenario):
        more = "" if short else f" When: {label.use_when} Not when: {label.not_when}"
        lines.append(f"- {label.name}: {label.definition}{more}")
    return "\n".join(lines)

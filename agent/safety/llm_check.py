"""The second layer: a language model reads a turn beside the rules.

Either layer raises an alarm. Only the model may take one back, and not every alarm: never one
about now, never a taken-back disclosure, and never where the turn itself tries to give orders.
A model that fails changes nothing: the rules stand (safety.md S28).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from agent.conversation import Turn
from agent.labels import Scenario
from agent.llm import AnswerFault, Ask, LLMClient, LLMError
from agent.policies.llm.transcript import as_data, line_of
from agent.prompts import fragment, render
from agent.safety import cues
from agent.safety.people import THIRD_PERSON
from agent.safety.types import KINDS, Evidence, Flag, Kind

Says = Literal["yes", "no", "unsure"]
RULE: Final = "llm_check"
_SETTING: Final = {"couple": "two partners", "family": "a family"}
_WORDS: Final[tuple[Says, ...]] = ("no", "yes", "unsure")
_ELSE: Final = ("somebody_else", "nobody")
_LINES: Final = 12
_TOKENS: Final = 300
_ORDERS: Final = re.compile(
    r"\b(ignore|disregard|instruction|system|prompt|developer|assistant|answer (with|no)|"
    r"respond (with|no)|classif\w+|self_harm|coercive_control|json|output)\b|[{}<>\[\]]",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Reading:
    """What the model said about one turn.

    Attributes:
        says: kind -> yes, no or unsure.
        at_risk: a participant, ``third_person``, or None.
        acts: a participant, or None.
    """

    says: Mapping[Kind, Says]
    at_risk: str | None
    acts: str | None


@dataclass(frozen=True)
class Combined:
    """What both layers make of a turn.

    Attributes:
        flags: alarms that stand, each once.
        cleared: alarms of the rules that the model took back.
        agreed: kinds that both layers raised.
    """

    flags: tuple[Flag, ...]
    cleared: tuple[Flag, ...] = ()
    agreed: frozenset[Kind] = frozenset()


def schema(people: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of the model's answer."""
    fields: dict[str, Any] = {kind: {"type": "string", "enum": list(_WORDS)} for kind in KINDS}
    named = {"type": "string", "enum": [*_ELSE[::-1], *people]}
    fields |= {"at_risk": named, "acts": named}
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


class LLMCheck:
    """Asks a model about single turns.

    Args:
        client: talks to the model; it should not retry for long, people are waiting.
        seconds: after which the rules go on alone.
    """

    def __init__(self, client: LLMClient, seconds: float = 8.0) -> None:
        self.client = client
        self.seconds = seconds

    async def read(
        self, turns: Sequence[Turn], people: Sequence[str], scenario: Scenario
    ) -> Reading | None:
        """Read the newest turn; None when no answer came in time.

        Args:
            turns: what its speaker and the agent may see, oldest first.
            people: names of those in the room.
            scenario: couple or family.
        """
        shown = list(turns)[-_LINES:]
        messages = render(
            "safety_check",
            {
                "setting": _SETTING[scenario],
                "people": as_data(list(people)),
                "data_rule": fragment("data_rule"),
                "lines": "\n".join(line_of(n, t) for n, t in enumerate(shown, 1)),
                "line": str(len(shown)),
            },
        )
        asking = self.client.structured(
            messages,
            schema(people),
            lambda answer: reading_of(answer, people),
            ask=Ask(node="safety"),
            max_tokens=_TOKENS,
        )
        try:
            return await asyncio.wait_for(asking, self.seconds)
        except (LLMError, TimeoutError):
            # the caller goes on with the rules
            return None


def reading_of(answer: Mapping[str, Any], people: Sequence[str]) -> Reading:
    """Return a model's answer as a reading.

    Raises:
        AnswerFault: naming the field that is missing or wrong.
    """
    says: dict[Kind, Says] = {}
    for kind in KINDS:
        if answer.get(kind) not in _WORDS:
            raise AnswerFault(f"{kind} must be one of {', '.join(_WORDS)}")
        says[kind] = cast(Says, answer[kind])
    for field in ("at_risk", "acts"):
        if answer.get(field) not in (*_ELSE, *people):
            raise AnswerFault(f"{field} must be somebody in the room, {' or '.join(_ELSE)}")
    at_risk, acts = str(answer["at_risk"]), str(answer["acts"])
    who = THIRD_PERSON if at_risk == "somebody_else" else at_risk if at_risk in people else None
    return Reading(says, who, acts if acts in people else None)


def combine(turn: Turn, rules: Sequence[Flag], reading: Reading | None) -> Combined:
    """Join both layers: the union raises, the model alone may clear.

    Args:
        turn: the turn.
        rules: what the rules found in it.
        reading: what the model said, or None without an answer.
    """
    if reading is None:
        return Combined(tuple(rules))
    cleared = tuple(f for f in rules if reading.says[f.kind] == "no" and _may_clear(turn, f))
    standing = [f for f in rules if f not in cleared]
    agreed = frozenset(f.kind for f in standing if reading.says[f.kind] == "yes")
    known = {f.kind for f in rules}
    raised = [
        Flag(
            kind=kind,
            turn_id=turn.id,
            speaker=turn.speaker,
            about=reading.at_risk,
            actor=reading.acts,
            evidence=Evidence(rule=RULE, turn_ids=(turn.id,)),
            source="llm",
        )
        for kind in KINDS
        if reading.says[kind] == "yes" and kind not in known
    ]
    return Combined((*standing, *raised), cleared, agreed)


def _may_clear(turn: Turn, flag: Flag) -> bool:
    if flag.evidence.rule == "denial_after_disclosure" or _ORDERS.search(turn.text):
        return False
    return not cues.urgent(turn.text, flag.kind == "self_harm")

"""The LLM policy: one call reads and decides, a second one finds the words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from agent.conversation import Turn
from agent.decision import Ranked, Ranking, Reply, Timing
from agent.llm import Ask, LLMClient, LLMError
from agent.policies.base import Policy, PolicyError, Task, View
from agent.policies.llm.answer import empty_reading, reading_of
from agent.policies.llm.check import faults_of, shown_faults, tidied
from agent.policies.llm.gate import nothing_to_read
from agent.policies.llm.picture import estimates_text
from agent.policies.llm.prompting import Prepared, Variant, prepare_reading, prepare_reply
from agent.policies.llm.schema import schema_of
from agent.prompts import Message, fragment
from agent.reading import Plan, Reading, TurnReading
from agent.update import update, with_pattern

Fallback = Callable[[View, Reading, str, str], Awaitable[Reply]]
"""Finds other words when the model's cannot be sent: the local policy's ``reply``."""

_REPLY_TOKENS: Final = 400
_TIMING, _TARGET, _STRATEGY = range(3)


class LLMPolicy:
    """Reads and decides with a language model.

    A turn costs one call, and a second one when it speaks; none when only back-channels or the
    helper's own words are new and silence is allowed.

    Args:
        variant: which prompts, and what they may show.
        client: talks to the model.
        local: gives the policy whose probabilities the hybrid shows; called at first use.
        fallback: finds other words when the model's cannot be sent.
    """

    answers: frozenset[Task] = frozenset({"itp", "stp", "ssp", "rpp", "er", "vp"})
    threshold = 0.5

    def __init__(
        self,
        variant: Variant,
        client: LLMClient,
        *,
        local: Callable[[], Policy] | None = None,
        fallback: Fallback | None = None,
    ) -> None:
        if variant.estimates and local is None:
            raise ValueError(f"variant {variant.name!r} needs a local policy")
        self.variant = variant
        self.client = client
        self.name = variant.name
        self._local = local
        self._fallback = fallback
        self._local_policy: Policy | None = None
        self.version = self._version()

    def _version(self) -> str:
        """Return the model, and a hash over prompts, limits and the local policy's version."""
        settings = self.client.settings
        parts = [
            repr(self.variant),
            *self.variant.tags(),
            str(settings.context_tokens),
            str(settings.temperature),
            json.dumps(settings.extra_body, sort_keys=True),
            self._numbers().version if self.variant.estimates else "",
        ]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return f"{self.client.model}/{digest[:12]}"

    async def prepare(self, dialogues: Sequence[Sequence[Turn]]) -> None:
        """Let the local policy of the hybrid encode in bulk."""
        if self.variant.estimates:
            await self._numbers().prepare(dialogues)

    async def read(self, view: View, new: int) -> Reading:
        """Read the last ``new`` turns, and decide, in one call."""
        turns = view.turns[len(view.turns) - new :]
        if view.decide != "always" and nothing_to_read(view.turns, new):
            return Reading(turns=tuple(empty_reading(t) for t in turns))
        local: Reading | None = None
        estimates = ""
        if self.variant.estimates:
            local, estimates = await self._estimates(view, new)
        prepared = prepare_reading(
            self.variant, view, turns, room=self._room(), estimates=estimates
        )
        reading = await self._ask(prepared, turns)
        return _with_moves(reading, local) if local else reading

    async def pattern(self, view: View, reading: Reading) -> dict[str, float]:
        """Return the pattern that the same look gave."""
        return reading.pattern or {}

    async def time(self, view: View, reading: Reading) -> Timing:
        """Return whether to speak, as the same look decided; silent after a skipped look."""
        plan = reading.plan
        if plan is None:
            return Timing(probability=0.0, reasons=("nothing was said that asks for an answer",))
        return Timing(
            probability=plan.probability,
            reasons=_reason(plan, _TIMING),
            evidence=plan.evidence,
        )

    async def target(self, view: View, reading: Reading) -> Ranking:
        """Return the targets the same look ranked."""
        plan = _planned(reading)
        return Ranking(items=plan.targets, reasons=_reason(plan, _TARGET), evidence=plan.evidence)

    async def strategy(self, view: View, reading: Reading, target: str) -> Ranking:
        """Return the strategies the same look ranked for the target.

        A known target who has not appeared yet was no candidate then: it is asked for in a call
        of its own, whose other answers are not used.
        """
        plan = _planned(reading)
        items: tuple[Ranked, ...] | None = plan.strategies.get(target)
        if items is None:
            prepared = prepare_reading(self.variant, view, (), room=self._room(), extra=target)
            plan = _planned(await self._ask(prepared, ()))
            items = plan.strategies[target]
        return Ranking(items=items, reasons=_reason(plan, _STRATEGY), evidence=plan.evidence)

    async def reply(self, view: View, reading: Reading, target: str, strategy: str) -> Reply:
        """Find words, check them, ask once more with the fault named, then fall back.

        Raises:
            PolicyError: when there are no words to send and no fallback.
        """
        plan = reading.plan
        messages = prepare_reply(
            self.variant,
            view,
            target,
            strategy,
            room=self._room(),
            reason="".join(_reason(plan, _STRATEGY)) if plan else "",
            evidence=plan.evidence if plan else (),
        )

        def sayable(so_far: str) -> bool:
            return not shown_faults(so_far, view)

        stream = self.client.settings.llm_stream
        problem: PolicyError | None = None
        for last in (False, True):
            try:
                # a second draft is never streamed: its words would follow the first one's
                text = await self._words(messages, sayable if stream and not last else None)
            except PolicyError as error:
                problem = error
                break
            faults = faults_of(text, view, target)
            if text and not faults:
                return Reply(text=text, source="llm", target=target, strategy=strategy)
            named = "; ".join(faults) or "it is empty"
            problem = PolicyError("parse_error", f"the reply could not be sent: {named}")
            again = fragment("reply_again", {"faults": named})
            messages = [*messages, ("assistant", text or "(nothing)"), ("user", again)]
        if self._fallback is None:
            raise problem or PolicyError("parse_error", "no reply")
        return await self._fallback(view, reading, target, strategy)

    async def _words(self, messages: Sequence[Message], shows: Callable[[str], bool] | None) -> str:
        ask = Ask(node="reply", policy=self.name)
        try:
            text = await self.client.text(
                messages, ask=ask, max_tokens=self._reply_tokens(), shows=shows
            )
        except LLMError as error:
            raise PolicyError(error.status, str(error)) from None
        return tidied(text)

    async def _ask(self, prepared: Prepared, turns: Sequence[Turn]) -> Reading:
        def check(answer: dict[str, object]) -> Reading:
            return reading_of(answer, prepared.question, prepared.lines, turns)

        ask = Ask(node="perceive", policy=self.name)
        try:
            return await self.client.structured(
                prepared.messages, schema_of(prepared.question), check, ask=ask
            )
        except LLMError as error:
            raise PolicyError(error.status, str(error)) from None

    async def _estimates(self, view: View, new: int) -> tuple[Reading, str]:
        """Return the local policy's reading and, as text, its probabilities."""
        local = self._numbers()
        reading = await local.read(view, new)
        after = replace(view, readings=[*view.readings, *reading.turns])
        if view.relations is not None:
            relations = view.relations
            turns = view.turns[len(view.turns) - new :]
            for turn, one in zip(turns, reading.turns, strict=True):
                relations = update(relations, turn, one)
            after = replace(after, relations=relations)
        pattern = await local.pattern(after, reading)
        if after.relations is not None and after.turns:
            known = with_pattern(after.relations, after.turns[-1].id, pattern)
            after = replace(after, relations=known)
        timing = await local.time(after, reading)
        targets = await local.target(after, reading)
        strategies = {c: await local.strategy(after, reading, c) for c in view.candidates}
        text = estimates_text(timing.probability, pattern, targets, strategies)
        return reading, fragment("estimates", {"numbers": text})

    def _numbers(self) -> Policy:
        if self._local_policy is None:
            if self._local is None:
                raise ValueError(f"variant {self.name!r} needs a local policy")
            self._local_policy = self._local()
        return self._local_policy

    def _room(self) -> int:
        return self.client.settings.context_tokens

    def _reply_tokens(self) -> int:
        return min(_REPLY_TOKENS, self.client.settings.max_tokens)


def _planned(reading: Reading) -> Plan:
    if reading.plan is None:
        raise PolicyError("parse_error", "the reading holds no decision")
    return reading.plan


def _reason(plan: Plan, which: int) -> tuple[str, ...]:
    text = plan.reasons[which] if which < len(plan.reasons) else ""
    return (text,) if text else ()


def _with_moves(reading: Reading, local: Reading) -> Reading:
    """Take over what only the local policy reads: the helper's own moves."""
    turns: list[TurnReading] = []
    for one, other in zip(reading.turns, local.turns, strict=True):
        more: dict[str, object] = {"extras": other.extras}
        if not one.utterance_types:
            more["strategies"] = other.strategies
        turns.append(one.model_copy(update=more))
    return reading.model_copy(update={"turns": tuple(turns)})

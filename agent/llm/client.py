"""The client: structured answers over the capability ladder, and free text."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from agent.llm import parse as found
from agent.llm.budget import Budget, UnknownPrice, price_of
from agent.llm.cache import AnswerCache, Kept, cache_key
from agent.llm.chat import Accepts
from agent.llm.errors import FormatRefused, LLMError
from agent.llm.ladder import (
    PROBE_SCHEMA,
    STEPS,
    CapabilityStore,
    Step,
    check_probe,
    request_body,
    steps_for,
)
from agent.llm.ledger import Ledger
from agent.llm.outcome import (
    AnswerFault,
    checked,
    quiet_libraries,
    said,
    status_of,
    usage_of,
)
from agent.llm.record import CallLog, CallRecord, CallStatus, Purpose, current_scope
from agent.llm.transport import Backoff, Sent, Transport, Tries, elapsed_ms
from agent.prompts import Message, fragment, render
from agent.settings import Settings

T = TypeVar("T")
_MORE_ROOM: Final = 2.0


@dataclass(frozen=True)
class Ask:
    """Who asks, for the records.

    Attributes:
        node: graph node or other place.
        policy: the policy's name.
        role: agent or judge.
    """

    node: str
    policy: str = ""
    role: str = "agent"


class LLMClient:
    """Talks to the configured server. One per run, shared by the variants that are compared.

    Args:
        settings: all about the server; see ``Settings``.
        log: receives a record of every call.
        budget: shared limits; from the settings when None.
        backoff: waits between tries.
        model: another model than ``settings.model`` (the judge).

    Raises:
        UnknownPrice: when a money budget is set for a model of unknown price.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        log: CallLog | None = None,
        budget: Budget | None = None,
        backoff: Backoff | None = None,
        model: str | None = None,
    ) -> None:
        self.settings = settings
        self.model = model or settings.model
        self.log = log or CallLog()
        self.budget = budget or Budget(settings.budget_tokens, settings.budget_usd)
        self.price = price_of(settings.price_input, settings.price_output)
        if self.budget.usd is not None and self.price is None:
            raise UnknownPrice(
                f"no price is known for model {self.model!r}: a budget in USD needs "
                "KITH_PRICE_INPUT and KITH_PRICE_OUTPUT"
            )
        folder = settings.cache_path / "llm"
        self.store = CapabilityStore(folder / "servers.json")
        self._cache = AnswerCache(folder / "answers")
        self._transport = Transport(settings, self.store, backoff or Backoff())
        self._probing: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        self._ledger = Ledger(self.budget, self.price)
        quiet_libraries()

    @property
    def base_url(self) -> str:
        """The server."""
        return self._transport.base_url

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def structured(
        self,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        check: Callable[[dict[str, Any]], T],
        *,
        ask: Ask,
        max_tokens: int | None = None,
    ) -> T:
        """Ask for a JSON answer.

        Args:
            messages: the prompt.
            schema: JSON schema of the answer, an object.
            check: turns the object into what is wanted; raises ``AnswerFault`` for a wrong one.
            ask: who asks.
            max_tokens: room for the answer; the setting when None.

        Raises:
            LLMError: when no valid answer came; its status says why.
        """
        room = max_tokens or self.settings.max_tokens
        key = self._key(messages, room, schema=schema, rung=self.settings.rung)
        kept = self._kept(key, ask)
        if kept is not None:
            # an answer that no longer passes (the check has changed) is asked for again
            with suppress(AnswerFault):
                return check(kept.answer)
        refusals: list[FormatRefused] = []
        for step in await self._ladder(ask):
            try:
                answer, value, sent = await self._on_step(step, messages, schema, check, ask, room)
            except FormatRefused as refused:
                refusals.append(refused)
                continue
            if refusals and all(r.certain for r in refusals) and self.settings.rung == "auto":
                self._remember(STEPS.index(step))
            self._keep(key, answer, step.rung, sent)
            return value
        raise LLMError("http", str(refusals[-1]))

    async def text(
        self,
        messages: Sequence[Message],
        *,
        ask: Ask,
        max_tokens: int | None = None,
        shows: Accepts | None = None,
    ) -> str:
        """Ask for words.

        Args:
            messages: the prompt.
            ask: who asks.
            max_tokens: room for the answer; the setting when None.
            shows: whether listeners of the graph may see the text so far while it comes, asked
                sentence by sentence; None shows them nothing.

        Raises:
            LLMError: when no words came.
        """
        room = max_tokens or self.settings.max_tokens
        key = self._key(messages, room)
        kept = self._kept(key, ask)
        if kept is not None:
            return str(kept.answer)
        sent = await self._with_room(messages, {}, ask, "reply", room, shows=shows)
        words = found.answer_text(sent.message)
        if not words:
            raise LLMError("parse_error", "the model sent an empty answer")
        self._keep(key, words, "reply", sent)
        return words

    async def _ladder(self, ask: Ask) -> tuple[Step, ...]:
        """Return the steps to try, best first; probes the server once."""
        if self.settings.rung != "auto":
            return steps_for(self.settings.rung)
        loop = asyncio.get_running_loop()
        async with self._probing.setdefault(loop, asyncio.Lock()):
            known = self.store.get(self.base_url, self.model).step
            if known is None:
                known = await self._probe(ask)
        return STEPS[known:]

    async def _probe(self, ask: Ask) -> int:
        """Find the first step the server takes; free text with a JSON in it is the last."""
        asked = replace(ask, node="probe")
        for index, step in enumerate(STEPS[:-1]):
            prompt = render("probe", {"schema": _shown(step, PROBE_SCHEMA)})
            body = request_body(step, PROBE_SCHEMA)
            try:
                sent = await self._call(
                    prompt, body, asked, step.rung, self.settings.max_tokens, purpose="probe"
                )
            except FormatRefused:
                continue
            if any(check_probe(answer) for answer in found.json_answers(sent.message)):
                return self._remember(index)
        return self._remember(len(STEPS) - 1)

    def _remember(self, step: int) -> int:
        known = self.store.get(self.base_url, self.model)
        self.store.put(self.base_url, self.model, replace(known, step=step))
        return step

    async def _on_step(
        self,
        step: Step,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        check: Callable[[dict[str, Any]], T],
        ask: Ask,
        room: int,
    ) -> tuple[dict[str, Any], T, Sent]:
        prompt = _with_note(messages, _shown(step, schema))
        body = request_body(step, schema)
        sent = await self._with_room(prompt, body, ask, step.rung, room)
        fault = ""
        for again in (False, True):
            if again:
                turn = fragment("repair", {"fault": fault})
                turns: list[Message] = [("assistant", said(sent)), ("user", turn)]
                sent = await self._with_room(
                    [*prompt, *turns], body, ask, step.rung, room, purpose="repair"
                )
            try:
                answer, value = checked(sent, check)
            except AnswerFault as error:
                fault = str(error)
            else:
                return answer, value, sent
        if found.refusal_of(sent.message):
            raise LLMError("refused", "the model declined to answer")
        raise LLMError("parse_error", f"no valid answer after a repair turn: {fault}")

    async def _with_room(
        self,
        messages: Sequence[Message],
        body: Mapping[str, Any],
        ask: Ask,
        rung: str,
        room: int,
        *,
        purpose: Purpose = "first",
        shows: Accepts | None = None,
    ) -> Sent:
        """Call, and call once more with more room when the answer was cut."""
        sent = await self._call(messages, body, ask, rung, room, purpose=purpose, shows=shows)
        if sent.finish_reason == "length":
            room = int(room * _MORE_ROOM)
            sent = await self._call(messages, body, ask, rung, room, purpose="more_room")
        if sent.finish_reason == "length":
            empty = " before any word was said" if found.is_empty(sent.message) else ""
            raise LLMError("parse_error", f"the answer was cut at {room} tokens{empty}")
        return sent

    async def _call(
        self,
        messages: Sequence[Message],
        body: Mapping[str, Any],
        ask: Ask,
        rung: str,
        room: int,
        *,
        purpose: Purpose = "first",
        shows: Accepts | None = None,
    ) -> Sent:
        """Send once (retries inside), check what any answer must pass, and record the call."""
        self.budget.check()
        start, tries = time.perf_counter(), Tries()
        record = CallRecord(
            role=ask.role,
            node=ask.node,
            policy=ask.policy,
            purpose=purpose,
            model=self.model,
            rung=rung,
            status="cancelled",
        )
        try:
            sent = await self._transport.send(
                self.model,
                messages,
                body,
                max_tokens=room,
                seed=self.settings.seed + current_scope().repeat,
                shows=shows,
                tries=tries,
            )
            record = self._ledger.booked(record, messages, sent)
            status: CallStatus = status_of(sent)
            record = replace(record, status=status)
        except LLMError as error:
            record = replace(record, status=error.status)
            raise
        finally:
            self.log.add(replace(record, latency_ms=elapsed_ms(start), retries=tries.retries))
        if status == "content_filter":
            raise LLMError("content_filter", "the server's content filter stopped the answer")
        if status == "refused":
            raise LLMError("refused", "the model declined to answer")
        return sent

    def _key(self, messages: Sequence[Message], room: int, **more: Any) -> str:
        settings = self.settings
        return cache_key(
            {
                "base_url": self.base_url,
                "model": self.model,
                "messages": [list(m) for m in messages],
                "temperature": settings.temperature,
                "max_tokens": room,
                "seed": settings.seed,
                "extra_body": settings.extra_body,
                "repeat": current_scope().repeat,
                **more,
            }
        )

    def _kept(self, key: str, ask: Ask) -> Kept | None:
        if not (self.settings.llm_cache and current_scope().cache):
            return None
        start = time.perf_counter()
        kept = self._cache.get(key)
        if kept is None:
            return None
        self.log.add(
            CallRecord(
                role=ask.role,
                node=ask.node,
                policy=ask.policy,
                purpose="first",
                model=self.model,
                rung=kept.rung,
                status="ok",
                tokens_in=kept.tokens_in,
                tokens_out=kept.tokens_out,
                tokens_reasoning=kept.tokens_reasoning,
                latency_ms=elapsed_ms(start),
                cache_hit=True,
            )
        )
        return kept

    def _keep(self, key: str, answer: Any, rung: str, sent: Sent) -> None:
        if self.settings.llm_cache and current_scope().cache:
            self._cache.put(key, Kept(answer, rung, *usage_of(sent)))


def _shown(step: Step, schema: Mapping[str, Any]) -> str:
    """Return the note on the answer's form; every rung's holds the word JSON."""
    if not step.shows_schema:
        return fragment("answer_form")
    return fragment("answer_schema", {"schema": json.dumps(schema, ensure_ascii=False)})


def _with_note(messages: Sequence[Message], note: str) -> list[Message]:
    *before, (role, text) = messages
    return [*before, (role, f"{text}\n\n{note}")]

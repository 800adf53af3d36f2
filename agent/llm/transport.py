"""One request to a model server: limits, retries of what passes, parameters it refuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import httpx
from langchain_core.messages import AIMessage
from pydantic import SecretStr

from agent.llm.chat import SHOWS, Accepts, CompatibleChat, Showing
from agent.llm.errors import Fault, FormatRefused, LLMError, classify
from agent.llm.ladder import CapabilityStore
from agent.llm.limits import slot
from agent.llm.parse import whole_characters
from agent.prompts import Message
from agent.settings import Settings

OPENAI_URL: Final = "https://api.openai.com/v1"
NO_STREAM: Final = "nostream"
"""LangGraph's tag: tokens of a call that carries it never reach a message stream."""
_NO_KEY: Final = "none"
_OPTIONAL: Final = frozenset(
    {"temperature", "seed", "max_tokens", "max_completion_tokens", "stream_options", "tool_choice"}
)


@dataclass(frozen=True)
class Backoff:
    """Waits between tries, in seconds: ``base * 2**n`` up to ``longest``."""

    base: float = 0.5
    longest: float = 60.0

    def wait(self, retry: int, asked: float | None) -> float | None:
        """Return the wait before retry number ``retry`` (0-based).

        Args:
            retry: how many retries were made.
            asked: what the server asked for (Retry-After), which is honoured.

        Returns:
            None when the server asks for more than ``longest``: waiting is no use then.
        """
        if asked is not None and asked > self.longest:
            return None
        return max(asked or 0.0, min(self.longest, self.base * 2.0**retry))


@dataclass(frozen=True)
class Sent:
    """A request's outcome.

    Attributes:
        message: the answer.
        finish_reason: as the server says.
        retries: tries after the first.
    """

    message: AIMessage
    finish_reason: str
    retries: int


class Tries:
    """Counts the tries of one request, also when it fails."""

    def __init__(self) -> None:
        self.retries = 0


class Transport:
    """Sends chat requests to one server for one model.

    Args:
        settings: where, with what key, how long and how many at a time.
        store: remembers the parameters that the server refuses.
        backoff: waits between tries.
    """

    def __init__(self, settings: Settings, store: CapabilityStore, backoff: Backoff) -> None:
        self._settings = settings
        self._store = store
        self._backoff = backoff
        self.base_url = settings.openai_base_url or OPENAI_URL
        self._chats: WeakKeyDictionary[
            asyncio.AbstractEventLoop,
            tuple[httpx.AsyncClient, dict[tuple[bool, bool], CompatibleChat]],
        ] = WeakKeyDictionary()

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        held = self._chats.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held[0].aclose()

    async def send(
        self,
        model: str,
        messages: Sequence[Message],
        body: Mapping[str, Any],
        *,
        max_tokens: int,
        seed: int,
        shows: Accepts | None,
        tries: Tries,
    ) -> Sent:
        """Send one request and return its answer.

        Args:
            model: name of the model.
            messages: the prompt.
            body: what the step of the ladder adds.
            max_tokens: room for the answer.
            seed: sent along.
            shows: whether listeners of the graph may see the text so far; None: never.
            tries: counts the retries.

        Raises:
            LLMError: when it failed for good.
            FormatRefused: when the server refuses how the answer was asked for.
        """
        while True:
            dropped = self._store.get(self.base_url, model).dropped
            wanted = self._parameters(max_tokens, seed)
            sent = {k: v for k, v in wanted.items() if k not in dropped}
            extra = {**sent, **body, **self._settings.extra_body}
            try:
                message = await self._once(model, messages, extra, dropped, shows)
            except Exception as error:
                fault = classify(error, _OPTIONAL - dropped)
                if fault is None:
                    raise
                # outside the handler: the chained exception would quote the prompt
            else:
                reason = str(message.response_metadata.get("finish_reason") or "")
                return Sent(message, reason, tries.retries)
            if fault.parameter in ({*sent, "stream_options"} - set(body)):
                self._drop(model, str(fault.parameter))
                continue
            await self._pause_or_fail(fault, body, tries)
            if fault.code is None:
                # some of it may have been shown already: a second start must not be
                shows = None

    async def _pause_or_fail(self, fault: Fault, body: Mapping[str, Any], tries: Tries) -> None:
        # a server that breaks on a format tends to answer 500 for ever: one more try is enough
        most = self._settings.max_retries
        if body and fault.code is not None and fault.code in (500, 501):
            most = min(most, 1)
        wait = self._backoff.wait(tries.retries, fault.retry_after)
        if fault.transient and tries.retries < most and wait is not None:
            tries.retries += 1
            await asyncio.sleep(wait)
            return
        refusable = body and fault.code in (400, 404, 415, 422, 500, 501)
        if refusable and fault.status == "http" and (fault.code != 404 or fault.about_format):
            certain = fault.about_format or fault.code in (400, 415, 422, 501)
            raise FormatRefused(fault.summary, certain=certain)
        raise LLMError(fault.status, fault.summary)

    def _drop(self, model: str, parameter: str) -> None:
        known = self._store.get(self.base_url, model)
        changed = type(known)(known.step, known.dropped | {parameter})
        self._store.put(self.base_url, model, changed)

    def _parameters(self, max_tokens: int, seed: int) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "temperature": self._settings.temperature,
            "seed": seed,
            "max_completion_tokens": max_tokens,
        }
        if self.base_url != OPENAI_URL:
            # older compatible servers know only the older name
            wanted["max_tokens"] = max_tokens
        return wanted

    async def _once(
        self,
        model: str,
        messages: Sequence[Message],
        extra: Mapping[str, Any],
        dropped: frozenset[str],
        shows: Accepts | None,
    ) -> AIMessage:
        showing = Showing(shows) if shows is not None else None
        token = SHOWS.set(showing)
        try:
            stream = showing is not None
            answer = await self._invoke(model, messages, extra, dropped, stream)
        finally:
            SHOWS.reset(token)
        if showing is not None and showing.whole is not None:
            return answer.model_copy(update={"content": showing.whole})
        return answer

    async def _invoke(
        self,
        model: str,
        messages: Sequence[Message],
        extra: Mapping[str, Any],
        dropped: frozenset[str],
        stream: bool,
    ) -> AIMessage:
        overall = self._settings.concurrency
        here = self._settings.endpoint_concurrency or overall
        chat = self._chat(stream, "stream_options" not in dropped)
        async with slot(self.base_url, overall=overall, per_endpoint=here):
            # begins here, so that waiting for a free place is not taken for a slow server
            async with asyncio.timeout(self._settings.timeout):
                answer = await chat.ainvoke(
                    [(role, whole_characters(text)) for role, text in messages],
                    config={"tags": [] if stream else [NO_STREAM]},
                    model=model,
                    extra_body=dict(extra),
                )
        return answer

    def _chat(self, stream: bool, usage: bool) -> CompatibleChat:
        loop = asyncio.get_running_loop()
        if loop not in self._chats:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            client = httpx.AsyncClient(limits=limits, timeout=self._settings.timeout)
            self._chats[loop] = (client, {})
        client, chats = self._chats[loop]
        if (stream, usage) not in chats:
            chats[stream, usage] = CompatibleChat(
                model=self._settings.model,
                base_url=self.base_url,
                api_key=self._settings.openai_api_key or SecretStr(_NO_KEY),
                http_async_client=client,
                timeout=self._settings.timeout,
                max_retries=0,
                disable_streaming=not stream,
                stream_usage=usage,
                use_responses_api=False,
            )
        return chats[stream, usage]


def elapsed_ms(start: float) -> float:
    """Return milliseconds since a ``perf_counter`` value."""
    return (time.perf_counter() - start) * 1000

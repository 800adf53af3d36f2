"""ChatOpenAI, with what compatible servers add: reasoning fields, and thoughts in the stream."""

from __future__ import annotations

import re
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final
from uuid import uuid4

import openai
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI

from agent.llm.errors import UnreadableAnswer

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"
_SENTENCE_END: Final = re.compile(r"[.!?…]+[\"'”’)]*\s+|[。！？]|\n")

Accepts = Callable[[str], bool]
"""Whether a text may be shown."""


class Showing:
    """A streamed call whose words must pass a check before anybody sees them.

    Args:
        accepts: whether the text so far may be shown.

    Attributes:
        whole: the whole text, also what was not shown; None when nothing was streamed.
    """

    def __init__(self, accepts: Accepts) -> None:
        self.accepts = accepts
        self.whole: str | None = None

    def add(self, text: str) -> None:
        """Add to the whole text."""
        self.whole = (self.whole or "") + text


SHOWS: Final[ContextVar[Showing | None]] = ContextVar("kith_llm_shows", default=None)
"""Set around a streamed call."""


# advice about a method that the ladder chooses by itself
for _advice in ("Invalid schema for OpenAI", "This model does not support OpenAI"):
    warnings.filterwarnings("ignore", message=_advice, category=UserWarning)


class ThoughtFilter:
    """Takes ``<think>...</think>`` out of text that arrives in pieces."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._started = False

    def feed(self, piece: str) -> str:
        """Return what may be shown of the text so far and was not returned before."""
        self._held += piece
        shown = ""
        while True:
            tag = _CLOSE if self._inside else _OPEN
            place = self._held.lower().find(tag)
            if place < 0:
                break
            if not self._inside:
                shown += self._held[:place]
            self._held = self._held[place + len(tag) :]
            self._inside = not self._inside
        keep = _tail(self._held, tag)
        if not self._inside:
            shown += self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return self._trimmed(shown)

    def rest(self) -> str:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return "" if self._inside else self._trimmed(held)

    def _trimmed(self, shown: str) -> str:
        if not self._started:
            shown = shown.lstrip()
            self._started = bool(shown)
        return shown


class SentenceGate:
    """Lets streamed text out sentence by sentence, as long as it may be shown.

    Args:
        accepts: whether a text may be shown, asked with all sentences up to now.
    """

    def __init__(self, accepts: Accepts) -> None:
        self._accepts = accepts
        self._shown = ""
        self._held = ""
        self._open = True

    def feed(self, piece: str) -> str:
        """Return the sentences that are complete and may be shown."""
        self._held += piece
        ends = list(_SENTENCE_END.finditer(self._held))
        return self._let(ends[-1].end()) if ends else ""

    def rest(self) -> str:
        """Return what is left at the end of the text, if it may be shown."""
        return self._let(len(self._held))

    def _let(self, end: int) -> str:
        part, self._held = self._held[:end], self._held[end:]
        self._open = self._open and self._accepts(self._shown + part)
        if not self._open:
            return ""
        self._shown += part
        return part


def _tail(text: str, tag: str) -> int:
    """Return the length of the longest end of ``text`` that may begin ``tag``."""
    lowered = text.lower()
    for n in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(lowered[-n:]):
            return n
    return 0


class CompatibleChat(ChatOpenAI):
    """ChatOpenAI for any compatible server.

    Answers keep ``reasoning_content``; a streamed answer loses its think tags before any listener
    sees a token, and listeners see only sentences that pass ``SHOWS``.
    """

    def _use_responses_api(self, payload: dict[str, Any]) -> bool:
        # only /chat/completions is spoken by every compatible server
        return False

    def _create_chat_result(
        self,
        response: dict[str, Any] | openai.BaseModel,
        generation_info: dict[str, Any] | None = None,
    ) -> ChatResult:
        try:
            result = super()._create_chat_result(response, generation_info)
        except (ValueError, KeyError, TypeError) as error:
            # from None: the library's message quotes the answer
            raise UnreadableAnswer(type(error).__name__) from None
        raw = response if isinstance(response, dict) else response.model_dump(warnings=False)
        for generation, choice in zip(result.generations, raw["choices"], strict=True):
            message = generation.message
            if isinstance(message, AIMessage):
                _keep_reasoning(message, choice.get("message") or {})
        return result

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        # whatever is yielded here reaches listeners: the whole text goes another way
        showing = SHOWS.get(None) or Showing(lambda text: True)
        thoughts, gate = ThoughtFilter(), SentenceGate(showing.accepts)
        # one id for all pieces: a listener that met it is not handed the whole text at the end
        identity = f"run-{uuid4()}"
        async for chunk in super()._astream(messages, *args, **kwargs):
            text = thoughts.feed(chunk.text)
            showing.add(text)
            yield _with_text(chunk, gate.feed(text), identity)
        rest = thoughts.rest()
        showing.add(rest)
        last = AIMessageChunk(content=gate.feed(rest) + gate.rest(), id=identity)
        yield ChatGenerationChunk(message=last)


def _with_text(chunk: ChatGenerationChunk, text: str, identity: str) -> ChatGenerationChunk:
    message = chunk.message.model_copy(update={"content": text, "id": identity})
    return ChatGenerationChunk(message=message, generation_info=chunk.generation_info)


def _keep_reasoning(message: AIMessage, raw: Mapping[str, Any]) -> None:
    for name in _REASONING_FIELDS:
        if isinstance(raw.get(name), str) and raw[name]:
            message.additional_kwargs["reasoning_content"] = raw[name]
            return

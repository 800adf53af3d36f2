"""ChatOpenAI, with what compatible servers add: reasoning fields, and thoughts in the stream."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import openai
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI

from agent.llm.errors import UnreadableAnswer

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


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
    sees a token.
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
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        thoughts = ThoughtFilter()
        # listeners are told here and not by the base class, which would show them the thoughts
        async for chunk in super()._astream(messages, stop, None, **kwargs):
            message = chunk.message
            info = chunk.generation_info or {}
            if isinstance(message.content, str):
                text = thoughts.feed(message.content)
                if info.get("finish_reason"):
                    text += thoughts.rest()
                chunk = ChatGenerationChunk(
                    message=message.model_copy(update={"content": text}), generation_info=info
                )
            if run_manager and chunk.text:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
        if rest := thoughts.rest():
            last = ChatGenerationChunk(message=AIMessageChunk(content=rest))
            if run_manager:
                await run_manager.on_llm_new_token(rest, chunk=last)
            yield last


def _keep_reasoning(message: AIMessage, raw: Mapping[str, Any]) -> None:
    for name in _REASONING_FIELDS:
        if isinstance(raw.get(name), str) and raw[name]:
            message.additional_kwargs["reasoning_content"] = raw[name]
            return

"""Finds the answer in what a server sent: text without thoughts, and JSON objects in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from langchain_core.messages import AIMessage

_THOUGHT: Final = re.compile(r"<(think|thinking|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN: Final = re.compile(r"<(?:think|thinking|thought)>", re.IGNORECASE)
_CLOSE: Final = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)
_FENCE: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)```", re.DOTALL)
_REFUSING: Final = re.compile(
    r"^\W*(i['’]?m (very |really )?sorry|sorry|i apologi[sz]e|i can(not|['’]t)"
    r"|i['’]?m (not able|unable)|as an ai\b)",
    re.IGNORECASE,
)


def whole_characters(text: str) -> str:
    """Replace halves of a character (lone surrogates), which cannot be sent or stored."""
    return text.encode("utf-8", "replace").decode("utf-8")


def content_text(content: object) -> str:
    """Join a message's content: a string, or a list of strings and text parts."""
    if isinstance(content, str):
        return whole_characters(content)
    if not isinstance(content, list):
        return ""
    parts: list[str] = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, dict) and part.get("type") in (None, "text", "output_text"):
            parts.append(str(part.get("text") or ""))
    return whole_characters("".join(parts))


def without_thoughts(text: str) -> str:
    """Remove think tags with what is in them, also when only the closing tag was sent."""
    text = _THOUGHT.sub("", text)
    if closing := list(_CLOSE.finditer(text)):
        text = text[closing[-1].end() :]
    if opening := _OPEN.search(text):
        text = text[: opening.start()]
    return text.strip()


def answer_text(message: AIMessage) -> str:
    """Return the words of an answer without thoughts."""
    return without_thoughts(content_text(message.content))


def refusal_of(message: AIMessage) -> bool:
    """Whether the server or the model declined: by the refusal field, or in so many words."""
    if message.additional_kwargs.get("refusal"):
        return True
    text = answer_text(message)
    return "{" not in text and bool(_REFUSING.match(text))


def is_empty(message: AIMessage) -> bool:
    """Whether there is nothing in the answer that could be read."""
    return not any(True for _ in _sources(message))


def json_answers(message: AIMessage) -> list[dict[str, Any]]:
    """Return the JSON objects of an answer, from its best source.

    The content comes before the arguments of a tool call, and those before the reasoning, where
    some servers put the whole answer. Equal objects are returned once.
    """
    for source in _sources(message):
        found = [source] if isinstance(source, dict) else _objects(source)
        if found:
            # an escape in JSON may be half a character
            return [json.loads(whole_characters(json.dumps(o, ensure_ascii=False))) for o in found]
    return []


def _sources(message: AIMessage) -> Iterator[str | dict[str, Any]]:
    text = answer_text(message)
    if text:
        yield text
    for call in message.tool_calls:
        yield dict(call["args"])
    for broken in message.invalid_tool_calls:
        if broken.get("args"):
            yield str(broken["args"])
    raw = content_text(message.content).strip()
    if raw and not text:
        yield raw
    reasoning = content_text(message.additional_kwargs.get("reasoning_content"))
    if reasoning.strip():
        yield reasoning


def _objects(text: str) -> list[dict[str, Any]]:
    whole = _load(text)
    if whole is not None:
        return [whole]
    fenced = [o for o in (_load(m) for m in _FENCE.findall(text)) if o is not None]
    if len(fenced) == 1:
        return fenced
    return _distinct(_scan(text))


def _load(text: str) -> dict[str, Any] | None:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _scan(text: str) -> Iterator[dict[str, Any]]:
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            loaded, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        if isinstance(loaded, dict):
            yield loaded
        at = text.find("{", end)


def _distinct(objects: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for item in objects:
        if item not in kept:
            kept.append(item)
    return kept

"""Failures of model calls, and what an HTTP client's exception means for us.

No message holds conversation text, a prompt or a key: servers like to quote all three in theirs,
so only status codes and short machine codes are kept.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
import openai
from langchain_core.exceptions import ContextOverflowError

from agent.decision import DecisionStatus

_CODE: Final = re.compile(r"^[A-Za-z0-9_.\-]{1,48}$")
_OVERFLOW: Final = re.compile(
    r"context.?(length|window|size)|maximum context|too many tokens|prompt is too long"
    r"|exceed\w*.{0,20}context",
    re.IGNORECASE,
)
_FILTER: Final = re.compile(r"content.?(filter|management policy)|data_inspection", re.IGNORECASE)
_QUOTA: Final = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)
_UNSUPPORTED: Final = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|not permitted|extra|invalid"
    r"|not allowed|does not exist",
    re.IGNORECASE,
)
TRANSIENT_CODES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class LLMError(RuntimeError):
    """A model call that gave no usable answer.

    Attributes:
        status: as in a decision record.
    """

    def __init__(self, status: DecisionStatus, message: str) -> None:
        super().__init__(message)
        self.status: DecisionStatus = status


class UnreadableAnswer(RuntimeError):
    """A server's answer is no chat completion. Holds no part of it."""


class FormatRefused(LLMError):
    """The server does not take the way the structured answer was asked for.

    Attributes:
        certain: whether the server named the format as the cause.
    """

    def __init__(self, message: str, *, certain: bool) -> None:
        super().__init__("http", message)
        self.certain = certain


@dataclass(frozen=True)
class Fault:
    """What a failed request means.

    Attributes:
        status: as in a decision record.
        code: HTTP status, or None when there was no answer.
        transient: whether asking again may help.
        retry_after: seconds the server asked us to wait, or None.
        parameter: a request parameter that the server does not take, or None.
        about_format: whether the server named the answer's format as the cause.
        summary: for messages: codes only.
    """

    status: DecisionStatus
    code: int | None
    transient: bool
    summary: str
    retry_after: float | None = None
    parameter: str | None = None
    about_format: bool = False


_FORMAT: Final = re.compile(
    r"response_format|json_schema|json_object|tool|function|grammar|schema|structured|peg|json",
    re.IGNORECASE,
)


def classify(error: Exception, parameters: frozenset[str]) -> Fault | None:
    """Say what an exception of a request means.

    Args:
        error: what the client library raised.
        parameters: names of the optional parameters that were sent and could be dropped.

    Returns:
        The fault, or None when the exception is not a failed request (a mistake of ours).
    """
    if isinstance(error, (TimeoutError, openai.APITimeoutError, httpx.TimeoutException)):
        return Fault("timeout", None, True, "the model server did not answer in time")
    if isinstance(error, ContextOverflowError):
        return _overflow(getattr(error, "status_code", None))
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, parameters)
    if isinstance(error, (openai.APIConnectionError, httpx.TransportError)):
        return Fault("http", None, True, "the model server could not be reached")
    if isinstance(error, openai.APIError):
        # an error inside a stream or an answer of status 200
        return Fault("http", None, True, f"the model server broke off{_codes(error.body)}")
    if isinstance(error, (UnreadableAnswer, json.JSONDecodeError)):
        return Fault("http", None, False, "the model server's answer has an unknown layout")
    return None


def _of_status(error: openai.APIStatusError, parameters: frozenset[str]) -> Fault:
    code, text = error.status_code, _text_of(error)
    summary = f"HTTP {code} from the model server{_codes(error.body)}"
    if code in (400, 403, 413, 422, 500) and _FILTER.search(text):
        return Fault("content_filter", code, False, f"content filter: {summary}")
    if code in (400, 413, 422, 500) and _OVERFLOW.search(text):
        return _overflow(code)
    if code == 429 and _QUOTA.search(text):
        return Fault("http", code, False, f"quota used up: {summary}")
    named = _parameter(error, text, parameters) if code in (400, 422) else None
    return Fault(
        "timeout" if code in (408, 504) else "http",
        code,
        code in TRANSIENT_CODES,
        summary,
        retry_after=_retry_after(error.response.headers),
        parameter=named,
        about_format=named is None and bool(_FORMAT.search(text)),
    )


def _overflow(code: int | None) -> Fault:
    return Fault("context_overflow", code, False, "the prompt is longer than the model's context")


def _text_of(error: openai.APIStatusError) -> str:
    return f"{error.message} {error.body!r}"


def _codes(body: object) -> str:
    """Return the machine-readable codes of an error body, never its sentences."""
    if not isinstance(body, Mapping):
        return ""
    found = [str(body[k]) for k in ("type", "code", "param") if body.get(k)]
    kept = [c for c in found if _CODE.match(c)]
    return f" ({', '.join(kept)})" if kept else ""


def _parameter(error: openai.APIStatusError, text: str, parameters: frozenset[str]) -> str | None:
    body: Any = error.body
    named = body.get("param") if isinstance(body, Mapping) else None
    if named in parameters:
        return str(named)
    if not _UNSUPPORTED.search(text):
        return None
    # a server that refuses one parameter often recommends another: the first named is refused
    places = {p: m.start() for p in parameters if (m := re.search(rf"\b{p}\b", text))}
    return min(places, key=lambda p: places[p]) if places else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after-ms")
    if value and value.replace(".", "", 1).isdecimal():
        return float(value) / 1000
    value = headers.get("retry-after")
    if not value:
        return None
    if value.replace(".", "", 1).isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None

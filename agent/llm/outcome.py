"""What came back from a server: is it usable, what did it cost, what is the one valid answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from agent.llm import parse as found
from agent.llm.record import CallStatus
from agent.llm.transport import Sent

T = TypeVar("T")


class AnswerFault(ValueError):
    """An answer has the wrong shape. The message names the field and what is wrong with it.

    It goes back to the model in a repair turn, and into an error's message: it must not quote the
    answer.
    """


class NoBodies(logging.Filter):
    """Drops the client libraries' small talk, which holds whole prompts, headers and urls."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep warnings and errors."""
        return record.levelno > logging.INFO


_TALKATIVE: Final = (
    "openai._base_client",
    "openai._legacy_response",
    "openai._response",
    "httpx",
    # a filter holds for one logger alone, and not for those below it
    *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)


def quiet_libraries() -> None:
    """Keep prompts, headers and urls (that may hold a token) out of the libraries' lines, once."""
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        if not any(isinstance(f, NoBodies) for f in logger.filters):
            logger.addFilter(NoBodies())


def said(sent: Sent) -> str:
    """Return an answer's text, for the model to see in a repair turn."""
    text = found.answer_text(sent.message)
    if not text and sent.message.tool_calls:
        text = json.dumps(sent.message.tool_calls[0]["args"], ensure_ascii=False)
    return found.whole_characters(text) or "(nothing)"


def checked(sent: Sent, check: Callable[[dict[str, Any]], T]) -> tuple[dict[str, Any], T]:
    """Return the one object of the answer that passes the check."""
    answers = found.json_answers(sent.message)
    if not answers:
        raise AnswerFault("there was no JSON object in the answer")
    passed: list[tuple[dict[str, Any], T]] = []
    faults: list[str] = []
    for answer in answers:
        try:
            passed.append((answer, check(answer)))
        except AnswerFault as error:
            faults.append(str(error))
    if len(passed) > 1:
        raise AnswerFault("there was more than one JSON object in the answer")
    if not passed:
        raise AnswerFault(faults[-1])
    return passed[0]


def status_of(sent: Sent) -> CallStatus:
    """Return what the server says about an answer, before it is read."""
    if sent.finish_reason == "content_filter":
        return "content_filter"
    if sent.message.additional_kwargs.get("refusal"):
        return "refused"
    return "ok"


def usage_of(sent: Sent) -> tuple[int | None, int | None, int | None]:
    """Return prompt, answer and reasoning tokens; None where the server did not say."""
    usage = sent.message.usage_metadata
    if usage is None:
        return None, None, None
    reasoning = (usage.get("output_token_details") or {}).get("reasoning")
    if not usage.get("input_tokens") and not usage.get("output_tokens"):
        return None, None, reasoning
    return usage["input_tokens"], usage["output_tokens"], reasoning

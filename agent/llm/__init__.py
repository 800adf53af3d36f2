"""The only place that talks to model servers (any that speak OpenAI's chat completions)."""

from agent.llm.budget import Budget, Price, UnknownPrice
from agent.llm.client import Ask, LLMClient
from agent.llm.errors import LLMError
from agent.llm.outcome import AnswerFault
from agent.llm.record import CallLog, CallRecord, CallTotals, JsonlCalls, Scope, scope
from agent.llm.transport import Backoff

__all__ = [
    "AnswerFault",
    "Ask",
    "Backoff",
    "Budget",
    "CallLog",
    "CallRecord",
    "CallTotals",
    "JsonlCalls",
    "LLMClient",
    "LLMError",
    "Price",
    "Scope",
    "UnknownPrice",
    "scope",
]

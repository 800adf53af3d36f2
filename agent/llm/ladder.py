"""The capability ladder: the ways to ask for a structured answer, and which one a server takes."""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from agent.llm.cache import write_private

Rung = Literal["json_schema", "function_calling", "json_object", "text"]
TOOL_NAME: Final = "answer"
_LIMITS: Final = frozenset(
    {"maxLength", "minLength", "maxItems", "minItems", "minimum", "maximum", "pattern"}
)
KEPT_DAYS: Final = 30
"""Days after which a server is probed again."""


@dataclass(frozen=True)
class Step:
    """One step of the ladder.

    Attributes:
        rung: the way of asking.
        lean: without length and number limits in the schema, which some servers refuse.
        forced: for function calling, whether the call is demanded (reasoning models refuse that).
    """

    rung: Rung
    lean: bool = False
    forced: bool = True

    @property
    def shows_schema(self) -> bool:
        """Whether the schema has to stand in the prompt."""
        return self.rung in ("json_object", "text")


STEPS: Final = (
    Step("json_schema"),
    Step("json_schema", lean=True),
    Step("function_calling"),
    Step("function_calling", lean=True, forced=False),
    Step("json_object"),
    Step("text"),
)


def steps_for(rung: str) -> tuple[Step, ...]:
    """Return the steps to try: all for ``auto``, else those of the one rung."""
    return tuple(s for s in STEPS if rung in ("auto", s.rung))


def request_body(step: Step, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the step adds to a request's body."""
    shape = lean_schema(schema) if step.lean else dict(schema)
    if step.rung == "json_schema":
        named = {"name": TOOL_NAME, "schema": shape, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if step.rung == "function_calling":
        function = {
            "name": TOOL_NAME,
            "description": "Give the answer as JSON.",
            "parameters": shape,
        }
        demanded = {"type": "function", "function": {"name": TOOL_NAME}}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": demanded if step.forced else "auto",
        }
    if step.rung == "json_object":
        return {"response_format": {"type": "json_object"}}
    return {}


def lean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without limits on lengths and numbers."""
    lean: dict[str, Any] = copy.deepcopy(dict(schema))
    _strip(lean)
    return lean


def _strip(node: Any) -> None:
    if isinstance(node, list):
        for item in node:
            _strip(item)
    elif isinstance(node, dict):
        named = node.get("type")
        for key in list(node):
            # a property may carry the name of a limit; only schemas have a type beside it
            if key in _LIMITS and isinstance(named, str):
                del node[key]
            else:
                _strip(node[key])


@dataclass(frozen=True)
class Capability:
    """What a server takes for a model.

    Attributes:
        step: index into ``STEPS``; None before it was probed.
        dropped: request parameters that it refuses.
    """

    step: int | None = None
    dropped: frozenset[str] = frozenset()


@dataclass
class CapabilityStore:
    """Remembers capabilities, in memory and in one file.

    Attributes:
        path: the file, None for memory only.
    """

    path: Path | None = None
    _known: dict[str, Capability] = field(default_factory=dict)

    def get(self, base_url: str, model: str) -> Capability:
        """Return what is known, an empty capability when nothing is."""
        key = _key(base_url, model)
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def put(self, base_url: str, model: str, capability: Capability) -> None:
        """Remember a capability."""
        key = _key(base_url, model)
        self._known[key] = capability
        if self.path is None:
            return
        entry = {
            "model": model,
            "step": capability.step,
            "rung": None if capability.step is None else STEPS[capability.step].rung,
            "dropped": sorted(capability.dropped),
            "probed": dt.datetime.now(dt.UTC).date().isoformat(),
        }
        write_private(self.path, json.dumps({**self._file(), key: entry}, indent=1))

    def _file(self) -> dict[str, Any]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            loaded = json.loads(self.path.read_text(encoding="utf-8"))
        except ValueError:
            # only a memory of probes: what cannot be read is probed again
            return {}
        return loaded if isinstance(loaded, dict) else {}

    def _read(self, key: str) -> Capability:
        entry: Any = self._file().get(key)
        try:
            age = dt.datetime.now(dt.UTC).date() - dt.date.fromisoformat(entry["probed"])
            step = entry["step"]
            if age.days > KEPT_DAYS or (step is not None and not 0 <= step < len(STEPS)):
                return Capability()
            return Capability(step=step, dropped=frozenset(entry["dropped"]))
        except (TypeError, KeyError, ValueError):
            return Capability()


def _key(base_url: str, model: str) -> str:
    # hashed, because a base url may hold a user name or a token
    return hashlib.sha256(f"{base_url}\n{model}".encode()).hexdigest()[:24]


PROBE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 40},
        "colour": {"type": "string", "enum": ["kith-amber", "kith-slate"]},
        "number": {"type": "integer", "minimum": 0, "maximum": 10},
    },
    "required": ["reason", "colour", "number"],
    "additionalProperties": False,
}
"""Of a question that only a server which honours schemas can answer: the colours are made up."""


def check_probe(answer: Mapping[str, Any]) -> bool:
    """Whether an answer to the probe has the asked shape."""
    colours = PROBE_SCHEMA["properties"]["colour"]["enum"]
    return answer.get("colour") in colours and isinstance(answer.get("number"), int)

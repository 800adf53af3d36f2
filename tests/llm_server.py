"""An OpenAI-compatible server on loopback that answers as it is told, and keeps every request.

Speaks as much HTTP/1.1 as the client library needs. No model: a *kind* says which ways of asking
it takes, and answers are made up to fit the schema, or come from a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    """What is sent back. ``status`` 0 closes the connection without an answer."""

    content: Any = None
    status: int = 200
    finish: str = "stop"
    reasoning: str | None = None
    tool: str | None = None
    refusal: str | None = None
    usage: dict[str, Any] | None = field(default_factory=lambda: {"auto": 1})
    headers: dict[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    raw: str | None = None
    delay: float = 0.0


def fail(status: int, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    named = {k.replace("_", "-"): v for k, v in headers.items()}
    return Answer(
        status=status, error={"message": message, "type": "x", "code": code}, headers=named
    )


Responder = Callable[[dict[str, Any]], Answer]


@dataclass
class Kind:
    """Which ways of asking for structure the server takes: True, False, or "ignored"."""

    json_schema: bool | str = True
    limits: bool = True
    tools: bool = True
    forced: bool = True
    json_object: bool | str = True
    strict_word: bool = False


PROSE = "Well, there is a lot to say about that."


class LLMServer:
    """``async with LLMServer() as server``: then ``server.url`` is a base url."""

    def __init__(self, kind: Kind | None = None, delay: float = 0.0) -> None:
        self.kind = kind or Kind()
        self.delay = delay
        self.queue: deque[Answer | Responder] = deque()
        """Answers to the coming requests other than probes; afterwards the kind decides."""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.fill: Callable[[dict[str, Any], dict[str, Any]], Any] = lambda s, request: fill(s)
        self.words = "Ana, that sounds heavy. What would help you right now?"
        self.in_flight = 0
        self.most_in_flight = 0
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> LLMServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests that are no probes."""
        return [r for r in self.requests if not is_probe(r)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # a cancelled connection is the server's own end, not worth a word
        quiet = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with contextlib.suppress(*quiet):
            while await self._one(reader, writer):
                pass
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(
            (k.lower(), v) for k, v in (x.split(": ", 1) for x in head.split("\r\n")[1:] if x)
        )
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = json.loads(body)
        self.requests.append(request)
        self.headers.append(headers)
        self.in_flight += 1
        self.arrived.set()
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            answer = self._answer(request)
            wait = answer.delay or self.delay
            if wait:
                await self._sleep(reader, wait)
        finally:
            self.in_flight -= 1
        if answer.status == 0:
            return False
        if request.get("stream") and answer.status == 200:
            await self._stream(writer, answer, request)
            return False
        await self._send(writer, answer, request)
        return True

    async def _sleep(self, reader: asyncio.StreamReader, seconds: float) -> None:
        # a client that goes away in the meantime is noticed
        try:
            await asyncio.wait_for(reader.read(1), seconds)
        except TimeoutError:
            return
        self.left.set()
        raise ConnectionError

    def _answer(self, request: dict[str, Any]) -> Answer:
        if self.queue and not is_probe(request):
            item = self.queue.popleft()
            return item if isinstance(item, Answer) else item(request)
        return self.by_kind(request)

    def by_kind(self, request: dict[str, Any]) -> Answer:
        form, tools = request.get("response_format"), request.get("tools")
        if tools:
            return self._tool(request, tools[0]["function"]["parameters"])
        if form and form["type"] == "json_schema":
            schema = form["json_schema"]["schema"]
            if not self.kind.json_schema:
                return fail(400, "'response_format' of type 'json_schema' is not supported")
            if not self.kind.limits and "maxLength" in json.dumps(schema):
                return fail(400, "Invalid schema for response_format: 'maxLength' not permitted")
            if self.kind.json_schema == "ignored":
                return Answer(PROSE)
            return Answer(json.dumps(self.fill(schema, request)))
        if form:
            if not self.kind.json_object:
                return fail(400, "response_format json_object is not supported")
            if self.kind.strict_word and "json" not in prompt_of(request).lower():
                return fail(400, "messages must contain the word 'json' in some form")
            if self.kind.json_object == "ignored":
                return Answer(PROSE)
        schema = schema_in(prompt_of(request))
        if schema is not None:
            return Answer(json.dumps(self.fill(schema, request)))
        return Answer(self.words)

    def _tool(self, request: dict[str, Any], schema: dict[str, Any]) -> Answer:
        if not self.kind.tools:
            return fail(400, "tools are not supported by this server")
        if request["tool_choice"] != "auto" and not self.kind.forced:
            return fail(400, "tool_choice 'function' does not work in thinking mode")
        return Answer(tool=json.dumps(self.fill(schema, request)), finish="tool_calls")

    async def _send(
        self, writer: asyncio.StreamWriter, answer: Answer, request: dict[str, Any]
    ) -> None:
        payload = {"error": answer.error} if answer.error else completion(answer, request)
        body = json.dumps(payload).encode() if answer.raw is None else answer.raw.encode()
        lines = [f"HTTP/1.1 {answer.status} X", "content-type: application/json"]
        lines += [f"content-length: {len(body)}"]
        lines += [f"{k}: {v}" for k, v in answer.headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    async def _stream(
        self, writer: asyncio.StreamWriter, answer: Answer, request: dict[str, Any]
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
        writer.write(b"connection: close\r\n\r\n")
        whole = completion(answer, request)
        base = {k: whole[k] for k in ("id", "model", "created")}
        base["object"] = "chat.completion.chunk"
        text = str(whole["choices"][0]["message"]["content"] or "")
        for piece in re.findall(r"\s*\S{1,5}", text):
            await self._event(writer, {**base, "choices": [_delta({"content": piece})]})
        await self._event(writer, {**base, "choices": [_delta({}, answer.finish)]})
        if (request.get("stream_options") or {}).get("include_usage"):
            await self._event(writer, {**base, "choices": [], "usage": whole.get("usage")})
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    async def _event(self, writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
        writer.write(b"data: " + json.dumps(data).encode() + b"\n\n")
        await writer.drain()


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}


def completion(answer: Answer, request: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning is not None:
        message["reasoning_content"] = answer.reasoning
    if answer.refusal is not None:
        message["refusal"] = answer.refusal
    if answer.tool is not None:
        call = {"name": "answer", "arguments": answer.tool}
        message["tool_calls"] = [{"id": "1", "type": "function", "function": call}]
    usage = answer.usage
    if usage == {"auto": 1}:
        n, m = len(prompt_of(request)) // 4, len(str(answer.content or answer.tool or "")) // 4
        usage = {"prompt_tokens": n, "completion_tokens": m, "total_tokens": n + m}
    whole = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish}],
    }
    return {**whole, "usage": usage} if usage else whole


def prompt_of(request: dict[str, Any]) -> str:
    return "\n".join(str(m["content"]) for m in request["messages"])


def is_probe(request: dict[str, Any]) -> bool:
    return "Name a colour and a number" in prompt_of(request)


def schema_in(text: str) -> dict[str, Any] | None:
    """Return the schema that a prompt asks for, when it shows one."""
    mark = "this JSON schema:\n"
    at = text.find(mark)
    if at < 0:
        return None
    loaded, _ = json.JSONDecoder().raw_decode(text[at + len(mark) :])
    return loaded


def fill(schema: dict[str, Any]) -> Any:
    """Return the first value that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"]
    if kind == "object":
        return {k: fill(v) for k, v in schema["properties"].items()}
    if kind == "array":
        values = schema["items"].get("enum")
        n = schema.get("maxItems", len(values) if values else 1)
        if values:
            return values[:n]
        return [fill(schema["items"]) for _ in range(min(n, 1))]
    if kind == "integer":
        return schema.get("minimum", 0)
    return "because"

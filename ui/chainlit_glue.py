"""The one place that touches Chainlit's internals. Read from chainlit 2.12.0; pin 2.12.*.

What is relied on:

- ``session.emit(event, data)`` sends to one tab; ``ws_sessions_id`` holds the live sessions.
- client events ``resume_thread`` (replaces all messages), ``new_message`` (adds, or updates the
  message of that id), ``update_message``, ``delete_message``, ``stream_start``, ``stream_token``,
  ``window_message``, ``set_modes``, ``set_sidebar_elements`` then ``set_sidebar_title``.
- ``chat_started`` of a session decides whether a reconnect calls ``on_chat_start`` again.
- ``server.get_html_template`` makes the page; the app's router ends in a catch-all route.
- Messages are sent as plain step dictionaries: ``cl.Message`` sleeps in its constructor, keeps
  every message in memory and inherits the sender's parent step.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from chainlit import server
from chainlit.auth import create_jwt, set_auth_cookie
from chainlit.auth.cookie import clear_auth_cookie
from chainlit.config import config
from chainlit.session import WebsocketSession, ws_sessions_id
from chainlit.user import User
from fastapi import APIRouter, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.labels import THERAPIST
from ui.export import plain
from ui.inputs import AGENT_NAME
from ui.links import Member
from ui.records import Line
from ui.room import Event, Room

PANEL: Final = "KithRelations"
WORDS_PER_SECOND: Final = 22.0
_EXTERNAL: Final = re.compile(r"""<(?:link|script|meta)[^>]*https?://[^>]*>(?:</script>)?""")
# the theme follows the system until somebody picks one
_HEAD: Final = (
    "<script>try{localStorage.getItem('vite-ui-theme')||"
    "localStorage.setItem('vite-ui-theme','system')}catch(e){}</script>"
)
_HEADERS: Final = {
    # no request leaves the page, no other page frames or opens it, no address leaks by referrer
    "content-security-policy": "default-src 'self'; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; worker-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


_CACHED: Final = ("/assets/", "/public/", "/avatars/", "/logo", "/favicon")


class _Headers:
    """Adds the security headers to every response, and keeps pages out of the browser's cache.

    After somebody left quickly, the back button must not bring the room back.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = dict(_HEADERS)
                if not str(scope["path"]).startswith(_CACHED):
                    headers["cache-control"] = "no-store"
                extra = [(k.encode(), v.encode()) for k, v in headers.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self.app(scope, receive, sending if scope["type"] == "http" else send)


def install(router: APIRouter) -> None:
    """Put our routes before the catch-all and our page in place of Chainlit's own."""
    template: Callable[[str], str] = server.get_html_template

    def page(root: str) -> str:
        return _EXTERNAL.sub("", template(root)).replace("<head>", f"<head>{_HEAD}", 1)

    server.get_html_template = page
    server.app.router.routes[0:0] = list(router.routes)
    server.app.add_middleware(_Headers)
    # null instead of the default "dark": the page's own script chooses
    config.ui.default_theme = None


async def chat_page(request: Request) -> Response:
    """Return Chainlit's page."""
    return await server.serve(request)


def user_of(member: Member, name: str) -> User:
    """Return a member as Chainlit's user: the identifier guards sessions and actions."""
    return User(
        identifier=f"{member.room}:{member.person}", display_name=name, metadata=member._asdict()
    )


def sign_in(request: Request, response: Response, member: Member, name: str) -> None:
    """Set Chainlit's own cookie beside ours, so that the first paint is the room."""
    set_auth_cookie(request, response, create_jwt(user_of(member, name)))


def sign_out(request: Request, response: Response) -> None:
    """Take Chainlit's cookie away."""
    clear_auth_cookie(request, response)


def member_of(session: Any) -> Member | None:
    """Return whose session it is."""
    user = getattr(session, "user", None)
    data = user.metadata if user is not None else {}
    if isinstance(data.get("room"), str) and isinstance(data.get("person"), str):
        return Member(data["room"], data["person"])
    return None


def forget_start(session: Any) -> None:
    """Let the next reconnect of this session call ``on_chat_start`` again."""
    session.chat_started = False


class BrowserPort:
    """One tab: receives a room's events in order and shows them.

    Args:
        session: Chainlit's session.
        room: the room.
        person: whose tab it is.
        label: makes the label of a line for this person.
        panel: makes the panel message for this person.
        playback: makes the play bar's message.
    """

    def __init__(
        self,
        session: WebsocketSession,
        room: Room,
        person: str,
        label: Callable[[Line], dict[str, Any]],
        panel: Callable[[], dict[str, Any]],
        playback: Callable[[], dict[str, Any]],
    ) -> None:
        self.session = session
        self.room = room
        self.person = person
        self._label, self._panel, self._playback = label, panel, playback
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._pump_task: asyncio.Task[None] | None = None
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._panel_key = 0
        self._picked: tuple[str, str] | None = None
        self._offered: list[list[str]] = []
        self._commands: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a command of this tab beside everything else."""
        task = asyncio.create_task(work)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    def push(self, event: Event) -> None:
        """Take an event."""
        self._events.put_nowait(event)

    async def open(self) -> None:
        """Join the room and show it from the start; nothing is missed or doubled."""
        viewer = self.room.viewer_of(self.person)
        lines = self.room.visible_lines(viewer)
        self.room.join(self)
        await self._emit(
            "resume_thread",
            {
                "id": self.session.thread_id,
                "metadata": {},
                "elements": [],
                "steps": [self._step(line) for line in lines],
            },
        )
        await self.tell({"kith": "lines", "reset": True, "lines": [self._label(x) for x in lines]})
        person = self.room.people[self.person]
        await self.tell(
            {
                "kith": "welcome",
                "name": person.name,
                "mode": self.room.info.mode,
                "scenario": self.room.scenario,
                "empty": not lines,
            }
        )
        self._pump_task = asyncio.create_task(self._pump())
        self.push(Event("panel"))
        self.push(Event("playback"))

    def close(self) -> None:
        """Leave the room's ports and stop."""
        self.room.leave(self)
        for task in (self._pump_task, *self._streams.values()):
            if task is not None:
                task.cancel()

    async def open_panel(self) -> None:
        """Open the side panel; elements first, then the title."""
        self._panel_key += 1
        element = {
            "id": f"kith-panel-{self._panel_key}",
            "type": "custom",
            "name": PANEL,
            "display": "inline",
            "props": {},
            "url": f"/public/elements/{PANEL}.jsx",
            "forId": "",
            "threadId": self.session.thread_id,
        }
        await self._emit(
            "set_sidebar_elements", {"elements": [element], "key": f"kith-{self._panel_key}"}
        )
        await self._emit("set_sidebar_title", "Between you")
        await self.tell(self._panel())

    async def close_panel(self) -> None:
        """Close the side panel."""
        await self._emit("set_sidebar_elements", {"elements": [], "key": None})

    async def tell(self, data: dict[str, Any]) -> None:
        """Send data to the page's own script."""
        await self._emit("window_message", {**data, "from": "room"})

    async def _emit(self, event: str, data: Any) -> None:
        if ws_sessions_id.get(self.session.id) is self.session:
            await self.session.emit(event, data)

    async def _pump(self) -> None:
        while True:
            event = await self._events.get()
            if event.kind == "line" and event.line is not None:
                await self._line(event.line)
            elif event.kind == "erased":
                for key in event.keys:
                    await self._emit("delete_message", self._bare_step(key))
                await self.tell({"kith": "erased", "keys": list(event.keys)})
            elif event.kind == "panel":
                if self._events.empty() or not self._pending("panel"):
                    await self.tell(self._panel())
            elif event.kind == "people":
                await self.offer()
                await self.tell(self._panel())
            elif event.kind == "playback":
                await self.tell(self._playback())
            elif event.kind == "left":
                await self.tell({"kith": "go", "to": "/"})
            elif event.kind == "thinking":
                await self.tell({"kith": "thinking", "on": event.on})
            else:
                await self.tell({"kith": "notice", "text": event.text, "stays": event.on})

    def _pending(self, kind: str) -> bool:
        waiting: Iterable[Event] = list(self._events._queue)  # type: ignore[attr-defined]
        return any(e.kind == kind for e in waiting)

    async def _line(self, line: Line) -> None:
        await self.tell({"kith": "lines", "reset": False, "lines": [self._label(line)]})
        if line.speaker != THERAPIST:
            await self._emit("new_message", self._step(line))
            return
        task = asyncio.create_task(self._stream(line))
        self._streams[line.key] = task
        task.add_done_callback(lambda _: self._streams.pop(line.key, None))

    async def _stream(self, line: Line) -> None:
        """Show the agent's line word by word; a tab that joins meanwhile has all of it."""
        step = self._step(line)
        words = re.findall(r"\S+\s*", step["output"])
        await self._emit("stream_start", {**step, "output": words[0], "streaming": True})
        for word in words[1:]:
            await asyncio.sleep(1 / WORDS_PER_SECOND)
            token = {"id": line.key, "token": word, "isSequence": False, "isInput": False}
            await self._emit("stream_token", token)
        await self._emit("new_message", step)

    def _step(self, line: Line) -> dict[str, Any]:
        agent = line.speaker == THERAPIST
        at = datetime.fromtimestamp(line.at, UTC).isoformat()
        # people's lines are user messages: those show text as it is, never as Markdown
        return {
            **self._bare_step(line.key),
            "createdAt": at,
            "start": at,
            "end": at,
            "output": plain(line.text).replace("\n", "  \n") if agent else line.text,
            "name": AGENT_NAME if agent else "person",
            "type": "assistant_message" if agent else "user_message",
            "metadata": {"avatarName": "kith"},
        }

    def _bare_step(self, key: str) -> dict[str, Any]:
        return {
            "id": key,
            "threadId": self.session.thread_id,
            "parentId": None,
            "output": "",
            "name": AGENT_NAME,
            "type": "assistant_message",
            "streaming": False,
            "isError": False,
            "waitForAnswer": False,
            "metadata": {},
        }

    def picked(self, speaker: str, to: str) -> None:
        """Remember what is chosen in the composer, by the names shown there.

        A new offer resets the pickers to what it marks as default: without this, somebody who
        joins would turn another's whisper into a line for everyone.
        """
        self._picked = (speaker, to)

    async def offer(self) -> None:
        """Offer who speaks (one browser) and to whom in the composer, when that changed."""
        if self._picked is None:
            return
        modes = pickers(self.room, self.person)
        for mode, name in zip(modes, self._picked[-len(modes) :], strict=True):
            names = [option["name"] for option in mode["options"]]
            for option in mode["options"]:
                option["default"] = option["name"] == (name if name in names else names[0])
        shape = [[option["id"] for option in mode["options"]] for mode in modes]
        if shape != self._offered:
            self._offered = shape
            await self._emit("set_modes", modes)


def pickers(room: Room, person: str) -> list[dict[str, Any]]:
    """Return the composer's pickers for a person."""
    people = room.present()
    modes: list[dict[str, Any]] = []
    if room.one_browser:
        speakers = [{"id": p.id, "name": f"As {p.name}", "icon": "user"} for p in people]
        modes.append({"id": "speaker", "name": "Speaking as", "options": speakers})
    options = [
        {
            "id": "everyone",
            "name": "To everyone",
            "icon": "users",
            "description": "Everybody in the room sees it.",
        }
    ]
    if not room.one_browser:
        options.append(
            {
                "id": "whisper",
                "name": "Only to Kith",
                "icon": "lock",
                "description": "A whisper: the others do not see it, nor that you whispered.",
            }
        )
    options += [
        {
            "id": p.id,
            "name": f"To {p.name}",
            "icon": "user-round",
            "description": f"Everybody sees it; it is meant for {p.name}.",
        }
        for p in people
        if room.one_browser or p.id != person
    ]
    modes.append({"id": "to", "name": "To", "options": options})
    return modes

# ruff: noqa: E402
"""Chainlit's callbacks. ``chainlit run ui/app.py`` starts the room; all else lives elsewhere."""

from __future__ import annotations

from ui.launch import ensure_app_root

ensure_app_root()  # first: it may start the process again with the right app root

import functools
import logging
import os
from collections.abc import Callable, Coroutine
from http.cookies import SimpleCookie
from typing import Any

import chainlit as cl

from agent.settings import load_settings
from ui import chainlit_glue as glue
from ui.desk import Desk
from ui.inputs import Refused
from ui.links import COOKIE
from ui.panel import line_view
from ui.routes import make_router

log = logging.getLogger("kith.room")
# whatever this process writes is for its owner alone
os.umask(0o077)
desk = Desk(load_settings())
os.environ["CHAINLIT_AUTH_SECRET"] = desk.secret
glue.install(make_router(desk, glue.chat_page, glue.sign_in, glue.sign_out))

SORRY = "Something went wrong on our side. What was said before is safe; please try again."


def guarded(
    callback: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., Coroutine[Any, Any, None]]:
    """Keep an exception's text out of the chat and the log: it may hold what somebody said."""

    @functools.wraps(callback)
    async def inner(*args: Any, **named: Any) -> None:
        try:
            await callback(*args, **named)
        except Refused as refusal:
            await tell({"kith": "refused", "text": str(refusal)})
        except Exception as error:
            log.error("%s failed: %s", callback.__name__, type(error).__name__)
            await tell({"kith": "refused", "text": SORRY})

    return inner


def port() -> glue.BrowserPort | None:
    """Return the current tab's port, or None when it has not joined a room."""
    found = cl.user_session.get("port")
    return found if isinstance(found, glue.BrowserPort) else None


async def tell(data: dict[str, Any]) -> None:
    """Send data to the current tab's own script."""
    await cl.context.session.emit("window_message", {**data, "from": "room"})


@cl.on_app_startup
async def startup() -> None:
    """Open the files."""
    await desk.start()


@cl.on_app_shutdown
async def shutdown() -> None:
    """Close the files."""
    await desk.close()


@cl.header_auth_callback
async def identify(headers: Any) -> cl.User | None:
    """Tell who somebody is by our signed cookie."""
    cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    member = desk.links.who(cookie.value if cookie else None)
    found = await desk.find(member)
    if member is None or found is None:
        return None
    room, person = found
    return glue.user_of(member, room.people[person].name)


@cl.on_chat_start
@guarded
async def start() -> None:
    """Show the room to a tab that opened, reloaded or came back."""
    session = cl.context.session
    if (old := port()) is not None:
        old.close()
    found = await desk.find(glue.member_of(session))
    if found is None:
        await tell({"kith": "go", "to": "/"})
        return
    room, person = found
    new = glue.BrowserPort(
        session,
        room,
        person,
        label=lambda line: line_view(room, line, person),
        panel=lambda: desk.panel(room, person),
        playback=lambda: desk.playback(room),
    )
    cl.user_session.set("port", new)
    await new.open()
    await new.tell(await desk.votes(room, person))
    await new.tell(await desk.releases(room, person))
    await desk.companion(room).wake_up()


@cl.on_message
@guarded
async def message(sent: cl.Message) -> None:
    """Take a line. The agent listens in a task of its own, so the composer is free at once."""
    # Chainlit keeps what was sent in memory; our transcript is the only place for it
    cl.chat_context.clear()
    tab = port()
    if tab is None:
        await tell({"kith": "go", "to": "/"})
        return
    modes = sent.modes or {}
    people, to = tab.room.people, modes.get("to", "everyone")
    speaker = people.get(modes.get("speaker", ""))
    try:
        await tab.room.say(
            tab.person,
            sent.content,
            key=sent.id,
            speaker=speaker.name if speaker else "",
            to=people[to].name if to in people else "",
            private=to == "whisper",
        )
    except Refused as refusal:
        await tell({"kith": "refused", "key": sent.id, "text": str(refusal)})


@cl.on_window_message
@guarded
async def command(data: Any) -> None:
    """Do what the page's own script asks."""
    tab = port()
    if not isinstance(data, dict) or data.get("kith") != "do" or tab is None:
        return
    if tab.room.people[tab.person].gone:
        await tell({"kith": "go", "to": "/"})
        return
    if data.get("what") == "open_panel":
        await tab.open_panel()
        return
    if data.get("what") == "close_panel":
        await tab.close_panel()
        return
    if data.get("what") in ("hello", "picked"):
        tab.picked(str(data.get("speaker", "")), str(data.get("to", "")))
        await tab.offer()
        return
    # a long command must not hold up the next one
    tab.spawn(answer(tab, data))


@guarded
async def answer(tab: glue.BrowserPort, data: dict[str, Any]) -> None:
    """Run a command and tell the tab what came of it."""
    for reply in await desk.run(tab.room, tab.person, data):
        await tab.tell(reply)


@cl.on_chat_end
async def end() -> None:
    """Forget a tab that went away; if it comes back, it starts again."""
    if (tab := port()) is not None:
        tab.close()
        cl.user_session.set("port", None)
    glue.forget_start(cl.context.session)

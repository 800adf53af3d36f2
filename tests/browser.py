"""A room in a process of its own and Chromium to look at it. Used by the browser tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = Path(os.environ.get("KITH_CHROMIUM", "/usr/bin/chromium"))
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT = 15_000


def need_chromium() -> None:
    """Skip without Chromium on a developer's machine; fail in CI."""
    try:
        import playwright.async_api  # noqa: F401
    except ImportError:
        _missing("Playwright is missing: make setup installs it")
    if not CHROMIUM.exists():
        _missing("Chromium is missing: apt-get install chromium, or set KITH_CHROMIUM")


def _missing(sentence: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@dataclass
class Server:
    """A running room."""

    folder: Path
    port: int
    app: str
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(encoding="utf-8")

    def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "KITH_"))}
        env.update(
            CHAINLIT_APP_ROOT=str(ROOT / "ui"),
            KITH_DATA_DIR=str(self.folder / "var"),
            OMP_NUM_THREADS="1",
            HF_HUB_OFFLINE="1",
            PYTHONPATH=str(ROOT),
            **self.env,
        )
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "chainlit", "run", self.app, "-h", "--port", str(self.port)],
                cwd=self.folder,
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"the room did not start:\n{self.log}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"the room did not answer:\n{self.log}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextmanager
def running(folder: Path, app: str | None = None, **env: str) -> Iterator[Server]:
    """Run a room on a free port until the block ends."""
    server = Server(folder, free_port(), app or str(ROOT / "ui" / "app.py"), env)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Watched:
    """A browser context that notes requests leaving the server and errors of ours."""

    def __init__(self, context: Any, url: str) -> None:
        self.context = context
        self.url = url
        self.external: list[str] = []
        self.errors: list[str] = []
        self.session = ""

    async def page(self) -> Any:
        page = await self.context.new_page()
        page.set_default_timeout(WAIT)
        own = (self.url, self.url.replace("http", "ws"), "data:", "blob:")
        page.on("request", lambda r: self._request(r, own))
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.on("console", self._console)
        return page

    def _request(self, request: Any, own: tuple[str, ...]) -> None:
        if not request.url.startswith(own):
            self.external.append(request.url)
        elif request.url.endswith("/set-session-cookie"):
            self.session = request.post_data_json["session_id"]

    def _console(self, message: Any) -> None:
        # a refused page is answered with an error status, which Chromium writes to the console
        if message.type == "error" and "status of 4" not in message.text:
            self.errors.append(message.text)


async def say(page: Any, text: str) -> None:
    """Type a line and send it."""
    await page.click("#chat-input")
    await page.keyboard.insert_text(text)
    await page.keyboard.press("Enter")


async def pick(page: Any, mode: str, name: str) -> None:
    """Choose in one of the composer's pickers: ``speaker`` or ``to``."""
    await page.click(f"#mode-picker-trigger-{mode}")
    await page.click(f'#mode-picker-popover-{mode} >> text="{name}"')


async def share_a_screen(page: Any, url: str, first: str, second: str) -> None:
    """Make a couple's room on one screen and walk in."""
    await page.goto(url + "/start/couple?together=1")
    await page.fill('[name="name"]', first)
    await page.fill('[name="name2"]', second)
    await page.click("text=Go on")
    await page.check('[name="agree"]')
    await page.click("text=Enter the room")
    await page.wait_for_selector("#chat-input")
    await page.wait_for_selector("#mode-picker-trigger-to")


def lines(page: Any) -> Any:
    """The labelled lines of the chat."""
    return page.locator("[data-kith] pre, [data-kith] .ai-message")

"""Fixtures that several test files share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from agent.encoder import make_encoder
from agent.memory import ReplyMemory
from agent.replies.writer import ReplyWriter
from tests.browser import ARGS, CHROMIUM, ROOT, Server, need_chromium, running

ROOM_APP = str(ROOT / "tests" / "browser_app.py")


@pytest.fixture(scope="module")
def writer() -> ReplyWriter:
    encoder = make_encoder("minilm-int8")
    return ReplyWriter(encoder, ReplyMemory(encoder))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A room with a scripted agent on a free port."""
    need_chromium()
    with running(tmp_path_factory.mktemp("room"), ROOM_APP) as running_server:
        yield running_server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Any]:
    """Debian's Chromium through Playwright."""
    need_chromium()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGS)
        yield browser
        await browser.close()

"""How many model calls may be in flight: over all servers, and per server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

_Semaphores = dict[tuple[str, int], asyncio.Semaphore]
# per event loop, because several clients of one process share the limits
_BY_LOOP: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Semaphores]] = WeakKeyDictionary()


def _semaphore(name: str, limit: int) -> asyncio.Semaphore:
    known = _BY_LOOP.setdefault(asyncio.get_running_loop(), {})
    return known.setdefault((name, limit), asyncio.Semaphore(limit))


@asynccontextmanager
async def slot(endpoint: str, *, overall: int, per_endpoint: int) -> AsyncIterator[None]:
    """Wait for a free place on the server and overall, and hold both.

    Args:
        endpoint: the server's base url.
        overall: calls in flight over all servers of this process.
        per_endpoint: calls in flight on this server.
    """
    async with _semaphore(endpoint, per_endpoint), _semaphore("", overall):
        yield

"""Stopping a run from the keyboard, also where a library loses the first cancellation."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Final

AGAIN_SECONDS: Final = 0.5
"""How long after a cancellation that had no effect the next one follows."""


def run_until_stopped(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; Ctrl-C ends it even when a cancellation gets lost inside.

    ``asyncio.run`` cancels once. A client that is just opening a connection can take that for its
    own and report a failed call instead, and the run would go on.

    Raises:
        KeyboardInterrupt: when it was stopped.
    """
    if threading.current_thread() is not threading.main_thread():
        asyncio.run(main)
        return
    stopped = False

    async def watched() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop() -> None:
            nonlocal stopped
            stopped = True
            if not task.done():
                task.cancel()
                loop.call_later(AGAIN_SECONDS, stop)

        try:
            loop.add_signal_handler(signal.SIGINT, stop)
        except NotImplementedError:  # Windows: asyncio.run's own way has to do
            await main
            return
        try:
            await main
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    try:
        asyncio.run(watched())
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
    if stopped:
        raise KeyboardInterrupt

"""Ctrl-C ends a run, also when something inside takes the cancellation for its own."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from eval.stopping import run_until_stopped


async def _loses_it_and_ends() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        pass


async def _loses_the_first_cancellation() -> None:
    await _loses_it_and_ends()
    await asyncio.sleep(600)


@pytest.mark.parametrize("work", [_loses_the_first_cancellation, _loses_it_and_ends])
def test_a_lost_cancellation_is_repeated_and_the_stop_is_said(work: object) -> None:
    def own(number: int, frame: object) -> None:
        raise AssertionError("the run's own handler has to be in place")

    before = signal.signal(signal.SIGINT, own)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_until_stopped(work())  # type: ignore[operator]
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_that_is_not_stopped_ends_as_ever() -> None:
    done = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(True)

    run_until_stopped(work())
    assert done == [True]

"""Speed as ratios and percentiles: the replay against the bare encoder, and one live turn.

Run on the data that ``python -m eval.data`` finds (KITH_RESCUE, the cache, else the demo set).
Figures are for reading, never asserted in a test.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.context import Context, Request
from agent.encoder import make_encoder
from agent.graph import compile_graph
from agent.policies import make_policy
from agent.rescue import Sample
from agent.rescue.annotations import scenario_of
from agent.rescue.turns import turns_of
from agent.settings import Settings, load_settings
from eval.data.locate import locate
from eval.instances import DECISION_TASKS, build_instances
from eval.points import build_points
from eval.runner import Replayer

LIVE_TURNS = 200


def bare_pass(samples: Sequence[Sample], settings: Settings) -> float:
    """Seconds the encoder alone needs for every row."""
    encoder = make_encoder(settings.encoder).inner
    encoder.encode(["warm up"])
    texts = [row.dialogue_cleaned for sample in samples for row in sample.rows]
    start = time.perf_counter()
    encoder.encode(texts)
    return time.perf_counter() - start


async def replay(samples: Sequence[Sample], settings: Settings) -> float:
    """Seconds of the four decision tasks with the local policy."""
    policy = make_policy("local", settings)
    # both sides of the ratio start with loaded weights
    await policy.prepare([turns_of(samples[0].rows)[:1]])
    points = build_points(samples, build_instances(samples), DECISION_TASKS)
    start = time.perf_counter()
    async for _ in Replayer(policy).run(points):
        pass
    return time.perf_counter() - start


async def live(samples: Sequence[Sample], settings: Settings) -> list[float]:
    """Milliseconds of single turns, encoder included, as the room runs them."""
    policy, graph = make_policy("local", settings), compile_graph()
    spent: list[float] = []
    for sample in samples:
        state: dict[str, object] = {}
        for turn in turns_of(sample.rows):
            given = {"scenario": scenario_of(sample), "participants": [], **state}
            given |= {"incoming": [turn], "request": Request(reply=False)}
            start = time.perf_counter()
            state = await graph.ainvoke(given, context=Context(policy=policy))
            spent.append((time.perf_counter() - start) * 1000)
            if len(spent) > LIVE_TURNS:
                return spent[1:]  # the first one loads the weights
    return spent[1:]


def main() -> None:
    """Measure and print."""
    settings = load_settings()
    source = locate(None, settings)
    if source.banner:
        print(source.banner)
    samples = source.sound().samples
    rows = sum(len(s.rows) for s in samples)
    with tempfile.TemporaryDirectory() as folder:
        here = settings.model_copy(update={"cache_dir": Path(folder)})
        bare = bare_pass(samples, here)
        cold = asyncio.run(replay(samples, here))
        warm = asyncio.run(replay(samples, here))
        turns = asyncio.run(
            live(samples, here.model_copy(update={"cache_dir": Path(folder) / "x"}))
        )
    per = statistics.quantiles(turns, n=20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"rows {rows}, encoder {settings.encoder}: bare pass {bare:.1f} s")
    print(f"replay / bare encoder pass: {cold / bare:.2f}  ({rows / cold:.0f} turns/s)")
    print(f"replay with cached vectors / bare pass: {warm / bare:.2f}  ({rows / warm:.0f} turns/s)")
    print(f"cached / uncached replay: {warm / cold:.2f}")
    print(f"one live turn: median {statistics.median(turns):.1f} ms, p95 {per[-1]:.1f} ms")
    print(f"peak memory {peak:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())

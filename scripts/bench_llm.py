"""``make bench-llm``: decision points a second with a model server that needs 300 ms an answer.

Compares the replay (one call a decision point for all four tasks, at most 16 in flight) with the
way of the official scripts: one request at a time, four instances of one task in it. That way's
time for a request is measured on the same server; its number of requests is counted.

The server is a mock in a process of its own. Nothing here says anything about answers' quality.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agent.policies import make_policy  # noqa: E402
from agent.rescue.splits import select  # noqa: E402
from agent.settings import load_settings  # noqa: E402
from eval.data.locate import locate  # noqa: E402
from eval.instances import DECISION_TASKS, build_instances  # noqa: E402
from eval.points import Point, build_points  # noqa: E402
from eval.replay import SAMPLES_A_CALL  # noqa: E402
from eval.runner import Replayer, ReplayOptions  # noqa: E402

BATCH = 4
IN_FLIGHT = 16
WANTED = 10.0


async def serve(delay: float) -> None:
    """Run the mock server until the parent goes away."""
    from tests.llm_server import LLMServer

    async with LLMServer(delay=delay) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def one_request(url: str, requests: int = 8) -> float:
    """Return the seconds that one request takes at its fastest when only one is in flight."""
    body = {"model": "m", "messages": [{"role": "user", "content": "four instances " * 400}]}
    spent: list[float] = []
    async with httpx.AsyncClient(timeout=30) as client:
        for _ in range(requests):
            start = time.perf_counter()
            (await client.post(f"{url}/chat/completions", json=body)).raise_for_status()
            spent.append(time.perf_counter() - start)
    # a busy machine shall not make the other way look slow
    return min(spent)


async def replay(
    url: str, name: str, points: list[tuple[Point, ...]], folder: str, *, quiet: bool = False
) -> float:
    """Return the seconds that the replay of all points takes, and print its calls and tokens."""
    settings = load_settings(
        _env_file=None,
        openai_base_url=url,
        openai_api_key="mock",
        model="mock",
        llm_cache=False,
        cache_dir=folder,
        concurrency=IN_FLIGHT,
        rung="json_schema",
    )
    policy = make_policy(name, settings)
    # calls in flight are limited by the client; samples in flight are as in eval.replay
    replayer = Replayer(policy, ReplayOptions(concurrency=SAMPLES_A_CALL * IN_FLIGHT))
    start, failed = time.perf_counter(), 0
    async for records in replayer.run(points):
        failed += sum(r.status != "ok" for r in records)
    spent = time.perf_counter() - start
    sums, n = policy.client.log.totals(), sum(len(p) for p in points)  # type: ignore[attr-defined]
    await policy.client.aclose()  # type: ignore[attr-defined]
    if quiet:
        return spent
    print(
        f"{name}: {sums.calls / n:.2f} calls, {sums.tokens_in / n:.0f} prompt and "
        f"{sums.tokens_out / n:.0f} answer tokens a decision point, {failed} failed"
    )
    return spent


def official_requests(points: list[tuple[Point, ...]]) -> int:
    """Count the requests of the official way: each task of each sample in batches of four."""
    counted = Counter((p.sample.sample_id, u.task) for ps in points for p in ps for u in p.units)
    return sum(math.ceil(n / BATCH) for n in counted.values())


def start_server(delay: float) -> subprocess.Popen[str]:
    """Start the mock server in a process of its own; its first line is its url."""
    command = [sys.executable, __file__, "--serve", "--delay", str(delay)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def bench(
    names: list[str], split: str, data: Path | None, limit: int | None, delay: float
) -> int:
    """Measure and print; returns the exit status."""
    source = locate(data, load_settings())
    samples = select(source.sound(), split).samples[:limit]
    points = list(build_points(samples, build_instances(samples), DECISION_TASKS))
    # long ones first, so that no long sample is left over at the end
    points.sort(key=len, reverse=True)
    places, requests = sum(len(p) for p in points), official_requests(points)
    child = start_server(delay)
    assert child.stdout is not None
    url = child.stdout.readline().strip()
    worst = math.inf
    try:
        each = await one_request(url)
        print(f"{len(samples)} samples, {places} decision points, {each * 1000:.0f} ms a request")
        # a decision is all four tasks at one place: four requests for four places
        all_four = BATCH / (len(DECISION_TASKS) * each)
        with tempfile.TemporaryDirectory() as folder:
            # libraries are imported at first use: that belongs to nobody's speed
            await replay(url, names[0], points[-1:], folder, quiet=True)
            for name in names:
                ours = places / await replay(url, name, points, folder)
                print(
                    f"{name}: {ours:.1f} decision points/s with at most {IN_FLIGHT} in flight; "
                    f"one request at a time, four instances of one task in it: {all_four:.1f}/s\n"
                    f"{name}: ratio {ours / all_four:.1f} (all four tasks at every point), "
                    f"{ours * requests * each / places:.1f} (only the tasks scored there: "
                    f"{requests} requests)"
                )
                worst = min(worst, ours / all_four)
    finally:
        child.terminate()
        child.wait()
    print(f"lowest ratio {worst:.1f}, wanted {WANTED:g}")
    return 0 if worst >= WANTED else 1


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", action="append", help="repeatable; default plain-window")
    parser.add_argument("--split", default="all")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--limit", type=int, help="only the first N samples")
    parser.add_argument("--delay", type=float, default=0.3, help="seconds an answer takes")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.delay))
        return 0
    names = given.variant or ["plain-window", "agent"]
    return asyncio.run(bench(names, given.split, given.data, given.limit, given.delay))


if __name__ == "__main__":
    raise SystemExit(main())

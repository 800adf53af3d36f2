"""Timing as a room meets it: silence, latency in turns, at natural prevalence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import fsum
from typing import Any

from eval.metrics import SCOPES
from eval.runner import Record


def timing_figures(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Return the live figures of one variant's ITP records, by scope.

    * ``prevalence``: share of client turns after which support followed;
    * ``spoken_share``: share after which the policy would have spoken;
    * ``silence_accuracy``: of the turns without support, the share left in silence;
    * ``met``: of the moments of support, the share at which the policy spoke, there or at a
      later client turn before the next such moment;
    * ``latency_turns``: client turns it came late, mean over those met (0: at once);
    * ``latency_median``, ``met_at_once``, ``n``, ``moments``.

    A failure is neither speech nor silence: it is wrong on both sides.
    """
    found = {}
    for scope in SCOPES:
        here = [r for r in records if scope in ("all", r.scenario)]
        found[str(scope)] = _figures(here)
    return found


def _figures(records: Sequence[Record]) -> dict[str, Any]:
    n = len(records)
    if not n:
        return {"n": 0}
    quiet = [r for r in records if r.gold == "no"]
    by_sample: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_sample[record.sample_id].append(record)
    late: list[int | None] = []
    for rows in by_sample.values():
        late += _latencies(sorted(rows, key=lambda r: r.row))
    met = sorted(x for x in late if x is not None)
    return {
        "n": n,
        "moments": len(late),
        "prevalence": 1 - len(quiet) / n,
        "spoken_share": sum(_spoke(r) for r in records) / n,
        "silence_accuracy": (
            sum(r.ranking[:1] == ["no"] for r in quiet) / len(quiet) if quiet else None
        ),
        "met": len(met) / len(late) if late else None,
        "met_at_once": sum(x == 0 for x in met) / len(late) if late else None,
        "latency_turns": fsum(met) / len(met) if met else None,
        "latency_median": met[len(met) // 2] if met else None,
    }


def _latencies(rows: Sequence[Record]) -> list[int | None]:
    """Return, per moment of support, how many client turns later the policy first spoke."""
    moments = [i for i, r in enumerate(rows) if r.gold == "yes"]
    found: list[int | None] = []
    for place, start in enumerate(moments):
        end = moments[place + 1] if place + 1 < len(moments) else len(rows)
        first = next((i for i in range(start, end) if _spoke(rows[i])), None)
        found.append(None if first is None else first - start)
    return found


def _spoke(record: Record) -> bool:
    return record.ranking[:1] == ["yes"]

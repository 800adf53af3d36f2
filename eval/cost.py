"""What a run cost: calls, tokens, money and seconds per decision, by variant, node and role."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def costs(calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum the lines of ``calls.jsonl`` by variant.

    Returns:
        Per variant: ``decisions``, ``ms_median``, ``ms_p95`` (of one decision, all nodes) and
        ``nodes`` (mean ms); where a model was asked also ``model``: role/node -> calls, cache
        hits, failures, retries, tokens, cost in USD, and how many calls stated no tokens.
    """
    spent: dict[str, list[float]] = defaultdict(list)
    nodes: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    asked: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for call in calls:
        variant = call["variant"]
        if call["kind"] == "decision":
            spent[variant].append(call["ms"])
            for node, ms in call["nodes"].items():
                nodes[variant][node].append(ms)
        else:
            _add(asked[variant].setdefault(f"{call['role']}/{call['node']}", _empty()), call)
    found: dict[str, Any] = {}
    for variant in dict.fromkeys([*spent, *asked]):
        entry: dict[str, Any] = {"decisions": len(spent[variant])}
        if spent[variant]:
            entry["ms_median"] = float(np.median(spent[variant]))
            entry["ms_p95"] = float(np.percentile(spent[variant], 95))
            entry["nodes"] = {n: float(np.mean(ms)) for n, ms in nodes[variant].items()}
        if asked[variant]:
            entry["model"] = asked[variant]
        found[variant] = entry
    return found


def cost_line(variant: str, entry: Mapping[str, Any]) -> str:
    """Return one line about a variant's costs."""
    parts = [f"{variant}: {entry['decisions']} decisions" if entry["decisions"] else variant]
    if "ms_median" in entry:
        parts.append(f"median {entry['ms_median']:.1f} ms, p95 {entry['ms_p95']:.1f} ms")
    model = entry.get("model", {})
    if model:
        total = {k: sum(m[k] for m in model.values()) for k in _empty()}
        n = entry["decisions"] or max(1, total["calls"] + total["cache_hits"])
        # what a judge is asked is no part of a decision
        own = [m for place, m in model.items() if not place.startswith("judge/")] or model.values()
        tokens = sum(m["tokens_in"] + m["tokens_out"] for m in own) / n
        asked = sum(m["calls"] + m["cache_hits"] for m in own) / n
        parts += (
            f"{total['calls']} model calls (+{total['cache_hits']} from cache)",
            f"{asked:.2f} calls and {tokens:.0f} tokens a decision"
            if entry["decisions"]
            else f"{tokens:.0f} tokens a call",
        )
        parts.append(f"{total['cost_usd']:.4f} USD" if not total["unpriced"] else "price not known")
    return " · ".join(parts)


def model_lines(variant: str, entry: Mapping[str, Any]) -> list[str]:
    """Return one line for each role and node that asked a model."""
    found = []
    for place, m in entry.get("model", {}).items():
        unknown = f", {m['without_tokens']} without token counts" if m["without_tokens"] else ""
        found.append(
            f"{variant}, {place}: {m['calls']} calls, {m['cache_hits']} from cache, "
            f"{m['failed']} failed, {m['retries']} retries, {m['tokens_in']} tokens in, "
            f"{m['tokens_out']} out ({m['tokens_reasoning']} reasoning){unknown}, "
            f"{m['seconds']:.1f} s, {m['cost_usd']:.4f} USD"
        )
    return found


def _empty() -> dict[str, Any]:
    return {
        "calls": 0,
        "cache_hits": 0,
        "failed": 0,
        "retries": 0,
        "tokens_in": 0,
        "tokens_out": 0,
        "tokens_reasoning": 0,
        "without_tokens": 0,
        "unpriced": 0,
        "cost_usd": 0.0,
        "seconds": 0.0,
    }


def _add(sums: dict[str, Any], call: Mapping[str, Any]) -> None:
    hit = bool(call["cache_hit"])
    sums["calls"] += not hit
    sums["cache_hits"] += hit
    sums["failed"] += call["status"] != "ok"
    sums["retries"] += call["retries"]
    for name in ("tokens_in", "tokens_out", "tokens_reasoning"):
        sums[name] += call[name] or 0
    sums["without_tokens"] += call["status"] == "ok" and call["tokens_in"] is None
    sums["unpriced"] += not hit and call["cost_usd"] is None
    sums["cost_usd"] += call["cost_usd"] or 0.0
    sums["seconds"] += call["latency_ms"] / 1000

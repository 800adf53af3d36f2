"""Label shares of a corpus, for the floors."""

from __future__ import annotations

from collections import Counter

from agent.labels import PATTERNS, SCENARIOS, STRATEGIES
from agent.train.corpus import Corpus, points


def priors(corpus: Corpus) -> dict[str, dict[str, float]]:
    """Return ``<scenario>/pattern``, ``/strategy`` and ``/intervene`` label shares."""
    out: dict[str, dict[str, float]] = {}
    for scenario in SCENARIOS:
        sets = {
            "pattern": ("rpp", PATTERNS[scenario]),
            "strategy": ("ssp", STRATEGIES[scenario]),
            "intervene": ("itp", ("yes", "no")),
        }
        for name, (task, labels) in sets.items():
            gold = Counter(
                p.gold
                for p in points(corpus, task)
                if corpus.sessions[p.session].scenario == scenario
            )
            total = max(1, sum(gold.values()))
            out[f"{scenario}/{name}"] = {label: gold[label] / total for label in labels}
    return out

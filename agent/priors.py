"""Label shares of a set of samples: what the majority floor answers with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files
from typing import Final, TypeAlias

from agent.labels import PATTERNS, SCENARIOS, STRATEGIES
from agent.rescue.annotations import gold_pattern, gold_strategy, is_therapist, scenario_of
from agent.rescue.schema import Sample

PRIORS_FILE: Final = "priors.json"
_DECIMALS: Final = 6

Priors: TypeAlias = dict[str, dict[str, float]]
"""``<scenario>/pattern``, ``<scenario>/strategy`` and ``<scenario>/intervene`` -> shares."""


def label_shares(samples: Iterable[Sample]) -> Priors:
    """Count the labels of therapist rows and how often a therapist speaks next.

    Returns:
        Shares that sum to 1 per key (0 everywhere when a scenario has no label at all).
    """
    counts: dict[str, Counter[str]] = {
        f"{s}/{kind}": Counter() for s in SCENARIOS for kind in ("pattern", "strategy", "intervene")
    }
    for sample in samples:
        scenario = scenario_of(sample)
        for row in sample.rows:
            if pattern := gold_pattern(row, scenario):
                counts[f"{scenario}/pattern"][pattern] += 1
            if strategy := gold_strategy(row, scenario):
                counts[f"{scenario}/strategy"][strategy] += 1
        for before, after in zip(sample.rows, sample.rows[1:], strict=False):
            if not is_therapist(before):
                counts[f"{scenario}/intervene"]["yes" if is_therapist(after) else "no"] += 1
    labels: dict[str, tuple[str, ...]] = {}
    for s in SCENARIOS:
        labels[f"{s}/pattern"] = PATTERNS[s]
        labels[f"{s}/strategy"] = STRATEGIES[s]
        labels[f"{s}/intervene"] = ("yes", "no")
    return {key: _shares(counts[key], labels[key]) for key in labels}


def load_priors() -> Priors:
    """Return the shares of the train split that ship with the package."""
    text = files("agent.weights").joinpath(PRIORS_FILE).read_text(encoding="utf-8")
    loaded: Priors = json.loads(text)
    return loaded


def dump_priors(priors: Priors) -> str:
    """Return the file's text: sorted, so that equal shares give equal bytes."""
    return json.dumps(priors, indent=1, sort_keys=True) + "\n"


def _shares(counted: Counter[str], labels: tuple[str, ...]) -> dict[str, float]:
    total = counted.total()
    return {k: round(counted[k] / total, _DECIMALS) if total else 0.0 for k in labels}

"""Fit the sentence model on the sentences under ``prompts/safety/sentences``.

Run ``python -m agent.safety.fit`` after changing those sentences; the result is a small JSON file
kept with the package. The fit is deterministic.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from agent.safety.data_files import load_yaml
from agent.safety.semantic import WEIGHTS, Floats, default_encoder, vectors
from agent.safety.text import canonical, encoder_text
from agent.safety.types import KINDS, Kind

# kinds that share wording: a positive of one is no negative of the other
_OVERLAP: dict[Kind, set[Kind]] = {
    "self_harm": {"medical"},
    "violence": {"coercive_control", "child_abuse", "threat"},
    "coercive_control": {"violence", "child_abuse", "threat"},
    "child_abuse": {"violence", "coercive_control"},
    "threat": {"violence", "coercive_control"},
    "medical": {"self_harm"},
    "dependency": set(),
}
_THRESHOLD: dict[Kind, float] = {
    "self_harm": 0.60,
    "violence": 0.75,
    "coercive_control": 0.60,
    "child_abuse": 0.80,
    "threat": 0.80,
    "medical": 0.80,
    "dependency": 0.85,
}
_FILES = ("benign", "benign_more", "benign_third", "risk", "risk_more", "risk_third")
_STRENGTH = 6.0
_SHARE_OF_OTHERS = 0.4


class Sample(NamedTuple):
    """One training sentence and its kind, or None for a benign one."""

    text: str
    kind: Kind | None


def load_samples() -> list[Sample]:
    """Return the training sentences in canonical form, in file order, without repeats."""
    out: dict[str, Sample] = {}
    for name in _FILES:
        for kind, block in load_yaml(f"sentences/{name}.yaml").items():
            for line in block.splitlines():
                if line.strip():
                    text = encoder_text(canonical(line))
                    out[text] = Sample(text, None if kind == "benign" else kind)
    return list(out.values())


def fit_heads(rows: Floats, labels: list[Kind | None]) -> dict[str, dict[str, object]]:
    """Return weights, bias and threshold for every kind.

    Args:
        rows: What ``semantic.vectors`` returns, shape (n, dim).
        labels: A kind or None for each.
    """
    heads: dict[str, dict[str, object]] = {}
    for kind in KINDS:
        keep = [i for i, k in enumerate(labels) if k is None or k not in _OVERLAP[kind]]
        y = np.array([labels[i] == kind for i in keep])
        weight = np.array([1.0 if labels[i] in (None, kind) else _SHARE_OF_OTHERS for i in keep])
        weight[y] *= weight[~y].sum() / max(weight[y].sum(), 1.0)
        model = LogisticRegression(C=_STRENGTH, max_iter=2000)
        model.fit(rows[keep], y, sample_weight=weight)
        p = _THRESHOLD[kind]
        heads[kind] = {
            "weights": [round(float(w), 4) for w in model.coef_[0]],
            "bias": round(float(model.intercept_[0]), 4),
            "threshold": round(float(np.log(p / (1 - p))), 4),
        }
    return heads


def main() -> None:
    """Fit the heads and write them beside this module."""
    samples = load_samples()
    heads = fit_heads(vectors([s.text for s in samples]), [s.kind for s in samples])
    body = {"encoder": default_encoder().name, "sentences": len(samples), "heads": heads}
    target = Path(__file__).parent / "data" / WEIGHTS
    target.write_text(json.dumps(body) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(samples)} sentences -> {target.name}\n")


if __name__ == "__main__":
    main()

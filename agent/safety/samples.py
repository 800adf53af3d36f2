"""The training sentences of the sentence model."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from agent.safety.data_files import load_yaml
from agent.safety.text import canonical, encoder_text
from agent.safety.types import Kind

# kinds that share wording: a positive of one is no negative of the other
OVERLAP: dict[Kind, frozenset[Kind]] = {
    "self_harm": frozenset({"medical"}),
    "violence": frozenset({"coercive_control", "child_abuse", "threat"}),
    "coercive_control": frozenset({"violence", "child_abuse", "threat"}),
    "child_abuse": frozenset({"violence", "coercive_control"}),
    "threat": frozenset({"violence", "coercive_control"}),
    "medical": frozenset({"self_harm"}),
    "dependency": frozenset(),
}
_FILES = (
    "benign",
    "benign_more",
    "benign_third",
    "risk",
    "risk_more",
    "risk_third",
    "risk_control",
    "last",
)


EVERYDAY = 900
EVERYDAY_WEIGHT = 0.35


class Sample(NamedTuple):
    """One training sentence, its kind (None for a benign one) and its weight."""

    text: str
    kind: Kind | None
    weight: float = 1.0


def everyday(count: int = EVERYDAY, seed: int = 0) -> list[str]:
    """Return ordinary sentences made from the patterns of ``everyday.yaml``.

    Args:
        count: How many.
        seed: Seed of the choice.
    """
    raw = load_yaml("sentences/everyday.yaml")
    rng = random.Random(seed)

    def fill(pattern: str) -> str:
        text = re.sub(r"\{(\w+)\}", lambda m: rng.choice(raw["slots"][m.group(1)]), pattern)
        return re.sub(r"\s+", " ", text).strip()

    return [fill(raw["patterns"][i % len(raw["patterns"])]) for i in range(count)]


def load_samples() -> list[Sample]:
    """Return the training sentences in canonical form, in file order, without repeats."""
    out: dict[str, Sample] = {}
    for name in _FILES:
        for kind, block in load_yaml(f"sentences/{name}.yaml").items():
            for line in block.splitlines():
                if line.strip():
                    text = encoder_text(canonical(line))
                    out[text] = Sample(text, None if kind == "benign" else kind)
    for line in everyday():
        text = encoder_text(canonical(line))
        out.setdefault(text, Sample(text, None, EVERYDAY_WEIGHT))
    return list(out.values())

"""The training sentences of the sentence model."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from agent.demo import demo_path
from agent.rescue import read_dataset
from agent.rescue.annotations import is_therapist
from agent.safety.data_files import load_yaml
from agent.safety.text import canonical, encoder_text, sentences
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
    "self_harm_wide",
    "control_wide",
    "ordinary_wide",
)
_LAST = ("cases_learned",)
"""Learned last, in one short round: turns of cases that had served their turn as tests."""
_WORRYING = frozenset({"demo/couple/aiko_and_ben"})
"""Demo conversations in which a listener should worry."""

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


def load_last() -> list[Sample]:
    """Return the sentences of the last, short round: learned cases, and talk of the demo set."""
    out = _read(_LAST)
    for text in demo_sentences():
        out.setdefault(text, Sample(text, None))
    return list(out.values())


def demo_sentences() -> list[str]:
    """Return what people say in the demo conversations, sentence by sentence, none at risk.

    Long spoken turns fall into fragments that nobody would type alone; without them every
    second turn of a real conversation raises an alarm.
    """
    found: list[str] = []
    for sample in read_dataset(demo_path()).samples:
        if sample.sample_id in _WORRYING:
            continue
        for row in sample.rows:
            if not is_therapist(row):
                whole = canonical(row.dialogue_cleaned, sample.participants)
                found += [encoder_text(part) for part in (whole, *sentences(whole))]
    return list(dict.fromkeys(text for text in found if text))


def load_samples() -> list[Sample]:
    """Return the training sentences in canonical form, in file order, without repeats."""
    out = _read(_FILES)
    for line in everyday():
        text = encoder_text(canonical(line))
        out.setdefault(text, Sample(text, None, EVERYDAY_WEIGHT))
    return list(out.values())


def _read(names: tuple[str, ...]) -> dict[str, Sample]:
    out: dict[str, Sample] = {}
    for name in names:
        for kind, block in load_yaml(f"sentences/{name}.yaml").items():
            for line in block.splitlines():
                if line.strip():
                    text = encoder_text(canonical(line))
                    out[text] = Sample(text, None if kind == "benign" else kind)
    return out

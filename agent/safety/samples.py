"""The training sentences of the sentence model."""

from __future__ import annotations

import itertools
import random
import re
from importlib import resources
from typing import NamedTuple

from agent.demo import demo_path
from agent.rescue import Dataset, read_dataset
from agent.rescue.annotations import is_therapist
from agent.safety.data_files import SafetyDataError, load_yaml
from agent.safety.text import canonical, encoder_text, fragments
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
_PATTERNS = "everyday.yaml"
_WORRYING = frozenset({"demo/couple/aiko_and_ben"})
"""Demo conversations in which a listener should worry."""

EVERYDAY = 900
EVERYDAY_WEIGHT = 0.35
PART_WEIGHT = 0.6
SESSION_WEIGHT = 0.5
_DANGER = re.compile(
    r"\b(?:die|died|dying|dead|death|kill\w*|suicid\w*|hit|hits|hitting|beat\w*|abus\w*|cower\w*"
    r"|(?:hurt|harm)\w* (?:my|your|him|her|them)sel\w*|(?:afraid|scared|terrified) of|chok\w*|gun"
    r"|knife|threat\w*|controlling|rap(?:e|ed)|molest\w*|overdos\w*|ambulance|not here anymore"
    r"|end it all)\b"
)


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


def talk(dataset: Dataset) -> list[str]:
    """Return what people other than the therapist say, in canonical form.

    Args:
        dataset: Conversations; a demo conversation in which one should worry is left out.
    """
    return [
        canonical(row.dialogue_cleaned, sample.participants)
        for sample in dataset.samples
        if sample.sample_id not in _WORRYING
        for row in sample.rows
        if not is_therapist(row)
    ]


def parts(text: str) -> list[str]:
    """Return what the sentence model gets to read of a canonical text, and the whole text.

    A text without danger has none in its parts. Long turns fall into fragments that nobody would
    type alone; unless they were learned, every second turn of a real conversation raises an alarm.
    """
    said = fragments(text)
    pairs = (" ".join(pair) for pair in itertools.pairwise(said))
    return [encoder_text(part) for part in (text, *said, *pairs) if part]


def load_samples(sessions: Dataset | None = None) -> list[Sample]:
    """Return the training sentences in canonical form, without repeats, in a fixed order.

    Args:
        sessions: Transcribed sessions. Nobody judged their lines; those without a word of danger
            are learned, at half weight, as lines without danger.

    Raises:
        SafetyDataError: If a file is missing or damaged, or a sentence is both at risk and not.
    """
    out: dict[str, Sample] = {}
    for name in sentence_files():
        for kind, block in load_yaml(f"sentences/{name}").items():
            for line in filter(str.strip, block.splitlines()):
                text = encoder_text(canonical(line))
                sample = Sample(text, None if kind == "benign" else kind)
                if text in out and (out[text].kind is None) != (sample.kind is None):
                    raise SafetyDataError(f"sentences/{name}: {kind} here, not so elsewhere")
                out[text] = sample
    calm = [s.text for s in out.values() if s.kind is None]
    for text in (*calm, *talk(read_dataset(demo_path()))):
        for part in parts(text):
            out.setdefault(part, Sample(part, None, PART_WEIGHT))
    for text in talk(sessions) if sessions is not None else ():
        for part in parts(text)[1:]:
            if not _DANGER.search(part):
                out.setdefault(part, Sample(part, None, SESSION_WEIGHT))
    for line in everyday():
        text = encoder_text(canonical(line))
        out.setdefault(text, Sample(text, None, EVERYDAY_WEIGHT))
    return list(out.values())


def sentence_files() -> list[str]:
    """Return the names of the files of sentences, sorted."""
    folder = resources.files("prompts").joinpath("safety", "sentences")
    names = (entry.name for entry in folder.iterdir())
    return sorted(name for name in names if name.endswith(".yaml") and name != _PATTERNS)

"""What the sentence model raises.

Its inner value is compared with a threshold and dropped: nothing but the flag leaves this module
(NICE NG225, safety.md S9).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.safety import reader
from agent.safety.text import encoder_text
from agent.safety.types import KINDS, Kind

# chosen for recall first, on cases that no sentence was learned from (eval/safety/tuning.jsonl)
# and on the alarms in sessions of RESCUE's train split
THRESHOLD: dict[Kind, float] = {
    "self_harm": -0.5,
    "violence": -0.25,
    "coercive_control": 1.0,
    "child_abuse": 0.5,
    "threat": -0.25,
    "medical": 0.5,
    "dependency": 1.5,
}
# beyond this a line said aloud counts at once (doubt.py)
_PLAIN: dict[Kind, float] = {kind: 2.5 for kind in KINDS} | {"self_harm": 1.0}
_CAPACITY = 20_000


class Alarm(NamedTuple):
    """A kind the model raises; ``plain`` when the wording leaves it no doubt."""

    kind: Kind
    plain: bool


_seen: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def alarms(read: Sequence[tuple[str, str]]) -> list[tuple[Alarm, ...]]:
    """Return what each reading raises: what it and its surroundings both say.

    Args:
        read: Canonical readings with their surroundings, as ``agent.safety.text.readings`` gives.

    Raises:
        EncoderError: If the base model is missing.
        SafetyDataError: If the adapter cannot be read.
    """
    plain = [encoder_text(text) for pair in read for text in pair]
    keys = [_key(text) for text in plain]
    missing = {key: t for key, t in zip(keys, plain, strict=True) if key not in _seen}
    if missing:
        _seen.update(zip(missing, reader.logits(list(missing.values())), strict=True))
    rows = [_seen[key] for key in keys]
    while len(_seen) > _CAPACITY:
        _seen.popitem(last=False)
    return [_raised(np.minimum(*pair)) for pair in zip(rows[::2], rows[1::2], strict=True)]


def _raised(values: NDArray[np.float32]) -> tuple[Alarm, ...]:
    return tuple(
        Alarm(kind, bool(value > _PLAIN[kind]))
        for kind, value in zip(KINDS, values, strict=True)
        if value > THRESHOLD[kind]
    )

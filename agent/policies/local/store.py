"""Weights on disk: one npz of arrays and one JSON that says what they are. No pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agent.policies.local.addressee import Listener
from agent.policies.local.heads import Given, Head, Kernel, Linear, Model, Part, Term, View
from agent.policies.local.level1 import Level1
from agent.policies.local.sequence import SequenceModel

FORMAT: Final = 3
ARRAYS_FILE: Final = "local.npz"
ABOUT_FILE: Final = "local.json"

Arrays = dict[str, NDArray[Any]]


class WeightsError(RuntimeError):
    """The weights are missing or do not fit this code."""


@dataclass(frozen=True)
class Weights:
    """Everything the local policy was taught.

    Attributes:
        level1: heads over single turns.
        listener: who is spoken to.
        sequence: the turn transformer, or None.
        heads: decision -> head; the keys are ``pattern/couple``, ``strategy/family``, ....
        threshold: default probability at which the room's agent speaks.
        about: where the weights come from (split, encoder, counts).
        digest: short hash of the content.
    """

    level1: Level1
    listener: Listener
    sequence: SequenceModel | None
    heads: Mapping[str, Head]
    threshold: float
    about: Mapping[str, Any]
    digest: str = ""


def _wide(array: NDArray[Any]) -> NDArray[np.float64]:
    return array.astype(np.float64)


def _store_model(model: Model, prefix: str, arrays: Arrays) -> dict[str, Any]:
    if isinstance(model, Given):
        return {"kind": "given", "block": model.block}
    if isinstance(model, Linear):
        for key in ("mean", "scale", "weights", "bias"):
            arrays[f"{prefix}/{key}"] = getattr(model, key).astype(np.float32)
        return {"kind": "linear", "blocks": model.blocks}
    if isinstance(model, Kernel):
        arrays[f"{prefix}/coefficients"] = model.coefficients.astype(np.float32)
        arrays[f"{prefix}/prior"] = model.prior.astype(np.float32)
        for name, view in model.views.items():
            for key in ("mean", "scale", "axes"):
                arrays[f"{prefix}/{name}/{key}"] = getattr(view, key).astype(np.float32)
        for i, term in enumerate(model.terms):
            arrays[f"{prefix}/points{i}"] = term.points.astype(np.float16)
        terms = [{"blocks": t.blocks, "weight": t.weight, "width": t.width} for t in model.terms]
        return {"kind": "kernel", "views": list(model.views), "terms": terms}
    raise WeightsError(f"no way to store a {type(model).__name__}")


def _load_model(info: Mapping[str, Any], prefix: str, arrays: Arrays) -> Model:
    kind = info["kind"]
    if kind == "given":
        return Given(info["block"])
    if kind == "linear":
        keys = ("mean", "scale", "weights", "bias")
        return Linear(tuple(info["blocks"]), *(_wide(arrays[f"{prefix}/{k}"]) for k in keys))
    if kind == "kernel":
        views = {
            name: View(*(_wide(arrays[f"{prefix}/{name}/{k}"]) for k in ("mean", "scale", "axes")))
            for name in info["views"]
        }
        terms = tuple(
            Term(tuple(t["blocks"]), t["weight"], _wide(arrays[f"{prefix}/points{i}"]), t["width"])
            for i, t in enumerate(info["terms"])
        )
        coefficients, prior = arrays[f"{prefix}/coefficients"], arrays[f"{prefix}/prior"]
        return Kernel(views, terms, _wide(coefficients), _wide(prior))
    raise WeightsError(f"unknown kind of model {kind!r}")


def save(weights: Weights, folder: Path) -> str:
    """Write the two files; return the digest of their content."""
    first, sequence = weights.level1, weights.sequence
    arrays: Arrays = {
        "level1/weights": first.weights.astype(np.float32),
        "level1/mean": first.mean.astype(np.float32),
        "level1/scale": first.scale.astype(np.float32),
        "level1/feelings": np.array(list(first.feelings.values()), dtype=np.float32),
        "level1/lean": np.array(first.lean, dtype=np.float32),
        "listener/participant": weights.listener.participant.astype(np.float32),
        "listener/support": weights.listener.support.astype(np.float32),
    }
    if sequence is not None:
        arrays["sequence/mean"] = sequence.mean.astype(np.float32)
        arrays["sequence/scale"] = sequence.scale.astype(np.float32)
        for name, value in sequence.weights.items():
            arrays[f"sequence/weights/{name}"] = value.astype(np.float16)
    heads: dict[str, Any] = {}
    for name, head in weights.heads.items():
        parts = [
            {**_store_model(part.model, f"{name}/{i}", arrays), "part_weight": part.weight}
            for i, part in enumerate(head.parts)
        ]
        arrays[f"{name}/offset"] = head.offset.astype(np.float32)
        heads[name] = {"labels": head.labels, "temperature": head.temperature, "parts": parts}
    digest = _digest(arrays, heads)
    about = {
        "format": FORMAT,
        "digest": digest,
        "threshold": weights.threshold,
        "about": dict(weights.about),
        "feelings": list(first.feelings),
        "heads": heads,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ARRAYS_FILE).open("wb") as file:
        # numpy stamps zip members with a fixed date, so equal arrays give equal bytes
        np.savez_compressed(file, allow_pickle=False, **arrays)
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    (folder / ABOUT_FILE).write_text(text, encoding="utf-8")
    return digest


def _digest(arrays: Arrays, heads: Mapping[str, Any]) -> str:
    sha = hashlib.sha256(json.dumps(heads, sort_keys=True).encode())
    for name in sorted(arrays):
        sha.update(name.encode())
        sha.update(np.ascontiguousarray(arrays[name]).tobytes())
    return sha.hexdigest()[:10]


def load(folder: Path | None = None) -> Weights:
    """Read weights from a folder; None reads those that ship with the package.

    Raises:
        WeightsError: when a file is missing or of another format.
    """
    place: Traversable = files("agent.weights") if folder is None else folder
    try:
        about = json.loads(place.joinpath(ABOUT_FILE).read_text(encoding="utf-8"))
        with place.joinpath(ARRAYS_FILE).open("rb") as file, np.load(file) as data:
            arrays: Arrays = {name: data[name] for name in data.files}
    except FileNotFoundError as error:
        raise WeightsError(
            f"the local policy's weights are missing ({error.filename}): run python -m agent.train"
        ) from error
    if about["format"] != FORMAT:
        raise WeightsError(f"weights of format {about['format']}, this code reads {FORMAT}")
    words = zip(about["feelings"], _wide(arrays["level1/feelings"]), strict=True)
    level1 = Level1(
        weights=_wide(arrays["level1/weights"]),
        mean=_wide(arrays["level1/mean"]),
        scale=_wide(arrays["level1/scale"]),
        feelings=dict(words),
        lean=(float(arrays["level1/lean"][0]), float(arrays["level1/lean"][1])),
    )
    return Weights(
        level1=level1,
        listener=Listener(_wide(arrays["listener/participant"]), _wide(arrays["listener/support"])),
        sequence=_load_sequence(arrays),
        heads={name: _load_head(name, info, arrays) for name, info in about["heads"].items()},
        threshold=about["threshold"],
        about=about["about"],
        digest=about["digest"],
    )


def _load_sequence(arrays: Arrays) -> SequenceModel | None:
    prefix = "sequence/weights/"
    found = {
        name.removeprefix(prefix): value.astype(np.float32)
        for name, value in arrays.items()
        if name.startswith(prefix)
    }
    if not found:
        return None
    return SequenceModel(found, _wide(arrays["sequence/mean"]), _wide(arrays["sequence/scale"]))


def _load_head(name: str, info: Mapping[str, Any], arrays: Arrays) -> Head:
    parts = tuple(
        Part(_load_model(part, f"{name}/{i}", arrays), part["part_weight"])
        for i, part in enumerate(info["parts"])
    )
    return Head(tuple(info["labels"]), parts, info["temperature"], _wide(arrays[f"{name}/offset"]))

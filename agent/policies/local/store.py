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

from agent.policies.local.heads import Forest, Head, Linear, Model, Part
from agent.policies.local.level1 import Level1

FORMAT: Final = 1
ARRAYS_FILE: Final = "local.npz"
ABOUT_FILE: Final = "local.json"


class WeightsError(RuntimeError):
    """The weights are missing or do not fit this code."""


@dataclass(frozen=True)
class Weights:
    """Everything the local policy was taught.

    Attributes:
        level1: heads over single turns.
        heads: decision -> head; the keys are ``pattern/couple``, ``strategy/family``, ....
        threshold: default probability at which the room's agent speaks.
        about: where the weights come from (split, encoder, counts).
        digest: short hash of the content.
    """

    level1: Level1
    heads: Mapping[str, Head]
    threshold: float
    about: Mapping[str, Any]
    digest: str = ""


def _model_arrays(model: Model) -> tuple[str, dict[str, NDArray[Any]], dict[str, Any]]:
    if isinstance(model, Linear):
        arrays = {"mean": model.mean, "scale": model.scale, "bias": model.bias}
        small: dict[str, NDArray[Any]] = {k: v.astype(np.float32) for k, v in arrays.items()}
        return "linear", {**small, "weights": model.weights.astype(np.float32)}, {}
    if isinstance(model, Forest):
        return (
            "forest",
            {
                "feature": model.feature,
                "threshold": model.threshold.astype(np.float32),
                "left": model.left,
                "right": model.right,
                "values": model.values.astype(np.float16),
                "base": model.base.astype(np.float32),
            },
            {"depth": model.depth, "boosted": model.boosted},
        )
    raise WeightsError(f"no way to store a {type(model).__name__}")


def _load_model(kind: str, data: Mapping[str, NDArray[Any]], info: Mapping[str, Any]) -> Model:
    if kind == "linear":
        return Linear(
            **{k: data[k].astype(np.float64) for k in ("mean", "scale", "weights", "bias")}
        )
    if kind == "forest":
        return Forest(
            feature=data["feature"],
            threshold=data["threshold"].astype(np.float64),
            left=data["left"],
            right=data["right"],
            values=data["values"].astype(np.float32),
            base=data["base"].astype(np.float64),
            depth=info["depth"],
            boosted=info["boosted"],
        )
    raise WeightsError(f"unknown kind of model {kind!r}")


def save(weights: Weights, folder: Path) -> str:
    """Write the two files; return the digest of their content."""
    first = weights.level1
    arrays: dict[str, NDArray[Any]] = {
        "level1/weights": first.weights.astype(np.float32),
        "level1/mean": first.mean.astype(np.float32),
        "level1/scale": first.scale.astype(np.float32),
        "level1/feelings": np.array(list(first.feelings.values()), dtype=np.float32),
    }
    heads: dict[str, Any] = {}
    for name, head in weights.heads.items():
        parts = []
        for i, part in enumerate(head.parts):
            kind, data, info = _model_arrays(part.model)
            arrays.update({f"{name}/{i}/{key}": value for key, value in data.items()})
            parts.append({"kind": kind, "blocks": part.blocks, "weight": part.weight, **info})
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


def _digest(arrays: Mapping[str, NDArray[Any]], heads: Mapping[str, Any]) -> str:
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
            arrays = {name: data[name] for name in data.files}
    except FileNotFoundError as error:
        raise WeightsError(
            f"the local policy's weights are missing ({error.filename}): run python -m agent.train"
        ) from error
    if about["format"] != FORMAT:
        raise WeightsError(f"weights of format {about['format']}, this code reads {FORMAT}")
    words = zip(about["feelings"], arrays["level1/feelings"].astype(np.float64), strict=True)
    level1 = Level1(
        weights=arrays["level1/weights"].astype(np.float64),
        mean=arrays["level1/mean"].astype(np.float64),
        scale=arrays["level1/scale"].astype(np.float64),
        feelings=dict(words),
    )
    heads = {name: _load_head(name, info, arrays) for name, info in about["heads"].items()}
    return Weights(level1, heads, about["threshold"], about["about"], about["digest"])


def _load_head(name: str, info: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Head:
    parts = []
    for i, part in enumerate(info["parts"]):
        prefix = f"{name}/{i}/"
        data = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        model = _load_model(part["kind"], data, part)
        parts.append(Part(model, tuple(part["blocks"]), part["weight"]))
    offset = arrays[f"{name}/offset"].astype(np.float64)
    return Head(tuple(info["labels"]), tuple(parts), info["temperature"], offset)

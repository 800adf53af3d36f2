"""Where the tests find the research-only RESCUE data, which is not part of the project."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from agent.rescue import Dataset, load_dataset

# A shared machine is slow at times, and a test run is to be repeatable.
settings.register_profile("kith", deadline=None, derandomize=True)
settings.load_profile("kith")

REPO = Path(__file__).resolve().parents[1]


def rescue_dir() -> Path:
    """Returns the folder that holds ``train_dev.jsonl`` and ``golden_train_dev.json``.

    ``KITH_RESCUE_DIR`` or ``../shared/rescue`` beside the checkout. Where it is missing the
    test fails on CI and is skipped elsewhere.
    """
    named = os.environ.get("KITH_RESCUE_DIR")
    folder = Path(named) if named else REPO.parent / "shared" / "rescue"
    if (folder / "golden_train_dev.json").is_file() and (folder / "train_dev.jsonl").is_file():
        return folder
    reason = (
        f"no RESCUE data in {folder}: put train_dev.jsonl and golden_train_dev.json there "
        "or set KITH_RESCUE_DIR"
    )
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def train_dev() -> Dataset:
    """Returns the 151 train and dev samples."""
    return load_dataset(rescue_dir() / "train_dev.jsonl")


@cache
def golden() -> dict[str, Any]:
    """Returns the official instances and metric values on train and dev."""
    text = (rescue_dir() / "golden_train_dev.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def make_row(
    speaker: str, target: str | list[str] = "", text: str = "I see.", **fields: Any
) -> Any:
    """Returns a raw row as the data has it, with the given annotation fields."""
    targets = [target] if isinstance(target, str) else target
    return {
        "primary_speaker": speaker,
        "target": [name for name in targets if name],
        "dialogue_cleaned": text,
        **fields,
    }


def strategy(kind: str, *target: str) -> list[dict[str, Any]]:
    """Returns a ``support_strategy`` list of one item."""
    return [{"provider": "Therapist", "target": list(target), "strategy_type": kind}]


def make_sample(*rows: Any, sample_id: str = "own/one", **fields: Any) -> dict[str, Any]:
    """Returns a raw sample."""
    return {"sample_id": sample_id, "rows": list(rows), **fields}

"""Readers for the safety layer's data files under ``prompts/safety``."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml


class SafetyDataError(ValueError):
    """A safety data file is missing, unreadable or breaks its own rules."""


def load_yaml(name: str) -> Any:
    """Return the content of ``prompts/safety/<name>``.

    Args:
        name: Path below ``prompts/safety``, with forward slashes.

    Raises:
        SafetyDataError: If the file is missing or is not valid YAML.
    """
    source = resources.files("prompts").joinpath("safety", *name.split("/"))
    try:
        return yaml.safe_load(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SafetyDataError(f"safety data file {name!r} is missing") from error
    except yaml.YAMLError as error:
        raise SafetyDataError(f"safety data file {name!r} is not valid YAML: {error}") from error

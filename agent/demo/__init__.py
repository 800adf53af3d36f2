"""The bundled demo set: conversations written for this project in RESCUE's format.

The people are invented. The conversations stand in where the research-only benchmark is not
at hand; figures measured on them say nothing about RESCUE-BENCH.
"""

from __future__ import annotations

from pathlib import Path


def demo_path() -> Path:
    """Returns the folder of the demo conversations (``couple/*.json``, ``family/*.json``)."""
    return Path(__file__).resolve().parent / "conversations"

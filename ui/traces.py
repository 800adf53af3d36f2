"""What is written beside the database: erased lines leave the decision log, whispers stay out.

A trace service (LangSmith, where its variables are set) gets nothing of a private talk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from langsmith import tracing_context

Mark = tuple[tuple[str, float], ...]


def traced(viewer: str | None) -> AbstractContextManager[None]:
    """Return the context for a run: no trace is taken of one person's private talk."""
    return nullcontext() if viewer is None else tracing_context(enabled=False)


def mark_of(record: str) -> Mark:
    """Return what tells a decision record from all others: its measured times.

    Turn ids differ between the log and the database; the times are the same in both.
    """
    timings: dict[str, Any] = json.loads(record).get("timings") or {}
    return tuple(sorted((name, float(value)) for name, value in timings.items()))


def drop_from_log(log: Path | None, records: Iterable[str]) -> int:
    """Take decisions out of the log.

    Args:
        log: the decision log, or None where none is kept.
        records: the decisions as stored in the database, JSON.

    Returns:
        How many lines were taken out.

    Raises:
        OSError: when the log cannot be written again.
    """
    marks = {m for m in map(mark_of, records) if m}
    if log is None or not log.exists() or not marks:
        return 0
    lines = log.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line and mark_of(line) not in marks]
    if len(kept) == len(lines):
        return 0
    with log.open("r+", encoding="utf-8") as file:
        # over the old bytes, so that no copy of them is left in another file
        file.write("".join(line + "\n" for line in kept))
        file.flush()
        file.truncate()
        os.fsync(file.fileno())
    return len(lines) - len(kept)

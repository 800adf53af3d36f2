"""Files of a run folder: JSON written in one step, JSON lines that survive a kill."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


class StoreError(RuntimeError):
    """The run folder cannot be used; the message says why and what to do."""


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file in one step: a kill leaves the old one or the new one.

    Raises:
        StoreError: when it cannot be written.
    """
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        replace_bytes(path, text.encode("utf-8", "surrogatepass"))
    except OSError as error:
        raise unusable(path.parent, error) from error


def write_jsonl(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSONL file in one step.

    Raises:
        StoreError: when it cannot be written.
    """
    try:
        replace_lines(path, lines)
    except OSError as error:
        raise unusable(path.parent, error) from error


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Append lines to a JSONL file of a run that is not being written.

    Raises:
        StoreError: when it cannot be written.
    """
    try:
        cut_half_line(path)
        with path.open("ab") as file:
            file.write(b"".join(map(encoded, lines)))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise unusable(path.parent, error) from error


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that end, with their numbers; none when the file is missing."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield number, line


def cut_half_line(path: Path) -> None:
    """Cut off a last line that a killed process left unfinished."""
    if not path.exists():
        return
    whole = sum(len(line) for _, line in whole_lines(path))
    if whole != path.stat().st_size:
        os.truncate(path, whole)


def encoded(line: Mapping[str, Any]) -> bytes:
    """Return a line of a JSONL file."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
    return text.encode("utf-8", "surrogatepass")


def replace_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSONL file in one step.

    Raises:
        OSError: when it cannot be written.
    """
    replace_bytes(path, b"".join(map(encoded, lines)))


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a file in one step: a kill leaves the old one or the new one.

    Raises:
        OSError: when it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def unusable(folder: Path, error: OSError) -> StoreError:
    """Return the error that says what to do about a folder that cannot be written."""
    return StoreError(
        f"cannot write to {folder} ({error.strerror}): all finished units are kept; "
        "make room or choose another --out, then run the same command again"
    )

"""The run folder: a manifest written before any work, and append-only files that survive a kill.

``manifest.json`` names every planned unit and everything that shapes the answers.
``predictions.jsonl`` grows by one batch (all units of one variant, repeat and sample) at a time;
a batch is flushed to the disk in one go and is the only thing that counts as done. What a killed
process left behind it, a half line or a half batch, is cut off when the run is opened again.
``decisions.jsonl`` (state and decision at each point), ``calls.jsonl`` (time and tokens) and
``errors.jsonl`` stand beside it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self, TypeAlias

from pydantic import ValidationError

from eval.files import (
    StoreError,
    append_lines,
    cut_half_line,
    encoded,
    replace_lines,
    unusable,
    whole_lines,
    write_json,
    write_jsonl,
)
from eval.metrics import OK
from eval.runner import Record

__all__ = ["StoreError", "append_lines", "write_json", "write_jsonl"]

MANIFEST: Final = "manifest.json"
PREDICTIONS: Final = "predictions.jsonl"
DECISIONS: Final = "decisions.jsonl"
CALLS: Final = "calls.jsonl"
ERRORS: Final = "errors.jsonl"
_APPENDED: Final = (PREDICTIONS, DECISIONS, CALLS, ERRORS)
_LOCK: Final = ".lock"

TRANSIENT: Final = frozenset({"timeout", "http", "budget"})
"""Failures that asking again may mend (a spent budget may be raised)."""

SHAPING: Final = ("eval_version", "configuration", "data", "policies", "prompts", "units_sha256")
"""Parts of a manifest that shape the answers: a run goes on only while they are the same."""
_SHAPES_NO_ANSWER: Final = ("prompts.judges/", "prompts.replies/", "prompts.safety/")
"""Texts a replay's decisions do not depend on; judgements are keyed by their rubric."""

Batch: TypeAlias = tuple[str, int, str]
"""Variant, repeat and sample: what is run and kept as a whole, since the state is built up."""


class ChangedRun(StoreError):
    """The folder holds a run made otherwise.

    Attributes:
        keys: what differs, as paths into the manifest.
    """

    def __init__(self, folder: Path, changes: Sequence[tuple[str, Any, Any]]) -> None:
        self.keys = tuple(key for key, _, _ in changes)
        lines = "".join(
            f"\n  {key}: {_short(old)} then, {_short(new)} now" for key, old, new in changes
        )
        super().__init__(
            f"{folder} holds a run with another configuration; choose another --out, "
            f"or --fresh to start over. Changed:{lines}"
        )


class RunStore:
    """One run folder, opened for writing by one process at a time.

    Args:
        folder: made when it is missing.
        manifest: of the run that is wanted.
        fresh: throw away what an earlier run left in the folder.
        retry: run batches with transient failures again.

    Raises:
        ChangedRun: when the folder holds a run of another configuration.
        StoreError: when the folder cannot be written, is in use, or its files are damaged.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        *,
        fresh: bool = False,
        retry: bool = False,
    ) -> None:
        self.folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._lock: IO[bytes] | None = None
        self.records: list[Record] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(folder)
            if fresh:
                for name in (MANIFEST, *_APPENDED):
                    (folder / name).unlink(missing_ok=True)
            self.resumed = self._settle(manifest)
            self._recover(retry)
            for name in _APPENDED:
                self._files[name] = (folder / name).open("ab")
        except OSError as error:
            self.close()
            raise unusable(folder, error) from error
        except StoreError:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the files."""
        self.close()

    @property
    def done(self) -> frozenset[Batch]:
        """The batches that are complete."""
        return frozenset(batch_of(r) for r in self.records)

    def add(
        self,
        records: Sequence[Record],
        decisions: Iterable[Mapping[str, Any]] = (),
        calls: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Keep one complete batch; once this returns, it is on the disk.

        Raises:
            StoreError: when it cannot be written; all earlier batches are kept.
        """
        try:
            self._append(CALLS, calls)
            self._append(DECISIONS, decisions)
            self._append(PREDICTIONS, map(_line_of, records))
            self._append(ERRORS, _errors(records))
        except OSError as error:
            raise unusable(self.folder, error) from error
        self.records += records

    def finish(self, order: Mapping[tuple[str, int, str], int]) -> None:
        """Bring the predictions into the plan's order, whatever was finished first.

        Args:
            order: place of each (variant, repeat, unit).

        Raises:
            StoreError: when the file cannot be written.
        """
        ordered = sorted(self.records, key=lambda r: order[r.variant, r.repeat, r.unit])
        if ordered == self.records:
            return
        self.records = ordered
        try:
            self._files.pop(PREDICTIONS).close()
            replace_lines(self.folder / PREDICTIONS, map(_line_of, ordered))
            self._files[PREDICTIONS] = (self.folder / PREDICTIONS).open("ab")
        except OSError as error:
            raise unusable(self.folder, error) from error

    def close(self) -> None:
        """Close all files and let other processes in."""
        for file in self._files.values():
            # what could not be written was reported when it was added
            with suppress(OSError):
                file.close()
        self._files = {}
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _settle(self, manifest: Mapping[str, Any]) -> bool:
        """Write the manifest, or compare it with the one that is there."""
        path = self.folder / MANIFEST
        if path.exists():
            kept = read_manifest(self.folder)
            changes = [
                c for key in SHAPING for c in _changes(key, kept.get(key), manifest.get(key))
            ]
            if changes:
                raise ChangedRun(self.folder, changes)
            return True
        if any((self.folder / name).exists() for name in _APPENDED):
            raise StoreError(f"{self.folder} holds answers without a {MANIFEST}: choose another")
        write_json(path, manifest)
        return False

    def _recover(self, retry: bool) -> None:
        for name in (DECISIONS, CALLS):
            cut_half_line(self.folder / name)
        path = self.folder / PREDICTIONS
        planned = {
            (r["variant"], r["repeat"], r["sample_id"]): r["units"]
            for r in read_manifest(self.folder)["batches"]
        }
        found: dict[Batch, list[Record]] = {}
        for record in read_records(self.folder):
            found.setdefault(batch_of(record), []).append(record)
        kept: list[Record] = []
        for batch, records in found.items():
            again = retry and any(r.status in TRANSIENT for r in records)
            if len(records) == planned.get(batch) and not again:
                kept += records
        content = b"".join(encoded(_line_of(r)) for r in kept)
        if path.exists() and path.read_bytes() != content:
            replace_lines(path, map(_line_of, kept))
        if (self.folder / ERRORS).exists():
            replace_lines(self.folder / ERRORS, _errors(kept))
        self.records = kept

    def _append(self, name: str, lines: Iterable[Mapping[str, Any]]) -> None:
        content = b"".join(map(encoded, lines))
        if content:
            file = self._files[name]
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def batch_of(record: Record) -> Batch:
    """Return the batch a record belongs to."""
    return (record.variant, record.repeat, record.sample_id)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return a run's manifest.

    Raises:
        StoreError: when the folder holds none, or it cannot be read.
    """
    path = folder / MANIFEST
    try:
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{folder} holds no run: there is no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({type(error).__name__})") from error
    return loaded


def read_records(folder: Path) -> list[Record]:
    """Return the whole lines of ``predictions.jsonl``, in the file's order.

    Raises:
        StoreError: naming file and line of a damaged line that is not the last one.
    """
    path = folder / PREDICTIONS
    records = []
    for number, line in whole_lines(path):
        try:
            records.append(Record.model_validate_json(line))
        except ValidationError:
            raise StoreError(
                f"{path}, line {number} is no prediction: the file is damaged"
            ) from None
    return records


def read_lines(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the whole lines of another JSONL file of the folder; none when it is missing.

    Raises:
        StoreError: naming file and line of a damaged line.
    """
    path = folder / name
    found = []
    for number, line in whole_lines(path):
        try:
            found.append(json.loads(line))
        except ValueError:
            raise StoreError(f"{path}, line {number} is no JSON: the file is damaged") from None
    return found


def _locked(folder: Path) -> IO[bytes]:
    lock = (folder / _LOCK).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StoreError(f"{folder} is being written by another process") from None
    return lock


def _changes(key: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _changes(f"{key}.{name}", old.get(name), new.get(name))
    elif old != new and not key.startswith(_SHAPES_NO_ANSWER):
        yield key, old, new


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _line_of(record: Record) -> dict[str, Any]:
    return record.model_dump(mode="json", exclude_none=True)


def _errors(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    keep = {"unit", "variant", "repeat", "task", "sample_id", "row", "status", "error"}
    return (r.model_dump(mode="json", include=keep) for r in records if r.status != OK)

"""Reads RESCUE data and reports every fault in it with file, line, sample and row.

Two forms are read: ``benchmark_191.jsonl`` (one sample a line) and the folder form of the
official README (``<scenario or couple>/<sample>.json``, each with a top-level ``rows`` list).
A byte order mark, CRLF line ends and blank lines are harmless and are read. Messages name
fields, labels and positions, never what was said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, NoReturn

from pydantic import ValidationError

from agent.labels import PATTERNS, STRATEGIES, UTTERANCE_TYPES
from agent.rescue.annotations import is_therapist, relation_label, scenario_of
from agent.rescue.schema import Row, Sample

BENCHMARK_NAME = "benchmark_191.jsonl"
"""The file name of the official release."""

MAX_SAMPLE_BYTES = 16 * 1024 * 1024
"""A longer line or file is refused unread; the benchmark's longest line has about 0.1 MB."""

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_TOO_LONG = f"longer than {MAX_SAMPLE_BYTES // 1024 // 1024} MiB, not read"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SHOWN_CHARS = 40
_SHOWN_FAULTS = 5


class Fault(NamedTuple):
    """One thing that is wrong with the data.

    Attributes:
        file: the file, as given or found.
        line: 1-based line of a ``.jsonl`` file, else None.
        sample: the sample's id where it is known.
        row: 1-based position in the sample's rows, or None for the sample as a whole.
        message: what is wrong, without conversation text.
        kind: "structure" when something cannot be read; "label" when a label lies outside its
            closed set: the official rules leave such a row out of the task it belongs to.
    """

    file: str
    line: int | None
    sample: str | None
    row: int | None
    message: str
    kind: Literal["structure", "label"] = "structure"

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        parts = [place]
        if self.sample is not None:
            parts.append(f"sample {self.sample}")
        if self.row is not None:
            parts.append(f"row {self.row}")
        return f"{', '.join(parts)}: {self.message}"


class DataError(ValueError):
    """The data cannot be used as it is; ``faults`` holds every reason."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        shown = [str(fault) for fault in self.faults[:_SHOWN_FAULTS]]
        if len(self.faults) > _SHOWN_FAULTS:
            shown.append(f"... and {len(self.faults) - _SHOWN_FAULTS} more faults")
        super().__init__("\n".join(shown))


@dataclass(frozen=True)
class Dataset:
    """The samples of one file or folder, in file order, and the faults met on the way.

    Attributes:
        path: what was read.
        samples: every sample without a structural fault; a sample with an unknown label is
            kept (and the label is a fault), one that does not parse is not.
        faults: every fault, in file order.
        sha256: hex digest of what was read (file bytes; for a folder, names and bytes), or
            ``""`` when nothing could be read.
    """

    path: Path
    samples: tuple[Sample, ...]
    faults: tuple[Fault, ...]
    sha256: str

    @cached_property
    def by_id(self) -> dict[str, Sample]:
        """The samples by id."""
        return {sample.sample_id: sample for sample in self.samples}

    @property
    def broken(self) -> tuple[Fault, ...]:
        """The faults that make something unreadable."""
        return tuple(fault for fault in self.faults if fault.kind == "structure")

    @property
    def n_rows(self) -> int:
        """The number of rows in all samples."""
        return sum(len(sample.rows) for sample in self.samples)


def read_dataset(path: Path | str) -> Dataset:
    """Reads a ``.jsonl`` file, one sample's ``.json``, or a folder of samples.

    A folder is read through its ``benchmark_191.jsonl`` or its only ``.jsonl`` file, if it
    has one at its top, else as a tree of ``.json`` files. Never raises for bad data: what is
    wrong is in ``Dataset.faults``.
    """
    path = Path(path)
    collector = _Collector()
    digest = hashlib.sha256()
    try:
        source = _source_file(path)
        if source is None:
            _read_tree(path, collector, digest)
        elif source.suffix.lower() == ".json":
            _read_json(source, source.stem, collector, digest)
        else:
            _read_lines(source, collector, digest)
    except _Refused as refused:
        collector.fault(str(path), str(refused))
    except OSError as error:
        name = str(error.filename or path)
        collector.fault(name, f"cannot be read ({error.strerror or type(error).__name__})")
    if not collector.samples and not collector.faults:
        collector.fault(str(path), "holds no samples (the file or folder is empty)")
    hexdigest = digest.hexdigest() if collector.n_read else ""
    return Dataset(path, tuple(collector.samples), tuple(collector.faults), hexdigest)


def load_dataset(path: Path | str) -> Dataset:
    """Reads data as :func:`read_dataset` does and insists that it is sound.

    Raises:
        DataError: with all faults, when there is any.
    """
    dataset = read_dataset(path)
    if dataset.faults:
        raise DataError(dataset.faults)
    return dataset


def parse_sample(data: object, file: str = "<sample>", default_id: str = "") -> Sample:
    """Validates one sample that is already decoded from JSON.

    Args:
        data: the decoded object.
        file: what to call the source in faults.
        default_id: the id to use when the object has none.

    Raises:
        DataError: with all faults of the sample.
    """
    collector = _Collector()
    collector.sample(data, file, None, default_id)
    if collector.faults:
        raise DataError(collector.faults)
    return collector.samples[0]


class _Refused(Exception):
    """A file or line that is refused before it is parsed."""


def _source_file(path: Path) -> Path | None:
    """Returns the single file to read, or None for a tree of ``.json`` files."""
    if not path.exists():
        raise _Refused("no such file or folder")
    if not path.is_dir():
        return path
    benchmark = path / BENCHMARK_NAME
    if benchmark.is_file():
        return benchmark
    lines = sorted(path.glob("*.jsonl"))
    if len(lines) > 1:
        raise _Refused("holds several .jsonl files; name the one to read")
    return lines[0] if lines else None


class _Collector:
    """Gathers samples and faults over all files of one dataset."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.faults: list[Fault] = []
        self.n_read = 0
        self._first_seen: dict[str, str] = {}

    def fault(
        self,
        file: str,
        message: str,
        line: int | None = None,
        sample: str | None = None,
        row: int | None = None,
        kind: Literal["structure", "label"] = "structure",
    ) -> None:
        self.faults.append(Fault(file, line, sample, row, message, kind))

    def content(self, raw: bytes, file: str, line: int | None, default_id: str) -> None:
        """Decodes and validates the bytes of one sample."""
        try:
            data = _decode(raw)
        except _Refused as refused:
            self.fault(file, str(refused), line)
            return
        self.sample(data, file, line, default_id)

    def sample(self, data: object, file: str, line: int | None, default_id: str) -> None:
        """Validates one decoded sample; keeps it when its structure is sound."""
        if not isinstance(data, dict):
            self.fault(file, f"expected an object, found {_kind(data)}", line)
            return
        sample_id = data.get("sample_id") or default_id
        if not isinstance(sample_id, str) or not sample_id.strip():
            what = "missing column sample_id" if not sample_id else "sample_id is not a text"
            self.fault(file, what, line)
            return
        rows = self._rows(data, file, line, sample_id)
        place = file if line is None else f"{file}:{line}"
        first = self._first_seen.setdefault(sample_id, place)
        if first is not place:
            self.fault(file, f"duplicate id, first seen in {first}", line, sample_id)
            return
        if rows is None:
            return
        try:
            sample = Sample.model_validate({**data, "sample_id": sample_id, "rows": rows})
        except ValidationError as error:
            for message in _messages(error):
                self.fault(file, message, line, sample_id)
            return
        self.samples.append(sample)
        for position, message in unknown_labels(sample):
            self.fault(file, message, line, sample_id, position, kind="label")

    def _rows(
        self, data: dict[str, Any], file: str, line: int | None, sample_id: str
    ) -> tuple[Row, ...] | None:
        if "rows" not in data:
            self.fault(file, "missing column rows", line, sample_id)
            return None
        raw = data["rows"]
        if not isinstance(raw, list):
            self.fault(file, f"rows: expected a list, found {_kind(raw)}", line, sample_id)
            return None
        if not raw:
            self.fault(file, "rows is empty", line, sample_id)
            return None
        rows: list[Row] = []
        for position, entry in enumerate(raw, 1):
            try:
                rows.append(Row.model_validate(entry))
            except ValidationError as error:
                for message in _messages(error):
                    self.fault(file, message, line, sample_id, position)
        return tuple(rows) if len(rows) == len(raw) else None


def unknown_labels(sample: Sample) -> Iterator[tuple[int, str]]:
    """Yields (position, message) for every label outside the scenario's label sets.

    Checked are utterance types, strategy types and, on therapist rows, the relation field
    that counts in the scenario; an empty label is none.
    """
    scenario = scenario_of(sample)
    for position, row in enumerate(sample.rows, 1):
        label = row.utterance_type
        if label and label not in UTTERANCE_TYPES:
            yield position, f"unknown utterance type {_shown(label)}"
        for strategy in row.support_strategy:
            label = strategy.strategy_type
            if label.strip() and label.strip() not in STRATEGIES[scenario]:
                yield position, f"unknown {scenario} strategy {_shown(label)}"
        pattern = relation_label(row, scenario) if is_therapist(row) else None
        if pattern and pattern not in PATTERNS[scenario]:
            yield position, f"unknown {scenario} pattern {_shown(pattern)}"


def _read_tree(folder: Path, collector: _Collector, digest: hashlib._Hash) -> None:
    for file in sorted(folder.rglob("*.json")):
        sample_id = file.relative_to(folder).with_suffix("").as_posix()
        digest.update(sample_id.encode("utf-8", "surrogateescape") + b"\0")
        _read_json(file, sample_id, collector, digest)


def _read_json(file: Path, sample_id: str, collector: _Collector, digest: hashlib._Hash) -> None:
    if file.stat().st_size > MAX_SAMPLE_BYTES:
        collector.fault(str(file), _TOO_LONG)
        return
    raw = file.read_bytes()
    digest.update(raw)
    collector.n_read += len(raw)
    raw = raw.removeprefix(_BOM)
    if not raw.strip():
        collector.fault(str(file), "the file is empty")
        return
    collector.content(raw, str(file), None, sample_id)


def _read_lines(file: Path, collector: _Collector, digest: hashlib._Hash) -> None:
    with file.open("rb") as stream:
        for line, raw in _lines(stream, digest):
            collector.n_read += 1
            if raw is None:
                collector.fault(str(file), f"line {_TOO_LONG}", line)
                continue
            if line == 1:
                if raw.startswith(_UTF16_BOMS):
                    collector.fault(str(file), "is UTF-16; save it as UTF-8", line)
                    return
                raw = raw.removeprefix(_BOM)
            if raw.strip():
                collector.content(raw, str(file), line, "")
    if not collector.samples and not collector.faults:
        collector.fault(str(file), "the file is empty")


def _lines(stream: BinaryIO, digest: hashlib._Hash) -> Iterator[tuple[int, bytes | None]]:
    """Yields (line number, bytes); None for a line over the limit, which is never held."""
    line = 0
    while raw := stream.readline(MAX_SAMPLE_BYTES + 1):
        line += 1
        digest.update(raw)
        if len(raw) <= MAX_SAMPLE_BYTES:
            yield line, raw
            continue
        while raw and not raw.endswith(b"\n"):
            raw = stream.readline(MAX_SAMPLE_BYTES + 1)
            digest.update(raw)
        yield line, None


def _decode(raw: bytes) -> object:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Refused(f"not UTF-8 (byte {error.start + 1})") from None
    try:
        data: object = json.loads(text, parse_constant=_no_constant)
        if _SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise _Refused(f"broken JSON at character {error.pos + 1}: {error.msg}") from None
    except UnicodeEncodeError:
        raise _Refused("broken JSON: half of a surrogate pair") from None
    except RecursionError:
        raise _Refused("broken JSON: nested too deeply") from None
    except ValueError:
        raise _Refused("broken JSON: a number too long to read") from None
    return data


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"broken JSON: {name} is not a JSON number")


def _messages(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        field = ".".join(str(part) for part in detail["loc"])
        if detail["type"] == "missing":
            yield f"missing column {field}"
        elif field:
            yield f"{field}: {detail['msg']}"
        else:
            yield detail["msg"]


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", str: "a text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def _shown(label: str) -> str:
    """Quotes a label, cut short: a label field may hold text by mistake."""
    cut = label if len(label) <= _SHOWN_CHARS else label[:_SHOWN_CHARS] + "..."
    return repr(cut)

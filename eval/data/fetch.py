"""Downloads the official file at its pinned commit, verifies it, then puts it in place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx

from agent.rescue import read_dataset
from eval.data.published import PUBLISHED, Published, count, mismatches

TIMEOUT: Final = httpx.Timeout(15.0, connect=5.0)
"""Seconds for a read and for the connection."""

MAX_BYTES: Final = 256 * 1024 * 1024
"""A longer answer is not the benchmark (about 15 MB)."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and the total, where the server states it."""


class FetchError(RuntimeError):
    """The file could not be downloaded or stored."""


class WrongFile(RuntimeError):
    """What was downloaded is not the benchmark; ``reasons`` says why."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        self.reasons = reasons
        super().__init__("the downloaded file is not the published benchmark")


def fetch(
    url: str,
    out: Path,
    progress: Progress = lambda received, total: None,
    published: tuple[Published, ...] = PUBLISHED,
) -> None:
    """Downloads ``url`` to ``out``; ``out`` appears only when everything is right.

    Args:
        url: where the file is.
        out: the file to write; an existing one is replaced.
        progress: told about every piece received.
        published: the counts the file must have.

    Raises:
        FetchError: when the download or the writing fails.
        WrongFile: when the data has faults or its counts differ.
    """
    partial: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(".jsonl", f".{out.stem}-", out.parent)
        partial = Path(name)
        with os.fdopen(handle, "wb") as stream:
            for piece in _download(url, progress):
                stream.write(piece)
        _verify(partial, published)
        partial.chmod(0o644)
        partial.replace(out)
    except httpx.HTTPStatusError as error:
        raise FetchError(f"the server answered {error.response.status_code}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FetchError(f"no connection ({type(error).__name__})") from error
    except OSError as error:
        raise FetchError(f"cannot write {out} ({error.strerror})") from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _download(url: str, progress: Progress) -> Iterator[bytes]:
    with httpx.stream("GET", url, timeout=TIMEOUT, follow_redirects=True) as response:
        response.raise_for_status()
        length = response.headers.get("content-length", "")
        total = int(length) if length.isdigit() else None
        size = 0
        for piece in response.iter_bytes():
            size += len(piece)
            if size > MAX_BYTES:
                raise FetchError(f"the answer is longer than {MAX_BYTES:,} bytes")
            progress(response.num_bytes_downloaded, total)
            yield piece


def _verify(file: Path, published: tuple[Published, ...]) -> None:
    dataset = read_dataset(file)
    if dataset.faults:
        # The temporary name says nothing to the reader; line, sample and row do.
        raise WrongFile(tuple(str(fault._replace(file="line")) for fault in dataset.faults))
    wrong = tuple(mismatches(count(dataset), published))
    if wrong:
        raise WrongFile(wrong)

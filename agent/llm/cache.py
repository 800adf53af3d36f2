"""Answers on disk, so that an evaluation pays for each question once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_FORMAT: Final = 1


def cache_key(parts: Mapping[str, Any]) -> str:
    """Return the key of a question: a hash over everything that may change the answer."""
    text = json.dumps({"format": _FORMAT, **parts}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True)
class Kept:
    """An answer once given.

    Attributes:
        answer: the text, or the JSON object.
        rung: how it was asked for.
        tokens_in: what it cost then, None when unknown.
        tokens_out: likewise.
        tokens_reasoning: likewise.
    """

    answer: Any
    rung: str
    tokens_in: int | None
    tokens_out: int | None
    tokens_reasoning: int | None


class AnswerCache:
    """One file an answer, named by its key, readable by the owner only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def get(self, key: str) -> Kept | None:
        """Return a kept answer; an unreadable file counts as none and is removed."""
        path = self._path(key)
        try:
            return Kept(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)
            return None

    def put(self, key: str, kept: Kept) -> None:
        """Keep an answer; a killed process leaves either the whole file or none."""
        write_private(self._path(key), json.dumps(kept.__dict__))


def write_private(path: Path, text: str) -> None:
    """Write a file in one step, readable by its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(part, "w", encoding="utf-8", opener=_private) as file:
        file.write(text)
    part.replace(path)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)

"""The reply library's vectors in Chroma: on disk where there is a data folder, else in memory.

The vectors are derived from the library and can always be made again, so nothing about them may
stop the agent: a folder that another process owns, that cannot be written or that is damaged is
left alone, one warning is logged, and the index lives in memory for as long as the process does.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from agent.encoder import Encoder
from agent.replies.library import ReplyLibrary, load_library

FOLDER: Final = "chroma"
COLLECTION: Final = "replies"

_LOCK: Final = "owner.lock"
_SEARCH_WIDTH: Final = 2000
"""Candidates looked at per search: more than there are frames, so that the search is exact."""
_log = logging.getLogger(__name__)

Fingerprint: TypeAlias = dict[str, str | int]


class _InUse(OSError):
    """Another process owns the folder."""


class ReplyMemory:
    """Finds how near each frame of the library is to a situation.

    Args:
        encoder: makes the vectors; its name and dimension are stored with them.
        data_dir: the data folder; vectors are kept in ``data_dir/chroma``. None keeps them in
            memory.
        library: the frames, by default the bundled ones.

    Attributes:
        library: the frames.
        encoder_name: the encoder the vectors were made with.
        on_disk: whether the index is kept on disk; False after a fall-back.
        rebuilt: whether the vectors were made anew when it was opened.
    """

    def __init__(
        self, encoder: Encoder, data_dir: Path | None = None, library: ReplyLibrary | None = None
    ) -> None:
        self.library = library if library is not None else load_library()
        self.encoder_name = encoder.name
        self.on_disk = data_dir is not None
        self.rebuilt = False
        self._encoder = encoder
        self._lock: int | None = None
        self._client: Any = None
        self._collection: Any = None
        if data_dir is None:
            self._open_in_memory()
            return
        folder = data_dir / FOLDER
        try:
            self._open_on_disk(folder)
        except _failures() as error:
            self._fall_back(folder, error)

    def nearness(
        self, situation: Sequence[float], scenario: str, strategy: str
    ) -> dict[str, float]:
        """Return frame id -> cosine (-1 to 1) for the frames of one strategy.

        Args:
            situation: a unit vector of the encoder's dimension.
            scenario: as in the library.
            strategy: as in the library.

        Raises:
            RuntimeError: after ``close``.
        """
        if self._collection is None:
            raise RuntimeError("the reply memory was closed")
        try:
            return self._query(situation, scenario, strategy)
        except _failures() as error:
            if not self.on_disk:
                raise
            self._fall_back(None, error)
            return self._query(situation, scenario, strategy)

    def close(self) -> None:
        """Let go of the folder, so that another process may own it. May be called twice."""
        if self._client is not None:
            self._client.close()
        self._client = self._collection = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _query(self, situation: Sequence[float], scenario: str, strategy: str) -> dict[str, float]:
        found = self._collection.query(
            query_embeddings=[list(situation)],
            n_results=len(self.library.frames),
            where={"$and": [{"scenario": scenario}, {"strategy": strategy}]},
            include=["distances"],
        )
        pairs = zip(found["ids"][0], found["distances"][0], strict=True)
        return {frame_id: 1.0 - float(distance) for frame_id, distance in pairs}

    def _open_on_disk(self, folder: Path) -> None:
        import chromadb

        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _own(folder / _LOCK)
        self._client = chromadb.PersistentClient(str(folder), settings=_settings())
        self._collection = self._stored()
        if self._collection is None:
            self._build(COLLECTION)
        self._probe()

    def _open_in_memory(self) -> None:
        import chromadb

        self._client = chromadb.EphemeralClient(settings=_settings())
        # all clients in memory share one store within a process
        fingerprint = repr(sorted(self._fingerprint().items()))
        self._build(f"{COLLECTION}-{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}")
        self._probe()

    def _fingerprint(self) -> Fingerprint:
        import chromadb

        return {
            "encoder": self._encoder.name,
            "dim": self._encoder.dim,
            "library": self.library.digest,
            "chroma": chromadb.__version__,
        }

    def _stored(self) -> Any:
        """Return the collection on disk when it holds this library's vectors, else None."""
        if COLLECTION not in [c.name for c in self._client.list_collections()]:
            return None
        found = self._client.get_collection(COLLECTION, embedding_function=None)
        held: Mapping[str, Any] = found.metadata or {}
        same = all(held.get(key) == value for key, value in self._fingerprint().items())
        if same and found.count() == len(self.library.frames):
            return found
        self._client.delete_collection(COLLECTION)
        return None

    def _build(self, name: str) -> None:
        frames = self.library.frames
        self._collection = self._client.get_or_create_collection(
            name,
            embedding_function=None,
            metadata=self._fingerprint(),
            configuration={"hnsw": {"space": "cosine", "ef_search": _SEARCH_WIDTH}},
        )
        if self._collection.count() == len(frames):
            return
        vectors = self._encoder.encode([frame.sample() for frame in frames])
        self._collection.upsert(
            ids=[frame.id for frame in frames],
            embeddings=[[float(x) for x in row] for row in vectors],
            metadatas=[
                {"scenario": f.scenario, "strategy": f.strategy, "target": f.target} for f in frames
            ],
        )
        self.rebuilt = True

    def _probe(self) -> None:
        """Read every vector once: damage shows now and not in the middle of a talk."""
        frames = self.library.frames
        whole = [0.0] * (self._encoder.dim - 1) + [1.0]
        for place in dict.fromkeys((f.scenario, f.strategy) for f in frames):
            held = len(self._query(whole, *place))
            if held != len(self.library.of(*place)):
                raise ValueError(f"the index holds {held} of the frames of {'/'.join(place)}")

    def _fall_back(self, folder: Path | None, error: BaseException) -> None:
        where = f"the reply index in {folder}" if folder else "the reply index on disk"
        if isinstance(error, _InUse):
            cause = "is in use by another process"
        else:
            cause = f"cannot be used ({type(error).__name__}); delete the folder to have it rebuilt"
        _log.warning("%s %s: keeping the index in memory", where, cause)
        self._client = self._collection = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self.on_disk = False
        self._open_in_memory()


def _failures() -> tuple[type[BaseException], ...]:
    """Return what Chroma raises over a folder it cannot use."""
    from chromadb.errors import ChromaError

    # AttributeError: how a client fails whose start in the same process has failed before
    return (
        ChromaError,
        sqlite3.Error,
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        AttributeError,
    )


def _settings() -> Any:
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _own(file: Path) -> int:
    """Lock ``file`` for this process without waiting; return the open descriptor.

    Chroma itself lets a second process in, which then may hang or see half-made tables.

    Raises:
        OSError: when the file cannot be opened or another owner holds it.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock_file(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise _InUse(str(file)) from error
    return descriptor


def _lock_file(descriptor: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

"""The reply index in Chroma, on real folders."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from agent.encoder import CachedEncoder, make_encoder
from agent.memory import COLLECTION, FOLDER, ReplyMemory
from agent.replies.library import ReplyLibrary, load_library

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def encoder() -> CachedEncoder:
    return make_encoder("minilm-int8")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "var"
    shutil.rmtree(tmp_path, ignore_errors=True)


def near(memory: ReplyMemory, encoder: CachedEncoder) -> dict[str, float]:
    situation = [float(x) for x in encoder.encode(["We never talk at home any more."])[0]]
    return memory.nearness(situation, "couple", "track")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "agent.memory"]


class Shorter:
    """Another encoder: other vectors, other length."""

    name = "shorter"
    dim = 16

    def __init__(self, inner: CachedEncoder) -> None:
        self._inner = inner

    def encode(self, texts: list[str]) -> np.ndarray:
        cut = self._inner.encode(texts)[:, : self.dim]
        return (cut / np.linalg.norm(cut, axis=1, keepdims=True)).astype(np.float32)


def test_an_absent_folder_is_made_and_used_again(folder: Path, encoder: CachedEncoder) -> None:
    first = ReplyMemory(encoder, folder)
    assert first.on_disk and first.rebuilt
    found = near(first, encoder)
    first.close()
    first.close()
    second = ReplyMemory(encoder, folder)
    assert second.on_disk and not second.rebuilt
    assert near(second, encoder) == found
    second.close()


def test_nearness_is_the_cosine_of_every_frame_of_the_strategy(encoder: CachedEncoder) -> None:
    memory = ReplyMemory(encoder)
    assert not memory.on_disk
    found = near(memory, encoder)
    frames = load_library().of("couple", "track")
    assert set(found) == {f.id for f in frames}
    situation = encoder.encode(["We never talk at home any more."])[0]
    for frame, row in zip(frames, encoder.encode([f.sample() for f in frames]), strict=True):
        assert found[frame.id] == pytest.approx(float(situation @ row), abs=1e-5)
    memory.close()
    with pytest.raises(RuntimeError, match="closed"):
        near(memory, encoder)


def test_disk_and_memory_agree(folder: Path, encoder: CachedEncoder) -> None:
    on_disk, in_memory = ReplyMemory(encoder, folder), ReplyMemory(encoder)
    here, there = near(on_disk, encoder), near(in_memory, encoder)
    assert here == pytest.approx(there, abs=1e-6)
    on_disk.close()
    in_memory.close()


def test_another_encoder_rebuilds_the_index(
    folder: Path, encoder: CachedEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    ReplyMemory(encoder, folder).close()
    other = ReplyMemory(Shorter(encoder), folder)  # type: ignore[arg-type]
    assert other.on_disk and other.rebuilt
    assert len(other.nearness([1.0] + [0.0] * 15, "family", "join")) == len(
        load_library().of("family", "join")
    )
    other.close()
    back = ReplyMemory(encoder, folder)
    assert back.on_disk and back.rebuilt
    back.close()
    assert warnings_of(caplog) == []


def test_another_library_rebuilds_the_index(folder: Path, encoder: CachedEncoder) -> None:
    ReplyMemory(encoder, folder).close()
    fewer = ReplyLibrary(load_library().frames[:-3])
    memory = ReplyMemory(encoder, folder, fewer)
    assert memory.on_disk and memory.rebuilt
    memory.close()


@pytest.mark.parametrize("key", ["chroma", "encoder", "dim", "library"])
def test_a_differing_mark_rebuilds_the_index(
    folder: Path, encoder: CachedEncoder, key: str
) -> None:
    memory = ReplyMemory(encoder, folder)
    collection = memory._client.get_collection(COLLECTION, embedding_function=None)
    marks = dict(collection.metadata)
    assert marks[key]
    collection.modify(metadata={**marks, key: 1 if key == "dim" else "0.0.1"})
    memory.close()
    again = ReplyMemory(encoder, folder)
    assert again.on_disk and again.rebuilt
    again.close()
    once_more = ReplyMemory(encoder, folder)
    assert not once_more.rebuilt
    once_more.close()


def test_missing_vectors_are_made_again(folder: Path, encoder: CachedEncoder) -> None:
    memory = ReplyMemory(encoder, folder)
    memory._collection.delete(ids=["couple.track.01"])
    memory.close()
    again = ReplyMemory(encoder, folder)
    assert again.rebuilt and "couple.track.01" in near(again, encoder)
    again.close()


HOLD = """
import sys
from pathlib import Path
from agent.encoder import make_encoder
from agent.memory import ReplyMemory
memory = ReplyMemory(make_encoder("minilm-int8"), Path(sys.argv[1]))
sys.stdout.write(f"{memory.on_disk}\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_second_process_works_from_memory_and_says_so_once(
    folder: Path, encoder: CachedEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline().strip() == "True"
    with caplog.at_level(logging.WARNING):
        memory = ReplyMemory(encoder, folder)
    assert not memory.on_disk
    assert near(memory, encoder)
    (warning,) = warnings_of(caplog)
    assert "another process" in warning
    memory.close()
    owner.communicate()
    assert owner.returncode == 0
    freed = ReplyMemory(encoder, folder)
    assert freed.on_disk and not freed.rebuilt
    freed.close()


def _spoil(path: Path, how: str) -> None:
    database = path / FOLDER / "chroma.sqlite3"
    if how == "noise":
        database.write_bytes(b"\x00\x01 not a database " * 400)
    elif how == "cut":
        database.write_bytes(database.read_bytes()[:20_000])
    elif how == "holes":
        content = bytearray(database.read_bytes())
        content[4096:60_000] = b"\xff" * (60_000 - 4096)
        database.write_bytes(bytes(content))
    elif how == "folder":
        database.unlink()
        database.mkdir()
    elif how == "file":
        shutil.rmtree(path / FOLDER)
        (path / FOLDER).write_text("in the way")


@pytest.mark.parametrize("how", ["noise", "cut", "holes", "folder", "file"])
def test_a_damaged_folder_does_not_stop_the_agent(
    folder: Path, how: str, encoder: CachedEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    ReplyMemory(encoder, folder).close()
    _spoil(folder, how)
    with caplog.at_level(logging.WARNING):
        memory = ReplyMemory(encoder, folder)
    assert not memory.on_disk
    assert near(memory, encoder)
    (warning,) = warnings_of(caplog)
    assert "delete the folder" in warning
    memory.close()


def test_a_deleted_folder_is_made_anew_at_the_next_start(
    folder: Path, encoder: CachedEncoder
) -> None:
    ReplyMemory(encoder, folder).close()
    _spoil(folder, "noise")
    ReplyMemory(encoder, folder).close()
    shutil.rmtree(folder / FOLDER)
    start = [sys.executable, "-c", HOLD, str(folder)]
    done = subprocess.run(start, cwd=ROOT, input="", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert (folder / FOLDER / "chroma.sqlite3").is_file()


def test_a_folder_lost_while_in_use_is_survived(
    folder: Path, encoder: CachedEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    memory = ReplyMemory(encoder, folder)
    memory._client.delete_collection(COLLECTION)
    with caplog.at_level(logging.WARNING):
        assert near(memory, encoder)
    assert not memory.on_disk
    (warning,) = warnings_of(caplog)
    assert "talk at home" not in warning
    memory.close()


def test_nothing_is_fetched_or_sent(
    folder: Path, encoder: CachedEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    memory = ReplyMemory(encoder, folder)
    assert near(memory, encoder)
    memory.close()

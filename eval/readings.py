"""Scores of ER and VP answers: by arithmetic, by an encoder, by BERTScore, by a judge.

ER's score is the mean of the judged emotion (1 to 5) and the intensity score
``max(1, 5 - |answer - gold|)``; VP's is ``1 + 4 * total / 6``, a straight line from the official
total of 0 to 6 onto 1 to 5. A failure and an empty answer get the lowest value of each scale; a
judge's failure leaves its item without a judged score and never touches another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from eval.judge import Judgement, item_of, viewpoint_text
from eval.metrics import OK
from eval.runner import Record
from eval.scoring import ReadingScores
from eval.store import read_lines

READINGS: Final = "readings.jsonl"
LOWEST: Final = 1.0
VP_TOTAL: Final = 6


class Similarity(Protocol):
    """Compares two texts without a judge.

    Attributes:
        key: of the figure, e.g. ``cosine``.
        encoder: names the weights; it stands in the column's header.
    """

    key: str
    encoder: str

    def compare(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return a value for each (gold, answer); the texts are not empty."""


def reading_records(records: Iterable[Record]) -> list[Record]:
    """Return the ER and VP records."""
    return [r for r in records if r.task in ("er", "vp")]


def reading_scores(
    records: Iterable[Record],
    judge: str | None = None,
    judgements: Mapping[str, Judgement] | None = None,
    similarities: Sequence[Similarity] = (),
) -> dict[tuple[str, int, str], dict[str, float | None]]:
    """Return every score of every ER and VP record.

    Args:
        records: of any tasks.
        judge: the judge's name, None without a judge.
        judgements: by key.
        similarities: measures that need no judge.
    """
    chosen = reading_records(records)
    found = {key_of(r): _arithmetic(r) for r in chosen}
    for measure in similarities:
        pairs = [_texts(r) for r in chosen]
        full = [i for i, (_, answer) in enumerate(pairs) if answer]
        values = iter(measure.compare([pairs[i] for i in full]) if full else ())
        by_place = dict(zip(full, values, strict=True))
        for place, record in enumerate(chosen):
            found[key_of(record)][measure.key] = float(by_place.get(place, 0.0))
    if judge is not None:
        for record in chosen:
            found[key_of(record)].update(_judged(record, judge, judgements or {}))
    return found


def key_of(record: Record) -> tuple[str, int, str]:
    """Return the key of a record's scores."""
    return (record.variant, record.repeat, record.unit)


def to_lines(scores: ReadingScores) -> list[dict[str, Any]]:
    """Return scores as lines of ``readings.jsonl``."""
    return [
        {"variant": v, "repeat": r, "unit": u, "scores": dict(values)}
        for (v, r, u), values in scores.items()
    ]


def read_scores(folder: Path) -> dict[tuple[str, int, str], dict[str, float | None]]:
    """Return the scores a run folder holds; none when it was never scored.

    Raises:
        StoreError: when the file is damaged.
    """
    return {
        (line["variant"], line["repeat"], line["unit"]): line["scores"]
        for line in read_lines(folder, READINGS)
    }


class Cosine:
    """Cosine of sentence vectors; negative values count as 0.

    Args:
        encoder: an :class:`agent.encoder.Encoder`.
    """

    key = "cosine"

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self.encoder: str = encoder.name

    def compare(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return the cosines."""
        gold = self._encoder.encode([a for a, _ in pairs])
        answer = self._encoder.encode([b for _, b in pairs])
        return [float(x) for x in np.clip((gold * answer).sum(1), 0.0, 1.0)]


class BertScore:
    """BERTScore F1 through the package bert-score, not rescaled, from weights on the disk.

    Args:
        folder: a transformers model; only distilbert-base-uncased is what the paper used.
        name: shown in the header; the folder's name when None.

    Raises:
        ModuleNotFoundError: when bert-score is not installed (it comes with the extra "dev").
        OSError: when the folder holds no model.
    """

    key = "bertscore_f1"

    def __init__(self, folder: Path, name: str | None = None) -> None:
        from bert_score.utils import model2layers

        with (folder / "config.json").open(encoding="utf-8") as file:
            config = json.load(file)
        named = name or folder.name
        depth = int(config.get("num_hidden_layers") or config.get("n_layers") or 0)
        self._layer = int(model2layers.get(named, depth))
        self._folder = folder
        self.encoder = f"{named}, layer {self._layer}"

    def compare(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return the F1 values."""
        from bert_score import BERTScorer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        scorer = BERTScorer(
            model_type=str(self._folder), num_layers=self._layer, device="cpu", batch_size=32
        )
        _, _, f1 = scorer.score([answer for _, answer in pairs], [gold for gold, _ in pairs])
        return [float(x) for x in f1]


def _arithmetic(record: Record) -> dict[str, float | None]:
    answer = record.answer if record.status == OK else None
    if record.task == "er":
        given = answer.get("intensity") if answer else None
        if given is None:
            return {"intensity_score": LOWEST, "intensity_error": None}
        apart = abs(int(given) - int(record.gold["intensity"]))
        return {"intensity_score": max(LOWEST, 5.0 - apart), "intensity_error": float(apart)}
    gold = {(source, target) for source, target, _ in record.gold}
    made = {(source, target) for source, target, _ in answer["viewpoints"]} if answer else set()
    hit = len(gold & made)
    return {
        "pair_precision": hit / len(made) if made else 0.0,
        "pair_recall": hit / len(gold),
        "pair_f1": 2 * hit / (len(gold) + len(made)),
    }


def _judged(
    record: Record, judge: str, judgements: Mapping[str, Judgement]
) -> dict[str, float | None]:
    item = item_of(record)
    made = judgements.get(item.key(judge)) if item else None
    said = made.scores if made is not None and made.status == OK else None
    if record.task == "er":
        emotion = LOWEST if item is None else float(said["emotion"]) if said else None
        strength = _arithmetic(record)["intensity_score"] or LOWEST
        mean = None if emotion is None else (emotion + strength) / 2
        return {"emotion_score": emotion, "score": mean}
    total = 0.0 if item is None else float(said["pairing"] + said["viewpoint"]) if said else None
    return {"total": total, "score": None if total is None else 1 + 4 * total / VP_TOTAL}


def _texts(record: Record) -> tuple[str, str]:
    answer = record.answer if record.status == OK else None
    if record.task == "er":
        return str(record.gold["emotion"]), str(answer["emotion"]).strip() if answer else ""
    return viewpoint_text(record.gold), viewpoint_text(answer["viewpoints"]) if answer else ""

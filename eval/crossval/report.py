"""From the folds' answers to the figures: metrics, intervals, calibration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agent.policies.local.heads import log_softmax
from agent.train.calibrate import best_temperature
from eval.crossval.folds import FULL, INFERRED, LAST, PLAIN, PRIOR
from eval.instances import Task
from eval.runner import Record
from eval.stats import Interval, intervals
from eval.units import units_of

Array = NDArray[np.float64]
Answer = Mapping[str, Any]

NATURAL: Final = "itp_natural"
BARS: Final[tuple[tuple[str, str, str, float, float], ...]] = (
    ("rpp", "couple", "recall_at_1", 0.43, 0.46),
    ("rpp", "couple", "mrr", 0.61, 0.63),
    ("rpp", "couple", "macro_f1", 0.26, 0.30),
    ("ssp", "all", "recall_at_1", 0.333, 0.373),
    ("ssp", "all", "mrr", 0.497, 0.520),
    ("stp", "couple", "recall_at_1", 0.65, 0.68),
    ("stp", "couple", "mrr", 0.80, 0.82),
    ("stp", "family", "recall_at_1", 0.47, 0.52),
    ("itp", "all", "auc", 0.61, 0.65),
    (NATURAL, "all", "auc", 0.69, 0.73),
    ("itp", "all", "balanced_accuracy", 0.58, 0.61),
)
"""Task, scope, figure, what the first study reached, what is aimed at."""
SHOWN: Final[tuple[tuple[str, str, str], ...]] = (
    ("itp", "all", "auc"),
    ("itp", "all", "balanced_accuracy"),
    (NATURAL, "all", "auc"),
    ("rpp", "couple", "recall_at_1"),
    ("rpp", "couple", "mrr"),
    ("rpp", "couple", "macro_f1"),
    ("rpp", "family", "recall_at_1"),
    ("rpp", "family", "mrr"),
    ("stp", "couple", "recall_at_1"),
    ("stp", "couple", "mrr"),
    ("stp", "family", "recall_at_1"),
    ("stp", "family", "mrr"),
    ("ssp", "all", "recall_at_1"),
    ("ssp", "all", "mrr"),
    ("ssp", "couple", "recall_at_1"),
    ("ssp", "couple", "mrr"),
    ("ssp", "family", "recall_at_1"),
    ("ssp", "family", "mrr"),
)
_BINS: Final = 10


def temperatures(folds: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str, str, str], float]:
    """Return (fold, variant, task, scenario) -> temperature, fitted on the other folds' answers.

    A temperature changes no ranking; it only says how far the probabilities may be trusted.
    """
    keyed: dict[tuple[str, str, str], dict[int, list[Answer]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for fold in folds:
        for answer in fold["answers"]:
            if answer["variant"] in (FULL, INFERRED):
                key = (answer["variant"], answer["task"], _shared(answer))
                keyed[key][fold["fold"]].append(answer)
    out = {}
    for (variant, task, scenario), by_fold in keyed.items():
        for k in by_fold:
            rest = [a for j, found in by_fold.items() if j != k for a in found]
            if not any(a["gold"] in a["scores"] for a in rest):
                continue  # nothing to fit on: probabilities stay as they are
            scores, gold = _matrix(rest)
            out[k, variant, task, scenario] = best_temperature([scores], [gold])
    return out


def _shared(answer: Answer) -> str:
    return "" if answer["task"] in ("itp", "stp") else str(answer["scenario"])


def _matrix(answers: Sequence[Answer]) -> tuple[Array, NDArray[np.int64]]:
    known = [a for a in answers if a["gold"] in a["scores"]]
    most = max(len(a["scores"]) for a in known)
    scores, gold = np.full((len(known), most), -1e9), np.zeros(len(known), dtype=np.int64)
    for row, answer in enumerate(known):
        values = np.log(np.clip(list(answer["scores"].values()), 1e-6, None))
        scores[row, : len(values)] = values
        gold[row] = list(answer["scores"]).index(answer["gold"])
    return scores, gold


def probabilities(answer: Answer, temperature: float) -> dict[str, float]:
    """Return an answer's calibrated probabilities."""
    logs = np.log(np.clip(list(answer["scores"].values()), 1e-6, None))[None] / temperature
    if answer["offset"]:
        logs = logs + np.array(answer["offset"])
    return dict(zip(answer["scores"], np.exp(log_softmax(logs))[0].tolist(), strict=True))


def records_of(
    folds: Sequence[Mapping[str, Any]], balanced: frozenset[tuple[str, int]]
) -> dict[tuple[str, str], list[Record]]:
    """Return (variant, task) -> records; ITP stands twice, balanced and natural."""
    heat = temperatures(folds)
    out: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for fold in folds:
        for answer in fold["answers"]:
            key = (fold["fold"], answer["variant"], answer["task"], _shared(answer))
            shares = probabilities(answer, heat.get(key, 1.0))
            record = _record(answer, shares)
            if answer["task"] != "itp":
                out[answer["variant"], answer["task"]].append(record)
                continue
            out[answer["variant"], NATURAL].append(record)
            if (answer["sample_id"], answer["row"]) in balanced:
                out[answer["variant"], "itp"].append(record)
    return dict(out)


def _record(answer: Answer, shares: Mapping[str, float]) -> Record:
    ranking = sorted(shares, key=lambda label: -shares[label])
    return Record(
        unit=f"{answer['task']}/{answer['sample_id']}/{answer['row']}",
        task=answer["task"],
        sample_id=answer["sample_id"],
        row=answer["row"],
        variant=answer["variant"],
        scenario=answer["scenario"],
        group=answer["group"],
        gold=answer["gold"],
        ranking=[*ranking, "", "", ""][:3] if answer["task"] != "itp" else ranking[:1],
        probabilities=dict(shares),
    )


def figures(
    records: Mapping[tuple[str, str], Sequence[Record]], seed: int = 0
) -> dict[str, dict[str, dict[str, dict[str, Interval]]]]:
    """Return variant -> task -> scope -> figure -> value with its group-bootstrap interval."""
    out: dict[str, dict[str, dict[str, dict[str, Interval]]]] = defaultdict(dict)
    for (variant, task), found in records.items():
        official: Task = "itp" if task == NATURAL else found[0].task
        units = units_of(official, found)
        out[variant][task] = {
            scope: intervals(units.scope(scope), seed) for scope in ("all", "couple", "family")
        }
    return dict(out)


def calibration(records: Sequence[Record]) -> dict[str, Any]:
    """Return the expected calibration error and the reliability bins of first answers.

    ITP is judged by the probability of "yes", the rest by that of the first label.
    """
    pairs = []
    for record in records:
        if record.task == "itp":
            pairs.append((record.probabilities["yes"], float(record.gold == "yes")))
        else:
            first = record.ranking[0]
            pairs.append((record.probabilities[first], float(first == record.gold)))
    place = [min(_BINS - 1, int(p * _BINS)) for p, _ in pairs]
    bins = []
    for b in range(_BINS):
        here = [pair for pair, at in zip(pairs, place, strict=True) if at == b]
        if here:
            said, found = (fsum(x) / len(here) for x in zip(*here, strict=True))
            bins.append({"n": len(here), "said": said, "found": found})
    error = fsum(b["n"] * abs(b["said"] - b["found"]) for b in bins) / max(1, len(pairs))
    return {"ece": error, "bins": bins, "n": len(pairs)}


def timing(records: Mapping[tuple[str, str], Sequence[Record]]) -> dict[str, Any]:
    """Return how the agent would speak at natural prevalence, at a probability of one half.

    Always speaking has the F1 ``f1_always``; ``best`` is the threshold with the best balanced
    accuracy over all held-out turns, with its figures (an upper bound: chosen on these turns).
    """
    found = records[FULL, NATURAL]
    said = np.array([r.probabilities["yes"] for r in found])
    gold = np.array([r.gold == "yes" for r in found])

    def at(threshold: float) -> dict[str, float]:
        speaks = said >= threshold
        hit = float((speaks & gold).sum())
        return {
            "threshold": threshold,
            "speaks": float(speaks.mean()),
            "silence_accuracy": float((~speaks)[~gold].mean()),
            "recall": float(speaks[gold].mean()),
            "f1": 2 * hit / float(speaks.sum() + gold.sum()),
        }

    steps = [round(0.2 + 0.01 * i, 2) for i in range(61)]
    best = max(steps, key=lambda t: at(t)["recall"] + at(t)["silence_accuracy"])
    share = float(gold.mean())
    return {
        "n": len(found),
        "prevalence": share,
        "f1_always": 2 * share / (1 + share),
        "half": at(0.5),
        "best": at(best),
    }


def addressees(folds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how often the inferred addressee is the annotated one, by kind of addressee."""
    rows = [row for fold in folds for row in fold["addressees"]]
    out: dict[str, Any] = {}
    for speaker, by_agent in (("participant", False), ("support", True)):
        here = [r for r in rows if r["by_agent"] is by_agent]
        out[speaker] = {"n": len(here), "right": _share(here)}
        for kind in ("therapist", "person", "group"):
            of_kind = [r for r in here if r["gold"] == kind]
            if of_kind:
                out[speaker][kind] = {"n": len(of_kind), "right": _share(of_kind)}
    out["all"] = {"n": len(rows), "right": _share(rows)}
    return out


def _share(rows: Sequence[Mapping[str, Any]]) -> float:
    return sum(bool(r["right"]) for r in rows) / max(1, len(rows))


def level1(folds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what the level-1 heads get right, beside the simplest answers."""
    total: dict[str, float] = defaultdict(float)
    kinds: dict[str, float] = defaultdict(float)
    for fold in folds:
        for name, value in fold["level1"].items():
            if name == "utterance_counts":
                for kind, count in value.items():
                    kinds[kind] += count
            else:
                total[name] += value
    return {
        "utterance_accuracy": total["utterance_right"] / total["utterance_n"],
        "utterance_majority": max(kinds.values()) / total["utterance_n"],
        "intensity_error": total["intensity_error"] / total["intensity_n"],
        "intensity_error_of_a_constant": total["intensity_error_constant"] / total["intensity_n"],
        "move_accuracy": total["move_right"] / total["move_n"],
    }


def against_bars(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the bars with what was reached."""
    out = []
    for task, scope, figure, least, aim in BARS:
        value = found[FULL][task][scope][figure]
        state = "aim" if value.value >= aim else "met" if value.value >= least else "missed"
        out.append(
            {
                "task": task,
                "scope": scope,
                "figure": figure,
                "value": value.value,
                "low": value.low,
                "high": value.high,
                "least": least,
                "aim": aim,
                "state": state,
            }
        )
    return out


__all__ = ["FULL", "INFERRED", "LAST", "PLAIN", "PRIOR"]

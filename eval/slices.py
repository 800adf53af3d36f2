"""Where answers are right and wrong: slices, confusion, transitions, calibration, thresholds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from agent.labels import PATTERNS, STRATEGIES, Scenario
from agent.rescue import Sample
from agent.rescue.annotations import gold_pattern, participants_of, scenario_of
from eval.metrics import OK
from eval.runner import Record
from eval.scoring import itp_prediction, ranking_prediction

FACTS: Final = "facts.json"
"""What the slices need to know of each sample; labels and counts, no text."""
POSITION_BINS: Final = 5
LENGTH_EDGES: Final = (20, 40, 60)
CALIBRATION_BINS: Final = 10
THRESHOLDS: Final = tuple(i / 20 for i in range(21))
NO_PATTERN: Final = "none yet"

Facts = Mapping[str, Mapping[str, Any]]


def facts_of(samples: Iterable[Sample]) -> dict[str, dict[str, Any]]:
    """Return, by sample: rows, participants, and the annotated pattern by row."""
    found = {}
    for sample in samples:
        scenario = scenario_of(sample)
        patterns = {
            str(row): label
            for row, content in enumerate(sample.rows, 1)
            if (label := gold_pattern(content, scenario)) is not None
        }
        found[sample.sample_id] = {
            "rows": len(sample.rows),
            "participants": len(participants_of(sample)),
            "patterns": patterns,
        }
    return found


def slices(records: Sequence[Record], facts: Facts) -> dict[str, Any]:
    """Return variant -> task -> dimension -> value -> ``{n, right}`` (share of right answers).

    Dimensions: scenario, group, label (the gold), position (fifths of the conversation, the
    paper's Figure 4), after_pattern (the last annotated pattern before the row, Figure 3),
    length (rows) and participants. ER and VP have no right and wrong and are left out.
    """
    counted: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for record in records:
        if record.repeat or record.task in ("er", "vp"):
            continue
        right = is_right(record)
        for dimension, value in _places(record, facts.get(record.sample_id)):
            entry = counted[record.variant, record.task, dimension, value]
            entry[0] += 1
            entry[1] += right
    found: dict[str, Any] = {}
    for (variant, task, dimension, value), (n, hits) in sorted(counted.items()):
        place = found.setdefault(variant, {}).setdefault(task, {}).setdefault(dimension, {})
        place[value] = {"n": n, "right": hits / n}
    return found


def is_right(record: Record) -> bool:
    """Return whether the first answer of a decision record is the gold."""
    if record.task == "itp":
        return itp_prediction(record).right
    return ranking_prediction(record).rank == 1


def confusion(records: Iterable[Record]) -> dict[str, Any]:
    """Return variant -> task -> scenario -> ``{labels, answers, counts[gold][answer]}``.

    The last column counts answers outside the labels: failures and empty rankings.
    """
    grouped: dict[tuple[str, str, Scenario], Counter[tuple[str, str]]] = defaultdict(Counter)
    for r in records:
        if r.repeat == 0 and r.task in ("itp", "rpp", "ssp"):
            answer = r.ranking[0] if r.status == OK and r.ranking else ""
            grouped[r.variant, r.task, r.scenario][str(r.gold), answer] += 1
    found: dict[str, Any] = {}
    for (variant, task, scenario), counts in grouped.items():
        labels = _labels(task, scenario)
        answers = [*labels, ""]
        table = [[counts[g, a] for a in answers] for g in labels]
        entry = {"labels": list(labels), "answers": answers, "counts": table}
        found.setdefault(variant, {}).setdefault(task, {})[scenario] = entry
    return found


def transitions(records: Iterable[Record], facts: Facts) -> dict[str, Any]:
    """Return which strategy follows which pattern, in the gold and in the answers.

    variant -> scenario -> ``{patterns, strategies, gold, predicted}``: shares by row, each row
    (last annotated pattern before the support) summing to 1; the paper's Figure 3.
    """
    gold: dict[tuple[str, Scenario], Counter[tuple[str, str]]] = defaultdict(Counter)
    made: dict[tuple[str, Scenario], Counter[tuple[str, str]]] = defaultdict(Counter)
    for r in records:
        if r.repeat or r.task != "ssp":
            continue
        before = pattern_before(facts.get(r.sample_id), r.row)
        gold[r.variant, r.scenario][before, str(r.gold)] += 1
        if r.status == OK and r.ranking and r.ranking[0]:
            made[r.variant, r.scenario][before, r.ranking[0]] += 1
    found: dict[str, Any] = {}
    for (variant, scenario), counts in gold.items():
        patterns = [*PATTERNS[scenario], NO_PATTERN]
        strategies = list(STRATEGIES[scenario])
        found.setdefault(variant, {})[scenario] = {
            "patterns": patterns,
            "strategies": strategies,
            "n": [sum(counts[p, s] for s in strategies) for p in patterns],
            "gold": _shares(counts, patterns, strategies),
            "predicted": _shares(made[variant, scenario], patterns, strategies),
        }
    return found


def pattern_before(facts: Mapping[str, Any] | None, row: int) -> str:
    """Return the last annotated pattern before a row."""
    patterns = (facts or {}).get("patterns", {})
    earlier = [int(r) for r in patterns if int(r) < row]
    return str(patterns[str(max(earlier))]) if earlier else NO_PATTERN


def calibration(records: Iterable[Record]) -> dict[str, Any]:
    """Return variant -> task -> ``{bins, ece, brier, n}`` of the confidence in the first answer.

    A bin holds ``{low, high, n, confidence, right}``. For ITP the confidence is the probability
    of yes and "right" the share of gold yes; Brier score for ITP only.
    """
    grouped: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for r in records:
        if r.repeat or r.status != OK or not r.probabilities or r.task in ("er", "vp"):
            continue
        if r.task == "itp":
            grouped[r.variant, r.task].append((r.probabilities["yes"], r.gold == "yes"))
        elif r.ranking and r.ranking[0] in r.probabilities:
            confidence = r.probabilities[r.ranking[0]]
            if 0 <= confidence <= 1:
                grouped[r.variant, r.task].append((confidence, is_right(r)))
    found: dict[str, Any] = {}
    for (variant, task), pairs in grouped.items():
        found.setdefault(variant, {})[task] = _calibrated(pairs, task == "itp")
    return found


def threshold_curve(records: Iterable[Record]) -> dict[str, Any]:
    """Return variant -> list of ``{threshold, precision, recall, f1, spoken}`` for ITP.

    Failures stay wrong at every threshold: they are never a right yes.
    """
    grouped: dict[str, list[Record]] = defaultdict(list)
    for r in records:
        if r.task == "itp" and r.repeat == 0:
            grouped[r.variant].append(r)
    return {variant: [_at(t, items) for t in THRESHOLDS] for variant, items in grouped.items()}


def all_slices(records: Sequence[Record], facts: Facts) -> dict[str, Any]:
    """Return the content of ``slices.json``."""
    return {
        "slices": slices(records, facts),
        "confusion": confusion(records),
        "transitions": transitions(records, facts),
        "calibration": calibration(records),
        "threshold_curve": threshold_curve(records),
    }


def _places(record: Record, facts: Mapping[str, Any] | None) -> Iterable[tuple[str, str]]:
    yield "scenario", record.scenario
    yield "group", record.group
    yield "label", _gold_class(record)
    if facts is None:
        return
    rows = int(facts["rows"])
    fifth = min(POSITION_BINS - 1, int(POSITION_BINS * (record.row - 1) / rows))
    yield "position", f"{100 * fifth // POSITION_BINS}–{100 * (fifth + 1) // POSITION_BINS}%"
    yield "after_pattern", pattern_before(facts, record.row)
    yield "length", _length(rows)
    yield "participants", str(facts["participants"])


def _gold_class(record: Record) -> str:
    if record.task != "stp":
        return str(record.gold)
    return "group" if record.gold in ("Couple", "Family") else "person"


def _length(rows: int) -> str:
    low = 1
    for edge in LENGTH_EDGES:
        if rows <= edge:
            return f"{low:02d}–{edge}"
        low = edge + 1
    return f"{low:02d}+"


def _labels(task: str, scenario: Scenario) -> tuple[str, ...]:
    if task == "itp":
        return ("yes", "no")
    return (PATTERNS if task == "rpp" else STRATEGIES)[scenario]


def _shares(
    counts: Mapping[tuple[str, str], int], rows: Sequence[str], columns: Sequence[str]
) -> list[list[float]]:
    table = []
    for row in rows:
        total = sum(counts.get((row, c), 0) for c in columns)
        table.append([counts.get((row, c), 0) / total if total else 0.0 for c in columns])
    return table


def _calibrated(pairs: Sequence[tuple[float, bool]], brier: bool) -> dict[str, Any]:
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(CALIBRATION_BINS)]
    for confidence, right in pairs:
        bins[min(CALIBRATION_BINS - 1, int(confidence * CALIBRATION_BINS))].append(
            (confidence, right)
        )
    shown, gap = [], 0.0
    for place, items in enumerate(bins):
        if items:
            confidence = fmean(c for c, _ in items)
            share = fmean(float(x) for _, x in items)
            gap += len(items) / len(pairs) * abs(confidence - share)
            low = place / CALIBRATION_BINS
            shown.append(
                {
                    "low": low,
                    "high": low + 1 / CALIBRATION_BINS,
                    "n": len(items),
                    "confidence": confidence,
                    "right": share,
                }
            )
    found: dict[str, Any] = {"bins": shown, "ece": gap, "n": len(pairs)}
    if brier:
        found["brier"] = fmean((c - r) ** 2 for c, r in pairs)
    return found


def _at(threshold: float, records: Sequence[Record]) -> dict[str, float]:
    tp = fp = fn = spoken = 0
    for r in records:
        yes = r.status == OK and r.probabilities.get("yes", 0.0) >= threshold
        gold = r.gold == "yes"
        spoken += yes
        tp += yes and gold
        fp += (yes and not gold) or (r.status != OK and not gold)
        fn += gold and not yes
    return {
        "threshold": threshold,
        "precision": tp / (tp + fp) if tp + fp else 0.0,
        "recall": tp / (tp + fn) if tp + fn else 0.0,
        "f1": 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0,
        "spoken": spoken / len(records),
    }

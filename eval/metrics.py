"""The tasks' metrics as pure functions over prediction records.

ITP is scored as "yes" precision, recall and F1; RPP, STP and SSP by the rank of the gold
label among the first three answers (paper arXiv 2609.09657, section 4; official code
d38edcc4). Averages run over all instances pooled, and again over couples and families.

A failed call (``status`` other than "ok") is wrong, whatever was asked: at a gold "yes" it
misses, at a gold "no" it counts as a false "yes", in a ranking its rank is 0. The figures
without the failed calls stand beside, with the counts.

Where a figure is not defined:

* no instance at all: every figure is None (and ``n`` is 0);
* precision, recall or F1 with a zero denominator: 0.0, as in the official scripts;
* balanced accuracy with one gold class: the recall of that class;
* AUC with one gold class, or an answered instance without a probability: None.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final, Literal, TypeAlias, TypeVar

from agent.labels import GROUP_LABEL, Scenario

EVAL_VERSION: Final = "2"
"""Changes whenever scoring changes; runs of different versions are not compared."""

OK: Final = "ok"
"""The status of an answered instance; every other status is a failure."""

TOP: Final = 3
"""Rankings are read down to this place."""

Scope = Literal["all", "couple", "family"]
SCOPES: Final[tuple[Scope, ...]] = ("all", "couple", "family")

Figures: TypeAlias = dict[str, float | int | None]
Scoped: TypeAlias = dict[Scope, Figures]


@dataclass(frozen=True)
class ItpPrediction:
    """One ITP answer.

    Attributes:
        scenario: of the sample.
        gold: True when the therapist is next.
        answer: the policy's yes or no; None only for a failure.
        probability: of "yes", 0 to 1, or None when the policy gives none.
        status: "ok" or why there is no answer.

    Raises:
        ValueError: for an "ok" without an answer or a probability outside 0 to 1.
    """

    scenario: Scenario
    gold: bool
    answer: bool | None
    probability: float | None = None
    status: str = OK

    def __post_init__(self) -> None:
        if self.status == OK and self.answer is None:
            raise ValueError("an ITP prediction with status 'ok' needs an answer")
        if self.probability is not None and not 0.0 <= self.probability <= 1.0:
            raise ValueError("a probability lies between 0 and 1")

    @property
    def right(self) -> bool:
        """Whether the answer equals the gold; a failure never does."""
        return self.status == OK and self.answer == self.gold


@dataclass(frozen=True)
class RankingPrediction:
    """One RPP, STP or SSP answer; ``ranking`` is best first, see :func:`top_ranking`."""

    scenario: Scenario
    gold: str
    ranking: tuple[str, ...] = ()
    status: str = OK

    @property
    def rank(self) -> int:
        """The gold's place (1-3) in the ranking, 0 when it is not there or the call failed."""
        top = self.ranking[:TOP]
        if self.status != OK or not self.gold or self.gold not in top:
            return 0
        return top.index(self.gold) + 1


Prediction: TypeAlias = ItpPrediction | RankingPrediction
P = TypeVar("P", ItpPrediction, RankingPrediction)


def top_ranking(answers: Iterable[str], candidates: Iterable[str]) -> tuple[str, ...]:
    """Returns the first three valid answers, as the official scripts clean them.

    Answers are stripped; repeated ones and non-candidates are dropped; ``""`` fills up to
    three. Nothing is taken from the candidates in place of a missing answer.
    """
    allowed = frozenset(candidates)
    stripped = (answer.strip() for answer in answers)
    kept = list(dict.fromkeys(answer for answer in stripped if answer and answer in allowed))
    return tuple((kept + [""] * TOP)[:TOP])


def itp_metrics(predictions: Iterable[ItpPrediction]) -> Scoped:
    """Returns the ITP figures under ``all``, ``couple`` and ``family``.

    Keys: ``precision_yes, recall_yes, f1_yes, accuracy, balanced_accuracy, auc, n`` and the
    counts ``tp, fp, fn, tn``. All rates are 0 to 1.
    """
    return _by_scope(tuple(predictions), _itp_figures)


def ranking_metrics(
    predictions: Iterable[RankingPrediction],
    class_of: Callable[[Scenario, str], Hashable] | None = None,
) -> Scoped:
    """Returns the ranking figures under ``all``, ``couple`` and ``family``.

    Keys: ``recall_at_1, recall_at_2, recall_at_3, mrr, macro_f1, n`` and ``gold_rank`` (the
    mean rank, where "not in the first three" is 0). All rates are 0 to 1; ``recall_at_1`` is
    RPP's accuracy.

    Args:
        predictions: the records of one task.
        class_of: what counts as one class for ``macro_f1``. By default a label within its
            scenario; names are no classes, so STP uses :func:`target_class`.
    """

    def figures(scope: Sequence[RankingPrediction]) -> Figures:
        return _ranking_figures(scope, class_of or label_class)

    return _by_scope(tuple(predictions), figures)


def target_class(scenario: Scenario, label: str) -> Hashable:
    """Returns STP's class of a target: "group" or "person", in either scenario."""
    return "group" if label == GROUP_LABEL[scenario] else "person"


def answered(predictions: Iterable[P]) -> tuple[P, ...]:
    """Returns the predictions without the failures ("errors excluded")."""
    return tuple(prediction for prediction in predictions if prediction.status == OK)


@dataclass(frozen=True)
class Outcome:
    """How many instances were planned, how many were answered, and what the rest met."""

    planned: int
    scored: int
    errors: int
    by_status: dict[str, int]

    @property
    def error_rate(self) -> float:
        """The share of failures among the planned instances (0.0 when none was planned)."""
        return self.errors / self.planned if self.planned else 0.0


def outcome(predictions: Iterable[Prediction]) -> Outcome:
    """Counts the statuses of the predictions."""
    by_status = Counter(prediction.status for prediction in predictions)
    planned = by_status.total()
    return Outcome(planned, by_status[OK], planned - by_status[OK], dict(sorted(by_status.items())))


def _by_scope(predictions: tuple[P, ...], figures: Callable[[Sequence[P]], Figures]) -> Scoped:
    scoped: Scoped = {"all": figures(predictions)}
    for scope in SCOPES[1:]:
        scoped[scope] = figures([p for p in predictions if p.scenario == scope])
    return scoped


def _itp_figures(predictions: Sequence[ItpPrediction]) -> Figures:
    n = len(predictions)
    tp = sum(p.gold and p.right for p in predictions)
    tn = sum(not p.gold and p.right for p in predictions)
    fn = sum(p.gold for p in predictions) - tp
    fp = n - tp - tn - fn
    recalls = [hit / (hit + miss) for hit, miss in ((tp, fn), (tn, fp)) if hit + miss]
    rates: Figures = {
        "precision_yes": _ratio(tp, tp + fp),
        "recall_yes": _ratio(tp, tp + fn),
        "f1_yes": _f1(tp, fp, fn),
        "accuracy": _ratio(tp + tn, n),
        "balanced_accuracy": _ratio(sum(recalls), len(recalls)),
        "auc": _auc(predictions),
    }
    counts: Figures = {"n": n, "tp": tp, "fp": fp, "fn": fn, "tn": tn}
    return (rates if n else dict.fromkeys(rates)) | counts


def _auc(predictions: Sequence[ItpPrediction]) -> float | None:
    """Returns P(a gold "yes" scores above a gold "no"), ties half; failures score worst."""
    scores: dict[bool, list[float]] = {True: [], False: []}
    for prediction in predictions:
        if prediction.status != OK:
            scores[prediction.gold].append(-1.0 if prediction.gold else 2.0)
        elif prediction.probability is None:
            return None
        else:
            scores[prediction.gold].append(prediction.probability)
    yes, no = scores[True], sorted(scores[False])
    if not yes or not no:
        return None
    halves = sum(bisect_left(no, score) + bisect_right(no, score) for score in yes)
    return halves / (2 * len(yes) * len(no))


def _ranking_figures(
    predictions: Sequence[RankingPrediction], class_of: Callable[[Scenario, str], Hashable]
) -> Figures:
    ranks = [prediction.rank for prediction in predictions]
    n = len(ranks)
    rates: Figures = {
        f"recall_at_{k}": _ratio(sum(1 <= rank <= k for rank in ranks), n)
        for k in range(1, TOP + 1)
    }
    rates["mrr"] = _ratio(fsum(1 / rank for rank in ranks if rank), n)
    rates["macro_f1"] = _macro_f1(predictions, class_of)
    rates["gold_rank"] = _ratio(sum(ranks), n)
    return (rates if n else dict.fromkeys(rates)) | {"n": n}


def _macro_f1(
    predictions: Sequence[RankingPrediction], class_of: Callable[[Scenario, str], Hashable]
) -> float:
    """Returns the mean F1 of the first answers over the classes that occur as gold.

    A hit needs the very label; a wrong first answer is a miss of the gold's class and a
    false alarm of the answer's class (the same class, when one person is taken for another).
    """
    tp: Counter[Hashable] = Counter()
    fn: Counter[Hashable] = Counter()
    fp: Counter[Hashable] = Counter()
    for prediction in predictions:
        gold = class_of(prediction.scenario, prediction.gold)
        first = prediction.ranking[0] if prediction.ranking else ""
        if prediction.rank == 1:
            tp[gold] += 1
            continue
        fn[gold] += 1
        if prediction.status == OK and first:
            fp[class_of(prediction.scenario, first)] += 1
    classes = tp.keys() | fn.keys()
    scores = [_f1(tp[name], fp[name], fn[name]) for name in classes]
    return _ratio(fsum(scores), len(scores))


def label_class(scenario: Scenario, label: str) -> Hashable:
    """Returns a label's class: the label within its scenario (``join`` differs by scenario)."""
    return (scenario, label)


def _f1(tp: int, fp: int, fn: int) -> float:
    return _ratio(2 * tp, 2 * tp + fp + fn)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0

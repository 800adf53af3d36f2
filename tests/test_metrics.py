from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.labels import PATTERNS, STRATEGIES, Scenario
from eval.instances import build_instances
from eval.metrics import (
    ItpPrediction,
    RankingPrediction,
    answered,
    itp_metrics,
    outcome,
    ranking_metrics,
    target_class,
    top_ranking,
)
from tests.rescue_data import golden, train_dev

SCENARIO = st.sampled_from(["couple", "family"])
STATUS = st.sampled_from(["ok", "ok", "ok", "timeout", "refused"])
LABELS = ("a", "b", "c", "d")
ITP = st.builds(ItpPrediction, SCENARIO, st.booleans(), st.booleans(), st.floats(0, 1), STATUS)
RANKING = st.builds(
    RankingPrediction,
    SCENARIO,
    st.sampled_from(LABELS),
    st.permutations(LABELS).map(lambda labels: tuple(labels[:3])),
    STATUS,
)


def digest(*parts: object) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def pseudo(instance: Any, labels: tuple[str, ...]) -> RankingPrediction:
    ranked = sorted(labels, key=lambda label: digest(instance.sample_id, instance.row, label))
    return RankingPrediction(instance.scenario, instance.gold, top_ranking(ranked[:3], labels))


def assert_equal(ours: Any, official: dict[str, dict[str, float]]) -> None:
    for scope, figures in official.items():
        for name, value in figures.items():
            assert ours[scope][name] == pytest.approx(value, rel=0, abs=1e-9), (scope, name)


@pytest.mark.rescue
@pytest.mark.parametrize("task", ["itp", "rpp", "stp", "ssp"])
def test_the_metrics_equal_the_official_ones(task: str) -> None:
    instances = build_instances(train_dev().samples)
    metrics = {
        "itp": lambda: itp_metrics(
            ItpPrediction(i.scenario, i.gold == "yes", digest(i.sample_id, i.row)[0] < "8")
            for i in instances.itp
        ),
        "rpp": lambda: ranking_metrics(pseudo(i, PATTERNS[i.scenario]) for i in instances.rpp),
        "stp": lambda: ranking_metrics(pseudo(i, i.candidates) for i in instances.stp),
        "ssp": lambda: ranking_metrics(pseudo(i, STRATEGIES[i.scenario]) for i in instances.ssp),
    }
    assert_equal(metrics[task](), golden()["metrics"][task])


@given(st.lists(ITP), st.randoms(use_true_random=False))
def test_itp_does_not_depend_on_order_or_duplication(
    predictions: list[ItpPrediction], rng: random.Random
) -> None:
    shuffled = predictions[:]
    rng.shuffle(shuffled)
    figures = itp_metrics(predictions)
    assert itp_metrics(shuffled) == figures
    doubled = itp_metrics(predictions * 2)
    for scope, values in figures.items():
        for name, value in values.items():
            expected = value * 2 if name in ("n", "tp", "fp", "fn", "tn") and value else value
            assert doubled[scope][name] == pytest.approx(expected)


@given(st.lists(RANKING), st.randoms(use_true_random=False))
def test_rankings_do_not_depend_on_order_or_duplication(
    predictions: list[RankingPrediction], rng: random.Random
) -> None:
    shuffled = predictions[:]
    rng.shuffle(shuffled)
    figures = ranking_metrics(predictions)
    assert ranking_metrics(shuffled) == figures
    doubled = ranking_metrics(predictions * 2)
    for scope, values in figures.items():
        for name, value in values.items():
            expected = value * 2 if name == "n" and value else value
            assert doubled[scope][name] == pytest.approx(expected)


@given(st.lists(ITP, min_size=1))
def test_itp_figures_stay_in_range_and_scopes_add_up(predictions: list[ItpPrediction]) -> None:
    figures = itp_metrics(predictions)
    assert figures["all"]["n"] == len(predictions)
    for name in ("n", "tp", "fp", "fn", "tn"):
        parts = [figures[scope][name] for scope in ("couple", "family")]
        assert figures["all"][name] == sum(part for part in parts if part is not None)
    for values in figures.values():
        assert all(v is None or v >= 0 for v in values.values())
        rates = ("precision_yes", "recall_yes", "f1_yes", "accuracy", "balanced_accuracy", "auc")
        assert all(values[name] is None or values[name] <= 1 for name in rates)


@given(st.lists(RANKING, min_size=1))
def test_ranking_figures_are_ordered(predictions: list[RankingPrediction]) -> None:
    v = ranking_metrics(predictions)["all"]
    assert 0 <= v["recall_at_1"] <= v["mrr"] <= v["recall_at_3"] <= 1
    assert v["recall_at_1"] <= v["recall_at_2"] <= v["recall_at_3"]
    assert 0 <= v["macro_f1"] <= 1


@given(st.lists(ITP, min_size=1), st.lists(RANKING, min_size=1))
def test_a_failure_is_never_better_than_any_answer(
    itp: list[ItpPrediction], rankings: list[RankingPrediction]
) -> None:
    failed = ItpPrediction(itp[0].scenario, itp[0].gold, None, None, "timeout")
    ours, worse = itp_metrics(itp)["all"], itp_metrics([failed, *itp[1:]])["all"]
    for name in ("precision_yes", "recall_yes", "f1_yes", "accuracy", "balanced_accuracy", "auc"):
        assert worse[name] is None or worse[name] <= ours[name] + 1e-12
    lost = RankingPrediction(rankings[0].scenario, rankings[0].gold, (), "timeout")
    before = ranking_metrics(rankings)["all"]
    after = ranking_metrics([lost, *rankings[1:]])["all"]
    for name in ("recall_at_1", "recall_at_2", "recall_at_3", "mrr"):
        assert after[name] <= before[name] + 1e-12


@given(st.lists(RANKING), st.lists(ITP))
def test_failures_are_counted_and_can_be_left_out(
    rankings: list[RankingPrediction], itp: list[ItpPrediction]
) -> None:
    for predictions in (rankings, itp):
        counted = outcome(predictions)
        assert counted.planned == counted.scored + counted.errors == len(predictions)
        assert sum(counted.by_status.values()) == counted.planned
        assert 0 <= counted.error_rate <= 1
    assert len(answered(rankings)) == outcome(rankings).scored


def itp(gold: str, answers: str, probabilities: list[float] | None = None) -> Any:
    scores = probabilities or [None] * len(gold)
    return itp_metrics(
        ItpPrediction("couple", g == "y", a == "y", p)
        for g, a, p in zip(gold, answers, scores, strict=True)
    )["couple"]


def test_itp_all_right_and_all_wrong() -> None:
    right = itp("yynn", "yynn", [0.9, 0.8, 0.2, 0.1])
    wrong = itp("yynn", "nnyy", [0.1, 0.2, 0.8, 0.9])
    for name in ("precision_yes", "recall_yes", "f1_yes", "accuracy", "balanced_accuracy", "auc"):
        assert (right[name], wrong[name]) == (1.0, 0.0)


def test_itp_always_yes_scores_two_thirds() -> None:
    assert itp("ynyn", "yyyy")["f1_yes"] == pytest.approx(2 / 3)


def test_itp_where_a_class_or_everything_is_missing() -> None:
    only_no = itp("nn", "nn", [0.1, 0.2])
    assert (only_no["precision_yes"], only_no["recall_yes"], only_no["f1_yes"]) == (0.0, 0.0, 0.0)
    assert (only_no["accuracy"], only_no["balanced_accuracy"], only_no["auc"]) == (1.0, 1.0, None)
    assert itp("", "") == dict.fromkeys(only_no) | {"n": 0, "tp": 0, "fp": 0, "fn": 0, "tn": 0}


def test_auc_counts_ties_half_and_needs_probabilities() -> None:
    assert itp("yn", "yy", [0.5, 0.5])["auc"] == 0.5
    assert itp("yynn", "yyyy", [0.9, 0.4, 0.4, 0.1])["auc"] == 0.875
    assert itp("yn", "yy")["auc"] is None


def test_an_itp_failure_is_wrong_at_either_gold() -> None:
    failures = [ItpPrediction("family", gold, None, None, "http") for gold in (True, False)]
    figures = itp_metrics(failures)["family"]
    assert (figures["fn"], figures["fp"], figures["accuracy"]) == (1, 1, 0.0)
    assert itp_metrics(answered(failures))["family"]["n"] == 0


@pytest.mark.parametrize(
    ("answer", "probability"), [(None, 0.5), (True, 1.5), (True, float("nan"))]
)
def test_an_itp_answer_must_be_one(answer: bool | None, probability: float) -> None:
    with pytest.raises(ValueError, match=r"ITP prediction|probability"):
        ItpPrediction("couple", True, answer, probability)


def ranked(scenario: Scenario, gold: str, *ranking: str, status: str = "ok") -> RankingPrediction:
    return RankingPrediction(scenario, gold, ranking, status)


def test_rankings_all_right_all_wrong_and_empty() -> None:
    right = ranking_metrics([ranked("couple", "a", "a", "b"), ranked("family", "b", "b")])["all"]
    wrong = ranking_metrics([ranked("couple", "a", "b", "c"), ranked("family", "b")])["all"]
    rates = ("recall_at_1", "recall_at_2", "recall_at_3", "mrr", "macro_f1")
    assert [right[name] for name in rates] == [1.0] * 5
    assert [wrong[name] for name in rates] == [0.0] * 5
    assert ranking_metrics([])["all"] == dict.fromkeys(right) | {"n": 0}


def test_a_failed_ranking_is_wrong_even_if_it_holds_the_gold() -> None:
    assert ranked("couple", "a", "a", status="parse_error").rank == 0
    assert ranked("couple", "a", "x", "y", "z", "a").rank == 0


def test_macro_f1_keeps_the_scenarios_apart() -> None:
    predictions = [ranked("couple", "join", "join"), ranked("family", "join", "track")]
    assert ranking_metrics(predictions)["all"]["macro_f1"] == 0.5


def test_macro_f1_of_targets_does_not_take_one_person_for_another() -> None:
    predictions = [
        ranked("couple", "Ana", "Ben"),
        ranked("couple", "Ana", "Ana"),
        ranked("couple", "Couple", "Couple"),
    ]
    figures = ranking_metrics(predictions, target_class)["couple"]
    assert figures["macro_f1"] == pytest.approx((2 / (2 + 1 + 1) + 1) / 2)


@given(st.lists(st.sampled_from([*LABELS, " a ", "junk", ""])))
def test_top_ranking(answers: list[str]) -> None:
    top = top_ranking(answers, LABELS)
    assert len(top) == 3
    kept = [answer for answer in top if answer]
    assert len(kept) == len(set(kept))
    assert set(kept) <= set(LABELS) & {answer.strip() for answer in answers}
    assert top == (*kept, *[""] * (3 - len(kept)))

"""The cross-validation's folds and figures, on a few demo conversations."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from agent.demo import demo_path
from agent.encoder import make_encoder
from agent.rescue.reader import load_dataset
from agent.train.corpus import Corpus, points, read_corpus
from agent.train.fit import Plan
from agent.train.second import Recipe
from eval.crossval import report
from eval.crossval.folds import FOLDS, FULL, INFERRED, ablations, fold_of, run_fold


@cache
def corpus() -> Corpus:
    samples = load_dataset(demo_path()).samples
    couples = [s for s in samples if s.scenario == "couple"][:8]
    families = [s for s in samples if s.scenario == "family"][:4]
    return read_corpus([*couples, *families], make_encoder("minilm"))


@cache
def fold() -> dict[str, Any]:
    found = run_fold(corpus(), 0, Plan(sequence=None), lambda what, done, of: None)
    as_stored: dict[str, Any] = json.loads(json.dumps(found))
    return as_stored


def test_a_fold_answers_every_point_of_its_groups_once_per_variant() -> None:
    folds = fold_of(corpus())
    left = corpus().subset(g for g in corpus().groups if folds[g] == 0)
    assert set(fold()["groups"]) == {g for g, k in folds.items() if k == 0}
    for task in ("itp", "rpp", "stp", "ssp"):
        for variant in (FULL, INFERRED):
            rows = [a for a in fold()["answers"] if (a["variant"], a["task"]) == (variant, task)]
            assert len(rows) == len(points(left, task))
            assert {a["group"] for a in rows} <= set(left.groups)
    assert max(folds.values()) == FOLDS - 1


def test_ablations_leave_blocks_out() -> None:
    by_name = {a.name: a.recipe for a in ablations(Recipe())}
    assert set(by_name["vectors only"].pattern.blocks()) == {"recent_vector", "newest_vector"}
    assert by_name["structure only"].timing == ("structure",)
    assert "profiles" not in by_name["no level-1 heads"].timing
    plain = by_name["no interactions with the target"].strategy
    assert all(len(blocks) == 1 for blocks, _ in plain.terms)


def test_figures_count_and_calibrate() -> None:
    # two folds, so that a temperature can come from the other one
    folds = [fold(), {**fold(), "fold": 1}]
    heat = report.temperatures(folds)
    assert all(0.2 < t < 4 for t in heat.values())
    records = report.records_of(folds[:1], frozenset())
    figures = report.figures(records)
    assert 0 <= figures[FULL]["ssp"]["all"]["recall_at_1"].value <= 1
    found = report.calibration(records[FULL, "rpp"])
    assert sum(b["n"] for b in found["bins"]) == found["n"] == len(records[FULL, "rpp"])
    assert 0 <= found["ece"] <= 1
    timing = report.timing(records)
    assert timing["f1_always"] == pytest.approx(
        2 * timing["prevalence"] / (1 + timing["prevalence"])
    )
    assert report.addressees(folds)["all"]["n"] > 0
    assert 0 <= report.level1(folds)["utterance_accuracy"] <= 1


def test_probabilities_keep_the_order_and_sum_to_one() -> None:
    answer = {"scores": {"a": 0.5, "b": 0.3, "c": 0.2}, "offset": []}
    for temperature in (0.5, 1.0, 2.0):
        shares = report.probabilities(answer, temperature)
        assert sum(shares.values()) == pytest.approx(1)
        assert list(shares) == sorted(shares, key=lambda k: -shares[k])
    assert report.probabilities(answer, 1.0)["a"] == pytest.approx(0.5)

"""Statistics: properties of the tables, the bootstrap, paired tests, and frozen values."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.labels import STRATEGIES
from eval.live import timing_figures
from eval.metrics import EVAL_VERSION
from eval.runner import Record
from eval.scoring import score, task_metrics
from eval.statistics import compare_pairs, statistics, unit_tables
from eval.stats import difference, draws, holm, intervals, mcnemar
from eval.units import units_of
from tests.rescue_data import REPO

GOLDEN = Path(__file__).with_name("golden_eval.json")
CANDIDATES = ["Ana", "Ben", "Couple"]


def make_records(variant: str = "v", seed: int = 0, skill: float = 0.5) -> list[Record]:
    """Four tasks, ten couples and four families, some failures."""
    draw = random.Random(f"{variant}/{seed}")
    golds = random.Random("gold")
    records = []
    for number in range(140):
        family = number % 14 >= 10
        scenario = "family" if family else "couple"
        task = ("itp", "stp", "ssp", "rpp")[number // 14 % 4]
        labels = {
            "itp": ["yes", "no"],
            "stp": CANDIDATES,
            "ssp": list(STRATEGIES[scenario]),
            "rpp": ["pursue_withdraw", "repair_softening", "mixed_transition"],
        }[task]
        gold = golds.choice(labels)
        order = draw.sample(labels, len(labels))
        if draw.random() < skill:
            order = [gold, *(x for x in order if x != gold)]
        status = "timeout" if draw.random() < 0.1 else "ok"
        ok = status == "ok"
        records.append(
            Record(
                unit=f"u{number:03d}",
                task=task,
                sample_id=f"s{number % 14}",
                row=number + 1,
                variant=variant,
                scenario=scenario,
                group=f"g{number % 14}",
                gold=gold,
                status=status,
                ranking=(order[:1] if task == "itp" else order[:3]) if ok else [],
                probabilities={"yes": draw.random()} if ok and task == "itp" else {},
                candidates=CANDIDATES if task == "stp" else None,
                supported=gold == "yes" and golds.random() < 0.6 if task == "itp" else None,
            )
        )
    return records


def of(task: str, records: list[Record]) -> list[Record]:
    return [r for r in records if r.task == task]


@pytest.mark.parametrize("task", ["itp", "stp", "ssp", "rpp"])
def test_tables_give_the_very_metrics(task: str) -> None:
    records = of(task, make_records())
    metrics = task_metrics(task, records)  # type: ignore[arg-type]
    for scope in ("all", "couple", "family"):
        found = intervals(units_of(task, records).scope(scope))  # type: ignore[arg-type]
        assert set(found) <= set(metrics[scope])
        for name, interval in found.items():
            assert interval.value == pytest.approx(metrics[scope][name], abs=1e-12), name
            assert interval.low is not None and interval.high is not None
            assert interval.low <= interval.high


@given(st.randoms(use_true_random=False))
def test_the_order_of_units_changes_nothing(shuffle: random.Random) -> None:
    records = make_records()
    mixed = list(records)
    shuffle.shuffle(mixed)
    assert _rounded(score(mixed)) == _rounded(score(records))
    one, two = statistics(records, resamples=50), statistics(mixed, resamples=50)
    assert _rounded(one["intervals"]) == _rounded(two["intervals"])


def test_doubled_units_change_no_rate() -> None:
    records = make_records()
    twin = [r.model_copy(update={"unit": f"{r.unit}b"}) for r in records]
    for task in ("itp", "stp", "ssp", "rpp"):
        one = task_metrics(task, of(task, records))["all"]  # type: ignore[arg-type]
        two = task_metrics(task, of(task, records + twin))["all"]  # type: ignore[arg-type]
        for name in set(one) - {"n", "tp", "fp", "fn", "tn"}:
            assert two[name] == pytest.approx(one[name], abs=1e-12), name
        assert two["n"] == 2 * one["n"]
        # a couple's turns said twice are no further evidence
        a = intervals(units_of(task, of(task, records)))  # type: ignore[arg-type]
        b = intervals(units_of(task, of(task, records + twin)))  # type: ignore[arg-type]
        for name in a:
            assert (a[name].low, a[name].high) == pytest.approx((b[name].low, b[name].high))


@pytest.mark.parametrize(("right", "value"), [(True, 1.0), (False, 0.0)])
def test_all_right_and_all_wrong(right: bool, value: float) -> None:
    records = []
    for r in make_records():
        wrong = "no" if r.gold == "yes" else "yes" if r.task == "itp" else "junk"
        answer = r.gold if right else wrong
        yes = {"yes": float(answer == "yes")} if r.task == "itp" else {}
        records.append(
            r.model_copy(update={"status": "ok", "ranking": [answer], "probabilities": yes})
        )
    found = statistics(records, resamples=50)
    for task, metric in (("itp", "f1_yes"), ("itp", "auc"), ("stp", "mrr"), ("rpp", "macro_f1")):
        figure = found["intervals"]["v"][task]["all"][metric]
        assert (figure["value"], figure["low"], figure["high"]) == (value, value, value)


def test_one_class_missing() -> None:
    records = [r.model_copy(update={"gold": "yes"}) for r in of("itp", make_records())]
    found = intervals(units_of("itp", records))
    assert "auc" not in found
    assert found["balanced_accuracy"].value == found["recall_yes"].value
    assert found["precision_yes"].value == 1.0


def test_draws_keep_couples_and_families_apart_and_are_the_same_everywhere() -> None:
    units = units_of("itp", of("itp", make_records()))
    groups = tuple(sorted(set(units.clusters), key=lambda c: (c.scenario, c.group)))
    weights = draws(groups, 3, 200)
    families = np.asarray([g.scenario == "family" for g in groups])
    assert set(weights[:, families].sum(1)) == {float(families.sum())}
    assert set(weights[:, ~families].sum(1)) == {float((~families).sum())}
    code = (
        "from tests.test_eval_stats import *;"
        "print(intervals(units_of('itp', of('itp', make_records())), 5)['f1_yes'])"
    )
    command = [sys.executable, "-c", code]
    here = str(intervals(units, 5)["f1_yes"])
    there = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_a_variant_does_not_differ_from_itself() -> None:
    one = units_of("ssp", of("ssp", make_records()))
    found = difference(one, one, "recall_at_1")
    assert found is not None
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert found.mcnemar_p == 1 and found.detectable == 0


def test_differences_are_of_the_shared_units_and_change_sign() -> None:
    a = unit_tables(make_records("a", skill=0.2))["a"]["stp"]
    b = unit_tables(make_records("b", skill=0.8)[:-20])["b"]["stp"]
    one, two = difference(a, b, "mrr"), difference(b, a, "mrr")
    assert one is not None and two is not None
    assert one.units == len(set(a.ids) & set(b.ids)) < len(a.ids)
    assert one.value == pytest.approx(-two.value) and one.value > 0
    assert one.low == pytest.approx(-two.high) and one.p == pytest.approx(two.p)
    assert one.low <= one.value <= one.high
    assert (one.only_a, one.only_b) == (two.only_b, two.only_a)


def test_a_paired_interval_is_narrower_than_two_separate_ones() -> None:
    """Couples differ much, the two variants little: only the paired interval can tell."""
    draw = random.Random(1)
    records = []
    for group in range(30):
        ease = draw.random()
        for turn in range(20):
            right = draw.random() < ease
            for variant in "ab":
                answer = "x" if right or (variant == "b" and turn == 0) else "y"
                records.append(
                    Record(
                        unit=f"{group}/{turn}",
                        task="rpp",
                        sample_id=str(group),
                        row=turn + 1,
                        variant=variant,
                        scenario="couple",
                        group=str(group),
                        gold="x",
                        ranking=[answer],
                    )
                )
    tables = unit_tables(records)
    found = difference(tables["a"]["rpp"], tables["b"]["rpp"], "recall_at_1")
    alone = [intervals(tables[v]["rpp"])["recall_at_1"] for v in "ab"]
    assert found is not None and 0 < found.low < found.value
    assert alone[0].high > alone[1].low  # type: ignore[operator]
    assert found.p < 0.05


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 5), (8, 8), (3, 12)])
def test_mcnemar_is_the_exact_binomial(a: int, b: int) -> None:
    n = a + b
    tail = sum(comb(n, i) for i in range(min(a, b) + 1)) / 2**n
    assert mcnemar(a, b) == pytest.approx(min(1.0, 2 * tail))
    assert mcnemar(a, b) == mcnemar(b, a)


def test_mcnemar_of_many_units_joins_on() -> None:
    assert mcnemar(540, 470) == pytest.approx(0.030, abs=0.002)
    assert mcnemar(500, 499) == pytest.approx(1, abs=0.02)


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=6))
def test_holm(p: dict[str, float]) -> None:
    adjusted = holm(p)
    assert list(adjusted) == list(p)
    for name in p:
        assert p[name] <= adjusted[name] <= min(1.0, len(p) * p[name]) or adjusted[name] >= p[name]
    order = sorted(p, key=lambda n: p[n])
    values = [adjusted[name] for name in order]
    assert values == sorted(values)
    if p:
        assert adjusted[order[0]] == min(1.0, len(p) * p[order[0]])


def test_comparisons_name_their_metric_and_correct_over_tasks() -> None:
    tables = unit_tables([*make_records("a", skill=0.1), *make_records("b", skill=0.9)])
    entry = compare_pairs(tables, [("a", "b")])[0]
    assert entry["scope"] == "all" and list(entry["tasks"]) == ["itp", "rpp", "stp", "ssp"]
    for task, found in entry["tasks"].items():
        assert found["metric"] == ("f1_yes" if task == "itp" else "recall_at_1")
        assert found["p"] <= found["p_holm"] <= 1 and found["mcnemar_p"] <= found["mcnemar_p_holm"]


def test_failures_count_as_wrong_and_the_figure_without_them_stands_beside() -> None:
    metrics = score(make_records())["v"]
    for figures in metrics.values():
        counted = figures["outcome"]
        assert counted["planned"] == counted["scored"] + counted["errors"]
        assert counted["by_status"]["timeout"] == counted["errors"] > 0
        assert figures["all"]["n"] == counted["planned"]
        assert figures["errors_excluded"]["all"]["n"] == counted["scored"]
    rate = metrics["ssp"]["all"]["recall_at_1"]
    assert rate < metrics["ssp"]["errors_excluded"]["all"]["recall_at_1"]


def test_rpp_as_published_counts_unlabelled_rows_as_wrong() -> None:
    records = make_records()
    figures = score(records, rpp_unlabelled={"couple": 10, "family": 3})["v"]["rpp"]
    n, accuracy = figures["all"]["n"], figures["all"]["recall_at_1"]
    assert figures["as_published"]["all"]["n"] == n + 13
    assert figures["as_published"]["all"]["accuracy"] == pytest.approx(n * accuracy / (n + 13))


def _itp(rows: str, answers: str) -> list[Record]:
    return [
        Record(
            unit=str(i),
            task="itp",
            sample_id="s",
            row=i,
            variant="v",
            scenario="couple",
            group="g",
            gold="yes" if gold == "y" else "no",
            ranking=["yes" if answer == "y" else "no"],
        )
        for i, (gold, answer) in enumerate(zip(rows, answers, strict=True), 1)
    ]


def test_silence_and_latency() -> None:
    figures = timing_figures(_itp("nynnyny", "nnynnny"))["all"]
    assert figures["prevalence"] == pytest.approx(3 / 7)
    assert figures["silence_accuracy"] == pytest.approx(3 / 4)
    assert figures["moments"] == 3
    # one turn late, missed, at once
    assert figures["met"] == pytest.approx(2 / 3)
    assert figures["latency_turns"] == pytest.approx(1 / 2)
    assert figures["met_at_once"] == pytest.approx(1 / 3)
    assert timing_figures([])["all"] == {"n": 0}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in sorted(value.items())}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return round(value, 9) if isinstance(value, float) else value


def frozen() -> dict[str, Any]:
    records = [*make_records("a", skill=0.3), *make_records("b", skill=0.7)]
    return {
        "metrics": score(records, rpp_unlabelled={"couple": 4, "family": 2}),
        "statistics": statistics(records, resamples=400),
    }


def test_scoring_equals_the_frozen_values() -> None:
    """When this fails on purpose: raise EVAL_VERSION and write the file again (see below)."""
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert kept["eval_version"] == EVAL_VERSION
    assert json.loads(json.dumps(_rounded(frozen()))) == kept["values"]


if __name__ == "__main__":
    content = {"eval_version": EVAL_VERSION, "values": _rounded(frozen())}
    GOLDEN.write_text(json.dumps(content) + "\n", encoding="utf-8")

"""The run folder's rules one by one, and the slices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval.runner import Record
from eval.slices import NO_PATTERN, all_slices, pattern_before, threshold_curve
from eval.store import (
    CALLS,
    ERRORS,
    PREDICTIONS,
    ChangedRun,
    RunStore,
    StoreError,
    read_lines,
    read_records,
)


def record(unit: str, sample: str = "s1", **more: Any) -> Record:
    fields: dict[str, Any] = {
        "unit": unit,
        "task": "itp",
        "sample_id": sample,
        "row": 1,
        "variant": "v",
        "scenario": "couple",
        "group": "g",
        "gold": "yes",
        "ranking": ["yes"],
        "probabilities": {"yes": 0.7},
        **more,
    }
    return Record(**fields)


def manifest(**more: Any) -> dict[str, Any]:
    batches = [
        {"variant": "v", "repeat": 0, "sample_id": sample, "units": 2} for sample in ("s1", "s2")
    ]
    shaping: dict[str, Any] = {
        "eval_version": "x",
        "configuration": {"seed": 0, "llm": {"model": "m"}},
        "data": {"sha256": "d"},
        "policies": {"v": "1"},
        "prompts": {"labels/a.yaml": "p", "safety/b.yaml": "q"},
        "units_sha256": "u",
    }
    return {**shaping, "batches": batches, **more}


S1 = [record("a"), record("b", status="timeout", ranking=[], probabilities={}, error="late")]
S2 = [record("c", "s2"), record("d", "s2")]


def test_batches_are_kept_and_found_again(tmp_path: Path) -> None:
    with RunStore(tmp_path, manifest()) as store:
        assert not store.resumed and not store.done
        store.add(S1, calls=[{"kind": "decision"}])
    with RunStore(tmp_path, manifest()) as store:
        assert store.resumed and store.done == {("v", 0, "s1")} and store.records == S1
        store.add(S2)
    assert read_records(tmp_path) == [*S1, *S2]
    errors = read_lines(tmp_path, ERRORS)
    assert [(e["unit"], e["status"], e["error"]) for e in errors] == [("b", "timeout", "late")]


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_what_a_kill_leaves_is_cut_off(tmp_path: Path, cut: int) -> None:
    with RunStore(tmp_path, manifest()) as store:
        store.add(S1)
        whole = (tmp_path / PREDICTIONS).read_bytes()
        store.add(S2, calls=[{"kind": "decision"}])
    content = (tmp_path / PREDICTIONS).read_bytes()
    (tmp_path / PREDICTIONS).write_bytes(content[: -min(cut, len(content) - len(whole))])
    (tmp_path / CALLS).write_bytes((tmp_path / CALLS).read_bytes() + b'{"kind": "deci')
    with RunStore(tmp_path, manifest()) as store:
        assert store.done == {("v", 0, "s1")}
        assert (tmp_path / PREDICTIONS).read_bytes() == whole
        store.add(S2)
    assert (tmp_path / PREDICTIONS).read_bytes() == content
    assert read_lines(tmp_path, CALLS) == [{"kind": "decision"}]


def test_finished_predictions_stand_in_the_plans_order(tmp_path: Path) -> None:
    with RunStore(tmp_path, manifest()) as store:
        store.add(S2)
        store.add(S1)
        store.finish({("v", 0, unit): place for place, unit in enumerate("abcd")})
    assert [r.unit for r in read_records(tmp_path)] == list("abcd")


def test_only_transient_failures_are_run_again_on_demand(tmp_path: Path) -> None:
    refused = [record("c", "s2", status="refused", ranking=[]), record("d", "s2")]
    with RunStore(tmp_path, manifest()) as store:
        store.add(S1)
        store.add(refused)
    with RunStore(tmp_path, manifest(), retry=True) as store:
        assert store.done == {("v", 0, "s2")}
    assert [e["status"] for e in read_lines(tmp_path, ERRORS)] == ["refused"]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"configuration": {"seed": 1, "llm": {"model": "m"}}}, "configuration.seed"),
        ({"configuration": {"seed": 0, "llm": {"model": "n"}}}, "configuration.llm.model"),
        ({"data": {"sha256": "e"}}, "data.sha256"),
        ({"policies": {"v": "2"}}, "policies.v"),
        ({"prompts": {"labels/a.yaml": "z", "safety/b.yaml": "q"}}, "prompts.labels/a.yaml"),
        ({"eval_version": "y"}, "eval_version"),
    ],
)
def test_a_change_is_refused_with_its_key(tmp_path: Path, change: dict[str, Any], key: str) -> None:
    RunStore(tmp_path, manifest()).close()
    with pytest.raises(ChangedRun) as caught:
        RunStore(tmp_path, manifest(**change))
    assert caught.value.keys == (key,) and key in str(caught.value)
    RunStore(tmp_path, manifest(**change), fresh=True).close()


def test_texts_that_shape_no_decision_may_change(tmp_path: Path) -> None:
    RunStore(tmp_path, manifest()).close()
    prompts = {"labels/a.yaml": "p", "safety/b.yaml": "other", "judges/er.md": "new"}
    RunStore(tmp_path, manifest(prompts=prompts, commit="later")).close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with RunStore(tmp_path, manifest()), pytest.raises(StoreError, match="another process"):
        RunStore(tmp_path, manifest())
    RunStore(tmp_path, manifest()).close()


def test_damage_inside_a_file_is_named_and_nothing_is_thrown_away(tmp_path: Path) -> None:
    with RunStore(tmp_path, manifest()) as store:
        store.add(S1)
    path = tmp_path / PREDICTIONS
    content = path.read_bytes().replace(b'"unit":"a"', b'"unit":', 1)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"predictions\.jsonl, line 1 "):
        RunStore(tmp_path, manifest())
    assert path.read_bytes() == content


def test_answers_without_a_manifest_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / PREDICTIONS).write_text("somebody's\n")
    with pytest.raises(StoreError, match="without a manifest"):
        RunStore(tmp_path, manifest())
    assert (tmp_path / PREDICTIONS).read_text() == "somebody's\n"


FACTS = {
    "s1": {
        "rows": 10,
        "participants": 2,
        "patterns": {"2": "attack_attack", "6": "mixed_transition"},
    }
}


def test_slices_add_up_to_the_whole() -> None:
    records = [
        record(str(row), row=row, gold=gold, ranking=["yes"], probabilities={"yes": row / 10})
        for row, gold in enumerate(["yes", "no"] * 5, 1)
    ]
    records.append(record("e", row=10, status="http", ranking=[], probabilities={}))
    found = all_slices(records, FACTS)
    for values in found["slices"]["v"]["itp"].values():
        assert sum(v["n"] for v in values.values()) == len(records)
        assert sum(v["n"] * v["right"] for v in values.values()) == pytest.approx(5)
    positions = found["slices"]["v"]["itp"]["position"]
    assert list(positions) == ["0–20%", "20–40%", "40–60%", "60–80%", "80–100%"]
    confusion = found["confusion"]["v"]["itp"]["couple"]
    assert confusion["answers"] == ["yes", "no", ""]
    assert confusion["counts"] == [[5, 0, 1], [5, 0, 0]]
    assert found["calibration"]["v"]["itp"]["n"] == 10
    json.dumps(found, allow_nan=False)


def test_the_pattern_before_a_row() -> None:
    assert pattern_before(FACTS["s1"], 2) == NO_PATTERN
    assert pattern_before(FACTS["s1"], 6) == "attack_attack"
    assert pattern_before(FACTS["s1"], 7) == "mixed_transition"
    assert pattern_before(None, 3) == NO_PATTERN


def test_transitions_set_predicted_against_gold() -> None:
    records = [
        record("a", task="ssp", row=3, gold="reframe", ranking=["evoke", "", ""]),
        record("b", task="ssp", row=4, gold="track", ranking=["evoke", "", ""]),
        record("c", task="ssp", row=9, gold="track", ranking=["track", "", ""]),
    ]
    entry = all_slices(records, FACTS)["transitions"]["v"]["couple"]
    row = entry["patterns"].index("attack_attack")
    gold = dict(zip(entry["strategies"], entry["gold"][row], strict=True))
    made = dict(zip(entry["strategies"], entry["predicted"][row], strict=True))
    assert (gold["reframe"], gold["track"], made["evoke"], entry["n"][row]) == (0.5, 0.5, 1, 2)


def test_the_threshold_curve_ends_at_always_yes() -> None:
    records = [record("a", gold="yes"), record("b", gold="no", probabilities={"yes": 0.2})]
    curve = {p["threshold"]: p for p in threshold_curve(records)["v"]}
    assert curve[0]["f1"] == pytest.approx(2 / 3) and curve[0]["spoken"] == 1
    assert curve[0.5]["f1"] == 1 and curve[1.0]["f1"] == 0

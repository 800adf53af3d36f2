from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.demo import demo_path
from agent.rescue import DataError, load_dataset, parse_sample, read_dataset
from agent.rescue.annotations import even_positions, relation_label, scenario_of, target_label
from agent.rescue.reader import MAX_SAMPLE_BYTES
from agent.rescue.splits import (
    SplitError,
    collection_of,
    group_of,
    missing_ids,
    select,
    split_ids,
    split_table,
)
from tests.rescue_data import REPO, make_row, make_sample, strategy, train_dev

GOOD = make_sample(make_row("Ana", "Ben", "Hello."), make_row("Therapist", "Ana", "Mm-hm."))


def write(folder: Path, *samples: Any, name: str = "data.jsonl", head: str = "") -> Path:
    path = folder / name
    lines = (s if isinstance(s, str) else json.dumps(s) for s in samples)
    path.write_text(head + "".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def faults(path: Path) -> list[str]:
    return [str(fault) for fault in read_dataset(path).faults]


def test_a_sound_file_is_read(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, GOOD))
    assert [sample.sample_id for sample in dataset.samples] == ["own/one"]
    assert dataset.n_rows == 2
    assert len(dataset.sha256) == 64


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf%s\n",
        b"%s\r\n",
        b"%s",
        b"%s\n\n  \n\r\n",
        b"\n%s\n",
    ],
    ids=["BOM", "CRLF", "no newline", "trailing blank lines", "leading blank line"],
)
def test_harmless_things_are_read(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(raw % json.dumps(GOOD).encode())
    assert load_dataset(path).n_rows == 2


def test_absent_null_and_empty_fields_mean_the_same(tmp_path: Path) -> None:
    names = ("internal_emotion", "support_strategy", "utterance_type", "start_time")
    absent = make_row("Ana", "Ben")
    samples = [
        make_sample(absent | {name: value for name in names}, sample_id=f"own/{value!r}")
        for value in (None, "")
    ]
    first, second = load_dataset(write(tmp_path, *samples)).samples
    (bare,) = load_dataset(write(tmp_path, make_sample(absent))).samples
    assert first.rows == second.rows == bare.rows


def test_mojibake_odd_times_and_single_names_are_no_faults(tmp_path: Path) -> None:
    row = make_row("Ana", text="It\u00e2s fine", start_time="01:02.5", end_time=3) | {"target": "B"}
    (sample,) = load_dataset(write(tmp_path, make_sample(row, row))).samples
    assert sample.rows[0].start_time == 62.5
    assert sample.rows[0].target == ("B",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"sample_id": "own/x", "rows": [', "broken JSON at character"),
        ('{"sample_id": "own/x", "rows": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "broken JSON"),
        ('{"sample_id": "own/x", "rows": [' + "9" * 5000 + "]}", "number too long"),
        ("[1, 2]", "expected an object, found a list"),
        ('"text"', "expected an object, found a text"),
        ("null", "expected an object, found null"),
        ('{"rows": []}', "missing column sample_id"),
        ('{"sample_id": 7, "rows": []}', "sample_id is not a text"),
        ('{"sample_id": "own/x"}', "sample own/x: missing column rows"),
        ('{"sample_id": "own/x", "rows": {}}', "rows: expected a list, found an object"),
        ('{"sample_id": "own/x", "rows": []}', "rows is empty"),
        (json.dumps(make_sample(7, sample_id="own/x")), "sample own/x, row 1: "),
        (
            json.dumps(make_sample({"primary_speaker": "Ana", "target": []}, sample_id="own/x")),
            "sample own/x, row 1: missing column dialogue_cleaned",
        ),
        (
            json.dumps(make_sample(make_row("A") | {"target": 5}, sample_id="own/x")),
            "row 1: target: ",
        ),
        (
            json.dumps(
                make_sample(make_row("A"), make_row("A", internal_emotion=[{"intensity": "high"}]))
            ),
            "row 2: internal_emotion.0.intensity: ",
        ),
        (json.dumps(make_sample(make_row("A", text="\ud800"))), "half of a surrogate pair"),
        (json.dumps(make_sample(make_row("A", utterance_type="joke"))), "utterance type 'joke'"),
        (
            json.dumps(make_sample(make_row("Therapist", support_strategy=strategy("boundary")))),
            "row 1: unknown couple strategy 'boundary'",
        ),
        (
            json.dumps(
                make_sample(make_row("Therapist", "Family", relation_pattern="attack_attack"))
            ),
            "row 1: unknown family pattern 'attack_attack'",
        ),
    ],
)
def test_every_fault_names_its_place(tmp_path: Path, line: str, expected: str) -> None:
    path = write(tmp_path, GOOD | {"sample_id": "own/good"}, line)
    found = faults(path)
    assert len(found) == 1
    assert found[0].startswith(f"{path}:2")
    assert expected in found[0]
    assert read_dataset(path).samples[0].sample_id == "own/good"
    with pytest.raises(DataError, match=r"data\.jsonl:2"):
        load_dataset(path)


def test_a_duplicate_id_is_a_fault_and_the_first_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, GOOD | {"rows": GOOD["rows"][:1]})
    assert faults(path) == [
        f"{path}:2, sample own/one: duplicate id, first seen in {path}:1",
    ]
    assert len(read_dataset(path).samples[0].rows) == 2


def test_all_faults_are_collected(tmp_path: Path) -> None:
    bad = make_row("Ana", utterance_type="joke")
    path = write(tmp_path, "{", make_sample(bad, bad), "3")
    assert [(f.line, f.sample, f.row) for f in read_dataset(path).faults] == [
        (1, None, None),
        (2, "own/one", 1),
        (2, "own/one", 2),
        (3, None, None),
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf\r\n \n", "the file is empty"),
        (b'{"sample_id": "caf\xe9"}\n', "not UTF-8 (byte 19)"),
        ("{}".encode("utf-16"), "is UTF-16"),
        (b"\x00\x01\x02", "broken JSON"),
    ],
)
def test_an_unreadable_file_is_one_clear_fault(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    (found,) = faults(path)
    assert expected in found


def test_a_missing_path_and_an_empty_folder_are_faults(tmp_path: Path) -> None:
    assert "no such file" in faults(tmp_path / "none.jsonl")[0]
    assert "holds no samples" in faults(tmp_path)[0]


def test_a_line_of_100_mb_is_refused_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"sample_id": "')
        stream.write(b"x" * 100_000_000)
        stream.write(b'"}\n' + json.dumps(GOOD).encode() + b"\n")
    dataset = read_dataset(path)
    (fault,) = dataset.faults
    assert fault.line == 1
    assert f"{MAX_SAMPLE_BYTES // 1024 // 1024} MiB" in fault.message
    assert dataset.n_rows == 2


def test_faults_show_no_conversation_text(tmp_path: Path) -> None:
    secret = "what only the two of them know"
    row = make_row("Ana", text=secret, start_time=secret, utterance_type=secret * 5)
    wrong = make_row("Ana", text=secret, internal_emotion=[{"intensity": secret}])
    path = write(tmp_path, make_sample(row, wrong), '{"rows": "' + secret)
    with pytest.raises(DataError) as error:
        load_dataset(path)
    assert secret not in str(error.value)
    assert error.value.__cause__ is None


def test_the_folder_form_is_read(tmp_path: Path) -> None:
    for name in ("family_therapy/003/merged", "ana_and_ben/001"):
        file = tmp_path / f"{name}.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"rows": GOOD["rows"]}).encode())
    dataset = load_dataset(tmp_path)
    assert [(s.sample_id, scenario_of(s)) for s in dataset.samples] == [
        ("ana_and_ben/001", "couple"),
        ("family_therapy/003/merged", "family"),
    ]
    (tmp_path / "ana_and_ben" / "002.json").write_text("{")
    assert faults(tmp_path)[0].startswith(str(tmp_path / "ana_and_ben" / "002.json"))


def test_a_folder_with_the_benchmark_file_is_read_through_it(tmp_path: Path) -> None:
    write(tmp_path, GOOD, name="other.jsonl")
    assert load_dataset(tmp_path).n_rows == 2
    write(tmp_path, GOOD, name="another.jsonl")
    assert "several .jsonl files" in faults(tmp_path)[0]
    write(tmp_path, GOOD, GOOD | {"sample_id": "own/two"}, name="benchmark_191.jsonl")
    assert len(load_dataset(tmp_path).samples) == 2


def test_one_decoded_sample_is_validated() -> None:
    assert parse_sample({"rows": GOOD["rows"]}, default_id="own/x").sample_id == "own/x"
    with pytest.raises(DataError, match="export, sample own/x, row 1"):
        parse_sample(make_sample({}, sample_id="own/x"), "export")


def test_the_relation_field_depends_on_the_scenario() -> None:
    row = make_row("Therapist", "Ana", relation_pattern="attack_attack")
    both = row | {"relation_cycle_state": ""}
    rows = parse_sample(make_sample(row, both)).rows
    assert [relation_label(r, "couple") for r in rows] == [None, ""]
    assert [relation_label(r, "family") for r in rows] == ["attack_attack", "attack_attack"]


def test_not_a_number_is_a_fault_and_a_pair_of_surrogates_is_none(tmp_path: Path) -> None:
    row = make_row("Ana", text="\U0001f642", start_time="nan")
    (fault,) = read_dataset(write(tmp_path, make_sample(row))).faults
    assert (fault.row, "finite" in fault.message) == (1, True)


def test_target_label() -> None:
    assert target_label(["", "Therapist"], "couple") == ""
    assert target_label(["Therapist", " Ana "], "couple") == "Ana"
    assert target_label(["Ana", "Ben"], "family") == "Family"


@given(st.integers(0, 400), st.integers(0, 400))
def test_even_positions(length: int, n: int) -> None:
    positions = even_positions(length, n)
    assert list(positions) == sorted(set(positions))
    assert len(positions) == min(length, n)
    assert all(0 <= position < length for position in positions)
    if 2 <= n <= length:
        assert (positions[0], positions[-1]) == (0, length - 1)


def test_the_splits_divide_no_group() -> None:
    assert [len(split_ids(name)) for name in ("train", "dev", "test", "all")] == [121, 30, 40, 191]
    table = split_table()
    groups = [set(table.splits[name]) for name in ("train", "dev", "test")]
    assert not groups[0] & groups[1] and not groups[0] & groups[2] and not groups[1] & groups[2]
    assert len(set(split_ids("all"))) == 191
    assert group_of("family_therapy/003/merged") == group_of("family_therapy/010/merged")
    assert group_of("own/one") == "own/one"
    with pytest.raises(SplitError, match="'dav'"):
        split_ids("dav")


def test_the_demo_set_is_sound_and_split() -> None:
    dataset = load_dataset(demo_path())
    assert collection_of(dataset.by_id) == "demo"
    assert set(split_ids("all", "demo")) == set(dataset.by_id)
    for sample in dataset.samples:
        folder = sample.sample_id.split("/")[1]
        assert scenario_of(sample) == sample.scenario == folder
    for name in ("train", "dev", "test"):
        chosen = select(dataset, name)
        assert {scenario_of(sample) for sample in chosen.samples} == {"couple", "family"}


def test_own_data_has_no_splits(tmp_path: Path) -> None:
    dataset = load_dataset(write(tmp_path, GOOD))
    assert select(dataset, "all") is dataset
    with pytest.raises(SplitError, match="use split 'all'"):
        select(dataset, "dev")


@pytest.mark.rescue
def test_train_dev_is_read_without_faults() -> None:
    dataset = train_dev()
    assert (len(dataset.samples), dataset.n_rows) == (151, 5531)
    assert len(select(dataset, "train").samples) == 121
    assert len(select(dataset, "dev").samples) == 30
    assert len(missing_ids(dataset, "all", "rescue")) == 40
    with pytest.raises(SplitError, match="no sample of the split 'test'"):
        select(dataset, "test")


def test_no_benchmark_text_is_committed() -> None:
    assert not list((REPO / "agent" / "rescue").glob("*.jsonl"))

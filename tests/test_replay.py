"""The command ``python -m eval.replay`` from end to end, on the bundled demo conversations."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent.demo import demo_path
from tests.rescue_data import REPO

FLOORS = ("floor-always-yes", "floor-majority", "floor-random", "floor-last-speaker")


def environment(tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KITH_", "OPENAI_"))}
    return {**kept, "KITH_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}


def replay(
    tmp_path: Path, *arguments: str, module: str = "eval.replay", **more: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=REPO,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def floors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("floors")
    out = folder / "run"
    done = replay(folder, "--variant", "floors", "--out", str(out), "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout


def test_the_files_of_a_run(floors: tuple[Path, str]) -> None:
    out, _ = floors
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["configuration"]["variants"] == list(FLOORS)
    assert len(manifest["configuration_sha256"]) == len(manifest["data"]["sha256"]) == 64
    assert {"commit", "dirty", "packages", "prompts", "seed", "eval_version"} <= set(manifest)
    assert manifest["packages"]["numpy"] and manifest["packages"]["python"]
    assert "labels/couple_strategies.yaml" in manifest["prompts"]
    planned = {unit[0] for unit in manifest["units"]}
    predictions = lines(out / "predictions.jsonl")
    assert {p["unit"] for p in predictions} <= planned
    assert sum(b["units"] for b in manifest["batches"]) == len(predictions)
    keys = {"task", "sample_id", "row", "variant", "ranking", "probabilities", "gold", "status"}
    assert all(keys <= set(p) for p in predictions)
    twice = Counter((p["variant"], p["unit"]) for p in predictions)
    assert set(twice.values()) == {1}
    assert not (out / "errors.jsonl").read_text()


def test_metrics_are_by_variant_task_and_scope(floors: tuple[Path, str]) -> None:
    metrics = json.loads((floors[0] / "metrics.json").read_text())
    assert list(metrics) == list(FLOORS)
    for tasks in metrics.values():
        for task, figures in tasks.items():
            assert {"all", "couple", "family", "outcome"} <= set(figures)
            scopes = [figures[s]["n"] for s in ("couple", "family")]
            assert figures["all"]["n"] == sum(scopes)
            wanted = {"precision_yes", "recall_yes", "f1_yes", "accuracy", "auc"}
            wanted |= {"balanced_accuracy"}
            if task != "itp":
                wanted = {"recall_at_1", "recall_at_2", "recall_at_3", "mrr", "macro_f1"}
            assert wanted <= set(figures["all"])


def test_known_values_of_the_floors(floors: tuple[Path, str]) -> None:
    metrics = json.loads((floors[0] / "metrics.json").read_text())
    for scope in ("all", "couple", "family"):
        itp = metrics["floor-always-yes"]["itp"][scope]
        assert itp["f1_yes"] == pytest.approx(2 / 3)
        assert itp["recall_yes"] == 1 and itp["auc"] == itp["balanced_accuracy"] == 0.5
    reference = json.loads((floors[0] / "statistics.json").read_text())["reference"]["chance"]
    assert reference["itp"]["all"]["f1_yes"] == pytest.approx(0.5)
    assert reference["ssp"]["couple"]["recall_at_1"] == pytest.approx(1 / 10)
    assert reference["ssp"]["family"]["recall_at_1"] == pytest.approx(1 / 8)


def test_the_table_says_what_it_is(floors: tuple[Path, str]) -> None:
    _, printed = floors
    for text in ("DEMO DATA", "floor-always-yes", "66.7", "chance", "DeepSeek-V4-Pro", "45.6"):
        assert text in printed
    assert "planned" in printed and "2,605" in printed


def test_reference_lines_equal_the_floors_as_variants(
    floors: tuple[Path, str], tmp_path: Path
) -> None:
    for context in ("-1", "2"):
        one, two = tmp_path / f"one{context}", tmp_path / f"two{context}"
        common = ("--no-report", "--context", context)
        replay(tmp_path, "--variant", "floor-random", "--out", str(one), *common)
        replay(tmp_path, "--variant", "floors", "--out", str(two), *common)
        found = json.loads((one / "statistics.json").read_text())
        wanted = json.loads((two / "metrics.json").read_text())
        for name in set(FLOORS) - {"floor-random"}:
            assert found["reference"][name] == wanted[name]
        kept = [p for p in lines(two / "predictions.jsonl") if p["variant"] == "floor-last-speaker"]
        made = [p for p in lines(one / "references.jsonl") if p["variant"] == "floor-last-speaker"]
        assert made == kept


def test_the_same_command_again_changes_nothing(floors: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = floors
    names = ("predictions.jsonl", "metrics.json", "statistics.json", "manifest.json")
    before = {name: (out / name).read_bytes() for name in names}
    done = replay(tmp_path, "--variant", "floors", "--out", str(out), "--no-report")
    assert done.returncode == 0 and "already done" in done.stdout
    assert {name: (out / name).read_bytes() for name in names} == before


def test_a_changed_configuration_is_refused_by_name(
    floors: tuple[Path, str], tmp_path: Path
) -> None:
    out, _ = floors
    before = (out / "predictions.jsonl").read_bytes()
    arguments = ("--variant", "floors", "--out", str(out), "--seed", "7", "--context", "3")
    done = replay(tmp_path, *arguments)
    assert done.returncode == 2
    assert "configuration.seed: 0 then, 7 now" in done.stdout
    assert "configuration.context: null then, 3 now" in done.stdout
    assert (out / "predictions.jsonl").read_bytes() == before


def test_killed_at_any_moment_it_goes_on_to_the_same_result(
    floors: tuple[Path, str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = ["--variant", "floors", "--out", str(out), "--no-report"]
    kills, seen = 0, 0
    for _ in range(40):
        process = subprocess.Popen(
            [sys.executable, "-m", "eval.replay", *command],
            cwd=REPO,
            env=environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        predictions = out / "predictions.jsonl"
        while process.poll() is None:
            size = predictions.stat().st_size if predictions.exists() else 0
            if size > seen:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                # what a kill in the middle of a write leaves
                with predictions.open("ab") as file:
                    file.write(predictions.read_bytes()[:700] + b'{"unit":"half')
                seen = predictions.stat().st_size
                break
            time.sleep(0.005)
        if process.returncode == 0 or kills == 4:
            break
    assert kills
    assert replay(tmp_path, *command).returncode == 0
    for name in ("predictions.jsonl", "metrics.json", "statistics.json", "errors.jsonl"):
        assert (out / name).read_bytes() == (floors[0] / name).read_bytes(), name


def test_a_full_disk_stops_cleanly_and_loses_nothing(
    floors: tuple[Path, str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = ["--variant", "floors", "--out", str(out), "--no-report"]

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

    done = replay(tmp_path, *command, preexec_fn=small)
    assert done.returncode == 4
    assert "finished units are kept" in done.stdout and "Traceback" not in done.stderr
    assert (out / "predictions.jsonl").stat().st_size > 0
    assert replay(tmp_path, *command).returncode == 0
    assert (out / "metrics.json").read_bytes() == (floors[0] / "metrics.json").read_bytes()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file" / "run", Path("/proc/kith-run")):
        done = replay(tmp_path, "--variant", "floors", "--out", str(out))
        assert done.returncode == 4
        assert str(out) in done.stdout.replace("\n", "") and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--variant", "nobody"), "unknown variant 'nobody'"),
        (("--tasks", "itp,zzz"), "'zzz'"),
        (("--mode", "smell"), "'smell'"),
        (("--protocol", "dead"), "'dead'"),
        (("--addressees", "guessed"), "'guessed'"),
        (("--split", "tomorrow"), "unknown split"),
        (("--data", "/nowhere/at/all"), "/nowhere/at/all"),
        (("--sample-ids", "/nowhere/at/all"), "/nowhere/at/all"),
    ],
)
def test_wrong_input_ends_with_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = replay(tmp_path, "--variant", "floors", "--out", str(tmp_path / "x"), *arguments)
    assert done.returncode == 2
    assert said in done.stdout and "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "x").exists()


def test_a_dry_run_counts_and_writes_nothing(floors: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "x"
    done = replay(tmp_path, "--variant", "floors", "--out", str(out), "--dry-run")
    assert done.returncode == 0 and not out.exists()
    manifest = json.loads((floors[0] / "manifest.json").read_text())
    tasks = Counter(unit[1] for unit in manifest["units"])
    row = next(line for line in done.stdout.splitlines() if "floor-random" in line)
    assert [int(x) for x in row.replace("│", " ").split()[1:5]] == [
        tasks[t] for t in ("itp", "rpp", "stp", "ssp")
    ]


def test_samples_can_be_named_and_repeats_differ_by_seed(tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    wanted = json.loads((demo_path().parent / "splits.json").read_text())["splits"]["dev"]
    ids.write_text("\n".join([ids[0] for ids in wanted.values()][:2]) + "\n")
    out = tmp_path / "run"
    command = ("--variant", "floor-random", "--sample-ids", str(ids), "--repeats", "3")
    done = replay(tmp_path, *command, "--out", str(out), "--no-report")
    assert done.returncode == 0, done.stdout
    predictions = lines(out / "predictions.jsonl")
    assert {p["sample_id"] for p in predictions} == set(ids.read_text().split())
    assert Counter(p["repeat"] for p in predictions).keys() == {0, 1, 2}
    repeats = json.loads((out / "statistics.json").read_text())["repeats"]["floor-random"]
    assert len(repeats["itp"]["values"]) == 3 and repeats["itp"]["sd"] > 0
    metrics = json.loads((out / "metrics.json").read_text())["floor-random"]["itp"]
    assert metrics["all"]["f1_yes"] == repeats["itp"]["values"][0]


def test_the_live_protocol_asks_everywhere_and_gives_no_target(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("--variant", "floors", "--protocol", "live", "--out", str(out), "--no-report")
    done = replay(tmp_path, *command)
    assert done.returncode == 0, done.stdout
    predictions = lines(out / "predictions.jsonl")
    itp = [p for p in predictions if p["task"] == "itp" and p["variant"] == "floor-always-yes"]
    assert all((p["gold"] == "yes") == p["supported"] for p in itp)
    assert not any("known_target" in p for p in predictions)
    live = json.loads((out / "statistics.json").read_text())["live"]["floor-always-yes"]["all"]
    assert live["silence_accuracy"] == 0 and live["latency_turns"] == 0 and live["met"] == 1
    assert live["prevalence"] == pytest.approx(sum(p["supported"] for p in itp) / len(itp))
    metrics = json.loads((out / "metrics.json").read_text())["floor-random"]["ssp"]
    assert metrics["all"]["recall_at_3"] < metrics["asked_anyway"]["all"]["recall_at_3"]


def test_concurrency_changes_no_result(floors: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("--variant", "floors", "--concurrency", "4", "--out", str(out), "--no-report")
    assert replay(tmp_path, *command).returncode == 0
    for name in ("predictions.jsonl", "metrics.json"):
        assert (out / name).read_bytes() == (floors[0] / name).read_bytes()


def test_a_run_that_goes_on_encodes_as_one_never_interrupted(tmp_path: Path) -> None:
    """A vector's last digits depend on what is encoded together; nothing is cached here."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    command = ("--variant", "local", "--no-report")
    assert replay(tmp_path / "a", *command, "--out", str(whole)).returncode == 0
    shutil.copytree(whole, cut)
    kept = (whole / "predictions.jsonl").read_bytes().splitlines(keepends=True)
    (cut / "predictions.jsonl").write_bytes(b"".join(kept[: len(kept) // 2]) + b'{"unit":"ha')
    done = replay(tmp_path / "b", *command, "--out", str(cut))
    assert done.returncode == 0 and "already done" in done.stdout, done.stdout + done.stderr
    assert (cut / "predictions.jsonl").read_bytes() == b"".join(kept)

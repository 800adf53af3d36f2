"""``--counterbalance``: names and order of the people changed, answers mapped back, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.conversation import BackgroundLine, Cue, Turn, participants_of
from agent.demo import demo_path
from agent.policies.floors import LastSpeaker
from agent.rescue import load_dataset
from agent.rescue.turns import turns_of
from eval.counterbalance import SwappedReplayer, changes, failure_rate
from eval.instances import DECISION_TASKS, build_instances
from eval.points import Point, build_points
from eval.runner import Record, Replayer, ReplayOptions
from eval.swap import Swap
from tests.fakes import QueuePolicy
from tests.llm_server import LLMServer, fill
from tests.test_eval_judge import command
from tests.test_replay import lines, replay


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("Ana's cat, Ben’s and BEN.", "Ben's cat, Ana’s and ANA."),
        ("(Ana) Banana, Anatole, ana", "(Ben) Banana, Anatole, ana"),
        ("Ana'll go. 'Ana', \"Ben\", Ana-Ben", "Ben'll go. 'Ben', \"Ana\", Ben-Ana"),
        ("", ""),
    ],
)
def test_names_are_swapped_as_whole_words(text: str, swapped: str) -> None:
    swap = Swap(["Ana", "Ben"])
    assert swap.text(text) == swapped
    assert swap.back.text(swapped) == text


def test_odd_names() -> None:
    swap = Swap(["Don", "James"])
    assert swap.text("Don't, don, Don. James' book, James’s book, 'James' said") == (
        "Don't, don, James. Don's book, Don’s book, 'Don' said"
    )
    three = Swap(["Mrs O'Neil", "Tom", "Anna Maria"])
    assert three.to == {"Mrs O'Neil": "Tom", "Tom": "Anna Maria", "Anna Maria": "Mrs O'Neil"}
    assert three.text("Tom told Mrs O'Neil that Anna left Anna Maria.") == (
        "Anna Maria told Tom that Mrs O'Neil left Mrs O'Neil."
    )
    assert Swap(["小明", "小红"]).text("小明说小红。") == "小红说小明。"
    assert Swap(["Ana"]).text("Ana") == "Ana" and Swap([]).text("Ana") == "Ana"


def test_a_turn_is_swapped_in_every_place_and_back() -> None:
    turn = Turn(
        id=3,
        speaker="Ana",
        text="Ben, tell Ana.",
        addressees=("Ben", "Therapist", "Couple"),
        addressees_given=True,
        background=(BackgroundLine(speaker="Ben", addressees=("Ana",), text="Ana?"),),
        start=1.5,
        cues=(Cue(kind="face", person="Ben", description="Ben smiles", addressees=("Ana",)),),
        visible_to=("Ana",),
    )
    swap = Swap(["Ana", "Ben"])
    there = swap.turn(turn)
    assert (there.speaker, there.text) == ("Ben", "Ana, tell Ben.")
    assert there.addressees == ("Ana", "Therapist", "Couple") and there.visible_to == ("Ben",)
    assert there.background[0].text == "Ben?" and there.background[0].speaker == "Ana"
    assert there.cues[0].description == "Ana smiles" and there.cues[0].person == "Ana"
    assert swap.back.turn(there) == turn


class Watching(QueuePolicy):
    """Remembers what it was shown."""

    answers = frozenset({"itp", "stp", "ssp", "rpp"})

    def __init__(self) -> None:
        super().__init__([0.4] * 10_000)
        self.seen: list[tuple[tuple[str, ...], list[Turn], list[str]]] = []

    async def read(self, view: Any, new: int) -> Any:
        known = view.relations.participants if view.relations else []
        self.seen.append((view.participants, list(view.turns), list(known)))
        return await super().read(view, new)


def demo_points() -> list[tuple[Point, ...]]:
    samples = load_dataset(demo_path()).samples
    return list(build_points(samples, build_instances(samples), DECISION_TASKS))


@pytest.mark.parametrize("context", [None, 3])
async def test_the_graph_is_given_swapped_people_in_reverse_order(context: int | None) -> None:
    points = max(demo_points(), key=lambda ps: len(participants_of(_turns(ps))))
    options = ReplayOptions(context=context)
    plain, swapped = Watching(), Watching()
    firsts = await Replayer(plain, options).sample(points)
    seconds = await SwappedReplayer(swapped, options).sample(points)
    swap = Swap(participants_of(_turns(points)))
    assert len(swap.to) > 2
    for one, two in zip(plain.seen, swapped.seen, strict=True):
        assert two[1] == [swap.turn(t) for t in one[1]]
        assert two[0] == tuple(swap.name(p) for p in one[0])[::-1]
        assert [p for p in two[0] if p in two[2]] == two[2] or context is None
    known = {p.known_target for p in points if p.known_target}
    assert {swap.name(t) for t in known} <= set(swapped.targets_asked)
    for a, b in zip(firsts, seconds, strict=True):
        assert (a.unit, a.gold, a.candidates) == (b.unit, b.gold, b.candidates)
        assert a.task != "ssp" or a.known_target == b.known_target
        people = [x for x in a.candidates or () if x in swap.to]
        if people and context is None:
            # the fake takes the first it is shown: then the first who appeared, now the last
            assert (a.ranking[0], b.ranking[0]) == (people[0], people[-1])


def _turns(points: tuple[Point, ...]) -> tuple[Turn, ...]:
    return turns_of(points[-1].sample.rows[: points[-1].visible])


async def test_what_rests_on_people_alone_does_not_change() -> None:
    for points in demo_points():
        policy = LastSpeaker()
        firsts = await Replayer(policy).sample(points)
        assert [r.ranking[:1] for r in firsts] == [
            r.ranking[:1] for r in await SwappedReplayer(policy).sample(points)
        ]


def record(task: str, sample: str, answer: str, **more: Any) -> Record:
    given = {"unit": f"{sample}{task}", "row": 1, "variant": "v", "group": sample, "gold": "g"}
    given |= {"scenario": "couple", "ranking": [answer] if answer else [], **more}
    return Record(task=task, sample_id=sample, **given)  # type: ignore[arg-type]


def test_changes_are_counted_by_task_and_scope() -> None:
    swaps = {"a": Swap(["Ana", "Ben"]), "b": Swap(["Cy", "Di"])}
    first = [
        record("itp", "a", "yes"),
        record("itp", "b", "no", scenario="family"),
        record("stp", "a", "Ana"),
        record("stp", "b", "Cy", scenario="family"),
        record("ssp", "a", "x"),
        record("er", "a", ""),
        record("itp", "alone", "yes"),
        record("itp", "a", "no", repeat=1),
    ]
    second = [
        record("itp", "a", "yes"),
        record("itp", "b", "yes", scenario="family"),
        # shown as "Ana": the name was chosen, not the person
        record("stp", "a", "Ben"),
        record("stp", "b", "Family", scenario="family"),
        record("ssp", "a", "", status="timeout"),
        record("itp", "a", "no", repeat=1),
    ]
    found = changes(first, second, swaps)["v"]
    assert set(found) == {"itp", "stp", "ssp"}
    assert found["itp"]["all"] == {
        "n": 3,
        "changed": 1,
        "share": pytest.approx(1 / 3),
        "failed": 0,
        "between_repeats": 1.0,
    }
    assert found["itp"]["couple"]["share"] == 0 and found["itp"]["family"]["share"] == 1
    assert (found["stp"]["all"]["changed"], found["stp"]["all"]["kept_name"]) == (2, 1)
    assert found["ssp"]["all"]["share"] is None and found["ssp"]["all"]["failed"] == 1
    assert failure_rate({"variants": {"v": found}}) == 1.0


def test_the_command_writes_prints_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("--variant", "floors,local", "--limit", "3", "--out", str(out), "--no-report")
    done = replay(tmp_path, *arguments, "--counterbalance")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "decisions that change with names and order" in done.stdout
    found = json.loads((out / "counterbalance.json").read_text())
    assert (found["samples"], found["alone"]) == (3, 0)
    for name in ("floor-always-yes", "floor-majority", "floor-last-speaker"):
        assert all(t["all"]["share"] == 0 for t in found["variants"][name].values())
    assert found["variants"]["floor-random"]["stp"]["all"]["share"] > 0
    assert set(found["variants"]["local"]) == set(DECISION_TASKS)
    own = {p["unit"]: p for p in lines(out / "predictions.jsonl") if p["variant"] == "local"}
    for second in lines(out / "counterbalance" / "predictions.jsonl"):
        if second["variant"] == "local" and second["task"] == "stp":
            first = own[second["unit"]]
            assert set(first["probabilities"]) == set(second["probabilities"])
    manifest = json.loads((out / "manifest.json").read_text())
    inner = json.loads((out / "counterbalance" / "manifest.json").read_text())
    assert manifest["configuration"]["counterbalance"] is True
    assert inner["configuration"] == {**manifest["configuration"], "names": "swapped"}
    assert inner["configuration_sha256"] != manifest["configuration_sha256"]
    # killed in the second half: the same command goes on to the same bytes
    kept = (out / "counterbalance" / "predictions.jsonl").read_bytes()
    whole = kept.splitlines(keepends=True)
    (out / "counterbalance" / "predictions.jsonl").write_bytes(b"".join(whole[: len(whole) // 2]))
    again = replay(tmp_path, *arguments, "--counterbalance")
    assert again.returncode == 0 and "already done" in again.stdout
    assert (out / "counterbalance" / "predictions.jsonl").read_bytes() == kept
    refused = replay(tmp_path, *arguments)
    assert refused.returncode == 2
    assert "configuration.counterbalance: true then, null now" in refused.stdout


async def test_a_model_that_takes_the_first_name_is_found_out(tmp_path: Path) -> None:
    def first_name(schema: dict[str, Any], request: dict[str, Any]) -> Any:
        answer = fill(schema)
        if "targets" in answer:
            *people, _ = schema["properties"]["targets"]["items"]["enum"]
            answer["targets"] = sorted(people)[:1]
        return answer

    out = tmp_path / "run"
    async with LLMServer() as server:
        server.fill = first_name
        arguments = ("--variant", "agent", "--limit", "1", "--out", str(out), "--no-report")
        arguments += ("--base-url", server.url, "--model", "m", "--counterbalance")
        code, said = await command(tmp_path, "eval.replay", *arguments)
        assert code == 0, said
        asked = len(server.asked)
        stp = json.loads((out / "counterbalance.json").read_text())["variants"]["agent"]["stp"]
        assert stp["all"]["share"] == 1 and stp["all"]["kept_name"] == stp["all"]["changed"] > 0
        points = len(lines(out / "decisions.jsonl"))
        assert asked == 2 * points
        assert "agent, swapped" in said
        code, said = await command(tmp_path, "eval.replay", *arguments)
        assert code == 0 and len(server.asked) == asked, "all of it is finished"


def test_a_dry_run_counts_both_halves(tmp_path: Path) -> None:
    arguments = ("--variant", "floor-random", "--dry-run")
    once, twice = (
        replay(tmp_path, *arguments, *more).stdout for more in ((), ("--counterbalance",))
    )

    def decisions(said: str) -> int:
        row = next(line for line in said.splitlines() if "floor-random" in line)
        return int(row.replace("│", " ").split()[5])

    assert decisions(twice) == 2 * decisions(once)

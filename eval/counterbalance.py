"""Order and name bias: every point once more with the people's names and order changed.

A decision should follow from what people do to each other, not from what they are called or who
is listed first. ``--counterbalance`` gives everybody another's name (:mod:`eval.swap`), lists them
in reverse order, asks again, maps the answers back, and counts which are no longer the same. The
second answers stand in a run folder of their own, ``counterbalance/`` inside the first.

A changed name brings a pronoun that may not fit, and a model may not answer alike twice: with
``--repeats`` the share that changes between repeats stands beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from agent.conversation import Turn, participants_of
from agent.decision import Decision
from agent.reading import TurnReading
from eval.cost import costs
from eval.instances import DECISION_TASKS
from eval.metrics import OK, SCOPES
from eval.plan import Plan, digest
from eval.points import Point, Unit
from eval.runner import Record, Replayer
from eval.store import CALLS, read_lines, read_records, write_json
from eval.swap import Swap

FOLDER: Final = "counterbalance"
CHANGES: Final = "counterbalance.json"

Key = tuple[str, int, str]


class SwappedReplayer(Replayer):
    """A replayer that shows every sample with names and order changed, and maps answers back."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._swaps: dict[str, Swap] = {}

    def turns(self, last: Point) -> tuple[Turn, ...]:
        """Return the turns with the names changed."""
        turns = super().turns(last)
        swap = self._swaps.setdefault(last.sample.sample_id, swap_of(turns))
        return tuple(map(swap.turn, turns))

    def given(
        self, point: Point, units: Sequence[Unit], incoming: Sequence[Turn], state: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the graph's input with the people in reverse order of their appearance."""
        given = super().given(point, units, incoming, state)
        order = participants_of([*state.get("turns", ()), *incoming])[::-1]
        given["participants"] = list(order)
        if "relations" in state:
            known = state["relations"].participants
            listed = [*(p for p in order if p in known), *(p for p in known if p not in order)]
            given["relations"] = state["relations"].model_copy(update={"participants": listed})
        request = given["request"]
        if request.known_target is not None:
            target = self._swaps[point.sample.sample_id].name(request.known_target)
            given["request"] = request.model_copy(update={"known_target": target})
        return given

    def records(
        self, point: Point, units: Sequence[Unit], state: Mapping[str, Any]
    ) -> list[Record]:
        """Return the records with the people's own names."""
        back = self._swaps[point.sample.sample_id].back
        readings = [_reading(reading, back) for reading in state["readings"]]
        decision = _decision(state["decision"], back)
        return super().records(point, units, {"decision": decision, "readings": readings})


def swap_of(turns: Sequence[Turn]) -> Swap:
    """Return the change of names for the people of a sample's turns."""
    return Swap(participants_of(turns))


def _decision(decision: Decision, back: Swap) -> Decision:
    targets = tuple(
        item.model_copy(update={"label": back.name(item.label)}) for item in decision.targets
    )
    return decision.model_copy(update={"targets": targets})


def _reading(reading: TurnReading, back: Swap) -> TurnReading:
    stances = tuple(
        stance.model_copy(
            update={"target": back.name(stance.target), "viewpoint": back.text(stance.viewpoint)}
        )
        for stance in reading.stances
    )
    return reading.model_copy(update={"speaker": back.name(reading.speaker), "stances": stances})


def swapped_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of the second half of a counterbalanced run."""
    configuration = {**manifest["configuration"], "names": "swapped"}
    return {
        **manifest,
        "configuration": configuration,
        "configuration_sha256": digest(configuration),
    }


def write_changes(plan: Plan, folder: Path) -> dict[str, Any]:
    """Compare the two halves of a run folder and write ``counterbalance.json``.

    Args:
        plan: of the run.
        folder: the run folder, with the second half inside.

    Returns:
        What was written: ``samples`` compared, ``alone`` (samples with one person, where nothing
        can be swapped), ``variants`` (variant -> task -> scope -> figures, see
        :func:`changes`) and ``costs`` of the second half.

    Raises:
        StoreError: when the folder cannot be read or written.
    """
    replayer = Replayer(next(iter(plan.policies.values())), plan.choice.options())
    swaps = {ps[0].sample.sample_id: swap_of(replayer.turns(ps[-1])) for ps in plan.points}
    swaps = {sample: swap for sample, swap in swaps.items() if len(swap.to) > 1}
    first, second = read_records(folder), read_records(folder / FOLDER)
    found = {
        "samples": len(swaps),
        "alone": len(plan.points) - len(swaps),
        "variants": changes(first, second, swaps),
        "costs": costs(read_lines(folder / FOLDER, CALLS)),
    }
    write_json(folder / CHANGES, found)
    return found


def changes(
    first: Iterable[Record], second: Iterable[Record], swaps: Mapping[str, Swap]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Count the decisions that are no longer the same.

    A decision is the first answer: yes or no, a target, a strategy, a pattern.

    Args:
        first: as the people are called.
        second: answers with names and order changed, mapped back.
        swaps: the change of names in each sample; other samples are left out.

    Returns:
        Variant -> task -> scope -> ``n`` (decisions with an answer in both), ``changed``,
        ``share`` (None without any), ``failed`` (without an answer in one of them),
        ``kept_name`` (changed targets that are another person under the same name; STP only) and
        ``between_repeats`` (share that changes from one repeat to the next, nothing swapped; None
        without repeats).
    """
    firsts = {_key(r): r for r in first if r.sample_id in swaps and r.task in DECISION_TASKS}
    seconds = {_key(r): r for r in second}
    pairs = [(a, seconds[key]) for key, a in firsts.items() if key in seconds]
    nexts = ((a, firsts.get((a.variant, a.repeat + 1, a.unit))) for a in firsts.values())
    repeats = [(a, b) for a, b in nexts if b is not None]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for variant, task in dict.fromkeys((a.variant, a.task) for a, _ in pairs):
        for scope in SCOPES:
            here = _of(pairs, variant, task, scope)
            again = _of(repeats, variant, task, scope)
            figures = _figures(here, swaps if task == "stp" else None)
            figures["between_repeats"] = _figures(again, None)["share"]
            found.setdefault(variant, {}).setdefault(task, {})[scope] = figures
    return found


_Pairs = Sequence[tuple[Record, Record]]


def _key(record: Record) -> Key:
    return record.variant, record.repeat, record.unit


def _of(pairs: _Pairs, variant: str, task: str, scope: str) -> _Pairs:
    return [
        (a, b)
        for a, b in pairs
        if a.variant == variant and a.task == task and scope in ("all", a.scenario)
    ]


def _figures(pairs: _Pairs, swaps: Mapping[str, Swap] | None) -> dict[str, Any]:
    answered = [(a, b) for a, b in pairs if a.status == b.status == OK]
    changed = [(a, b) for a, b in answered if a.ranking[:1] != b.ranking[:1]]
    figures: dict[str, Any] = {
        "n": len(answered),
        "changed": len(changed),
        "share": len(changed) / len(answered) if answered else None,
        "failed": len(pairs) - len(answered),
    }
    if swaps is not None:
        figures["kept_name"] = sum(
            [swaps[a.sample_id].name(x) for x in b.ranking[:1]] == a.ranking[:1] for a, b in changed
        )
    return figures


def failure_rate(found: Mapping[str, Any]) -> float:
    """Return the largest share of decisions of any variant and task without two answers."""
    rates = [
        scopes["all"]["failed"] / max(1, scopes["all"]["failed"] + scopes["all"]["n"])
        for tasks in found["variants"].values()
        for scopes in tasks.values()
    ]
    return max(rates, default=0.0)


def changes_table(found: Mapping[str, Any]) -> Table:
    """Return what :func:`write_changes` found as a table."""
    alone = f", {found['alone']} left out with one person" if found["alone"] else ""
    table = Table(
        title=f"decisions that change with names and order of the people, "
        f"{found['samples']} samples{alone}",
        caption="same name: the target is another person, under the name that was chosen first; "
        "between repeats: the share that changes with nothing swapped",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("variant", overflow="fold")
    table.add_column("task")
    for name in ("n", "changed", "share %", "couple %", "family %", "same name"):
        table.add_column(name, justify="right")
    table.add_column("between repeats %", justify="right")
    table.add_column("failed", justify="right")
    for variant, tasks in found["variants"].items():
        for task, scopes in tasks.items():
            whole = scopes["all"]
            shares = [_percent(scopes[scope]["share"]) for scope in SCOPES]
            counts = [str(whole["n"]), str(whole["changed"])]
            rest = [str(whole.get("kept_name", "")), _percent(whole["between_repeats"])]
            table.add_row(variant, task.upper(), *counts, *shares, *rest, str(whole["failed"]))
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"

"""The compiled graph with a recording policy: wiring, records, checkpoints, failures."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from agent.context import Context, Request
from agent.conversation import Turn
from agent.decision import Decision
from agent.graph import compile_graph, serializer
from agent.hooks import DecisionLog, Hook, Hooks
from tests.fakes import QueuePolicy


def turn(i: int, speaker: str = "Ana", to: tuple[str, ...] = ("Ben",), **extra: object) -> Turn:
    return Turn(id=i, speaker=speaker, text=f"line {i}", addressees=to, **extra)  # type: ignore[arg-type]


def given(*turns: Turn, **extra: object) -> dict[str, object]:
    return {"scenario": "couple", "participants": ["Ana", "Ben"], "incoming": list(turns), **extra}


async def run(policy: QueuePolicy, *turns: Turn, request: Request | None = None, **context: object):
    graph = compile_graph()
    return await graph.ainvoke(
        given(*turns, request=request or Request()), context=Context(policy=policy, **context)
    )


async def test_speaks_when_the_probability_reaches_the_threshold() -> None:
    policy = QueuePolicy([0.5])
    out = await run(policy, turn(1), turn(2, "Ben", ("Ana",)))
    decision = out["decision"]
    assert decision.intervene and decision.status == "ok"
    assert decision.turn_id == 2
    assert decision.targets[0].label == "Ana" and decision.target == "Ana"
    assert decision.strategy == "counterbalance"
    assert decision.reply.text == "Ana, go on."
    assert decision.evidence == (1, 2)
    assert [name for name, _ in policy.views] == [
        "read",
        "pattern",
        "time",
        "target",
        "strategy",
        "reply",
    ]
    assert list(decision.timings) == [
        "observe",
        "perceive",
        "time",
        "target",
        "strategy",
        "reply",
    ]


async def test_silence_is_recorded_with_its_reasons() -> None:
    out = await run(QueuePolicy([0.49]), turn(1))
    decision = out["decision"]
    assert not decision.intervene
    assert decision.targets == () and decision.reply is None
    assert decision.reasons[0].text == "two people talk past each other"
    assert decision.pattern[0].label == "pursue_withdraw"


async def test_a_decision_can_be_asked_for_where_the_agent_would_stay_silent() -> None:
    policy = QueuePolicy([0.1])
    out = await run(
        policy, turn(1), request=Request(decide="always", known_target="Ben", reply=False)
    )
    decision = out["decision"]
    assert not decision.intervene and decision.asked
    assert decision.targets[0].label == "Ana"
    assert policy.targets_asked == ["Ben"] and decision.target == "Ben"
    assert decision.reply is None


async def test_turns_can_be_taken_in_without_a_decision() -> None:
    policy = QueuePolicy()
    out = await run(policy, turn(1), request=Request(decide="never"))
    assert out["decision"] is None
    assert out["relations"].people["Ana"].turns == 1


async def test_asked_to_speak_now_overrides_the_timing() -> None:
    out = await run(QueuePolicy([0.0]), turn(1), request=Request(speak_now=True))
    assert out["decision"].intervene and out["decision"].reply is not None


async def test_a_room_that_was_left_alone_is_answered_sooner() -> None:
    turns = [turn(i, "Ana" if i % 2 else "Ben", ("Ben" if i % 2 else "Ana",)) for i in range(1, 9)]
    patient = await run(QueuePolicy([0.3]), *turns, patience=3)
    assert patient["decision"].intervene
    assert patient["decision"].threshold == pytest.approx(0.5 * (1 - 0.08 * 5))
    never = await run(QueuePolicy([0.3]), *turns)
    assert not never["decision"].intervene and never["decision"].threshold == 0.5
    soon = await run(QueuePolicy([0.3]), *turns[:3], patience=3)
    assert not soon["decision"].intervene


async def test_strategies_that_are_off_are_never_chosen() -> None:
    out = await run(QueuePolicy([1.0]), turn(1), strategies_off=frozenset({"counterbalance"}))
    labels = [item.label for item in out["decision"].strategies]
    assert "counterbalance" not in labels and out["decision"].reply.strategy == labels[0]


async def test_state_can_be_withheld() -> None:
    policy = QueuePolicy([1.0])
    await run(policy, turn(1), withhold_state=True)
    assert all(view.relations is None for _, view in policy.views)


@pytest.mark.parametrize("where", ["read", "pattern", "time", "target", "strategy", "reply"])
async def test_a_failed_policy_is_its_own_status_and_never_a_label(where: str) -> None:
    policy = QueuePolicy([1.0])
    policy.fail = {where: "timeout"}
    out = await run(policy, turn(1))
    decision = out["decision"]
    assert decision.status == "timeout" and not decision.intervene and decision.reply is None
    assert len(out["turns"]) == len(out["readings"]) == 1


async def test_private_turns_reach_no_public_view() -> None:
    policy = QueuePolicy([1.0])
    await run(policy, turn(1), turn(2, "Ben", visible_to=("Ben",)), turn(3))
    assert {t.id for _, view in policy.views for t in view.turns} == {1, 3}
    own = QueuePolicy([1.0])
    await run(own, turn(1), turn(2, "Ben", visible_to=("Ben",)), request=Request(viewer="Ben"))
    assert {t.id for _, view in own.views for t in view.turns} == {1, 2}


async def test_nobody_in_the_room_yet() -> None:
    graph = compile_graph()
    out = await graph.ainvoke(
        {
            "scenario": "family",
            "participants": [],
            "incoming": [],
            "request": Request(decide="always", reply=False),
        },
        context=Context(policy=QueuePolicy([0.3])),
    )
    assert out["decision"].turn_id == 0
    assert [t.label for t in out["decision"].targets] == ["Family"]


async def test_old_turns_are_refused() -> None:
    with pytest.raises(ValueError, match="turn 1 is not newer than turn 1"):
        await run(QueuePolicy([1.0]), turn(1), turn(1))


async def test_a_checkpoint_gives_back_the_same_state(tmp_path) -> None:
    config = {"configurable": {"thread_id": "room"}}
    database = str(tmp_path / "checkpoints.sqlite")
    context = Context(policy=QueuePolicy([0.9, 0.2]))
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        saver.serde = serializer()
        first = await compile_graph(saver).ainvoke(
            given(turn(1)), config, context=context, durability="exit"
        )
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        saver.serde = serializer()
        graph = compile_graph(saver)
        kept = (await graph.aget_state(config)).values
        for key in ("turns", "readings", "relations", "decision", "look", "timing", "request"):
            assert kept[key] == first[key], key
            assert type(kept[key]) is type(first[key])
        second = await graph.ainvoke(
            given(turn(2, "Ben", ("Ana",))), config, context=context, durability="exit"
        )
    assert [t.id for t in second["turns"]] == [1, 2]
    assert second["relations"].people["Ana"].turns == 1
    assert second["relations"].stances["Ben"]["Ana"].evidence == [2]


async def test_hooks_hear_everything_and_the_log_is_json_lines(tmp_path) -> None:
    heard: list[str] = []

    class Listener(Hook):
        async def on_turn(self, turn) -> None:
            heard.append(f"turn {turn.id}")

        async def on_state(self, state) -> None:
            heard.append("state")

        async def on_decision(self, decision) -> None:
            heard.append("decision")

        async def on_reply(self, reply) -> None:
            heard.append("reply")

    log = tmp_path / "logs" / "decisions.jsonl"
    hooks = Hooks([Listener(), DecisionLog(log)])
    graph, policy = compile_graph(), QueuePolicy([0.9, 0.1])
    for i in (1, 2):
        await graph.ainvoke(given(turn(i)), context=Context(policy=policy, hooks=hooks))
    assert heard == ["turn 1", "state", "decision", "reply", "turn 2", "state", "decision"]
    records = [Decision.model_validate_json(line) for line in log.read_text().splitlines()]
    assert [r.intervene for r in records] == [True, False]

"""The local policy through the real graph, with the shipped weights and the real encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from agent.context import Context, Request
from agent.conversation import BackgroundLine, Turn
from agent.decision import Decision
from agent.encoder import make_encoder
from agent.graph import compile_graph
from agent.labels import PATTERNS, STRATEGIES, Scenario
from agent.policies.local import LocalPolicy
from agent.policies.local.policy import AddresseeMode
from agent.policies.local.store import load

TALK = (
    ("Therapist", "Both", "Good to see you both again. How was the week?"),
    ("Mira", "Therapist", "Honestly, it was lonely. He comes home and goes straight to his desk."),
    ("Jonas", "Mira", "That's not fair. I was on deadline, and you know it."),
    ("Mira", "Jonas", "You always have a deadline, Jonas. When is it my turn?"),
    ("Jonas", "Therapist", "I don't know what to say any more..."),
    ("Therapist", "Jonas", "What happens in you when you hear her say that?"),
    ("Jonas", "Therapist", "I feel like I failed her. I want to do better, I really do."),
    ("Mira", "Jonas", "I didn't know that. Thank you for saying it."),
)


@cache
def encoder() -> Any:
    return make_encoder("minilm")


def policy(addressees: AddresseeMode = "given") -> LocalPolicy:
    return LocalPolicy(load(), encoder(), addressees)


def turns(
    names: tuple[str, str] = ("Mira", "Jonas"), group: str = "Couple", swap: bool = False
) -> tuple[Turn, ...]:
    table = {"Mira": names[0], "Jonas": names[1], "Both": group}
    pronouns = {"He ": "She ", "his ": "her ", "her ": "his "} if swap else {}
    out = []
    for i, (speaker, addressee, text) in enumerate(TALK, 1):
        for old, new in (*table.items(), *pronouns.items()):
            text = text.replace(old, f"\0{new}")
        out.append(
            Turn(
                id=i,
                speaker=table.get(speaker, speaker),
                text=text.replace("\0", ""),
                addressees=(table.get(addressee, addressee),),
                addressees_given=True,
                start=6.0 * i,
                end=6.0 * i + 5,
            )
        )
    return tuple(out)


def decide(
    said: Sequence[Turn],
    using: LocalPolicy,
    participants: Sequence[str] = (),
    scenario: Scenario = "couple",
) -> list[Decision]:
    async def run() -> list[Decision]:
        graph = compile_graph()
        state: dict[str, Any] = {"scenario": scenario, "participants": list(participants)}
        out = []
        for turn in said:
            state["incoming"] = [turn]
            state["request"] = Request(decide="always", reply=False)
            state = await graph.ainvoke(state, context=Context(policy=using))
            out.append(state["decision"])
        return out

    return asyncio.run(run())


def _by_score(item: tuple[str, float]) -> tuple[float, str]:
    return -item[1], item[0]


def plain(decisions: Sequence[Decision], **names: str) -> list[Any]:
    def named(label: str) -> str:
        return names.get(label, label)

    return [
        (
            round(d.probability, 9),
            # equal scores stand in no order
            sorted(((named(r.label), round(r.score, 9)) for r in d.targets), key=_by_score),
            [(r.label, round(r.score, 9)) for r in d.strategies],
            [(r.label, round(r.score, 9)) for r in d.pattern],
        )
        for d in decisions
    ]


def test_ranks_every_label_with_probabilities() -> None:
    for decision in decide(turns(), policy()):
        assert decision.status == "ok"
        assert {r.label for r in decision.strategies} == set(STRATEGIES["couple"])
        assert {r.label for r in decision.pattern} == set(PATTERNS["couple"])
        for ranking in (decision.strategies, decision.pattern, decision.targets):
            assert sum(r.score for r in ranking) == pytest.approx(1)
        assert 0 < decision.probability < 1


def test_swapping_names_and_pronouns_changes_only_the_names() -> None:
    people = ("Mira", "Jonas")
    first = plain(decide(turns(), policy(), people))
    swapped = decide(turns(("Jonas", "Mira"), swap=True), policy(), people)
    assert plain(swapped, Mira="Jonas", Jonas="Mira") == first
    others = decide(turns(("Wei Lin", "O'Hara"), swap=True), policy(), ("O'Hara", "Wei Lin"))
    assert plain(others, **{"Wei Lin": "Mira", "O'Hara": "Jonas"}) == first


def test_the_order_of_participants_changes_nothing() -> None:
    first = decide(turns(), policy(), ("Mira", "Jonas"))
    second = decide(turns(), policy(), ("Jonas", "Mira"))
    assert plain(first) == plain(second)


def test_a_rebuilt_picture_equals_the_running_one() -> None:
    running = decide(turns(), policy(), ("Mira", "Jonas"))
    fresh = policy()

    async def run() -> Decision:
        state: dict[str, Any] = {
            "scenario": "couple",
            "participants": ["Mira", "Jonas"],
            "incoming": list(turns()),
            "request": Request(decide="always", reply=False),
        }
        out = await compile_graph().ainvoke(state, context=Context(policy=fresh))
        decision: Decision = out["decision"]
        return decision

    # batches of another size change the encoder's last bits
    whole, last = plain([asyncio.run(run())])[0], plain(running[-1:])[0]
    assert whole[0] == pytest.approx(last[0], abs=1e-5)
    assert [label for label, _ in whole[2]] == [label for label, _ in last[2]]


def test_any_number_of_people_and_no_times() -> None:
    people = ("Ana", "Bo", "Cem", "Dina")
    said = [
        Turn(
            id=i,
            speaker=people[i % 4],
            text=f"I think {people[(i + 1) % 4]} should say it first.",
            background=(BackgroundLine(speaker="Bo", text="mm"),),
        )
        for i in range(1, 9)
    ]
    for decision in decide(said, policy("inferred"), people, "family"):
        assert {r.label for r in decision.targets} == {*people, "Family"}


def test_odd_texts_are_read() -> None:
    odd = ["", " ", "\x07\u202eabc", "🙂" * 50, "word " * 20000, "سلام دوست من"]
    said = [Turn(id=i, speaker="A b'c\"d", text=text) for i, text in enumerate(odd, 1)]
    assert all(d.status == "ok" for d in decide(said, policy(), ("A b'c\"d",)))

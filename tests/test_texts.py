"""The written texts under prompts/: label definitions, reply frames and feeling words."""

from __future__ import annotations

import difflib
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PROMPTS = Path(__file__).resolve().parents[1] / "prompts"

LABELS = {
    "couple_patterns": [
        "pursue_withdraw",
        "attack_attack",
        "withdraw_withdraw",
        "repair_softening",
        "constructive_alignment",
        "mixed_transition",
    ],
    "family_patterns": [
        "escalation_conflict",
        "pursue_withdraw",
        "mutual_disengagement",
        "cross_generational_coalition",
        "boundary_hierarchy_strain",
        "repair_softening",
        "cooperative_family_alliance",
        "mixed_transition",
    ],
    "couple_strategies": [
        "counterbalance",
        "safeguard",
        "goal_align",
        "track",
        "reframe",
        "evoke",
        "enact",
        "join",
        "detach",
        "repair",
    ],
    "family_strategies": [
        "safeguard",
        "join",
        "track",
        "counterbalance",
        "enact",
        "boundary",
        "reframe",
        "repair",
    ],
    "utterance_types": [
        "accusation",
        "defense",
        "disclosure",
        "request",
        "recollection",
        "reflection",
        "repair",
        "withdrawal",
        "validation",
        "other",
    ],
}
LIBRARY = [
    (scenario, strategy)
    for scenario in ("couple", "family")
    for strategy in LABELS[f"{scenario}_strategies"]
]

SLOTS = {
    "one": {"name", "other", "quote", "feeling"},
    "pair": {"name_a", "name_b"},
    "group": {"names"},
}
LEAST = {
    "couple": {"one": 6, "group": 3, "pair": 0},
    "family": {"one": 6, "group": 3, "pair": 2},
}
QUOTES = [
    "you can't keep doing this",
    "nobody",
    "it was me who called",
    "the house, the kids, all of it",
    "why is it so hard for you",
    "your mother was right there with you all the time",
]
VALUES = {
    "name": ["Ana", "Jean-Luc", "Mary Ann"],
    "name_a": ["Ana"],
    "name_b": ["Bo"],
    "other": ["Bo", "Grandma Ruth"],
    "names": ["Ana and Bo", "Ana, Bo, Cy and Dee"],
    "quote": QUOTES,
    "feeling": ["hurt", "worn out", "close to giving up", "hopeful"],
}

BANNED = [
    r"diagnos\w*",
    r"disorder\w*",
    r"symptom\w*",
    r"patholog\w*",
    r"narcissis\w*",
    r"borderline",
    r"bipolar",
    r"toxic\w*",
    r"gaslight\w*",
    r"codependen\w*",
    r"trauma\w*",
    r"abus(?:e|er|ive)",
    r"manipulat\w*",
    r"dysfunction\w*",
    r"attachment",
    r"trigger\w*",
    r"process(?:ing)?",
    r"boundar(?:y|ies)",
    r"validat\w*",
    r"unpack\w*",
    r"hold(?:ing)? space",
    r"safe space",
    r"inner child",
    r"love language",
    r"i hear you saying",
    r"what i'm hearing",
    r"it sounds like you feel",
    r"how does that make you feel",
    r"you should",
    r"you must",
    r"you need to",
    r"you ought to",
    r"your fault",
    r"you're (?:wrong|right)",
    r"always right",
    r"you always",
    r"you never",
    r"calm down",
    r"at least",
    r"everything will be",
    r"i know exactly",
    r"break up",
    r"divorce\w*",
]
THIRD_PERSON = re.compile(r"\b(?:he|she|him|her|his|hers|himself|herself)\b", re.IGNORECASE)
BLAME = re.compile(
    r"\{other\}(?:'s)? (?:never|always|should|must|refuses|won't|is (?:wrong|right)|fault)"
)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def frames_of(scenario: str, strategy: str) -> list[dict[str, Any]]:
    document = load(PROMPTS / "replies" / scenario / f"{strategy}.yaml")
    assert document["scenario"] == scenario
    assert document["strategy"] == strategy
    frames: list[dict[str, Any]] = document["frames"]
    return frames


def opening_frames() -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = load(PROMPTS / "replies" / "openings.yaml")["frames"]
    return frames


def every_frame() -> list[dict[str, Any]]:
    found = [frame for key in LIBRARY for frame in frames_of(*key)]
    return found + opening_frames()


def slots_in(text: str) -> list[str]:
    return re.findall(r"\{(\w*)\}", text)


def renderings(frame: dict[str, Any]) -> list[str]:
    needs = frame["needs"]
    combinations = itertools.product(*(VALUES[slot] for slot in needs))
    return [frame["text"].format(**dict(zip(needs, row, strict=True))) for row in combinations]


@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_complete_and_in_the_papers_order(kind: str) -> None:
    labels = load(PROMPTS / "labels" / f"{kind}.yaml")["labels"]
    assert [label["name"] for label in labels] == LABELS[kind]
    assert len({label["title"] for label in labels}) == len(labels)
    for label in labels:
        assert set(label) == {
            "name",
            "title",
            "definition",
            "use_when",
            "not_when",
            "neighbours",
        }
        assert 1 <= len(label["title"].split()) <= 4
        for field in ("definition", "use_when", "not_when"):
            sentences = re.findall(r"[.!?](?:\s|$)", label[field])
            assert 1 <= len(sentences) <= 3, (label["name"], field)
            assert label[field].strip()[-1] == "."
        assert label["neighbours"]
        for neighbour in label["neighbours"]:
            assert set(neighbour) == {"name", "difference"}
            assert neighbour["name"] in LABELS[kind]
            assert neighbour["name"] != label["name"]
            assert neighbour["difference"].strip()
        names = [neighbour["name"] for neighbour in label["neighbours"]]
        assert len(set(names)) == len(names)


def test_join_has_a_meaning_of_its_own_in_each_scenario() -> None:
    couple, family = (
        next(
            label["definition"]
            for label in load(PROMPTS / "labels" / f"{scenario}_strategies.yaml")["labels"]
            if label["name"] == "join"
        )
        for scenario in ("couple", "family")
    )
    assert difflib.SequenceMatcher(None, couple, family).ratio() < 0.6


def test_the_library_holds_one_file_per_strategy_and_no_other() -> None:
    for scenario in ("couple", "family"):
        stems = {path.stem for path in (PROMPTS / "replies" / scenario).iterdir()}
        assert stems == set(LABELS[f"{scenario}_strategies"])


@pytest.mark.parametrize(("scenario", "strategy"), LIBRARY)
def test_each_strategy_has_enough_frames(scenario: str, strategy: str) -> None:
    frames = frames_of(scenario, strategy)
    assert len(frames) >= 12
    for target, least in LEAST[scenario].items():
        of_kind = [frame for frame in frames if frame["target"] == target]
        assert len(of_kind) >= least
        assert any(not frame["patterns"] for frame in of_kind)
    # Five turns with one strategy must not repeat a frame even when nothing but names is known.
    plain = [f for f in frames if f["target"] == "one" and set(f["needs"]) <= {"name", "other"}]
    assert len(plain) >= 6
    alone = [f for f in frames if f["target"] == "one" and set(f["needs"]) <= {"name"}]
    assert sum(not frame["patterns"] for frame in alone) >= 2
    for slot in ("quote", "feeling"):
        assert 1 <= sum(slot in frame["needs"] for frame in frames) <= len(frames) / 3


@pytest.mark.parametrize(("scenario", "strategy"), LIBRARY)
def test_frames_name_their_scenario_strategy_and_known_patterns(
    scenario: str, strategy: str
) -> None:
    for frame in frames_of(scenario, strategy):
        assert re.fullmatch(rf"{scenario}\.{strategy}\.\d\d", frame["id"])
        assert set(frame["patterns"]) <= set(LABELS[f"{scenario}_patterns"]), frame["id"]


def test_openings_serve_every_target_kind() -> None:
    for target in SLOTS:
        frames = [frame for frame in opening_frames() if frame["target"] == target]
        assert len(frames) >= 6
        assert all(not frame["patterns"] for frame in frames)
        assert any(not frame["needs"] for frame in frames)


def test_ids_are_unique() -> None:
    ids = [frame["id"] for frame in every_frame()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("frame", every_frame(), ids=lambda frame: frame["id"])
def test_a_frame_is_sound(frame: dict[str, Any]) -> None:
    assert set(frame) == {"id", "target", "patterns", "needs", "text"}
    text = frame["text"]
    used = slots_in(text)
    assert set(used) <= SLOTS[frame["target"]]
    assert sorted(set(used)) == sorted(frame["needs"])
    assert len(frame["needs"]) == len(set(frame["needs"]))
    for slot in set(used):
        assert used.count(slot) <= (1 if slot in {"quote", "feeling"} else 2)
    assert not ("quote" in used and "feeling" in used)
    if frame["target"] == "pair" and used:
        assert set(used) == {"name_a", "name_b"}
    assert text.count("“") == text.count("”") == used.count("quote")
    assert text.count("“{quote}”") == used.count("quote")
    assert not text.startswith("“")
    assert not re.search(r"[\"*_<>\[\]‘’–—]", re.sub(r"\{\w+\}", "", text))
    for match in re.finditer(r"\{feeling\}", text):
        assert re.search(r"\bfeel(?:ing)? $", text[: match.start()])
        # "shut out about", "worn out that": such a tail fits only some of the words.
        assert not re.match(r" (?:about|that|of|with \{|by)\b", text[match.end() :])
    assert text.count("?") <= 1
    assert not THIRD_PERSON.search(text)
    assert not BLAME.search(text)
    if frame["target"] == "group":
        assert not re.search(r"\b(?:you two|both of you|you both)\b", text, re.IGNORECASE)
    if frame["target"] == "one":
        assert re.search(r"\byou\b|\byour|\{name\}", text, re.IGNORECASE)


@pytest.mark.parametrize("frame", every_frame(), ids=lambda frame: frame["id"])
def test_a_frame_reads_cleanly_with_its_slots_filled(frame: dict[str, Any]) -> None:
    for said in renderings(frame):
        assert len(said.split()) < 45
        assert "{" not in said and "}" not in said
        assert said == said.strip()
        assert "  " not in said and "\n" not in said
        assert not re.search(r"[,.;:!?]\s*[,.;:!?]", said), said
        assert not re.search(r"\s[,.;:!?]", said), said
        assert said[0].isupper()
        assert said[-1] in ".?"
        for after in re.findall(r"[.?] (\S)", said.replace("”", "")):
            assert after.isupper(), said


@pytest.mark.parametrize("frame", every_frame(), ids=lambda frame: frame["id"])
def test_a_frame_judges_and_labels_nobody(frame: dict[str, Any]) -> None:
    for banned in BANNED:
        assert not re.search(rf"\b{banned}\b", frame["text"], re.IGNORECASE), banned


@pytest.mark.parametrize(("scenario", "strategy"), LIBRARY)
def test_no_two_frames_of_a_strategy_are_alike(scenario: str, strategy: str) -> None:
    for left, right in itertools.combinations(frames_of(scenario, strategy), 2):
        ratio = difflib.SequenceMatcher(None, left["text"].lower(), right["text"].lower()).ratio()
        assert ratio <= 0.85, (left["id"], right["id"])


@pytest.mark.parametrize("scenario", ["couple", "family"])
def test_no_sentence_of_a_scenario_is_used_twice_across_strategies(scenario: str) -> None:
    texts = [
        frame["text"].lower()
        for strategy in LABELS[f"{scenario}_strategies"]
        for frame in frames_of(scenario, strategy)
    ]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(("scenario", "strategy"), LIBRARY)
def test_openings_of_frames_vary(scenario: str, strategy: str) -> None:
    frames = frames_of(scenario, strategy)
    starts = [" ".join(frame["text"].split()[:2]) for frame in frames]
    assert max(starts.count(start) for start in starts) <= 3
    assert sum(frame["text"].startswith("{name") for frame in frames) <= len(frames) / 3


def test_feeling_words_fit_their_slot() -> None:
    feelings = load(PROMPTS / "feelings.yaml")
    assert list(feelings["cells"]) == ["negative", "neutral", "positive"]
    words = [word for word in feelings["words"].values()]
    for cell in feelings["cells"].values():
        assert list(cell) == ["low", "mid", "high"]
        for choices in cell.values():
            assert len(choices) >= 3
            words.extend(choices)
    assert len(feelings["words"]) >= 150
    for key, word in feelings["words"].items():
        assert isinstance(key, str) and key == key.lower().strip()
        assert isinstance(word, str)
    for word in words:
        assert re.fullmatch(r"[a-z]+(?: [a-z]+){0,3}", word), word
        assert not any(re.search(rf"\b{banned}\b", word) for banned in BANNED), word

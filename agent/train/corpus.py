"""Annotated conversations as matrices: vectors, level-1 targets, decision points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.conversation import Turn, participants_of
from agent.encoder import Encoder
from agent.labels import PATTERNS, THERAPIST, UTTERANCE_TYPES, Scenario
from agent.policies.local import level1
from agent.policies.local.running import addressee_label
from agent.policies.local.text import masked, surface
from agent.rescue.annotations import (
    gold_pattern,
    gold_strategy,
    gold_target,
    group_label,
    is_therapist,
    scenario_of,
)
from agent.rescue.schema import Row, Sample
from agent.rescue.splits import group_of
from agent.rescue.turns import turns_of

Array = NDArray[np.float64]

PLEASANT: Final = ("hopeful", "relieved", "happy", "loved", "calm and safe", "grateful", "proud")
UNPLEASANT: Final = ("hurt", "angry", "afraid", "hopeless", "ashamed", "lonely", "frustrated")
WARM: Final = ("loving", "appreciative", "understanding", "supportive", "tender", "trusting")
HOSTILE: Final = ("blaming", "contemptuous", "resentful", "critical", "hostile", "dismissive")
FEELINGS: Final = tuple(
    "afraid angry anxious ashamed calm confused defensive disappointed discouraged frustrated"
    " grateful guilty happy hopeful hopeless hurt jealous lonely loved overwhelmed proud regretful"
    " rejected relieved resentful sad tired torn unheard vulnerable worried".split()
)
"""Words for a person's emotion; the nearest one on the emotion axes is shown."""
_PATTERN_AHEAD: Final = 3
"""A turn is labelled with the first pattern annotated within so many rows, its own included."""


@dataclass(frozen=True)
class Session:
    """One sample: what was heard, and what the annotators wrote."""

    sample: Sample
    scenario: Scenario
    group: str
    turns: tuple[Turn, ...]
    names: tuple[tuple[str, ...], ...]
    vectors: Array
    counts: Array

    @property
    def rows(self) -> tuple[Row, ...]:
        """The annotated rows."""
        return tuple(self.sample.rows)


@dataclass(frozen=True)
class Target:
    """What a level-1 head is fitted to: values and the rows that count.

    Attributes:
        values: shape (rows, width).
        known: shape (rows,).
    """

    values: Array
    known: NDArray[np.bool_]


@dataclass(frozen=True)
class Corpus:
    """Sessions with everything that training needs, before any fitting.

    Attributes:
        sessions: in file order.
        emotions: vectors of the speakers' emotion descriptions, shape (rows, dim).
        attitudes: vectors of the speakers' attitudes, shape (rows, dim).
        anchors: name of a word list -> vectors of its words.
    """

    sessions: tuple[Session, ...]
    emotions: Array
    attitudes: Array
    anchors: dict[str, Array] = field(repr=False)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First row of each session, and the end."""
        return tuple(np.cumsum([0, *(len(s.turns) for s in self.sessions)]).tolist())

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Couples and families, sorted."""
        return tuple(sorted({s.group for s in self.sessions}))

    def subset(self, groups: Iterable[str]) -> Corpus:
        """Return the sessions of some groups."""
        wanted = set(groups)
        kept = [i for i, s in enumerate(self.sessions) if s.group in wanted]
        rows = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in kept])
        return Corpus(
            tuple(self.sessions[i] for i in kept),
            self.emotions[rows],
            self.attitudes[rows],
            self.anchors,
        )


def names_known(turns: Sequence[Turn]) -> tuple[tuple[str, ...], ...]:
    """Return, per turn, the names met up to and including it."""
    out: list[tuple[str, ...]] = []
    known: tuple[str, ...] = ()
    for turn in turns:
        known = participants_of((turn,), known)
        out.append(known)
    return tuple(out)


def read_corpus(samples: Sequence[Sample], encoder: Encoder) -> Corpus:
    """Encode samples: words, emotion descriptions and attitudes."""
    turns = [turns_of(s.rows) for s in samples]
    names = [names_known(t) for t in turns]
    texts = [
        masked(turn.text, known)
        for session, knowns in zip(turns, names, strict=True)
        for turn, known in zip(session, knowns, strict=True)
    ]
    rows = [row for s in samples for row in s.rows]
    emotions, attitudes = [own_emotion(r) for r in rows], [own_attitude(r) for r in rows]
    anchors = {
        "pleasant": PLEASANT,
        "unpleasant": UNPLEASANT,
        "warm": WARM,
        "hostile": HOSTILE,
        "feelings": FEELINGS,
    }
    seen = _encoded(encoder, (texts, emotions, attitudes, *anchors.values()))
    vectors = np.array([seen[t] for t in texts])
    counts = np.array([surface(t) for t in texts])
    sessions, start = [], 0
    for sample, session, knowns in zip(samples, turns, names, strict=True):
        end = start + len(session)
        sessions.append(
            Session(
                sample,
                scenario_of(sample),
                group_of(sample.sample_id),
                session,
                knowns,
                vectors[start:end],
                counts[start:end],
            )
        )
        start = end
    return Corpus(
        tuple(sessions),
        np.array([seen[t] for t in emotions]),
        np.array([seen[t] for t in attitudes]),
        {name: np.array([seen[w] for w in words]) for name, words in anchors.items()},
    )


def _encoded(encoder: Encoder, lists: Iterable[Sequence[str]]) -> dict[str, Array]:
    # one call for all: the last bits of a vector depend on what is encoded along with it
    texts = list(dict.fromkeys(text for texts in lists for text in texts))
    vectors = np.asarray(encoder.encode(texts), dtype=np.float64)
    return dict(zip(texts, vectors, strict=True))


def own_emotion(row: Row) -> str:
    """Return the speaker's annotated emotion, "" when there is none."""
    found = (e.emotion_description for e in row.internal_emotion if e.person == row.primary_speaker)
    return "" if is_therapist(row) else next(found, "")


def own_intensity(row: Row) -> float:
    """Return the speaker's annotated intensity, NaN when there is none."""
    found = (e.intensity for e in row.internal_emotion if e.person == row.primary_speaker)
    value = None if is_therapist(row) else next(found, None)
    return float("nan") if value is None else float(value)


def own_attitude(row: Row) -> str:
    """Return the speaker's first annotated attitude, "" when there is none."""
    found = (v.attitude for v in row.viewpoints_attitudes if v.source == row.primary_speaker)
    return "" if is_therapist(row) else next(found, "")


def _one_hot(labels: Sequence[int | None], size: int) -> Target:
    known = np.array([i is not None for i in labels])
    values = np.zeros((len(labels), size))
    for row, index in enumerate(labels):
        if index is not None:
            values[row, index] = 1.0
    return Target(values, known)


def _flag(values: Sequence[bool | None]) -> Target:
    known = np.array([v is not None for v in values])
    return Target(np.array([[float(bool(v))] for v in values]), known)


def level1_targets(corpus: Corpus) -> dict[str, Target]:
    """Return the targets of every level-1 head (the axes' values are whole vectors)."""
    places = [(s, i) for s in corpus.sessions for i in range(len(s.turns))]
    rows = [s.rows[i] for s, i in places]
    client = np.array([not is_therapist(r) for r in rows])
    kinds = [
        UTTERANCE_TYPES.index(r.utterance_type)
        if c and r.utterance_type in UTTERANCE_TYPES
        else None
        for r, c in zip(rows, client, strict=True)
    ]
    intensity = np.array([own_intensity(r) for r in rows])
    felt = np.array([bool(own_emotion(r)) for r in rows]) & client
    viewed = np.array([bool(own_attitude(r)) for r in rows]) & client
    moves = [_move(s, i) for s, i in places]
    ahead = [_move(s, i + 1) if c else None for (s, i), c in zip(places, client, strict=True)]
    spoke = [_support_next(s, i) for s, i in places]
    to_support, to_group = zip(*(_direction(s, i) for s, i in places), strict=True)
    a = corpus.anchors
    valence = _lean(corpus.emotions, a["pleasant"], a["unpleasant"])
    warmth = _lean(corpus.attitudes, a["warm"], a["hostile"])
    return {
        "utterance": _one_hot(kinds, len(UTTERANCE_TYPES)),
        "intensity": Target(np.nan_to_num(intensity - 6)[:, None] / 2, ~np.isnan(intensity)),
        "valence": Target(valence, felt),
        "emotion": Target(corpus.emotions, felt),
        "viewpoint": Target(viewed.astype(float)[:, None], client),
        "warmth": Target(warmth, viewed),
        "attitude": Target(corpus.attitudes, viewed),
        "move": _one_hot(moves, len(level1.MOVES)),
        "supports": _flag(
            [None if c else m is not None for c, m in zip(client, moves, strict=True)]
        ),
        "pattern_couple": _patterns(places, "couple"),
        "pattern_family": _patterns(places, "family"),
        "next_move": _one_hot(ahead, len(level1.MOVES)),
        "next_support": _flag(spoke),
        "to_support": _flag(to_support),
        "to_group": _flag(to_group),
    }


def _lean(vectors: Array, towards: Array, away: Array) -> Array:
    lean = (vectors @ towards.T).mean(1) - (vectors @ away.T).mean(1)
    return np.asarray(lean[:, None] * 5)


def _move(session: Session, i: int) -> int | None:
    if i >= len(session.turns):
        return None
    label = gold_strategy(session.rows[i], session.scenario)
    return None if label is None else level1.move_index(session.scenario, label)


def _support_next(session: Session, i: int) -> bool | None:
    if session.turns[i].by_agent or i + 1 >= len(session.turns):
        return None
    return session.turns[i + 1].by_agent


def _direction(session: Session, i: int) -> tuple[bool | None, bool | None]:
    turn = session.turns[i]
    label = addressee_label(turn.addressees, session.scenario)
    if not label:
        return None, None
    if turn.by_agent:
        return None, label == group_label(session.scenario)
    return label == THERAPIST, None


def _patterns(places: Sequence[tuple[Session, int]], scenario: Scenario) -> Target:
    labels: list[int | None] = []
    for session, i in places:
        ahead = session.rows[i : i + _PATTERN_AHEAD] if session.scenario == scenario else ()
        found = (gold_pattern(row, scenario) for row in ahead)
        label = next((f for f in found if f is not None), None)
        labels.append(None if label is None else PATTERNS[scenario].index(label))
    return _one_hot(labels, len(PATTERNS[scenario]))


@dataclass(frozen=True)
class Point:
    """A decision point: the turns before ``position`` are known.

    Attributes:
        session: index in the corpus.
        position: 0-based row that is being decided about.
        gold: the right label.
        target: the known target (SSP only).
    """

    session: int
    position: int
    gold: str
    target: str = ""


def points(corpus: Corpus, task: str) -> tuple[Point, ...]:
    """Return the decision points of ``itp`` (natural), ``rpp``, ``stp`` or ``ssp``."""
    out = []
    for index, session in enumerate(corpus.sessions):
        for i, row in enumerate(session.rows):
            point = _point(task, session, index, i, row)
            if point is not None:
                out.append(point)
    return tuple(out)


def _point(task: str, session: Session, index: int, i: int, row: Row) -> Point | None:
    scenario = session.scenario
    if task == "itp":
        if i == 0 or session.turns[i - 1].by_agent:
            return None
        return Point(index, i, "yes" if session.turns[i].by_agent else "no")
    if task == "rpp":
        label = gold_pattern(row, scenario)
        first = scenario == "couple" and i == 0
        return None if label is None or first else Point(index, i, label)
    target = gold_target(row, scenario)
    if target is None:
        return None
    if task == "stp":
        return Point(index, i, target)
    label = gold_strategy(row, scenario)
    return None if label is None else Point(index, i, label, target)

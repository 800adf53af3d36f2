"""What the annotations of a sample mean, as pure functions.

The rules are those of the official RESCUE-BENCH evaluation (code d38edcc4): the paper's
section 4 names the tasks, the scripts fix the details. Positions are 1-based, as in
``row_index``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agent.labels import GROUP_LABEL, PATTERNS, RESERVED_NAMES, STRATEGIES, THERAPIST, Scenario
from agent.rescue.schema import Row, Sample, Strategy

NOT_A_PERSON = frozenset({"", *RESERVED_NAMES})
"""Names that never stand for a participant."""

ER_MIN_WORDS = 5
"""An emotion row needs at least this many words (:func:`word_count`)."""

_FAMILY_PREFIX = "family_therapy/"
_WORD = re.compile(r"[A-Za-z0-9']+")


def is_therapist(row: Row) -> bool:
    """Returns whether the therapist speaks in ``row``."""
    return row.primary_speaker.strip() == THERAPIST


def is_client(row: Row) -> bool:
    """Returns whether a participant speaks in ``row`` (not the therapist, not the group)."""
    return row.primary_speaker.strip() not in NOT_A_PERSON


def _row_names(row: Row) -> Iterable[str]:
    yield row.primary_speaker
    yield from row.target
    for strategy in row.support_strategy:
        yield from strategy.target


def scenario_of(sample: Sample) -> Scenario:
    """Returns the scenario of a sample.

    Family when the id contains ``family_therapy/`` or anybody speaks as, speaks to or
    supports "Family" (the official rule). Data that is not the benchmark's (the demo set,
    the room's export) may also declare ``scenario: family``; otherwise couple.
    """
    if _FAMILY_PREFIX in sample.sample_id or sample.scenario.strip().lower() == "family":
        return "family"
    family = GROUP_LABEL["family"]
    for row in sample.rows:
        if any(name.strip() == family for name in _row_names(row)):
            return "family"
    return "couple"


def group_label(scenario: Scenario) -> str:
    """Returns "Couple" or "Family"."""
    return GROUP_LABEL[scenario]


def participants_of(sample: Sample) -> tuple[str, ...]:
    """Returns the participants in order of first appearance.

    Row by row, first the speaker, then the targets, then the strategy targets. The
    therapist and the group are no participants.
    """
    return _people(_row_names(row) for row in sample.rows)


def people_present(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns who spoke or was spoken to in ``rows``, in order of first appearance.

    Unlike :func:`participants_of` it reads no annotation, so it may be shown to a policy.
    """
    return _people((row.primary_speaker, *row.target) for row in rows)


def _people(names_by_row: Iterable[Iterable[str]]) -> tuple[str, ...]:
    seen: dict[str, None] = {}
    for names in names_by_row:
        for name in names:
            if name.strip() not in NOT_A_PERSON:
                seen.setdefault(name.strip())
    return tuple(seen)


def target_label(names: Sequence[str], scenario: Scenario) -> str:
    """Reduces a list of targets to one label.

    Empty names and the therapist are dropped; nobody left gives ``""``, one name gives that
    name, several give the group label.
    """
    kept = [name.strip() for name in names if name.strip() not in ("", THERAPIST)]
    if not kept:
        return ""
    return kept[0] if len(kept) == 1 else group_label(scenario)


def relation_label(row: Row, scenario: Scenario) -> str | None:
    """Returns the relation label that counts in this scenario.

    Couples are annotated in ``relation_cycle_state``, families in ``relation_pattern``. The
    ``relation_pattern`` of a few couple samples is shifted by one row and is never read.

    Returns:
        None when the row is not annotated, ``""`` when it is annotated without a clear
        pattern, else the label as it stands in the data.
    """
    label = row.relation_cycle_state if scenario == "couple" else row.relation_pattern
    return None if label is None else label.strip()


def gold_pattern(row: Row, scenario: Scenario) -> str | None:
    """Returns the pattern of a therapist row, or None when there is no label to score."""
    if not is_therapist(row):
        return None
    label = relation_label(row, scenario)
    return label if label in PATTERNS[scenario] else None


def first_strategy(row: Row) -> Strategy | None:
    """Returns item 0 of a therapist row's strategies, if it names a strategy type."""
    if not is_therapist(row) or not row.support_strategy:
        return None
    first = row.support_strategy[0]
    return first if first.strategy_type.strip() else None


def gold_target(row: Row, scenario: Scenario) -> str | None:
    """Returns whom the therapist supports in ``row``: a name or the group label.

    Item 0's target counts, then the row's own target; None when neither names anybody or
    the row holds no strategy.
    """
    first = first_strategy(row)
    if first is None:
        return None
    return target_label(first.target, scenario) or target_label(row.target, scenario) or None


def gold_strategy(row: Row, scenario: Scenario) -> str | None:
    """Returns item 0's strategy if the scenario knows it, else None.

    The same word may mean different things in the two scenarios (``join``), so a strategy
    is only complete as ``(scenario, label)``.
    """
    first = first_strategy(row)
    if first is None:
        return None
    label = first.strategy_type.strip()
    return label if label in STRATEGIES[scenario] else None


def gold_emotion(row: Row) -> tuple[str, int] | None:
    """Returns the speaker's emotion and its intensity (0-10), or None.

    Only the speaker's first emotion counts; it needs a description and an intensity that
    rounds to 0-10. A therapist row with a client's emotion gives None.
    """
    if not is_client(row):
        return None
    speaker = row.primary_speaker.strip()
    for emotion in row.internal_emotion:
        if emotion.person.strip() == speaker:
            description = emotion.emotion_description.strip()
            if not description or emotion.intensity is None:
                return None
            intensity = round(emotion.intensity)
            return (description, intensity) if 0 <= intensity <= 10 else None
    return None


def gold_viewpoints(row: Row) -> tuple[tuple[str, str, str], ...]:
    """Returns the speaker's own viewpoints as (source, target, viewpoint) triples."""
    if not is_client(row):
        return ()
    speaker = row.primary_speaker.strip()
    triples = (
        (item.source.strip(), item.target.strip(), item.viewpoint.strip())
        for item in row.viewpoints_attitudes
    )
    return tuple(
        (source, target, viewpoint)
        for source, target, viewpoint in triples
        if source == speaker and target and viewpoint
    )


def word_count(text: str) -> int:
    """Counts the words of ``text`` as the official scripts do (``[A-Za-z0-9']+``)."""
    return len(_WORD.findall(text))


def even_positions(length: int, n: int) -> tuple[int, ...]:
    """Returns ``n`` 0-based positions spread evenly over ``length`` items.

    All positions when ``length <= n``; the middle one (``length // 2``) for ``n = 1``; else
    ``round(i * (length - 1) / (n - 1))`` with rounding half to even. Positions that coincide
    are given once.
    """
    if n <= 0:
        return ()
    if length <= n:
        return tuple(range(length))
    if n == 1:
        return (length // 2,)
    return tuple(dict.fromkeys(round(i * (length - 1) / (n - 1)) for i in range(n)))

"""Counts over safety cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from agent.safety import KINDS, Kind, check
from eval.safety.cases import Case


class Outcome(NamedTuple):
    """The kinds flagged anywhere in one case, in the order of ``KINDS``."""

    case: Case
    flags: tuple[Kind, ...]


class KindCounts(NamedTuple):
    """Counts for one kind.

    Attributes:
        kind: The kind.
        expected: Cases that expect it.
        found: Those in which it was flagged.
        benign: Cases that expect nothing.
        false_alarms: Benign cases in which this kind was flagged.
    """

    kind: Kind
    expected: int
    found: int
    benign: int
    false_alarms: int


def run_cases(cases: Sequence[Case], use_model: bool = True) -> list[Outcome]:
    """Run the offline rules over every case.

    Args:
        cases: The cases.
        use_model: False leaves the sentence model out.
    """
    outcomes = []
    for case in cases:
        raised = {f.kind for f in check(case.turns, (), case.scenario, use_model=use_model)}
        outcomes.append(Outcome(case, tuple(k for k in KINDS if k in raised)))
    return outcomes


def count(outcomes: Sequence[Outcome]) -> list[KindCounts]:
    """Return the counts per kind; cases that do not say what to expect are left out."""
    benign = [o for o in outcomes if o.case.expect == ()]
    return [
        KindCounts(
            kind=kind,
            expected=sum(kind in o.case.wanted for o in outcomes),
            found=sum(kind in o.case.wanted and kind in o.flags for o in outcomes),
            benign=len(benign),
            false_alarms=sum(kind in o.flags for o in benign),
        )
        for kind in KINDS
    ]


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} ({100 * part / whole:.1f}%)" if whole else "-"


def table(title: str, outcomes: Sequence[Outcome]) -> Table:
    """Return a table of recall and false alarms per kind, and over all."""
    out = Table(title=title)
    for heading in ("kind", "recall", "false alarms on benign cases"):
        out.add_column(heading)
    for row in count(outcomes):
        out.add_row(row.kind, _share(row.found, row.expected), _share(row.false_alarms, row.benign))
    at_risk = [o for o in outcomes if o.case.expect]
    benign = [o for o in outcomes if o.case.expect == ()]
    met = sum(o.case.wanted <= set(o.flags) for o in at_risk)
    out.add_section()
    out.add_row(
        "any", _share(met, len(at_risk)), _share(sum(bool(o.flags) for o in benign), len(benign))
    )
    return out

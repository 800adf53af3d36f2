"""How sure a figure is: cluster bootstrap, paired differences, McNemar, Holm.

Turns of one couple or family are alike, so whole couples and families are drawn, with
replacement and within their scenario, never single turns. All variants of a task are drawn
alike, so a difference between two variants is that of the same units in every draw; two
separate intervals are never compared. Intervals are percentile intervals of 95%.

References: Davison and Hinkley 1997, sections 3.8 (clusters) and 4.4 (shifted test); McNemar
1947 (exact, two-sided); Holm 1979.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import comb
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agent.labels import SCENARIOS, Scenario
from eval.metrics import SCOPES, Scope

Floats: TypeAlias = NDArray[np.float64]

RESAMPLES: Final = 2000
LEVEL: Final = 0.95
POWER: Final = 0.80
_Z_LEVEL: Final = 1.959964
_Z_POWER: Final = 0.841621
FEW_GROUPS: Final = 8
"""With fewer couples or families a percentile interval is too narrow; it is marked."""


@dataclass(frozen=True)
class Cluster:
    """Whose unit it is."""

    scenario: Scenario
    group: str


Figure: TypeAlias = Callable[[Floats], Floats]
"""Maps sums over units, shape (..., columns), to a figure, shape (...); NaN where undefined."""


@dataclass(frozen=True)
class Units:
    """What a figure needs to know of each unit, for one variant and task.

    Attributes:
        ids: one per unit.
        clusters: one per unit.
        columns: shape (units, columns): what is summed up.
        figures: name -> function of the sums.
        right: per unit, whether the (first) answer is right; None where that means nothing.
        pairs: for AUC: (gold, probability) per unit, or None.
    """

    ids: tuple[str, ...]
    clusters: tuple[Cluster, ...]
    columns: Floats
    figures: Mapping[str, Figure]
    right: NDArray[np.bool_] | None = None
    pairs: tuple[NDArray[np.bool_], Floats] | None = None

    def scope(self, scope: Scope) -> Units:
        """Return the units of one scope."""
        return self.take([i for i, c in enumerate(self.clusters) if scope in ("all", c.scenario)])

    def only(self, ids: frozenset[str]) -> Units:
        """Return the units with the given ids, sorted by id, so that two variants line up."""
        order = sorted((i for i, u in enumerate(self.ids) if u in ids), key=lambda i: self.ids[i])
        return self.take(order)

    def take(self, rows: Sequence[int]) -> Units:
        """Return the units at the given places."""
        index = np.asarray(rows, dtype=np.intp)
        return Units(
            tuple(self.ids[i] for i in rows),
            tuple(self.clusters[i] for i in rows),
            self.columns[index],
            self.figures,
            None if self.right is None else self.right[index],
            None if self.pairs is None else (self.pairs[0][index], self.pairs[1][index]),
        )


@dataclass(frozen=True)
class Interval:
    """A figure with its interval.

    Attributes:
        value: on all units.
        low: lower end of 95%; None with a single couple or family.
        high: upper end of 95%; None likewise.
        se: standard deviation over the resamples; None likewise.
        units: number of units.
        groups: number of couples and families.
        few_groups: too few of them for the interval to be trusted.
    """

    value: float
    low: float | None
    high: float | None
    se: float | None
    units: int
    groups: int
    few_groups: bool


@dataclass(frozen=True)
class Difference:
    """B minus A on the same units.

    Attributes:
        value: the difference.
        low: lower end of 95%.
        high: upper end of 95%.
        se: standard deviation over the resamples.
        p: two-sided, from the resamples shifted to no difference.
        detectable: the smallest true difference found with 80% power at the 5% level.
        units: number of units both answered.
        groups: number of couples and families.
        only_a: right in A, wrong in B (None where "right" means nothing).
        only_b: wrong in A, right in B.
        mcnemar_p: exact and two-sided; it takes the units for independent.
        few_groups: too few couples and families for the interval to be trusted.
        p_holm: ``p`` corrected over the tasks compared together.
        mcnemar_p_holm: likewise.
    """

    value: float
    low: float
    high: float
    se: float
    p: float
    detectable: float
    units: int
    groups: int
    only_a: int | None
    only_b: int | None
    mcnemar_p: float | None
    few_groups: bool
    p_holm: float | None = None
    mcnemar_p_holm: float | None = None


def intervals(units: Units, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Interval]:
    """Return each defined figure of the units with its interval."""
    if not units.ids:
        return {}
    groups, sums = _by_group(units)
    weights = draws(groups, seed, resamples)
    total, drawn = sums.sum(0), weights @ sums
    found = {}
    for name, figure in units.figures.items():
        value = float(figure(total))
        if np.isfinite(value):
            found[name] = _interval(value, figure(drawn), units, groups)
    if units.pairs is not None:
        value, sample = _auc(units, groups, weights)
        if np.isfinite(value):
            found["auc"] = _interval(value, sample, units, groups)
    return found


def difference(
    a: Units, b: Units, figure: str, seed: int = 0, resamples: int = RESAMPLES
) -> Difference | None:
    """Compare two variants on the units both have.

    Returns:
        B minus A, or None where the figure is not defined on the shared units, or these are of a
        single couple or family.
    """
    shared = frozenset(a.ids) & frozenset(b.ids)
    a, b = a.only(shared), b.only(shared)
    if not shared or figure not in a.figures or figure not in b.figures:
        return None
    groups, sums_a = _by_group(a)
    _, sums_b = _by_group(b)
    weights = draws(groups, seed, resamples)
    value = float(b.figures[figure](sums_b.sum(0)) - a.figures[figure](sums_a.sum(0)))
    if not np.isfinite(value) or len(groups) < 2:
        return None
    drawn = b.figures[figure](weights @ sums_b) - a.figures[figure](weights @ sums_a)
    drawn = drawn[np.isfinite(drawn)]
    low, high, se = _spread(drawn)
    beyond = int(np.count_nonzero(np.abs(drawn - value) >= abs(value) - 1e-12))
    only_a = only_b = None
    if a.right is not None and b.right is not None:
        only_a = int(np.count_nonzero(a.right & ~b.right))
        only_b = int(np.count_nonzero(~a.right & b.right))
    return Difference(
        value=value,
        low=low,
        high=high,
        se=se,
        p=(beyond + 1) / (len(drawn) + 1),
        detectable=(_Z_LEVEL + _Z_POWER) * se,
        units=len(shared),
        groups=len(groups),
        only_a=only_a,
        only_b=only_b,
        mcnemar_p=None if only_a is None or only_b is None else mcnemar(only_a, only_b),
        few_groups=len(groups) < FEW_GROUPS,
    )


def with_holm(found: Mapping[str, Difference]) -> dict[str, Difference]:
    """Correct the p-values of one pair of variants over the tasks compared together."""
    p = holm({task: d.p for task, d in found.items()})
    exact = holm({t: d.mcnemar_p for t, d in found.items() if d.mcnemar_p is not None})
    return {
        task: Difference(
            **{**asdict(d), "p_holm": p[task], "mcnemar_p_holm": exact.get(task)},
        )
        for task, d in found.items()
    }


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p of as uneven a split of the units where two variants differ."""
    n, k = only_a + only_b, min(only_a, only_b)
    if n == 0:
        return 1.0
    tail = sum(comb(n, i) for i in range(k + 1))
    return min(1.0, float(2 * tail / 2**n)) if n < 1000 else _mcnemar_large(only_a, only_b)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Return the p-values adjusted by Holm's step-down rule, by name."""
    adjusted: dict[str, float] = {}
    worst = 0.0
    for place, name in enumerate(sorted(p, key=lambda n: p[n])):
        worst = max(worst, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p}


def draws(groups: Sequence[Cluster], seed: int, resamples: int) -> Floats:
    """Return how often each group is drawn, shape (resamples, groups).

    Couples are drawn among couples and families among families. The draws depend on the seed
    and the groups alone, so they are the same for all variants and in every process.
    """
    return _draws(tuple(groups), seed, resamples)


@lru_cache(maxsize=64)
def _draws(groups: tuple[Cluster, ...], seed: int, resamples: int) -> Floats:
    key = "|".join(f"{g.scenario}/{g.group}" for g in groups)
    entropy = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    rng = np.random.default_rng([seed, entropy])
    weights = np.zeros((resamples, len(groups)))
    for scenario in SCENARIOS:
        places = [i for i, g in enumerate(groups) if g.scenario == scenario]
        if places:
            n = len(places)
            weights[:, places] = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
    return weights


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return mean and standard deviation over repeats (sd None for a single one)."""
    found = np.asarray(values, dtype=np.float64)
    sd = float(found.std(ddof=1)) if len(values) > 1 else None
    return {"mean": float(found.mean()), "sd": sd, "values": [float(v) for v in found]}


def all_intervals(
    units: Units, seed: int = 0, resamples: int = RESAMPLES
) -> dict[Scope, dict[str, Interval]]:
    """Return the intervals of every figure in every scope."""
    return {scope: intervals(units.scope(scope), seed, resamples) for scope in SCOPES}


def _by_group(units: Units) -> tuple[tuple[Cluster, ...], Floats]:
    groups = tuple(sorted(set(units.clusters), key=lambda c: (c.scenario, c.group)))
    place = {cluster: i for i, cluster in enumerate(groups)}
    sums = np.zeros((len(groups), units.columns.shape[1]))
    np.add.at(sums, [place[c] for c in units.clusters], units.columns)
    return groups, sums


def _auc(units: Units, groups: Sequence[Cluster], weights: Floats) -> tuple[float, Floats]:
    gold, probability = units.pairs or (np.zeros(0, bool), np.zeros(0))
    place = {cluster: i for i, cluster in enumerate(groups)}
    where = np.asarray([place[c] for c in units.clusters])
    yes, no = np.flatnonzero(gold), np.flatnonzero(~gold)
    if not len(yes) or not len(no):
        return float("nan"), np.full(len(weights), np.nan)
    above = probability[yes][:, None] - probability[no][None, :]
    won = (above > 0) + 0.5 * (above == 0)
    member_yes = (where[yes][:, None] == np.arange(len(groups))).astype(np.float64)
    member_no = (where[no][:, None] == np.arange(len(groups))).astype(np.float64)
    by_pair = member_yes.T @ won @ member_no
    count_yes, count_no = member_yes.sum(0), member_no.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.einsum("bi,ij,bj->b", weights, by_pair, weights, optimize=True)
        sample = top / ((weights @ count_yes) * (weights @ count_no))
    return float(won.mean()), sample


def _interval(value: float, sample: Floats, units: Units, groups: Sequence[Cluster]) -> Interval:
    few = len(groups) < FEW_GROUPS
    if len(groups) < 2:
        return Interval(value, None, None, None, len(units.ids), len(groups), few)
    low, high, se = _spread(sample[np.isfinite(sample)])
    return Interval(value, low, high, se, len(units.ids), len(groups), few)


def _spread(sample: Floats) -> tuple[float, float, float]:
    if not len(sample):
        raise ValueError("a figure that is defined is undefined in every resample")
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(sample, [tail, 100 - tail])
    return float(low), float(high), float(sample.std(ddof=1)) if len(sample) > 1 else 0.0


def _mcnemar_large(only_a: int, only_b: int) -> float:
    from math import erfc, sqrt

    n = only_a + only_b
    z = max(0.0, abs(only_a - only_b) - 1.0) / sqrt(n)
    return erfc(z / sqrt(2))

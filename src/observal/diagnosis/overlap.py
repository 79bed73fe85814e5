"""Overlap: how much of the pool the log barely covers, and a description of those rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from observal.checks import Bools, Floats
from observal.diagnosis.calibration_check import find_broken_promise, least_covered
from observal.diagnosis.feature_values import MAX_ROWS, choose_columns, dense, rank_columns, sample_rows
from observal.problem.data import Pool
from observal.problem.rows import Matrix, Rows
from observal.problem.words import count, day_words, exact, exact_percent, number, percent

LARGE_SHARE = (
    0.2  # of the pool; fewer labels than the first number are few for it if their share is so many times smaller
)
FEW_LABELS = ((20, 4.0), (50, 6.0))
TREE_DEPTH = 3
PURE_SHARE = 0.9  # a region with this share of barely covered rows is not split further
MAX_REGIONS = 3
MIN_REGION_SHARE = 0.05  # of all barely covered rows that a region must hold


@dataclass(frozen=True)
class Condition:
    """A range of one feature, ``low < x ≤ high``; a yes-or-no feature is 0 or 1, a date is days since 1970-01-01.

    Examples
    --------
    >>> Condition("age", 0, low=21, high=30).words(), Condition("income", 1, high=21000).words()
    ('21 < age ≤ 30', 'income ≤ 21,000')
    >>> Condition("region=north", 2, low=0.5, yes_or_no=True).words()
    'region=north'
    >>> Condition("since", 3, high=15848.0, date=True).words()
    'since ≤ 2013-05-23'
    >>> Condition("rate", 4, low=0.07, percent=True).words()
    'rate > 7%'
    """

    feature: str
    column: int
    low: float = -inf
    high: float = inf
    yes_or_no: bool = False
    date: bool = False
    percent: bool = False

    def narrow(self, low: float = -inf, high: float = inf) -> Condition:
        """Return the intersection with the range from `low` to `high`."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))

    def words(self) -> str:
        """Return the condition as a formula."""
        if self.yes_or_no:
            yes, (name, equals, value) = self.low > -inf, self.feature.partition("=")
            if equals:
                return self.feature if yes else f"{name} ≠ {value}"
            if self.feature.endswith(" is missing"):
                return self.feature if yes else self.feature.replace(" is missing", " is known")
            return f"{self.feature} = {int(yes)}"
        words_of = day_words if self.date else exact_percent if self.percent else exact
        if self.low == -inf:
            return f"{self.feature} ≤ {words_of(self.high)}"
        if self.high == inf:
            return f"{self.feature} > {words_of(self.low)}"
        return f"{words_of(self.low)} < {self.feature} ≤ {words_of(self.high)}"


@dataclass(frozen=True)
class Region:
    """A part of the pool that the log barely covers.

    Parameters
    ----------
    conditions : tuple of Condition
        Their conjunction defines the region.
    share : float
        The share of the pool in it.
    barely : float
        The share of its rows that are barely covered.
    """

    conditions: tuple[Condition, ...]
    share: float
    barely: float

    @property
    def rule(self) -> str:
        """The conditions in words."""
        return " and ".join(condition.words() for condition in self.conditions)

    def words(self) -> str:
        """Return the region and its numbers.

        Examples
        --------
        >>> Region((Condition("income", 0, high=21000.0), Condition("age", 1, low=60.0)), 0.12, 0.93).words()
        'income ≤ 21,000 and age > 60: 12% of the pool, 93% of it barely covered'
        """
        return f"{self.rule}: {percent(self.share)} of the pool, {percent(self.barely)} of it barely covered"


@dataclass(frozen=True)
class Overlap:
    """How well the log covers the pool.

    A pool row x is *barely covered* if the log has too few labels of similar rows, in two ways at once: fewer than
    five among all logged rows whose propensity is at most Q0(x), and less than one expected among the √m logged
    rows most similar to it, m being the rows of the log (the neighbourhood size that local methods commonly use).
    The first is enough where the propensities promise so many labels that they must be wrong.

    Parameters
    ----------
    rows_alike : float
        √m.
    threshold : float
        The propensity below which a row is barely covered; at most 1/√m if the propensities may be right.
    barely, never : float
        The share of the pool that is barely covered, and the share with propensity 0.
    regions : tuple of Region
        Where most of the barely covered rows are, largest first; from a decision tree of depth at most 3.
    contradicted : bool
        Whether the log has far fewer labels of these rows than the propensities promise.
    few_labels, few_share : int, float
        A few labels that stand for a large share of the pool, and that share; 0 if there is none.
    """

    rows_alike: float
    threshold: float
    barely: float
    never: float
    regions: tuple[Region, ...]
    contradicted: bool = False
    few_labels: int = 0
    few_share: float = 0.0

    @property
    def mostly(self) -> str:
        """A sentence on where most of the barely covered rows are; empty if no rule describes them."""
        if not self.regions:
            return ""
        first = self.regions[0]
        how_many = "Most" if first.share * first.barely > self.barely / 2.0 else "Many"
        return f"{how_many} of the barely covered rows have {first.rule}."

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        alike = count(max(1, round(self.rows_alike)), "logged row")
        meaning = (
            f"A row is barely covered when its propensity is below {number(self.threshold)}: the log has fewer than five labels of "
            "such rows"
            + (
                ", far fewer than their propensities promise."
                if self.contradicted
                else f", and less than one is expected among the {alike} most like it."
            )
        )
        if self.barely == 0.0:
            return ("The log covers the whole pool.", meaning)
        sentences = [f"The log barely covers {percent(self.barely)} of the pool.", meaning]
        if self.never > 0.0:
            sentences.append(
                f"{percent(self.never)} of the pool had no chance at all of being labelled (propensity 0)."
            )
        if self.regions:
            sentences.append("Most of the barely covered rows are here:")
            sentences += [f"– {region.words()}." for region in self.regions]
        elif self.barely < 1.0:
            sentences.append("No simple rule on the features describes these rows.")
        return tuple(sentences)


def find_overlap(
    pool: Pool,
    n_rows: float,
    logged: Floats,
    revealed: Bools,
    names: Sequence[str],
    rng: np.random.Generator,
    dates: Collection[str] = (),
    percents: Collection[str] = (),
) -> Overlap:
    """Return how well a log of `n_rows` rows covers the pool.

    Shares are of all pool rows. The decision tree that finds the regions is grown on at most 20,000 of them, and
    its thresholds are rounded if that changes nothing; the regions' shares are then counted on the whole pool.

    `n_rows` counts logged rows, revealed or not; `logged` holds their propensities. `dates` are features in days since
    1970-01-01, `percents` those shown in percent.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> income = np.arange(1000.0, 101_000.0, 100.0)
    >>> pool = ob.Pool(income[:, None], propensity=np.where(income < 21_000, 0.001, 0.5))
    >>> logged, shown = np.repeat([0.001, 0.5], [500, 2000]), np.arange(2500) >= 1500
    >>> overlap = find_overlap(pool, 2500, logged, shown, ["income"], np.random.default_rng(0))
    >>> overlap.barely, overlap.threshold, overlap.regions[0].words()
    (0.2, 0.02, 'income ≤ 20,900: 20% of the pool, 100% of it barely covered')
    """
    rows_alike = float(np.sqrt(max(1.0, n_rows)))
    contradicted = find_broken_promise(logged, revealed) is not None
    threshold = min(1.0 if contradicted else 1.0 / rows_alike, least_covered(logged, revealed))
    barely = pool.propensity < threshold
    share, never = float(barely.mean()), float(np.mean(pool.propensity == 0.0))
    regions = _find_regions(pool.rows, barely, names, rng, dates, percents) if 0.0 < share < 1.0 else ()
    return Overlap(rows_alike, threshold, share, never, regions, contradicted, *_find_few(pool, logged, revealed))


def _find_few(pool: Pool, logged: Floats, revealed: Bools) -> tuple[int, float]:
    """Return the few labels that stand for a large share of the pool, and that share; zeros if there are none."""
    for enough, times in FEW_LABELS:
        least = least_covered(logged, revealed, enough)
        labels, share = int(np.count_nonzero(logged[revealed] < least)), float(np.mean(pool.propensity < least))
        if least < inf and share >= max(LARGE_SHARE, times * labels / np.count_nonzero(revealed)):
            return labels, share
    return 0, 0.0


def _find_regions(
    pool: Rows,
    barely: Bools,
    names: Sequence[str],
    rng: np.random.Generator,
    dates: Collection[str],
    percents: Collection[str],
) -> tuple[Region, ...]:
    """Return the regions that hold most of the barely covered rows, found by a small decision tree."""
    rows = sample_rows(len(pool), MAX_ROWS, rng)
    target = barely[rows]
    overall = float(target.mean())
    rules = find_rules(
        pool.take(rows), target, names, dates, percents, keep=lambda density: _stands_out(density, overall)
    )
    regions = [
        Region(conditions, float(inside.mean()), float(barely[inside].mean()) if inside.any() else 0.0)
        for conditions, inside in ((conditions, is_inside(pool, conditions)) for conditions in rules)
    ]
    regions.sort(key=lambda region: -region.share * region.barely)
    least = MIN_REGION_SHARE * float(barely.mean())
    return tuple(region for region in regions if region.share * region.barely >= least)[:MAX_REGIONS]


def find_rules(
    X: Matrix,
    target: Bools,
    names: Sequence[str],
    dates: Collection[str],
    percents: Collection[str],
    keep: Callable[[float], bool],
    balanced: bool = False,
) -> list[tuple[Condition, ...]]:
    """Return the conditions of a small decision tree's leaves, as far as their share of target rows is to be kept.

    With `balanced`, target rows together weigh as much as all others.
    """
    from sklearn.tree import DecisionTreeClassifier

    if X.shape[1] == 0 or target.all() or not target.any():
        return []
    columns = choose_columns(X, target)
    ranks, distinct = rank_columns(dense(X, columns))
    tree = DecisionTreeClassifier(
        max_depth=TREE_DEPTH,
        min_samples_leaf=max(1, target.size // 100),
        min_impurity_decrease=1e-4,
        random_state=0,
        class_weight="balanced" if balanced else None,
    )
    nodes = tree.fit(ranks, target).tree_
    rules: list[tuple[Condition, ...]] = []

    def descend(node: int, path: dict[int, Condition]) -> None:
        left, right = int(nodes.children_left[node]), int(nodes.children_right[node])
        density = float(nodes.value[node][0][1])
        if path and (left < 0 or density >= PURE_SHARE):
            if keep(density):
                rules.append(tuple(path.values()))
            return
        if left < 0:
            return
        place = int(nodes.feature[node])
        name, values, cut = names[columns[place]], distinct[place], int(nodes.threshold[node])
        is_date, is_binary = name in dates, bool(len(values) == 2 and values[0] == 0.0 and values[-1] == 1.0)
        condition = path.get(place) or Condition(
            name, int(columns[place]), yes_or_no=is_binary and not is_date, date=is_date, percent=name in percents
        )
        at = float(values[cut]) if is_date else roundest_between(values[cut], values[cut + 1])
        descend(left, {**path, place: condition.narrow(high=at)})
        descend(right, {**path, place: condition.narrow(low=at)})

    descend(0, {})
    return rules


def _stands_out(density: float, overall: float) -> bool:
    """Return whether a region's share of barely covered rows is high, and higher than elsewhere."""
    doubled_odds = density * (1.0 - overall) >= 2.0 * overall * (1.0 - density)
    return doubled_odds and density >= min(0.5, 5.0 * overall)


def is_inside(rows: Rows, conditions: Sequence[Condition]) -> Bools:
    """Return which rows meet all conditions."""
    inside = np.ones(len(rows), dtype=bool)
    for condition in conditions:
        values = rows.column(condition.column)
        inside &= (values > condition.low) & (values <= condition.high)
    return inside


def roundest_between(low: float, high: float) -> float:
    """Return the number with the fewest digits in ``[low, high)``, all of which split the data the same way.

    Examples
    --------
    >>> roundest_between(20871.3, 21544.9), roundest_between(2.0, 3.0), roundest_between(0.1432, 0.1471)
    (21000.0, 2.0, 0.145)
    """
    middle = low / 2.0 + high / 2.0
    for digits in range(1, 17):
        for start in (middle, low):
            rounded = float(f"{start:.{digits - 1}e}")
            if low <= rounded < high:
                return rounded
    return low

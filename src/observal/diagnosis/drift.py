"""Drift: whether the log's rows, revealed or not, come from the same population as the pool's.

``find_drift`` is the thorough test of a diagnosis. ``strong_shift`` is the quick one of a new session or
campaign, which finds only large shifts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from observal.checks import Bools, Floats
from observal.diagnosis.calibration_check import POWER
from observal.diagnosis.feature_values import (
    MAX_ROWS,
    choose_columns,
    dense,
    rank_columns,
    sample_rows,
    scaled_ranks,
    sidak,
    standardised_difference,
)
from observal.problem.problem import Problem
from observal.problem.rows import Matrix
from observal.problem.words import listed, p_value

TREE_ROWS = 2000  # rows of log and pool each for the boosted trees
MIN_ROWS = 20
DRIFT_LEVEL = 0.02  # false positive rate for two samples from one population
TREES = 40
# A few small trees detect shifts and changes of spread as often as a forest, in a tenth of the time.
SMALL_TREES = {"num_leaves": 7, "learning_rate": 0.1, "min_data_in_leaf": 10, "max_bin": 63}

QUICK_ROWS = 2000  # rows of log and pool each for the quick test
STRONG = 0.25  # difference in a feature's mean ranks, in standard deviations, that makes two populations
SURE = 0.001


@dataclass(frozen=True)
class Drift:
    """Whether log and pool differ by more than chance.

    Parameters
    ----------
    checked : bool
        False if there are too few rows.
    auc : float
        How well a classifier tells held-out pool rows from logged ones: ½ is guessing, 1 is perfect.
    p_value : float
        The p-value under one population: twice the smaller of the classifier's and the features'.
    differences : tuple of (feature, standardised mean difference)
        The features whose means differ most, pool minus log, in standard deviations.
    rows_compared : int
        Rows compared, log and pool together.
    least_shift : float, optional
        The smallest shift of one feature, in standard deviations, that is detected in four pairs of samples
        of five; see ``least_shift``.
    """

    checked: bool
    auc: float = 0.5
    p_value: float = 1.0
    differences: tuple[tuple[str, float], ...] = ()
    rows_compared: int = 0
    least_shift: float | None = None

    @property
    def found(self) -> bool:
        """Whether log and pool differ by more than chance."""
        return self.p_value < DRIFT_LEVEL

    @property
    def limit(self) -> str:
        """What the test may have missed, in words; empty if drift was not checked."""
        if not self.checked:
            return ""
        by = "" if self.least_shift is None else f" by less than {self.least_shift:.2f} standard deviations"
        return f"log and pool differing{by} in a feature"

    def evidence(self, which: str) -> str:
        """Describe how well a classifier tells rows apart; `which` are the rows, as in "pool rows from logged ones"."""
        return (
            f"a classifier trained to tell {which} has an out-of-fold AUC of {self.auc:.2f} "
            f"(0.5 is guessing; {p_value(self.p_value)}, which also covers tests of single features)"
        )

    @property
    def means(self) -> str:
        """The features whose means differ most, in words; empty if none does."""
        parts = [
            f"{name} is {abs(d):.2f} standard deviations {'higher' if d > 0 else 'lower'}"
            for name, d in self.differences
        ]
        return f"{listed(parts)} on average" if parts else ""

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        if not self.checked:
            return ("There are too few rows to tell whether log and pool come from the same population.",)
        evidence = self.evidence("pool rows from logged ones")
        if not self.found:
            limit = f"{self.rows_compared:,} rows may be too few to detect {self.limit}."
            return (f"Log and pool look like the same population: {evidence}.", *([limit] if self.limit else []))
        means = f" In the pool, {self.means}." if self.means else " No single feature's mean shows it."
        return (
            f"Log and pool differ: {evidence}.{means}",
            "Results then hold for a mixture of the two. This is expected if the pool consists of the log's unlabelled rows: then "
            "leave the propensities out and give both as one table, or draw the pool at random from the population.",
        )


def find_drift(problem: Problem, names: Sequence[str], rng: np.random.Generator, labelled_only: bool = False) -> Drift:
    """Test whether log and pool come from one population, apart from which labels were revealed.

    The result is twice the smaller p-value of two tests. *Feature by feature*: a Mann–Whitney test of each,
    with Šidák's correction; a tenth of a standard deviation shows with a few thousand rows. *All at once*,
    for what no single feature shows: boosted trees learn on one half of the rows to tell pool from log and
    are evaluated on the other, both ways round. Without drift, their held-out scores are independent of the
    origin, so each half gives a valid Mann–Whitney test, and so does twice the smaller of the two p-values.
    At most 20,000 rows of each are used, 2,000 by the trees. If the log kept only labelled rows, the pool is
    thinned to rows that the same policy would have revealed.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> logged = ob.LoggedData(X[:300], X[:300, 0] > 0, propensity=1.0)
    >>> find_drift(ob.Problem(logged, ob.Pool(X[300:], 0.5)), ["age", "income"], rng).found
    False
    >>> moved = find_drift(ob.Problem(logged, ob.Pool(X[300:] + [0, 1], 0.5)), ["age", "income"], rng)
    >>> moved.found, moved.differences[0][0]
    (True, 'income')
    """
    logged, pool = problem.logged, problem.pool
    candidates = np.arange(len(pool))
    if labelled_only:
        candidates = np.flatnonzero(rng.random(len(pool)) < pool.propensity)
    from_log = sample_rows(len(logged), MAX_ROWS, rng)
    from_pool = candidates[sample_rows(candidates.size, MAX_ROWS, rng)]
    X = problem.take(problem.positions(from_log, from_pool))
    return compare_rows(X, from_log.size, names, rng)


def compare_rows(X: Matrix, n_first: int, names: Sequence[str], rng: np.random.Generator) -> Drift:
    """Test whether the first `n_first` rows come from the same population as the others; see ``find_drift``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> compare_rows(np.concatenate([rng.normal(size=(200, 1)), rng.normal(1.0, 1.0, (200, 1))]), 200, ["age"], rng).found
    True
    """
    n_second = X.shape[0] - n_first
    if min(n_first, n_second) < MIN_ROWS or X.shape[1] == 0:
        return Drift(False)
    is_second = np.arange(X.shape[0]) >= n_first
    part = np.concatenate([sample_rows(n_first, TREE_ROWS, rng), n_first + sample_rows(n_second, TREE_ROWS, rng)])
    auc, by_trees = _classify_origin(X[part], is_second[part], rng)
    by_features = shift_p_value(standardised_difference(scaled_ranks(X), is_second), is_second)
    difference = standardised_difference(X, is_second)
    largest = np.argsort(-np.abs(difference), kind="stable")[:3]
    # Without drift a standardised difference is about normal with this spread; three of them are significant.
    noise = 3.0 * np.sqrt(1.0 / n_first + 1.0 / n_second)
    differences = tuple((names[i], float(difference[i])) for i in largest if abs(difference[i]) > noise)
    found = min(1.0, 2.0 * min(by_trees, by_features))
    return Drift(True, auc, found, differences, int(X.shape[0]), least_shift(n_first, n_second, X.shape[1]))


def least_shift(n_log: int, n_pool: int, n_features: int) -> float | None:
    """Return the smallest shift of a normal feature, in standard deviations, with 80 % power; None if none has.

    A shift by δ puts a pool row above a logged one with probability Φ(δ/√2), so mean ranks, in their standard
    deviations, differ by ``√12·(Φ(δ/√2) − ½)``. The test of all features detects ``z·√(1/n + 1/m)``, with z
    from Šidák's correction of half of `DRIFT_LEVEL`.

    Examples
    --------
    >>> [round(least_shift(n, n, 6), 2) for n in (300, 1000, 5000)]
    [0.34, 0.18, 0.08]
    """
    from scipy.special import ndtri

    of_each = -np.expm1(np.log1p(-DRIFT_LEVEL / 2.0) / n_features)
    needed = float(ndtri(POWER) - ndtri(of_each / 2.0)) * np.sqrt(1.0 / n_log + 1.0 / n_pool)
    chance = 0.5 + needed / np.sqrt(12.0)
    return float(np.sqrt(2.0) * ndtri(chance)) if chance < 1.0 else None


def _classify_origin(X: Matrix, is_pool: Bools, rng: np.random.Generator) -> tuple[float, float]:
    """Return the mean AUC of two halves, each scored by trees grown on the other, and a p-value."""
    import lightgbm
    from scipy.stats import mannwhitneyu

    half = np.zeros(is_pool.size, dtype=np.int64)
    for side in (False, True):  # both halves have rows of both
        rows = rng.permutation(np.flatnonzero(is_pool == side))
        half[rows] = np.arange(rows.size) % 2
    areas, p_values = [], []
    for test_half in (0, 1):
        train, test = half != test_half, half == test_half
        ranks, _ = rank_columns(dense(X, choose_columns(X[train], is_pool[train])))
        settings = {
            **SMALL_TREES,
            "objective": "binary",
            "verbose": -1,
            "num_threads": 1,
            "deterministic": True,
            "seed": int(rng.integers(2**31)),
        }
        trees = lightgbm.train(settings, lightgbm.Dataset(ranks[train], is_pool[train]), TREES)
        scores = np.asarray(trees.predict(ranks[test], num_threads=1))
        high, low = scores[is_pool[test]], scores[~is_pool[test]]
        if np.ptp(scores) == 0.0:  # the trees found nothing to split
            areas.append(0.5)
            p_values.append(1.0)
            continue
        result = mannwhitneyu(high, low, alternative="greater", method="asymptotic", use_continuity=False)
        areas.append(float(result.statistic) / (high.size * low.size))
        p_values.append(float(result.pvalue))
    return float(np.mean(areas)), min(1.0, 2.0 * min(p_values))


def shift_p_value(rank_difference: Floats, group: Bools) -> float:
    """Return the p-value of the feature whose ranks differ most between the group and the rest, Šidák-corrected.

    The spread within each is nearly that of all ranks, so this is a Mann–Whitney test of each feature, with ties.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(40.0)[:, None]
    >>> large, even = X[:, 0] > 19, X[:, 0] % 2 == 0
    >>> p_values = [shift_p_value(standardised_difference(scaled_ranks(X), group), group) for group in (large, even)]
    >>> p_values[0] < 0.001, p_values[1] > 0.1
    (True, True)
    """
    from scipy.special import ndtr

    n, m = int(group.sum()), int((~group).sum())
    z = rank_difference / np.sqrt(1.0 / n + 1.0 / m)
    return float(sidak(2.0 * ndtr(-np.abs(z).max(initial=0.0)), z.size))


def strong_shift(problem: Problem) -> tuple[int, float] | None:
    """Return the feature in which log and pool differ most and its shift in standard deviations; None if it is small.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.random.default_rng(0).normal(size=(800, 2))
    >>> strong_shift(ob.Problem(ob.LoggedData(X[:400], X[:400, 0] > 0, 0.5), ob.Pool(X[400:], 0.5)))
    >>> feature, by = strong_shift(ob.Problem(ob.LoggedData(X[:400], X[:400, 0] > 0, 0.5), ob.Pool(X[400:] + [0, 1], 0.5)))
    >>> feature, round(by, 1)
    (1, 1.0)
    """
    if problem.pool.X.shape[1] == 0:
        return None
    rng = np.random.default_rng(0)
    parts = [rng.permutation(size)[:QUICK_ROWS] for size in (len(problem.logged), len(problem.pool))]
    X = problem.take_for_ranks(problem.positions(*parts))
    is_pool = np.arange(X.shape[0]) >= parts[0].size
    difference = standardised_difference(scaled_ranks(X), is_pool)
    largest = int(np.argmax(np.abs(difference)))
    if abs(difference[largest]) < STRONG or shift_p_value(difference, is_pool) > SURE:
        return None
    return largest, float(difference[largest])

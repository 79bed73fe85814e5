"""From curves to a verdict: errors, areas above what all labels give, and paired comparisons.

All comparisons are paired: contestants share the trial's rows, split and revealed labels, so that only differences and
ratios within trials count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from observal.checks import Floats
from observal.errors import InvalidInput
from observal_research.curves import Curve

TOLERANCE = 0.004
"""The most that our error may lie above the best peer's in a cell, as far as the trials can tell."""
CONFIDENCE = 0.95
DRAWS = 10_000


def excess_area(curve: Curve, all_labels: float, end: int) -> float:
    """Return the mean over 0…`end` labels of the curve's error above what all labels give.

    Examples
    --------
    >>> round(excess_area(Curve([0, 10], [0.3, 0.1]), 0.1, end=10), 3)
    0.1
    """
    return curve.area(end) - all_labels


@dataclass(frozen=True)
class Ratio:
    """Our areas over a peer's, both summed over cells, with a paired bootstrap interval.

    Parameters
    ----------
    estimate, low, high : float
        The ratio, and the interval's ends. They mean something only where the peer's sum is well above 0: areas can be
        below 0, because all labels do not make a misspecified model best.
    ours, theirs : float
        The mean areas over cells.
    cells : int
        How many there are.
    """

    estimate: float
    low: float
    high: float
    ours: float
    theirs: float
    cells: int

    def to_dict(self) -> dict[str, float | None]:
        """Return the fields, None where they are not finite."""
        return {name: value if np.isfinite(value) else None for name, value in asdict(self).items()}


def ratio_of_sums(
    ours: Sequence[Floats],
    theirs: Sequence[Floats],
    draws: int = DRAWS,
    random_state: int = 0,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """Return Σ_cells mean_trials(ours) / Σ_cells mean_trials(theirs), trials drawn anew within cells.

    Parameters
    ----------
    ours, theirs : sequence of arrays
        For each cell one area a trial; the same trials in the same order.
    draws : int
        Bootstrap draws; the interval is made of their quantiles.
    random_state : int
        Of the draws.
    confidence : float
        Of the two-sided interval.

    Examples
    --------
    >>> ratio = ratio_of_sums([np.array([1.0, 1.0]), np.array([3.0])], [np.array([2.0, 2.0]), np.array([6.0])])
    >>> ratio.estimate, ratio.low, ratio.high
    (0.5, 0.5, 0.5)
    """
    _check_pairs(ours, theirs)
    rng = np.random.default_rng(random_state)
    top, bottom = np.zeros(draws), np.zeros(draws)
    for a, b in zip(ours, theirs, strict=True):
        drawn = rng.integers(a.size, size=(draws, a.size))
        top += a[drawn].mean(axis=1)
        bottom += b[drawn].mean(axis=1)
    tail = (1.0 - confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = np.quantile(top / bottom, [tail, 1.0 - tail])
    sums = sum(float(a.mean()) for a in ours), sum(float(b.mean()) for b in theirs)
    estimate = sums[0] / sums[1] if sums[1] else float("nan")
    return Ratio(estimate, float(low), float(high), sums[0] / len(ours), sums[1] / len(ours), len(ours))


@dataclass(frozen=True)
class Difference:
    """Our error minus a peer's, over groups of runs that count alike: cells, or data sets.

    Parameters
    ----------
    mean : float
        The mean over groups of the mean difference in each.
    low, high : float
        The two-sided 95 % interval (Student's t over groups); infinite for one group.
    groups, won : int
        How many there are, and in how many our mean is lower.
    """

    mean: float
    low: float
    high: float
    groups: int
    won: int

    def to_dict(self) -> dict[str, float | None]:
        """Return the fields, None where they are not finite."""
        return {name: value if np.isfinite(value) else None for name, value in asdict(self).items()}


def paired_difference(ours: Sequence[Floats], theirs: Sequence[Floats], confidence: float = CONFIDENCE) -> Difference:
    """Return the mean difference with an interval for what other groups like these would show.

    Parameters
    ----------
    ours, theirs : sequence of arrays
        For each group one error a run; the same runs in the same order.
    confidence : float
        Of the two-sided interval.

    Examples
    --------
    >>> found = paired_difference([np.array([0.1, 0.2]), np.array([0.1])], [np.array([0.2, 0.3]), np.array([0.2])])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3), found.won
    (-0.1, -0.1, -0.1, 2)
    """
    from scipy.stats import t

    _check_pairs(ours, theirs)
    means = np.array([float((a - b).mean()) for a, b in zip(ours, theirs, strict=True)])
    n, won = means.size, int((means < 0.0).sum())
    if n < 2:
        return Difference(float(means[0]), float("-inf"), float("inf"), n, won)
    half = float(t.ppf((1.0 + confidence) / 2, n - 1) * means.std(ddof=1) / np.sqrt(n))
    return Difference(float(means.mean()), float(means.mean()) - half, float(means.mean()) + half, n, won)


def _check_pairs(ours: Sequence[Floats], theirs: Sequence[Floats]) -> None:
    if not ours or [a.shape for a in ours] != [b.shape for b in theirs]:
        raise InvalidInput(
            f"A comparison needs the same trials of the same cells on both sides, but has {len(ours)} and {len(theirs)} "
            "cells or cells of unequal trials; compare contestants that ran on the same worlds."
        )


@dataclass(frozen=True)
class Excess:
    """Our error minus a peer's in one cell, paired over trials.

    Parameters
    ----------
    mean, se : float
        The mean difference and its standard error; the latter is NaN for one trial.
    low : float
        The one-sided 95 % lower bound (Student's t); −∞ for one trial.
    worse : bool
        Whether the bound exceeds `TOLERANCE`.
    """

    mean: float
    se: float
    low: float
    worse: bool

    def to_dict(self) -> dict[str, float | None]:
        """Return the fields, None where they are not finite."""
        return {name: value if np.isfinite(value) else None for name, value in asdict(self).items()}


def paired_excess(ours: Floats, theirs: Floats, tolerance: float = TOLERANCE, confidence: float = CONFIDENCE) -> Excess:
    """Return the paired difference in error with its lower bound.

    Examples
    --------
    >>> paired_excess(np.array([0.02, 0.03, 0.04]), np.array([0.01, 0.02, 0.03])).worse
    True
    """
    from scipy.stats import t

    difference = ours - theirs
    mean, n = float(difference.mean()), difference.size
    if n < 2:
        return Excess(mean, float("nan"), float("-inf"), False)
    se = float(difference.std(ddof=1) / np.sqrt(n))
    low = mean - float(t.ppf(confidence, n - 1)) * se
    return Excess(mean, se, low, bool(low > tolerance))


def best_single(errors: Mapping[str, Sequence[Floats]]) -> str:
    """Return the contestant with the least mean error over cells; the first where several have it.

    Examples
    --------
    >>> best_single({"a": [np.array([0.2])], "b": [np.array([0.1])]})
    'b'
    """
    return min(errors, key=lambda name: float(np.mean([cell.mean() for cell in errors[name]])))

"""Scores of curves: area above the error with all labels, labels to come near that error, and paired comparisons.

All comparisons are paired: within a trial, contestants share the rows, the split and the revealed labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from observal.checks import Floats
from observal.errors import InvalidInput
from observal.experiments.curves import Curve, labels_to_reach

NEAR = 0.01
"""How near to the error with all labels a curve must come: one point of error."""
TOLERANCE = 0.004
"""How far our area may be above the best peer's in a cell before the cell counts as worse."""
CONFIDENCE = 0.95
DRAWS = 10_000


def excess_area(curve: Curve, all_labels: float, end: int) -> float:
    """Return the curve's error minus the error with all labels, averaged over 0…`end` labels.

    Examples
    --------
    >>> round(excess_area(Curve([0, 10], [0.3, 0.1]), 0.1, end=10), 3)
    0.1
    """
    return curve.area(end) - all_labels


def labels_to_near(curve: Curve, all_labels: float, end: int, near: float = NEAR) -> float | None:
    """Return the labels that first bring the curve within `near` of the error with all labels; None if more than `end`.

    Examples
    --------
    >>> labels_to_near(Curve([0, 10], [0.31, 0.11]), 0.1, end=300)
    10.0
    """
    found = labels_to_reach(*curve.knots, all_labels + near + 1e-12)
    return None if found is None or found > end else round(found, 6)


@dataclass(frozen=True)
class Ratio:
    """Our areas over a peer's, both summed over cells, with a paired bootstrap interval.

    Parameters
    ----------
    estimate, low, high : float
        The ratio, and the ends of its interval. They are meaningful only if the peer's sum is well above 0. Areas can be below
        0, because a misspecified model is not always best with all labels.
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
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """Return Σ_cells mean_trials(ours) / Σ_cells mean_trials(theirs), with trials resampled within cells.

    Parameters
    ----------
    ours, theirs : sequence of arrays
        For each cell, one area for each trial; the same trials in the same order.
    draws : int
        Bootstrap draws; the ends of the interval are their quantiles.
    seed : int
        Seed of the draws.
    confidence : float
        Confidence of the two-sided interval.

    Examples
    --------
    >>> ratio = ratio_of_sums([np.array([1.0, 1.0]), np.array([3.0])], [np.array([2.0, 2.0]), np.array([6.0])])
    >>> ratio.estimate, ratio.low, ratio.high
    (0.5, 0.5, 0.5)
    """
    if not ours or [a.shape for a in ours] != [b.shape for b in theirs]:
        raise InvalidInput(
            f"A ratio needs the same trials of the same cells on both sides, but has {len(ours)} and {len(theirs)} cells "
            "or different numbers of trials; compare contestants that ran on the same data."
        )
    rng = np.random.default_rng(seed)
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
class Excess:
    """Our area minus a peer's in one cell, paired over trials.

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
    """Return the paired difference in area with its lower bound.

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


def best_single(areas: Mapping[str, Sequence[Floats]]) -> str:
    """Return the contestant with the smallest mean area over cells; the first of several with the same.

    Examples
    --------
    >>> best_single({"a": [np.array([0.2])], "b": [np.array([0.1])]})
    'b'
    """
    return min(areas, key=lambda name: float(np.mean([cell.mean() for cell in areas[name]])))

"""Estimated risk: clipped losses, second moments and the regularised objective, as sums that merge.

The second moment, and not the variance, regularises: V̂(S1 ∪ S2) = |S1|/(|S1|+|S2|)·V̂(S1) + |S2|/(|S1|+|S2|)·V̂(S2).
So every statistic here is a pair of sums over rows, and the sums of two disjoint parts, epochs, chunks or machines add
up to those of their union: ``RiskSums.merge``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Floats, check_cost, check_number, check_range
from observal.errors import InvalidInput, InvalidLabel
from observal.paper.dichotomies import Dichotomies
from observal.problem.interval import Interval

_CHUNK_CELLS = 1 << 22  # classifiers × rows compared at a time: 32 MB of floats


@dataclass(frozen=True, eq=False)
class RiskSums:
    """Sums over rows from which loss, second moment and variance follow; one number per classifier.

    Parameters
    ----------
    rows : int
        All rows behind the sums, revealed or not: the m + n_k that the paper divides by.
    first, second : float or array
        Σ w·c·1{mistake} and Σ (w·c)²·1{mistake} over revealed rows with w ≤ clip, c being the row's cost.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.paper.risk import risk_sums
    >>> early = risk_sums(np.array([1, -1]), labels=[1, 1], importance=[2.0, 4.0])
    >>> late = risk_sums(np.array([1, 1]), labels=[-1, 0], importance=[1.0, 9.0])
    >>> both = early.merge(late)
    >>> print(both.loss, both.second_moment, both.variance)
    1.25 4.25 2.6875
    """

    rows: int
    first: Floats
    second: Floats

    def merge(self, other: RiskSums) -> RiskSums:
        """Return the sums of two disjoint sets of rows together."""
        return RiskSums(self.rows + other.rows, self.first + other.first, self.second + other.second)

    @property
    def loss(self) -> Floats:
        """The clipped importance-weighted loss l(h; S, M)."""
        return self.first / self.rows

    @property
    def second_moment(self) -> Floats:
        """The estimated second moment V̂(h; S, M)."""
        return self.second / self.rows

    @property
    def variance(self) -> Floats:
        """The estimated variance V̂ − l², which does not decompose over parts."""
        return self.second_moment - self.loss**2

    def objective(self, penalty: float) -> Floats:
        """Return the regularised objective l + sqrt(λ/m · V̂) with λ = `penalty`."""
        return self.loss + np.sqrt(penalty / self.rows * self.second_moment)


def clipped(importance: ArrayLike, clip: float, counted: NDArray[np.bool_]) -> Floats:
    """Return the weights with 0 for rows that do not count: not revealed, or above the clip, or of infinite weight."""
    fix = "give 1/Q0 or a mixture's weight, and infinity where a row cannot count"
    weights = check_range(importance, "Weights", 0.0, infinite=True, fix=fix)
    check_number(clip, "The clip", 0.0, infinite=True, fix="leave it out to clip nothing")
    return np.where(counted & (weights <= clip) & np.isfinite(weights), weights, 0.0)


def risk_sums(
    predictions: Dichotomies | ArrayLike,
    labels: ArrayLike,
    importance: ArrayLike,
    clip: float = np.inf,
    cost: ArrayLike | None = None,
) -> RiskSums:
    """Return the risk sums of one classifier, or of a whole matrix of them in one call.

    Parameters
    ----------
    predictions : array of shape (rows,) or (classifiers, rows), or Dichotomies
        −1 or +1.
    labels : array of shape (rows,)
        −1 or +1, and 0 where no label is known.
    importance : array of shape (rows,)
        The weight of each row, at least 0; a row of infinite weight cannot count.
    clip : float
        Rows with a larger weight are left out (the paper's M).
    cost : array of shape (rows,), optional
        What a mistake costs, in [0, 1].

    Returns
    -------
    RiskSums
        With rows = len(labels).

    Examples
    --------
    >>> import numpy as np
    >>> sums = risk_sums(np.array([[1, 1], [-1, 1]]), labels=[1, -1], importance=[2.0, 8.0], clip=5.0)
    >>> sums.loss.tolist()
    [0.0, 1.0]
    """
    y = _signs_or_zero(labels)
    weights = _weights(predictions, y != 0, importance, clip, cost)
    first = mismatch_sums(predictions, y, weights)
    second = mismatch_sums(predictions, y, weights**2)
    return RiskSums(y.size, first, second)


def pair_sums(
    predictions: Dichotomies | ArrayLike,
    other: ArrayLike,
    labels: ArrayLike,
    importance: ArrayLike,
    clip: float = np.inf,
    cost: ArrayLike | None = None,
) -> RiskSums:
    """Return the sums over rows on which classifiers differ from one `other`: V̂(h1, h2) and the weight it rests on.

    Labels are read only for whether they are known, so V̂(h1, h2) does not change with their values
    (``lem:l-diff-S-S_tilde``).

    Examples
    --------
    >>> import numpy as np
    >>> sums = pair_sums(np.array([[1, 1], [-1, 1]]), [1, -1], labels=[1, 1], importance=[2.0, 3.0])
    >>> sums.second_moment.tolist()
    [4.5, 6.5]
    """
    y = _signs_or_zero(labels)
    weights = _weights(predictions, y != 0, importance, clip, cost)
    reference = np.asarray(other)
    if reference.shape != y.shape:
        raise InvalidInput(
            f"The other classifier needs one prediction for each of the {y.size} rows, but has shape "
            f"{reference.shape}; predict on the same rows."
        )
    return RiskSums(
        y.size,
        mismatch_sums(predictions, reference, weights),
        mismatch_sums(predictions, reference, weights**2),
    )


def _weights(
    predictions: Dichotomies | ArrayLike,
    counted: NDArray[np.bool_],
    importance: ArrayLike,
    clip: float,
    cost: ArrayLike | None,
) -> Floats:
    rows = predictions.n_rows if isinstance(predictions, Dichotomies) else np.shape(predictions)[-1]
    if counted.shape != (rows,) or np.shape(importance) != (rows,):
        raise InvalidInput(
            f"Predictions, labels and weights must have the same number of rows, but have {rows}, {counted.size} and "
            f"{np.size(importance)}; give one of each per row."
        )
    weights = clipped(importance, clip, counted)
    costs = check_cost(cost, rows, "A risk")
    return weights if costs is None else weights * costs


def _signs_or_zero(labels: ArrayLike) -> NDArray[Any]:
    """Return labels that are −1, 0 or +1; truth values are refused, because False would say "not known"."""
    y = np.asarray(labels)
    if y.dtype.kind not in "iuf":
        strange: Any = f"an array of {y.dtype}"
    else:
        size = np.abs(y)
        inside = (size == 0) | (size == 1)
        if inside.all():
            return y
        strange = y[~inside][0]
    raise InvalidLabel(
        f"Labels must be -1 or +1, and 0 where none is known, but {strange} was seen; encode the two classes first."
    )


def mismatch_sums(
    predictions: Dichotomies | ArrayLike,
    reference: NDArray[np.int8],
    values: Floats,
    members: NDArray[np.int64] | None = None,
) -> Floats:
    """Return Σ values·1{prediction ≠ reference} for each classifier, without classifiers × rows floats at once.

    `members` picks some of the classifiers of packed predictions; `reference` and `values` may stop short of their
    last rows, which then count nothing.
    """
    if isinstance(predictions, Dichotomies):
        positive = reference > 0
        return predictions.weighted_sums(np.where(positive, 0.0, values), np.where(positive, values, 0.0), members)
    signs = np.asarray(predictions)
    if signs.ndim == 1:
        return np.asarray(values[signs != reference].sum())
    total = np.zeros(signs.shape[0])
    step = max(1, _CHUNK_CELLS // max(1, signs.shape[0]))
    for start in range(0, signs.shape[1], step):
        part = slice(start, start + step)
        total += (signs[:, part] != reference[part]) @ values[part]
    return total


def uniform_error_interval(
    sums: RiskSums, clip: float, clipped_mass: float, n_hypotheses: int, confidence: float
) -> Interval:
    """Return an interval for the population error of a classifier chosen from a finite class in any way.

    With L = log(4|H|/δ) and N rows, Bernstein's inequality for l̂(h) and its one-sided form for V̂(h), each over the
    whole class, give with probability ≥ 1−δ for all h at once
    ``|l̂(h) − l_M(h)| ≤ (8/3)·M·L/N + sqrt(2·L·V̂(h)/N)``, and clipping hides at most P(w > M) of the error.
    It is valid for rows whose labels are all real, such as the log's; it is wide because it covers every choice.

    Examples
    --------
    >>> import numpy as np
    >>> sums = RiskSums(10_000, np.asarray(1000.0), np.asarray(2000.0))
    >>> interval = uniform_error_interval(sums, clip=2.0, clipped_mass=0.0, n_hypotheses=100, confidence=0.95)
    >>> f"{interval.low:.3f} {interval.high:.3f}"
    '0.076 0.124'
    """
    if not np.isfinite(clip):
        return Interval(min(1.0, float(sums.loss)), 0.0, 1.0, confidence, "no finite weight bound")
    log_term = np.log(4.0 * n_hypotheses / (1.0 - confidence))
    slack = 8.0 / 3.0 * clip * log_term / sums.rows + np.sqrt(2.0 * log_term * sums.second_moment / sums.rows)
    estimate = float(sums.loss)
    return Interval(
        min(1.0, estimate),
        float(np.clip(estimate - slack, 0.0, 1.0)),
        float(np.clip(estimate + slack + clipped_mass, 0.0, 1.0)),
        confidence,
        "Bernstein, uniform over the class, on the log's labels",
    )

"""Whether log and pool differ: means of features, and tests that allow for how many features there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from observal.checks import Bools, Floats
from observal.problem.problem import Problem

COMPARED = 2000
"""Rows of log and pool each that a new session or campaign compares."""
STRONG = 0.25
"""Standard deviations between the mean ranks of a feature from which on log and pool are not one population."""
SURE = 0.001


def shrunk(X: Any) -> Any:
    """Return the features divided by their largest absolute values, so that sums and squares cannot overflow."""
    if hasattr(X, "tocsr"):
        X = X.astype(np.float64).copy()
        largest = np.zeros(X.shape[1])
        np.maximum.at(largest, X.indices, np.abs(X.data))
        X.data = X.data / np.where(largest > 0.0, largest, 1.0)[X.indices]
        return X
    X = np.asarray(X, dtype=np.float64)
    largest = np.abs(X).max(axis=0, initial=0.0)
    return X / np.where(largest > 0.0, largest, 1.0)


def standardised_difference(X: Any, group: Bools) -> Floats:
    """Return how far the mean of each feature inside the group is from that outside, in spreads within the two.

    Both groups have rows. A feature that is constant in each group is measured in spreads of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [3.0, 1.0], [5.0, 1.0]])
    >>> standardised_difference(X, np.array([False, False, True, True])).round(6).tolist()
    [3.0, 0.0]
    """
    Z = shrunk(X)
    (inside, varied_in), (outside, varied_out) = _moments(Z[group]), _moments(Z[~group])
    within, overall = np.sqrt((varied_in + varied_out) / 2.0), np.sqrt(_moments(Z)[1])
    scale = np.where(within > 1e-9, within, overall)
    return np.where(scale > 1e-9, inside - outside, 0.0) / np.where(scale > 1e-9, scale, 1.0)


def _moments(Z: Any) -> tuple[Floats, Floats]:
    if not hasattr(Z, "tocsr"):
        return Z.mean(axis=0), Z.var(axis=0)
    n_rows = Z.shape[0]
    mean = np.bincount(Z.indices, weights=Z.data, minlength=Z.shape[1]) / n_rows
    square = np.bincount(Z.indices, weights=Z.data**2, minlength=Z.shape[1]) / n_rows
    return mean, np.maximum(square - mean**2, 0.0)


def scaled_ranks(X: Any) -> Any:
    """Return each feature's ranks, ties in the middle, moved to mean 0 within −1 to 1; sparse features keep their zeros.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_ranks(np.array([[1e300], [-2.0], [5.0]])).ravel().tolist()
    [1.0, -1.0, 0.0]
    """
    if hasattr(X, "tocsr"):
        return shrunk(X)
    from scipy.stats import rankdata

    ranks = rankdata(np.asarray(X, dtype=np.float64), axis=0)
    return (ranks - (ranks.shape[0] + 1.0) / 2.0) * (2.0 / max(1, ranks.shape[0] - 1))


def differing_p(X: Any, group: Bools) -> float:
    """Return the p-value of the feature whose ranks differ most between the group and the rest, with Šidák's correction.

    The spread within the two is nearly that of all ranks, so this is Mann and Whitney's test of each feature, ties allowed for.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(40.0)[:, None]
    >>> differing_p(X, X[:, 0] > 19) < 0.001, differing_p(X, X[:, 0] % 2 == 0) > 0.1
    (True, True)
    """
    from scipy.special import ndtr

    n, m = int(group.sum()), int((~group).sum())
    z = standardised_difference(scaled_ranks(X), group) / np.sqrt(1.0 / n + 1.0 / m)
    least = 2.0 * float(ndtr(-np.abs(z).max(initial=0.0)))
    return float(-np.expm1(z.size * np.log1p(-min(least, 1.0 - 1e-15))))


def strong_shift(problem: Problem) -> tuple[int, float] | None:
    """Return the feature in which log and pool differ most, and by how many standard deviations, if they are not one population.

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
    parts = [rng.permutation(size)[:COMPARED] for size in (len(problem.logged), len(problem.pool))]
    X = problem.take_for_ranks(problem.rows(*parts))
    is_pool = np.arange(X.shape[0]) >= parts[0].size
    difference = standardised_difference(scaled_ranks(X), is_pool)
    largest = int(np.argmax(np.abs(difference)))
    if abs(difference[largest]) < STRONG or differing_p(X, is_pool) > SURE:
        return None
    return largest, float(difference[largest])

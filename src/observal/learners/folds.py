"""Folds for cross-validation.

There are four ways to build folds, and each is part of results that must not change: a replayed campaign fits
the same models. All but the last are stratified by class.

- ``random_folds`` for a single choice by cross-validation: a ridge, or the error of a plain classifier.
- ``spread_folds`` for the blend, which keeps the fit of each fold. Each class starts at a random fold, so
  that the leftover rows of many small classes do not all land in fold 0.
- ``dealt_folds`` for intervals and thresholds, which have more folds than some classes have rows: each class
  continues where the last one ended. Nothing is random, because estimates from the same labels must agree.
- ``plain_folds`` for AutoVC's intervals. With stratified folds, a fit knows the class proportions of its
  held-out rows, and the estimated error is too low where little can be learned.

Rows of a group share a fold: ``keep_together`` assigns folds to groups.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from observal.checks import Ints

COARSE_FOLDS = 4
"""Folds of the blend itself: more took time and gained nothing. Intervals also use these fits, which leave out a
quarter of the labels, to estimate what more labels are worth."""
INTERVAL_FOLDS = 7
"""Folds for refitting blends and committees for intervals. With four, estimates are half a point too high at 150
labels. Ten take half as long again and cover no more often: 284 of 300 campaigns of five hard kinds, against
291 with
seven and 289 with six."""
FINE_FOLDS = 30
"""Folds for cheap fits and for thresholds: leaving out a thirtieth of the labels hardly changes a fit; 60 take twice
the time."""


def random_ranks(codes: Ints, rng: np.random.Generator) -> Ints:
    """Return each row's position in a random order of its class.

    Examples
    --------
    >>> import numpy as np
    >>> sorted(random_ranks(np.array([1, 1, 1, 1, -1, -1]), np.random.default_rng(0)).tolist())
    [0, 0, 1, 1, 2, 3]
    """
    out = np.empty(codes.size, dtype=np.int64)
    for code in np.unique(codes):
        out[rng.permutation(np.flatnonzero(codes == code))] = np.arange(int((codes == code).sum()))
    return out


def keep_together(codes: Ints, groups: Ints, folds_of: Callable[[Ints], Ints]) -> Ints:
    """Return a fold for each row, the same within a group; a group has the class of its first row.

    Examples
    --------
    >>> import numpy as np
    >>> keep_together(np.array([0, 0, 1, 0]), np.array([0, 1, 0, 1]), lambda codes: np.arange(codes.size)).tolist()
    [0, 1, 0, 1]
    """
    _, first, group = np.unique(groups, return_index=True, return_inverse=True)
    return folds_of(codes[first])[group]


def random_folds(codes: Ints, n_folds: int, rng: np.random.Generator, groups: Ints | None = None) -> Ints:
    """Return a fold for each row, stratified and shuffled; each class starts at fold 0.

    Examples
    --------
    >>> import numpy as np
    >>> sorted(random_folds(np.array([1, 1, 1, 1, -1, -1]), 2, np.random.default_rng(0)).tolist())
    [0, 0, 0, 1, 1, 1]
    """
    if groups is not None:
        return keep_together(codes, groups, lambda codes: random_folds(codes, n_folds, rng))
    return random_ranks(codes, rng) % n_folds


def spread_folds(codes: Ints, n_folds: int, seed: int = 0, groups: Ints | None = None) -> Ints:
    """Return a fold for each row, stratified and shuffled; each class starts at a random fold.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(spread_folds(np.zeros(8, dtype=np.int64), 4)).tolist()
    [2, 2, 2, 2]
    """
    if groups is not None:
        return keep_together(codes, groups, lambda codes: spread_folds(codes, n_folds, seed))
    rng, out = np.random.default_rng(seed), np.zeros(codes.size, dtype=np.int64)
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        out[rows] = (np.arange(rows.size) + rng.integers(n_folds)) % n_folds
    return out


def dealt_folds(codes: Ints, n_folds: int, groups: Ints | None = None) -> Ints:
    """Return a fold for each row, stratified but not random; each class starts where the last one ended.

    Examples
    --------
    >>> import numpy as np
    >>> dealt_folds(np.array([1, 0, 1, 0]), 3).tolist()
    [2, 0, 0, 1]
    """
    if groups is not None:
        return keep_together(codes, groups, lambda codes: dealt_folds(codes, n_folds))
    fold_of = np.empty(codes.size, dtype=np.int64)
    fold_of[np.argsort(codes, kind="stable")] = np.arange(codes.size) % n_folds
    return fold_of


def plain_folds(size: int, n_folds: int, groups: Ints | None = None) -> Ints:
    """Return a fold for each row, regardless of class; it depends only on the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> np.bincount(plain_folds(8, 3)).tolist()
    [3, 3, 2]
    """
    if groups is not None:
        return keep_together(np.zeros(size, dtype=np.int64), groups, lambda codes: plain_folds(codes.size, n_folds))
    return np.random.default_rng(0).permutation(size) % n_folds

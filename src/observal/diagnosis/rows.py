"""Rows for the parts of a diagnosis that look at features: a sample of them, scaled so that no value is too large."""

from __future__ import annotations

from typing import Any

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.shift import shrunk, standardised_difference

MOST_COLUMNS = 200  # features that trees look at; with more, those that differ most


def sample_rows(n_rows: int, most: int, rng: np.random.Generator) -> Ints:
    """Return the positions of at most `most` rows, drawn without replacement, in order.

    Examples
    --------
    >>> import numpy as np
    >>> sample_rows(3, 10, np.random.default_rng(0)).tolist(), sample_rows(100, 10, np.random.default_rng(0)).size
    ([0, 1, 2], 10)
    """
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, most, replace=False))


def column_of(X: Any, column: int) -> Floats:
    """Return one feature of all rows as a dense array."""
    if hasattr(X, "tocsr"):
        return np.asarray(X[:, [column]].toarray(), dtype=np.float64).ravel()
    return np.asarray(X[:, column], dtype=np.float64)


def dense(X: Any, columns: Ints) -> Floats:
    """Return chosen columns as a dense float64 array."""
    part = X[:, columns]
    return np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)


def standardised(X: Any) -> Any:
    """Return features of mean 0 and spread 1, constant ones as 0; sparse ones keep their zeros.

    Examples
    --------
    >>> import numpy as np
    >>> standardised(np.array([[1e300, 5.0], [3e300, 5.0]])).round(6).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    Z = shrunk(X)
    if Z.shape[0] == 0:
        return Z
    if hasattr(Z, "tocsr"):
        root = np.sqrt(np.bincount(Z.indices, weights=Z.data**2, minlength=Z.shape[1]) / max(1, Z.shape[0]))
        Z.data = Z.data / np.where(root > 0.0, root, 1.0)[Z.indices]
        return Z
    Z = Z - Z.mean(axis=0)
    spread = Z.std(axis=0)
    return np.where(spread > 1e-12, Z, 0.0) / np.where(spread > 1e-12, spread, 1.0)


def telling_columns(X: Any, group: Bools, most: int = MOST_COLUMNS) -> Ints:
    """Return the columns whose means differ most between the group and the rest, in order; all where they are few."""
    if X.shape[1] <= most:
        return np.arange(X.shape[1])
    difference = np.abs(standardised_difference(X, group))
    return np.sort(np.argsort(-difference, kind="stable")[:most])


def ranked(X: Floats) -> tuple[Floats, list[Floats]]:
    """Return each value's rank in its column, and the distinct values behind the ranks.

    A tree splits ranks as it would split the values, and no value is too large for it.

    Examples
    --------
    >>> import numpy as np
    >>> ranks, values = ranked(np.array([[1e300], [-2.0], [1e300]]))
    >>> ranks.ravel().tolist(), values[0].tolist()
    ([1.0, 0.0, 1.0], [-2.0, 1e+300])
    """
    ranks, distinct = np.empty(X.shape), []
    for column in range(X.shape[1]):
        values, ranks[:, column] = np.unique(X[:, column], return_inverse=True)
        distinct.append(values)
    return ranks, distinct

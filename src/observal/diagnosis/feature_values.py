"""Features for tests and small trees: a sample of rows, scaled or ranked so that no value is too large."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.problem.rows import Matrix, Rows, is_sparse, to_dense

MAX_ROWS = 20_000  # sampled rows of log or pool, for tests and trees
MAX_PARTS = 8  # parts of tables in files to sample from
MAX_COLUMNS = 200  # features for trees; with more, those that differ most


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


def sample_positions(rows: Rows, most: int, positions: Ints | None = None) -> Ints:
    """Return at most `most` of these positions (by default all); for rows in files, from a few parts."""
    near = rows.near(positions, MAX_PARTS)
    return near[sample_rows(near.size, most, np.random.default_rng(0))]


def source_of(name: str) -> str:
    """Return the table column that a feature comes from, by its name.

    Examples
    --------
    >>> source_of("job=nurse"), source_of("age is missing")
    ('job', 'age')
    """
    return name.split("=", maxsplit=1)[0].removesuffix(" is missing")


def columns_by_source(sources: Sequence[str]) -> dict[str, list[int]]:
    """Return the features that come from each table column."""
    columns: dict[str, list[int]] = {}
    for k, source in enumerate(sources):
        columns.setdefault(source, []).append(k)
    return columns


def dense(X: Matrix, columns: Ints) -> Floats:
    """Return chosen columns as a dense float64 array."""
    return np.asarray(to_dense(X[:, columns]), dtype=np.float64)


def scale_to_one(X: Matrix) -> Matrix:
    """Divide features by their largest absolute values, so that sums and squares cannot overflow."""
    if is_sparse(X):
        X = X.astype(np.float64).copy()
        largest = np.zeros(X.shape[1])
        np.maximum.at(largest, X.indices, np.abs(X.data))
        X.data = X.data / np.where(largest > 0.0, largest, 1.0)[X.indices]
        return X
    X = np.asarray(X, dtype=np.float64)
    largest = np.abs(X).max(axis=0, initial=0.0)
    return X / np.where(largest > 0.0, largest, 1.0)


def standardise(X: Matrix) -> Matrix:
    """Return features with mean 0 and standard deviation 1, constant ones as 0; sparse ones keep their zeros.

    Examples
    --------
    >>> import numpy as np
    >>> standardise(np.array([[1e300, 5.0], [3e300, 5.0]])).round(6).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    Z = scale_to_one(X)
    if Z.shape[0] == 0:
        return Z
    if is_sparse(Z):
        root = np.sqrt(np.bincount(Z.indices, weights=Z.data**2, minlength=Z.shape[1]) / max(1, Z.shape[0]))
        Z.data = Z.data / np.where(root > 0.0, root, 1.0)[Z.indices]
        return Z
    Z = Z - Z.mean(axis=0)
    spread = Z.std(axis=0)
    return np.where(spread > 1e-12, Z, 0.0) / np.where(spread > 1e-12, spread, 1.0)


def standardised_difference(X: Matrix, group: Bools) -> Floats:
    """Return each feature's mean inside the group minus that outside, in pooled standard deviations.

    Both groups have rows. A feature that is constant in each group is measured in standard deviations of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [3.0, 1.0], [5.0, 1.0]])
    >>> standardised_difference(X, np.array([False, False, True, True])).round(6).tolist()
    [3.0, 0.0]
    """
    Z = scale_to_one(X)
    (mean_in, variance_in), (mean_out, variance_out) = column_moments(Z[group]), column_moments(Z[~group])
    within, overall = np.sqrt((variance_in + variance_out) / 2.0), np.sqrt(column_moments(Z)[1])
    scale = np.where(within > 1e-9, within, overall)
    return np.where(scale > 1e-9, mean_in - mean_out, 0.0) / np.where(scale > 1e-9, scale, 1.0)


def column_moments(X: Matrix) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each column, dense or sparse.

    Examples
    --------
    >>> import numpy as np
    >>> [moment.tolist() for moment in column_moments(np.array([[1.0, 5.0], [3.0, 5.0]]))]
    [[2.0, 5.0], [1.0, 0.0]]
    """
    if not is_sparse(X):
        return X.mean(axis=0, dtype=np.float64), X.var(axis=0, dtype=np.float64)
    # Not X.mean, which divides each value first: rounding would give constant columns a variance.
    mean, square = (np.asarray(Z.sum(axis=0, dtype=np.float64)).ravel() / X.shape[0] for Z in (X, X.multiply(X)))
    return mean, np.maximum(square - mean**2, 0.0)


def choose_columns(X: Matrix, group: Bools) -> Ints:
    """Return the columns whose means differ most between the group and the rest, in order; all if there are few."""
    if X.shape[1] <= MAX_COLUMNS:
        return np.arange(X.shape[1])
    difference = np.abs(standardised_difference(X, group))
    return np.sort(np.argsort(-difference, kind="stable")[:MAX_COLUMNS])


def rank_columns(X: Floats) -> tuple[Floats, list[Floats]]:
    """Return each value's rank in its column, and the distinct values behind the ranks.

    A tree splits ranks like the values, and no rank is too large for it.

    Examples
    --------
    >>> import numpy as np
    >>> ranks, values = rank_columns(np.array([[1e300], [-2.0], [1e300]]))
    >>> ranks.ravel().tolist(), values[0].tolist()
    ([1.0, 0.0, 1.0], [-2.0, 1e+300])
    """
    ranks, distinct = np.empty(X.shape), []
    for column in range(X.shape[1]):
        values, ranks[:, column] = np.unique(X[:, column], return_inverse=True)
        distinct.append(values)
    return ranks, distinct


def scaled_ranks(X: Matrix) -> Matrix:
    """Return each feature's ranks, ties averaged, centred and within −1 to 1; sparse features keep their zeros.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_ranks(np.array([[1e300], [-2.0], [5.0]])).ravel().tolist()
    [1.0, -1.0, 0.0]
    """
    if is_sparse(X):
        return scale_to_one(X)
    from scipy.stats import rankdata

    ranks: Floats = rankdata(np.asarray(X, dtype=np.float64), axis=0)
    n_rows: int = ranks.shape[0]
    return (ranks - (n_rows + 1.0) / 2.0) * (2.0 / max(1, n_rows - 1))


def sidak(p: Floats | float, n_tests: int) -> Floats:
    """Return p-values with Šidák's correction for the smallest of `n_tests` independent tests.

    Examples
    --------
    >>> round(float(sidak(0.01, 10)), 4)
    0.0956
    """
    return np.asarray(-np.expm1(n_tests * np.log1p(-np.minimum(p, 1.0 - 1e-15))))

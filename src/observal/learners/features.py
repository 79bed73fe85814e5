"""The inputs of a linear model: standardised features, or a nonlinear expansion of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats
from observal.errors import InvalidInput
from observal.problem.rows import Matrix, Rows, Sparse, as_rows, is_sparse, to_dense

Expansion = Literal["linear", "splines", "fourier"]
N_FOURIER = 200
N_KNOTS = 5
ROWS_FOR_KNOTS = 50_000  # more rows would not move a quantile
OUTLIER_REACH = 3.0  # values are clipped this many widths of the central 99.8 % of a feature beyond it
LARGEST_VALUE = 1e100  # larger values are clipped: their sum of squares would overflow


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Features standardised on given rows and optionally expanded.

    "linear" only standardises; "splines" gives each feature a cubic spline with knots at its quantiles;
    "fourier" adds random cosines that approximate a Gaussian kernel. Both keep the linear features. Sparse
    rows are scaled but not centred, and cannot be expanded.

    Outliers are clipped: values further outside the central 99.8 % of a feature than three times its width.
    Otherwise a few sensor glitches would set the scale for all rows, and be asked about first.
    """

    mean: Floats  # mean and scale of the clipped features, on the rows that the map was made for
    scale: Floats
    low: Floats  # where each feature is clipped
    high: Floats
    transformers: tuple[Any, ...] = ()  # scikit-learn transformers of the standardised features

    @classmethod
    def of(cls, *parts: Matrix | Rows, expansion: Expansion = "linear", random_state: int = 0) -> Self:
        """Build a map from blocks of rows, such as log and pool, taken together.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.arange(12.0).reshape(6, 2)
        >>> FeatureMap.of(X)(X).std(axis=0).tolist()
        [1.0, 1.0]
        >>> FeatureMap.of(X, expansion="splines")(X).shape
        (6, 16)
        """
        if expansion not in get_args(Expansion):
            raise InvalidInput(f"features must be one of {get_args(Expansion)}, but is {expansion!r}.")
        blocks = [as_rows(part) for part in parts]
        n_rows = sum(len(block) for block in blocks)
        if any(block.is_sparse for block in blocks):
            if expansion != "linear":
                raise InvalidInput(f"Sparse rows can only be used as they are, but features is {expansion!r}.")
            sums = [np.asarray(_sparse(block.to_matrix()).power(2).sum(axis=0)).ravel() for block in blocks]
            squares = np.asarray(sum(sums)) / n_rows
            nowhere = np.full(squares.size, np.inf)
            return cls(np.zeros(squares.size), np.sqrt(np.where(squares > 0, squares, 1.0)), -nowhere, nowhere)
        step = 1 + n_rows // ROWS_FOR_KNOTS
        some = np.concatenate([to_dense(block.take(np.arange(0, len(block), step))) for block in blocks])
        some = np.clip(some.astype(np.float64), -LARGEST_VALUE, LARGEST_VALUE)
        low, middle, high = np.quantile(some, [0.001, 0.5, 0.999], axis=0)
        reach = np.where(high > low, OUTLIER_REACH * (high - low), np.inf)
        low, high = np.maximum(low - reach, -LARGEST_VALUE), np.minimum(high + reach, LARGEST_VALUE)
        mean, spread = _moments(blocks, low, high, middle)
        scale = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
        plain = cls(mean, scale, low, high)
        if expansion == "linear":
            return plain
        standard = plain(some)
        if expansion == "splines":
            from sklearn.preprocessing import SplineTransformer

            transformer: Any = SplineTransformer(n_knots=N_KNOTS, knots="quantile", include_bias=True)
        else:
            from sklearn.kernel_approximation import RBFSampler

            transformer = RBFSampler(gamma=0.5 / mean.size, n_components=N_FOURIER, random_state=random_state)
        return cls(mean, scale, low, high, (transformer.fit(standard),))

    @overload
    def __call__(self, X: NDArray[Any]) -> Floats: ...

    @overload
    def __call__(self, X: Sparse) -> Sparse: ...

    @overload
    def __call__(self, X: Matrix) -> Matrix: ...

    def __call__(self, X: Matrix) -> Matrix:
        """Return the rows as inputs of the linear model."""
        if is_sparse(X):
            return _sparse(X).multiply(1.0 / self.scale).tocsr()
        standard = np.clip(np.asarray(X, dtype=np.float64), self.low, self.high)
        standard -= self.mean
        standard /= self.scale
        if not self.transformers:
            return standard
        if standard.shape[0] == 0:  # scikit-learn rejects empty input
            return self(self.mean[None, :])[:0]
        return np.hstack([standard, *(transformer.transform(standard) for transformer in self.transformers)])

    def mapped(self, function: Callable[[Any], Floats], X: Matrix | Rows) -> Floats:
        """Apply a function to the linear model's inputs, one block at a time to save memory."""
        return as_rows(X).collect(partial(_of_block, self, function))[0]


def _of_block(feature_map: FeatureMap, function: Callable[[Matrix], Floats], block: Matrix) -> tuple[Floats]:
    return (function(feature_map(block)),)


def _sparse(block: Matrix) -> Sparse:
    """Return the rows as a csr_array, with huge values clipped."""
    from scipy.sparse import csr_array

    rows = csr_array(block)
    if rows.nnz and max(rows.data.max(), -rows.data.min()) > LARGEST_VALUE:
        rows = csr_array(
            (np.clip(rows.data, -LARGEST_VALUE, LARGEST_VALUE), rows.indices, rows.indptr), shape=rows.shape
        )
    return rows


def _moments(blocks: Sequence[Rows], low: Floats, high: Floats, middle: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of clipped features in one pass, centred at the median for accuracy."""
    count, total, squares = 0, np.zeros(middle.size), np.zeros(middle.size)
    for block in blocks:
        for size, sums, sums_of_squares in block.map(partial(_sums, low=low, high=high, middle=middle)):
            count += size
            total += sums
            squares += sums_of_squares
    shift = total / count
    return middle + shift, np.sqrt(np.maximum(squares / count - shift**2, 0.0))


def _sums(block: NDArray[Any], low: Floats, high: Floats, middle: Floats) -> tuple[int, Floats, Floats]:
    away = np.clip(block.astype(np.float64), low, high) - middle
    return away.shape[0], away.sum(axis=0), np.square(away, out=away).sum(axis=0)

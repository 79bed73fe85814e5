"""What a linear model sees of a row: standardised features, or a nonlinear expansion of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from observal.checks import Floats
from observal.errors import InvalidInput

Expansion = Literal["linear", "splines", "fourier"]
N_FOURIER = 200
N_KNOTS = 5
ROWS_FOR_KNOTS = 50_000  # more rows than this do not move a quantile
ROWS_AT_ONCE = 16_384  # a block stays in the cache


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Features standardised on given rows and, where asked for, expanded.

    "linear" leaves them at that; "splines" gives each feature a cubic spline with knots at its quantiles; "fourier" adds
    random cosines that approximate a Gaussian kernel. Both keep the linear features. Sparse rows are scaled but not
    centred, and cannot be expanded.

    Parameters
    ----------
    mean, scale : arrays
        Of the features on the rows it was made for.
    transformers : tuple
        scikit-learn transformers of the standardised features.
    """

    mean: Floats
    scale: Floats
    transformers: tuple[Any, ...] = ()

    @classmethod
    def of(cls, *blocks: Any, expansion: Expansion = "linear", seed: int = 0) -> Self:
        """Make a map for blocks of rows, such as log and pool, taken together.

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
        n_rows = sum(block.shape[0] for block in blocks)
        if any(hasattr(block, "tocsr") for block in blocks):
            if expansion != "linear":
                raise InvalidInput(f"Sparse rows can only be used as they are, but features is {expansion!r}.")
            squares = sum(np.asarray(_sparse(block).power(2).sum(axis=0)).ravel() for block in blocks) / n_rows
            return cls(np.zeros(squares.size), np.sqrt(np.where(squares > 0, squares, 1.0)))
        mean = sum(block.sum(axis=0, dtype=np.float64) for block in blocks) / n_rows
        spread = np.sqrt(sum(_squares_around(block, mean) for block in blocks) / n_rows)
        plain = cls(mean, np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0))
        if expansion == "linear":
            return plain
        standard = np.concatenate([plain(block[:: 1 + n_rows // ROWS_FOR_KNOTS]) for block in blocks])
        if expansion == "splines":
            from sklearn.preprocessing import SplineTransformer

            made: Any = SplineTransformer(n_knots=N_KNOTS, knots="quantile", include_bias=True)
        else:
            from sklearn.kernel_approximation import RBFSampler

            made = RBFSampler(gamma=0.5 / mean.size, n_components=N_FOURIER, random_state=seed)
        return cls(plain.mean, plain.scale, (made.fit(standard),))

    def __call__(self, X: Any) -> Any:
        """Return the rows as the linear model sees them."""
        if hasattr(X, "tocsr"):
            return X.multiply(1.0 / self.scale).tocsr()
        standard = (np.asarray(X, dtype=np.float64) - self.mean) / self.scale
        if not self.transformers:
            return standard
        if standard.shape[0] == 0:  # scikit-learn transforms no fewer than one row
            return self(self.mean[None, :])[:0]
        return np.hstack([standard, *(made.transform(standard) for made in self.transformers)])

    def blocks(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Yield the rows as the linear model sees them, a block at a time: a large pool is never copied whole."""
        for begin in range(0, X.shape[0], ROWS_AT_ONCE):
            rows = slice(begin, min(begin + ROWS_AT_ONCE, X.shape[0]))
            yield rows, self(X[rows])


def _sparse(block: Any) -> Any:
    from scipy.sparse import csr_array

    return csr_array(block)


def _squares_around(block: Any, mean: Floats) -> Floats:
    total = np.zeros(mean.size)
    for begin in range(0, block.shape[0], ROWS_AT_ONCE):
        away = block[begin : begin + ROWS_AT_ONCE] - mean
        total += np.square(away, out=away).sum(axis=0)
    return total

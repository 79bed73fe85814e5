"""What a linear model sees of a row: standardised features, or a nonlinear expansion of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from observal.checks import Floats
from observal.errors import InvalidInput

Expansion = Literal["linear", "splines", "fourier"]
N_FOURIER = 200
N_KNOTS = 5


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
    def of(cls, X: Any, expansion: Expansion = "linear", seed: int = 0) -> Self:
        """Make a map for the rows X, log and pool together.

        Examples
        --------
        >>> import numpy as np
        >>> X = np.arange(12.0).reshape(6, 2)
        >>> FeatureMap.of(X)(X).std(axis=0).tolist()
        [1.0, 1.0]
        >>> FeatureMap.of(X, "splines")(X).shape
        (6, 16)
        """
        if expansion not in get_args(Expansion):
            raise InvalidInput(f"features must be one of {get_args(Expansion)}, but is {expansion!r}.")
        if hasattr(X, "tocsr"):
            if expansion != "linear":
                raise InvalidInput(f"Sparse rows can only be used as they are, but features is {expansion!r}.")
            squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
            return cls(np.zeros(X.shape[1]), np.sqrt(np.where(squares > 0, squares, 1.0)))
        X = np.asarray(X, dtype=np.float64)
        mean, spread = X.mean(axis=0), X.std(axis=0)
        plain = cls(mean, np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0))
        if expansion == "linear":
            return plain
        standard = plain(X)
        if expansion == "splines":
            from sklearn.preprocessing import SplineTransformer

            made: Any = SplineTransformer(n_knots=N_KNOTS, knots="quantile", include_bias=True)
        else:
            from sklearn.kernel_approximation import RBFSampler

            made = RBFSampler(gamma=0.5 / X.shape[1], n_components=N_FOURIER, random_state=seed)
        return cls(plain.mean, plain.scale, (made.fit(standard),))

    def __call__(self, X: Any) -> Any:
        """Return the rows as the linear model sees them."""
        if hasattr(X, "tocsr"):
            return X.multiply(1.0 / self.scale).tocsr()
        standard = (np.asarray(X, dtype=np.float64) - self.mean) / self.scale
        if not self.transformers:
            return standard
        return np.hstack([standard, *(made.transform(standard) for made in self.transformers)])

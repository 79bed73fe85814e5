"""NewtonVC as a query strategy of scikit-activeml, for pools.

scikit-activeml's ``X, y`` is read as the log: rows that an old policy looked at, with labels where it chose to. Two optional
arguments of ``query`` add what its interface lacks: `propensity`, the chance that each row had of being labelled by the old
policy, and `queried_indices`, the labelled rows that were bought since. Without them the strategy assumes that all labels
were given by the old policy, to rows picked at random.

Examples
--------
>>> import numpy as np
>>> from observal.exchange.skactiveml import ObservalSampling
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(300, 2))
>>> y_true = (X[:, 0] + X[:, 1] > 0).astype(float)
>>> propensity = np.where(X[:, 0] > 0, 0.3, 0.02)
>>> y = np.where(rng.random(300) < propensity, y_true, np.nan)
>>> strategy = ObservalSampling(random_state=0)
>>> rows = strategy.query(X, y, propensity=propensity, batch_size=5)
>>> y[rows] = y_true[rows]
>>> strategy.query(X, y, propensity=propensity, queried_indices=rows, batch_size=5).shape
(5,)
"""

try:
    import skactiveml as _skactiveml  # noqa: F401  only to find out whether it is installed
except ImportError as error:
    raise ImportError(
        "observal.exchange.skactiveml needs scikit-activeml, which is not installed; "
        "install it with: pip install 'observal[skactiveml]'"
    ) from error

from observal.exchange.skactiveml.evidence import InvalidIndices
from observal.exchange.skactiveml.pool_strategy import ObservalSampling

__all__ = ["InvalidIndices", "ObservalSampling"]

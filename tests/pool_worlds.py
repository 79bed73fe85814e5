"""Small problems for the tests of pool methods, whose labels are all known."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import observal as ob
from observal.intervals.contradiction import COMPARED


class World:
    """A problem whose labels are all known: a plane with a little noise, and a half of space that the log hardly shows."""

    def __init__(self, seed=0, m=200, n=150, d=3, noise=0.05, sparse=False, cost=None, low=0.05, smooth=False):
        rng = np.random.default_rng(seed)
        self.X = rng.standard_normal((m + n, d))
        if sparse:
            self.X[rng.random(self.X.shape) < 0.6] = 0.0
        flipped = rng.random(m + n) < noise
        self.y = ((self.X @ np.linspace(1.0, -2.0, d) > 0.2) ^ flipped).astype(int)
        self.q = 1.0 / (1.0 + np.exp(1.0 - 2.0 * self.X[:, 0])) if smooth else np.where(self.X[:, 0] > 0, 0.6, low)
        shown = rng.random(m) < self.q[:m]
        rows = sp.csr_matrix(self.X) if sparse else self.X
        cost = [None, None] if cost is None else [cost[:m], cost[m:]]
        self.logged = ob.LoggedData(
            rows[:m], np.where(shown, self.y[:m], np.nan), self.q[:m], classes=(0, 1), cost=cost[0]
        )
        self.pool = ob.Pool(rows[m:], self.q[m:], cost=cost[1])
        self.pool_y = self.y[m:]

    def oracle(self, ids):
        return self.pool_y[ids]


def one_class(n=40):
    """A log that shows one class only, and a pool that has both."""
    x = np.linspace(-1, 1, n)
    logged = ob.LoggedData(x[:, None], np.where(x > 0.3, 1.0, np.nan), np.where(x > 0.3, 1.0, 0.0), classes=(0, 1))
    return logged, ob.Pool(x[:, None], np.where(x > 0.3, 1.0, 0.0)), (x > 0).astype(int)


def check_intervals(result):
    """Read the intervals, which are computed only then: no data may be too odd for them."""
    assert "error" in result.intervals
    for name, interval in result.intervals.items():
        assert (-1.0 if name in COMPARED.values() else 0.0) <= interval.low <= interval.high <= 1.0

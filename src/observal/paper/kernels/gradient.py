"""Importance-aware online gradient descent for linear classifiers under squared loss.

Labels are −1/+1. One row x with label y and importance weight v is learned from in this way (importance-aware as in
Karampatziakis and Langford)::

    p     = clamp(w·x, −1, 1)                 the prediction
    t     = t + v                             time grows by the weight just before the step
    step  = sqrt(η / (η + t)) · r             r = 1, or the second-moment factor below
    e     = v · step · x·x
    g     = (1 − exp(−e)) / x·x               the figure's form
          = (1 − exp(−2e)) / (2·x·x)          the exact invariant form
          = v · step                          either form, where e < 1e-12 (there they agree to rounding; also x = 0)
    w     = w − g · 2(p − y) · x

An epoch goes `passes` times over one order of the rows; pass j starts at t = time + j·rows. Rows whose weight is above
the clip, or infinite, are not in use: they move neither w nor t.

**The second-moment factor** (after Swaminathan and Joachims) is, with c = `second_moment` and loss = (p − y)² (a scale
of the loss cancels)::

    r = 1 + sqrt(c) · v·loss / sqrt(S),   S = Σ over the rows in use of (v·loss)² at the current weights w

S is a *running sum*. A table holds each row's last known (v·loss)², exact when the epoch starts. Every step replaces
the entries of five rows by their present values: the row itself, the next two of the 64 rows of largest weight (taken in
turn, because they make up most of S and move fastest), and the next two of all rows in use (taken in turn, starting
half an order ahead of the pass). Four dot products per step, where the figure's protocol spends a hundred on 1,000
sampled rows every 10 steps, and no random numbers. ``tests/test_kernels_gradient.py`` measures that it is as good.

Everything is sequential, so that equal arguments give equal bits, whatever the number of processes or threads.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from observal.checks import Floats, Ints
from observal.paper.kernels.gradient_dense import descend_plain, descend_regular
from observal.paper.kernels.gradient_steps import (
    FAST,
    FRESH_PER_STEP,
    HEAVY_ROWS,
    checked_sum,
    renew,
    second_moment_factor,
    step_length,
)


@njit(cache=True, nogil=True, fastmath=FAST)
def _dot_csr(data: Any, indices: Any, indptr: Any, row: int, coef: Any) -> float:
    total = 0.0
    for k in range(indptr[row], indptr[row + 1]):
        total += coef[indices[k]] * data[k]
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def _descend_csr(
    data: Any,
    indices: Any,
    indptr: Any,
    used: Ints,
    y: Floats,
    weights: Floats,
    heavy: Ints,
    coef: Floats,
    learning_rate: float,
    time: float,
    rows: float,
    passes: int,
    second_moment: float,
    exact: bool,
) -> None:
    """Run an epoch over sparse rows (CSR), as ``gradient_dense.py`` does over dense ones; columns must not repeat in a row."""
    n_used = used.size
    regularised = second_moment > 0.0
    table = np.zeros(n_used if regularised else 0)
    next_heavy, next_row = 0, n_used // 2
    for a in range(table.size):
        renew(table, a, _dot_csr(data, indices, indptr, used[a], coef), y, weights)
    for j in range(passes):
        t = time + j * rows
        total = largest = table.sum()
        for a in range(n_used):
            first, last = indptr[used[a]], indptr[used[a] + 1]
            margin, norm = 0.0, 0.0
            for k in range(first, last):
                margin += coef[indices[k]] * data[k]
                norm += np.float64(data[k]) * data[k]
            weight = weights[a]
            t += weight
            step = sqrt(learning_rate / (learning_rate + t))
            if regularised:
                for _ in range(FRESH_PER_STEP):
                    b = heavy[next_heavy]
                    next_heavy = (next_heavy + 1) % heavy.size
                    total += renew(table, b, _dot_csr(data, indices, indptr, used[b], coef), y, weights)
                    b = next_row
                    next_row = (next_row + 1) % n_used
                    total += renew(table, b, _dot_csr(data, indices, indptr, used[b], coef), y, weights)
                total += renew(table, a, margin, y, weights)
                total, largest = checked_sum(table, total, largest)
                step *= second_moment_factor(table[a], second_moment, total)
            residual = min(1.0, max(-1.0, margin)) - y[a]
            move = 2.0 * residual * step_length(weight, step, norm, exact)
            for k in range(first, last):
                coef[indices[k]] -= move * data[k]


@njit(cache=True, nogil=True, fastmath=FAST)
def _margins_dense(X: Any, coef: Floats, norms: Floats) -> Floats:
    """w·x of each row; x·x goes into `norms` where it has a place for it."""
    margins = np.empty(X.shape[0])
    for i in range(X.shape[0]):
        margin, norm = 0.0, 0.0
        for k in range(X.shape[1]):
            margin += coef[k] * X[i, k]
            norm += np.float64(X[i, k]) * X[i, k]
        margins[i] = margin
        if norms.size:
            norms[i] = norm
    return margins


@njit(cache=True, nogil=True, fastmath=FAST)
def _margins_csr(data: Any, indices: Any, indptr: Any, coef: Floats, norms: Floats) -> Floats:
    """w·x of each sparse row; x·x goes into `norms` where it has a place for it."""
    margins = np.empty(indptr.size - 1)
    for i in range(margins.size):
        margin, norm = 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            margin += coef[indices[k]] * data[k]
            norm += np.float64(data[k]) * data[k]
        margins[i] = margin
        if norms.size:
            norms[i] = norm
    return margins


def _margins(X: Any, coef: Floats, norms: Floats) -> Floats:
    coef = np.array(coef, dtype=np.float64)
    if hasattr(X, "indptr"):
        margins: Floats = _margins_csr(X.data, X.indices, X.indptr, coef, norms)
    else:
        margins = _margins_dense(np.ascontiguousarray(X), coef, norms)
    return margins


def _heaviest(weights: Floats) -> Ints:
    """Return the positions of the HEAVY_ROWS largest weights in order of position; of equal weights the first count."""
    if weights.size <= HEAVY_ROWS:
        return np.arange(weights.size)
    least = np.partition(weights, weights.size - HEAVY_ROWS)[weights.size - HEAVY_ROWS]
    above = np.flatnonzero(weights > least)
    level = np.flatnonzero(weights == least)[: HEAVY_ROWS - above.size]
    return np.sort(np.concatenate([above, level]))


def descend(
    X: Any,
    y: NDArray[Any],
    importance: Floats,
    order: Ints,
    coef: Floats,
    *,
    learning_rate: float,
    time: float = 0.0,
    passes: int = 3,
    clip: float = inf,
    second_moment: float = 0.0,
    exact_invariance: bool = False,
) -> Floats:
    """Train one epoch from `coef` and return the new weights; the formula is the module's.

    Parameters
    ----------
    X : C-ordered float32 or float64 array, or CSR matrix without repeated columns in a row
        All rows.
    y : array of −1 and +1
        Their labels; read only where `order` points.
    importance : float array
        Their weights v ≥ 0. A row above `clip`, or infinite, is skipped.
    order : int array
        The rows to train on, in the order in which each pass takes them.
    coef : float array
        The weights to start from; left as they are.
    learning_rate : float
        η > 0.
    time : float
        T, the time at which the first pass starts.
    passes : int
        Passes over the order.
    clip : float
        The largest weight in use.
    second_moment : float
        c of the second-moment factor; 0 leaves it out.
    exact_invariance : bool
        Use the exact invariant form of the step (Active18).
    """
    order = np.asarray(order, dtype=np.int64)
    v = np.asarray(importance, dtype=np.float64)[order]
    in_use = (v <= clip) & (v < inf)
    used, weights = (order, v) if in_use.all() else (order[in_use], v[in_use])
    labels = np.asarray(y)[used].astype(np.float64, copy=False)
    heavy = _heaviest(weights) if second_moment > 0.0 else np.empty(0, dtype=np.int64)
    out = np.array(coef, dtype=np.float64)
    clock = (float(learning_rate), float(time), float(order.size), int(passes))
    form = (float(second_moment), bool(exact_invariance))
    if hasattr(X, "indptr"):
        _descend_csr(X.data, X.indices, X.indptr, used, labels, weights, heavy, out, *clock, *form)
    elif heavy.size:
        descend_regular(np.ascontiguousarray(X), used, labels, weights, heavy, out, *clock, *form)
    else:
        descend_plain(np.ascontiguousarray(X), used, labels, weights, out, *clock, form[1])
    return out


def squared_norms(X: Any) -> Floats:
    """Return x·x of each row."""
    norms = np.empty(X.shape[0])
    _margins(X, np.zeros(X.shape[1]), norms)
    return norms


@njit(cache=True, nogil=True, error_model="numpy")
def _gaps(margins: Floats, norms: Floats, step: float) -> Floats:
    gaps = np.empty(margins.size)
    for i in range(margins.size):
        gaps[i] = abs(2.0 * margins[i]) / (step * norms[i]) if norms[i] > 0.0 else inf
    return gaps


@njit(cache=True, nogil=True)
def least_where(values: Floats, inside: Any) -> float:
    """Return the least value of the rows inside, infinite where there are none; NumPy's own takes as long as all their margins."""
    least = inf
    for i in range(values.size):
        if inside[i] and values[i] < least:
            least = values[i]
    return least


def flip_gaps(coef: Floats, X: Any, step: float, norms: Floats | None = None) -> Floats:
    """Return |2w·x| / (step·x·x): the importance weight with which a step of that size would flip each row's sign.

    It is infinite where x·x = 0: no weight moves the prediction of such a row. `norms` are x·x where they are known.
    """
    norms = squared_norms(X) if norms is None else norms
    gaps: Floats = _gaps(_margins(X, coef, np.empty(0)), norms, step)
    return gaps


@njit(cache=True, nogil=True, fastmath=FAST)
def _mistakes_dense(X: Any, rows: Ints, y: Any, weights: Floats, clip: float, coef: Floats) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for i in rows:
        weight = weights[i]
        if weight <= clip and weight < inf:
            margin = 0.0
            for k in range(X.shape[1]):
                margin += coef[k] * X[i, k]
            if (margin > 0.0) != (y[i] > 0):
                first += weight
                second += weight * weight
    return first, second


def second_moment_sums(
    coef: Floats, X: Any, y: NDArray[Any], importance: Floats, clip: float = inf, rows: Ints | None = None
) -> tuple[float, float]:
    """Return Σ v·1{h(x) ≠ y} and Σ v²·1{h(x) ≠ y} over the rows with weight v ≤ clip, h(x) = +1 where w·x > 0, else −1.

    Infinite weights are left out, as `descend` does. Divided by the number of rows seen, these are the clipped 0-1
    loss and its second moment V̂. `rows` are those that count, all by default.
    """
    weights = np.asarray(importance, dtype=np.float64)
    rows = np.arange(X.shape[0]) if rows is None else rows
    if not hasattr(X, "indptr"):
        first, second = _mistakes_dense(np.ascontiguousarray(X), rows, np.asarray(y), weights, float(clip), coef)
        return first, second
    wrong = (_margins(X[rows], coef, np.empty(0)) > 0.0) != (np.asarray(y)[rows] > 0)
    counted = weights[rows][wrong & (weights[rows] <= clip) & (weights[rows] < inf)]
    return float(counted.sum()), float((counted * counted).sum())

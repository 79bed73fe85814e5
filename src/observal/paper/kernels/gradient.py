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

**Dense and sparse rows** share these steps, but each has loops of its own. One loop over row functions for either storage was tried: it
either took 15 to 50 % longer on sparse rows or, inlined, summed in another order and changed the last bits of every result.

Everything is sequential, so that equal arguments give equal bits, whatever the number of processes or threads.
"""

from __future__ import annotations

from math import expm1, inf, sqrt
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints
from observal.problem.rows import Matrix, is_sparse

Dense = NDArray[np.floating[Any]]
Indices = NDArray[np.integer[Any]]

# Sums may be regrouped and fused, which is deterministic; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
TINY = 1e-12  # below it 1 − exp(−e) is e to rounding
HEAVY_ROWS = 64  # rows of largest weight whose table entries are kept fresh
FRESH_PER_STEP = 2  # entries refreshed per step among the heavy rows, and as many among all rows
LOST_DIGITS = 1e-3  # when the running sum has fallen by this factor, it is summed afresh from the table
BLOCK = 32  # rows whose step lengths are computed together: they stay in the first cache
LOOK_AHEAD = 24  # rows fetched into the cache ahead of their use: a random order defeats the processor's own guess
FETCHED = 1024  # bytes of such a row; the processor guesses the rest of a long row itself
LARGEST = 40.0  # above it 1 − exp(−e) is 1 to rounding
HALVINGS = 6


# -- one step ------------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def step_length(weight: float, step: float, norm: float, exact: bool) -> float:
    """Return g of the module's formula: how far along the gradient; `norm` is x·x."""
    e = weight * step * norm
    if e < TINY:
        return weight * step
    if exact:
        return -expm1(-2.0 * e) / (2.0 * norm)
    return -expm1(-e) / norm


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def weighted_loss(margin: float, label: float, weight: float) -> float:
    """v·(clamp(w·x) − y)²."""
    residual = min(1.0, max(-1.0, margin)) - label
    return weight * residual * residual


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def renew(table: Floats, row: int, margin: float, y: Floats, weights: Floats) -> float:
    """Put a row's present (v·loss)² into the table, and return by how much it has grown."""
    value = weighted_loss(margin, y[row], weights[row]) ** 2
    growth: float = value - table[row]
    table[row] = value
    return growth


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def checked_sum(table: Floats, total: float, largest: float) -> tuple[float, float]:
    """Return the running sum, summed afresh where it has lost digits, and its largest value since the last fresh sum."""
    if total < LOST_DIGITS * largest:
        total = 0.0
        for entry in table:
            total += entry
        largest = total
    return total, max(largest, total)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def second_moment_factor(term: float, second_moment: float, total: float) -> float:
    """Return r of the module's formula from the row's (v·loss)²; 1 where the sum is 0, since then the row's own is 0."""
    total = max(total, term)
    return 1.0 + sqrt(second_moment * (term / total)) if total > 0.0 else 1.0


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _residual(margin: float, label: float) -> float:
    return min(1.0, max(-1.0, margin)) - label


# -- an epoch over sparse rows -------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath=FAST)
def _dot_csr(data: Dense, indices: Indices, indptr: Indices, row: int, coef: Floats) -> float:
    total = 0.0
    for k in range(indptr[row], indptr[row + 1]):
        total += coef[indices[k]] * data[k]
    return total


@njit(cache=True, nogil=True, fastmath=FAST)
def _descend_csr(
    data: Dense,
    indices: Indices,
    indptr: Indices,
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
    """Run an epoch over the rows `used` of a CSR matrix, in that order; `coef` is changed in place.

    `y` and `weights` are aligned with `used`, `heavy` are positions in it. Columns must not repeat in a row.
    """
    n_used = used.size
    regularised = second_moment > 0.0
    table = np.zeros(n_used if regularised else 0)
    next_heavy, next_row = 0, n_used // 2
    for a in range(table.size):
        renew(table, a, _dot_csr(data, indices, indptr, used[a], coef), y, weights)
    for j in range(passes):
        t = time + j * rows
        total: float = table.sum()
        largest = total
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
            move = 2.0 * _residual(margin, y[a]) * step_length(weight, step, norm, exact)
            for k in range(first, last):
                coef[indices[k]] -= move * data[k]


# -- an epoch over dense rows, without and with the second-moment factor -------------------------------------------------


@intrinsic
def _fetch_line(typing_context: object, address: object) -> Any:
    """Ask the processor to load a cache line; changes no result."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: object, arguments: list[ir.Value]) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(function, [pointer, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), codegen


@njit(cache=True, nogil=True, inline="always")
def _fetch(X: Dense, row: int) -> None:
    stride = np.uintp(X.shape[1] * X.itemsize)
    begin = np.uintp(X.ctypes.data) + np.uintp(row) * stride
    for offset in range(np.uintp(0), min(stride, np.uintp(FETCHED)), np.uintp(64)):
        _fetch_line(begin + offset)  # type: ignore[call-arg]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def one_minus_exp(e: float) -> float:
    """Return 1 − exp(−e), e ≥ 0, to a few units in the last place: a loop over it is vectorised, which one over expm1 is not.

    With p(x) = exp(x) − 1, p(2x) = p(x)·(p(x) + 2): a power series at −e/64, doubled six times.
    """
    x = min(e, LARGEST) * (-1.0 / (1 << HALVINGS))
    p = 1.0 / 479001600.0 + x / 6227020800.0
    for term in (39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0):
        p = 1.0 / term + x * p
    p *= x
    for _ in range(HALVINGS):
        p *= p + 2.0
    return -p


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _step_lengths(
    weights: Floats, norms: Floats, times: Floats, learning_rate: float, exact: bool, out: Floats
) -> None:
    """Put 2g of the formula for each row into `out`."""
    form = 2.0 if exact else 1.0
    for b in range(weights.size):
        step = weights[b] * sqrt(learning_rate / (learning_rate + times[b]))
        e = step * norms[b]
        out[b] = 2.0 * step if e < TINY else 2.0 * one_minus_exp(form * e) / (form * norms[b])


@njit(cache=True, nogil=True, fastmath=FAST)
def _norms(X: Dense, used: Ints, out: Floats) -> None:
    for b in range(used.size):
        x, norm = X[used[b]], 0.0
        for k in range(x.size):
            norm += np.float64(x[k]) * x[k]
        out[b] = norm


@njit(cache=True, nogil=True, fastmath=FAST)
def _move_once(x: Dense, label: float, length: float, coef: Floats) -> None:
    margin = 0.0
    for k in range(x.size):
        margin += coef[k] * x[k]
    move = length * _residual(margin, label)
    for k in range(x.size):
        coef[k] -= move * x[k]


@njit(cache=True, nogil=True, fastmath=FAST)
def _move_four_times(X: Dense, used: Ints, y: Floats, a: int, lengths: Floats, b: int, coef: Floats) -> None:
    """Learn from the four rows from position `a` on, one after the other."""
    x0, x1, x2, x3 = X[used[a]], X[used[a + 1]], X[used[a + 2]], X[used[a + 3]]
    m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0
    g01, g02, g03, g12, g13, g23 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(coef.size):
        c, p, q = coef[k], np.float64(x0[k]), np.float64(x1[k])
        r, s = np.float64(x2[k]), np.float64(x3[k])
        m0 += c * p
        m1 += c * q
        m2 += c * r
        m3 += c * s
        g01 += p * q
        g02 += p * r
        g03 += p * s
        g12 += q * r
        g13 += q * s
        g23 += r * s
    v0 = lengths[b] * _residual(m0, y[a])
    v1 = lengths[b + 1] * _residual(m1 - v0 * g01, y[a + 1])
    v2 = lengths[b + 2] * _residual(m2 - v0 * g02 - v1 * g12, y[a + 2])
    v3 = lengths[b + 3] * _residual(m3 - v0 * g03 - v1 * g13 - v2 * g23, y[a + 3])
    for k in range(coef.size):
        coef[k] -= v0 * x0[k] + v1 * x1[k] + v2 * x2[k] + v3 * x3[k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _descend_dense(
    X: Dense,
    used: Ints,
    y: Floats,
    weights: Floats,
    coef: Floats,
    learning_rate: float,
    time: float,
    rows: float,
    passes: int,
    exact: bool,
) -> None:
    """Run an epoch over the rows `used` of a C-ordered X without the second-moment factor, four rows together.

    A step needs w·x at weights that the step before has just changed, so a plain loop waits for one dot product after the
    other. Here the products of four rows with w and with each other are summed in one loop, and

        w_a·x_b = w·x_b − Σ_{a < b} (move of a)·(x_a·x_b)

    gives the margins of later rows after the moves of earlier ones: the same step with other rounding. How long the steps
    are depends on weights and x·x alone and is computed for a block of rows at once.
    """
    n_used = used.size
    norms, times, lengths = np.empty(n_used), np.empty(BLOCK), np.empty(BLOCK)
    for j in range(passes):
        t = time + j * rows
        for first in range(0, n_used, BLOCK):
            size = min(BLOCK, n_used - first)
            for b in range(size):
                t += weights[first + b]
                times[b] = t
            block = slice(first, first + size)
            if j == 0:
                _norms(X, used[block], norms[block])
            _step_lengths(weights[block], norms[block], times, learning_rate, exact, lengths)
            for b in range(0, size - 3, 4):
                a = first + b
                for i in range(a + LOOK_AHEAD, min(a + LOOK_AHEAD + 4, n_used)):
                    _fetch(X, used[i])
                _move_four_times(X, used, y, a, lengths, b, coef)
            for b in range(size - size % 4, size):
                _move_once(X[used[first + b]], y[first + b], lengths[b], coef)


@njit(cache=True, nogil=True, inline="always")
def _after(place: int, end: int) -> int:
    """Return the next of 0 … end − 1, in turn."""
    return 0 if place + 1 == end else place + 1


@njit(cache=True, nogil=True, fastmath=FAST)
def _five_margins(
    x: Dense, h1: Dense, h2: Dense, r1: Dense, r2: Dense, coef: Floats
) -> tuple[float, float, float, float, float]:
    """Return the products of w with five rows."""
    m, a, b, c, d = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(coef.size):
        w = coef[k]
        m += w * x[k]
        a += w * h1[k]
        b += w * h2[k]
        c += w * r1[k]
        d += w * r2[k]
    return m, a, b, c, d


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _descend_dense_regularised(
    X: Dense,
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
    """Run an epoch as `_descend_dense` does, with the second-moment factor: the five products of a step share one loop."""
    n_used, n_heavy = used.size, heavy.size
    norms, table = np.empty(n_used), np.zeros(n_used)
    _norms(X, used, norms)
    for a in range(n_used):
        margin, x = 0.0, X[used[a]]
        for k in range(x.size):
            margin += coef[k] * x[k]
        renew(table, a, margin, y, weights)
    weighty = X[used[heavy]]
    h, r1 = 0, n_used // 2
    for j in range(passes):
        t = time + j * rows
        total: float = table.sum()
        largest = total
        for a in range(n_used):
            if a + LOOK_AHEAD < n_used:
                _fetch(X, used[a + LOOK_AHEAD])
            for i in range(r1 + LOOK_AHEAD, min(r1 + LOOK_AHEAD + 2, n_used)):
                _fetch(X, used[i])
            x, g, r2 = X[used[a]], _after(h, n_heavy), _after(r1, n_used)
            margin, m1, m2, m3, m4 = _five_margins(x, weighty[h], weighty[g], X[used[r1]], X[used[r2]], coef)
            total += renew(table, heavy[h], m1, y, weights) + renew(table, r1, m3, y, weights)
            total += renew(table, heavy[g], m2, y, weights) + renew(table, r2, m4, y, weights)
            total += renew(table, a, margin, y, weights)
            total, largest = checked_sum(table, total, largest)
            h, r1, weight = _after(g, n_heavy), _after(r2, n_used), weights[a]
            t += weight
            step = sqrt(learning_rate / (learning_rate + t)) * second_moment_factor(table[a], second_moment, total)
            move = 2.0 * _residual(margin, y[a]) * step_length(weight, step, norms[a], exact)
            for k in range(x.size):
                coef[k] -= move * x[k]


# -- what the learners call ----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath=FAST)
def _margins_dense(X: Dense, coef: Floats, norms: Floats) -> Floats:
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
def _margins_csr(data: Dense, indices: Indices, indptr: Indices, coef: Floats, norms: Floats) -> Floats:
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


def _margins(X: Matrix, coef: Floats, norms: Floats) -> Floats:
    coef = np.array(coef, dtype=np.float64)
    if is_sparse(X):
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
    X: Matrix,
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
    if is_sparse(X):
        _descend_csr(X.data, X.indices, X.indptr, used, labels, weights, heavy, out, *clock, *form)
    elif heavy.size:
        _descend_dense_regularised(np.ascontiguousarray(X), used, labels, weights, heavy, out, *clock, *form)
    else:
        _descend_dense(np.ascontiguousarray(X), used, labels, weights, out, *clock, form[1])
    return out


def squared_norms(X: Matrix) -> Floats:
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
def least_where(values: Floats, inside: Bools) -> float:
    """Return the least value of the rows inside, infinite where there are none; NumPy's own takes as long as all their margins."""
    least = inf
    for i in range(values.size):
        if inside[i] and values[i] < least:
            least = values[i]
    return least


def flip_gaps(coef: Floats, X: Matrix, step: float, norms: Floats | None = None) -> Floats:
    """Return |2w·x| / (step·x·x): the importance weight with which a step of that size would flip each row's sign.

    It is infinite where x·x = 0: no weight moves the prediction of such a row. `norms` are x·x where they are known.
    """
    norms = squared_norms(X) if norms is None else norms
    gaps: Floats = _gaps(_margins(X, coef, np.empty(0)), norms, step)
    return gaps


@njit(cache=True, nogil=True, fastmath=FAST)
def _mistakes_dense(
    X: Dense, rows: Ints, y: NDArray[Any], weights: Floats, clip: float, coef: Floats
) -> tuple[float, float]:
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
    coef: Floats, X: Matrix, y: NDArray[Any], importance: Floats, clip: float = inf, rows: Ints | None = None
) -> tuple[float, float]:
    """Return Σ v·1{h(x) ≠ y} and Σ v²·1{h(x) ≠ y} over the rows with weight v ≤ clip, h(x) = +1 where w·x > 0, else −1.

    Infinite weights are left out, as `descend` does. Divided by the number of rows seen, these are the clipped 0-1
    loss and its second moment V̂. `rows` are those that count, all by default.
    """
    weights = np.asarray(importance, dtype=np.float64)
    rows = np.arange(X.shape[0]) if rows is None else rows
    if not is_sparse(X):
        first, second = _mistakes_dense(np.ascontiguousarray(X), rows, np.asarray(y), weights, float(clip), coef)
        return first, second
    wrong = (_margins(X[rows], coef, np.empty(0)) > 0.0) != (np.asarray(y)[rows] > 0)
    counted = weights[rows][wrong & (weights[rows] <= clip) & (weights[rows] < inf)]
    return float(counted.sum()), float((counted * counted).sum())

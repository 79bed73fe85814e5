"""The gradient kernel over dense rows; ``gradient.py`` has the formula.

A step needs w·x at weights that the step before has just changed, so a plain loop waits for one dot product after the other. Without the
second-moment factor four rows are taken together: their products with w and with each other are summed in one loop, and

    w_a·x_b = w·x_b − Σ_{a < b} (move of a)·(x_a·x_b)

gives the margins of later rows after the moves of earlier ones. That is the same step with other rounding. How long the steps are depends
on weights and x·x alone and is computed for a block of rows at once. With the factor the five products of a step share one loop.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from observal.checks import Floats, Ints
from observal.paper.kernels.gradient_steps import (
    FAST,
    TINY,
    checked_sum,
    renew,
    second_moment_factor,
    step_length,
)

BLOCK = 32  # rows whose step lengths are computed together: they stay in the first cache
LOOK_AHEAD = 24  # rows fetched into the cache ahead of their use: a random order defeats the processor's own guess
FETCHED = 1024  # bytes of such a row; the processor guesses the rest of a long row itself
LARGEST = 40.0  # above it 1 − exp(−e) is 1 to rounding
HALVINGS = 6


@intrinsic
def _fetch_line(typing_context: Any, address: Any) -> Any:
    """Ask the processor to load a cache line; changes no result."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(function, [pointer, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), codegen


@njit(cache=True, nogil=True, inline="always")
def _fetch(X: Any, row: int) -> None:
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


@njit(cache=True, nogil=True, fastmath=FAST, inline="always")
def _residual(margin: float, label: float) -> float:
    return min(1.0, max(-1.0, margin)) - label


@njit(cache=True, nogil=True, fastmath=FAST)
def _norms(X: Any, used: Ints, out: Floats) -> None:
    for b in range(used.size):
        x, norm = X[used[b]], 0.0
        for k in range(x.size):
            norm += np.float64(x[k]) * x[k]
        out[b] = norm


@njit(cache=True, nogil=True, fastmath=FAST)
def _move_once(x: Any, label: float, length: float, coef: Floats) -> None:
    margin = 0.0
    for k in range(x.size):
        margin += coef[k] * x[k]
    move = length * _residual(margin, label)
    for k in range(x.size):
        coef[k] -= move * x[k]


@njit(cache=True, nogil=True, fastmath=FAST)
def _move_four_times(X: Any, used: Ints, y: Floats, a: int, lengths: Floats, b: int, coef: Floats) -> None:
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
def descend_plain(
    X: Any,
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
    """Run an epoch over the rows `used` of a C-ordered X, in that order, without the second-moment factor; `coef` is changed in place.

    `y` and `weights` are aligned with `used`.
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
            here = norms[first : first + size]
            if j == 0:
                _norms(X, used[first : first + size], here)
            _step_lengths(weights[first : first + size], here, times, learning_rate, exact, lengths)
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
def _five_margins(x: Any, h1: Any, h2: Any, r1: Any, r2: Any, coef: Floats) -> tuple[float, float, float, float, float]:
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
def descend_regular(
    X: Any,
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
    """Run an epoch as `descend_plain` does, with the second-moment factor; `heavy` are positions in `used`."""
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
        total = largest = table.sum()
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

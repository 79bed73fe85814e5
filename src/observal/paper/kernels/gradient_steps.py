"""One step of the gradient kernels, whatever the rows are stored as; ``gradient.py`` has the formula."""

from __future__ import annotations

from math import expm1, sqrt
from typing import Any

from numba import njit

# Sums may be regrouped and fused, which is deterministic; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}
TINY = 1e-12  # below it 1 − exp(−e) is e to rounding
HEAVY_ROWS = 64  # rows of largest weight whose table entries are kept fresh
FRESH_PER_STEP = 2  # entries refreshed per step among the heavy rows, and as many among all rows
LOST_DIGITS = 1e-3  # when the running sum has fallen by this factor, it is summed afresh from the table


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
def renew(table: Any, row: int, margin: float, y: Any, weights: Any) -> float:
    """Put a row's present (v·loss)² into the table, and return by how much it has grown."""
    value = weighted_loss(margin, y[row], weights[row]) ** 2
    growth: float = value - table[row]
    table[row] = value
    return growth


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def checked_sum(table: Any, total: float, largest: float) -> tuple[float, float]:
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

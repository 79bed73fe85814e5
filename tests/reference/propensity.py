"""Slow twins of observal.diagnosis.propensity: one row at a time, in exact rational arithmetic where the inputs allow it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def mixture(per_log, sizes):
    """The chance of a revealed label at one row: a row of the joint log comes from log j with chance m_j / m."""
    total = Fraction(sum(sizes))
    return sum((Fraction(size) / total * Fraction(q) for q, size in zip(per_log, sizes, strict=True)), Fraction(0))


def rows_behind(propensities):
    """Horvitz and Thompson's count and the square of its standard error."""
    count = sum((1 / Fraction(q) for q in propensities), Fraction(0))
    variance = sum(((1 - Fraction(q)) / Fraction(q) ** 2 for q in propensities), Fraction(0))
    return count, variance


def calibration_error(propensities, revealed, groups):
    """Sort, cut into groups whose sizes differ by one at most (the larger first), and compare means."""
    pairs = sorted(zip(propensities, range(len(propensities)), strict=True))
    size, larger = divmod(len(pairs), groups)
    total, start = 0.0, 0
    for group in range(groups):
        end = start + size + (group < larger)
        rows = [i for _, i in pairs[start:end]]
        if rows:
            gap = np.mean([propensities[i] for i in rows]) - np.mean([revealed[i] for i in rows])
            total += len(rows) / len(pairs) * abs(gap)
        start = end
    return total

"""Slow twins of observal.diagnosis.propensity: one row at a time, in exact rational arithmetic where the inputs allow it."""

from __future__ import annotations

from fractions import Fraction


def mixture(per_log, sizes):
    """The chance of a revealed label at one row: a row of the joint log comes from log j with chance m_j / m."""
    total = Fraction(sum(sizes))
    return sum((Fraction(size) / total * Fraction(q) for q, size in zip(per_log, sizes, strict=True)), Fraction(0))

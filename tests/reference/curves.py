"""Slow twins of observal_research.curves: one label at a time, straight from the words."""

from __future__ import annotations


def error_at(labels, errors, where):
    """Linear interpolation; the latest round where labels are equal; the last error held."""
    exact = [e for n, e in zip(labels, errors, strict=True) if n == where]
    if exact:
        return exact[-1]
    below = max(n for n in labels if n < where)
    above = [n for n in labels if n > where]
    left = error_at(labels, errors, below)
    if not above:
        return left
    right = error_at(labels, errors, min(above))
    return left + (right - left) * (where - below) / (min(above) - below)


def area(labels, errors, end):
    """The paper's AUC of one trial, divided by its length."""
    total = 0.0
    for n in range(end):
        total += (error_at(labels, errors, n + 1) + error_at(labels, errors, n)) / 2
    return total / end


def labels_to_reach(labels, errors, target, steps=1000):
    """The first of many points in between at which the error is at the target."""
    for k in range((labels[-1] - labels[0]) * steps + 1):
        where = labels[0] + k / steps
        if error_at(labels, errors, where) <= target + 1e-12:
            return where
    return None

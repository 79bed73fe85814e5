"""Slow twins of observal.paper.weights, written from the paper: recursion, loops and trying every candidate."""

from __future__ import annotations

from fractions import Fraction
from functools import cache


def query_policies(q0, m, epochs):
    """Q_1(x), Q_2(x), … for one row, by the paper's recursive definition."""
    policies = []
    n_next = 0
    for tau in epochs:
        n_next += tau
        spent = sum(t * q for t, q in zip(epochs, policies, strict=False))
        policies.append(1 if Fraction(m) * q0 + spent < Fraction(m, 2) * q0 + n_next else 0)
    return policies


def online_mass(q0, m, epochs):
    return sum(t * q for t, q in zip(epochs, query_policies(q0, m, epochs), strict=True))


def mis_weight(q0, m, epochs):
    spent = Fraction(m) * q0 + online_mass(q0, m, epochs)
    return Fraction(m + sum(epochs)) / spent if spent else float("inf")


def least_clip(weights, masses, scale, slope):
    """inf{M ≥ 1 : slope·M ≥ P(W > M/scale)}; the same question is asked many times."""
    return _least_clip(tuple(weights), tuple(masses), scale, slope)


@cache
def _least_clip(weights, masses, scale, slope):
    """Try every point where the infimum can be."""

    def tail(threshold):
        return sum((p for w, p in zip(weights, masses, strict=True) if w > threshold), Fraction(0))

    def holds(threshold):
        return slope * threshold >= tail(Fraction(threshold) / scale)

    # Between two jumps the tail is constant, so the infimum is 1, a jump, or where slope·M meets a level of the tail.
    levels = {tail(w) for w in weights} | {Fraction(1)}
    tries = {Fraction(1)} | {scale * w for w in weights if w != float("inf")}
    tries |= {level / slope for level in levels if slope}
    fine = [t for t in tries if t >= 1 and holds(t)]
    return min(fine) if fine else float("inf")


def clip_threshold(q0s, m, n, log_term, masses):
    weights = [Fraction(m + n) / (m * q + n) if m * q + n else float("inf") for q in q0s]
    return least_clip(weights, masses, 2, Fraction(2) * log_term / (m + n))


def passive_clip_threshold(q0s, m, log_term, masses):
    weights = [1 / q if q else float("inf") for q in q0s]
    return least_clip(weights, masses, 1, Fraction(2) * log_term / m)


def practical_clip_threshold(q0s, m, n, capacity, masses):
    weights = [Fraction(m + n) / (m * q + n) if m * q + n else float("inf") for q in q0s]
    return least_clip(weights, masses, 1, capacity / (m + n))

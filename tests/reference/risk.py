"""Slow twins of observal.paper.risk: the paper's sums, one row at a time."""

from __future__ import annotations


def loss(h, y, w, clip, cost):
    total = 0.0
    for i in range(len(y)):
        z = 1 if y[i] != 0 else 0
        total += w[i] * z * cost[i] * (h[i] != y[i]) * (w[i] <= clip)
    return total / len(y)


def second_moment(h, y, w, clip, cost):
    total = 0.0
    for i in range(len(y)):
        z = 1 if y[i] != 0 else 0
        total += w[i] ** 2 * z * cost[i] ** 2 * (h[i] != y[i]) * (w[i] <= clip)
    return total / len(y)


def pair_second_moment(h1, h2, y, w, clip, cost):
    total = 0.0
    for i in range(len(y)):
        z = 1 if y[i] != 0 else 0
        total += w[i] ** 2 * z * cost[i] ** 2 * (h1[i] != h2[i]) * (w[i] <= clip)
    return total / len(y)

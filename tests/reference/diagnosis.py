"""Slow twins of the diagnosis' formulas, written from their definitions with loops."""

from __future__ import annotations

from itertools import product
from math import exp, factorial
from statistics import NormalDist


def confounded_range(outcomes, propensity, strength):
    """Try every row at its smallest and at its largest weight: a ratio of linear functions has its extremes there."""
    means = []
    for choice in product((1.0 / strength, strength), repeat=len(outcomes)):
        weights = [1.0 + (1.0 / e - 1.0) * g for e, g in zip(propensity, choice, strict=True)]
        means.append(sum(w * v for w, v in zip(weights, outcomes, strict=True)) / sum(weights))
    return min(means), max(means)


def calibration(bins, propensity, revealed):
    """Return the chi-square statistic and the expected calibration error of given bins, row by row."""
    statistic, error, rows = 0.0, 0.0, 0
    for low, high in bins:
        expected = observed = variance = 0.0
        for q, shown in zip(propensity, revealed, strict=True):
            if low <= q <= high and 0.0 < q < 1.0:
                rows += 1
                expected += q
                observed += bool(shown)
                variance += q * (1.0 - q)
        statistic += (observed - expected) ** 2 / variance
        error += abs(observed - expected)
    return statistic, error / rows


def barely_covered(pool, logged, revealed, n_rows):
    """Return the share of pool rows with too few labels: in all of the log, and (unless the first contradicts it) among √m rows like them."""

    def labels(q):
        return sum(shown for other, shown in zip(logged, revealed, strict=True) if other <= q)

    few = [(q, shown) for q, shown in zip(logged, revealed, strict=True) if labels(q) < 5 and q < 1.0]
    promised, there = sum(q for q, _ in few), sum(shown for _, shown in few)
    chance = sum(exp(-promised) * promised**k / factorial(k) for k in range(there + 1))
    contradicted = promised > there and chance < 0.001

    def is_barely(q):
        return labels(q) < 5 and (q < 1.0 if contradicted else q * n_rows**0.5 < 1.0)

    return sum(is_barely(q) for q in pool) / len(pool)


def feature_score(column, residual, variance):
    """Return the score statistic of one feature from its ranks, ties in the middle."""
    ranks = [sum(b < a for b in column) + (sum(b == a for b in column) + 1) / 2 for a in column]
    middle = (len(column) + 1) / 2
    top = sum((rank - middle) * r for rank, r in zip(ranks, residual, strict=True))
    return top / sum((rank - middle) ** 2 * v for rank, v in zip(ranks, variance, strict=True)) ** 0.5


def power_of_overall_test(propensity, chances):
    """The chance that so many fewer (or more) labels are revealed than promised that the overall test warns, if labels are revealed with these chances."""
    normal = NormalDist()
    limit = normal.inv_cdf(1.0 - 0.01 / 3.0 / 2.0) * sum(q * (1.0 - q) for q in propensity) ** 0.5
    off = abs(sum(c - q for c, q in zip(chances, propensity, strict=True)))
    return normal.cdf((off - limit) / max(1e-9, sum(c * (1.0 - c) for c in chances) ** 0.5))


def near_copy_share(rows, step):
    """The share of rows whose nearest other row is at most a tenth as far away as the tenth nearest, no row being nearer than half a step."""
    near = 0
    for i, row in enumerate(rows):
        distances = sorted(
            max(step / 2, sum((a - b) ** 2 for a, b in zip(row, other, strict=True)) ** 0.5)
            for j, other in enumerate(rows)
            if j != i
        )
        near += distances[0] <= 0.1 * distances[9]
    return near / len(rows)

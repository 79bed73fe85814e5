"""Slow twins of the benchmark's scores: loops over labels, trials and draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def error_at(labels: Sequence[int], errors: Sequence[float], label: float) -> float:
    """Return the error of a curve with increasing label counts, by looking for the two points around."""
    if label >= labels[-1]:
        return errors[-1]
    for k in range(len(labels) - 1):
        if labels[k] <= label <= labels[k + 1]:
            share = (label - labels[k]) / (labels[k + 1] - labels[k])
            return errors[k] + share * (errors[k + 1] - errors[k])
    raise AssertionError(label)


def excess_area(labels: Sequence[int], errors: Sequence[float], all_labels: float, end: int) -> float:
    """Return the trapezoids of one label each, one by one."""
    total = 0.0
    for label in range(end):
        total += (error_at(labels, errors, label) + error_at(labels, errors, label + 1)) / 2 - all_labels
    return total / end


def labels_to_near(
    labels: Sequence[int], errors: Sequence[float], all_labels: float, end: int, step: float = 0.01
) -> float | None:
    """Return the first label count on a fine grid at which the curve is within one point."""
    for k in range(round(end / step) + 1):
        if error_at(labels, errors, k * step) <= all_labels + 0.01 + 1e-12:
            return k * step
    return None


def ratio_of_sums(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], draws: int, seed: int
) -> tuple[float, list[float]]:
    """Return the ratio, and the ratio of each bootstrap draw in increasing order."""
    rng = np.random.default_rng(seed)

    def ratio(picked: list[list[int]]) -> float:
        top = sum(sum(cell[i] for i in rows) / len(rows) for cell, rows in zip(ours, picked, strict=True))
        bottom = sum(sum(cell[i] for i in rows) / len(rows) for cell, rows in zip(theirs, picked, strict=True))
        return top / bottom

    drawn = [[[int(rng.integers(len(cell))) for _ in cell] for cell in ours] for _ in range(draws)]
    return ratio([list(range(len(cell))) for cell in ours]), sorted(map(ratio, drawn))


def paired_low(ours: Sequence[float], theirs: Sequence[float], quantile: float) -> tuple[float, float, float]:
    """Return mean, standard error and lower bound of the differences, given Student's quantile."""
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    mean = sum(differences) / len(differences)
    variance = sum((d - mean) ** 2 for d in differences) / (len(differences) - 1)
    se = math.sqrt(variance / len(differences))
    return mean, se, mean - quantile * se

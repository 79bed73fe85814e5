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


def paired_difference(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], quantile: float
) -> tuple[float, float, float, int]:
    """Return mean and interval of the groups' mean differences, given Student's quantile, and the groups won."""
    means = []
    for a, b in zip(ours, theirs, strict=True):
        total = 0.0
        for x, y in zip(a, b, strict=True):
            total += x - y
        means.append(total / len(a))
    mean = sum(means) / len(means)
    se = math.sqrt(sum((m - mean) ** 2 for m in means) / (len(means) - 1) / len(means))
    return mean, mean - quantile * se, mean + quantile * se, sum(m < 0 for m in means)


def best_single(errors: dict[str, Sequence[Sequence[float]]]) -> str:
    """Return the name with the lowest mean of cell means, found by comparing one after the other."""
    best, lowest = "", math.inf
    for name, cells in errors.items():
        mean = sum(sum(cell) / len(cell) for cell in cells) / len(cells)
        if mean < lowest:
            best, lowest = name, mean
    return best


def margins(chances: Sequence[Sequence[float]]) -> list[float]:
    """Return the likeliest minus the next, row by row."""
    out = []
    for row in chances:
        first = max(row)
        rest = list(row)
        rest.remove(first)
        out.append(first - max(rest))
    return out


def aubc(accuracies: Sequence[float]) -> float:
    """Return the trapezoids one by one, over the number of purchases."""
    total = 0.0
    for k in range(len(accuracies) - 1):
        total += (accuracies[k] + accuracies[k + 1]) / 2
    return total / len(accuracies)

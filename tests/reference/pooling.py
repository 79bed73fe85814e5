"""Slow twin of what pool methods share: the docstring of ``methods/pooling.py`` in plain loops, one row at a time."""

from __future__ import annotations

import math

import numpy as np

N_STRATA = 8


def strata(propensity):
    """The stratum of each row: how many of the distinct inner octiles lie strictly below its propensity."""
    ordered = sorted(propensity)
    cuts = set()
    for k in range(1, N_STRATA):
        place = k / N_STRATA * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        cuts.add(float(np.interp(place, [low, low + 1], [ordered[low], ordered[high]])))
    return [sum(cut < q for cut in cuts) for q in propensity]


def importance(of_row, labelled):
    """(T + 1)/(t + 1) of each row's stratum."""
    weights = []
    for stratum in of_row:
        rows = [i for i, other in enumerate(of_row) if other == stratum]
        weights.append((len(rows) + 1) / (sum(bool(labelled[i]) for i in rows) + 1))
    return weights


def gate(propensity, n_logged, n_bought, batch, rows_per_label):
    """2·n > m·Q0(x), the virtual stream having moved on by `rows_per_label` for each label, this batch's included."""
    n = int(rows_per_label * (n_bought + batch))
    return [2 * n > n_logged * q for q in propensity]


def least(gaps, among, count):
    """The `count` rows of `among` with the smallest gaps, the first where gaps are equal."""
    return sorted(sorted(among), key=lambda row: gaps[row])[:count]


def chances(log_q, pool_q, gaps, open_, n_bought, *, batch, floor, gate_share, rows_per_label):
    """π of every row, log then pool, and the pool rows that were taken for either share."""
    m = len(log_q)
    pool_rows = [m + i for i in range(len(pool_q)) if open_[i]]
    size = min(batch, len(pool_rows))
    passes = gate([*log_q, *pool_q], m, n_bought, batch, rows_per_label)
    if gate_share == 0 or sum(passes[row] for row in pool_rows) < size:
        passes = [True] * len(passes)
    passing = [row for row in pool_rows if passes[row]]
    for_gate = round(gate_share * size)
    hardly_shown = least(gaps, passing, for_gate)
    free = least(gaps, [row for row in pool_rows if row not in hardly_shown], size - for_gate)
    out = []
    for row in range(m + len(pool_q)):
        if row >= m:
            taken = row in hardly_shown or row in free
        else:  # a logged row: would a pool row like it have been taken?
            taken = any(gaps[row] <= gaps[other] for other in free)
            taken = taken or (passes[row] and any(gaps[row] <= gaps[other] for other in hardly_shown))
        chance = (1 - floor) * taken + (floor * size / len(passing) if passes[row] else 0.0)
        out.append(chance if row < m or open_[row - m] else 0.0)
    return out, [row - m for row in hardly_shown], [row - m for row in free]


def systematic(chance, order, start):
    """The rows on which start, start + 1, … fall when rows stand on a line in this order, each as long as its chance."""
    picked, end, point = [], 0.0, start
    for row in order:
        end += chance[row]
        if point < end:
            picked.append(int(row))
            point += 1.0
    return picked

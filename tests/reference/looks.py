"""Slow twins of observal.intervals.looks and observal.intervals.stopping, written from the formulas."""

from __future__ import annotations

import math

import numpy as np


def crossings(shares, bounds, paths, seed):
    """Return the share of simulated Brownian paths that are beyond a bound at some look up to each look."""
    rng, place, before = np.random.default_rng(seed), np.zeros(paths), 0.0
    crossed, found = np.zeros(paths, dtype=bool), []
    for t, bound in zip(shares, bounds, strict=True):
        place = place + math.sqrt(t - before) * rng.normal(size=paths)
        crossed |= np.abs(place) / math.sqrt(t) > bound
        found.append(crossed.mean())
        before = t
    return found


def spent(t, first, z):
    """Return the chance of ever missing that may be spent up to share t, after a first look at share `first`."""
    t = t ** max(1.0, math.log(0.25) / math.log(first))
    return 2.0 - 2.0 * 0.5 * (1.0 + math.erf(z / math.sqrt(t) / math.sqrt(2.0)))


def gained(now, before, calibrated):
    """Return the mean drop of the chance of a mistake, row by row; no less than 0.09 for each row whose class changed if chances are not calibrated."""
    total, changed = 0.0, 0
    for chances, earlier in zip(now, before, strict=True):
        said, says = (max(range(len(row)), key=lambda k, row=row: (row[k], -k)) for row in (earlier, chances))
        total += chances[says] - chances[said]
        changed += says != said
    return max(total, 0.0 if calibrated else 0.09 * changed) / len(now)


def confounded(shares, cells, wrong, lightest, heaviest):
    """Return the least and the largest share of mistakes over all weights at the ends of their ranges, cell by cell."""
    ends = [0.0, 0.0]
    for cell, share in enumerate(shares):
        rows = [i for i, c in enumerate(cells) if c == cell]
        means = []
        for choice in range(2 ** len(rows)):
            weights = [heaviest[i] if choice >> k & 1 else lightest[i] for k, i in enumerate(rows)]
            means.append(sum(w * wrong[i] for w, i in zip(weights, rows, strict=True)) / sum(weights))
        ends = [ends[0] + share * min(means), ends[1] + share * max(means)]
    return ends

"""Slow twins of ``observal.paper.hypotheses`` and ``observal.paper.kernels.packed``: definitions as loops."""

from __future__ import annotations

from itertools import product

import numpy as np


def unpack(packed, n_rows):
    """Return booleans: bit j of byte g is row 8g+j."""
    return np.array([[bool(row[r // 8] >> (r % 8) & 1) for r in range(n_rows)] for row in np.asarray(packed).tolist()])


def group_tables(values_if_positive, values_if_negative):
    n_rows = len(values_if_positive)
    tables = np.zeros((-(-n_rows // 8), 256))
    for row in range(n_rows):
        for pattern in range(256):
            positive = pattern >> (row % 8) & 1
            tables[row // 8, pattern] += values_if_positive[row] if positive else values_if_negative[row]
    return tables


def weighted_sums(signs, values_if_positive, values_if_negative):
    return np.where(np.asarray(signs) > 0, values_if_positive, values_if_negative).sum(axis=1)


def disagreement(signs):
    signs = np.asarray(signs)
    return np.array([len(set(column.tolist())) > 1 for column in signs.T])


def thresholds(values, both_signs=True):
    """Return the set of splits as tuples of ±1, by trying a cut at, below and above every value."""
    splits = set()
    for cut in [-np.inf, *values]:
        split = tuple(1 if value > cut else -1 for value in values)
        splits.add(split)
        if both_signs:
            splits.add(tuple(-sign for sign in split))
    return splits


def stumps(X, both_signs=True):
    return set().union(*(thresholds(column.tolist(), both_signs) for column in np.asarray(X).T))


def labelings(n_rows):
    return product((-1, 1), repeat=n_rows)


def half_planes(X):
    """Return every labelling for which a linear program finds w, b with sign·(w·x − b) ≥ 1."""
    from scipy.optimize import linprog

    X = np.asarray(X, dtype=float)
    splits = set()
    for labels in labelings(len(X)):
        signs = np.array(labels)[:, None]
        found = linprog(
            np.zeros(3),
            A_ub=-signs * np.column_stack([X, -np.ones(len(X))]),
            b_ub=-np.ones(len(X)),
            bounds=[(None, None)] * 3,
        )
        if found.status == 0:
            splits.add(labels)
    return splits


def rectangles(X):
    """Return every labelling whose positive points' bounding box holds no negative point."""
    X = np.asarray(X, dtype=float)
    splits = set()
    for labels in labelings(len(X)):
        positive = np.array(labels) > 0
        if not positive.any():
            splits.add(labels)
            continue
        low, high = X[positive].min(axis=0), X[positive].max(axis=0)
        inside = ((low <= X) & (high >= X)).all(axis=1)
        if (inside == positive).all():
            splits.add(labels)
    return splits

"""Sums of the leaves that rows fall into, over many trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

ROWS_IN_CACHE = 128  # a tree goes over this many rows before the next one comes: they stay in the cache
ROWS_OF_LARGE = 2048  # the same for large trees: fetching these takes longer than fetching rows
LARGE = 1000  # nodes of a tree


@njit(cache=True, nogil=True)
def add_leaves(
    X: Any, roots: Any, column: Any, feature: Any, threshold: Any, left: Any, right: Any, value: Any, out: Any
) -> None:
    """Add to each row of `out` the values of its leaves.

    Parameters
    ----------
    X : array of shape (rows, features)
        A row goes left where its feature is at most the threshold.
    roots, column : int arrays of shape (trees,)
        The first node of each tree, and the first column of `out` that its values go to.
    feature, threshold, left, right : arrays of shape (nodes,)
        A leaf has feature −1. Links lead to later nodes: whoever made the arrays has checked it.
    value : array of shape (nodes, width)
        Of the leaves.
    out : array of shape (rows, columns)
        Changed in place.
    """
    n_nodes = feature.size
    # Unsigned numbers: for signed ones every access would ask whether they count from the end.
    children, read = np.empty((n_nodes, 2), dtype=np.uint32), np.zeros(n_nodes, dtype=np.uint32)
    for node in range(n_nodes):
        if feature[node] >= 0:
            children[node, 0], children[node, 1], read[node] = left[node], right[node], feature[node]
        else:  # a leaf leads to itself
            children[node, 0], children[node, 1] = node, node
    at_once = ROWS_OF_LARGE if n_nodes > LARGE * roots.size else ROWS_IN_CACHE
    at = np.empty(at_once, dtype=np.uint32)
    for begin in range(0, X.shape[0], at_once):
        rows = X[begin : begin + at_once]
        count = np.uint32(rows.shape[0])
        for tree in range(roots.size):
            at[:count] = roots[tree]
            moved = feature[roots[tree]] >= 0
            while moved:  # all rows go down one level, without a branch that the processor would have to guess
                changed = np.uint32(0)
                for row in range(count):
                    node = at[row]
                    side = np.uint32(not rows[row, read[node]] <= threshold[node])
                    after = children[node, side]
                    changed |= node ^ after
                    at[row] = after
                moved = changed != 0
            for row in range(count):
                for k in range(value.shape[1]):
                    out[begin + row, column[tree] + k] += value[at[row], k]

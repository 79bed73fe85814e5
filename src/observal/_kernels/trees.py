"""Sums of the leaves that rows fall into, over many trees."""

from __future__ import annotations

from typing import Any

from numba import njit

ROWS_IN_CACHE = 256  # a tree goes over this many rows before the next one comes: they stay in the cache


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
    for begin in range(0, X.shape[0], ROWS_IN_CACHE):
        end = min(begin + ROWS_IN_CACHE, X.shape[0])
        for tree in range(roots.size):
            for row in range(begin, end):
                node = roots[tree]
                while feature[node] >= 0:
                    node = left[node] if X[row, feature[node]] <= threshold[node] else right[node]
                for k in range(value.shape[1]):
                    out[row, column[tree] + k] += value[node, k]

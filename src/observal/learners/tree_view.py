"""Rows as boosted trees see them, with a category as one column and missing values as missing; and back to the encoded columns.

A split of a category into two sets of levels becomes a chain of nodes, each of which asks for one level. A split of a number that may
be missing becomes two nodes, the first of which asks whether it is. So a fitted model needs no categories and no missing values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, Ints
from observal.problem.column_groups import ColumnGroups
from observal.problem.rows import Matrix, is_sparse


@dataclass(frozen=True, eq=False)
class TreeView:
    """From standardised rows to rows with categories and missing values.

    Parameters
    ----------
    number : int array of shape (view columns,)
        The column that a number is read from; −1 for a category.
    gap : int array of shape (view columns,)
        The column that marks where the number is missing; −1 without one.
    levels : int array of shape (view columns, levels)
        The columns of a category's levels, padded with −1.
    marked : array of shape (columns,)
        A level or a missing value is marked where its column is above this.
    """

    number: Ints
    gap: Ints
    levels: Ints
    marked: Floats = field(repr=False)

    @classmethod
    def of(cls, groups: ColumnGroups | None, sample: Matrix) -> Self | None:
        """Make it for standardised rows; None where no columns belong together.

        Examples
        --------
        >>> import numpy as np
        >>> rows = np.array([[0.5, 0.0, 1.0, 0.0], [0.1, 1.0, 0.0, 1.0], [0.7, 0.0, 0.0, 0.0]])
        >>> TreeView.of(ColumnGroups(categories=((2, 3),), gaps=((0, 1),)), rows)(rows).tolist()
        [[0.5, 0.0], [nan, 1.0], [0.699999988079071, 2.0]]
        """
        if groups is None or not (groups.categories or groups.gaps) or is_sparse(sample):
            return None
        n_columns, marks = sample.shape[1], {pair[0]: pair[1] for pair in groups.gaps}
        first = {group[0]: group for group in groups.categories}
        hidden = {column for group in groups.categories for column in group[1:]} | set(marks.values())
        shown = [column for column in range(n_columns) if column not in hidden]
        levels = np.full((len(shown), max([1, *map(len, groups.categories)])), -1)
        for place, column in enumerate(shown):
            if column in first:
                levels[place, : len(first[column])] = first[column]
        number = np.array([-1 if column in first else column for column in shown])
        gap = np.array([marks.get(column, -1) for column in shown])
        low, high = sample.min(axis=0), sample.max(axis=0)
        return cls(number, gap, levels, np.where(low < high, (low + high) / 2.0, np.inf))

    @property
    def categories(self) -> list[int]:
        """The columns of the view that are categories."""
        return np.flatnonzero(self.number < 0).tolist()

    def __call__(self, Z: Floats) -> NDArray[np.float32]:
        """Return the rows; the code of a category is the place of its level, or their number where no level is marked."""
        out = np.asarray(Z[:, np.maximum(self.number, 0)], dtype=np.float32)
        for place in np.flatnonzero(self.gap >= 0).tolist():
            out[Z[:, self.gap[place]] > self.marked[self.gap[place]], place] = np.nan
        for place in self.categories:
            own = self.levels[place][self.levels[place] >= 0]
            is_level = Z[:, own] > self.marked[own]
            out[:, place] = np.where(is_level.any(axis=1), is_level.argmax(axis=1), own.size)
        return out


class Splits(NamedTuple):
    """The splits of a model, one after the other.

    `feature` is a column of the view, `kind` LightGBM's decision type, and `in_left` says for each split of a category, in their order,
    which codes go left.
    """

    feature: Ints
    threshold: Floats
    kind: Ints
    in_left: NDArray[np.bool_]


class Nodes(NamedTuple):
    """The nodes that each split becomes: how many, and for each of them its column and threshold, and where a row goes on either side.

    `low` and `high` are for values up to the threshold and above it: 0 the left child, 1 the right child, 2 the next node.
    """

    sizes: Ints
    feature: Ints
    threshold: Floats
    low: Ints
    high: Ints


LEFT, RIGHT, NEXT = 0, 1, 2
CATEGORY, _DEFAULT_LEFT, _MISSING, _GAPS = 1, 2, 12, 8  # bits of LightGBM's decision type


def plain_nodes(feature: Ints, threshold: Floats) -> Nodes:
    """Return splits of numbers that are never missing, each of which is one node."""
    ones = np.ones(feature.size, dtype=np.int64)
    return Nodes(ones, feature, threshold, LEFT * ones, RIGHT * ones)


def as_nodes(splits: Splits, view: TreeView) -> Nodes:
    """Return splits of a view as nodes over the columns that it was made from."""
    is_category = splits.kind & CATEGORY > 0
    asks_gap = ~is_category & (splits.kind & _MISSING == _GAPS) & (view.gap[splits.feature] >= 0)
    levels = view.levels[splits.feature[is_category]]
    size = (levels >= 0).sum(axis=1)
    other_left = splits.in_left[np.arange(size.size), size]
    asked = (levels >= 0) & (splits.in_left[:, : levels.shape[1]] != other_left[:, None])
    n_asked = asked.sum(axis=1)
    count = np.ones(splits.feature.size, dtype=np.int64)
    count[asks_gap] = 2
    count[is_category] = np.maximum(n_asked, 1)
    last = np.cumsum(count) - 1
    total = int(count.sum())
    feature, threshold = np.empty(total, dtype=np.int64), np.full(total, np.inf)
    low, high = np.full(total, NEXT), np.full(total, NEXT)
    # The last node of a split of numbers compares the number.
    feature[last], threshold[last] = view.number[splits.feature], splits.threshold
    low[last], high[last] = LEFT, RIGHT
    before = last[asks_gap] - 1
    feature[before] = view.gap[splits.feature[asks_gap]]
    threshold[before] = view.marked[feature[before]]
    high[before] = np.where(splits.kind[asks_gap] & _DEFAULT_LEFT > 0, LEFT, RIGHT)
    # Each node of a category asks for one level. Where none is left to ask for, every row goes the way of other levels.
    first = (last - count + 1)[is_category]
    of_split, place = np.nonzero(asked)
    at = first[of_split] + asked.cumsum(axis=1)[of_split, place] - 1
    nodes = np.repeat(first, count[is_category]) + within(count[is_category])
    owner = np.repeat(np.arange(size.size), count[is_category])
    feature[nodes], threshold[nodes] = levels[owner, 0], np.inf
    feature[at], threshold[at] = levels[of_split, place], view.marked[levels[of_split, place]]
    high[nodes] = np.where(other_left[owner], RIGHT, LEFT)
    low[last[is_category]] = np.where(other_left, LEFT, RIGHT)
    return Nodes(count, feature, threshold, low, high)


def within(counts: Ints) -> Ints:
    """Return 0, 1, …, count − 1 for each count, one after the other."""
    return np.asarray(np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts))

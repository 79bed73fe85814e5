"""Rows that are related, such as those of one customer: in intervals the rows of a group count as one.

If one row of a group is a mistake, the others often are, too, so ten rows of one group are less informative than ten rows of ten groups. The rows of
a group that are in the same cell become one: it has their weight and their mean. The spread of such means, divided by their number, is the variance of
a cell's mean however closely the rows of a group agree. Rows of a group in different cells are summed before they are squared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from observal.checks import Floats, Ints


class MergedRows(NamedTuple):
    """What counts as one: the rows of a group in a cell."""

    cell: Ints
    group: Ints
    weight: Floats
    value: Floats


def merge_groups(cell: Ints, group: Ints, weight: Floats, value: Floats) -> MergedRows:
    """Return the rows of each group in each cell as one row.

    Parameters
    ----------
    cell, group : int arrays
        Of each row, from 0 on.
    weight, value : arrays
        Of each row; weights above 0.

    Examples
    --------
    >>> import numpy as np
    >>> merged = merge_groups(np.array([0, 0, 0, 1]), np.array([5, 5, 6, 5]), np.array([1.0, 3.0, 1.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0]))
    >>> merged.cell.tolist(), merged.weight.tolist(), merged.value.tolist()
    ([0, 0, 1], [4.0, 1.0, 1.0], [0.25, 0.0, 1.0])
    """
    pairs, place = np.unique(np.stack([cell, group]), axis=1, return_inverse=True)
    place = place.ravel()
    total: Floats = np.bincount(place, weights=weight, minlength=pairs.shape[1]).astype(np.float64)
    mean = np.bincount(place, weights=weight * value, minlength=pairs.shape[1]) / total
    return MergedRows(pairs[0], pairs[1], total, mean)


def spread_across(influence: Floats, group: Ints) -> float:
    """Return how many times larger a variance is because a group has rows in several cells, at least 1: ``Σ_g (Σ u)²/Σ u²``.

    Parameters
    ----------
    influence : array
        u: by how much each row moves the estimate.
    group : int array
        Of each row.

    Examples
    --------
    >>> import numpy as np
    >>> spread_across(np.array([1.0, 1.0, -1.0]), np.array([0, 0, 1]))
    1.6666666666666667
    """
    alone = float(influence @ influence)
    together = np.bincount(group, weights=influence)
    return max(1.0, float(together @ together) / alone) if alone > 0.0 else 1.0


def effective_number(group: Ints | None, n_rows: int) -> int:
    """Return how many rows, none of them related, vary as much in their mean as related rows that all agree do: ``n²/Σ n_g²``.

    Examples
    --------
    >>> import numpy as np
    >>> effective_number(np.array([0, 0, 1, 1]), 4), effective_number(None, 4)
    (2, 4)
    """
    if group is None or not group.size:
        return n_rows
    sizes = np.bincount(group).astype(np.float64)
    return max(1, round(float(sizes.sum() ** 2 / (sizes @ sizes))))

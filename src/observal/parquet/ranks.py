"""Exact order statistics of numbers that lie in parts: histograms of their bits, which add up.

A float64 that is not negative has the order of its 64 bits. Four passes over the parts, each counting 16 more bits of the numbers that
may still be meant, find any order statistic exactly. What a pass returns for a part is a histogram, whatever the part's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, Ints

_BITS = 16
_BINS = 1 << _BITS
_SIGN = np.uint64(1 << 63)

Blocks = Callable[[], Iterable[Floats]]
"""Each call goes through the numbers once more, block by block."""


def order_statistics(blocks: Blocks, ranks: Sequence[int]) -> Floats:
    """Return the numbers at some places of the sorted whole, counted from 0; NaN is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> order_statistics(lambda: [np.array([3.0, -1.0]), np.array([2.0])], [0, 2]).tolist()
    [-1.0, 3.0]
    """
    wanted = np.asarray(ranks, dtype=np.int64)
    prefix, below = np.zeros(wanted.size, dtype=np.uint64), np.zeros(wanted.size, dtype=np.int64)
    for shift in range(64 - _BITS, -1, -_BITS):
        counts = _histograms(blocks, np.unique(prefix), shift)
        for k in range(wanted.size):
            ends = np.cumsum(counts[int(prefix[k])])
            at = int(np.searchsorted(ends, wanted[k] - below[k], side="right"))
            below[k] += int(ends[at - 1]) if at else 0
            prefix[k] = (prefix[k] << np.uint64(_BITS)) | np.uint64(at)
    return _from_bits(prefix)


def _histograms(blocks: Blocks, prefixes: NDArray[np.uint64], shift: int) -> dict[int, Ints]:
    """Count the next bits of the numbers that begin with each of some bits."""
    counts = {int(one): np.zeros(_BINS, dtype=np.int64) for one in prefixes}
    for block in blocks():
        bits = _to_bits(block)
        for one in prefixes:
            here = bits if shift == 64 - _BITS else bits[bits >> np.uint64(shift + _BITS) == one]
            digits = (here >> np.uint64(shift)) & np.uint64(_BINS - 1)
            counts[int(one)] += np.bincount(digits.astype(np.int64), minlength=_BINS)
    return counts


def _to_bits(values: Floats) -> NDArray[np.uint64]:
    """Return whole numbers in the order of the floats; −0 and 0 are the same."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _from_bits(bits: NDArray[np.uint64]) -> Floats:
    return np.where(bits & _SIGN, bits ^ _SIGN, ~bits).view(np.float64)


def quantiles(blocks: Blocks, count: int, shares: Floats) -> Floats:
    """Return what ``np.quantile`` returns for all numbers together, to the last digit.

    Parameters
    ----------
    blocks : callable
        Returns the numbers block by block, whenever it is called.
    count : int
        How many there are.
    shares : array
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> quantiles(lambda: [np.array([3.0, 1.0]), np.array([2.0, 10.0])], 4, np.array([0.25, 0.5])).tolist()
    [1.75, 2.5]
    """
    places = shares * (count - 1)
    lower = np.floor(places).astype(np.int64)
    found = order_statistics(blocks, [*lower, *np.minimum(lower + 1, count - 1)])
    a, b = found[: shares.size], found[shares.size :]
    part = places - lower
    return np.where(part >= 0.5, b - (b - a) * (1.0 - part), a + (b - a) * part)

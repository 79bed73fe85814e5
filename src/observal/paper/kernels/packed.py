"""Sums over rows for many classifiers at once, on predictions of one bit each ("the method of four Russians").

`packed` has shape (H, G), G = ⌈N/8⌉: bit j of ``packed[h, g]`` says whether classifier h predicts +1 on row 8g+j. Rows
beyond the last are 0 bits. The sums run fastest where `packed` is stored column by column (Fortran order), as
``Dichotomies`` does: then one group of rows is one contiguous stretch, and its tables stay in the first-level cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from observal.checks import Floats, Ints

Bytes = NDArray[np.uint8]


@njit(cache=True, nogil=True)
def group_tables(values_if_positive: Floats, values_if_negative: Floats) -> Floats:
    """Return what every pattern of eight predictions sums to, group by group.

    ``T[g, b] = Σ_{j<8} (values_if_positive[8g+j] if bit j of b else values_if_negative[8g+j])``, rows beyond the last
    being 0. Built by doubling, bit by bit, with additions only: sums of nonnegative values are exact to the last few bits
    and never negative.
    """
    n_rows = values_if_positive.shape[0]
    n_groups = (n_rows + 7) // 8
    tables = np.empty((n_groups, 256))
    for group in range(n_groups):
        start = 8 * group
        stop = min(start + 8, n_rows)
        table = tables[group]
        table[0] = 0.0
        for bit in range(8):
            row = start + bit
            positive = values_if_positive[row] if row < stop else 0.0
            negative = values_if_negative[row] if row < stop else 0.0
            size = 1 << bit
            for pattern in range(size):
                table[size + pattern] = table[pattern] + positive
                table[pattern] += negative
    return tables


@njit(cache=True, nogil=True)
def packed_sums(packed: Bytes, tables: Floats, members: Ints) -> Floats:
    """Return ``Σ_g tables[g, packed[h, g]]`` for each h in `members`.

    The groups are added in one fixed order, four at a time, so that a member's sum is the same bit for bit whichever
    other members are asked about.
    """
    columns = packed.T
    n_groups = columns.shape[0]
    n_members = members.shape[0]
    sums = np.zeros(n_members)
    in_fours = n_groups - n_groups % 4
    for g in range(0, in_fours, 4):
        table0, table1, table2, table3 = tables[g], tables[g + 1], tables[g + 2], tables[g + 3]
        column0, column1, column2, column3 = columns[g], columns[g + 1], columns[g + 2], columns[g + 3]
        for i in range(n_members):
            h = members[i]
            sums[i] += (table0[column0[h]] + table1[column1[h]]) + (table2[column2[h]] + table3[column3[h]])
    for g in range(in_fours, n_groups):
        table, column = tables[g], columns[g]
        for i in range(n_members):
            sums[i] += table[column[members[i]]]
    return sums


@njit(cache=True, nogil=True)
def take_bits(packed: Bytes, rows: Ints) -> Bytes:
    """Return the packed predictions on `rows`, in that order: bit j of ``out[h, g]`` is the bit of row ``rows[8g+j]``.

    `out` is the transpose of a C-ordered array, so stored column by column like `packed`.
    """
    columns = packed.T
    n_members = columns.shape[1]
    out = np.zeros(((rows.shape[0] + 7) // 8, n_members), dtype=np.uint8)
    for i in range(rows.shape[0]):
        source = columns[rows[i] >> 3]
        target = out[i >> 3]
        shift, place = np.uint8(rows[i] & 7), np.uint8(i & 7)
        for h in range(n_members):
            target[h] |= ((source[h] >> shift) & np.uint8(1)) << place
    return out.T


@njit(cache=True, nogil=True)
def unanimous(packed: Bytes, members: Ints) -> tuple[Bytes, Bytes]:
    """Return, as packed bits, the rows where all of `members` predict +1 and the rows where none does.

    ``all_positive[g] = AND_h packed[h, g]``, ``none_positive[g] = NOT OR_h packed[h, g]``; both are full without members.
    """
    columns = packed.T
    n_groups = columns.shape[0]
    all_positive = np.empty(n_groups, dtype=np.uint8)
    none_positive = np.empty(n_groups, dtype=np.uint8)
    for g in range(n_groups):
        column = columns[g]
        every, some = np.uint8(255), np.uint8(0)
        for i in range(members.shape[0]):
            bits = column[members[i]]
            every &= bits
            some |= bits
        all_positive[g] = every
        none_positive[g] = ~some
    return all_positive, none_positive

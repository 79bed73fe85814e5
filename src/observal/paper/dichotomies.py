"""The ways in which classifiers split given rows: predictions of many classifiers, one bit each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints, Signs, frozen
from observal.errors import InvalidInput

Bytes = NDArray[np.uint8]

CHUNK_BYTES = 2**24  # memory for unpacked predictions at a time


def pack(bits: Bools) -> Bytes:
    """Return each row of booleans as bits, eight to a byte, the first in the lowest bit."""
    return np.packbits(bits, axis=-1, bitorder="little")


def packed_in_chunks(n_members: int, n_rows: int, pack_members: Callable[[slice], Bytes]) -> Bytes:
    """Gather ``pack_members(slice of members)`` into one array stored column by column.

    A slice has as many members as fit into ``CHUNK_BYTES`` at a byte for each of the `n_rows` rows.
    """
    packed = np.empty((n_members, (n_rows + 7) // 8), dtype=np.uint8, order="F")
    step = max(1, CHUNK_BYTES // max(1, n_rows))
    for start in range(0, n_members, step):
        members = slice(start, min(start + step, n_members))
        packed[members] = pack_members(members)
    return packed


def check_positions(positions: ArrayLike, size: int, what: str) -> Ints:
    """Return positions, or where a mask is true, as integers in range (the kernels do not check)."""
    values = np.asarray(positions)
    if values.dtype == bool and values.shape == (size,):
        return np.flatnonzero(values)
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= size:
        raise InvalidInput(
            f"Positions of {what} must be whole numbers from 0 to {size - 1}, or a mask of that many booleans, but "
            f"{values.dtype} of shape {values.shape} with values from {values.min()} to {values.max()} was given."
        )
    return np.ascontiguousarray(values, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Dichotomies:
    """Predictions of H classifiers on N rows, one bit each.

    Examples
    --------
    >>> from observal.paper.dichotomies import Dichotomies
    >>> two = Dichotomies.from_signs([[-1, 1, 1], [-1, -1, 1]])
    >>> two
    Dichotomies(2 classifiers × 3 rows)
    >>> two.weighted_sums([1.0, 1.0, 1.0], [0.0, 0.0, 0.0]).tolist()
    [2.0, 1.0]
    >>> two.disagreement().tolist()
    [False, True, False]
    """

    packed: Bytes  # shape (H, ⌈N/8⌉): bit j of packed[h, g] is 1 where h predicts +1 on row 8g+j; 0 beyond the last row
    n_rows: int  # N

    def __post_init__(self) -> None:
        packed = np.asfortranarray(self.packed, dtype=np.uint8)  # by column: see observal.paper.kernels.packed
        if packed.ndim != 2 or packed.shape[0] == 0 or packed.shape[1] != (self.n_rows + 7) // 8:
            raise InvalidInput(
                f"Packed predictions on {self.n_rows} rows need shape (classifiers, {(self.n_rows + 7) // 8}) and at least "
                f"one classifier, but have shape {packed.shape}; use Dichotomies.from_signs."
            )
        if self.n_rows % 8 and (packed[:, -1] >> (self.n_rows % 8)).any():
            raise InvalidInput(f"Packed predictions on {self.n_rows} rows must be 0 beyond the last row, but are not.")
        object.__setattr__(self, "packed", frozen(packed))

    @classmethod
    def from_signs(cls, matrix: ArrayLike) -> Dichotomies:
        """Pack a matrix, classifiers × rows, of −1/+1, 0/1 or booleans."""
        signs = np.asarray(matrix)
        if signs.ndim != 2 or signs.shape[0] == 0:
            raise InvalidInput(
                f"Predictions must have two dimensions, classifiers × rows, and at least one classifier, but have shape "
                f"{signs.shape}; give one row of predictions per classifier."
            )
        has_zero = has_minus = False

        def pack_members(members: slice) -> Bytes:
            nonlocal has_zero, has_minus
            part = signs[members]
            positive, zero, minus = part == 1, part == 0, part == -1
            valid = positive | zero | minus
            if not valid.all():
                raise InvalidInput(
                    f"Predictions must be −1/+1, 0/1 or booleans, but {part[~valid][0]!r} was seen; map the classes first."
                )
            has_zero |= bool(zero.any())
            has_minus |= bool(minus.any())
            return pack(positive)

        packed = packed_in_chunks(signs.shape[0], signs.shape[1], pack_members)
        if has_zero and has_minus:
            raise InvalidInput("Predictions must be −1/+1 or 0/1, but −1 and 0 were both seen; use one of the two.")
        return cls(packed, signs.shape[1])

    def __len__(self) -> int:
        return int(self.packed.shape[0])

    def __repr__(self) -> str:
        return f"Dichotomies({len(self)} classifiers × {self.n_rows} rows)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dichotomies):
            return NotImplemented
        return self.n_rows == other.n_rows and np.array_equal(self.packed, other.packed)

    def __hash__(self) -> int:
        return hash((len(self), self.n_rows))

    def signs(self, members: int | ArrayLike) -> Signs:
        """Return the −1/+1 predictions of one member, or of several as a matrix."""
        rows = self._members(np.atleast_1d(np.asarray(members)))
        bits = np.unpackbits(self.packed[rows], axis=1, count=self.n_rows, bitorder="little")
        signs = 2 * bits.astype(np.int8) - np.int8(1)
        return signs if np.ndim(members) else signs[0]

    def take_rows(self, positions: ArrayLike) -> Dichotomies:
        """Return the same classifiers on the rows at `positions`, in that order."""
        from observal.paper.kernels.packed import take_bits

        rows = check_positions(positions, self.n_rows, "rows")
        return Dichotomies(take_bits(self.packed, rows), rows.size)

    def weighted_sums(
        self, values_if_positive: ArrayLike, values_if_negative: ArrayLike, members: ArrayLike | None = None
    ) -> Floats:
        """Return, for each member, Σ over rows of the one value where it predicts +1, of the other where −1.

        The values may stop short of the last rows, which then count nothing and cost nothing.
        """
        from observal.paper.kernels.packed import group_tables, packed_sums

        values = [np.ascontiguousarray(v, dtype=np.float64) for v in (values_if_positive, values_if_negative)]
        if values[0].shape != values[1].shape or values[0].ndim != 1 or values[0].size > self.n_rows:
            raise InvalidInput(
                f"Sums over {self.n_rows} rows need one value per row and prediction, but got shapes "
                f"{values[0].shape} and {values[1].shape}."
            )
        tables = group_tables(*values)
        sums: Floats = packed_sums(self.packed[:, : len(tables)], tables, self._members(members))
        return sums

    def disagreement(self, members: ArrayLike | None = None) -> Bools:
        """Return the rows on which two of `members` (all by default) differ."""
        from observal.paper.kernels.packed import unanimous

        all_positive, none_positive = unanimous(self.packed, self._members(members))
        differ = ~(all_positive | none_positive)
        return np.unpackbits(differ, count=self.n_rows, bitorder="little").view(bool)

    def _members(self, members: ArrayLike | None) -> Ints:
        return np.arange(len(self)) if members is None else check_positions(members, len(self), "classifiers")

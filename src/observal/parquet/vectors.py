"""Vectors with a value for every row of a big table, read column by column; ids, read for chosen rows only; exact quantiles of vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from observal.checks import Floats, Ints, frozen, number_groups, sealed
from observal.errors import InvalidInput, InvalidLabel
from observal.parquet.parts import PAUSE, Parts, RowIndex, give_back
from observal.problem.labels import (
    CodedLabels,
    as_label,
    class_array,
    distinct_labels,
    plain_label,
    refuse_unclear_minus_one,
)

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CLASSES = 127  # classes of a column: codes are kept in one byte
PIECE_ROWS = 1 << 20  # rows of a vector that are read together: few enough that copying them does not matter


@dataclass(frozen=True, eq=False)
class LazyIds:
    """Ids that stay in the file: those of chosen rows are read when they are needed; without a column, rows are numbered.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from observal.parquet import Parts
    >>> path = tempfile.mkdtemp() + "/rows.parquet"
    >>> pq.write_table(pa.table({"loan": ["a", "b"], "x": [1.0, 2.0]}), path)
    >>> LazyIds(Parts.of(path, ["x"]), "loan")[np.array([1])].tolist()
    ['b']
    """

    rows: Parts = field(repr=False)
    column: str | None = None
    first: int = 0

    @property
    def shape(self) -> tuple[int]:
        """The number of rows."""
        return (len(self.rows),)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: RowIndex) -> NDArray[Any]:
        if isinstance(which, slice) and which == slice(None) and self.column is not None:
            return read_column(self.rows, self.column, _plain_ids)
        if isinstance(which, slice):
            which = np.arange(*which.indices(len(self)))
        at: Ints = np.asarray(which)
        at = self.rows.positions(np.flatnonzero(at) if at.dtype == bool else at)
        if self.column is None:
            return at + self.first
        if at.ndim == 0:
            return self[at[None]][0]  # type: ignore[no-any-return]
        return np.asarray(_plain_ids(self.rows.raw_rows(at.tolist(), [self.column]).column(0)))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def tolist(self) -> list[Any]:
        """Return all of them."""
        return self[:].tolist()  # type: ignore[no-any-return]

    def require_distinct(self, what: str) -> Ints:
        """Refuse ids that are missing or occur twice, and return a number for each of them, sorted; the column is read once."""
        if self.column is None:
            return np.empty(0, dtype=np.int64)
        keys: Ints = read_column(self.rows, self.column, partial(_id_keys, name=self.column, what=what))
        keys.sort()
        if (keys[1:] == keys[:-1]).any():
            raise InvalidInput(
                f"{what} must have distinct ids, but some in column {self.column!r} occur twice; drop or rename them."
            )
        return keys


def _plain_ids(column: pa.ChunkedArray) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy()).astype(np.int64)
    return np.array(column.cast(pa.large_string()).to_pylist(), dtype=object)


def _id_keys(column: pa.ChunkedArray, name: str, what: str) -> Ints:
    """Return a whole number for each id: itself, or 8 bytes of its text's digest."""
    import hashlib

    import pyarrow as pa

    if column.null_count:
        raise InvalidInput(f"{what} needs an id in every row, but {name!r} has empty ones; fill them in.")
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy()).astype(np.int64)
    if not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_dictionary(column.type)
    ):
        raise InvalidInput(
            f"{what} needs whole numbers or text as ids, but {name!r} is {column.type}; choose another column."
        )
    digests = (
        hashlib.blake2b(value.encode(), digest_size=8).digest() for value in column.cast(pa.large_string()).to_pylist()
    )
    return np.frombuffer(b"".join(digests), dtype=np.int64)


def read_column(rows: Parts, name: str, convert: Callable[[pa.ChunkedArray], NDArray[Any]]) -> NDArray[Any]:
    """Return one column of all rows as one array, converted block by block."""
    out: NDArray[Any] | None = None
    begin = 0
    for part in rows.executor.map(partial(_column_of_part, rows.bare, name, convert), range(len(rows.parts))):
        if out is None:
            out = np.empty(len(rows), dtype=part.dtype)
        out[begin : begin + part.size] = part
        begin += part.size
    return np.empty(0) if out is None else out


def _column_of_part(rows: Parts, name: str, convert: Callable[[pa.ChunkedArray], NDArray[Any]], k: int) -> NDArray[Any]:
    values = np.concatenate([convert(table.column(0)) for table in rows.tables(k, [name])])
    give_back(PAUSE)
    return values


def read_floats(rows: Parts, name: str, role: str, what: str) -> Floats:
    """Return a column that must have a finite number in every row."""
    return sealed(read_column(rows, name, partial(_floats, name=name, role=role, what=what)))


def _floats(column: pa.ChunkedArray, name: str, role: str, what: str) -> Floats:
    from pyarrow import types

    kind = column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise InvalidInput(f"{what} needs numbers in the {role} column {name!r}, but it has type {kind}; correct it.")
    values = np.asarray((column.cast("uint8") if types.is_boolean(kind) else column).to_numpy(), dtype=np.float64)
    if not np.isfinite(values).all():
        raise InvalidInput(
            f"{what} needs a number in every row of the {role} column {name!r}, but some are missing; fill them in."
        )
    return values


def read_groups(rows: Parts, name: str, what: str) -> Ints:
    """Return the number of each row's group: see ``observal.checks.number_groups``."""
    return sealed(read_column(rows, name, partial(_group_numbers, what=what)))


def _group_numbers(column: pa.ChunkedArray, what: str) -> Ints:
    import pyarrow as pa

    if pa.types.is_signed_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy()).astype(np.int64)
    return number_groups(np.fromiter(column.to_pylist(), dtype=object, count=len(column)), what)


def read_coded_labels(rows: Parts, name: str, classes: Sequence[Any] | None) -> CodedLabels:
    """Return the labels of a log; `classes` are those that occur, by default, whole floats being whole numbers."""
    code_of: dict[Any, int] = {} if classes is None else {value: code for code, value in enumerate(classes)}
    codes = np.empty(len(rows), dtype=np.int8)
    begin = 0
    for values, places in rows.executor.map(partial(_labels_of_part, rows.bare, name), range(len(rows.parts))):
        values = [as_label(value, classes) for value in values]  # noqa: PLW2901
        for value in (value for value in values if value is not None):
            if len(code_of) >= MOST_CLASSES and value not in code_of:
                raise InvalidLabel(
                    f"Labels can have at most {MOST_CLASSES} classes, but column {name!r} has more; merge classes."
                )
            code_of.setdefault(value, len(code_of))
        lookup = np.array([*(-1 if value is None else code_of[value] for value in values), -1], dtype=np.int8)
        codes[begin : begin + places.size] = lookup[places]
        begin += places.size
    listed = np.empty(len(code_of), dtype=object)
    listed[:] = list(code_of)
    if classes is None:  # the order of the values, not of their first rows
        ordered = distinct_labels(listed)
        refuse_unclear_minus_one(ordered.tolist())
        place = {value: code for code, value in enumerate(ordered.tolist())}
        moved = np.array([*(place[value] for value in code_of), -1], dtype=np.int8)
        codes, listed = moved[codes], ordered
    return CodedLabels(frozen(codes), class_array(listed.tolist()))


def _labels_of_part(rows: Parts, name: str, k: int) -> tuple[list[Any], NDArray[np.int8]]:
    """Return the labels that occur in a part, and the place of each row's label among them; the last is "not revealed"."""
    import pyarrow as pa

    code_of: dict[Any, int] = {}
    out = []
    for table in rows.tables(k, [name]):
        column = table.column(0).combine_chunks()
        _require_label_type(column.type, name)
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = [plain_label(value) for value in column.dictionary.to_pylist()]
        if len(values) > MOST_CLASSES:
            raise InvalidLabel(
                f"Labels can have at most {MOST_CLASSES} classes, but column {name!r} has more; merge classes."
            )
        lookup = np.array(
            [*(-1 if v is None else code_of.setdefault(v, len(code_of)) for v in values), -1], dtype=np.int16
        )
        out.append(
            lookup[np.asarray(column.indices.fill_null(len(values)).to_numpy(zero_copy_only=False), dtype=np.int64)]
        )
    return list(code_of), np.concatenate(out).astype(np.int8)


def _require_label_type(kind: pa.DataType, name: str) -> None:
    from pyarrow import types

    plain = kind.value_type if types.is_dictionary(kind) else kind
    if not (
        types.is_primitive(plain)  # numbers, booleans, dates and times
        or types.is_null(plain)
        or types.is_decimal(plain)
        or types.is_string(plain)
        or types.is_large_string(plain)
        or types.is_string_view(plain)
    ):
        raise InvalidLabel(
            f"Labels must be numbers, text, booleans or dates, but column {name!r} has type {kind}; name another column."
        )


@dataclass(frozen=True, eq=False)
class StackedVectors:
    """Two vectors one after the other, without a copy of both.

    Examples
    --------
    >>> import numpy as np
    >>> StackedVectors(np.array([0.5]), np.array([0.1, 0.2]))[np.array([2, 0])].tolist()
    [0.2, 0.5]
    """

    top: Floats = field(repr=False)
    bottom: Floats = field(repr=False)

    @property
    def size(self) -> int:
        """The number of both."""
        return self.top.size + self.bottom.size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: Ints) -> Floats:
        at, out = np.asarray(rows), np.empty(np.shape(rows))
        of_top = at < self.top.size
        out[of_top] = self.top[at[of_top]]
        out[~of_top] = self.bottom[at[~of_top] - self.top.size]
        return out

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        return np.concatenate([self.top, self.bottom])


def pieces(n_rows: int) -> Iterator[slice]:
    """Yield slices of at most PIECE_ROWS rows.

    Examples
    --------
    >>> [piece.stop for piece in pieces(3)]
    [3]
    """
    for begin in range(0, n_rows, PIECE_ROWS):
        yield slice(begin, min(begin + PIECE_ROWS, n_rows))


def pieces_of(values: Floats | StackedVectors) -> Iterator[Floats]:
    """Yield a vector, or two that are stacked, piece by piece."""
    for whole in (values.top, values.bottom) if isinstance(values, StackedVectors) else (values,):
        for piece in pieces(len(whole)):
            yield whole[piece]


# -- exact order statistics ----------------------------------------------------------------------------------------

# A float64 that is not negative has the order of its 64 bits. Four passes over the parts, each counting 16 more bits of the numbers that may still
# be meant, find any order statistic exactly. What a pass returns for a part is a histogram, whatever the part's size, and histograms add up.

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
    places = np.asarray(ranks, dtype=np.int64)
    prefix, below = np.zeros(places.size, dtype=np.uint64), np.zeros(places.size, dtype=np.int64)
    for shift in range(64 - _BITS, -1, -_BITS):
        counts = _histograms(blocks, np.unique(prefix), shift)
        for k in range(places.size):
            ends = np.cumsum(counts[int(prefix[k])])
            at = int(np.searchsorted(ends, places[k] - below[k], side="right"))
            below[k] += int(ends[at - 1]) if at else 0
            prefix[k] = (prefix[k] << np.uint64(_BITS)) | np.uint64(at)
    return _from_bits(prefix)


def _histograms(blocks: Blocks, prefixes: NDArray[np.uint64], shift: int) -> dict[int, Ints]:
    """Count the next bits of the numbers that begin with each of some bits."""
    counts = {int(prefix): np.zeros(_BINS, dtype=np.int64) for prefix in prefixes}
    for block in blocks():
        bits = _to_bits(block)
        for prefix in prefixes:
            selected = bits if shift == 64 - _BITS else bits[bits >> np.uint64(shift + _BITS) == prefix]
            digits = (selected >> np.uint64(shift)) & np.uint64(_BINS - 1)
            counts[int(prefix)] += np.bincount(digits.astype(np.int64), minlength=_BINS)
    return counts


def _to_bits(values: Floats) -> NDArray[np.uint64]:
    """Return whole numbers in the order of the floats; −0 and 0 are the same."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _from_bits(bits: NDArray[np.uint64]) -> Floats:
    return np.where(bits & _SIGN, bits ^ _SIGN, ~bits).view(np.float64)


def quantiles(blocks: Blocks, count: int, shares: Floats) -> Floats:
    """Return what ``np.quantile`` returns for all numbers together, to the last digit.

    `blocks` returns the numbers block by block, whenever it is called; there are `count` of them.

    Examples
    --------
    >>> import numpy as np
    >>> quantiles(lambda: [np.array([3.0, 1.0]), np.array([2.0, 10.0])], 4, np.array([0.25, 0.5])).tolist()
    [1.75, 2.5]
    """
    places = shares * (count - 1)
    lower = np.floor(places).astype(np.int64)
    ends = order_statistics(blocks, [*lower, *np.minimum(lower + 1, count - 1)])
    a, b = ends[: shares.size], ends[shares.size :]
    part = places - lower
    return np.where(part >= 0.5, b - (b - a) * (1.0 - part), a + (b - a) * part)

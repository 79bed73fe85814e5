"""Log and pool in a campaign's database, in chunks: arrays packed or as plain bytes, raw rows and ids as Arrow.

A chunk holds at most 16 MB of rows. Features that do not pack well are read at the speed of the disk, and a
few raw rows can be read without the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput, NotACampaign
from observal.journal.settings import StoredArray
from observal.journal.sql.connection import StoreConnection
from observal.problem.arrow_stream import pack_table, unpack_table

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BYTES = 16 * 2**20
WORTH_PACKING = 0.8  # of its plain size: an array that stays larger is stored unpacked
SMALLER = (np.int8, np.int16, np.int32, np.float32)  # types to try for a column
TABLE_BYTES = 2**20  # raw rows per chunk: small, because a few rows are read at a time
LARGEST_CHUNK = 2**27  # unpacked bytes to read at once; chunks written here are smaller


def write_array(connection: StoreConnection, name: str, array: NDArray[Any]) -> StoredArray:
    """Store an array, packed if that saves a fifth, and return its layout for ``read_array``."""
    array = np.asarray(array)
    packed = None
    for chunk, (first, block) in enumerate(_blocks(array)):
        content = b"" if packed is False else _pack(block)
        if packed is None:  # the first chunk decides for all
            packed = len(content) < WORTH_PACKING * block.nbytes
        connection.write_chunk(name, chunk, first, content if packed else np.ascontiguousarray(block).tobytes())
    return StoredArray(array.dtype.str, array.shape, bool(packed))


def append_array(connection: StoreConnection, name: str, array: NDArray[Any], layout: StoredArray) -> StoredArray:
    """Append rows to a stored array, and return its layout with the new shape."""
    block = np.ascontiguousarray(array, dtype=np.dtype(layout.dtype))
    chunk, first = len(connection.first_rows(name)), layout.shape[0]
    for k, (start, part) in enumerate(_blocks(block)):
        content = _pack(part) if layout.packed else part.tobytes()
        connection.write_chunk(name, chunk + k, first + start, content)
    return replace(layout, shape=(first + len(block), *layout.shape[1:]))


def _blocks(array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the first row and the rows of each chunk of an array."""
    step = max(1, MAX_BYTES // max(1, array.itemsize * math.prod(array.shape[1:])))
    for first in range(0, len(array), step):
        yield first, array[first : first + step]


def read_array(connection: StoreConnection, name: str, layout: StoredArray) -> NDArray[Any]:
    """Return a stored array."""
    dtype, shape = np.dtype(layout.dtype), layout.shape
    firsts = connection.first_rows(name)
    ends = [*firsts[1:], shape[0]][: len(firsts)]  # an array without rows has no chunks
    row_bytes = dtype.itemsize * math.prod(shape[1:])
    for chunk, (first, end) in enumerate(zip(firsts, ends, strict=True)):  # checked before memory is allocated
        if end - first != 1 and not 0 <= (end - first) * row_bytes <= MAX_BYTES:
            raise NotACampaign(
                f"The campaign is damaged: a chunk of its {name} has too many rows; use an undamaged copy."
            )
        connection.budget.take((end - first) * row_bytes, (name, chunk))
    parse = _unpack if layout.packed else _plain
    out = np.empty(shape if firsts else (0, *shape[1:]), dtype=dtype)
    for chunk, (first, end) in enumerate(zip(firsts, ends, strict=True)):
        block = parse(connection.read_chunk(name, chunk), dtype, (end - first, *shape[1:]))
        if block is None:
            raise NotACampaign(
                f"The campaign is damaged: its {name} does not have the recorded size; use an undamaged copy."
            )
        out[first:end] = block
    return out


def _plain(content: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the array with these bytes, or None if their number is wrong."""
    if len(content) != dtype.itemsize * math.prod(shape):
        return None
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def _pack(block: NDArray[Any]) -> bytes:
    """Return rows as a compressed Arrow table, with each feature as its smallest exact type.

    A category's column then takes a few bits per row instead of eight bytes.
    """
    import pyarrow as pa

    columns = np.ascontiguousarray(block.reshape(len(block), -1).T)
    if columns.dtype.kind == "b":
        columns = columns.view(np.int8)
    names = [str(k) for k in range(len(columns))]
    return pack_table(pa.table([pa.array(_smallest(column)) for column in columns], names), "zstd")


def _smallest(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column as the smallest type that converts back bit by bit."""
    bits = column.view(f"u{column.itemsize}")
    with np.errstate(all="ignore"):
        for kind in SMALLER:
            smaller = column.astype(kind)
            if np.array_equal(smaller.astype(column.dtype).view(bits.dtype), bits):
                return smaller
    return column


def _unpack(content: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the rows that ``_pack`` packed, or None if their number is wrong."""
    from pyarrow import types

    table = _unpack_table(content)
    n_columns = math.prod(shape[1:])
    numbers = all((types.is_integer(kind) or types.is_floating(kind)) for kind in table.schema.types)
    if (table.num_rows, table.num_columns) != (shape[0], n_columns) or not numbers:
        return None
    out = np.empty((shape[0], n_columns), dtype=dtype)
    for k, column in enumerate(table.columns):
        first = 0
        for part in column.chunks:  # through DLPack, because to_numpy would import pandas
            out[first : first + len(part), k] = np.from_dlpack(part)
            first += len(part)
    return out.reshape(shape)


def append_table(connection: StoreConnection, name: str, table: pa.Table, first_row: int) -> None:
    """Append rows to a stored Arrow table; `first_row` is its current number of rows."""
    write_table(connection, name, table, len(connection.first_rows(name)), first_row)


def write_table(
    connection: StoreConnection, name: str, table: pa.Table, first_chunk: int = 0, first_row: int = 0
) -> None:
    """Store an Arrow table, compressed."""
    import pyarrow as pa

    for k, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):  # otherwise each chunk would repeat all values
            table = table.set_column(k, column.name, table.column(k).cast(column.type.value_type))
    per_row = max(1, table.num_columns, table.nbytes // max(1, table.num_rows))
    step = max(1, TABLE_BYTES // per_row)
    slices = [(first, table.slice(first, step)) for first in range(0, table.num_rows, step)]
    parts = [part for first, rows in slices for part in _split(first, rows)]
    for chunk, (first, rows) in enumerate(parts, start=first_chunk):
        connection.write_chunk(name, chunk, first_row + first, pack_table(rows, "zstd"))


def _split(first: int, rows: pa.Table) -> list[tuple[int, pa.Table]]:
    """Split rows into chunks small enough to read, each with its first row; row sizes may vary a lot."""
    if rows.nbytes <= LARGEST_CHUNK // 2:
        return [(first, rows)]
    half = rows.num_rows // 2
    if half == 0:
        raise InvalidInput(
            f"A row of the pool has {rows.nbytes / 1e6:,.0f} MB, and a campaign stores at most {LARGEST_CHUNK / 2e6:,.0f} MB for each; "
            "leave out its largest column, or keep such content in files of its own."
        )
    return _split(first, rows.slice(0, half)) + _split(first + half, rows.slice(half))


def read_rows(connection: StoreConnection, name: str, positions: Sequence[int]) -> pa.Table:
    """Return some rows of a stored table, in the order given."""
    import pyarrow as pa

    firsts = connection.first_rows(name)
    if not firsts:
        raise NotACampaign(f"The campaign is damaged: its {name} is missing; use an undamaged copy.")
    chunks = (np.searchsorted(firsts, np.asarray(positions, dtype=np.int64), side="right") - 1).tolist()
    tables = _read_chunks(connection, name, sorted(set(chunks)) or [0])
    # Slices instead of an array of positions, for which Arrow would import pandas.
    rows = [tables[chunk].slice(at - firsts[chunk], 1) for chunk, at in zip(chunks, positions, strict=True)]
    if any(row.num_rows == 0 for row in rows):
        raise NotACampaign(f"The campaign is damaged: a row of its {name} is missing; use an undamaged copy.")
    return pa.concat_tables(rows or [tables[0].slice(0, 0)], promote_options="permissive")


def read_whole_table(connection: StoreConnection, name: str) -> pa.Table:
    """Return a stored table."""
    import pyarrow as pa

    parts = _read_chunks(connection, name, range(len(connection.first_rows(name))))
    return pa.concat_tables(parts.values(), promote_options="permissive")


def _read_chunks(connection: StoreConnection, name: str, chunks: Sequence[int]) -> dict[int, pa.Table]:
    """Return some chunks of a table, unless the total read exceeds the data limit of a file."""
    tables = {}
    for chunk in chunks:
        tables[chunk] = _unpack_table(connection.read_chunk(name, chunk))
        connection.budget.take(tables[chunk].nbytes, (name, chunk))
    return tables


def _unpack_table(content: bytes) -> pa.Table:
    try:
        return unpack_table(content, LARGEST_CHUNK)
    except ValueError as error:
        raise NotACampaign(
            f"The campaign is damaged: its rows cannot be read ({str(error)[:80]}); use an undamaged copy."
        ) from None

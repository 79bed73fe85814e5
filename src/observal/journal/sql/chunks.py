"""Log and pool in a campaign's database: arrays as plain bytes, raw rows and ids as Arrow, all in chunks.

A chunk has at most 16 MB. Features are read at the speed of the disk, and a few raw rows can be read without the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import NotACampaign
from observal.journal.sql.store import Transaction

MOST_BYTES = 16 * 2**20
TABLE_BYTES = 2**20  # of raw rows in a chunk: small, because a few rows are read at a time


def write_array(transaction: Transaction, name: str, array: NDArray[Any]) -> dict[str, Any]:
    """Store an array, and return the dtype and shape that :func:`read_array` needs."""
    array = np.asarray(array)
    per_row = max(1, array.itemsize * int(np.prod(array.shape[1:])))
    step = max(1, MOST_BYTES // per_row)
    for chunk, first in enumerate(range(0, len(array), step)):
        content = np.ascontiguousarray(array[first : first + step]).tobytes()
        transaction.write_chunk(name, chunk, first, content)
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def read_array(transaction: Transaction, name: str, form: dict[str, Any]) -> NDArray[Any]:
    """Return a stored array."""
    dtype, shape = np.dtype(form["dtype"]), tuple(form["shape"])
    firsts = transaction.first_rows(name)
    ends = [*firsts[1:], shape[0]][: len(firsts)]  # an array without rows has no chunks

    def read(chunk: int) -> NDArray[Any]:
        content, rows = transaction.read_chunk(name, chunk), ends[chunk] - firsts[chunk]
        if len(content) != rows * dtype.itemsize * math.prod(shape[1:]):
            raise NotACampaign(
                f"The campaign is damaged: its {name} does not have the recorded size; use an undamaged copy."
            )
        return np.frombuffer(content, dtype=dtype).reshape(rows, *shape[1:])

    last = [read(len(firsts) - 1)] if firsts else []  # check the recorded size before allocating the array
    out = np.empty(shape if firsts else (0, *shape[1:]), dtype=dtype)
    for chunk in range(len(firsts)):
        out[firsts[chunk] : ends[chunk]] = last[0] if chunk == len(firsts) - 1 else read(chunk)
    return out


def write_table(transaction: Transaction, name: str, table: Any) -> None:
    """Store an Arrow table, compressed."""
    import pyarrow as pa

    for k, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):  # otherwise each chunk would contain all values
            table = table.set_column(k, column.name, table.column(k).cast(column.type.value_type))
    per_row = max(1, table.nbytes // max(1, table.num_rows))
    step = max(1, TABLE_BYTES // per_row)
    for chunk, first in enumerate(range(0, table.num_rows, step)):
        transaction.write_chunk(name, chunk, first, _to_bytes(table.slice(first, step)))


def read_rows(transaction: Transaction, name: str, positions: Sequence[int]) -> Any:
    """Return some rows of a stored table, in the order given."""
    import pyarrow as pa

    firsts = transaction.first_rows(name)
    if not firsts:
        raise NotACampaign(f"The campaign is damaged: its {name} is missing; use an undamaged copy.")
    chunks = (np.searchsorted(firsts, np.asarray(positions, dtype=np.int64), side="right") - 1).tolist()
    tables = {chunk: _from_bytes(transaction.read_chunk(name, chunk)) for chunk in set(chunks) or {0}}
    # Slices instead of an array of positions: Arrow would import pandas to make that array.
    rows = [tables[chunk].slice(at - firsts[chunk], 1) for chunk, at in zip(chunks, positions, strict=True)]
    if any(row.num_rows == 0 for row in rows):
        raise NotACampaign(f"The campaign is damaged: a row of its {name} is missing; use an undamaged copy.")
    return pa.concat_tables(rows or [tables[0].slice(0, 0)], promote_options="permissive")


def read_whole_table(transaction: Transaction, name: str) -> Any:
    """Return a stored table."""
    import pyarrow as pa

    parts = [_from_bytes(transaction.read_chunk(name, k)) for k in range(len(transaction.first_rows(name)))]
    return pa.concat_tables(parts, promote_options="permissive")


def _to_bytes(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _from_bytes(content: bytes) -> Any:
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:80]
        raise NotACampaign(
            f"The campaign is damaged: its rows cannot be read ({said}); use an undamaged copy."
        ) from None
    return table

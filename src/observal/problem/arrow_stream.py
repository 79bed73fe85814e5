"""Arrow tables as bytes, and back only if they unpack to no more than a limit that is checked before anything is unpacked.

Arrow itself allocates whatever size a compressed buffer declares, so a few kilobytes could ask for all memory. The declared sizes are in the
header of each message, a table of flatbuffers: here they are added up first.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from observal.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

LIMIT_VARIABLE = "OBSERVAL_UNPACKED_GB"
_DEFAULT_LIMIT = 8.0  # gigabytes: ten million rows of a hundred numbers
_NODES, _BUFFERS, _COMPRESSION = 1, 2, 3  # fields of a record batch, as Arrow's Message.fbs numbers them


def unpacked_limit() -> int:
    """Return how many bytes the data of one file may unpack to: OBSERVAL_UNPACKED_GB, or 8 GB."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        return int(float(text or _DEFAULT_LIMIT) * 1e9)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{LIMIT_VARIABLE} must be a number of gigabytes, but is {text!r:.40}; write 8.") from None


def pack_table(table: pa.Table, compression: str | None = None) -> bytes:
    """Return a table in Arrow's stream format."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack_table(content: bytes, limit: int) -> pa.Table:
    """Return the table that :func:`pack_table` packed; ValueError if it is damaged or takes more than `limit` bytes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> packed = pack_table(pa.table({"zero": [0] * 100_000}), "zstd")
    >>> len(packed) < 1000, unpack_table(packed, 1_000_000).num_rows
    (True, 100000)
    >>> unpack_table(packed, 10_000)
    Traceback (most recent call last):
        ...
    ValueError: it unpacks to more than 10,000 bytes
    """
    import pyarrow as pa

    try:
        messages = pa.ipc.MessageReader.open_stream(content)
        size = sum(_declared_size(message) for message in messages if message.type != "schema")
        if size > limit:
            raise ValueError(f"it unpacks to more than {limit:,} bytes")
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, struct.error) as error:
        raise ValueError(" ".join(str(error).split())) from error
    return table


def _declared_size(message: pa.Message) -> int:
    """Return the bytes that a batch takes unpacked, and at least eight for each value: nulls take none here, but later as objects."""
    header, body = memoryview(message.metadata), memoryview(message.body)
    batch = _follow(header, _field(header, _follow(header, 0), 2))
    if message.type == "dictionary":
        batch = _follow(header, _field(header, batch, 1))
    values = sum(length for length, _ in _pairs(header, _field(header, batch, _NODES)))
    size = 0
    for start, length in _pairs(header, _field(header, batch, _BUFFERS)):
        declared = length
        if length and _field(header, batch, _COMPRESSION):
            declared = struct.unpack_from("<q", body, start)[0]  # -1: it is stored as it is
        size += length if declared == -1 else declared
        if min(start, length, size) < 0:
            raise ValueError("it declares a negative size")
    return max(8 * values, size)


def _field(header: memoryview, table: int, number: int) -> int:
    """Return where a field of a flatbuffers table is; 0 if it is left out."""
    fields = table - struct.unpack_from("<i", header, table)[0]
    if fields < 0 or 4 + 2 * number >= struct.unpack_from("<H", header, fields)[0]:
        return 0
    offset = struct.unpack_from("<H", header, fields + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _follow(header: memoryview, place: int) -> int:
    return place + int(struct.unpack_from("<I", header, place)[0])


def _pairs(header: memoryview, place: int) -> list[tuple[int, int]]:
    """Return a vector of pairs of whole numbers; empty if its field is left out."""
    if not place:
        return []
    start = _follow(header, place)
    count = struct.unpack_from("<I", header, start)[0]
    return list(struct.iter_unpack("<qq", header[start + 4 : start + 4 + 16 * count]))

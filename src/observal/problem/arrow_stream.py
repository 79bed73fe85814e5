"""Arrow tables as bytes, and a limit on how much the data of one file may unpack to.

Arrow allocates whatever size a compressed buffer declares, so a few kilobytes could claim all memory. The
declared sizes are in the header of each message, a flatbuffers table: they are added up here before anything
is unpacked.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from observal.errors import InvalidInput, NotACampaign

if TYPE_CHECKING:
    import pyarrow as pa

LIMIT_VARIABLE = "OBSERVAL_UNPACKED_GB"
_DEFAULT_LIMIT = 8.0  # gigabytes: ten million rows of a hundred numbers
_NODES, _BUFFERS, _COMPRESSION = 1, 2, 3  # field numbers of a record batch in Arrow's Message.fbs


def unpacked_limit() -> int:
    """Return how many bytes the data of one file may unpack to: OBSERVAL_UNPACKED_GB, or 8 GB."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        return int(float(text or _DEFAULT_LIMIT) * 1e9)
    except (ValueError, OverflowError):
        raise InvalidInput(f"{LIMIT_VARIABLE} must be a number of gigabytes, but is {text!r:.40}; write 8.") from None


class Budget:
    """How many bytes all data of one file may unpack to; readers take from it before they unpack.

    Without a `limit`, as for a campaign, OBSERVAL_UNPACKED_GB applies.

    Examples
    --------
    >>> budget = Budget(1_000_000)
    >>> budget.take(600_000, "pool")
    >>> budget.take(600_000, "pool")  # the same part again
    >>> budget.take(600_000, "log")
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: The file may be forged, because it unpacks to more than 0.001 GB, too much for its size; use a copy that you trust.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._taken = 0
        self._parts: set[object] = set()

    def take(self, size: int, part: object = None) -> None:
        """Count what is about to be unpacked, or raise; a named part counts once, however often it is read."""
        if part is not None and part in self._parts:
            return
        self._parts.add(part)
        self._taken += size
        limit = unpacked_limit() if self._limit is None else self._limit
        if self._taken > limit:
            what = f"may be forged, because it unpacks to more than {limit / 1e9:.1g} GB"
            if self._limit is None:
                raise NotACampaign(f"The campaign {what}; if you trust it, allow more with {LIMIT_VARIABLE}.")
            raise InvalidInput(f"The file {what}, too much for its size; use a copy that you trust.")


def pack_table(table: pa.Table, compression: str | None = None) -> bytes:
    """Return a table in Arrow's stream format."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack_table(content: bytes, limit: int, budget: Budget | None = None) -> pa.Table:
    """Return the table that ``pack_table`` packed; ValueError if it is damaged or takes more than `limit` bytes.

    Its size is taken from `budget` first.

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
        if budget is not None:
            budget.take(size)
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, struct.error) as error:
        raise ValueError(" ".join(str(error).split())) from error
    return table


def _declared_size(message: pa.Message) -> int:
    """Return a batch's unpacked size, at least eight bytes per value: nulls take none here, but do as objects."""
    header, body = memoryview(message.metadata), memoryview(message.body)
    batch = _follow(header, _field(header, _follow(header, 0), 2))
    if message.type == "dictionary":
        batch = _follow(header, _field(header, batch, 1))
    values = sum(length for length, _ in _pairs(header, _field(header, batch, _NODES)))
    size = 0
    for start, length in _pairs(header, _field(header, batch, _BUFFERS)):
        declared = length
        if length and _field(header, batch, _COMPRESSION):
            declared = struct.unpack_from("<q", body, start)[0]  # -1 means uncompressed
        size += length if declared == -1 else declared
        if min(start, length, size) < 0:
            raise ValueError("it declares a negative size")
    return max(8 * values, size)


def _field(header: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffers table; 0 if it is absent."""
    fields = table - struct.unpack_from("<i", header, table)[0]
    if fields < 0 or 4 + 2 * number >= struct.unpack_from("<H", header, fields)[0]:
        return 0
    offset = struct.unpack_from("<H", header, fields + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _follow(header: memoryview, place: int) -> int:
    return place + int(struct.unpack_from("<I", header, place)[0])


def _pairs(header: memoryview, place: int) -> list[tuple[int, int]]:
    """Return a vector of integer pairs; empty if its field is absent."""
    if not place:
        return []
    start = _follow(header, place)
    count = struct.unpack_from("<I", header, start)[0]
    return list(struct.iter_unpack("<qq", header[start + 4 : start + 4 + 16 * count]))

"""One Arrow column: what kind of values it holds, and its values as floats or text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from observal.checks import Floats

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["number", "date", "duration", "category", "nothing", "other"]

_UNITS_PER_DAY = {"s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}
KIND_WORDS: dict[Kind, str] = {
    "number": "numbers",
    "date": "dates",
    "duration": "durations",
    "category": "text",
    "nothing": "no values",
    "other": "values of another type",
}


def column_kind(type_: pa.DataType) -> Kind:
    """Return what a column of an Arrow type holds; "other" cannot be a feature.

    Examples
    --------
    >>> import pyarrow as pa
    >>> column_kind(pa.bool_()), column_kind(pa.date32()), column_kind(pa.list_(pa.int8()))
    ('number', 'date', 'other')
    """
    import pyarrow.types as kinds

    if kinds.is_null(type_):
        return "nothing"
    if kinds.is_boolean(type_) or kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    if kinds.is_date(type_) or kinds.is_timestamp(type_):
        return "date"
    if kinds.is_duration(type_) or kinds.is_time(type_):
        return "duration"
    if kinds.is_dictionary(type_):
        return "other" if column_kind(type_.value_type) == "other" else "category"
    if kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return "category"
    return "other"


def to_floats(column: pa.ChunkedArray) -> Floats:
    """Return a column of numbers, dates (days since 1970-01-01) or durations (days) as floats, NaN where missing.

    Examples
    --------
    >>> import pyarrow as pa, datetime as dt
    >>> to_floats(pa.chunked_array([[dt.date(1970, 1, 3), None]])).tolist()
    [2.0, nan]
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    type_ = column.type
    if kinds.is_null(type_):
        return np.full(len(column), np.nan)
    if column_kind(type_) == "number":
        if kinds.is_decimal(type_):
            column = column.cast(pa.float64())
        elif kinds.is_boolean(type_):
            column = column.cast(pa.uint8())
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if kinds.is_date32(type_):
        return np.asarray(column.cast(pa.int32()).to_numpy(), dtype=np.float64)
    whole = column.cast(pa.int32()).cast(pa.int64()) if kinds.is_time32(type_) else column.cast(pa.int64())
    unit = "ms" if kinds.is_date64(type_) else type_.unit
    return np.asarray(whole.to_numpy(), dtype=np.float64) / _UNITS_PER_DAY[unit]


def text_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text or of Arrow's dictionary type as plain text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> text_column(pa.chunked_array([pa.array([7, None, 7]).dictionary_encode()])).to_pylist()
    ['7', None, '7']
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if kinds.is_large_string(column.type) else column.cast(pa.large_string())

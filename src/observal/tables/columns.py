"""One Arrow column: what it holds, its values as floats or text, and the rule that encodes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from observal.checks import Floats
from observal.tables.written import Decimal, Order

Kind = Literal["number", "date", "duration", "category", "nothing", "other"]

_UNITS_PER_DAY = {"s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}
_WORDS: dict[str, str] = {
    "number": "numbers",
    "date": "dates",
    "duration": "durations",
    "category": "text",
    "nothing": "no values",
    "other": "values of another type",
}


def column_kind(type_: Any) -> Kind:
    """Return what a column of an Arrow type holds; "other" cannot be a feature.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from observal.tables.columns import column_kind
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


def kind_words(kind: str) -> str:
    """Return a kind in words.

    Examples
    --------
    >>> from observal.tables.columns import kind_words
    >>> kind_words("category")
    'text'
    """
    return _WORDS[kind]


def to_floats(column: Any) -> Floats:
    """Return a column of numbers, dates (days since 1970-01-01) or durations (days) as floats, NaN where missing.

    Examples
    --------
    >>> import pyarrow as pa, datetime as dt
    >>> from observal.tables.columns import to_floats
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


def text_column(column: Any) -> Any:
    """Return a column of text or of Arrow's dictionary type as plain text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from observal.tables.columns import text_column
    >>> text_column(pa.chunked_array([pa.array([7, None, 7]).dictionary_encode()])).to_pylist()
    ['7', None, '7']
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if kinds.is_large_string(column.type) else column.cast(pa.large_string())


@dataclass(frozen=True)
class ColumnRule:
    """How one column of a table becomes columns of numbers.

    Parameters
    ----------
    source : str
        The column.
    kind : {"number", "date", "duration", "category"}
        What it holds. Dates become days since 1970-01-01, durations and times of day become days.
    fill : float
        The median over the learning tables, written where a number is missing.
    categories : tuple of str
        The values with a column of their own, the most frequent first.
    indicator : bool
        Whether a column says where the value is missing.
    value : bool
        Whether the value itself is used: False where only missing or not tells rows apart.
    decimal : {".", ","}
        What separates decimals where the numbers come as text.
    order : {"dmy", "mdy"}
        Whether the day or the month comes first where dates come as text.

    Examples
    --------
    >>> from observal.tables import ColumnRule
    >>> ColumnRule("region", "category", categories=("north", "south"), indicator=True).names
    ('region=north', 'region=south', 'region is missing')
    """

    source: str
    kind: Kind
    fill: float = 0.0
    categories: tuple[str, ...] = ()
    indicator: bool = False
    value: bool = True
    decimal: Decimal = "."
    order: Order = "dmy"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        values = [f"{self.source}={c}" for c in self.categories] if self.kind == "category" else [self.source]
        return (*(values if self.value else ()), *([f"{self.source} is missing"] if self.indicator else ()))

    def fill_block(self, column: Any, out: Floats) -> None:
        """Write the encoded rows of `column` into `out`, which holds zeros."""
        if self.kind == "category":
            missing = self._fill_categories(column, out)
        else:
            values = to_floats(column)
            missing = ~np.isfinite(values)
            if self.value:
                out[:, 0] = values
                out[missing, 0] = self.fill
        if self.indicator:
            out[:, -1] = missing

    def _fill_categories(self, column: Any, out: Floats) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = text_column(column)
        if self.value:
            positions = pc.index_in(column, value_set=pa.array(self.categories, column.type))
            found = pc.is_valid(positions).to_numpy()
            out[np.flatnonzero(found), positions.drop_null().to_numpy()] = 1.0
        return pc.is_null(column).to_numpy()

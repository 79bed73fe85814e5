"""The pool as people see it: each cell as a field with its kind, where numbers stand, images and pixels."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from observal.checks import Floats
from observal.journal.sql.chunks import read_whole_table
from observal.journal.sql.connection import StoreConnection
from observal.journal.sql.in_place import is_in_place, pool_in_place
from observal.journal.sql.stored_problem import ROWS
from observal.parquet import Parts
from observal.server.images import is_inline
from observal.tables.columns import column_kind, to_floats
from observal.tables.encoder import TableEncoder

KEPT_VALUES = 20_001  # of each column, to say where a number stands: more would not show
SHORT = 40  # characters; a column with longer values is text, not a category
MOST_EXACT = 2**53  # larger whole numbers would be rounded in a browser
SMALLEST_GRID = 3
MOST_KEPT = 10_000  # rows of a campaign in place that stay in memory once they were shown
PLACES, ROWS_IN_PLACE = 8, 500  # where such a campaign's columns are looked at


class PoolView:
    """The pool's raw rows, and what is needed to show them.

    Parameters
    ----------
    table : pyarrow.Table
        The pool as it was in its table, or some of its rows if `read` brings the others.
    settings : mapping
        The campaign's settings.
    n_rows : int, optional
        Rows of the pool; those of `table` by default.
    read : callable, optional
        From positions in the pool to an Arrow table of these rows.
    """

    def __init__(
        self,
        table: Any,
        settings: Mapping[str, Any],
        n_rows: int | None = None,
        read: Callable[[list[int]], Any] | None = None,
    ) -> None:
        self._read, self._kept = read, dict[int, dict[str, Any]]()
        show = settings.get("show") or {}
        # The propensity is hidden, because what the old policy thought would sway people.
        hidden = {settings["id"], settings["label"], *_propensities(table, settings)}
        names = [name for name in table.column_names if name not in hidden]
        self._table = table.select(names).combine_chunks()
        self._n_rows = int(table.num_rows) if n_rows is None else n_rows
        self.image_column: str | None = show.get("image_column")
        kinds = {name: self._table.schema.field(name).type for name in names}
        numeric = [name for name, type_ in kinds.items() if column_kind(type_) == "number"]
        self._grid = pixel_grid(numeric, show.get("pixels"))
        self._pixels = {name for row in self._grid for name in row}
        values = {name: to_floats(self._table.column(name)) for name in numeric}
        self._range = _range([values[name] for name in self._pixels])
        self._sorted = {name: _order(found) for name, found in values.items() if name not in self._pixels}
        self._names = [name for name in names if name not in self._pixels]
        self._kinds = {name: self._kind(name) for name in self._names}

    @classmethod
    def of(cls, transaction: StoreConnection, settings: Mapping[str, Any]) -> Self:
        """Return the pool of a stored campaign; of one in place, rows are read when they are shown."""
        if not is_in_place(transaction):
            return cls(read_whole_table(transaction, ROWS), settings)
        return cls.in_parts(pool_in_place(transaction), settings)

    @classmethod
    def in_parts(cls, pool: Parts, settings: Mapping[str, Any], columns: Sequence[str] | None = None) -> Self:
        """Return a pool that stays in Parquet, all its columns by default; rows are read when they are shown."""
        read = partial(pool.raw_rows, columns=columns)
        return cls(read(_spread(len(pool))), settings, len(pool), read)

    def __len__(self) -> int:
        return self._n_rows

    @property
    def columns(self) -> list[str]:
        """Names of the fields, in the table's order; pixels are one field and come first."""
        return ["pixels"] * bool(self._grid) + self._names

    def _kind(self, name: str) -> str:
        import pyarrow.compute as pc
        import pyarrow.types as kinds

        column = self._table.column(name)
        kind = column_kind(column.type)
        if kinds.is_boolean(column.type):
            return "flag"
        if kind != "category":
            return {"number": "number", "date": "date"}.get(kind, "text")
        longest = pc.max(pc.utf8_length(column.cast("large_string"))).as_py() or 0
        distinct = pc.count_distinct(column).as_py()
        return "category" if longest <= SHORT and distinct <= max(20, len(column) // 20) else "text"

    def cell(self, position: int, number: int) -> Any:
        """Return the value in one cell; IndexError if there is none."""
        return self._row(position)[self._names[number]]

    def load(self, positions: list[int]) -> None:
        """Read rows that are about to be shown, all at once: they may be in many files."""
        if self._read is None:
            return
        if len(self._kept) + len(positions) > MOST_KEPT:
            self._kept.clear()
        missing = [position for position in positions if position not in self._kept]
        if missing:
            self._kept.update(zip(missing, self._read(missing).to_pylist(), strict=True))

    def _row(self, position: int) -> dict[str, Any]:
        if self._read is None:
            found: dict[str, Any] = self._table.slice(position, 1).to_pylist()[0]
            return found
        self.load([position])
        return self._kept[position]

    def fields(self, position: int) -> list[dict[str, Any]]:
        """Return a row as fields."""
        row = self._row(position)
        found = [self._field(position, number, name, row[name]) for number, name in enumerate(self._names)]
        if not self._grid:
            return found
        low, span = self._range
        pixels = [[_scaled(row[name], low, span) for name in line] for line in self._grid]
        return [{**_EMPTY, "name": "pixels", "kind": "pixels", "pixels": pixels}, *found]

    def _field(self, position: int, number: int, name: str, value: Any) -> dict[str, Any]:
        field = {**_EMPTY, "name": name, "kind": self._kinds[name]}
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return {**field, "kind": "missing"}
        if isinstance(value, str) and (name == self.image_column or is_inline(value)):
            text = value if len(value) <= 1000 else ""  # base64 need not travel twice
            return {**field, "kind": "image", "value": text, "image": f"/api/v1/image/{position}/{number}"}
        if field["kind"] == "number":
            ordered = self._sorted[name]
            field["standing"] = round(float(np.searchsorted(ordered, float(value)) / max(1, ordered.size)), 4)
        return {**field, "value": _plain(value)}


_EMPTY: dict[str, Any] = {"value": None, "standing": None, "image": None, "pixels": None}


def pixel_grid(names: Sequence[str], shape: Sequence[int] | None = None) -> list[list[str]]:
    """Return the columns that are pixels, line by line; empty if there are none.

    Parameters
    ----------
    names : sequence of str
        Columns of numbers.
    shape : (int, int), optional
        Height and width of the picture. Columns numbered one after the other will then do, such as ``p0`` to ``p63``.

    Examples
    --------
    >>> pixel_grid([f"pixel_{i}_{j}" for i in range(3) for j in range(3)])[0]
    ['pixel_0_0', 'pixel_0_1', 'pixel_0_2']
    >>> pixel_grid(["p1", "p2", "p3", "p4", "age"], (2, 2))
    [['p1', 'p2'], ['p3', 'p4']]
    """
    pairs: dict[str, dict[tuple[int, int], str]] = {}
    single: dict[str, dict[int, str]] = {}
    for name in names:
        if found := re.fullmatch(r"(.*?)(\d{1,4})[_x,](\d{1,4})", name):
            pairs.setdefault(found[1], {})[int(found[2]), int(found[3])] = name
        if found := re.fullmatch(r"(.*?)(\d{1,6})", name):
            single.setdefault(found[1], {})[int(found[2])] = name
    for cells in pairs.values():
        lines, columns = (sorted({key[axis] for key in cells}) for axis in (0, 1))
        whole = len(cells) == len(lines) * len(columns)
        wanted = (len(lines), len(columns)) == tuple(shape) if shape else min(len(lines), len(columns)) >= SMALLEST_GRID
        if whole and wanted:
            return [[cells[line, column] for column in columns] for line in lines]
    for numbered in single.values():
        if shape and len(numbered) == math.prod(shape):
            ordered = [numbered[number] for number in sorted(numbered)]
            return [ordered[start : start + shape[1]] for start in range(0, len(ordered), shape[1])]
    return []


def _spread(n_rows: int) -> list[int]:
    """Return positions in a few places of a large pool: enough to say what columns hold, and few parts to read."""
    starts = np.linspace(0, max(0, n_rows - ROWS_IN_PLACE), PLACES).astype(np.int64)
    rows = np.concatenate([np.arange(start, min(n_rows, start + ROWS_IN_PLACE)) for start in starts])
    return [int(row) for row in np.unique(rows)]


def _order(values: Floats) -> Floats:
    """Return values in order; of very many, evenly spaced ones."""
    ordered: Floats = np.sort(values[np.isfinite(values)])
    if ordered.size <= KEPT_VALUES:
        return ordered
    return ordered[np.linspace(0, ordered.size - 1, KEPT_VALUES).astype(np.int64)]


def _range(columns: list[Floats]) -> tuple[float, float]:
    found = np.concatenate([column[np.isfinite(column)] for column in columns]) if columns else np.empty(0)
    low, high = (float(found.min()), float(found.max())) if found.size else (0.0, 1.0)
    return low, (high - low) or 1.0


def _scaled(value: Any, low: float, span: float) -> float:
    number = low if value is None else float(value)
    return round((number - low) / span, 4) if math.isfinite(number) else 0.0


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: whole numbers that a browser would round become text."""
    if isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MOST_EXACT else str(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return str(value)


def _propensities(table: Any, settings: Mapping[str, Any]) -> list[str]:
    """Return the columns with propensities, which would sway people.

    Campaigns made before their names were recorded have them among the numbers from 0 to 1 that are no feature.
    """
    named = settings.get("propensity")
    if "propensity" in settings:
        return named if isinstance(named, list) else [named or ""]
    encoder = settings["encoder"]
    features = set(settings["features"] if encoder is None else TableEncoder.from_dict(encoder).sources)
    names = [name for name in table.column_names if name not in features]
    numbers = [name for name in names if column_kind(table.schema.field(name).type) == "number"]
    values = {name: to_floats(table.column(name)) for name in numbers}
    return [name for name, found in values.items() if found.size and ((found >= 0.0) & (found <= 1.0)).all()]

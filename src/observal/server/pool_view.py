"""The pool as people see it: each cell as a field with its kind, where numbers stand, images and pixels."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from observal.checks import Floats
from observal.journal.receipts import Assignment
from observal.journal.settings import Settings
from observal.journal.sql.chunks import read_whole_table
from observal.journal.sql.connection import StoreConnection
from observal.journal.sql.stored_problem import ROWS, is_in_place, pool_in_place
from observal.parquet import Parts
from observal.server.images import is_inline
from observal.tables.columns import column_kind, to_floats

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.server.bodies import Cell, Kind, Row

MOST_VALUES = 20_001  # of each column, to show where a number stands: more would make no visible difference
SHORT = 40  # characters; a column with longer values is text, not a category
MOST_EXACT = 2**53  # larger whole numbers would be rounded in a browser
SMALLEST_GRID = 3
MOST_CACHED = 10_000  # rows of a campaign in place that stay in memory once they were shown
PLACES, ROWS_IN_PLACE = 8, 500  # where such a campaign's columns are sampled


class PoolView:
    """The pool's raw rows, and what is needed to show them.

    `table` is the pool as it was in its table, or some of its rows if `read` brings the others: an Arrow table of the rows at some
    positions. `n_rows` counts the pool's rows, by default those of `table`.
    """

    def __init__(
        self,
        table: pa.Table,
        settings: Settings,
        n_rows: int | None = None,
        read: Callable[[list[int]], pa.Table] | None = None,
    ) -> None:
        self._read, self._cache = read, dict[int, dict[str, Any]]()
        hidden = {settings.id, *settings.hidden_columns}
        names = [name for name in table.column_names if name not in hidden]
        self._table = table.select(names).combine_chunks()
        self._n_rows = int(table.num_rows) if n_rows is None else n_rows
        self.image_column: str | None = settings.display.image_column
        kinds = {name: self._table.schema.field(name).type for name in names}
        numeric = [name for name, type_ in kinds.items() if column_kind(type_) == "number"]
        self._grid = pixel_grid(numeric, settings.display.pixels)
        self._pixels = {name for row in self._grid for name in row}
        values = {name: to_floats(self._table.column(name)) for name in numeric}
        self._range = _range([values[name] for name in self._pixels])
        self._sorted = {name: _sort(column) for name, column in values.items() if name not in self._pixels}
        self._names = [name for name in names if name not in self._pixels]
        self._kinds = {name: self._kind(name) for name in self._names}

    @classmethod
    def of(cls, transaction: StoreConnection, settings: Settings) -> Self:
        """Return the pool of a stored campaign; of one in place, rows are read when they are shown."""
        if not is_in_place(transaction):
            return cls(read_whole_table(transaction, ROWS), settings)
        return cls.in_parts(pool_in_place(transaction), settings)

    @classmethod
    def in_parts(cls, pool: Parts, settings: Settings, columns: Sequence[str] | None = None) -> Self:
        """Return a pool that stays in Parquet, all its columns by default; rows are read when they are shown."""
        read = partial(pool.raw_rows, columns=columns)
        return cls(read(_sample_positions(len(pool))), settings, len(pool), read)

    def __len__(self) -> int:
        return self._n_rows

    @property
    def columns(self) -> list[str]:
        """Names of the fields, in the table's order; pixels are one field and come first."""
        return ["pixels"] * bool(self._grid) + self._names

    def _kind(self, name: str) -> Kind:
        import pyarrow.compute as pc
        from pyarrow import types

        column = self._table.column(name)
        kind = column_kind(column.type)
        if types.is_boolean(column.type):
            return "flag"
        if kind in ("number", "date"):
            return kind
        if kind != "category":
            return "text"
        longest = pc.max(pc.utf8_length(column.cast("large_string"))).as_py() or 0
        distinct = pc.count_distinct(column).as_py()
        return "category" if longest <= SHORT and distinct <= max(20, len(column) // 20) else "text"

    def cell(self, position: int, number: int) -> object:
        """Return the value in one cell; IndexError if there is none."""
        return self._row(position)[self._names[number]]

    def load(self, positions: list[int]) -> None:
        """Read rows that are about to be shown, all at once: they may be in many files."""
        if self._read is None:
            return
        if len(self._cache) + len(positions) > MOST_CACHED:
            self._cache.clear()
        missing = [position for position in positions if position not in self._cache]
        if missing:
            self._cache.update(zip(missing, self._read(missing).to_pylist(), strict=True))

    def _row(self, position: int) -> dict[str, Any]:
        if self._read is None:
            row: dict[str, Any] = self._table.slice(position, 1).to_pylist()[0]
            return row
        self.load([position])
        return self._cache[position]

    def describe(self, assignment: Assignment) -> list[Row]:
        """Return rows to label as people see them, with why they were chosen."""
        self.load(assignment.positions)
        columns = zip(*assignment[:6], strict=True)  # all but the note
        return [
            {
                "id": str(id_),
                "round": round_,
                "model_round": model_round,
                "reason": reason,
                "query_probability": chance,
                "fields": self.fields(position),
            }
            for position, id_, round_, model_round, chance, reason in columns
        ]

    def fields(self, position: int) -> list[Cell]:
        """Return a row as fields."""
        row = self._row(position)
        fields = [self._field(position, number, name, row[name]) for number, name in enumerate(self._names)]
        if not self._grid:
            return fields
        low, span = self._range
        picture = _empty_cell("pixels", "pixels")
        picture["pixels"] = [[_scale(row[name], low, span) for name in line] for line in self._grid]
        return [picture, *fields]

    def _field(self, position: int, number: int, name: str, value: object) -> Cell:
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return _empty_cell(name, "missing")
        if isinstance(value, str) and (name == self.image_column or is_inline(value)):
            cell = _empty_cell(name, "image")
            cell["value"] = value if len(value) <= 1000 else ""  # base64 need not be sent twice
            cell["image"] = f"/api/v1/image/{position}/{number}"
            return cell
        cell = _empty_cell(name, self._kinds[name])
        cell["value"] = _plain(value)
        if isinstance(value, int | float | decimal.Decimal) and cell["kind"] == "number":
            ordered = self._sorted[name]
            cell["standing"] = round(float(np.searchsorted(ordered, float(value)) / max(1, ordered.size)), 4)
        return cell


def _empty_cell(name: str, kind: Kind) -> Cell:
    return {"name": name, "kind": kind, "value": None, "standing": None, "image": None, "pixels": None}


def pixel_grid(names: Sequence[str], shape: Sequence[int] | None = None) -> list[list[str]]:
    """Return the columns that are pixels, line by line; empty if there are none.

    `names` are columns of numbers. If `shape`, the picture's height and width, is given, they may be numbered one after the other, such as
    ``p0`` to ``p63``.

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
        if match := re.fullmatch(r"(.*?)(\d{1,4})[_x,](\d{1,4})", name):
            pairs.setdefault(match[1], {})[int(match[2]), int(match[3])] = name
        if match := re.fullmatch(r"(.*?)(\d{1,6})", name):
            single.setdefault(match[1], {})[int(match[2])] = name
    for cells in pairs.values():
        lines, columns = (sorted({key[axis] for key in cells}) for axis in (0, 1))
        size = len(lines), len(columns)
        fits = size == tuple(shape) if shape else min(size) >= SMALLEST_GRID
        if fits and len(cells) == math.prod(size):
            return [[cells[line, column] for column in columns] for line in lines]
    for numbered in single.values():
        if shape and len(numbered) == math.prod(shape):
            ordered = [numbered[number] for number in sorted(numbered)]
            return [ordered[start : start + shape[1]] for start in range(0, len(ordered), shape[1])]
    return []


def _sample_positions(n_rows: int) -> list[int]:
    """Return positions in a few places of a large pool: enough to see what columns hold, with few parts to read."""
    starts = np.linspace(0, max(0, n_rows - ROWS_IN_PLACE), PLACES).astype(np.int64).tolist()
    rows = np.concatenate([np.arange(start, min(n_rows, start + ROWS_IN_PLACE)) for start in starts])
    return [int(row) for row in np.unique(rows)]


def _sort(values: Floats) -> Floats:
    """Return values in order; of very many, evenly spaced ones."""
    ordered: Floats = np.sort(values[np.isfinite(values)])
    if ordered.size <= MOST_VALUES:
        return ordered
    return ordered[np.linspace(0, ordered.size - 1, MOST_VALUES).astype(np.int64)]


def _range(columns: list[Floats]) -> tuple[float, float]:
    """Return the smallest value of some columns, and how far the largest is from it."""
    values = np.concatenate([column[np.isfinite(column)] for column in columns]) if columns else np.empty(0)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    return low, (high - low) or 1.0


def _scale(value: float | decimal.Decimal | None, low: float, span: float) -> float:
    number = low if value is None else float(value)
    return round((number - low) / span, 4) if math.isfinite(number) else 0.0


def _plain(value: object) -> bool | int | float | str:
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

"""Columns of any kind to columns of numbers: what was learned from the tables is plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.problem.column_groups import ColumnGroups
from observal.tables.columns import ColumnRule, column_kind, kind_words, text_column
from observal.tables.formats import Format, format_of
from observal.tables.learning import learn_rules
from observal.tables.reading import read_raw, read_tables
from observal.tables.written import Decimal, Written, as_arrow

_FORMAT = 1
_ROWS_AT_ONCE = 1 << 16  # a block of rows that stays in the processor's cache while its columns are filled


@dataclass(frozen=True)
class TableEncoder:
    """Turns tables into arrays of numbers, always in the same way.

    Missing numbers (and infinities) become the median over the learning tables, with a column that says where, if any
    was missing there. Categories become one column each; a category that was not seen in learning, or was too rare, is 0
    in all of them. Make one with :meth:`learn`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from observal.tables import TableEncoder
    >>> table = pa.table({"income": [10.0, None, 30.0, 30.0], "region": ["north", "south", "north", "south"]})
    >>> encoder = TableEncoder.learn([table])
    >>> encoder.names
    ('income', 'income is missing', 'region=north', 'region=south')
    >>> encoder.encode(pa.table({"income": [None, 5.0], "region": ["south", "west"]})).tolist()
    [[30.0, 1.0, 0.0, 1.0], [5.0, 0.0, 0.0, 0.0]]
    >>> for note in encoder.notes: print(note)
    Column 'income' was missing in 1 of 4 rows: the median 30 is used there, and 'income is missing' says where.
    Column 'region' became 2 columns, one for each value; any other value is 0 in all of them.
    """

    rules: tuple[ColumnRule, ...]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls,
        tables: Sequence[Any],
        features: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        max_categories: int = 50,
    ) -> TableEncoder:
        """Learn medians and categories from `tables` together.

        Parameters
        ----------
        tables : sequence of tables
            Whatever :func:`read_table` takes.
        features : sequence of str, optional
            The columns to use; by default all columns that every table has, without those that cannot be used.
        exclude : sequence of str
            Columns that are not features.
        max_categories : int
            The most categories of one column that get a column of their own.
        """
        tables = read_tables(tables)
        rules, notes = learn_rules(tables, features, exclude, max_categories)
        missing = dict.fromkeys(word for table in tables for word in format_of(table).missing)
        return cls(tuple(rules), tuple(notes), tuple(missing))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the encoded columns, all different."""
        names: dict[str, None] = {}
        for name in (name for rule in self.rules for name in rule.names):
            unused, number = name, 2
            while unused in names:
                unused, number = f"{name} ({number})", number + 1
            names[unused] = None
        return tuple(names)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The source column of each encoded column."""
        return tuple(rule.source for rule in self.rules for _ in rule.names)

    @cached_property
    def groups(self) -> ColumnGroups | None:
        """Which encoded columns belong together: the levels of a category, or a number and the mark of its missing values; None if none do."""
        ends: Ints = np.cumsum([0, *(len(rule.names) for rule in self.rules)])
        spans = [
            (rule, tuple(range(first, end)))
            for rule, first, end in zip(self.rules, ends.tolist(), ends[1:].tolist(), strict=False)
        ]
        categories = tuple(span for rule, span in spans if rule.kind == "category" and len(span) > 1)
        gaps = tuple(span for rule, span in spans if rule.kind != "category" and len(span) > 1)
        return ColumnGroups(categories, gaps) if categories or gaps else None

    @property
    def dates(self) -> tuple[str, ...]:
        """The names of the encoded columns that are dates, in days since 1970-01-01."""
        kinds = [rule.kind == "date" and k == 0 and rule.value for rule in self.rules for k in range(len(rule.names))]
        return tuple(name for name, is_date in zip(self.names, kinds, strict=True) if is_date)

    def encode(self, table: Any) -> Floats:
        """Return `table` (whatever :func:`read_table` takes) as an array of shape (rows, encoded columns).

        Numbers and dates may come as text, written as in the learning tables.
        """
        table = read_raw(table, None, Format(decimal=self._decimal, missing=self.missing))
        ends: Ints = np.cumsum([0, *(len(rule.names) for rule in self.rules)])
        columns = [usable_column(table, rule) for rule in self.rules]
        out = np.zeros((table.num_rows, int(ends[-1])))
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            for rule, column, first, end in zip(self.rules, columns, ends[:-1], ends[1:], strict=True):
                rule.fill_block(column.slice(start, _ROWS_AT_ONCE), out[rows, first:end])
        return out

    @property
    def _decimal(self) -> Decimal | None:
        """What separates decimals in a file, if the learning tables had decimal commas."""
        return "," if any(rule.decimal == "," for rule in self.rules) else None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values that JSON can hold."""
        return {
            "format": _FORMAT,
            "columns": [asdict(rule) for rule in self.rules],
            "notes": list(self.notes),
            "missing": list(self.missing),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TableEncoder:
        """Return the encoder that :meth:`to_dict` wrote, also after a trip through JSON."""
        if record.get("format") != _FORMAT:
            raise InvalidInput(
                f"The stored encoder has format {record.get('format')!r}, and this version reads {_FORMAT}; "
                "use the version of observal that wrote it."
            )
        rules = (ColumnRule(**{**rule, "categories": tuple(rule["categories"])}) for rule in record["columns"])
        return cls(tuple(rules), tuple(record["notes"]), tuple(record.get("missing", ())))


def date_names(record: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the encoded columns of a stored encoder that are dates; none where there is no encoder.

    Examples
    --------
    >>> import datetime as dt, pyarrow as pa
    >>> table = pa.table({"age": [30, 40], "since": [dt.date(2024, 1, 1), dt.date(2025, 1, 1)]})
    >>> date_names(TableEncoder.learn([table]).to_dict()), date_names(None)
    (('since',), ())
    """
    return () if record is None else TableEncoder.from_dict(record).dates


def usable_column(table: Any, rule: ColumnRule) -> Any:
    """Return a column of a table in the form that its rule takes; numbers and dates may be text."""
    if rule.source not in table.column_names:
        raise InvalidInput(
            f"The table has no column {rule.source!r}, its columns are {table.column_names}; give the columns that the "
            "encoder was learned from."
        )
    column = table.column(rule.source)
    kind = column_kind(column.type)
    if kind == "category" and rule.kind in ("number", "date"):
        order = rule.order if rule.kind == "date" else None
        return as_arrow(text_column(column), Written(rule.decimal, order, time=order is not None), rule.source)
    if kind not in (rule.kind, "nothing"):
        raise InvalidInput(
            f"Column {rule.source!r} held {kind_words(rule.kind)} when the encoder was learned, but now holds "
            f"{kind_words(kind)} ({column.type}); give it as {kind_words(rule.kind)}."
        )
    return column

"""Columns of any kind to columns of numbers: what was learned from the tables is plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Protocol

import numpy as np

from observal.checks import Bools, Floats, Ints, check_whole
from observal.errors import InvalidInput
from observal.problem.column_groups import ColumnGroups
from observal.problem.words import WARNING, day_words, listed
from observal.tables.column_format import ColumnFormat
from observal.tables.columns import KIND_WORDS, Kind, column_kind, text_column, to_floats
from observal.tables.read import read_raw, read_tables
from observal.tables.table_format import TableFormat, reading_of
from observal.tables.text_columns import first_word, parse_column

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

_ROWS_AT_ONCE = 1 << 16  # a block of rows that stays in the processor's cache while its columns are filled
_LARGEST_EXACT = 2**53  # whole numbers beyond it lose digits as floats
_FEWEST_ROWS_FOR_IDS = 20  # numbers of fewer rows may all differ by chance
_MANY_SINGLES = 10  # a text column with more values than this, most of them seen once, holds names and not categories
_LEAST_COVERED = 0.2  # the share of rows that the most frequent values must cover to be worth columns
_MOST_NAMED = 5  # columns in a sentence


class ColumnSource(Protocol):
    """A table of which columns are read: an Arrow table, or Parquet that stays in its files."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""

    def column(self, name: str, /) -> pa.ChunkedArray:
        """Return a column of all rows."""


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

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the encoded columns."""
        values = [f"{self.source}={c}" for c in self.categories] if self.kind == "category" else [self.source]
        return (*(values if self.value else ()), *([f"{self.source} is missing"] if self.indicator else ()))

    def fill_block(self, column: pa.ChunkedArray, out: Floats) -> None:
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

    def _fill_categories(self, column: pa.ChunkedArray, out: Floats) -> Bools:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = text_column(column)
        if self.value:
            positions = pc.index_in(column, value_set=pa.array(self.categories, column.type))
            has_category = pc.is_valid(positions).to_numpy()
            out[np.flatnonzero(has_category), positions.drop_null().to_numpy()] = 1.0
        return np.asarray(pc.is_null(column).to_numpy())


@dataclass(frozen=True)
class TableEncoder:
    """Turns tables into arrays of numbers, always in the same way.

    Missing numbers (and infinities) become the median over the learning tables, with a column that says where, if any
    was missing there. Categories become one column each; a category that was not seen in learning, or was too rare, is 0
    in all of them. Make one with ``learn``.

    Parameters
    ----------
    rules : tuple of ColumnRule
        How each column is encoded.
    notes : tuple of str
        Sentences about what was done.
    format : TableFormat
        How the learning tables were written, so that text is read in the same way later.

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
    Column 'income' was missing in 1 of 4 rows: the median 30 is used there, and 'income is missing' marks these rows.
    Column 'region' became 2 columns, one for each value; any other value is 0 in all of them.
    """

    rules: tuple[ColumnRule, ...]
    notes: tuple[str, ...] = ()
    format: TableFormat = field(default_factory=TableFormat)

    @classmethod
    def learn(
        cls,
        tables: Sequence[TableSource],
        features: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        max_categories: int = 50,
    ) -> TableEncoder:
        """Learn medians and categories from `tables` together.

        Parameters
        ----------
        tables : sequence of tables
            Whatever ``read_table`` takes; of several, the last is the pool.
        features : sequence of str, optional
            The columns to use; by default all columns that every table has, without those that cannot be used.
        exclude : sequence of str
            Columns that are not features.
        max_categories : int
            The most categories of one column that get a column of their own.
        """
        arrow = read_tables(tables)
        rules, notes = learn_rules(arrow, features, exclude, max_categories)
        return cls(tuple(rules), tuple(notes), TableFormat.combine([reading_of(table).format for table in arrow]))

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

    @property
    def percents(self) -> tuple[str, ...]:
        """The names of the encoded columns whose numbers have percent signs in the tables."""
        columns = self.format.columns
        return tuple(name for name in self.names if name in columns and columns[name].percent)

    def encode(self, table: TableSource) -> Floats:
        """Return `table` (whatever ``read_table`` takes) as an array of shape (rows, encoded columns).

        Numbers and dates may come as text, written as in the learning tables.
        """
        arrow = self.read(table)
        ends: Ints = np.cumsum([0, *(len(rule.names) for rule in self.rules)])
        columns = [self.usable_column(arrow, rule) for rule in self.rules]
        out = np.zeros((arrow.num_rows, int(ends[-1])))
        for start in range(0, arrow.num_rows, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            for rule, column, first, end in zip(self.rules, columns, ends[:-1], ends[1:], strict=True):
                rule.fill_block(column.slice(start, _ROWS_AT_ONCE), out[rows, first:end])
        return out

    def read(self, table: TableSource, options: TableFormat | None = None) -> pa.Table:
        """Return `table` as it is before it is encoded; it is written as the learning tables were where `options` do not say."""
        has_commas = any(self._text_format(rule).decimal == "," for rule in self.rules)
        said = options or TableFormat()
        decimal = said.decimal or ("," if has_commas else None)
        return read_raw(table, None, replace(said, decimal=decimal, missing=(*self.format.missing, *said.missing)))

    def require_columns(self, names: Sequence[str]) -> None:
        """Refuse a table with these columns if one that is encoded is not among them."""
        for rule in self.rules:
            _require_column(rule, names)

    def usable_column(self, table: pa.Table, rule: ColumnRule) -> pa.ChunkedArray:
        """Return a column of a table in the form that its rule takes; numbers and dates may be text."""
        _require_column(rule, table.column_names)
        column = table.column(rule.source)
        kind = column_kind(column.type)
        if kind == "category" and rule.kind in ("number", "date"):
            return parse_column(text_column(column), self._text_format(rule), rule.source)
        if kind not in (rule.kind, "nothing"):
            raise InvalidInput(
                f"Column {rule.source!r} held {KIND_WORDS[rule.kind]} when the model was trained, but now holds "
                f"{KIND_WORDS[kind]} ({column.type}); give it as {KIND_WORDS[rule.kind]}."
            )
        return column

    def _text_format(self, rule: ColumnRule) -> ColumnFormat:
        """Return how a column is read where it is text; dates may always have a time of day."""
        usual = ColumnFormat(self.format.decimal or ".")
        column = self.format.columns.get(rule.source, usual)
        return column.with_time() if rule.kind == "date" else column


def _require_column(rule: ColumnRule, names: Sequence[str]) -> None:
    if rule.source not in names:
        raise InvalidInput(
            f"The table has no column {rule.source!r}, its columns are {list(names)}; give the columns that the model was trained on."
        )


def learn_rules(
    tables: Sequence[ColumnSource], features: Sequence[str] | None, exclude: Sequence[str], max_categories: int
) -> tuple[list[ColumnRule], list[str]]:
    """Return a rule for each column that can be used, and sentences about what was done; of several tables, the last is the pool.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rules, notes = learn_rules([pa.table({"age": [1, 2], "one": [1, 1]})], None, (), 50)
    >>> [rule.source for rule in rules], notes
    (['age'], ["Column 'one' was left out: it has the same value in all 2 rows."])
    """
    if not tables or sum(table.num_rows for table in tables) == 0:
        raise InvalidInput("An encoder needs rows to learn from, but the tables have none; give tables with rows.")
    check_whole(max_categories, "max_categories", 1)
    names, notes = _feature_names(tables, features, exclude)
    rules = []
    for name in names:
        columns = [table.column(name) for table in tables]
        kind = _common_kind(columns, name)
        if kind == "other" and features is not None:
            raise InvalidInput(
                f"Feature column {name!r} has type {columns[0].type}, which cannot be used; leave it out of the features, "
                "or turn it into numbers or text first."
            )
        rule, sentences = _learn_column(name, kind, columns, max_categories, is_named=features is not None)
        rules += [rule] if rule is not None else []
        notes += sentences
    if not rules:
        first = notes[0].removeprefix(WARNING) if notes else ""
        example = f" (for example, {first[0].lower()}{first[1:].rstrip('.')})" if notes else ""
        raise InvalidInput(f"No feature column of {len(names)} can be used{example}; give other columns.")
    return rules, notes


def _feature_names(
    tables: Sequence[ColumnSource], features: Sequence[str] | None, exclude: Sequence[str]
) -> tuple[list[str], list[str]]:
    shared = set.intersection(*(set(table.column_names) for table in tables))
    if features is None:
        candidates = list(dict.fromkeys(name for table in tables for name in table.column_names if name not in exclude))
        lost = [name for name in candidates if name not in tables[-1].column_names]
        others = [name for name in candidates if name not in shared and name not in lost]
        notes = [f"Column {name!r} was left out: not every table has it." for name in others]
        return [name for name in candidates if name in shared], [*_warn_of_lost(lost), *notes]
    for name in features:
        if name not in shared:
            lacking = next(table for table in tables if name not in table.column_names)
            raise InvalidInput(
                f"Every table must have the feature column {name!r}, but one has the columns {lacking.column_names}; "
                "name columns that all have."
            )
        if name in exclude:
            raise InvalidInput(
                f"Column {name!r} cannot be a feature, because it already is the label, propensity, id, cost, group or price; "
                "leave it out of the features."
            )
    return list(dict.fromkeys(features)), []


def _warn_of_lost(names: Sequence[str]) -> list[str]:
    """Return a warning of columns that the pool lacks: a model for its rows cannot use them."""
    if not names:
        return []
    them = "them" if len(names) > 1 else "it"
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    columns, were = ("Columns", "were") if len(names) > 1 else ("Column", "was")
    return [
        f"{WARNING}{columns} {listed([*map(repr, names[:_MOST_NAMED]), *more])} {were} left out: the pool does not have {them}; if "
        f"values for the pool are known, add {them} to its table."
    ]


def _common_kind(columns: Sequence[pa.ChunkedArray], name: str) -> Kind:
    place_of = {column_kind(column.type): place for place, column in enumerate(columns)}
    kinds = sorted(place_of.keys() - {"nothing"})
    if len(kinds) < 2:
        return kinds[0] if kinds else "nothing"
    tables = [*([f"log {k + 1}" for k in range(len(columns) - 1)] if len(columns) > 2 else ["the log"]), "the pool"]
    one, other = (f"{KIND_WORDS[kind]} in {tables[place_of[kind]]}" for kind in kinds[:2])
    if kinds[0] == "category" and (word := first_word(text_column(columns[place_of["category"]]))):
        one += f", such as {word},"
    raise InvalidInput(
        f"Column {name!r} must hold the same kind of values in every table, but holds {one} and {other}; make them the same."
    )


def _learn_column(
    name: str, kind: Kind, columns: Sequence[pa.ChunkedArray], max_categories: int, is_named: bool
) -> tuple[ColumnRule | None, list[str]]:
    if kind == "other":
        type_ = next(column.type for column in columns if column_kind(column.type) == "other")
        return None, [f"Column {name!r} was left out: its type {type_} is neither numbers, dates nor text."]
    if kind == "nothing":
        return None, [f"Column {name!r} was left out: all its values are missing."]
    if kind == "category":
        return _learn_categories(name, columns, max_categories, is_named)
    return _learn_numbers(name, kind, columns)


def _learn_numbers(name: str, kind: Kind, columns: Sequence[pa.ChunkedArray]) -> tuple[ColumnRule | None, list[str]]:
    values = _concatenate_floats(columns)
    is_finite = np.isfinite(values)
    finite = values if is_finite.all() else values[is_finite]  # no copy of a long column without missing values
    n_rows, n_missing = values.size, values.size - finite.size
    notes = _describe_numbers(name, kind, columns, values)
    if finite.size == 0:
        return None, [f"Column {name!r} was left out: all its values are missing or infinite."]
    middle = (finite.size - 1) // 2  # the lower of two: a value that occurs, and their sum cannot overflow
    finite.partition(middle)  # in place: the order is not needed any more
    fill = float(finite[middle])
    middle_value = day_words(fill) if kind == "date" else f"{fill:g}"
    constant = bool(finite.min() == finite.max())
    if constant and n_missing == 0:
        return None, [f"Column {name!r} was left out: it has the same value in all {n_rows} rows."]
    if constant:
        notes.append(
            f"Column {name!r} has only one value besides missing ones, so only '{name} is missing' is used ({n_missing} of {n_rows})."
        )
    elif n_missing:
        notes.append(
            f"Column {name!r} was missing in {n_missing} of {n_rows} rows: the median {middle_value} is used there, and "
            f"'{name} is missing' marks these rows."
        )
    return ColumnRule(name, kind, fill, (), indicator=n_missing > 0, value=not constant), notes


def _concatenate_floats(columns: Sequence[pa.ChunkedArray]) -> Floats:
    """Return the values of several columns one after the other, chunk by chunk: a long column is not copied."""
    import pyarrow as pa

    out, end = np.empty(sum(len(column) for column in columns)), 0
    for chunk in (chunk for column in columns for chunk in column.chunks):
        begin, end = end, end + len(chunk)
        out[begin:end] = to_floats(pa.chunked_array([chunk]))
    return out


def _describe_numbers(name: str, kind: Kind, columns: Sequence[pa.ChunkedArray], values: Floats) -> list[str]:
    from pyarrow import types

    notes = []
    if kind == "date":
        notes.append(f"Column {name!r} was turned into days since 1970-01-01.")
    if kind == "duration":
        notes.append(f"Column {name!r} was turned into days.")
    n_infinite = int(np.isinf(values).sum())
    if n_infinite:
        notes.append(f"Column {name!r} had {n_infinite} infinite values, which count as missing.")
    if any(types.is_integer(column.type) or types.is_decimal(column.type) for column in columns):
        n_huge = int((np.abs(values) >= _LARGEST_EXACT).sum())
        if n_huge:
            notes.append(
                f"Column {name!r} had {n_huge} numbers of 2^53 or more, which were rounded to 53 binary digits."
            )
    if all(types.is_integer(column.type) for column in columns) and _all_differ(values):
        notes.append(
            f"Column {name!r} is used as a feature, although every row has a different number; if it identifies the rows, make "
            "it the id column."
        )
    return notes


def _all_differ(values: Floats) -> bool:
    """Tell whether no value occurs twice; a look at the first thousand spares sorting most columns."""
    head = values[:1000]
    return (
        values.size >= _FEWEST_ROWS_FOR_IDS
        and np.unique(head).size == head.size
        and np.unique(values).size == values.size
    )


def _learn_categories(
    name: str, columns: Sequence[pa.ChunkedArray], max_categories: int, is_named: bool
) -> tuple[ColumnRule | None, list[str]]:
    counts, n_missing, n_rows = _count_values(columns)
    n_present = n_rows - n_missing
    if not counts:
        return None, [f"Column {name!r} was left out: all its values are missing."]
    if len(counts) == 1 and n_missing == 0:
        return None, [f"Column {name!r} was left out: it has the same value in all {n_rows} rows."]
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    categories = tuple(ordered[:max_categories])
    covered = sum(counts[value] for value in categories)
    is_free_text = len(counts) > max(_MANY_SINGLES, n_present / 2) or covered < _LEAST_COVERED * n_present
    if is_free_text and not is_named:
        return None, [
            f"Column {name!r} was left out: its text has {len(counts)} different values in {n_present} rows, like names or "
            "free text; list it as a feature to use its most frequent values."
        ]
    missing_note = (
        f"; {n_missing} of {n_rows} rows have no value, and '{name} is missing' marks them" if n_missing else ""
    )
    if len(counts) == 1:
        return ColumnRule(name, "category", 0.0, (), indicator=True, value=False), [
            f"Column {name!r} has only one value besides missing ones, so only '{name} is missing' is used ({n_missing} of {n_rows})."
        ]
    which = (
        "one for each value" if len(categories) == len(counts) else f"for the most frequent of its {len(counts)} values"
    )
    names = (
        ""
        if len(categories) == len(counts)
        else f"; if it identifies people or things, leave it out with --exclude {quote(name)}"
    )
    return ColumnRule(name, "category", 0.0, categories, indicator=n_missing > 0), [
        f"Column {name!r} became {len(categories)} columns, {which}; any other value is 0 in all of them{missing_note}{names}."
    ]


def _count_values(columns: Sequence[pa.ChunkedArray]) -> tuple[dict[str, int], int, int]:
    """Return how often each text occurs, how many are missing, and how many rows there are."""
    import pyarrow.compute as pc

    counts: dict[str, int] = {}
    for column in columns:
        pairs = [] if column_kind(column.type) == "nothing" else pc.value_counts(text_column(column)).to_pylist()
        for pair in pairs:
            if pair["values"] is not None:
                counts[pair["values"]] = counts.get(pair["values"], 0) + pair["counts"]
    n_rows = sum(len(column) for column in columns)
    return counts, n_rows - sum(counts.values()), n_rows

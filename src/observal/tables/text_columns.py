"""Text columns that hold numbers or dates become numbers or dates.

The whole column decides on the format; if it is ambiguous, the other columns and the other tables do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from observal.errors import InvalidInput
from observal.tables.column_format import (
    MISSING,
    PLACEHOLDERS,
    ColumnFormat,
    Guess,
    Order,
    guess_format,
    number_of,
)
from observal.tables.table_format import Reading, TableFormat, reading_of, with_reading

if TYPE_CHECKING:
    import pyarrow as pa

_SAMPLE_ROWS = 200  # looked at before the whole column is


def convert_text(tables: Sequence[pa.Table], keep: Sequence[str] = ()) -> list[pa.Table]:
    """Return tables of the same kind of rows in which text of only numbers or dates became that, except in columns to `keep`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> log, pool = pa.table({"paid": ["1,200", "0,75"]}), pa.table({"paid": ["2,500"]})
    >>> [table.column("paid").to_pylist() for table in convert_text([log, pool])]
    [[1.2, 0.75], [2.5]]
    """
    readings = [reading_of(table) for table in tables]
    evidence = [
        _Evidence(reading.format, _guess_columns(table, reading, keep))
        for table, reading in zip(tables, readings, strict=True)
    ]
    return [
        _convert_table(table, reading, evidence[k], [*evidence[:k], *evidence[k + 1 :]])
        for k, (table, reading) in enumerate(zip(tables, readings, strict=True))
    ]


def replace_missing(table: pa.Table, missing: Sequence[str]) -> pa.Table:
    """Return an Arrow table in which some words, and numbers written like them, are missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> replace_missing(pa.table({"home": ["own", "?"], "age": [30, -1]}), ["?", "-1"]).to_pydict()
    {'home': ['own', None], 'age': [30, None]}
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not missing:
        return table
    numbers = [value for value in (number_of(word, ".") for word in missing) if value is not None]
    for place, column in enumerate(table.columns):
        kind, plain = column.type, column
        if kinds.is_dictionary(kind):
            plain, kind = column.cast(kind.value_type), kind.value_type
        if kinds.is_integer(kind) or kinds.is_floating(kind):
            values = [value for value in numbers if kinds.is_floating(kind) or value == int(value)]
            words = pa.array(values, pa.float64()).cast(kind)
        elif kinds.is_string(kind) or kinds.is_large_string(kind):
            words = pa.array(list(missing), kind)
        else:
            continue
        is_missing = pc.is_in(plain, value_set=words)
        if pc.any(is_missing).as_py():
            table = table.set_column(place, table.column_names[place], pc.if_else(is_missing, None, plain))
    reading = reading_of(table)
    return with_reading(table, replace(reading, format=replace(reading.format, missing=tuple(missing))))


def parse_column(column: pa.ChunkedArray, layout: ColumnFormat, name: str) -> pa.ChunkedArray:
    """Return a text column as numbers or dates; refuse a value that is not written in its layout.

    Examples
    --------
    >>> import pyarrow as pa
    >>> parse_column(pa.chunked_array([["8,5", None, "n/a"]]), ColumnFormat(","), "rate").to_pylist()
    [8.5, None, None]
    """
    import pyarrow as pa

    codes = column.combine_chunks()
    codes = codes if pa.types.is_dictionary(codes.type) else codes.dictionary_encode()
    values: list[object] = []
    for text in codes.dictionary.to_pylist():
        is_missing = text is None or text.strip() in MISSING
        values.append(None if is_missing else layout.read(text))
        if values[-1] is None and not is_missing:
            kind = "numbers" if layout.date is None else "dates"
            raise InvalidInput(
                f"Column {name!r} must hold {kind}, but {text!r:.40} was seen; correct it, or name it as a missing value "
                "(--missing, missing=)."
            )
    type_ = pa.float64() if layout.date is None else pa.timestamp("s") if layout.has_time else pa.date32()
    return pa.chunked_array([pa.array(values, type_).take(codes.indices)])


def first_word(column: pa.ChunkedArray) -> str:
    """Return the first value of a text column that is not a number, and its row, in words; empty if all values are missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> first_word(pa.chunked_array([["0.5", None, "half"]]))
    "'half' in row 2 (counted from 0)"
    """
    import pyarrow.compute as pc

    values = _distinct_texts(column)
    words = [value for value in values if number_of(value, ".") is None and number_of(value, ",") is None]
    value = next(iter([*words, *values]), None)
    return "" if value is None else f"{value!r:.40} in row {pc.index(column, value).as_py()} (counted from 0)"


@dataclass(frozen=True)
class _Evidence:
    """What one table says about the formats of its columns: what was settled before, and what their values say."""

    format: TableFormat
    guesses: Mapping[str, Guess]

    def column(self, name: str) -> ColumnFormat | None:
        """Return the format of a column, if this table leaves no doubt about it."""
        formats = self.guesses[name].formats if name in self.guesses else ()
        return formats[0] if len(formats) == 1 else self.format.columns.get(name)

    def orders(self) -> list[Order | None]:
        """Return whether day or month comes first in the unambiguous dates; those with full stops prove nothing."""
        formats = [guess.formats[0] for guess in self.guesses.values() if len(guess.formats) == 1]
        return [f.order for f in (*formats, *self.format.columns.values()) if f.date is not None and "." not in f.date]


def _guess_columns(table: pa.Table, reading: Reading, keep: Sequence[str]) -> dict[str, Guess]:
    """Return what the values of each text column say."""
    import pyarrow.types as kinds

    guesses = {}
    for field in table.schema:
        is_text = kinds.is_string(field.type) or kinds.is_large_string(field.type) or kinds.is_string_view(field.type)
        is_open = reading.undecided is None or field.name in reading.undecided
        if is_text and is_open and field.name not in keep:
            guesses[field.name] = _guess_column(table.column(field.name), is_file=reading.format.sep is not None)
    return guesses


def _guess_column(column: pa.ChunkedArray, is_file: bool) -> Guess:
    values = _distinct_texts(column.slice(0, _SAMPLE_ROWS))
    guess = guess_format(values)
    if not guess.formats:
        words = [value for value in values if value.strip() in PLACEHOLDERS]
        others = [value for value in values if value.strip() not in PLACEHOLDERS]
        # A column of numbers but for a word such as "?": the user is told about the word.
        return Guess((), words[0]) if is_file and words and guess_format(others).formats else Guess()
    guess = guess_format(_distinct_texts(column))
    if guess.plain and not is_file:  # plain numbers are text in a frame because its owner wants it so
        return Guess()
    return guess


def _distinct_texts(column: pa.ChunkedArray) -> list[str]:
    return [value for value in column.unique().to_pylist() if value is not None and value.strip()]


def _convert_table(table: pa.Table, reading: Reading, own: _Evidence, others: Sequence[_Evidence]) -> pa.Table:
    """Return a table with its text columns converted, by its own evidence or that of other tables."""
    columns, undecided, notes = dict(reading.format.columns), [], list(reading.notes)
    for name, guess in own.guesses.items():
        if not guess.formats:
            if guess.example:
                notes.append(
                    f"Column {name!r} was read as text because of {guess.example!r}; if that means a missing value, use "
                    f"--missing {guess.example!r} (missing=)."
                )
            continue
        layout = _choose_format(name, own, others)
        if layout is None and guess.formats[0].date is None:
            small, large = sorted(number_of(guess.example, f.decimal) or 0.0 for f in guess.formats)
            raise InvalidInput(
                f"Column {name!r} has ambiguous numbers such as {guess.example}, which may mean {small:g} or {large:g}; choose with "
                "--decimal . or --decimal , (decimal=)."
            )
        if layout is None:
            undecided.append(name)
            notes.append(
                f"Column {name!r} was left as text: the day or the month may come first in dates such as {guess.example}; write "
                "them as 2024-12-31."
            )
            continue
        place = table.column_names.index(name)
        table = table.set_column(place, name, parse_column(table.column(place), layout, name))
        columns[name] = layout
        # A number of digits and the file's decimal separator alone needs no note.
        is_ordinary = all(c.isdigit() or c in "+-" or c == reading.format.decimal for c in guess.example)
        if layout.date is not None or not is_ordinary:
            notes.append(f"Column {name!r} {layout.describe(guess.example)}.")
    format_ = replace(reading.format, columns=columns)
    return with_reading(
        table, replace(reading, format=format_, notes=tuple(dict.fromkeys(notes)), undecided=tuple(undecided))
    )


def _choose_format(name: str, own: _Evidence, others: Sequence[_Evidence]) -> ColumnFormat | None:
    """Return the format of a column; None where all the evidence leaves it open."""
    formats = own.guesses[name].formats
    if len(formats) == 1:
        return formats[0]
    elsewhere = [column for column in (other.column(name) for other in others) if column is not None]
    if formats[0].date is not None:
        orders = [
            *own.orders(),
            *(column.order for column in elsewhere),
            *(order for other in others for order in other.orders()),
        ]
        return next((layout for order in orders for layout in formats if layout.order == order), None)
    neighbours = {guess.decimal for guess in own.guesses.values()} - {None}  # what other columns of the table prove
    decimals = [
        own.format.decimal,
        *(column.decimal for column in elsewhere),
        *(other.format.decimal for other in others),
        *(neighbours if len(neighbours) == 1 else ()),
    ]
    return next((layout for decimal in decimals for layout in formats if layout.decimal == decimal), None)

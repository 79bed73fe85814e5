"""Text columns that hold numbers or dates become numbers or dates; the whole column decides and, if it cannot, the other columns and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from observal.errors import InvalidInput
from observal.tables.formats import Format, attached, format_of
from observal.tables.written import PLACEHOLDERS, Guess, Order, Written, as_arrow, guess, number_of

_FIRST = 200  # rows that are looked at before all are


def settle(tables: Sequence[Any], keep: Sequence[str] = ()) -> list[Any]:
    """Return tables in which text that holds only numbers or dates became numbers or dates.

    Parameters
    ----------
    tables : sequence of Arrow tables
        Tables of the same kind of rows.
    keep : sequence of str
        Columns that stay as they are.

    Examples
    --------
    >>> import pyarrow as pa
    >>> log, pool = pa.table({"paid": ["1,200", "0,75"]}), pa.table({"paid": ["2,500"]})
    >>> [table.column("paid").to_pylist() for table in settle([log, pool])]
    [[1.2, 0.75], [2.5]]
    """
    formats = [format_of(table) for table in tables]
    guesses = [_guesses(table, found, keep) for table, found in zip(tables, formats, strict=True)]
    return [_settled(tables[k], k, formats, guesses) for k in range(len(tables))]


def with_missing(table: Any, missing: Sequence[str]) -> Any:
    """Return an Arrow table in which some words, and numbers written like them, are missing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> with_missing(pa.table({"home": ["own", "?"], "age": [30, -1]}), ["?", "-1"]).to_pydict()
    {'home': ['own', None], 'age': [30, None]}
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if not missing:
        return table
    numeric = [value for value in (number_of(word, ".") for word in missing) if value is not None]
    for place, column in enumerate(table.columns):
        kind, plain = column.type, column
        if kinds.is_dictionary(kind):
            plain, kind = column.cast(kind.value_type), kind.value_type
        is_number = kinds.is_integer(kind) or kinds.is_floating(kind)
        if is_number:
            values = [value for value in numeric if kinds.is_floating(kind) or value == int(value)]
            words = pa.array(values, pa.float64()).cast(kind)
        elif kinds.is_string(kind) or kinds.is_large_string(kind):
            words = pa.array(list(missing), kind)
        else:
            continue
        absent = pc.is_in(plain, value_set=words)
        if pc.any(absent).as_py():
            table = table.set_column(place, table.column_names[place], pc.if_else(absent, None, plain))
    return attached(table, replace(format_of(table), missing=tuple(missing)))


def _guesses(table: Any, found: Format, keep: Sequence[str]) -> dict[str, Guess]:
    """Return what the values of each text column say."""
    import pyarrow.types as kinds

    guesses = {}
    for field in table.schema:
        text = kinds.is_string(field.type) or kinds.is_large_string(field.type) or kinds.is_string_view(field.type)
        if text and field.name not in keep and (not found.settled or field.name in found.unsettled):
            guesses[field.name] = _guess(table.column(field.name), is_file=found.sep is not None)
    return guesses


def _guess(column: Any, is_file: bool) -> Guess:
    values = _distinct(column.slice(0, _FIRST))
    told = guess(values)
    if not told.ways and is_file and len(rest := [v for v in values if v.strip() not in PLACEHOLDERS]) < len(values):
        word = next(v for v in values if v.strip() in PLACEHOLDERS)
        return Guess((), word) if guess(rest).ways else Guess()
    if not told.ways:
        return Guess()
    told = guess(_distinct(column))
    return Guess() if told.plain and not is_file else told  # in a frame, somebody decided that it is text


def _distinct(column: Any) -> list[str]:
    values = column.unique().to_pylist()
    return [value for value in values if value is not None and value.strip()]


def _settled(table: Any, k: int, formats: Sequence[Format], guesses: Sequence[dict[str, Guess]]) -> Any:
    """Return table `k` with its text columns settled, by itself or by the others."""
    found, columns, unsettled = formats[k], dict(formats[k].columns), []
    notes = list(found.notes)
    for name, told in guesses[k].items():
        if not told.ways:
            if told.example:
                notes.append(
                    f"Column {name!r} was read as text because of {told.example!r}; if that means a missing value, use "
                    f"--missing {told.example!r} (missing=)."
                )
            continue
        way = _way(name, k, formats, guesses)
        if way is None and told.ways[0].order is None:
            small, large = sorted(number_of(told.example, one.decimal) or 0.0 for one in told.ways)
            raise InvalidInput(
                f"Column {name!r} has numbers such as {told.example}, which may mean {small:g} or {large:g}, and nothing in the table "
                "tells which; say it with --decimal . or --decimal , (decimal=)."
            )
        if way is None:
            unsettled.append(name)
            notes.append(
                f"Column {name!r} was left as text: it cannot be told whether the day or the month comes first in dates such as "
                f"{told.example}; write them as 2024-12-31."
            )
            continue
        place = table.column_names.index(name)
        table = table.set_column(place, name, as_arrow(table.column(place), way, name))
        columns[name] = way
        if way.mark or way.order or not _ordinary(told.example, found):
            notes.append(f"Column {name!r} {way.words(told.example)}.")
    new = replace(found, columns=columns, unsettled=tuple(unsettled), notes=tuple(dict.fromkeys(notes)), settled=True)
    return attached(table, new)


def _ordinary(example: str, found: Format) -> bool:
    """Tell whether a number needs no further word: only digits and the file's decimal separator."""
    return all(c.isdigit() or c in "+-" or c == found.decimal for c in example)


def _way(name: str, k: int, formats: Sequence[Format], guesses: Sequence[dict[str, Guess]]) -> Written | None:
    """Return how a column of table `k` is written; None where it cannot be told."""
    ways = guesses[k][name].ways
    if len(ways) == 1:
        return ways[0]
    others = [j for j in range(len(formats)) if j != k]
    if ways[0].order is not None:
        orders: list[Order | None] = [*_orders(guesses[k], formats[k])]
        for j in others:
            own = _known(name, guesses[j], formats[j])
            orders += [own.order] if own else []
        for j in others:
            orders += _orders(guesses[j], formats[j])
        return next((way for order in orders for way in ways if way.order == order), None)
    known = [_known(name, guesses[j], formats[j]) for j in others]
    beside = {told.decimal for told in guesses[k].values()} - {None}  # what the table's other columns prove
    decimals = [
        formats[k].decimal,
        *(own.decimal for own in known if own),
        *(formats[j].decimal for j in others),
        *(beside if len(beside) == 1 else ()),
    ]
    return next((way for decimal in decimals for way in ways if way.decimal == decimal), None)


def _known(name: str, guesses: dict[str, Guess], found: Format) -> Written | None:
    ways = guesses[name].ways if name in guesses else ()
    return ways[0] if len(ways) == 1 else found.columns.get(name)


def _orders(guesses: dict[str, Guess], found: Format) -> Iterable[Order]:
    """Return whether day or month comes first in the dates of a table that tell."""
    settled = [one.ways[0] for one in guesses.values() if len(one.ways) == 1]
    return [way.order for way in (*settled, *found.columns.values()) if way.order is not None and way.mark != "."]

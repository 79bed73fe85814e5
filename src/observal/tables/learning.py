"""What a :class:`~observal.tables.TableEncoder` learns from tables, column by column, with a sentence for each decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

import numpy as np

from observal.checks import Floats, check_whole
from observal.errors import InvalidInput
from observal.problem.words import day_words
from observal.tables.columns import ColumnRule, Kind, column_kind, kind_words, text_column, to_floats
from observal.tables.formats import Format, format_of
from observal.tables.written import Decimal

_LARGEST_EXACT = 2**53  # whole numbers beyond it lose digits as floats
_ROWS_TO_TELL = 20  # numbers of fewer rows may all differ by chance
_MANY_SINGLES = 10  # a text column with more values than this, most of them seen once, holds names and not categories
_LEAST_COVERED = 0.2  # the share of rows that the most frequent values must cover to be worth columns


def learn_rules(
    tables: Sequence[Any], features: Sequence[str] | None, exclude: Sequence[str], max_categories: int
) -> tuple[list[ColumnRule], list[str]]:
    """Return a rule for each column that can be used, and sentences about what was done.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from observal.tables.learning import learn_rules
    >>> rules, notes = learn_rules([pa.table({"age": [1, 2], "one": [1, 1]})], None, (), 50)
    >>> [rule.source for rule in rules], notes
    (['age'], ["Column 'one' was left out: it has the same value in all 2 rows."])
    """
    if not tables or sum(table.num_rows for table in tables) == 0:
        raise InvalidInput("An encoder needs rows to learn from, but the tables have none; give tables with rows.")
    check_whole(max_categories, "max_categories", 1)
    names, notes = _feature_names(tables, features, exclude)
    formats = [format_of(table) for table in tables]
    rules = []
    for name in names:
        columns = [table.column(name) for table in tables]
        kind = _common_kind(columns, name)
        if kind == "other" and features is not None:
            raise InvalidInput(
                f"Feature column {name!r} has type {columns[0].type}, which cannot be used; leave it out of the features, "
                "or turn it into numbers or text first."
            )
        rule, sentences = _learn_column(name, kind, columns, max_categories, named=features is not None)
        rules += [_as_written(rule, formats)] if rule is not None else []
        notes += sentences
    if not rules:
        example = f" (for example, {notes[0][0].lower()}{notes[0][1:].rstrip('.')})" if notes else ""
        raise InvalidInput(f"No feature column of {len(names)} can be used{example}; give other columns.")
    return rules, notes


def _as_written(rule: ColumnRule, formats: Sequence[Format]) -> ColumnRule:
    """Return a rule that also knows how the column is written, for tables in which it is still text."""
    ways = [found.columns[rule.source] for found in formats if rule.source in found.columns]
    own: list[Decimal | None] = [way.decimal for way in ways if way.order is None]
    orders = [way.order for way in ways if way.order is not None]
    decimal: Decimal = "," if "," in (own or [found.decimal for found in formats]) else "."
    return replace(rule, decimal=decimal, order=orders[0] if orders else "dmy")


def _feature_names(
    tables: Sequence[Any], features: Sequence[str] | None, exclude: Sequence[str]
) -> tuple[list[str], list[str]]:
    everywhere = set.intersection(*(set(table.column_names) for table in tables))
    if features is None:
        candidates = list(dict.fromkeys(name for table in tables for name in table.column_names if name not in exclude))
        return (
            [name for name in candidates if name in everywhere],
            [f"Column {n!r} was left out: not every table has it." for n in candidates if n not in everywhere],
        )
    for name in features:
        if name not in everywhere:
            lacking = next(table for table in tables if name not in table.column_names)
            raise InvalidInput(
                f"Every table must have the feature column {name!r}, but one has the columns {lacking.column_names}; "
                "name columns that all have."
            )
        if name in exclude:
            raise InvalidInput(
                f"Column {name!r} cannot be a feature, because it already is the label, propensity, id or cost; "
                "leave it out of the features."
            )
    return list(dict.fromkeys(features)), []


def _common_kind(columns: Sequence[Any], name: str) -> Kind:
    kinds = sorted({column_kind(column.type) for column in columns} - {"nothing"})
    if len(kinds) > 1:
        raise InvalidInput(
            f"Column {name!r} must hold the same kind of values in every table, but holds {kind_words(kinds[0])} in one and "
            f"{kind_words(kinds[1])} in another; make them the same."
        )
    return kinds[0] if kinds else "nothing"


def _learn_column(
    name: str, kind: Kind, columns: Sequence[Any], max_categories: int, named: bool
) -> tuple[ColumnRule | None, list[str]]:
    if kind == "other":
        type_ = next(column.type for column in columns if column_kind(column.type) == "other")
        return None, [f"Column {name!r} was left out: its type {type_} is neither numbers, dates nor text."]
    if kind == "nothing":
        return None, [f"Column {name!r} was left out: all its values are missing."]
    if kind == "category":
        return _learn_categories(name, columns, max_categories, named)
    return _learn_numbers(name, kind, columns)


def _learn_numbers(name: str, kind: Kind, columns: Sequence[Any]) -> tuple[ColumnRule | None, list[str]]:
    values = _floats_of(columns)
    is_finite = np.isfinite(values)
    finite = values if is_finite.all() else values[is_finite]  # no copy of a long column without missing values
    n_rows, n_missing = values.size, values.size - finite.size
    notes = _oddities(name, kind, columns, values)
    if finite.size == 0:
        return None, [f"Column {name!r} was left out: all its values are missing or infinite."]
    middle = (finite.size - 1) // 2  # the lower of two: a value that occurs, and their sum cannot overflow
    finite.partition(middle)  # in place: nobody needs the order any more
    fill = float(finite[middle])
    middle_value = day_words(fill) if kind == "date" else f"{fill:g}"
    constant = bool(finite.min() == finite.max())
    if constant and n_missing == 0:
        return None, [f"Column {name!r} was left out: it has the same value in all {n_rows} rows."]
    if constant:
        notes.append(
            f"Column {name!r} has one value where it has any, so only '{name} is missing' is used ({n_missing} of {n_rows})."
        )
    elif n_missing:
        notes.append(
            f"Column {name!r} was missing in {n_missing} of {n_rows} rows: the median {middle_value} is used there, and "
            f"'{name} is missing' says where."
        )
    return ColumnRule(name, kind, fill, (), indicator=n_missing > 0, value=not constant), notes


def _floats_of(columns: Sequence[Any]) -> Floats:
    """Return the values of several columns, one after the other; chunk by chunk, because of a long column no copy should be made."""
    import pyarrow as pa

    out, end = np.empty(sum(len(column) for column in columns)), 0
    for chunk in (chunk for column in columns for chunk in column.chunks):
        begin, end = end, end + len(chunk)
        out[begin:end] = to_floats(pa.chunked_array([chunk]))
    return out


def _oddities(name: str, kind: Kind, columns: Sequence[Any], values: Floats) -> list[str]:
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
            f"Column {name!r} is used as a feature, though no two rows have the same number in it; if it names the rows, say "
            "that it is the id."
        )
    return notes


def _all_differ(values: Floats) -> bool:
    """Tell whether no value occurs twice; a look at the first thousand spares sorting most columns."""
    some = values[:1000]
    return values.size >= _ROWS_TO_TELL and np.unique(some).size == some.size and np.unique(values).size == values.size


def _learn_categories(
    name: str, columns: Sequence[Any], max_categories: int, named: bool
) -> tuple[ColumnRule | None, list[str]]:
    counts, n_missing, n_rows = _count_values(columns)
    n_present = n_rows - n_missing
    if not counts:
        return None, [f"Column {name!r} was left out: all its values are missing."]
    if len(counts) == 1 and n_missing == 0:
        return None, [f"Column {name!r} was left out: it has the same value in all {n_rows} rows."]
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    kept = tuple(ordered[:max_categories])
    covered = sum(counts[value] for value in kept)
    names_or_text = len(counts) > max(_MANY_SINGLES, n_present / 2) or covered < _LEAST_COVERED * n_present
    if names_or_text and not named:
        return None, [
            f"Column {name!r} was left out: its text has {len(counts)} different values in {n_present} rows, as names or "
            "free text have; name it as a feature to use its most frequent values."
        ]
    missing_note = (
        f"; {n_missing} of {n_rows} rows were missing, and '{name} is missing' says where" if n_missing else ""
    )
    if len(counts) == 1:
        return ColumnRule(name, "category", 0.0, (), indicator=True, value=False), [
            f"Column {name!r} has one value where it has any, so only '{name} is missing' is used ({n_missing} of {n_rows})."
        ]
    which = "one for each value" if len(kept) == len(counts) else f"for the most frequent of its {len(counts)} values"
    names = (
        "" if len(kept) == len(counts) else f"; if it names people or things, leave it out with --exclude {quote(name)}"
    )
    return ColumnRule(name, "category", 0.0, kept, indicator=n_missing > 0), [
        f"Column {name!r} became {len(kept)} columns, {which}; any other value is 0 in all of them{missing_note}{names}."
    ]


def _count_values(columns: Sequence[Any]) -> tuple[dict[str, int], int, int]:
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

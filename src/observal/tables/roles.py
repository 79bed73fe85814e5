"""Which column plays which role, and columns that are not features: labels, ids, propensities, costs, groups and prices."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints, number_groups
from observal.errors import InvalidInput, InvalidLabel
from observal.problem.labels import Label, as_label, missing_mask, plain_label
from observal.tables.columns import column_kind, text_column, to_floats
from observal.tables.spreadsheets import COMPUTE
from observal.tables.table_format import reading_of
from observal.tables.text_columns import first_word

if TYPE_CHECKING:
    import pyarrow as pa

_INT64 = 2**63


@dataclass(frozen=True)
class TableRoles:
    """Which column plays which role.

    Parameters
    ----------
    label : str
        The label, missing where it was not revealed.
    propensity : str, optional
        The chance that the row's label was revealed.
    id : str, optional
        Distinct names of the rows; positions by default.
    cost : str, optional
        What a mistake on the row costs, in [0, 1].
    features : tuple of str, optional
        The features; by default all other columns that every table has.
    exclude : tuple of str
        Columns that are not to be used.
    group : str, optional
        What related rows share, such as a customer; a row whose group is missing stands alone.
    known_before : tuple of str
        Columns that are known before the label is, so that no warning says that they give it away.
    price : str, optional
        What the label of a pool row costs; the log need not have the column.

    Examples
    --------
    >>> from observal.tables import TableRoles
    >>> TableRoles(label="defaulted", propensity="q0", id="loan").named
    ('defaulted', 'q0', 'loan')
    """

    label: str
    propensity: str | None = None
    id: str | None = None
    cost: str | None = None
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    group: str | None = None
    known_before: tuple[str, ...] = ()
    price: str | None = None

    def within(self, columns: Collection[str]) -> TableRoles:
        """Return the roles with lists such as A,B,C taken apart, unless a column has that name; refuse names that no column has.

        Features are checked where they are read, table by table.

        Examples
        --------
        >>> TableRoles("y", exclude=("a,b", "c,d")).within(["a,b", "c", "d", "y"]).exclude
        ('a,b', 'c', 'd')
        """
        features = None if self.features is None else split_names(self.features, columns)
        exclude, known_before = split_names(self.exclude, columns), split_names(self.known_before, columns)
        for names, purpose in ((exclude, "to exclude"), (known_before, "that could be known before the label")):
            unknown = next((name for name in names if name not in columns), None)
            if unknown is not None:
                raise InvalidInput(
                    f"There is no column {unknown!r} {purpose}, the columns are {sorted(columns)}; choose from these."
                )
        return replace(self, features=features, exclude=exclude, known_before=known_before)

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that are not features."""
        roles = (self.label, self.propensity, self.id, self.cost, self.group, self.price, *self.exclude)
        return tuple(name for name in roles if name is not None)


def split_names(texts: Sequence[str], columns: Collection[str]) -> tuple[str, ...]:
    """Return names of columns from lists such as A,B,C; a text that is itself a column's name, even an empty one, is one name.

    Examples
    --------
    >>> split_names(["", "a, b,"], ["", "a", "b"])
    ('', 'a', 'b')
    """
    parts = [[text] if text in columns else [p.strip() for p in text.split(",") if p.strip()] for text in texts]
    return tuple(part for names in parts for part in names)


def column_of(table: pa.Table, name: str, role: str, what: str) -> pa.ChunkedArray:
    """Return a column of an Arrow table, which must be there and have its values; `what` is the table in a message."""
    if name not in table.column_names:
        raise InvalidInput(
            f"{what} has no column {name!r} for the {role}, its columns are {table.column_names}; choose one of these."
        )
    cell = reading_of(table).uncomputed.get(name)
    if cell is not None:
        raise InvalidInput(
            f"{what} has a formula without a stored value in cell {cell} of the {role} column {name!r}; {COMPUTE}."
        )
    return table.column(name)


def read_numbers(table: pa.Table, name: str, role: str, what: str) -> Floats:
    """Return a column that must have a finite number in every row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from observal.tables import read_numbers
    >>> read_numbers(pa.table({"q0": [0.5, 1]}), "q0", "propensity", "The log").tolist()
    [0.5, 1.0]
    """
    column = column_of(table, name, role, what)
    if column_kind(column.type) not in ("number", "nothing"):
        seen = first_word(text_column(column)) if column_kind(column.type) == "category" else f"type {column.type}"
        raise InvalidInput(f"{what} needs numbers in the {role} column {name!r}, but it has {seen}; correct it.")
    values = to_floats(column)
    bad = ~np.isfinite(values)
    if bad.any():
        raise InvalidInput(
            f"{what} needs a number in every row of the {role} column {name!r}, but {int(bad.sum())} are missing or "
            f"infinite, the first in row {int(np.argmax(bad))} (counted from 0); fill them in."
        )
    return values


def read_groups(table: pa.Table, name: str, what: str) -> Ints:
    """Return the number of each row's group.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from observal.tables.roles import read_groups
    >>> read_groups(pa.table({"customer": [7, 8, 7]}), "customer", "The log").tolist()
    [7, 8, 7]
    """
    column = column_of(table, name, "group", what)
    if column_kind(column.type) == "other":
        raise InvalidInput(
            f"{what} needs numbers, text or dates in the group column {name!r}, but it has type {column.type}; choose another column."
        )
    return number_groups(np.fromiter(column.to_pylist(), dtype=object, count=len(column)), what)


def read_labels(
    values: pa.ChunkedArray | pa.Array | ArrayLike, classes: Sequence[Label] | None = None
) -> tuple[NDArray[Any], Bools]:
    """Return labels as Python values, None where missing, and where they are missing.

    Whole floats become integers, because a column of 0 and 1 with missing values is often stored as 0.0 and 1.0. Spaces around text
    do not count, so text of nothing but spaces is missing.

    Parameters
    ----------
    values : Arrow column or sequence
        Booleans, numbers or text.
    classes : sequence, optional
        The label values. A label that means one of them becomes that one: the text ``"1"`` becomes the class 1.

    Examples
    --------
    >>> from observal.tables import read_labels
    >>> labels, missing = read_labels([0.0, None, 1.0])
    >>> labels.tolist(), missing.tolist()
    ([0, None, 1], [False, True, False])
    >>> read_labels(["yes", "no"], classes=("no", "yes"))[0].tolist()
    ['yes', 'no']
    """
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray | pa.Array):
        column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if column_kind(column.type) == "other":
            raise InvalidLabel(f"Labels must be numbers, text or booleans, but the column has type {column.type}.")
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        distinct = [plain_label(value) for value in column.dictionary.to_pylist()]
        positions = np.asarray(column.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False), dtype=np.int64)
    else:
        listed = [plain_label(value) for value in np.asarray(values, dtype=object).ravel().tolist()]
        places: dict[tuple[type, Label], int] = {}
        try:
            positions = np.array([places.setdefault((type(v), v), len(places)) for v in listed], dtype=np.int64)
        except TypeError:
            raise InvalidLabel(
                "Labels must be numbers, text or booleans, but some are lists or other objects."
            ) from None
        distinct = [value for _, value in places]
    lookup = np.empty(len(distinct) + 1, dtype=object)
    lookup[:-1] = [as_label(value, classes) for value in distinct]
    labels = lookup[positions]
    return labels, missing_mask(labels, () if classes is None else classes)


def read_ids(
    tables: Sequence[pa.Table], name: str, whats: Sequence[str], may_repeat: bool = False
) -> list[NDArray[Any]]:
    """Return the ids of each table: all integers, or all text, and none of them twice.

    Parameters
    ----------
    tables : sequence of Arrow tables
        The logs and the pool.
    name : str
        The column of ids.
    whats : sequence of str
        What each table is called in messages.
    may_repeat : bool
        Whether the last table, the pool, may have ids of the others: of the same rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from observal.tables import read_ids
    >>> read_ids([pa.table({"id": [1, 2]}), pa.table({"id": ["a7"]})], "id", ["The log", "The pool"])
    [array(['1', '2'], dtype=object), array(['a7'], dtype=object)]
    """
    columns = [_id_values(column_of(t, name, "id", what), name, what) for t, what in zip(tables, whats, strict=True)]
    if any(ids.dtype == object for ids in columns):
        columns = [np.array([str(value) for value in ids.tolist()], dtype=object) for ids in columns]
    place_of: dict[int | str, int] = {}
    for place, ids in enumerate(columns[:-1] if may_repeat else columns):
        for value in ids.tolist():
            first = place_of.setdefault(value, place)
            if first != place:
                raise InvalidInput(
                    f"Every row needs a unique id, but {value!r} is in {_lower(whats[first])} and in "
                    f"{_lower(whats[place])}; leave the row out of one of them."
                )
    return columns


def _id_values(column: pa.ChunkedArray, name: str, what: str) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        row = int(np.argmax(pc.is_null(column).to_numpy()))
        raise InvalidInput(
            f"{what} needs an id in every row, but row {row} (counted from 0) has none; fill in {name!r}."
        )
    ids: NDArray[Any]
    if pa.types.is_signed_integer(column.type):
        ids = column.to_numpy().astype(np.int64)
    elif column_kind(column.type) == "category":
        ids = np.array(text_column(column).to_pylist(), dtype=object)
    else:
        ids = np.array([_id_value(v, row, name, what) for row, v in enumerate(column.to_pylist())], dtype=object)
        if all(type(value) is int and -_INT64 <= value < _INT64 for value in ids.tolist()):
            ids = ids.astype(np.int64)
    values = ids.tolist()
    if len(set(values)) < len(values):
        repeated = Counter(values).most_common(1)[0][0]
        raise InvalidInput(
            f"{what} must have distinct ids, but {repeated!r} occurs more than once; drop or rename the duplicates."
        )
    return ids


def _id_value(value: object, row: int, name: str, what: str) -> int | str:
    value = plain_label(value)
    if value is None:
        raise InvalidInput(
            f"{what} needs an id in every row, but row {row} (counted from 0) has none; fill in {name!r}."
        )
    if isinstance(value, bool | float | Decimal | list | dict | bytes):
        raise InvalidInput(
            f"{what} needs whole numbers or text as ids, but row {row} (counted from 0) has {value!r:.40}; choose another column."
        )
    return int(value) if isinstance(value, numbers.Integral) else str(value)


def _lower(what: str) -> str:
    return what[0].lower() + what[1:]

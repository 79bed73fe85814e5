"""A log and a pool that stay in Parquet: what is learned of them is the same as from whole tables, a column at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from observal.checks import Ints, check_propensity, frozen, keep
from observal.errors import InvalidInput, one_line
from observal.parquet import Executor, ExecutorLike, Parts, Source, executor_of
from observal.parquet.row_groups import PARQUET, find_files, name_of
from observal.parquet.vectors import LazyIds, pieces, read_coded_labels, read_floats, read_groups
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import CodedLabels, Label
from observal.tables.classes import Positive, settle_classes
from observal.tables.encoder import TableEncoder, learn_rules
from observal.tables.load import (
    LoadedProblem,
    Propensity,
    describe_row_numbers,
    find_doubts,
    raise_to_floor,
)
from observal.tables.read import SUFFIXES, is_several_files
from observal.tables.roles import TableRoles
from observal.tables.table_format import TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

WHATS = ("The log", "The pool")
_NOT_PARQUET = tuple(suffix for suffix in SUFFIXES if suffix not in PARQUET)
LARGE = 1 << 30
"""Bytes of Parquet above which a campaign leaves its tables where they are by default."""


class ColumnTable:
    """Parquet as a table of which one column at a time is read.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from observal.parquet import Parts
    >>> path = tempfile.mkdtemp() + "/rows.parquet"
    >>> pq.write_table(pa.table({"age": [1, 2, 3]}), path, row_group_size=2)
    >>> table = ColumnTable(Parts.of(path))
    >>> table.num_rows, table.column("age").to_pylist()
    (3, [1, 2, 3])
    """

    def __init__(self, rows: Parts) -> None:
        self._rows = rows

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def column_names(self) -> list[str]:
        """The columns that every file has."""
        return list(self._rows.names)

    def column(self, name: str, /) -> pa.ChunkedArray:
        """Return a column of all rows."""
        import pyarrow as pa

        tables = (table for k in range(len(self._rows.parts)) for table in self._rows.tables(k, [name]))
        try:
            return pa.concat_tables(tables, promote_options="permissive").column(0)
        except pa.ArrowException as error:
            raise InvalidInput(
                f"Column {name!r} cannot be combined across row groups ({one_line(error)}); make its type the same everywhere."
            ) from None


def can_stay(logs: Sequence[TableSource], propensity: Propensity, options: TableFormat) -> bool:
    """Tell whether tables can stay in place: one log, a column of propensities, and no options for how they are written."""
    return len(logs) == 1 and isinstance(propensity, str) and options == TableFormat()


def is_parquet(source: TableSource | Sequence[TableSource]) -> bool:
    """Tell whether a table can be Parquet: a path, pattern or URL, or several, none of which names another kind of file.

    Examples
    --------
    >>> is_parquet("log/"), is_parquet("log.csv")
    (True, False)
    """
    if isinstance(source, list | tuple):
        return all(is_parquet(path) for path in source)
    return isinstance(source, str | os.PathLike) and not str(os.fspath(source)).lower().endswith(_NOT_PARQUET)


def is_large(sources: Sequence[TableSource]) -> bool:
    """Tell whether tables are Parquet files, folders or patterns on this machine, together large enough to stay where they are."""
    given = [Path(source) for source in sources if isinstance(source, str | os.PathLike)]
    if len(given) < len(sources):
        return False
    paths = [path for source in given for path in (find_files(source) if is_several_files(source) else [str(source)])]
    if not all(os.path.isfile(path) and path.lower().endswith(PARQUET) for path in paths):
        return False
    return sum(os.path.getsize(path) for path in paths) >= LARGE


def load_in_place(
    logged: Source,
    pool: Source,
    roles: TableRoles,
    *,
    propensity: Propensity,
    classes: Sequence[Label] | None = None,
    positive: Positive = None,
    propensity_floor: float | None = None,
    max_categories: int = 50,
    executor: ExecutorLike = None,
) -> LoadedProblem:
    """Make a log and a pool over Parquet; features and ids stay in the files, each part with a checksum.

    The arguments are those of ``observal.tables.load_problem``, but propensities must be in a column; `executor` reads and computes, see
    ``observal.parquet.executor_of``.
    """
    column = _check_sources(logged, pool, propensity)
    rows = _open_parts(logged, pool, roles, column, executor_of(executor))
    tables = [ColumnTable(parts) for parts in rows]
    roles = roles.within({name for table in tables for name in table.column_names})
    labels, notes = _read_label_column(rows[0], roles.label, classes, positive)
    rules, encoder_notes = learn_rules(tables, roles.features, (*roles.named, column), max_categories)
    encoder = TableEncoder(tuple(rules), tuple(encoder_notes))
    q_log, q_pool = (
        check_propensity(read_floats(parts, column, "propensity", what), len(parts), what)
        for parts, what in zip(rows, WHATS, strict=True)
    )
    q_log, q_pool, warnings = raise_to_floor(q_log, q_pool, propensity_floor)
    cost_log, cost_pool = (
        None if roles.cost is None else read_floats(parts, roles.cost, "cost", what)
        for parts, what in zip(rows, WHATS, strict=True)
    )
    group_log, group_pool = (
        None if roles.group is None else read_groups(parts, roles.group, what)
        for parts, what in zip(rows, WHATS, strict=True)
    )
    X_log, X_pool = (encode_in_place(parts, encoder) for parts in rows)
    ids = LazyIds(X_log, roles.id, len(X_pool) if roles.id is None else 0), LazyIds(X_pool, roles.id)
    _check_ids(*ids)
    log = LoggedData(X_log, labels, q_log, ids[0], None, cost_log, encoder.groups, group_log)
    keep(log, is_positive_named=classes is not None or not (positive is None or callable(positive)))
    notes = [
        *notes,
        *encoder_notes,
        *([describe_row_numbers(len(X_pool))] if roles.id is None else []),
        *warnings,
        *find_doubts(log, tables[1], roles.label),
        f"The tables stay where they are ({len(X_log.parts)} and {len(X_pool.parts)} row groups): keep the files, the campaign reads "
        "them and notices if they change.",
    ]
    prices = None if roles.price is None else read_floats(rows[1], roles.price, "price", WHATS[1])
    rest = Pool(X_pool, q_pool, ids[1], cost_pool, encoder.groups, group_pool, prices)
    return LoadedProblem(log, rest, encoder, tuple(notes))


def encode_in_place(rows: Parts, encoder: TableEncoder) -> Parts:
    """Return rows whose features are encoded columns; these are finite, whatever is in the columns."""
    return replace(
        rows,
        columns=tuple(rule.source for rule in encoder.rules),
        width=len(encoder.names),
        dtype=np.dtype(np.float64),
        decode=encoder.encode,
        is_finite=True,
        _cache={},
    )


def _check_sources(logged: Source, pool: Source, propensity: Propensity) -> str:
    """Refuse tables that cannot stay in place; return the column of propensities."""
    for source in (logged, pool):
        if not is_parquet(source):
            name = repr(os.fspath(source)) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
            raise InvalidInput(
                f"Tables that stay in place must be Parquet, but {name} is not; write it as Parquet, or leave out in_place (--in-place)."
            )
    if not isinstance(propensity, str):
        raise InvalidInput(
            f"Tables that stay in place need a column with propensities, but {propensity!r} was given; name one (propensity=)."
        )
    return propensity


def _open_parts(
    logged: Source, pool: Source, roles: TableRoles, propensity: str, executor: Executor
) -> tuple[Parts, Parts]:
    """Return log and pool with checksums and without features; they have the columns that play a role."""
    of_both = (propensity, roles.id, roles.cost, roles.group)
    parts = [Parts.of(_absolute(source), [], executor=executor) for source in (logged, pool)]
    for rows, names, what in zip(parts, ((roles.label, *of_both), (*of_both, roles.price)), WHATS, strict=True):
        rows.require_columns(what, names)
        rows.require_columns(what, rows.names)  # people see rows from several files together
    return parts[0].with_checksums(), parts[1].with_checksums()


def _read_label_column(
    rows: Parts, label: str, classes: Sequence[Label] | None, positive: Positive
) -> tuple[CodedLabels, list[str]]:
    """Return the labels of the log with the positive class last, and a note if it had to be guessed."""
    labels = read_coded_labels(rows, label, classes)
    values = labels.classes.tolist()
    counts = np.bincount(labels.codes[labels.revealed], minlength=len(values))
    seen = dict(zip(values, counts.tolist(), strict=True))
    ordered, usual, notes = settle_classes(seen, label, None if classes is None else values, positive)
    new_codes = np.array([*(list(ordered).index(usual.get(value, value)) for value in values), -1], dtype=np.int8)
    classes_in_order = labels.classes[[values.index(value) for value in ordered]]
    return CodedLabels(frozen(new_codes[labels.codes]), classes_in_order), notes


def _check_ids(log: LazyIds, pool: LazyIds) -> None:
    """Refuse ids that two rows of log and pool have; what is compared is not kept."""
    if _share_any(log.require_distinct("The log"), pool.require_distinct("The pool")):
        raise InvalidInput(
            f"Every row needs a unique id, but some in column {pool.column!r} are both in the log and in the pool; leave these rows out of "
            "one of them."
        )


def _share_any(a: Ints, b: Ints) -> bool:
    """Tell whether two sorted vectors have a value in common."""
    return any(
        bool((b[np.minimum(np.searchsorted(b, part), b.size - 1)] == part).any())
        for part in (a[piece] for piece in pieces(a.size))
    )


def _absolute(source: Source) -> str | list[str]:
    """Return absolute paths, because a campaign may be opened from another folder; a URL stays as it is."""
    if isinstance(source, str | os.PathLike):
        name = name_of(source)
        return name if "://" in name else os.path.abspath(name)
    return [path for entry in source for path in [_absolute(entry)] if isinstance(path, str)]

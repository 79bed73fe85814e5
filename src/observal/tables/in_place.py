"""A log and a pool that stay in Parquet: what is learned of them is the same as from whole tables, a column at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from observal import propensity as chances
from observal.checks import Ints, check_propensity, frozen
from observal.data import LoggedData, Pool
from observal.errors import InvalidInput
from observal.parts import Parts
from observal.parts.files import PARQUET, schema_of
from observal.parts.vectors import CodedLabels, LazyIds, pieces, read_coded_labels, read_floats
from observal.tables.encoding import TableEncoder
from observal.tables.learning import learn_rules
from observal.tables.positive import Positive, positive_last
from observal.tables.problem import LoadedProblem, TableRoles

LARGE = 1 << 30
"""Bytes of Parquet from which on a campaign leaves its tables where they are, unless somebody says otherwise."""


class ColumnTable:
    """Parquet as a table of which one column at a time is read.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from observal.parts import Parts
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

    @cached_property
    def column_names(self) -> list[str]:
        """The columns that every file has."""
        paths = {part.path: part for part in self._rows.parts}
        found = [list(schema_of(part).names) for part in paths.values()]
        return [name for name in found[0] if all(name in names for names in found)]

    def column(self, name: str) -> Any:
        """Return a column of all rows."""
        import pyarrow as pa

        tables = (table for k in range(len(self._rows.parts)) for table in self._rows.tables(k, [name]))
        return pa.concat_tables(tables, promote_options="permissive").column(0)


def is_large(sources: Sequence[Any]) -> bool:
    """Tell whether tables are Parquet files or folders on this machine, and large enough to stay where they are.

    Examples
    --------
    >>> is_large(["log.csv"])
    False
    """
    if not all(isinstance(one, str | os.PathLike) and os.path.isfile(one) for one in sources):
        return False
    if not all(os.fspath(one).lower().endswith(PARQUET) for one in sources):
        return False
    return sum(os.path.getsize(one) for one in sources) >= LARGE


def load_in_place(
    logged: Any,
    pool: Any,
    roles: TableRoles,
    *,
    propensity: Any,
    classes: Sequence[Any] | None = None,
    positive: Positive = None,
    propensity_floor: float | None = None,
    max_categories: int = 50,
    executor: Any = None,
) -> LoadedProblem:
    """Make a log and a pool over Parquet; features and ids stay in the files, each part with a checksum.

    Parameters
    ----------
    logged, pool : path, glob, URL or list of them
        Parquet.
    roles : TableRoles
        Which column plays which role.
    propensity : str
        The column with the chance that a row's label was revealed.
    classes, positive, propensity_floor, max_categories
        As for :func:`observal.tables.load_problem`.
    executor : optional
        Who reads and computes: see :func:`observal.parts.executor_of`.
    """
    if not isinstance(propensity, str) or propensity == "estimate":
        raise InvalidInput(
            f"Tables that stay in place need a column with propensities, but {propensity!r} was given; write estimated propensities "
            "into a column first."
        )
    sources = [Parts.of(_absolute(source), [], executor=executor).with_checksums() for source in (logged, pool)]
    tables = [ColumnTable(rows) for rows in sources]
    for name, what, table in (
        (roles.label, "The log", tables[0]),
        *(
            (name, what, table)
            for name in (propensity, roles.id, roles.cost)
            for what, table in zip(("The log", "The pool"), tables, strict=True)
        ),
    ):
        if name is not None and name not in table.column_names:
            raise InvalidInput(
                f"{what} has no column {name!r}, its columns are {table.column_names}; name an existing one."
            )
    rules, notes = learn_rules(tables, roles.features, (*roles.named, propensity), max_categories)
    encoder = TableEncoder(tuple(rules), tuple(notes))
    rows_log, rows_pool = (encoded(rows, encoder) for rows in sources)
    labels = read_coded_labels(rows_log, roles.label, classes)
    said: list[str] = []
    if classes is None or not (positive is None or callable(positive)):
        labels, said = _positive_last(labels, positive)
    q_log, q_pool = (
        check_propensity(read_floats(rows, propensity, "propensity", what), len(rows), what)
        for rows, what in ((rows_log, "The log"), (rows_pool, "The pool"))
    )
    if propensity_floor is not None:
        floored = [
            chances.apply_floor(q, propensity_floor, what) for q, what in ((q_log, "The log"), (q_pool, "The pool"))
        ]
        q_log, q_pool = floored[0].propensity, floored[1].propensity
        said += [one.warning for one in floored if one.warning is not None]
    ids = LazyIds(rows_log, roles.id, len(rows_pool) if roles.id is None else 0), LazyIds(rows_pool, roles.id)
    _require_own_ids(*ids)
    costs = [
        None if roles.cost is None else read_floats(rows, roles.cost, "cost", what)
        for rows, what in ((rows_log, "The log"), (rows_pool, "The pool"))
    ]
    made = LoggedData(rows_log, labels, q_log, ids[0], None, costs[0], encoder.groups)
    stays = (
        f"The tables stay where they are ({len(rows_log.parts)} and {len(rows_pool.parts)} row groups): keep the files, the campaign reads "
        "them and notices if they change."
    )
    return LoadedProblem(
        made, Pool(rows_pool, q_pool, ids[1], costs[1], encoder.groups), encoder, (*notes, *said, stays)
    )


def encoded(rows: Parts, encoder: TableEncoder) -> Parts:
    """Return rows whose features are encoded columns; these are finite, whatever is in the columns."""
    columns = tuple(rule.source for rule in encoder.rules)
    return replace(
        rows,
        columns=columns,
        width=len(encoder.names),
        dtype=np.dtype(np.float64),
        decode=encoder.encode,
        is_finite=True,
        _kept={},
    )


def _positive_last(labels: CodedLabels, positive: Positive) -> tuple[CodedLabels, list[str]]:
    """Return labels with the code of the positive class last, and a note if it had to be guessed."""
    known = labels.classes.tolist()
    counts = np.bincount(labels.codes[labels.revealed], minlength=len(known))
    classes, said = positive_last(known, dict(zip(known, counts.tolist(), strict=True)), positive)
    moved = np.array([*(list(classes).index(value) for value in known), -1], dtype=np.int8)
    listed = labels.classes[[known.index(value) for value in classes]]
    return CodedLabels(frozen(moved[labels.codes]), listed), said


def _require_own_ids(log: LazyIds, pool: LazyIds) -> None:
    """Refuse ids that two rows of log and pool have; what is compared is not kept."""
    if _share_any(log.require_distinct("The log"), pool.require_distinct("The pool")):
        raise InvalidInput(
            f"Every row needs an id of its own, but some of column {pool.column!r} are in the log and in the pool; leave these rows out of "
            "one of them."
        )


def _share_any(a: Ints, b: Ints) -> bool:
    """Tell whether two sorted vectors have a value in common."""
    return any(
        bool((b[np.minimum(np.searchsorted(b, part), b.size - 1)] == part).any())
        for part in (a[piece] for piece in pieces(a.size))
    )


def _absolute(source: Any) -> Any:
    if isinstance(source, list | tuple):
        return [_absolute(one) for one in source]
    return source if "://" in os.fspath(source) else os.path.abspath(source)

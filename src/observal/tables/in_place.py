"""A log and a pool that stay in Parquet: what is learned of them is the same as from whole tables, a column at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from observal.checks import Ints, check_propensity, frozen
from observal.errors import InvalidInput
from observal.parquet import Executor, Parts, executor_of
from observal.parquet.files import PARQUET, name_of
from observal.parquet.vectors import CodedLabels, LazyIds, pieces, read_coded_labels, read_floats
from observal.problem.data import LoggedData, Pool
from observal.tables.common import check_classes, check_excluded, doubts, floored, numbered
from observal.tables.encoding import TableEncoder
from observal.tables.formats import Format
from observal.tables.learning import learn_rules
from observal.tables.positive import Positive, positive_last
from observal.tables.problem import ESTIMATE, LoadedProblem, TableRoles
from observal.tables.reading import SUFFIXES
from observal.tables.roles import as_label

WHATS = ("The log", "The pool")
_NOT_PARQUET = tuple(suffix for suffix in SUFFIXES if suffix not in PARQUET)
LARGE = 1 << 30
"""Bytes of Parquet from which on a campaign leaves its tables where they are by default."""


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

    def column(self, name: str) -> Any:
        """Return a column of all rows."""
        import pyarrow as pa

        tables = (table for k in range(len(self._rows.parts)) for table in self._rows.tables(k, [name]))
        try:
            return pa.concat_tables(tables, promote_options="permissive").column(0)
        except pa.ArrowException as error:
            said = " ".join(str(error).split())[:120].rstrip(".")
            raise InvalidInput(
                f"Column {name!r} cannot be put together from the row groups ({said}); make its type the same everywhere."
            ) from None


def can_stay(logs: Sequence[Any], propensity: Any, given: Format) -> bool:
    """Tell whether tables can stay in place: one log, a column of propensities, and nothing is said of how they are written.

    Examples
    --------
    >>> can_stay(["log.parquet"], "q0", Format()), can_stay(["log.parquet"], 0.4, Format())
    (True, False)
    """
    return len(logs) == 1 and isinstance(propensity, str) and propensity != ESTIMATE and given == Format()


def is_parquet(source: Any) -> bool:
    """Tell whether a table can be Parquet: a path, pattern or URL, or several, none of which names another kind of file.

    Examples
    --------
    >>> is_parquet("log/"), is_parquet("log.csv")
    (True, False)
    """
    if isinstance(source, list | tuple):
        return all(is_parquet(one) for one in source)
    return isinstance(source, str | os.PathLike) and not str(os.fspath(source)).lower().endswith(_NOT_PARQUET)


def is_large(sources: Sequence[Any]) -> bool:
    """Tell whether tables are Parquet files on this machine, together large enough to stay where they are.

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
        What reads and computes: see :func:`observal.parquet.executor_of`.
    """
    _require_stays(logged, pool, propensity)
    rows = _found(logged, pool, roles, propensity, executor_of(executor))
    tables = [ColumnTable(one) for one in rows]
    check_excluded(tables, roles.exclude)
    labels, guessed = _labels(rows[0], roles.label, classes, positive)
    rules, notes = learn_rules(tables, roles.features, (*roles.named, propensity), max_categories)
    encoder = TableEncoder(tuple(rules), tuple(notes))
    q_log, q_pool = (
        check_propensity(read_floats(one, propensity, "propensity", what), len(one), what)
        for one, what in zip(rows, WHATS, strict=True)
    )
    q_log, q_pool, raised = floored(q_log, q_pool, propensity_floor)
    cost_log, cost_pool = (
        None if roles.cost is None else read_floats(one, roles.cost, "cost", what)
        for one, what in zip(rows, WHATS, strict=True)
    )
    X_log, X_pool = (encoded(one, encoder) for one in rows)
    ids = LazyIds(X_log, roles.id, len(X_pool) if roles.id is None else 0), LazyIds(X_pool, roles.id)
    _require_own_ids(*ids)
    made = LoggedData(X_log, labels, q_log, ids[0], None, cost_log, encoder.groups)
    said = [
        *guessed,
        *notes,
        *([numbered(len(X_pool))] if roles.id is None else []),
        *raised,
        *doubts(made, tables[1], roles.label),
        f"The tables stay where they are ({len(X_log.parts)} and {len(X_pool.parts)} row groups): keep the files, the campaign reads "
        "them and notices if they change.",
    ]
    return LoadedProblem(made, Pool(X_pool, q_pool, ids[1], cost_pool, encoder.groups), encoder, tuple(said))


def _require_stays(logged: Any, pool: Any, propensity: Any) -> None:
    for source in (logged, pool):
        if not is_parquet(source):
            name = repr(os.fspath(source)) if isinstance(source, str | os.PathLike) else f"a {type(source).__name__}"
            raise InvalidInput(
                f"Tables that stay in place must be Parquet, but {name} is not; write it as Parquet, or leave out in_place (--in-place)."
            )
    if not isinstance(propensity, str) or propensity == ESTIMATE:
        raise InvalidInput(
            f"Tables that stay in place need a column with propensities, but {propensity!r} was given; write estimated propensities "
            "into a column first."
        )


def _found(logged: Any, pool: Any, roles: TableRoles, propensity: str, executor: Executor) -> tuple[Parts, Parts]:
    """Return log and pool with checksums and without features; they have the columns that play a role."""
    of_both = (propensity, roles.id, roles.cost)
    found = [Parts.of(_absolute(source), [], executor=executor) for source in (logged, pool)]
    for rows, names, what in zip(found, ((roles.label, *of_both), of_both), WHATS, strict=True):
        rows.require_columns(what, names)
        rows.require_columns(what, rows.names)  # people see rows from several files together
    return found[0].with_checksums(), found[1].with_checksums()


def _labels(
    rows: Parts, label: str, classes: Sequence[Any] | None, positive: Positive
) -> tuple[CodedLabels, list[str]]:
    """Return the labels of the log with the positive class last, and a note if it had to be guessed."""
    labels = read_coded_labels(rows, label, classes, as_label)
    check_classes(labels.classes.tolist(), label, int(labels.revealed.sum()), classes is not None)
    if classes is not None and (positive is None or callable(positive)):
        return labels, []
    return _positive_last(labels, positive)


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
            f"Every row needs an id of its own, but some in column {pool.column!r} are both in the log and in the pool; leave these rows out of "
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
    name = name_of(source)
    return name if "://" in name else os.path.abspath(name)

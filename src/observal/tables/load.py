"""A log and a pool from tables: the one way from files and frames to ``LoggedData``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, check_propensity, keep
from observal.diagnosis import propensity as chances
from observal.errors import InvalidInput
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import Label, distinct_labels
from observal.problem.words import WARNING, count
from observal.tables.classes import Positive, settle_classes
from observal.tables.encoder import ColumnSource, TableEncoder
from observal.tables.read import read_tables
from observal.tables.roles import TableRoles, column_of, read_groups, read_ids, read_labels, read_numbers
from observal.tables.table_format import TableFormat, reading_of

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

_TINY_PROPENSITY = 1e-6

Propensity = str | float | chances.Policy | None
"""Where propensities come from: a column, a number or a policy; None if nobody recorded them (``observal.problem.given``)."""


@dataclass(frozen=True, eq=False)
class LoadedProblem:
    """A log and a pool made from tables, the encoder of their features, and what was done in sentences.

    It can be unpacked: ``log, pool = load_problem(…)``. Of one table without propensities, `pool` is None.

    Examples
    --------
    >>> import pandas as pd
    >>> from observal.tables import TableRoles, load_problem
    >>> log = pd.DataFrame({"age": [30, 40, 50], "bad": [0, None, 1], "q0": [0.5, 0.1, 1.0]})
    >>> pool = pd.DataFrame({"age": [35, 45], "q0": [0.2, 0.8]})
    >>> loaded = load_problem([log], pool, TableRoles(label="bad", propensity="q0"))
    >>> loaded.logged, loaded.pool
    (LoggedData(3 rows × 1 features, 2 revealed, classes [0, 1]), Pool(2 rows × 1 features))
    """

    logged: LoggedData
    pool: Pool | None
    encoder: TableEncoder
    notes: tuple[str, ...]

    def __iter__(self) -> Iterator[LoggedData | Pool | None]:
        return iter((self.logged, self.pool))


def load_problem(
    logged_tables: TableSource | Sequence[TableSource],
    pool_table: TableSource | None,
    roles: TableRoles,
    *,
    propensity: Propensity = None,
    classes: Sequence[Label] | None = None,
    positive: Positive = None,
    propensity_floor: float | None = None,
    max_categories: int = 50,
) -> LoadedProblem:
    """Make one log and one pool from tables.

    Parameters
    ----------
    logged_tables : table, or list of tables
        The log: a file or frame, whatever ``read_table`` takes. Several without recorded propensities are joined.
    pool_table : table, optional
        The unlabelled rows, with the features of the logs. Without it, and without propensities, the rows of the log that have no label
        can be asked about.
    roles : TableRoles
        Which column plays which role.
    propensity : optional
        Where the probability with which a system drew a row's label was recorded: a column, a number for all rows, or a policy (see
        ``observal.diagnosis.propensity.from_policy``; it gets the encoded rows). By default the column that `roles` names; if it names
        none, the labels are given: see ``observal.problem.given``.
    classes : sequence, optional
        The label values, of two classes the negative one first; needed where the log does not show them all.
    positive : optional
        The class that precision and recall are about. By default the last of `classes`, the obvious one of two (as in no and yes), or
        the rarer one, with a note. A function is given both classes and returns one; it is called only where neither is obvious.
    propensity_floor : float, optional
        Raise smaller propensities to it, counted and with a warning.
    max_categories : int
        The most categories of a column that get a column of their own.

    Examples
    --------
    >>> import pandas as pd
    >>> from observal.tables import TableRoles, load_problem
    >>> log = pd.DataFrame({"age": [30, 40, 31], "bad": ["no", None, "yes"], "q0": [0.5, 0.1, 0.3]})
    >>> pool = pd.DataFrame({"age": [35, 45], "q0": [0.2, 0.2]})
    >>> loaded = load_problem(log, pool, TableRoles(label="bad"), propensity="q0")
    >>> loaded.pool.propensity.tolist(), loaded.logged.classes.tolist()
    ([0.2, 0.2], ['no', 'yes'])
    """
    sources_of_logs = logged_tables if isinstance(logged_tables, list | tuple) else [logged_tables]
    n_logs = len(sources_of_logs)
    sources_of_tables = [*sources_of_logs, *([] if pool_table is None else [pool_table])]
    tables = read_tables(sources_of_tables, roles.id, roles.label, None, classes)
    logs, pools = tables[:n_logs], tables[n_logs:]
    names = _table_names(logs, pools)
    source = _propensity_source(propensity, roles, n_logs, bool(pools))
    columns = [source] if isinstance(source, str) else []
    roles = roles.within({name for table in tables for name in table.column_names})
    labels, class_values, notes = _read_label_columns(logs, roles.label, classes, positive, names)
    encoder = TableEncoder.learn(tables, roles.features, (*roles.named, *columns), max_categories)
    notes = [*notes, *_describe_readings(tables, names), *encoder.notes]
    X = [encoder.encode(table) for table in tables]
    ids = _read_id_columns(logs, pools, roles.id, names, may_repeat=source is None)
    notes += [describe_row_numbers(0 if not pools else pools[0].num_rows)] if roles.id is None else []
    costs = [
        None if roles.cost is None else read_numbers(t, roles.cost, "cost", name)
        for t, name in zip(tables, names, strict=True)
    ]
    groups = [
        None if roles.group is None else read_groups(t, roles.group, name)
        for t, name in zip(tables, names, strict=True)
    ]
    q_log, q_pool = None, None
    if source is not None:
        recorded = _propensity_of(source, tables, X, names)
        q_log, q_pool, warnings = raise_to_floor(recorded[: len(labels)], recorded[len(labels) :], propensity_floor)
        notes += warnings
    log = LoggedData(
        _join(X[:n_logs]),
        labels,
        q_log,
        _join(ids[:n_logs]),
        class_values,
        _join(costs[:n_logs]),
        encoder.groups,
        _join(groups[:n_logs]),
    )
    keep(log, is_positive_named=classes is not None or not (positive is None or callable(positive)))
    if not pools:
        return LoadedProblem(log, None, encoder, tuple(notes))
    prices = None if roles.price is None else read_numbers(pools[0], roles.price, "price", names[-1])
    pool = Pool(X[-1], q_pool, ids[-1], costs[-1], encoder.groups, groups[-1], prices)
    return LoadedProblem(log, pool, encoder, (*notes, *find_doubts(log, pools[0], roles.label)))


def describe_row_numbers(n_pool: int) -> str:
    """Return how rows without ids are numbered, in a sentence; of one table, `n_pool` is 0."""
    if n_pool == 0:
        return "No id column was named: rows are numbered from 0 in their order."
    return f"No id column was named: pool rows are numbered from 0 in their order, and log rows from {n_pool} on."


def load(
    logged: TableSource | Sequence[TableSource],
    pool: TableSource | None = None,
    *,
    label: str,
    propensity: Propensity = None,
    id: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    cost: str | None = None,
    group: str | None = None,
    known_before: Sequence[str] = (),
    price: str | None = None,
    classes: Sequence[Label] | None = None,
    positive: Positive = None,
    propensity_floor: float | None = None,
    max_categories: int = 50,
    table_format: TableFormat | None = None,
) -> LoadedProblem:
    """Return a log and a pool from files or frames, for ``run``, ``Session``, ``Campaign`` and ``diagnose``.

    Parameters
    ----------
    logged : table, or list of tables
        The log: files, or pandas, polars or pyarrow frames. Without a pool, its rows without a label can be asked about.
    pool : table, optional
        The rows that can be asked about.
    label, id, cost, group, price : str
        The columns of labels, ids, costs of a mistake, groups of related rows, and prices of labels.
    propensity : optional
        The column (number, policy) with the probability with which a system drew each row's label; leave it out if nobody recorded it.
    features, exclude, known_before : sequence of str
        The columns to use, by default all that every table has; columns to leave out; columns that are known before the label is.
    classes, positive, propensity_floor, max_categories
        As for ``load_problem``.
    table_format : TableFormat, optional
        How files are written; detected by default.

    Returns
    -------
    LoadedProblem
        Unpacks into log and pool; `encoder` makes features of new rows, `notes` say what was done.

    Examples
    --------
    >>> import observal as ob, pandas as pd
    >>> table = pd.DataFrame({"loan": [1, 2, 3, 4], "age": [30, 40, 50, 60], "outcome": ["paid", None, "default", None]})
    >>> log, pool = ob.load(table, label="outcome", id="loan")
    >>> log, pool
    (LoggedData(4 rows × 1 features, 2 revealed, classes ['default', 'paid']), None)
    """
    roles = TableRoles(
        label,
        None,
        id,
        cost,
        None if features is None else tuple(features),
        tuple(exclude),
        group,
        tuple(known_before),
        price,
    )
    if table_format is not None:
        sources = [*(logged if isinstance(logged, list | tuple) else [logged]), *([] if pool is None else [pool])]
        tables = read_tables(sources, id, label, table_format, classes)
        logged, pool = (tables, None) if pool is None else (tables[:-1], tables[-1])
    return load_problem(
        logged,
        pool,
        roles,
        propensity=propensity,
        classes=classes,
        positive=positive,
        propensity_floor=propensity_floor,
        max_categories=max_categories,
    )


def raise_to_floor(log: Floats, pool: Floats, floor: float | None) -> tuple[Floats, Floats, list[str]]:
    """Return the propensities of log and pool, raised to a floor where there is one, and how many were raised."""
    if floor is None:
        return log, pool, []
    floored = [chances.apply_floor(log, floor, "The log"), chances.apply_floor(pool, floor, "The pool")]
    warnings = [result.warning for result in floored if result.warning is not None]
    return floored[0].propensity, floored[1].propensity, warnings


def find_doubts(logged: LoggedData, pool: ColumnSource, label: str) -> list[str]:
    """Return what looks wrong, in sentences: labels in the pool's table, tiny propensities, a log in which every row has a label."""
    doubts = []
    if label in pool.column_names and pool.column(label).null_count < pool.num_rows:
        doubts.append(
            f"The pool's column {label!r} was not used: labels of pool rows are bought, not read from the table."
        )
    tiny = (logged.propensity > 0.0) & (logged.propensity < _TINY_PROPENSITY)  # 0 says that nothing was revealed there
    if tiny.any():
        doubts.append(
            f"{WARNING}{count(int(tiny.sum()), 'row of the log has', 'rows of the log have')} a propensity below {_TINY_PROPENSITY:g}, the "
            f"least {logged.propensity[tiny].min():.3g}: a label there gets a weight above a million; check the propensities, or raise "
            "them with --propensity-floor (propensity_floor=)."
        )
    if chances.keeps_labelled_only(logged):
        doubts.append(
            f"{WARNING}Every row of the log has a label, though their mean propensity is {logged.propensity.mean():.3g}; if the log "
            "kept only its labelled rows, give all rows that the old policy saw, or leave the propensities out."
        )
    return doubts


def _table_names(logs: Sequence[pa.Table], pools: Sequence[pa.Table]) -> list[str]:
    """Return what the tables are called in messages; refuse empty ones."""
    if not logs:
        raise InvalidInput("No log was given; give the rows that the old policy looked at.")
    of_logs = [f"Log {j + 1}" for j in range(len(logs))] if len(logs) > 1 else ["The log" if pools else "The table"]
    names = [*of_logs, *(["The pool"] if pools else [])]
    for table, name in zip([*logs, *pools], names, strict=True):
        if table.num_rows == 0:
            raise InvalidInput(f"{name} has columns but no rows; give a table with rows.")
    return names


def _describe_readings(tables: Sequence[pa.Table], names: Sequence[str]) -> list[str]:
    """Return how the tables were read, where that is not the usual way; one sentence for each column."""
    readings = [reading_of(table) for table in tables]
    descriptions = [reading.format.describe() for reading in readings]
    if len(set(descriptions)) == 1:
        notes = [f"The tables were read as {descriptions[0]}."] if descriptions[0] else []
    else:
        notes = [f"{name} was read as {words}." for name, words in zip(names, descriptions, strict=True) if words]
    by_column: dict[str, str] = {}
    for note in (note for reading in readings for note in reading.notes):
        column = note.split("'")[1] if note.startswith("Column '") else note
        by_column.setdefault(column, note)
    return [*notes, *by_column.values()]


def _propensity_source(propensity: Propensity, roles: TableRoles, n_logs: int, has_pool: bool) -> Propensity:
    """Return where the propensities come from; None if nobody recorded them."""
    source = roles.propensity if propensity is None else propensity
    if source is None:
        return None
    if propensity == "estimate":
        raise InvalidInput(
            "Propensities are not estimated, because nobody can check what the old policy looked at, but 'estimate' was given; leave the "
            "propensity out, or name a column with probabilities that you trust."
        )
    if not has_pool:
        raise InvalidInput(
            "One table needs no propensities, because each of its rows has a label or can be asked about, but some were given; leave them "
            "out, or give the pool as a second table."
        )
    if isinstance(source, list | tuple) or (n_logs > 1 and not isinstance(source, float | int)):
        raise InvalidInput(
            f"Recorded propensities need one log and one column (number, policy), but {count(n_logs, 'log')} came with {source!r:.60}; join the "
            "logs into one table, with the mean of their policies' propensities at each row, weighted by the logs' sizes, as a column."
        )
    return source


def _propensity_of(
    source: str | float | chances.Policy, tables: Sequence[pa.Table], X: Sequence[Floats], names: Sequence[str]
) -> Floats:
    """Return the propensity of every row: of the log first, then of the pool."""
    if isinstance(source, float | int):
        return chances.known(source, sum(table.num_rows for table in tables))
    if not isinstance(source, str):
        return np.concatenate([chances.from_policy(source, part) for part in X])
    parts = [
        check_propensity(read_numbers(table, source, "propensity", name), table.num_rows, name)
        for table, name in zip(tables, names, strict=True)
    ]
    return np.concatenate(parts)


def _read_label_columns(
    logs: Sequence[pa.Table], label: str, classes: Sequence[Label] | None, positive: Positive, names: Sequence[str]
) -> tuple[NDArray[Any], Sequence[Label], list[str]]:
    columns = [column_of(log, label, "label", name) for log, name in zip(logs, names, strict=False)]
    parts = [read_labels(column, classes) for column in columns]
    labels, missing = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    counts = Counter(labels[~missing].tolist())
    ordered = {value: counts[value] for value in distinct_labels(labels[~missing]).tolist()}
    values, usual, notes = settle_classes(ordered, label, classes, positive)
    labels = np.array([usual.get(value, value) for value in labels.tolist()], dtype=object) if usual else labels
    return labels, values, notes


def _read_id_columns(
    logs: Sequence[pa.Table], pools: Sequence[pa.Table], id: str | None, names: Sequence[str], may_repeat: bool
) -> list[NDArray[Any]]:
    """Return the ids of each table; without a column of ids, pool rows are numbered first. `may_repeat` is as for ``read_ids``."""
    if id is not None:
        return read_ids([*logs, *pools], id, names, may_repeat)
    n_pool = sum(pool.num_rows for pool in pools)
    ends = np.cumsum([n_pool, *(log.num_rows for log in logs)])
    return [*(np.arange(start, end) for start, end in pairwise(ends)), *([np.arange(n_pool)] if pools else [])]


def _join(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 or parts[0] is None else np.concatenate(parts)

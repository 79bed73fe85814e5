"""A log (or several) and a pool from tables: the one way from files and frames to ``LoggedData``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, check_propensity, keep
from observal.diagnosis import propensity as chances
from observal.errors import InvalidInput
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import Label, distinct_labels
from observal.problem.words import WARNING, count
from observal.tables.classes import Positive, settle_classes
from observal.tables.encoder import ColumnSource, TableEncoder
from observal.tables.read import read_tables
from observal.tables.roles import TableRoles, column_of, read_groups, read_ids, read_labels, read_numbers
from observal.tables.table_format import reading_of

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

ESTIMATE = "estimate"
_HOW = (
    "name a column, give a policy, or estimate them with propensity='estimate'; "
    "a propensity is the chance that a row's label was revealed"
)
_TINY_PROPENSITY = 1e-6

LogPropensity = str | float | chances.Policy
"""Where the propensities of one log come from: a column, a number, a policy, or ``"estimate"``."""
Propensity = LogPropensity | Sequence[LogPropensity] | None
"""The same, or a list with one for each log."""


@dataclass(frozen=True, eq=False)
class LoadedProblem:
    """A log and a pool made from tables, the encoder of their features, and what was done in sentences.

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
    pool: Pool
    encoder: TableEncoder
    notes: tuple[str, ...]


def load_problem(
    logged_tables: TableSource | Sequence[TableSource],
    pool_table: TableSource,
    roles: TableRoles,
    *,
    propensity: Propensity = None,
    classes: Sequence[Label] | None = None,
    positive: Positive = None,
    propensity_floor: float | None = None,
    kept_only_labelled: bool = False,
    n_logged_rows: int | None = None,
    max_categories: int = 50,
    random_state: int = 0,
) -> LoadedProblem:
    """Make one log and one pool from tables.

    Parameters
    ----------
    logged_tables : table, or list of tables
        One or several logs; files or frames, whatever ``read_table`` takes. Several logs, each with its own
        policy, become one log whose propensity is their mixture: see ``observal.diagnosis.propensity.mixture_propensity``.
    pool_table : table
        The unlabelled rows, with the features of the logs.
    roles : TableRoles
        Which column plays which role.
    propensity : optional
        Where the chance that a row's label was revealed comes from: a column, a number for all rows, a policy (see
        ``observal.diagnosis.propensity.from_policy``; it gets the encoded rows), or ``"estimate"``. For several logs, a list
        with a column, number or policy for each log, all of which must be known at every row of every table; or
        ``"estimate"``, which estimates the mixture itself. By default the column that `roles` names.
    classes : sequence, optional
        The label values, of two classes the negative one first; needed where the log does not show them all.
    positive : optional
        The class that precision and recall are about. By default the last of `classes`, the obvious one of two (as in no and yes), or
        the rarer one, with a note. A function is given both classes and returns one; it is called only where neither is obvious.
    propensity_floor : float, optional
        Raise smaller propensities to it, counted and with a warning.
    kept_only_labelled : bool
        Whether the logs kept only their labelled rows; pool rows are then used in place of the others, see
        ``observal.diagnosis.propensity.complete_log``.
    n_logged_rows : int, optional
        The number of rows that the log had, if it kept only its labelled ones; estimated by default.
    max_categories : int
        The most categories of a column that get a column of their own.
    random_state : int
        Seed of random numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from observal.tables import TableRoles, load_problem
    >>> branch = pd.DataFrame({"age": [30, 40], "bad": ["no", None], "q_branch": [0.5, 0.1], "q_web": [0.9, 0.9]})
    >>> web = pd.DataFrame({"age": [31, 41], "bad": ["yes", "no"], "q_branch": [0.3, 0.3], "q_web": [0.7, 0.5]})
    >>> pool = pd.DataFrame({"age": [35, 45], "q_branch": [0.2, 0.2], "q_web": [0.8, 0.6]})
    >>> loaded = load_problem([branch, web], pool, TableRoles(label="bad"), propensity=["q_branch", "q_web"])
    >>> loaded.pool.propensity.tolist(), loaded.logged.classes.tolist()
    ([0.5, 0.4], ['no', 'yes'])
    """
    if n_logged_rows is not None and not kept_only_labelled:
        raise InvalidInput(
            f"The number of rows that the log had, {n_logged_rows}, is used only if it kept its labelled rows alone; add "
            "--kept-only-labelled (kept_only_labelled=True), or leave out --n-logged-rows (n_logged_rows=)."
        )
    sources_of_logs = logged_tables if isinstance(logged_tables, list | tuple) else [logged_tables]
    *logs, pool = tables = read_tables([*sources_of_logs, pool_table], roles.id, roles.label, None, classes)
    names = _table_names(logs, pool)
    sources = _propensity_sources(propensity, roles, len(logs))
    columns = [source for source in sources if isinstance(source, str) and source != ESTIMATE]
    roles = roles.within({name for table in tables for name in table.column_names})
    labels, missing, class_values, notes = _read_label_columns(logs, roles.label, classes, positive, names)
    encoder = TableEncoder.learn(tables, roles.features, (*roles.named, *columns), max_categories)
    notes = [*notes, *_describe_readings(tables, names), *encoder.notes]
    X_log, X_pool = _join([encoder.encode(log) for log in logs]), encoder.encode(pool)
    ids = _read_id_columns(tables, roles.id, names)
    notes += [describe_row_numbers(pool.num_rows)] if roles.id is None else []
    cost_log, cost_pool = None, None
    if roles.cost is not None:
        costs = [read_numbers(t, roles.cost, "cost", what) for t, what in zip(tables, names, strict=True)]
        cost_log, cost_pool = _join(costs[:-1]), costs[-1]
    group_log, group_pool = None, None
    if roles.group is not None:
        groups = [read_groups(t, roles.group, what) for t, what in zip(tables, names, strict=True)]
        group_log, group_pool = _join(groups[:-1]), groups[-1]
    if sources == [ESTIMATE]:
        estimated = chances.estimate(X_log, ~missing, X_pool, random_state=random_state)
        q_log, q_pool = estimated.logged, np.asarray(estimated.pool)
        notes += estimated.notes
    else:
        by_log = [_propensity_of(source, tables, X_log, X_pool, names) for source in sources]
        sizes = _log_sizes(by_log, [log.num_rows for log in logs], kept_only_labelled)
        mixture = chances.mixture_propensity(by_log, sizes) if len(by_log) > 1 else by_log[0]
        q_log, q_pool = mixture[: X_log.shape[0]], mixture[X_log.shape[0] :]
    q_log, q_pool, warnings = raise_to_floor(q_log, q_pool, propensity_floor)
    notes += warnings
    logged = LoggedData(X_log, labels, q_log, _join(ids[:-1]), class_values, cost_log, encoder.groups, group_log)
    prices = None if roles.price is None else read_numbers(pool, roles.price, "price", names[-1])
    loaded_pool = Pool(X_pool, q_pool, ids[-1], cost_pool, encoder.groups, group_pool, prices)
    if kept_only_labelled:
        completed = chances.complete_log(logged, loaded_pool, n_logged_rows, random_state)
        logged, notes = completed.logged, [*notes, *completed.notes]
    keep(logged, is_positive_named=classes is not None or not (positive is None or callable(positive)))
    return LoadedProblem(logged, loaded_pool, encoder, (*notes, *find_doubts(logged, pool, roles.label)))


def describe_row_numbers(n_pool: int) -> str:
    """Return how rows without ids are numbered, in a sentence."""
    return f"No id column was named: pool rows are numbered from 0 in their order, and log rows from {n_pool} on."


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
            "kept only its labelled rows, say so, because the missing rows must be counted."
        )
    return doubts


def _table_names(logs: Sequence[pa.Table], pool: pa.Table) -> list[str]:
    """Return what the tables are called in messages; refuse empty ones."""
    if not logs:
        raise InvalidInput("No log was given; give the rows that the old policy looked at.")
    names = [*(["The log"] if len(logs) == 1 else [f"Log {j + 1}" for j in range(len(logs))]), "The pool"]
    for table, name in zip([*logs, pool], names, strict=True):
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


def _propensity_sources(propensity: Propensity, roles: TableRoles, n_logs: int) -> list[LogPropensity]:
    source = roles.propensity if propensity is None else propensity
    if source is None:
        raise InvalidInput(f"No propensity source was given; {_HOW}.")
    if isinstance(source, str) and source == ESTIMATE and propensity is not None:
        return [ESTIMATE]
    if isinstance(source, Sequence) and not isinstance(source, str):
        if len(source) != n_logs or any(entry is None for entry in source):
            raise InvalidInput(
                f"Each of the {n_logs} logs needs a propensity of its own, but {len(source)} were given; {_HOW}."
            )
        return list(source)
    if n_logs > 1 and not isinstance(source, float | int):
        raise InvalidInput(
            f"{n_logs} logs need the propensity of each log's policy at every row, but only one was given; give a list of "
            f"{n_logs} columns or policies, or estimate their mixture with propensity='estimate'."
        )
    return [source]


def _propensity_of(
    source: LogPropensity, tables: Sequence[pa.Table], X_log: Floats, X_pool: Floats, names: Sequence[str]
) -> Floats:
    """Return one policy's propensity at every row: of the logs first, then of the pool."""
    if isinstance(source, float | int):
        return chances.known(source, X_log.shape[0] + X_pool.shape[0])
    if not isinstance(source, str):
        return np.concatenate([chances.from_policy(source, X) for X in (X_log, X_pool)])
    parts = [
        check_propensity(read_numbers(table, source, "propensity", name), table.num_rows, name)
        for table, name in zip(tables, names, strict=True)
    ]
    return np.concatenate(parts)


def _log_sizes(by_log: Sequence[Floats], rows: Sequence[int], kept_only_labelled: bool) -> list[int]:
    """Return how many rows each log's policy saw, which is more than a log has that kept only its labelled rows."""
    if not kept_only_labelled or len(by_log) == 1:
        return list(rows)
    ends = np.cumsum([0, *rows])
    own = [q[start:end] for q, start, end in zip(by_log, ends[:-1], ends[1:], strict=True)]
    return [chances.count_logged_rows(q).n_logged_rows for q in own]


def _read_label_columns(
    logs: Sequence[pa.Table], label: str, classes: Sequence[Label] | None, positive: Positive, names: Sequence[str]
) -> tuple[NDArray[Any], Bools, Sequence[Label], list[str]]:
    columns = [column_of(log, label, "label", name) for log, name in zip(logs, names, strict=False)]
    parts = [read_labels(column, classes) for column in columns]
    labels, missing = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    counts = Counter(labels[~missing].tolist())
    ordered = {value: counts[value] for value in distinct_labels(labels[~missing]).tolist()}
    values, usual, notes = settle_classes(ordered, label, classes, positive)
    labels = np.array([usual.get(value, value) for value in labels.tolist()], dtype=object) if usual else labels
    return labels, missing, values, notes


def _read_id_columns(tables: Sequence[pa.Table], id: str | None, names: Sequence[str]) -> list[NDArray[Any]]:
    """Return the ids of each table; without a column of ids, pool rows are numbered first."""
    if id is not None:
        return read_ids(tables, id, names)
    n_pool = tables[-1].num_rows
    ends = np.cumsum([n_pool, *(log.num_rows for log in tables[:-1])])
    return [*(np.arange(start, end) for start, end in pairwise(ends)), np.arange(n_pool)]


def _join(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)

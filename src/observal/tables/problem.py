"""A log (or several) and a pool from tables: the one way from files and frames to :class:`~observal.LoggedData`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, check_propensity
from observal.diagnosis import propensity as chances
from observal.errors import InvalidInput
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import distinct_labels
from observal.tables.common import check_classes, check_excluded, doubts, floored, numbered
from observal.tables.encoding import TableEncoder
from observal.tables.formats import format_of
from observal.tables.positive import Positive, positive_last
from observal.tables.reading import read_tables
from observal.tables.roles import column_of, read_ids, read_labels, read_numbers

ESTIMATE = "estimate"
_HOW = (
    "name a column, give a policy, or estimate them with propensity='estimate'; "
    "a propensity is the chance that a row's label was revealed"
)


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

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that are not features."""
        return tuple(
            name for name in (self.label, self.propensity, self.id, self.cost, *self.exclude) if name is not None
        )


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
    logged_tables: Sequence[Any],
    pool_table: Any,
    roles: TableRoles,
    *,
    propensity: Any = None,
    classes: Sequence[Any] | None = None,
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
    logged_tables : sequence of tables
        One or several logs; files or frames, whatever :func:`read_table` takes. Several logs, each with its own
        policy, become one log whose propensity is their mixture: see :func:`observal.diagnosis.propensity.mixture_propensity`.
    pool_table : table
        The unlabelled rows, with the features of the logs.
    roles : TableRoles
        Which column plays which role.
    propensity : optional
        Where the chance that a row's label was revealed comes from: a column, a number for all rows, a policy (see
        :func:`observal.diagnosis.propensity.from_policy`; it gets the encoded rows), or ``"estimate"``. For several logs, a list
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
        :func:`observal.diagnosis.propensity.complete_log`.
    n_logged_rows : int, optional
        The number of rows that the log had, if it kept only its labelled ones; estimated by default.
    max_categories : int
        The most categories of a column that get a column of their own.
    random_state : int
        Seed of whatever is random.

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
    *logs, pool = read_tables([*logged_tables, pool_table], roles.id, roles.label)
    names = _table_names(logs, pool)
    sources = _propensity_sources(propensity, roles, len(logs))
    columns = tuple(source for source in sources if isinstance(source, str) and source != ESTIMATE)
    check_excluded([*logs, pool], roles.exclude)
    labels, missing, found = _labels_of(logs, roles.label, classes, names)
    if classes is None or not (positive is None or callable(positive)):
        found, guessed = positive_last(found, Counter(labels[~missing].tolist()), positive)
    else:
        guessed = []
    encoder = TableEncoder.learn([*logs, pool], roles.features, (*roles.named, *columns), max_categories)
    X_pool, X_log = encoder.encode(pool), _joined([encoder.encode(log) for log in logs])
    ids, notes = _ids_of([*logs, pool], roles.id, names)
    if roles.cost is not None:
        costs = [read_numbers(t, roles.cost, "cost", what) for t, what in zip([*logs, pool], names, strict=True)]
    cost_log, cost_pool = (None, None) if roles.cost is None else (_joined(costs[:-1]), costs[-1])
    if sources == [ESTIMATE]:
        estimated = chances.estimate(X_log, ~missing, X_pool, random_state=random_state)
        q_log, q_pool = estimated.logged, np.asarray(estimated.pool)
        notes += estimated.notes
    else:
        given = [_given_propensity(source, [*logs, pool], X_log, X_pool, names) for source in sources]
        sizes = _log_sizes(given, [log.num_rows for log in logs], kept_only_labelled)
        mixed = chances.mixture_propensity(given, sizes) if len(given) > 1 else given[0]
        q_log, q_pool = mixed[: X_log.shape[0]], mixed[X_log.shape[0] :]
    q_log, q_pool, raised = floored(q_log, q_pool, propensity_floor)
    notes += raised
    logged = LoggedData(X_log, labels, q_log, _joined(ids[:-1]), found, cost_log, encoder.groups)
    loaded_pool = Pool(X_pool, q_pool, ids[-1], cost_pool, encoder.groups)
    if kept_only_labelled:
        completed = chances.complete_log(logged, loaded_pool, n_logged_rows, random_state)
        logged, notes = completed.logged, [*notes, *completed.notes]
    notes = [
        *guessed,
        *_reading_notes([*logs, pool], names),
        *encoder.notes,
        *notes,
        *doubts(logged, pool, roles.label),
    ]
    return LoadedProblem(logged, loaded_pool, encoder, tuple(notes))


def _table_names(logs: Sequence[Any], pool: Any) -> list[str]:
    """Return what the tables are called in messages; refuse empty ones."""
    if not logs:
        raise InvalidInput("There must be a log, but none was given; give the rows that the old policy looked at.")
    names = [*(["The log"] if len(logs) == 1 else [f"Log {j + 1}" for j in range(len(logs))]), "The pool"]
    for table, name in zip([*logs, pool], names, strict=True):
        if table.num_rows == 0:
            raise InvalidInput(f"{name} is empty, it has columns but no rows; give a table with rows.")
    return names


def _reading_notes(tables: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Return how the tables were read, where that is not the usual way; one sentence for each column."""
    formats = [format_of(table) for table in tables]
    words = [found.words() for found in formats]
    if len(set(words)) == 1:
        notes = [f"The tables were read as {words[0]}."] if words[0] else []
    else:
        notes = [f"{name} was read as {said}." for name, said in zip(names, words, strict=True) if said]
    about: dict[str, str] = {}
    for note in (note for found in formats for note in found.notes):
        column = note.split("'")[1] if note.startswith("Column '") else note
        about.setdefault(column, note)
    return [*notes, *about.values()]


def _propensity_sources(propensity: Any, roles: TableRoles, n_logs: int) -> list[Any]:
    source = roles.propensity if propensity is None else propensity
    if source is None:
        raise InvalidInput(f"Where the propensities come from was not said; {_HOW}.")
    if isinstance(source, str) and source == ESTIMATE and propensity is not None:
        return [ESTIMATE]
    if isinstance(source, list | tuple):
        if len(source) != n_logs or any(one is None for one in source):
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


def _given_propensity(source: Any, tables: Sequence[Any], X_log: Any, X_pool: Any, names: Sequence[str]) -> Floats:
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


def _log_sizes(given: Sequence[Floats], rows: Sequence[int], kept_only_labelled: bool) -> list[int]:
    """Return how many rows each log's policy saw, which is more than a log has that kept only its labelled rows."""
    if not kept_only_labelled or len(given) == 1:
        return list(rows)
    ends = np.cumsum([0, *rows])
    own = [q[start:end] for q, start, end in zip(given, ends[:-1], ends[1:], strict=True)]
    return [chances.count_logged_rows(q).n_logged_rows for q in own]


def _labels_of(
    logs: Sequence[Any], label: str, classes: Sequence[Any] | None, names: Sequence[str]
) -> tuple[NDArray[Any], Bools, Sequence[Any]]:
    columns = [column_of(log, label, "label", name) for log, name in zip(logs, names, strict=False)]
    parts = [read_labels(column, classes) for column in columns]
    labels, missing = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    named = classes is not None
    if classes is None:
        classes = distinct_labels(labels[~missing]).tolist()
    check_classes(classes, label, int((~missing).sum()), named)
    return labels, missing, classes


def _ids_of(tables: Sequence[Any], id: str | None, names: Sequence[str]) -> tuple[list[NDArray[Any]], list[str]]:
    if id is not None:
        return read_ids(tables, id, names), []
    n_pool = tables[-1].num_rows
    ends = np.cumsum([n_pool, *(log.num_rows for log in tables[:-1])])
    ids = [np.arange(start, end) for start, end in pairwise(ends)]
    return [*ids, np.arange(n_pool)], [numbered(n_pool)]


def _joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)

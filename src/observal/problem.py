"""What a user brings: the log, the pool, and the two together as the problem that every method is given.

Each record is frozen and checked once, when it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from observal.checks import (
    Bools,
    Floats,
    Ints,
    check_cost,
    check_ids,
    check_propensity,
    distinct_labels,
    encode_labels,
    frozen,
    missing_mask,
    stack_rows,
)
from observal.column_groups import ColumnGroups
from observal.errors import InvalidInput, InvalidLabel, InvalidPropensity
from observal.frames import ENCODE_OR_PIPELINE, Frame, difference, joined, read_features, read_frame, rows_of


@dataclass(frozen=True, eq=False, repr=False)
class LoggedData:
    """Rows that an old policy saw, with labels only where it chose to look.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (rows, features)
        Finite numbers. Not copied, because it may be large: do not change it afterwards. A pandas, polars or pyarrow table may also hold
        text, categories and gaps: :class:`~observal.CommitteeVC` gives it to its estimator as it is.
    y : array of shape (rows,)
        NaN or None where the label was not revealed.
    propensity : array of shape (rows,) or one number
        The chance that the policy revealed each row's label, Q0(x) in the paper. It may be 0 only where the label was not
        revealed.
    ids : array of shape (rows,), optional
        Distinct names of the rows; their positions by default.
    classes : sequence, optional
        The label values; needed if the log shows only one of them. The last is the positive class (+1).
    cost : array of shape (rows,), optional
        The cost of a mistake on the row, in [0, 1]; 1 by default.
    column_groups : ColumnGroups, optional
        Which columns came from one column of a table; :func:`observal.load_problem` says so, and boosted trees use it.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> ob.LoggedData([[0.0], [1.0], [2.0]], [0, np.nan, 1], propensity=[0.5, 0.2, 1.0])
    LoggedData(3 rows × 1 features, 2 revealed, classes [0.0, 1.0])
    """

    X: Any
    y: Any
    propensity: Any
    ids: Any = None
    classes: Any = None
    cost: Any = None
    column_groups: ColumnGroups | None = None
    revealed: Bools = field(init=False)
    codes: Ints = field(init=False)
    frame: Frame | None = field(init=False)

    def __post_init__(self) -> None:
        X, frame = read_features(self.X, "The log's features")
        object.__setattr__(self, "frame", frame)
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The log is empty, 0 rows were seen; give the rows that the old policy looked at.")
        if hasattr(self.y, "codes"):
            self._set_coded(X)
            return
        y = np.array(self.y)
        if y.shape != (n_rows,):
            raise InvalidInput(
                f"The log needs one label for each of its {n_rows} rows (NaN where not revealed), but got shape {y.shape}."
            )
        propensity = check_propensity(self.propensity, n_rows, "The log")
        revealed = ~missing_mask(y)
        if y.dtype.kind == "O":  # frame libraries have their own values for "not known"; None replaces them all
            y[~revealed] = None
        _require_possible(revealed, propensity)
        classes = np.asarray(self.classes) if self.classes is not None else distinct_labels(y[revealed])
        _require_classes(classes)
        codes = np.zeros(n_rows, dtype=np.int64)
        codes[revealed] = encode_labels(y[revealed], classes, "A label of the log")
        set_field = object.__setattr__
        set_field(self, "X", X)
        set_field(self, "y", frozen(y))
        set_field(self, "propensity", propensity)
        set_field(self, "ids", check_ids(self.ids, n_rows, "The log"))
        set_field(self, "classes", frozen(classes))
        set_field(self, "cost", check_cost(self.cost, n_rows, "The log"))
        set_field(self, "revealed", frozen(revealed))
        set_field(self, "codes", frozen(codes))

    def _set_coded(self, X: Any) -> None:
        """Take labels that are codes already: one byte for each row, which must do for big logs."""
        n_rows, labels = X.shape[0], self.y
        propensity = check_propensity(self.propensity, n_rows, "The log")
        _require_possible(labels.revealed, propensity)
        _require_classes(labels.classes)
        fields = {
            "X": X,
            "propensity": propensity,
            "ids": check_ids(self.ids, n_rows, "The log"),
            "classes": frozen(labels.classes),
            "cost": check_cost(self.cost, n_rows, "The log"),
            "revealed": frozen(labels.revealed),
            "codes": labels.codes,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_parquet(
        cls,
        source: Any,
        *,
        label: str,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        cost: str | None = None,
        executor: Any = None,
    ) -> LoggedData:
        """Make a log over Parquet that need not fit into memory: features and ids stay in the files.

        Parameters
        ----------
        source : path, glob, URL or list of them
            A Parquet file, a folder of them, a pattern such as ``"log/*.parquet"``, or an address that fsspec knows.
        label, propensity, id, cost : str
            The columns.
        features : sequence of str, optional
            Columns of numbers; all others by default.
        classes : sequence, optional
            The label values, if the log does not show all.
        executor : optional
            Who reads and computes: see :func:`observal.parts.executor_of`.

        Examples
        --------
        >>> import observal as ob, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> path = tempfile.mkdtemp() + "/log.parquet"
        >>> pq.write_table(pa.table({"x": [0.0, 1.0, 2.0], "y": [0, None, 1], "q0": [0.5, 0.2, 1.0]}), path)
        >>> ob.LoggedData.from_parquet(path, label="y", propensity="q0")
        LoggedData(3 rows × 1 features, 2 revealed, classes [0, 1])
        """
        from observal.parts.vectors import read_coded_labels, read_floats

        rows, ids = _rows_in_parts(source, features, (label, propensity, id, cost), id, "The log", executor)
        labels = read_coded_labels(rows, label, classes)
        costs = None if cost is None else read_floats(rows, cost, "cost", "The log")
        return cls(rows, labels, read_floats(rows, propensity, "propensity", "The log"), ids, None, costs)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        cost: str | None = None,
    ) -> LoggedData:
        """Make a log from a pandas, polars or pyarrow table; `features` are all other columns by default, text and gaps included."""
        roles = {"label": label, "propensity": propensity, "id": id, "cost": cost}
        columns, X, kept = read_frame(frame, "The log's features", features, **roles)
        made = cls(X, columns[label], columns[propensity], columns.get(id), classes, columns.get(cost))
        object.__setattr__(made, "frame", kept)
        return made

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return (
            f"LoggedData({len(self)} rows × {self.X.shape[1]} features, {int(self.revealed.sum())} revealed, "
            f"classes {self.classes.tolist()})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """Unlabelled rows, and the chance that the old policy gave each of being labelled.

    Parameters
    ----------
    X : array, sparse matrix or table of shape (rows, features)
        As for the log, in the same columns. Not copied: do not change it afterwards.
    propensity : array of shape (rows,) or one number
        Q0(x): the chance that the old policy would have revealed the row's label. 0 is allowed.
    ids : array of shape (rows,), optional
        Distinct names of the rows; their positions by default.
    cost : array of shape (rows,), optional
        The cost of a mistake on the row, in [0, 1]; 1 by default.
    column_groups : ColumnGroups, optional
        Which columns came from one column of a table; :func:`observal.load_problem` says so, and boosted trees use it.

    Examples
    --------
    >>> import observal as ob
    >>> ob.Pool([[0.0], [1.0]], propensity=0.5)
    Pool(2 rows × 1 features)
    """

    X: Any
    propensity: Any
    ids: Any = None
    cost: Any = None
    column_groups: ColumnGroups | None = None
    frame: Frame | None = field(init=False)

    def __post_init__(self) -> None:
        X, frame = read_features(self.X, "The pool's features")
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The pool is empty, 0 rows were seen; give the unlabelled rows that can be asked about.")
        set_field = object.__setattr__
        set_field(self, "X", X)
        set_field(self, "frame", frame)
        set_field(self, "propensity", check_propensity(self.propensity, n_rows, "The pool"))
        set_field(self, "ids", check_ids(self.ids, n_rows, "The pool"))
        set_field(self, "cost", check_cost(self.cost, n_rows, "The pool"))

    @classmethod
    def from_parquet(
        cls,
        source: Any,
        *,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        cost: str | None = None,
        executor: Any = None,
    ) -> Pool:
        """Make a pool over Parquet that need not fit into memory; the parameters are those of :meth:`LoggedData.from_parquet`.

        Examples
        --------
        >>> import observal as ob, pyarrow as pa, pyarrow.parquet as pq, tempfile
        >>> path = tempfile.mkdtemp() + "/pool.parquet"
        >>> pq.write_table(pa.table({"x": [0.0, 1.0], "q0": [0.5, 0.2]}), path)
        >>> ob.Pool.from_parquet(path, propensity="q0")
        Pool(2 rows × 1 features)
        """
        from observal.parts.vectors import read_floats

        rows, ids = _rows_in_parts(source, features, (propensity, id, cost), id, "The pool", executor)
        costs = None if cost is None else read_floats(rows, cost, "cost", "The pool")
        return cls(rows, read_floats(rows, propensity, "propensity", "The pool"), ids, costs)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        propensity: str,
        id: str | None = None,
        features: Sequence[str] | None = None,
        cost: str | None = None,
    ) -> Pool:
        """Make a pool from a pandas, polars or pyarrow table; `features` are all other columns by default, text and gaps included."""
        roles = {"propensity": propensity, "id": id, "cost": cost}
        columns, X, kept = read_frame(frame, "The pool's features", features, **roles)
        made = cls(X, columns[propensity], columns.get(id), columns.get(cost))
        object.__setattr__(made, "frame", kept)
        return made

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"Pool({len(self)} rows × {self.X.shape[1]} features)"


def _rows_in_parts(
    source: Any, features: Sequence[str] | None, roles: tuple[str | None, ...], id: str | None, what: str, executor: Any
) -> tuple[Any, Any]:
    """Return rows and ids that stay in their files."""
    from observal.parts import Parts
    from observal.parts.vectors import LazyIds

    every = Parts.of(source, [], executor=executor)
    names = every.names
    for role in roles:
        if role is not None and role not in names:
            raise InvalidInput(f"{what} has no column {role!r}, its columns are {list(names)}; name an existing one.")
    rows = Parts.of(source, features, [role for role in roles if role is not None], executor)
    ids = LazyIds(rows, id)
    ids.require_distinct(what)
    return rows, ids


def _require_possible(revealed: Bools, propensity: Floats) -> None:
    impossible = revealed & (propensity == 0.0)
    if impossible.any():
        raise InvalidPropensity(
            f"A revealed label must have had a chance to be revealed, but row {int(np.argmax(impossible))} has "
            f"propensity 0 and a label ({int(impossible.sum())} such rows); correct the propensity."
        )


def _require_classes(classes: Any) -> None:
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
        raise InvalidLabel(
            f"A classifier needs two classes, but the log shows {classes.tolist()}; "
            "name both with classes=(negative, positive)."
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """A log and a pool with the same features: what every method is given.

    Rows of both are numbered as one stack, the log first: row ``n_logged + i`` of the stack is row i of the pool.

    Parameters
    ----------
    logged, pool : LoggedData, Pool
        The two.
    population : {"both", "pool", "log"}
        Whose error intervals are about.
    objective : str
        What the classifier is for; see :mod:`observal.objectives`.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> logged = ob.LoggedData([[0.0], [1.0]], [0, 1], propensity=[0.5, 1.0])
    >>> problem = ob.Problem(logged, ob.Pool([[2.0], [3.0]], propensity=0.1))
    >>> problem.propensity.tolist(), problem.take(np.array([1, 3])).tolist()
    ([0.5, 1.0, 0.1, 0.1], [[1.0], [3.0]])
    """

    logged: LoggedData
    pool: Pool
    population: str = "both"
    objective: str = "error"

    def __post_init__(self) -> None:
        log_features, pool_features = self.logged.X.shape[1], self.pool.X.shape[1]
        if log_features != pool_features:
            raise InvalidInput(
                f"Log and pool must have the same features, but the log has {log_features} columns and the pool "
                f"{pool_features}; give both the same columns in the same order."
            )
        if self.column_groups is not None and self.column_groups.n_columns > pool_features:
            raise InvalidInput(
                f"Groups of columns must be among the {pool_features} features, but one has column {self.column_groups.n_columns - 1}; "
                "correct column_groups."
            )
        if isinstance(self.logged.X, Frame) or isinstance(self.pool.X, Frame):
            self._require_one_table()
        if (self.logged.cost is None) != (self.pool.cost is None):
            raise InvalidInput("Costs must be given for both log and pool, but only one of them has costs; give both.")

    def _require_one_table(self) -> None:
        if (wrong := difference(self.logged.frame, self.pool.frame)) is not None:
            raise InvalidInput(wrong)

    def for_method(self, method: Any) -> Problem:
        """Return the problem as a method takes it: with the user's own tables if it says `takes_frames`, else with numbers."""
        frames = self.logged.frame, self.pool.frame
        if getattr(method, "takes_frames", False) and None not in frames and difference(*frames) is None:
            logged, pool = copy(self.logged), copy(self.pool)
            for table in (logged, pool):
                object.__setattr__(table, "X", table.frame)
            return replace(self, logged=logged, pool=pool)
        self.require_numbers(type(method).__name__)
        return self

    def require_numbers(self, who: str, instead: str = ENCODE_OR_PIPELINE) -> None:
        """Refuse a user's own tables with anything but finite numbers in them.

        Parameters
        ----------
        who : str
            Who needs numbers.
        instead : str
            What to do.
        """
        for table in (self.logged, self.pool):
            if isinstance(table.X, Frame):
                raise InvalidInput(table.X.not_numbers(f"{who} needs finite numbers as features", instead))

    @property
    def n_logged(self) -> int:
        """The number of rows in the log, m in the paper."""
        return len(self.logged)

    @property
    def n_rows(self) -> int:
        """The number of rows in the stack."""
        return len(self.logged) + len(self.pool)

    @cached_property
    def propensity(self) -> Floats:
        """The propensity of each row of the stack; of big tables no copy is made."""
        if self.in_parts:
            from observal.parts.vectors import Stacked

            return Stacked(self.logged.propensity, self.pool.propensity)  # type: ignore[return-value]
        return frozen(np.concatenate([self.logged.propensity, self.pool.propensity]))

    @cached_property
    def cost(self) -> Floats | None:
        """The cost of a mistake on each row of the stack, or None where every mistake costs 1."""
        if self.logged.cost is None or self.pool.cost is None:
            return None
        return frozen(np.concatenate([self.logged.cost, self.pool.cost]))

    @property
    def column_groups(self) -> ColumnGroups | None:
        """Which columns belong together, if log and pool agree on it."""
        groups = self.logged.column_groups
        return groups if groups == self.pool.column_groups else None

    @property
    def in_parts(self) -> bool:
        """Whether log or pool stay in their files."""
        return hasattr(self.logged.X, "parts") or hasattr(self.pool.X, "parts")

    @property
    def in_frames(self) -> bool:
        """Whether log and pool are the user's own tables; see :meth:`for_method`."""
        return isinstance(self.logged.X, Frame) and isinstance(self.pool.X, Frame)

    def using(self, executor: Any) -> Problem:
        """Return the problem with rows that are read and computed on by another executor; rows in memory stay as they are."""
        if executor is None or not self.in_parts:
            return self
        logged, pool = copy(self.logged), copy(self.pool)
        for table in (logged, pool):
            if hasattr(table.X, "parts"):
                object.__setattr__(table, "X", table.X.using(executor))
        return replace(self, logged=logged, pool=pool)

    def in_memory(self) -> Problem:
        """Return the problem with all rows in memory, for methods that cannot go part by part."""
        if not self.in_parts:
            return self
        logged, pool = self.logged, self.pool
        return replace(
            self,
            logged=LoggedData(
                np.asarray(logged.X),
                logged.y,
                logged.propensity,
                np.asarray(logged.ids),
                logged.classes,
                logged.cost,
                logged.column_groups,
            ),
            pool=Pool(np.asarray(pool.X), pool.propensity, np.asarray(pool.ids), pool.cost, pool.column_groups),
        )

    @property
    def counted(self) -> tuple[int, int]:
        """The first row of the stack that belongs to the population that intervals are about, and the row after the last."""
        return (
            self.n_logged if self.population == "pool" else 0,
            self.n_logged if self.population == "log" else self.n_rows,
        )

    def counts(self, rows: Ints) -> Bools:
        """Return which rows of the stack belong to the population that intervals are about."""
        of_pool = rows >= self.n_logged
        return np.full(rows.size, True) if self.population == "both" else of_pool == (self.population == "pool")

    def stack(self) -> Any:
        """Return the features of all rows as one new array, CSR matrix or table."""
        if self.in_frames:
            return joined(self.logged.X.native, self.pool.X.native)
        return stack_rows(self.logged.X, self.pool.X)

    def take(self, rows: Ints) -> Any:
        """Return the features of some rows of the stack; rows of the log must come first in `rows`."""
        of_log = rows < self.n_logged
        first, then = rows[of_log], rows[~of_log] - self.n_logged
        if self.in_frames:
            return joined(rows_of(self.logged.X.native, first), rows_of(self.pool.X.native, then))
        if hasattr(self.logged.X, "tocsr") or hasattr(self.pool.X, "tocsr"):
            return stack_rows(self.logged.X[first], self.pool.X[then])
        out = np.empty((rows.size, self.pool.X.shape[1]), np.result_type(self.logged.X.dtype, self.pool.X.dtype))
        out[: first.size], out[first.size :] = self.logged.X[first], self.pool.X[then]
        return out

    def labelled(self, bought: Ints, codes: Ints) -> tuple[Ints, Ints]:
        """Return the rows of the stack that have a label and their class codes.

        Parameters
        ----------
        bought : int array
            Pool positions of the labels bought so far.
        codes : int array
            Their class codes.
        """
        shown = np.flatnonzero(self.logged.revealed)
        rows = np.concatenate([shown, self.n_logged + bought])
        return rows, np.concatenate([self.logged.codes[shown], codes])

    def require_two_classes(self, method: str) -> None:
        """Refuse a log with more than two classes."""
        if len(self.logged.classes) != 2:
            raise InvalidLabel(
                f"{method} needs exactly two classes, but the log has {self.logged.classes.tolist()}; "
                "merge classes into two."
            )

"""Log and pool together: the problem that every method is given, frozen and checked once, when it is made."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.checks import (
    Bools,
    Floats,
    Ints,
    frozen,
    stack_rows,
)
from observal.errors import InvalidInput, InvalidLabel
from observal.problem.column_groups import ColumnGroups
from observal.problem.data import LoggedData, Pool
from observal.problem.frames import ENCODE_OR_PIPELINE, Frame, difference, joined, rows_of

if TYPE_CHECKING:
    from observal.problem.method import Method


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
        What the classifier is for; see :mod:`observal.problem.objectives`.

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

    def for_method(self, method: Method) -> Problem:
        """Return the problem as a method takes it: with the user's own tables if it says `takes_frames`, else with numbers."""
        frames = self.logged.frame, self.pool.frame
        if method.takes_frames and None not in frames and difference(*frames) is None:
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
            from observal.parquet.vectors import Stacked

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
        from observal.parquet import executor_of

        logged, pool, computing = copy(self.logged), copy(self.pool), executor_of(executor)
        for table in (logged, pool):
            if hasattr(table.X, "parts"):
                object.__setattr__(table, "X", table.X.using(computing))
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

    def blocks(self, stream: bool = False) -> tuple[Any, Any]:
        """Return the features of log and pool; of a pool that is a stream no row, only whether its rows are sparse."""
        return self.logged.X, self.pool.X[:0] if stream else self.pool.X

    def rows(self, of_log: Ints, of_pool: Ints) -> Ints:
        """Return rows of log and pool as rows of the stack."""
        return np.concatenate([of_log, self.n_logged + of_pool])

    def take_for_ranks(self, rows: Ints) -> Any:
        """Return what :meth:`take` does, but a user's own tables as numbers whose ranks can be compared."""
        if not self.in_frames:
            return self.take(rows)
        first, then = self._split(rows)
        return stack_rows(self.logged.X.for_ranks(first), self.pool.X.for_ranks(then))

    def _split(self, rows: Ints) -> tuple[Ints, Ints]:
        of_log = rows < self.n_logged
        return rows[of_log], rows[~of_log] - self.n_logged

    def take(self, rows: Ints) -> Any:
        """Return the features of some rows of the stack; rows of the log must come first in `rows`."""
        first, then = self._split(rows)
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

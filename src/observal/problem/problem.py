"""Log and pool together: the immutable problem that every method gets, validated when it is made."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from observal.checks import ALONE, Bools, Floats, Ints, frozen, keep
from observal.errors import InvalidInput, InvalidLabel
from observal.parquet import Executor, ExecutorLike, Parts, StackedVectors, executor_of
from observal.problem.column_groups import ColumnGroups
from observal.problem.data import LoggedData, Pool
from observal.problem.frames import ENCODE_OR_PIPELINE, Frame, by_name, column_names, difference
from observal.problem.goals import Goals
from observal.problem.rows import Matrix, Rows, stack_rows

if TYPE_CHECKING:
    from observal.problem.method import Method

TableT = TypeVar("TableT", LoggedData, Pool)


@dataclass(frozen=True, eq=False)
class Problem:
    """A log and a pool with the same features: what every method gets.

    Rows of both are numbered as one stack, the log first: row ``n_logged + i`` is row i of the pool.

    Parameters
    ----------
    logged, pool : LoggedData, Pool
        The data.
    goals : Goals
        Whose error is measured, and what the classifier is for.

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
    goals: Goals = field(default_factory=Goals)

    def __post_init__(self) -> None:
        keep(self, pool=self.align(self.pool, self.names, "The pool"))
        if self.column_groups is not None and self.column_groups.n_columns > self.pool.X.shape[1]:
            raise InvalidInput(
                f"Groups of columns must be among the {self.pool.X.shape[1]} features, but one has column {self.column_groups.n_columns - 1}; "
                "correct column_groups."
            )
        either_is_table = self.logged.rows.is_table or self.pool.rows.is_table
        if either_is_table and (sentence := difference(self.logged.frame, self.pool.frame)) is not None:
            raise InvalidInput(sentence)
        if self.logged.is_given != self.pool.is_given:
            raise InvalidInput(
                "Either log and pool have propensities or neither has, but only one of them has; correct one."
            )
        if (self.logged.cost is None) != (self.pool.cost is None):
            raise InvalidInput("Costs must be given for both log and pool, but only one of them has costs; give both.")
        if (self.logged.groups is None) != (self.pool.groups is None):
            raise InvalidInput(
                "Groups must be given for both log and pool, but only one of them has groups; give both."
            )

    @cached_property
    def is_given(self) -> bool:
        """Whether labels stand for their own rows only: the log has labelled rows alone and says nothing about the pool's."""
        logged = self.logged
        return bool(logged.revealed.all() and (logged.propensity == 1.0).all() and not self.pool.propensity.any())

    def for_method(self, method: Method) -> Problem:
        """Return the problem as a method takes it: with the user's own tables if it `takes_frames`, else with numbers."""
        log, pool = self.logged.frame, self.pool.frame
        if method.takes_frames and log is not None and pool is not None and difference(log, pool) is None:
            return replace(self, logged=_with_rows(self.logged, log), pool=_with_rows(self.pool, pool))
        self.require_numbers(type(method).__name__)
        return self

    def require_numbers(self, who: str, instead: str = ENCODE_OR_PIPELINE) -> None:
        """Reject users' own tables with anything but finite numbers.

        Parameters
        ----------
        who : str
            Who needs numbers.
        instead : str
            What to do.
        """
        for table in (self.logged, self.pool):
            if isinstance(table.X, Frame):
                raise InvalidInput(table.X.describe_non_numbers(f"{who} needs finite numbers as features", instead))

    @property
    def names(self) -> list[str] | None:
        """The log's column names, or else the pool's; None if both are arrays."""
        return column_names(self.logged.frame or self.logged.rows) or column_names(self.pool.frame or self.pool.rows)

    def align(self, pool: Pool, names: list[str] | None, what: str) -> Pool:
        """Return a pool with the named columns in this order; one of arrays must have the log's and is returned unchanged."""
        table = pool.frame or pool.rows
        aligned, n_columns = by_name(table, names, what), self.logged.X.shape[1]
        if aligned.shape[1] != n_columns:
            raise InvalidInput(
                f"Log and pool must have the same features, but the log has {n_columns} columns and {what.lower()} {aligned.shape[1]}; give both the same columns in the same order."
            )
        if aligned is table:
            return pool
        other = replace(pool, X=aligned)
        keep(other, is_given=pool.is_given, has_ids=pool.has_ids)  # its propensities and ids are filled in by now
        return other

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
        """The propensity of each row of the stack; not copied for large tables."""
        if self.in_parts:
            return StackedVectors(self.logged.propensity, self.pool.propensity)  # type: ignore[return-value]
        return frozen(np.concatenate([self.logged.propensity, self.pool.propensity]))

    @cached_property
    def cost(self) -> Floats | None:
        """The cost of a mistake on each row of the stack; None if every mistake costs 1."""
        if self.logged.cost is None or self.pool.cost is None:
            return None
        return frozen(np.concatenate([self.logged.cost, self.pool.cost]))

    def groups_of(self, rows: Ints) -> Ints | None:
        """Return the group of each row, numbered from 0 by first occurrence; None if rows are not grouped.

        Examples
        --------
        >>> import numpy as np, observal as ob
        >>> logged = ob.LoggedData([[0.0], [1.0]], [0, 1], 0.5, groups=["Ann", None])
        >>> ob.Problem(logged, ob.Pool([[2.0], [3.0]], 0.5, groups=[None, "Ann"])).groups_of(np.array([1, 2, 3, 0])).tolist()
        [0, 1, 2, 2]
        """
        if self.logged.groups is None or self.pool.groups is None:
            return None
        of_log = rows < self.n_logged
        numbers = np.empty(rows.size, dtype=np.int64)
        numbers[of_log] = self.logged.groups[rows[of_log]]
        numbers[~of_log] = self.pool.groups[rows[~of_log] - self.n_logged]
        _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
        first_row = np.where(numbers == ALONE, np.arange(rows.size), first[group])
        return np.unique(first_row, return_inverse=True)[1].astype(np.int64)

    @property
    def column_groups(self) -> ColumnGroups | None:
        """Which columns belong together, if log and pool agree on it."""
        groups = self.logged.column_groups
        return groups if groups == self.pool.column_groups else None

    @property
    def in_parts(self) -> bool:
        """Whether log or pool stay in their files."""
        return self.logged.rows.in_files or self.pool.rows.in_files

    def using(self, executor: ExecutorLike) -> Problem:
        """Return the problem with another executor for rows in files; rows in memory are unaffected."""
        if executor is None or not self.in_parts:
            return self
        computing = executor_of(executor)
        return replace(self, logged=_using(self.logged, computing), pool=_using(self.pool, computing))

    def in_memory(self) -> Problem:
        """Return the problem with all rows in memory, for methods that cannot process blocks."""
        if not self.in_parts:
            return self
        logged, pool = self.logged, self.pool
        return replace(
            self,
            logged=replace(logged, X=logged.rows.to_matrix(), ids=np.asarray(logged.ids)),
            pool=replace(pool, X=pool.rows.to_matrix(), ids=np.asarray(pool.ids)),
        )

    @property
    def counted(self) -> tuple[int, int]:
        """The range of stack rows in the population that intervals are about: the first, and one past the last."""
        return (
            self.n_logged if self.goals.population == "pool" else 0,
            self.n_logged if self.goals.population == "log" else self.n_rows,
        )

    def counts(self, rows: Ints) -> Bools:
        """Return which rows of the stack belong to the population that intervals are about."""
        of_pool = rows >= self.n_logged
        if self.goals.population in ("both", "table"):
            return np.full(rows.size, True)
        return np.asarray(of_pool == (self.goals.population == "pool"))

    def stack(self) -> Rows:
        """Return the features of all rows as one array, CSR matrix or table."""
        return self.logged.rows.stack(self.pool.rows)

    def blocks(self, stream: bool = False) -> tuple[Rows, Rows]:
        """Return the features of log and pool; no rows of a streamed pool, only whether they are sparse."""
        pool = self.pool.rows
        return self.logged.rows, pool.select(np.arange(0)) if stream else pool

    def positions(self, of_log: Ints, of_pool: Ints) -> Ints:
        """Return rows of log and pool as rows of the stack."""
        return np.concatenate([of_log, self.n_logged + of_pool])

    def _split(self, rows: Ints) -> tuple[Ints, Ints]:
        of_log = rows < self.n_logged
        return rows[of_log], rows[~of_log] - self.n_logged

    def take(self, rows: Ints) -> Matrix:
        """Return the features of some stack rows as numbers; rows of the log must come first."""
        of_log, of_pool = self._split(rows)
        return stack_rows(self.logged.rows.take(of_log), self.pool.rows.take(of_pool))

    def take_for_ranks(self, rows: Ints) -> Matrix:
        """Like ``take``, but a user's own tables become sortable numbers."""
        of_log, of_pool = self._split(rows)
        return stack_rows(self.logged.rows.ranks(of_log), self.pool.rows.ranks(of_pool))

    def select(self, rows: Ints) -> Rows:
        """Like ``take``, but as Rows; a user's own tables stay tables."""
        of_log, of_pool = self._split(rows)
        return self.logged.rows.select(of_log).stack(self.pool.rows.select(of_pool))

    def labelled(self, bought: Ints, codes: Ints) -> tuple[Ints, Ints]:
        """Return the labelled rows of the stack and their class codes.

        Parameters
        ----------
        bought : int array
            Pool positions of the labels bought so far.
        codes : int array
            Their class codes.
        """
        revealed = np.flatnonzero(self.logged.revealed)
        rows = np.concatenate([revealed, self.n_logged + bought])
        return rows, np.concatenate([self.logged.codes[revealed], codes])

    def require_two_classes(self, method: str) -> None:
        """Reject a log with more than two classes."""
        if len(self.logged.classes) != 2:
            raise InvalidLabel(
                f"{method} needs exactly two classes, but the log has {self.logged.classes.tolist()}; "
                "merge classes into two."
            )


def _using(table: TableT, executor: Executor) -> TableT:
    rows = table.rows
    return _with_rows(table, rows.using(executor)) if isinstance(rows, Parts) else table


def _with_rows(table: TableT, X: Rows) -> TableT:
    """Return a log or pool with other rows for the same data, without validating again."""
    other = copy(table)
    object.__setattr__(other, "X", X)
    return other

"""The frozen records that observal passes around; each is checked once, when it is made.

``LoggedData`` and ``Pool`` come in; ``Problem`` holds the two together; a method turns a problem into one ``Plan``
per round; ``Query`` is what people see of it; ``Round`` and ``RunResult`` come out.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import (
    Bools,
    Floats,
    Ints,
    Signs,
    check_cost,
    check_features,
    check_ids,
    check_plan,
    check_propensity,
    distinct_labels,
    encode_labels,
    frozen,
    missing_mask,
    read_frame,
    stack_rows,
)
from observal.errors import InvalidInput, InvalidLabel, InvalidPropensity

ASKED, INFERRED, PASSED = np.int8(0), np.int8(1), np.int8(2)
ACTION_NAMES = np.array(["asked", "inferred", "passed"])


@dataclass(frozen=True, eq=False, repr=False)
class LoggedData:
    """Rows that an old policy saw, with labels only where it chose to look.

    Parameters
    ----------
    X : array or sparse matrix of shape (rows, features)
        Finite numbers. Not copied, because it may be large: do not change it afterwards.
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
    revealed: Bools = field(init=False)
    codes: Ints = field(init=False)

    def __post_init__(self) -> None:
        X = check_features(self.X, "The log's features")
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The log is empty, 0 rows were seen; give the rows that the old policy looked at.")
        y = np.array(self.y)
        if y.shape != (n_rows,):
            raise InvalidInput(
                f"The log needs one label for each of its {n_rows} rows (NaN where not revealed), but got shape {y.shape}."
            )
        propensity = check_propensity(self.propensity, n_rows, "The log")
        revealed = ~missing_mask(y)
        if y.dtype.kind == "O":  # frame libraries have their own values for "not known"; None replaces them all
            y[~revealed] = None
        impossible = revealed & (propensity == 0.0)
        if impossible.any():
            raise InvalidPropensity(
                f"A revealed label must have had a chance to be revealed, but row {int(np.argmax(impossible))} has "
                f"propensity 0 and a label ({int(impossible.sum())} such rows); correct the propensity."
            )
        classes = np.asarray(self.classes) if self.classes is not None else distinct_labels(y[revealed])
        if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) != len(classes):
            raise InvalidLabel(
                f"A classifier needs two classes, but the log shows {classes.tolist()}; "
                "name both with classes=(negative, positive)."
            )
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
        """Make a log from a pandas, polars or pyarrow table; `features` are all other columns by default."""
        columns, X = read_frame(frame, features, label=label, propensity=propensity, id=id, cost=cost)
        return cls(X, columns[label], columns[propensity], columns.get(id), classes, columns.get(cost))

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
    X : array or sparse matrix of shape (rows, features)
        Finite numbers, in the same columns as the log's. Not copied: do not change it afterwards.
    propensity : array of shape (rows,) or one number
        Q0(x): the chance that the old policy would have revealed the row's label. 0 is allowed.
    ids : array of shape (rows,), optional
        Distinct names of the rows; their positions by default.
    cost : array of shape (rows,), optional
        The cost of a mistake on the row, in [0, 1]; 1 by default.

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

    def __post_init__(self) -> None:
        X = check_features(self.X, "The pool's features")
        n_rows = X.shape[0]
        if n_rows == 0:
            raise InvalidInput("The pool is empty, 0 rows were seen; give the unlabelled rows that can be asked about.")
        set_field = object.__setattr__
        set_field(self, "X", X)
        set_field(self, "propensity", check_propensity(self.propensity, n_rows, "The pool"))
        set_field(self, "ids", check_ids(self.ids, n_rows, "The pool"))
        set_field(self, "cost", check_cost(self.cost, n_rows, "The pool"))

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
        """Make a pool from a pandas, polars or pyarrow table; `features` are all other columns by default."""
        columns, X = read_frame(frame, features, propensity=propensity, id=id, cost=cost)
        return cls(X, columns[propensity], columns.get(id), columns.get(cost))

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"Pool({len(self)} rows × {self.X.shape[1]} features)"


@dataclass(frozen=True, eq=False)
class Problem:
    """A log and a pool with the same features: what every method is given.

    Rows of both are numbered as one stack, the log first: row ``n_logged + i`` of the stack is row i of the pool.

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

    def __post_init__(self) -> None:
        log_features, pool_features = self.logged.X.shape[1], self.pool.X.shape[1]
        if log_features != pool_features:
            raise InvalidInput(
                f"Log and pool must have the same features, but the log has {log_features} columns and the pool "
                f"{pool_features}; give both the same columns in the same order."
            )
        if (self.logged.cost is None) != (self.pool.cost is None):
            raise InvalidInput("Costs must be given for both log and pool, but only one of them has costs; give both.")

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
        """The propensity of each row of the stack."""
        return frozen(np.concatenate([self.logged.propensity, self.pool.propensity]))

    @cached_property
    def cost(self) -> Floats | None:
        """The cost of a mistake on each row of the stack, or None where every mistake costs 1."""
        if self.logged.cost is None or self.pool.cost is None:
            return None
        return frozen(np.concatenate([self.logged.cost, self.pool.cost]))

    def stack(self) -> Any:
        """Return the features of all rows as one new array or CSR matrix."""
        return stack_rows(self.logged.X, self.pool.X)

    def take(self, rows: Ints) -> Any:
        """Return the features of some rows of the stack; rows of the log must come first in `rows`."""
        of_log = rows < self.n_logged
        return stack_rows(self.logged.X[rows[of_log]], self.pool.X[rows[~of_log] - self.n_logged])

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


@dataclass(frozen=True, eq=False)
class Plan:
    """What a method decides about a round before any answer is known.

    Parameters
    ----------
    positions : int array
        The pool rows looked at, in order.
    query_probability : float array
        Each row's chance of being asked about.
    action : int8 array
        ``ASKED``, ``INFERRED`` or ``PASSED``.
    inferred : int array
        The class code given without asking, where ``action == INFERRED``. Of asked rows, the method's own guess, where it
        notes one in `doubt`; else it means nothing.
    reason : int8 array
        For each row, which of `reasons` applies.
    reasons : tuple of str
        The sentences that `reason` points to.
    shuffled : bool
        Whether the rows are in random order. If so, looking at only the first of them lowers every row's chance of being asked
        about by the same factor.
    doubt : float array, optional
        The chance, by the method's own estimate before any answer, that the guess in `inferred` is wrong.
    """

    positions: Ints
    query_probability: Floats
    action: Signs
    inferred: Ints
    reason: Signs
    reasons: tuple[str, ...]
    shuffled: bool = False
    doubt: Floats | None = None

    def __post_init__(self) -> None:
        rows = (self.positions, self.query_probability, self.action, self.inferred, self.reason)
        check_plan(*rows, len(ACTION_NAMES), len(self.reasons), self.doubt)

    @cached_property
    def asked(self) -> Ints:
        """Pool positions whose labels are asked for, in order."""
        return np.asarray(self.positions[self.action == ASKED])

    def cut(self, label_budget: int) -> Plan:
        """Return the plan cut off right after the last label that the budget pays for."""
        beyond = np.flatnonzero(self.action == ASKED)[label_budget:]
        if beyond.size == 0:
            return self
        end = int(beyond[0])
        return Plan(
            self.positions[:end],
            self.query_probability[:end] * (end / self.positions.size if self.shuffled else 1.0),
            self.action[:end],
            self.inferred[:end],
            self.reason[:end],
            self.reasons,
            self.shuffled,
            None if self.doubt is None else self.doubt[:end],
        )


@dataclass(frozen=True)
class Stop:
    """Why a method plans no more rounds."""

    reason: str = "every pool row has been looked at"


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers to a plan, one for each row of ``plan.asked``."""

    codes: Ints
    answered: Bools


@dataclass(frozen=True, eq=False)
class Query:
    """The rows to label now."""

    ids: NDArray[Any]
    positions: Ints
    round: int
    query_probability: Floats
    reason: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class Round:
    """The state of a run after a round; round 0 is the log alone.

    Parameters
    ----------
    index : int
        0, 1, 2, …
    labels, seen : int
        Labels bought, and pool rows looked at, up to and including this round.
    asked, inferred, passed, skipped : int
        What happened to the rows looked at in this round. A skipped row was asked about and not answered.
    clip : float
        The importance weight above which a row is left out (pool methods lower its weight to this); infinity if nothing is clipped.
    disagreement : float
        The share of the pool (of the log, for NewtonVC on a stream) whose predictions may still change.
    estimator : classifier
        The classifier that a run stopped here would return.
    candidates : int, optional
        Classifiers still in the candidate set, for methods that keep one.
    details : mapping
        More numbers from the method.
    """

    index: int
    labels: int
    seen: int
    asked: int
    inferred: int
    passed: int
    skipped: int
    clip: float
    disagreement: float
    estimator: Any = field(repr=False)
    candidates: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Table:
    """Named columns of equal length; a row is a named tuple.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.types import Table
    >>> table = Table(id=np.array(["a", "b"]), label=np.array([0, 1]))
    >>> len(table), table["label"].tolist(), next(iter(table)).id
    (2, [0, 1], 'a')
    """

    def __init__(self, **columns: NDArray[Any]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"The columns of a table must be equally long, but have lengths {lengths}.")
        self.columns: dict[str, NDArray[Any]] = {name: frozen(np.asarray(c)) for name, c in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __iter__(self) -> Iterator[Any]:
        row = namedtuple("Row", list(self.columns))  # type: ignore[misc]
        return (row(*values) for values in zip(*(c.tolist() for c in self.columns.values()), strict=True))

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"


@dataclass(frozen=True)
class Interval:
    """An interval around an estimate, and how it was made.

    Only `low` and `high` are promised. `estimate` is the number they were built around; it may be far from the truth if the
    interval is wide. `method` says how the interval was made.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    method: str

    def __post_init__(self) -> None:
        if not (self.low <= self.high and 0.0 < self.confidence < 1.0):
            raise InvalidInput(
                f"An interval needs low ≤ high and a confidence in (0, 1), but got [{self.low}, {self.high}] "
                f"at {self.confidence}."
            )


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run returns.

    Parameters
    ----------
    estimator : classifier
        The final classifier.
    rounds : tuple of Round
        One per epoch; round 0 is the log alone.
    queries : Table
        One row per label bought: id, round, query_probability, label, reason.
    decisions : Table
        One row per pool row looked at: id, round, query_probability, action (asked, inferred or passed), reason.
    intervals : mapping
        Of `estimator` on the whole population: "error" always; "precision", "recall" and "prevalence" of the last class
        where the method has them. They are computed when they are first read.
    stopped : str
        Why the run ended.
    """

    estimator: Any
    rounds: tuple[Round, ...] = field(repr=False)
    queries: Table
    decisions: Table
    intervals: Mapping[str, Interval]
    stopped: str

    @property
    def error_interval(self) -> Interval:
        """The population error of `estimator`."""
        return self.intervals["error"]

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InvalidInput("A result needs at least round 0, but has no rounds.")
        if len(self.queries) != self.rounds[-1].labels:
            raise InvalidInput(
                f"A result needs one query per label bought, but has {len(self.queries)} queries and "
                f"{self.rounds[-1].labels} labels."
            )

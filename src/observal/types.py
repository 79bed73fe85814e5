"""What a run passes around and returns: frozen records, each checked once, when it is made.

A method turns a :class:`~observal.problem.Problem` into one ``Plan`` per round; ``Query`` is what people see of it; ``Round`` and
``RunResult`` come out.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from observal.checks import (
    Bools,
    Floats,
    Ints,
    Signs,
    check_near,
    check_plan,
    frozen,
)
from observal.errors import InvalidInput
from observal.looks import Looks, check_looks
from observal.objectives import check_objective

ASKED, INFERRED, PASSED = np.int8(0), np.int8(1), np.int8(2)
RETURNED = "returned_round"
"""Among a round's details: the earlier round whose classifier is returned."""
ACTION_NAMES = np.array(["asked", "inferred", "passed"])


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
    near, near_gaps : arrays, optional
        The rows of the stack of log and pool that are as uncertain as those taken for it, labelled rows judged as if their labels
        were not known, and how uncertain each is. Intervals need them, and would otherwise fit the round again.
    """

    positions: Ints
    query_probability: Floats
    action: Signs
    inferred: Ints
    reason: Signs
    reasons: tuple[str, ...]
    shuffled: bool = False
    doubt: Floats | None = None
    near: Ints | None = None
    near_gaps: Floats | None = None

    def __post_init__(self) -> None:
        rows = (self.positions, self.query_probability, self.action, self.inferred, self.reason)
        check_plan(*rows, len(ACTION_NAMES), len(self.reasons), self.doubt)
        check_near(self.near, self.near_gaps)

    @cached_property
    def asked(self) -> Ints:
        """Pool positions whose labels are asked for, in order."""
        return np.asarray(self.positions[self.action == ASKED])

    def with_near(self, rows: Ints | None) -> Plan:
        """Return the plan with more rows noted as near: it would have taken them, had they been in the pool.

        Without `rows`, because nobody knows which these are, nothing is noted any more.
        """
        if self.near is None or self.near_gaps is None:
            return self
        if rows is None:
            return replace(self, near=None, near_gaps=None)
        gaps = np.append(self.near_gaps, np.zeros(rows.size))
        return replace(self, near=np.append(self.near, rows), near_gaps=gaps)

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
            self.near,
            self.near_gaps,
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

    A name selects a column, a number a row, and a slice, a mask or an array of positions a table. Frames of other libraries are made by
    :meth:`to_pandas`, :meth:`to_polars` and :meth:`to_arrow`.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.types import Table
    >>> table = Table(id=np.array(["a", "b"]), label=np.array([0, 1]))
    >>> len(table), table["label"].tolist(), next(iter(table)).id
    (2, [0, 1], 'a')
    >>> table[-1], table[:1], table[table["label"] == 1]["id"].tolist()
    (Row(id='b', label=1), Table(1 rows: id, label), ['b'])
    >>> table.to_arrow().to_pydict()
    {'id': ['a', 'b'], 'label': [0, 1]}
    """

    def __init__(self, **columns: NDArray[Any]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"The columns of a table must be equally long, but have lengths {lengths}.")
        self.columns: dict[str, NDArray[Any]] = {name: frozen(np.asarray(c)) for name, c in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @overload
    def __getitem__(self, key: str) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, key: slice | Sequence[int] | NDArray[Any]) -> Table: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        if isinstance(key, SupportsIndex) and not isinstance(key, np.ndarray):
            return self._row()(
                *(c[key].item() if isinstance(c[key], np.generic) else c[key] for c in self.columns.values())
            )
        chosen = key if isinstance(key, slice) or len(key) else np.empty(0, dtype=np.int64)
        return Table(**{name: column[chosen] for name, column in self.columns.items()})

    def __iter__(self) -> Iterator[Any]:
        row = self._row()
        return (row(*values) for values in zip(*(c.tolist() for c in self.columns.values()), strict=True))

    def _row(self) -> Any:
        names = list(self.columns)
        return namedtuple("Row", names)

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {', '.join(self.columns)})"

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``."""
        import pyarrow as pa

        return pa.table({name: pa.array(column.tolist()) for name, column in self.columns.items()})

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; pandas must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``; polars must be installed."""
        import polars as pl

        return pl.DataFrame({name: column.tolist() for name, column in self.columns.items()})


@dataclass(frozen=True)
class Interval:
    """An interval around an estimate, and how it was made.

    Only `low` and `high` are promised. `estimate` is the number they were built around; it may be far from the truth if the
    interval is wide. `method` says how the interval was made. `unknown` is the share of rows of which labels can tell nothing: all of
    them may be mistakes, or none, and both ends of the interval allow for that. `most` is the largest possible value: 1 for a share.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    method: str
    unknown: float = 0.0
    most: float = 1.0

    def __post_init__(self) -> None:
        if not (self.low <= self.high and 0.0 < self.confidence < 1.0):
            raise InvalidInput(
                f"An interval needs low ≤ high and a confidence in (0, 1), but got [{self.low}, {self.high}] "
                f"at {self.confidence}."
            )

    def times(self, factor: float) -> Interval:
        """Return the interval of a value that is larger by a factor.

        Examples
        --------
        >>> Interval(0.25, 0.125, 0.5, 0.95, "normal").times(10).high
        5.0
        """
        ends = {name: factor * getattr(self, name) for name in ("estimate", "low", "high", "most")}
        return replace(self, **ends)

    def stretched(self, factor: float, because: str) -> Interval:
        """Return the interval with both ends moved away from the estimate by a factor, within 0 and 1, and say why in `method`.

        What labels cannot tell stays as it is.

        Examples
        --------
        >>> Interval(0.5, 0.25, 1.0, 0.95, "normal").stretched(1.5, "several looks").low
        0.125
        >>> Interval(0.2, 0.05, 0.65, 0.95, "normal", unknown=0.5).stretched(1.5, "several looks").high
        0.675
        """
        if self.most != 1.0:
            return self.times(1.0 / self.most).stretched(factor, because).times(self.most)
        known = 1.0 - self.unknown
        low, high = (self.low / known, (self.high - self.unknown) / known) if known > 0.0 else (0.0, 1.0)
        low = max(0.0, self.estimate - factor * max(0.0, self.estimate - low))
        high = min(1.0, self.estimate + factor * max(0.0, high - self.estimate))
        return replace(
            self,
            low=min(known * low, self.low),
            high=max(known * high + self.unknown, self.high),
            method=f"{self.method}; {because}",
        )


@dataclass(frozen=True)
class Recorded:
    """What was known when a round was opened, kept so that a report need not fit earlier rounds again.

    Parameters
    ----------
    clip, disagreement : float
        As in :class:`Round`, of the round before.
    details : tuple of pairs
        As in :class:`Round`.
    error : Interval
        The interval for the error, for a single look.
    """

    clip: float
    disagreement: float
    details: tuple[tuple[str, Any], ...]
    error: Interval


POPULATIONS = {"both": "log and pool together", "pool": "the pool", "log": "the log"}
WHEN = {
    "planned": "hold at all rounds up to the budget together",
    "always": "hold at all rounds together, however many follow",
    "once": "hold at a single round that was settled beforehand",
}


@dataclass(frozen=True)
class Goals:
    """What the intervals are about, and when enough labels are bought.

    Parameters
    ----------
    population : {"both", "pool", "log"}
        Whose error is measured: that of log and pool as one population, of the pool alone or of the log alone.
    looks : {"planned", "always", "once"}
        At which rounds the intervals hold together: all up to the budget; all, however many follow; or a single one. See
        :mod:`observal.looks`.
    tolerance : float, optional
        Stop when the labels that are left are unlikely to lower the error by more than this; None never stops for that.
    width : float, optional
        Stop when the interval for the error is narrower than this.
    objective : str
        What the classifier is for, which decides its threshold: see :mod:`observal.objectives`.
    """

    population: str = "both"
    looks: Looks = "planned"
    tolerance: float | None = None
    width: float | None = None
    objective: str = "error"

    def __post_init__(self) -> None:
        if self.population not in POPULATIONS:
            raise InvalidInput(f"population must be one of {', '.join(POPULATIONS)}, but is {self.population!r}.")
        check_looks(self.looks)
        check_objective(self.objective)
        for name in ("tolerance", "width"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < 1.0
            ):
                raise InvalidInput(
                    f"{name} must be a share between 0 and 1, or None, but is {value!r}; write 0.2 points as 0.002."
                )

    def words(self) -> str:
        """Return what the intervals are about.

        Examples
        --------
        >>> Goals("pool").words()
        'about the pool; they hold at all rounds up to the budget together'
        """
        return f"about {POPULATIONS[self.population]}; they {WHEN[self.looks]}"


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
        where the method has them, and "confounded error": the error if the log's odds of revealing a label are off by a factor of
        up to 1.5. "random rows minus log, …" are differences between rows picked at random and rows of the log like them, where there are
        enough: one that excludes 0 contradicts the log. They are computed when they are first read.
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

    @property
    def returned_round(self) -> int | None:
        """The earlier round that `estimator` is from, because it makes credibly fewer mistakes; None if it is from the last one."""
        return self.rounds[-1].details.get(RETURNED)

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InvalidInput("A result needs at least round 0, but has no rounds.")
        if len(self.queries) != self.rounds[-1].labels:
            raise InvalidInput(
                f"A result needs one query per label bought, but has {len(self.queries)} queries and "
                f"{self.rounds[-1].labels} labels."
            )

"""What a run passes around and returns: frozen records, each checked once, when it is made.

A method turns a :class:`~observal.problem.Problem` into one ``Plan`` per round; ``Query`` is what people see of it; ``Round`` and
``RunResult`` come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, Signs, check_near, check_plan, check_share, keep
from observal.errors import InvalidInput
from observal.interval import Interval
from observal.looks import Looks, check_looks
from observal.objectives import check_objective
from observal.table import Table

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
        The rows of the stack of log and pool that are as uncertain as those that the plan takes because they are uncertain, and how
        uncertain each is; labelled rows are judged as if their labels were not known. Without them, intervals fit the round again.
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

        If `rows` is None, they are not known, and the plan then records none at all.
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
    objective : tuple of pairs
        Names and intervals of what the objective is about, if that is not the error.
    """

    clip: float
    disagreement: float
    details: tuple[tuple[str, Any], ...]
    error: Interval
    objective: tuple[tuple[str, Interval], ...] = ()


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
            if (value := getattr(self, name)) is not None:
                keep(
                    self, **{name: check_share(value, name, inner=True, fix="write 0.2 points as 0.002, or give None")}
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
        One for each round; round 0 is the log alone.
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
        """The earlier round that `estimator` is from, because it very likely makes fewer mistakes; None if it is from the last one."""
        return self.rounds[-1].details.get(RETURNED)

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InvalidInput("A result needs at least round 0, but has no rounds.")
        if len(self.queries) != self.rounds[-1].labels:
            raise InvalidInput(
                f"A result needs one query per label bought, but has {len(self.queries)} queries and "
                f"{self.rounds[-1].labels} labels."
            )

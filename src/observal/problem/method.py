"""What a method is: a frozen dataclass with a few pure functions.

A method keeps nothing between calls: everything it knows after a round is in the state it returned, which it is given again
in the next call. A method of your own works in `run` and `Session` as it is. To store one in a session's file or a campaign, list it
in :mod:`observal.journal.codec`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools
from observal.problem.interval import Interval
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round


class TwoClassPredictions:
    """``predict`` and ``score`` in the caller's classes, for a classifier that can tell which rows are positive."""

    classes_: NDArray[Any]

    def positive(self, X: Any) -> Bools:
        """Return which rows are of the second class."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Return a class for each row."""
        return np.asarray(self.classes_[self.positive(X).astype(np.intp)])

    def score(self, X: Any, y: Any) -> float:
        """Return the share of rows predicted right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


class Method(Protocol):
    """The functions that a session or a campaign calls, in this order.

    ``begin`` once; then for every round ``plan`` and, when all its answers are in, ``advance``. ``describe`` and
    ``intervals`` may be called at any time. All of them are pure: the same arguments give the same result.

    Optional class variables or properties, False if a method does not have them:

    - ``stops_early``: a run may stop before the budget is spent, when more labels are unlikely to help; see :mod:`observal.intervals.stopping`.
    - ``calibrated``: the classifier's chances were set by labels that its fits had not seen, so the stopping rule can take them as they are.
    - ``plans_ahead``: more rows can be chosen while a round is open. The states must be :class:`~observal.intervals.state.PoolState`.
    - ``pool_may_grow``: states stay valid when rows are added to the pool.
    - ``by_parts``: the method looks at rows in blocks (:func:`observal.parquet.map_blocks`), so they may stay in Parquet. Other methods
      are given all rows in memory.
    - ``takes_frames``: the method is given the user's own tables, with text and missing values. Other methods are given numbers.
    - ``follows_objective``: the classifier's threshold follows the objective. Other methods refuse any objective but the error.
    - ``records_rounds``: intervals cost no further fit once a round is planned, so a campaign records them with the next round. The
      states must be PoolState.

    ``begins_without`` goes with ``curve_from_one_run = False``: it names the numbers among the settings that ``begin`` does not use, so
    that experiments begin only once for all their values.

    Optional functions, which save work or tell more:

    - ``estimator_of(problem, state)``: the classifier that ``describe`` returns, without looking at the pool.
    - ``returned_round(problem, state)``: the earlier round whose classifier is returned; None if it is the state's own.
    - ``near_of(problem, state, plan, rows)``: which of these pool rows the plan would have taken; used when the pool grows.
    - ``judged(problem, state)``: the labelled rows, their classes, what fits that have not seen them predict, and what each row stands
      for; used in the report.
    """

    curve_from_one_run: ClassVar[bool]
    """Whether round k of a long run is what a run stopped there would return. Only experiments read it."""

    def begin(self, problem: Problem, rng: np.random.Generator) -> Any:
        """Return the initial state, which knows only the log."""
        ...

    def plan(self, problem: Problem, state: Any, rng: np.random.Generator) -> Plan | Stop:
        """Decide about the next round, or say why there is none."""
        ...

    def advance(self, problem: Problem, state: Any, plan: Plan, answers: Answers, rng: np.random.Generator) -> Any:
        """Return the state after the planned round, given its answers."""
        ...

    def describe(self, problem: Problem, state: Any) -> Round:
        """Return the round as people see it."""
        ...

    def intervals(self, problem: Problem, state: Any) -> dict[str, Interval]:
        """Return intervals for the classifier that `describe` returns, on the whole population: "error" at least."""
        ...

"""What a method is: a frozen dataclass with a few pure functions.

A method keeps nothing between calls: everything it knows after a round is in the state it returned, which it is given again
in the next call. To add a method, write one file beside this one; nothing else needs to change.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools
from observal.interval import Interval
from observal.problem import Problem
from observal.types import Answers, Plan, Round, Stop


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

    A method with a class variable ``stops_early = True`` may be stopped before the budget is spent, when more labels are unlikely to
    help; see :mod:`observal.stopping`. One with ``plans_ahead = True``, whose states are
    :class:`~observal.methods.pool.PoolState`, can choose more rows while a round is still open. One
    with ``pool_may_grow = True`` goes on as it is when rows are added to the pool. One with ``curve_from_one_run = False`` names in
    ``begins_without`` the numbers among its settings that ``begin`` does not use, so that experiments begin only once for all
    their values.
    """

    curve_from_one_run: ClassVar[bool]
    """Whether round k of a long run is what a run stopped there would return."""

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

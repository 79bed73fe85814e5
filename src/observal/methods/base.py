"""What a method is: a frozen dataclass with these few functions, and nothing that changes.

A method never keeps anything between calls: what it knows after a round is the state it returned, which the session
hands back to it. To add a method, write one file beside this one; ``session.py`` needs no change.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools
from observal.types import Answers, Interval, Plan, Problem, Round, Stop


class TwoClassPredictions:
    """Predictions in the caller's classes for a classifier that can tell which rows are positive."""

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
    """The functions that the session calls, in this order.

    ``begin`` once; then for every round ``plan`` and, when all its answers are in, ``advance``. ``describe`` and
    ``intervals`` may be called at any time. All of them are pure: the same arguments give the same result.
    """

    name: ClassVar[str]
    curve_from_one_run: ClassVar[bool]
    """Whether round k of a long run is what a run stopped there would return."""

    @property
    def takes(self) -> str:
        """Return "stream" for a method that takes the pool in its order, "pool" for one that chooses from all of it."""
        ...

    def begin(self, problem: Problem, rng: np.random.Generator) -> Any:
        """Return the state after round 0: the log alone."""
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

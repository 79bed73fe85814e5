"""Passive: the baseline that asks about every row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from observal.checks import check_number, check_whole, keep
from observal.paper.epochs import check_epochs
from observal.paper.linear_methods import State, linear_error_interval, make_plan
from observal.problem.interval import Interval
from observal.problem.method import Method
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round


@dataclass(frozen=True)
class Passive(Method[State]):
    """Ask about every row of the stream, and fit a linear classifier to log and answers by importance weighting.

    Parameters
    ----------
    learning_rate : float
        η: the step size at time t is sqrt(η/(η+t)). The default is not tuned and wants rows of length about 1:
        standardise the features and divide by the square root of their number.
    passes : int
        Passes of each epoch over one fresh random order of all labelled rows so far.
    epochs : tuple of int, optional
        τ_1 ≤ τ_2 ≤ …: pool rows of each round; 10 and then ⌊1.5·τ⌋ by default. Rows left over join the last round.
    fit_intercept : bool
        Append a constant column. The paper's figure has none, because its separator goes through the centre.

    Notes
    -----
    A logged row weighs 1/Q0(x), an online row 1. Nothing is clipped or regularised; a logged row is revealed only where
    Q0(x) > 0, so that every weight is finite. An epoch continues from the last weights. T, where its clock starts, has
    grown by `passes` times the labelled rows of every epoch before.

    Examples
    --------
    >>> import observal as ob
    >>> from observal_research.datasets import Certainty, make_linear, simulate
    >>> data = make_linear(1000, 5, random_state=0)
    >>> world = simulate(data, Certainty.fit(data.X, data.y, 0), random_state=0)
    >>> result = ob.run(world.logged, world.pool, world.oracle, Passive(), label_budget=60)
    >>> [round.labels for round in result.rounds]
    [0, 10, 25, 47, 60]
    >>> result.estimator.score(world.X_test, world.y_test) > 0.8
    True
    """

    learning_rate: float = 1.0
    passes: int = 3
    epochs: tuple[int, ...] | None = None
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        keep(
            self,
            learning_rate=check_number(self.learning_rate, "learning_rate", 0.0, open_low=True),
            passes=check_whole(self.passes, "passes", 1),
        )
        check_epochs(self.epochs)

    def begin(self, problem: Problem, rng: np.random.Generator) -> State:
        """Train on the log alone."""
        problem.require_two_classes("Passive")
        return self._train(State.start(problem, self.epochs, self.fit_intercept), rng)

    def plan(self, problem: Problem, state: State, rng: np.random.Generator) -> Plan | Stop:
        """Ask about every row of the next epoch."""
        if not state.schedule:
            return Stop()
        return make_plan(state, np.ones(state.schedule[0], dtype=bool), disagreement=False)

    def advance(self, problem: Problem, state: State, plan: Plan, answers: Answers, rng: np.random.Generator) -> State:
        """Add the answers and train on all rows so far."""
        return self._train(state.after(plan, answers), rng)

    def describe(self, problem: Problem, state: State) -> Round:
        """Return the round for display."""
        return state.to_round(problem)

    def intervals(self, problem: Problem, state: State) -> dict[str, Interval]:
        """Return an interval from the log's labels that holds for every linear classifier at once."""
        return {"error": linear_error_interval(problem, state.rows, state.coef)}

    def _train(self, state: State, rng: np.random.Generator) -> State:
        importance = state.rows.plain_importance()
        weights = state.rows.in_use(importance, state.signs)
        coef, time = state.train(weights, rng, self.learning_rate, self.passes)
        return replace(state, coef=coef, time=time, importance=importance, clip=inf)

"""Active18: the active learner of Yan, Chaudhuri and Javidi (ICML 2018), and the two older ones of its paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, log, sqrt
from typing import Any, ClassVar

import numpy as np

from observal.checks import Bools, Floats, Ints, check_number, keep
from observal.paper.epochs import check_epochs, check_importance
from observal.paper.linear_methods import (
    LABELS_BEFORE_TEST,
    State,
    flip_weights,
    linear_error_interval,
    make_plan,
    mistakes,
)
from observal.paper.weights import plain_importance
from observal.problem.interval import Interval
from observal.problem.method import Method
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round

START_SHARE = 0.3
"""The share of the log that trains the start model."""


@dataclass(frozen=True)
class Active18(Method["_State"]):
    """Active learning with logged data, each epoch on its own share of the log (Yan et al., ICML 2018).

    Parameters
    ----------
    clip_constant : float
        C > 0, in the place of log(|H|/δ).
    learning_rate : float
        η: the step size at time t is sqrt(η/(η+t)). The default is not tuned and wants rows of length about 1:
        standardise the features and divide by the square root of their number.
    epochs : tuple of int, optional
        τ_1 ≤ τ_2 ≤ …: pool rows of each round; 10 and then ⌊1.5·τ⌋ by default. Rows left over join the last round.
    fit_intercept : bool
        Append a constant column. The paper's figure has none, because its separator goes through the centre.
    bias_correction, multiple_importance : bool
        Both off is that paper's importance-weighted disagreement-based learner: logged rows weigh 1/Q0, online rows 1,
        and the largest weight in the test is 1/ξ. Only `bias_correction` off is the same with multiple importance
        sampling: Q_k ≡ 1, so that every row weighs (1+α)/(α·Q0+1).

    Notes
    -----
    With n the pool's rows and α = 0.7·m/n:

    1. The first 30 % of the logged rows, each of weight 1/Q0, train the start model. The others are dealt out over the
       epochs in order, ⌊(share of the pool looked at)·(rest of the log)⌋ of them by the end of an epoch.
    2. A row of epoch k passes the gate, Q_k(x) = 1, if Q0(x) ≤ ξ_k + 1/α, where ξ_k is the least Q0 of all rows of log
       and pool in the current region; 1 where the region is empty. It is then asked about in the region, and labelled
       by the current classifier outside, as in that paper: inferred labels train too.
    3. The epoch's share of the log and its labelled rows, each of weight (1+α)/(α·Q0(x)+Q_k(x)), train for one pass
       in a random order, from the last weights, by the exactly invariant step. The clock carries on: T is the sum of
       all weights trained on.
    4. x is in the next region where, with t the rows of this epoch (its share of the log, revealed or not, and its
       online rows), L the weighted count of mistakes on them and ξ_k the one that weighted them (before the first
       epoch, the least Q0 of all rows),

       ``|2w·x| / (t·a·x·x) ≤ sqrt(c·L/t²) + c·log(t)/t`` with c = C·(1+α)/(α·ξ_k+1) and a = sqrt(η/(η+T)).

       As in ActiveVC, all rows are in it while fewer than 3 labels are bought.

    The shares depend on n: a curve is made by running afresh with each size of pool. Round 0 shows what a run without
    any pool would return, the start model trained on with the rest of the log at 1/Q0; no other round uses it. A row
    that is skipped counts as never drawn.

    Examples
    --------
    >>> import observal as ob
    >>> from observal_research.datasets import Certainty, make_linear, simulate
    >>> data = make_linear(2000, 5, random_state=0)
    >>> world = simulate(data, Certainty.fit(data.X, data.y, 0), random_state=0)
    >>> result = ob.run(world.logged, world.pool, world.oracle, Active18(clip_constant=0.04))
    >>> len(result.queries) < len(world.pool) / 2
    True
    >>> result.estimator.score(world.X_test, world.y_test) > 0.85
    True
    """

    clip_constant: float = 1.0
    learning_rate: float = 1.0
    epochs: tuple[int, ...] | None = None
    fit_intercept: bool = True
    bias_correction: bool = True
    multiple_importance: bool = True

    curve_from_one_run: ClassVar[bool] = False
    begins_without: ClassVar[tuple[str, ...]] = ("clip_constant",)

    def __post_init__(self) -> None:
        keep(
            self,
            learning_rate=check_number(self.learning_rate, "learning_rate", 0.0, open_low=True),
            clip_constant=check_number(self.clip_constant, "clip_constant", 0.0, open_low=True),
        )
        check_epochs(self.epochs)
        check_importance(self.bias_correction, self.multiple_importance)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> _State:
        """Train the start model on the first part of the log: step 1."""
        problem.require_two_classes("Active18")
        core = State.start(problem, self.epochs, self.fit_intercept)
        m = core.rows.n_logged
        n_dealt = int(START_SHARE * m)
        weights = plain_importance(core.rows.propensity)
        fit = self._learn(core, np.arange(n_dealt), weights, rng)
        rest = self._learn(core.copy_with(**fit), np.arange(n_dealt, m), weights, rng)
        state = _State(core, n_dealt, n_dealt, float(core.rows.propensity.min()), rest["coef"])
        return self._find_region(state, core, fit, n_dealt, self._alpha(problem))

    def plan(self, problem: Problem, state: _State, rng: np.random.Generator) -> Plan | Stop:
        """Take the next epoch of the stream and decide about each row: step 2."""
        if not state.core.schedule:
            return Stop()
        return make_plan(state.core, self._gate(problem, state, problem.pool.propensity[state.core.next_positions]))

    def advance(
        self, problem: Problem, state: _State, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> _State:
        """Train on the epoch's share, and find the next region: steps 3 and 4."""
        core = state.core.after(plan, answers)
        m, alpha, propensity = core.rows.n_logged, self._alpha(problem), core.rows.propensity
        n_dealt = state.start + (m - state.start) * core.looked // len(problem.pool)
        share = np.concatenate([np.arange(state.n_dealt, n_dealt), m + plan.positions])
        if self.multiple_importance:
            with np.errstate(divide="ignore"):  # a row that neither the log nor an epoch can show is never labelled
                weights = (1.0 + alpha) / (alpha * propensity + self._gate(problem, state, propensity))
        else:
            weights = core.rows.plain_importance()
        fit = self._learn(core, share, weights, rng)
        t = n_dealt - state.n_dealt + core.epochs[-1]
        next_state = _State(core, state.start, n_dealt, state.least, fit["coef"])
        return self._find_region(next_state, core, fit, t, alpha)

    def describe(self, problem: Problem, state: _State) -> Round:
        """Return the round for display."""
        return state.core.to_round(problem, state.returned_coef, least_propensity=state.least, dealt=state.n_dealt)

    def intervals(self, problem: Problem, state: _State) -> dict[str, Interval]:
        """Return an interval from the log's labels that holds for every linear classifier at once."""
        return {"error": linear_error_interval(problem, state.core.rows, state.returned_coef)}

    # -- steps 3 and 4 ------------------------------------------------------------------------------------------

    def _alpha(self, problem: Problem) -> float:
        return (1.0 - START_SHARE) * problem.n_logged / len(problem.pool)

    def _gate(self, problem: Problem, state: _State, propensity: Floats) -> Bools:
        """Return Q_k(x) of the current epoch."""
        if not self.bias_correction:
            return np.ones(propensity.size, dtype=bool)
        return np.asarray(propensity <= state.least + 1.0 / self._alpha(problem))

    def _learn(self, core: State, share: Ints, importance: Floats, rng: np.random.Generator) -> dict[str, Any]:
        """Train on some rows of the stack, and return the fields of the state that change."""
        from observal.paper.kernels.gradient import descend  # lazy: numba is slow to import

        rows, signs = core.rows, core.signs
        used = share[signs[share] != 0]
        weights = importance if rows.cost is None else rows.in_use(importance, signs)
        coef = descend(
            rows.X,
            signs,
            weights,
            used[rng.permutation(used.size)],
            core.coef,
            learning_rate=self.learning_rate,
            time=core.time,
            passes=1,
            exact_invariance=True,
        )
        loss, _ = mistakes(rows.X, coef, signs, weights, used)
        trained = weights[used]
        time = core.time + float(trained[trained < inf].sum())
        return {"coef": coef, "time": time, "importance": importance, "loss": loss}

    def _find_region(self, state: _State, core: State, fit: dict[str, Any], t: int, alpha: float) -> _State:
        """Find the region after an epoch of `t` rows, and its ξ."""
        from observal.paper.kernels.gradient import least_where  # lazy: numba is slow to import

        propensity = core.rows.propensity
        inside = np.ones(propensity.size, dtype=bool)
        largest = (1.0 + alpha) / (alpha * state.least + 1.0)
        if not self.multiple_importance:
            largest = 1.0 / state.least if state.least > 0.0 else inf
        if core.labels >= LABELS_BEFORE_TEST and isfinite(largest):
            t, c = max(t, 1), self.clip_constant * largest
            gaps = flip_weights(core.rows, fit["coef"], self.learning_rate, fit["time"])
            inside = gaps / t <= sqrt(c * fit["loss"]) / t + c * log(t) / t
        least = least_where(propensity, inside)
        core = core.copy_with(region=inside[core.rows.n_logged :], **fit)
        return _State(core, state.start, state.n_dealt, least if least < inf else 1.0, state.returned_coef)


@dataclass(frozen=True, eq=False)
class _State:
    """What is known after epoch k."""

    core: State
    start: int  # logged rows that train the start model
    n_dealt: int  # logged rows dealt out so far
    least: float  # ξ of the current region
    returned_coef: Floats = field(repr=False)  # the weights that the round shows

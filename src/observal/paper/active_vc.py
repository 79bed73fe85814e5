"""ActiveVC: the paper's Algorithm 1 as it was run, with linear classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, log, sqrt

import numpy as np

from observal.checks import Bools, Floats, check_number, check_whole, keep
from observal.paper.epochs import check_epochs, check_importance
from observal.paper.linear_methods import (
    LABELS_BEFORE_TEST,
    State,
    flip_weights,
    linear_error_interval,
    make_plan,
    mistakes,
)
from observal.paper.weights import (
    importance,
    online_mass,
    passive_clip_threshold,
    practical_clip_threshold,
    query_policy,
)
from observal.problem.interval import Interval
from observal.problem.method import Method
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round

LABELS_BEFORE_CLIP = 10
LEAST_CLIP = 10.0
"""Nothing is clipped until that many labels are bought, nor if no weight can reach `LEAST_CLIP`."""


@dataclass(frozen=True)
class ActiveVC(Method[State]):
    """Variance-controlled active learning from a log with linear classifiers, as in the paper's experiments.

    Parameters
    ----------
    clip_constant : float
        C > 0, in the place of the paper's log(|H|/δ): how much regularising, clipping and asking there is.
    learning_rate : float
        η: the step size at time t is sqrt(η/(η+t)). The default is not tuned and wants rows of length about 1:
        standardise the features and divide by the square root of their number.
    passes : int
        Passes of each epoch over one fresh random order of all labelled rows so far.
    epochs : tuple of int, optional
        τ_1 ≤ τ_2 ≤ …: pool rows of each round; 10 and then ⌊1.5·τ⌋ by default. Rows left over join the last round.
    fit_intercept : bool
        Append a constant column. The paper's figure has none, because its separator goes through the centre.
    clip, regulariser, bias_correction, multiple_importance, disagreement, infer : bool
        Parts that can be switched off. Without `clip` no row is dropped, and the largest possible weight stands for
        M_k in the test. Without `regulariser` steps have no second-moment factor, and V̂ in the test becomes its bound
        M_k·l(ĥ_k). Without `bias_correction` every row may be asked about (Q_k ≡ 1). Without `multiple_importance`
        (only together with no `bias_correction`) logged rows weigh 1/Q0 and online rows 1. Without `disagreement`
        every row that passes the gate is asked about. Without `infer` a row outside the region gets no label.

    Notes
    -----
    After epoch k, with N = m + n_k and S̃_k all rows so far, their labels revealed, queried or inferred:

    1. M_k = inf{M ≥ 1 : C·M/N ≥ P(N/(m·Q0+n_k) > M)} over all logged rows, revealed or not
       (``practical_clip_threshold``). Until 10 labels are bought, or where 2(m+n)/(m·q0+n) is below 10,
       M_k = 2N/(m·q0+n_k) with q0 the log's least propensity, which no weight of such a row exceeds.
    2. Train from the last weights on all labelled rows with w_k(x) ≤ M_k, w_k = N/(m·Q0 + Σ τ_i·Q_i), by
       importance-aware gradient descent with the second-moment factor (c = C). T starts at 0 and grows by `passes` times
       the labelled rows, those above M_k included.
    3. A row is in the region while fewer than 3 labels are bought when its round opens, and then where

       ``|2w·x| / (N·a·x·x) ≤ sqrt(C·V̂/N) + C·M_k·log(N)/N`` with a = sqrt(η/(η+T)),

       V̂ = (1/N)·Σ w_k²·1{w_k ≤ M_k}·1{ĥ_k(x) ≠ ỹ}, and T the clock after the epoch: the size that the next step
       starts from. (The paper's text omits the division by N and the logarithm.)
    4. A row of the next epoch with 2·n_{k+1} > m·Q0(x) is asked about inside the region, and labelled by ĥ_k outside;
       other rows are passed.

    A row that is skipped counts as never drawn. A round's decisions are fixed when it opens, so that the counts of 3 and
    10 labels are those of closed rounds. Log and pool are taken to be samples of one population.

    Examples
    --------
    >>> import observal as ob
    >>> from observal_research.datasets import Certainty, make_linear, simulate
    >>> data = make_linear(2000, 5, random_state=0)
    >>> world = simulate(data, Certainty.fit(data.X, data.y, 0), random_state=0)
    >>> result = ob.run(world.logged, world.pool, world.oracle, ActiveVC())
    >>> len(result.queries) < len(world.pool) / 2
    True
    >>> result.estimator.score(world.X_test, world.y_test) > 0.85
    True
    """

    clip_constant: float = 1.0
    learning_rate: float = 1.0
    passes: int = 3
    epochs: tuple[int, ...] | None = None
    fit_intercept: bool = True
    clip: bool = True
    regulariser: bool = True
    bias_correction: bool = True
    multiple_importance: bool = True
    disagreement: bool = True
    infer: bool = True

    def __post_init__(self) -> None:
        keep(
            self,
            learning_rate=check_number(self.learning_rate, "learning_rate", 0.0, open_low=True),
            clip_constant=check_number(self.clip_constant, "clip_constant", 0.0, open_low=True),
            passes=check_whole(self.passes, "passes", 1),
        )
        check_epochs(self.epochs)
        check_importance(self.bias_correction, self.multiple_importance)

    def begin(self, problem: Problem, rng: np.random.Generator) -> State:
        """Train on the log alone: w_0 = 1/Q0."""
        problem.require_two_classes("ActiveVC")
        return self._train(State.start(problem, self.epochs, self.fit_intercept), rng)

    def plan(self, problem: Problem, state: State, rng: np.random.Generator) -> Plan | Stop:
        """Take the next epoch of the stream and decide about each row: step 4."""
        if not state.schedule:
            return Stop()
        gate = np.ones(state.schedule[0], dtype=bool)
        if self.bias_correction:
            propensity = problem.pool.propensity[state.next_positions]
            gate = query_policy(propensity, problem.n_logged, state.next_gate)
        return make_plan(state, gate, self.disagreement, self.infer)

    def advance(self, problem: Problem, state: State, plan: Plan, answers: Answers, rng: np.random.Generator) -> State:
        """Add an epoch with its queried and inferred labels, and train on all rows so far: steps 1 to 3."""
        return self._train(state.after(plan, answers), rng)

    def describe(self, problem: Problem, state: State) -> Round:
        """Return the round for display."""
        return state.to_round(problem, estimated_loss=state.loss, second_moment=state.second_moment)

    def intervals(self, problem: Problem, state: State) -> dict[str, Interval]:
        """Return an interval from the log's labels that holds for every linear classifier at once."""
        return {"error": linear_error_interval(problem, state.rows, state.coef)}

    # -- steps 1 to 3 -------------------------------------------------------------------------------------------

    def _train(self, state: State, rng: np.random.Generator) -> State:
        rows = state.rows
        bound = self._largest_clip(state)
        clip = bound if self.clip else inf
        importance_k = self._importance(state)
        weights = rows.in_use(importance_k, state.signs, clip)
        coef, time = state.train(
            weights, rng, self.learning_rate, self.passes, self.clip_constant if self.regulariser else 0.0
        )
        end, n_rows = rows.n_logged + state.looked, rows.n_logged + state.counted
        first, second = mistakes(rows.X[:end], coef, state.signs[:end], weights[:end])
        state = state.copy_with(
            coef=coef,
            time=time,
            clip=clip,
            importance=importance_k,
            loss=first / n_rows,
            second_moment=second / n_rows,
        )
        return state.copy_with(region=self._region(state, bound, n_rows))

    def _largest_clip(self, state: State) -> float:
        """Return M_k; without clipping, a bound on every weight."""
        propensity = state.rows.sorted_log_propensity
        m, n, least = state.rows.n_logged, state.counted, float(propensity[0])
        if self.multiple_importance:
            largest = 2.0 * (m + n) / (m * least + n) if m * least + n > 0.0 else inf
        else:
            largest = 1.0 / least if least > 0.0 else inf
        if not self.clip or state.labels < LABELS_BEFORE_CLIP or largest < LEAST_CLIP:
            return largest
        if self.multiple_importance:
            return practical_clip_threshold(propensity, m, n, self.clip_constant)
        return passive_clip_threshold(propensity, m + n, self.clip_constant / 2.0)  # weights 1/Q0, and no factor 2

    def _importance(self, state: State) -> Floats:
        rows = state.rows
        if not self.multiple_importance:
            return rows.plain_importance()
        mass: Floats | float = float(state.counted)
        if self.bias_correction:
            mass = online_mass(rows.propensity, rows.n_logged, state.epochs, state.gates)
        return importance(rows.propensity, rows.n_logged, state.counted, mass)

    def _region(self, state: State, bound: float, n_rows: int) -> Bools:
        if not self.disagreement or state.labels < LABELS_BEFORE_TEST or not isfinite(bound):
            return np.ones(state.region.size, dtype=bool)
        second = state.second_moment if self.regulariser else bound * state.loss
        threshold = sqrt(self.clip_constant * second / n_rows) + self.clip_constant * bound * log(n_rows) / n_rows
        gaps = flip_weights(state.rows, state.coef, self.learning_rate, state.time, state.rows.n_logged)
        return np.asarray(gaps / n_rows <= threshold)

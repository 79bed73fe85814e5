"""What the paper's three linear learners share: classifiers, training, and the state between rounds.

The appendix "Experiments" of the paper describes them. Rows of log and pool are stacked once, the log first, so one vector of
labels and one of weights cover all rows; a row without a label has the sign 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, repeat
from math import e, inf, isfinite, log, sqrt
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, Signs
from observal.paper.epochs import EpochState, fit_epochs
from observal.paper.risk import clipped
from observal.paper.weights import passive_clip_threshold, plain_importance
from observal.problem.interval import CONFIDENCE, Interval
from observal.problem.method import TwoClassPredictions
from observal.problem.plan import ASKED, INFERRED, PASSED, Answers, Plan
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.rows import Features, Matrix, rows_to_predict, with_constant

REASONS = (
    "a small weight on this row would flip the prediction",
    "the prediction is certain enough, so the label is inferred",
    "the log has enough labels here",
    "every row is asked about",
    "the prediction is certain enough, and labels are not inferred",
)
DISPUTED, SETTLED, WELL_LOGGED, EVERYTHING, LEFT_OUT = range(5)
ACTIONS = np.array([ASKED, INFERRED, PASSED, ASKED, PASSED], dtype=np.int8)

LABELS_BEFORE_TEST = 3
"""Until that many labels are bought, every row is in the disagreement region."""


@dataclass(frozen=True, eq=False)
class LinearClassifier(TwoClassPredictions):
    """A linear separator as a classifier, with scikit-learn's names; made without fitting anything.

    Examples
    --------
    >>> import numpy as np
    >>> model = LinearClassifier(np.array([[1.0, -1.0]]), np.zeros(1), np.array(["no", "yes"]))
    >>> model.predict([[2.0, 1.0], [1.0, 2.0]]).tolist(), model.score([[2.0, 1.0]], ["yes"])
    (['yes', 'no'], 1.0)
    """

    coef_: Floats  # w, of shape (1, features)
    intercept_: Floats  # what is added to w·x
    classes_: NDArray[Any]  # the second is predicted where the sum is positive

    def decision_function(self, X: Features) -> Floats:
        """Return w·x plus the intercept for each row."""
        rows = rows_to_predict(X, self.coef_.shape[1], self).to_matrix()
        scores: Floats = np.asarray(rows @ self.coef_[0], dtype=np.float64) + self.intercept_[0]
        return scores

    def positive(self, X: Features) -> Bools:
        """Return which rows are predicted to be of the second class."""
        return np.asarray(self.decision_function(X) > 0.0)


@dataclass(frozen=True, eq=False)
class Stack:
    """Log and pool as the kernels need them: one stack, the log first."""

    X: Matrix
    n_logged: int
    propensity: Floats
    sorted_log_propensity: Floats
    cost: Floats | None
    has_constant: bool

    @classmethod
    def of(cls, problem: Problem, fit_intercept: bool) -> Stack:
        """Stack the rows of a problem, once; `fit_intercept` appends a column of ones."""
        stacks = _stacks.setdefault(problem, {})
        if fit_intercept not in stacks:
            X = problem.stack().to_matrix()
            stacks[fit_intercept] = cls(
                with_constant(X) if fit_intercept else X,
                problem.n_logged,
                problem.propensity,
                np.sort(problem.logged.propensity),
                problem.cost,
                fit_intercept,
            )
        return stacks[fit_intercept]

    @cached_property
    def norms(self) -> Floats:
        """x·x of each row of the stack."""
        from observal.paper.kernels.gradient import squared_norms  # lazy: numba is slow to import

        return squared_norms(self.X)

    def plain_importance(self) -> Floats:
        """Return 1/Q0 for each logged row, and 1 for each row of the pool."""
        return np.append(
            plain_importance(self.propensity[: self.n_logged]), np.ones(self.propensity.size - self.n_logged)
        )

    def in_use(self, importance: Floats, signs: Signs, clip: float = inf) -> Floats:
        """Return the weights to train and count with: infinite (left out by the kernels) without label or above `clip`."""
        use = (signs != 0) & (importance <= clip) & (importance < inf)
        weights = np.where(use, importance, inf)
        if self.cost is not None:
            weights[use] *= self.cost[use]
        return weights

    def classifier(self, coef: Floats, classes: NDArray[Any]) -> LinearClassifier:
        """Return the classifier with these weights."""
        if self.has_constant:
            return LinearClassifier(coef[np.newaxis, :-1], coef[-1:], classes)
        return LinearClassifier(coef[np.newaxis], np.zeros(1), classes)


_stacks: WeakKeyDictionary[Problem, dict[bool, Stack]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False, kw_only=True)
class State(EpochState):
    """What is known after epoch k."""

    rows: Stack = field(repr=False)
    signs: Signs  # revealed, queried or inferred labels of the stack, 0 where there is none
    coef: Floats
    region: Bools  # which pool rows are in the disagreement region
    time: float = 0.0  # T: where the next epoch's clock starts
    clip: float = inf
    importance: Floats = field(default_factory=lambda: np.empty(0))  # of the stack, in the last training
    loss: float = np.nan  # clipped weighted mistakes, divided by the rows they stand for
    second_moment: float = np.nan  # V̂, likewise

    @classmethod
    def start(cls, problem: Problem, epochs: tuple[int, ...] | None, fit_intercept: bool) -> State:
        """Return the initial state."""
        rows, logged = Stack.of(problem, fit_intercept), problem.logged
        signs = np.zeros(rows.propensity.size, dtype=np.int8)
        signs[: rows.n_logged][logged.revealed] = 2 * logged.codes[logged.revealed] - 1
        return cls(
            schedule=schedule(epochs, len(problem.pool)),
            rows=rows,
            signs=signs,
            coef=np.zeros(rows.X.shape[1]),
            region=np.ones(len(problem.pool), dtype=bool),
        )

    def after(self, plan: Plan, answers: Answers) -> State:
        """Return the state with a round's labels in place; nothing is trained yet."""
        m, signs = self.rows.n_logged, self.signs.copy()
        inferred = plan.action == INFERRED
        signs[m + plan.positions[inferred]] = 2 * plan.inferred[inferred] - 1
        signs[m + plan.asked[answers.answered]] = 2 * answers.codes[answers.answered] - 1
        return self.copy_with(signs=signs, **self.fields_after(plan, answers))

    def train(
        self,
        weights: Floats,
        rng: np.random.Generator,
        learning_rate: float,
        passes: int,
        second_moment: float = 0.0,
    ) -> tuple[Floats, float]:
        """Return the weights and the clock after an epoch on all labelled rows so far, in one fresh random order.

        T grows by `passes` times the labelled rows, those above the clip included.
        """
        from observal.paper.kernels.gradient import descend  # lazy: numba is slow to import

        order = rng.permutation(np.flatnonzero(self.signs))
        coef = descend(
            self.rows.X,
            self.signs,
            weights,
            order,
            self.coef,
            learning_rate=learning_rate,
            time=self.time,
            passes=passes,
            second_moment=second_moment,
        )
        return coef, self.time + float(passes * order.size)

    def to_round(self, problem: Problem, coef: Floats | None = None, **details: Any) -> Round:
        """Return the round for display; `coef` where another classifier than the state's is shown."""
        return self.as_round(
            clip=self.clip,
            disagreement=float(self.region.mean()),
            estimator=self.rows.classifier(self.coef if coef is None else coef, problem.logged.classes),
            details=details,
        )


def make_plan(state: State, gate: Bools, disagreement: bool = True, infer: bool = True) -> Plan:
    """Decide about the rows of the coming epoch: pass where the gate is shut, else ask in the region, else infer."""
    positions = state.next_positions
    disputed = state.region[positions] if disagreement else np.ones(positions.size, dtype=bool)
    settled = SETTLED if infer else LEFT_OUT
    reason = np.where(gate, np.where(disputed, DISPUTED if disagreement else EVERYTHING, settled), WELL_LOGGED)
    action = ACTIONS[reason]
    m = state.rows.n_logged
    margins = np.asarray(state.rows.X[m + state.looked : m + state.looked + positions.size] @ state.coef)
    return Plan(
        positions,
        (action == ASKED).astype(np.float64),
        action,
        (margins > 0.0).astype(np.int64),
        reason.astype(np.int8),
        REASONS,
    )


def flip_weights(rows: Stack, coef: Floats, learning_rate: float, time: float, first: int = 0) -> Floats:
    """Return the gap of each row from `first` on: the importance weight that would flip it, at the step size of `time`."""
    from observal.paper.kernels.gradient import flip_gaps  # lazy: numba is slow to import

    return flip_gaps(coef, rows.X[first:], sqrt(learning_rate / (learning_rate + time)), rows.norms[first:])


def mistakes(X: Matrix, coef: Floats, signs: Signs, weights: Floats, rows: Ints | None = None) -> tuple[float, float]:
    """Return Σ w and Σ w² over the rows predicted wrong, of `rows` or all; rows of infinite weight are left out."""
    from observal.paper.kernels.gradient import second_moment_sums  # lazy: numba is slow to import

    return second_moment_sums(coef, X, signs, weights, rows=rows)


def schedule(epochs: tuple[int, ...] | None, n_pool: int) -> tuple[int, ...]:
    """Return epoch sizes that never shrink, 10 and then ⌊1.5·τ⌋ by default; the rows left over join the last one.

    Examples
    --------
    >>> schedule(None, 100), schedule((40,), 100), schedule(None, 7)
    ((10, 15, 22, 53), (100,), (7,))
    """
    return fit_epochs(growing_epochs() if epochs is None else epochs, n_pool)


def growing_epochs() -> Iterator[int]:
    """Yield the epoch sizes of the paper's experiments: τ_1 = 10, τ_{k+1} = ⌊1.5·τ_k⌋."""
    return accumulate(repeat(10), lambda size, _: size * 3 // 2)


def linear_error_interval(problem: Problem, rows: Stack, coef: Floats) -> Interval:
    """Return an interval for the population error that holds for every linear classifier at once, on the log alone.

    With F = {z·w·1{w ≤ M}·1{h(x) ≠ y}/M}, w = 1/Q0, over all linear h, the empirical Bernstein bound of Maurer and
    Pontil (2009, theorem 6) for F and 1 − F says, with probability 1 − 2δ' for all h at once,

    ``|l̂_M(h) − l_M(h)| ≤ M·(sqrt(18·v̂·L/m) + 15·L/(m − 1))`` with L = log(10·Π(2m)/δ'),

    v̂ being the sample variance of F's member and Π(N) ≤ (eN/D)^D the Sauer-Shelah count of the dichotomies of N rows in
    D columns. M and the hidden mass P(w > M) come from the pool's propensities, which do not depend on the log; the
    mass is made safe for every M by the Dvoretzky-Kiefer-Wolfowitz inequality at the third δ' = δ/3. Valid where log
    and pool are samples of one population, m ≥ 16; wide, because it covers every choice that training can make.
    """
    logged, pool, m = problem.logged, problem.pool, rows.n_logged
    part = (1.0 - CONFIDENCE) / 3.0
    columns, points = rows.X.shape[1], 2 * m
    dichotomies = columns * log(e * points / columns) if 0 < columns < points else points * log(2.0)
    log_term = log(10.0 / part) + dichotomies
    clip = passive_clip_threshold(pool.propensity, m, log_term)
    method = f"empirical Bernstein, uniform over linear classifiers of {columns} weights, on the log's labels"
    scores = rows.X[:m] @ coef
    weights = clipped(plain_importance(logged.propensity), clip, logged.revealed & ((scores > 0) != (logged.codes > 0)))
    losses = weights if logged.cost is None else weights * logged.cost
    estimate = float(losses.mean())
    if m < 16 or not isfinite(clip):
        return Interval(min(1.0, estimate), 0.0, 1.0, CONFIDENCE, f"{method}: too few rows or no finite weight bound")
    slack = sqrt(18.0 * float(losses.var(ddof=1)) * log_term / m) + 15.0 * clip * log_term / (m - 1)
    hidden = float(np.mean(plain_importance(pool.propensity) > clip)) + sqrt(log(1.0 / part) / (2.0 * len(pool)))
    low, high = np.clip([estimate - slack, estimate + slack + hidden], 0.0, 1.0).tolist()
    return Interval(min(1.0, estimate), low, high, CONFIDENCE, method)

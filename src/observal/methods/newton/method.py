"""NewtonVC: few labels for a linear classifier, chosen from a pool or a stream by how easily each row's sign flips."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, rows_to_predict
from observal.errors import InvalidInput
from observal.methods.base import TwoClassPredictions
from observal.methods.pool import Choice, PoolState, check_numbers, draw, draw_plan, least_chance
from observal.types import Answers, Interval, Plan, Problem, Round, Stop

FEATURES = ("linear", "splines", "fourier", "auto")


@dataclass(frozen=True)
class NewtonVC:
    """Logistic regression on clipped, tempered importance weights; asks for the rows whose sign flips most easily.

    Two fits of the same labels: the first asks, the second, which minds rows near the boundary more, is returned.

    Parameters
    ----------
    batch, floor, gate_share, rows_per_label
        How a round chooses; see :class:`~observal.methods.pool.Choice`.
    tempering : "auto" or float
        Weights are raised to this power: 1 is the full correction, 0 none. "auto" is ½, because a little bias costs less
        than the variance it saves, unless the labels at hand say that it costs too much: 1 where the fully weighted
        log loss out of fold is lower than at ½ by more than two standard errors.
    clip : bool
        Whether weights are cut at the paper's threshold.
    capacity : float
        Stands for the log term of that threshold, as C in the paper's experiments.
    ridge : "auto" or float
        The ridge of both fits; "auto" chooses it for the first by importance-weighted cross-validation on the labels at hand.
    penalty : float
        λ of the second-moment regulariser sqrt(λ/N·V̂), solved by majorisation.
    features : {"linear", "splines", "fourier", "auto"}
        What the linear model sees; "auto" chooses by the same cross-validation.
    near : bool
        Whether what is returned is fitted again, rows counting for more the nearer they are to the boundary: fewer mistakes,
        and chances that are good near the boundary rather than everywhere. See
        :func:`~observal.learners.tuned_logistic.near_boundary`. Which rows are asked about does not depend on it.
    curvature : bool
        Whether rows are ordered by the flip gap; without it by the margin alone, as uncertainty sampling does.
    settled : float
        Stop when the expected share of the first fit's predictions that more labels would change is below this: of the
        pool's, or of the log's where the pool is a stream.
    order : {"pool", "stream"}
        Choose from the whole pool, or take its rows in their order and decide on each when it comes by; see
        :func:`~observal.methods.newton.stream.stream_chances`. A stream looks at no row before its turn, also not to
        standardise. A place in the stream is what it is, and rows come in no order: `rows_per_label` and `curvature` are for
        pools.
    doubt : float
        A row is in doubt where its chance of a flip is above this; the gate is for such rows alone.

    Notes
    -----
    With F the objective of the first fit, H its Hessian and A the effective number of labelled rows, raising A·F by
    ``gap(x) = A·(w·x)² / (2·xᵀH⁻¹x)`` is enough to flip the sign at x. That is exact for a quadratic F, and for the
    logistic loss it is its second-order approximation at the minimum; it is best where the gap is small, which is where
    it is used. The chance of a flip is read off as Φ(−sqrt(2·gap)), as if the weights were normal around the fit.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> chance = np.where(X[:, 0] > 0, 0.5, 0.02)
    >>> shown = rng.random(300) < chance[:300]
    >>> logged = ob.LoggedData(X[:300], np.where(shown, y[:300], None), chance[:300])
    >>> pool = ob.Pool(X[300:], chance[300:])
    >>> result = ob.run(logged, pool, lambda ids: y[300:][ids], ob.NewtonVC(), label_budget=40)
    >>> result.estimator.score(X, y) > 0.95
    True
    """

    batch: int = 10
    floor: float = 0.1
    gate_share: float = 0.5
    rows_per_label: float = 1.0
    tempering: float | Literal["auto"] = "auto"
    clip: bool = True
    capacity: float = 4.0
    ridge: float | Literal["auto"] = "auto"
    penalty: float = 0.0
    features: Literal["linear", "splines", "fourier", "auto"] = "linear"
    near: bool = True
    curvature: bool = True
    settled: float = 1e-4
    order: Literal["pool", "stream"] = "pool"
    doubt: float = 0.05

    name: ClassVar[str] = "newton_vc"
    curve_from_one_run: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.choice  # noqa: B018  the settings check themselves
        check_numbers(self, "capacity", "penalty", "settled", "doubt")
        for name in ("clip", "near", "curvature"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} must be True or False, but is {getattr(self, name)!r}.")
        if self.features not in FEATURES:
            raise InvalidInput(f"features must be one of {FEATURES}, but is {self.features!r}.")
        for name in ("tempering", "ridge"):
            value = getattr(self, name)
            if value != "auto" and not (isinstance(value, int | float) and 0.0 <= value < np.inf):
                raise InvalidInput(f'{name} must be "auto" or a finite number of at least 0, but is {value!r}.')
        if self.order not in ("pool", "stream") or not 0.0 < self.doubt < 0.5:
            raise InvalidInput(
                'order must be "pool" or "stream" and doubt between 0 and 0.5, but they are '
                f"{self.order!r} and {self.doubt!r}."
            )
        if not (self.capacity > 0.0 and self.penalty >= 0.0 and self.settled >= 0.0):
            raise InvalidInput(
                "capacity must be above 0, and penalty and settled at least 0, but they are "
                f"{self.capacity}, {self.penalty} and {self.settled}."
            )

    @property
    def takes(self) -> str:
        """Whether it takes the pool in its order or chooses from all of it."""
        return self.order

    @property
    def choice(self) -> Choice:
        """How a round chooses."""
        return Choice(self.batch, self.floor, self.gate_share, self.rows_per_label)

    @property
    def doubtful_gap(self) -> float:
        """The gap at which the chance of a flip, Φ(−sqrt(2·gap)), is `doubt`."""
        from scipy.special import ndtri

        return 0.5 * float(ndtri(self.doubt)) ** 2

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Stand before the first round: the log alone."""
        from observal.methods.newton.model import Fitter

        problem.require_two_classes("NewtonVC")
        return PoolState.start(problem, Fitter.of(self, problem), self.order == "stream")

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round."""
        if not state.any_left(problem):
            return Stop()
        model = state.model
        if state.bought.size and model.flips < self.settled:
            judged = "log" if self.order == "stream" else "pool"
            return Stop(
                f"further labels are unlikely to change anything: they would change about {model.flips:.2%} "
                f"of the {judged}'s predictions, below {self.settled:.2%}"
            )
        if self.order == "stream":
            from observal.methods.newton.stream import stream_plan

            return stream_plan(self, problem, state, rng)
        order = model.judged_gaps if self.curvature else model.pool_margins
        return draw_plan(draw(problem, state, self.choice, order, model.judged_gaps < self.doubtful_gap), rng)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        n_bought = state.bought.size + int(answers.answered.sum())
        return state.after(plan, answers, state.fit.after(state, n_bought))

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round as people see it."""
        model, fit = state.model, state.model.answering.fit
        estimator = NewtonClassifier(
            model.feature_map, fit.coef[None, :], np.array([fit.intercept]), problem.logged.classes
        )
        return state.as_round(
            estimator=estimator,
            clip=model.labels.clip,
            disagreement=model.flips,
            least_chance=self.floor if self.order == "stream" else least_chance(problem, state, self.choice),
            **model.chosen._asdict(),
        )

    def intervals(self, problem: Problem, state: PoolState) -> dict[str, Interval]:
        """Return intervals for error, precision, recall and prevalence, costs aside.

        See :mod:`observal.methods.intervals`.
        """
        from threadpoolctl import threadpool_limits

        from observal.methods.intervals import population_intervals

        def gaps(before: PoolState, rows: Ints) -> Floats:
            return np.asarray(before.model.unlabelled_gaps(rows))

        model = state.model
        with threadpool_limits(1):  # many small products, as in the fit
            return population_intervals(problem, state, gaps, model.scores_of, model.out_of_fold)


@dataclass(frozen=True, eq=False)
class NewtonClassifier(TwoClassPredictions):
    """What NewtonVC returns: a linear classifier with its feature handling inside.

    `coef_` and `intercept_` are of the features as `feature_map` gives them: standardised and, where asked for, expanded.
    """

    feature_map: Any = field(repr=False)
    coef_: Floats = field(repr=False)
    intercept_: Floats
    classes_: NDArray[Any] = field(repr=False)

    def decision_function(self, X: Any) -> Floats:
        """Return how far each row is on the side of the second class."""
        rows = rows_to_predict(X, self.feature_map.mean.size)
        return np.asarray(self.feature_map(rows) @ self.coef_[0] + self.intercept_[0])

    def positive(self, X: Any) -> Bools:
        """Return which rows are on the side of the second class."""
        return np.asarray(self.decision_function(X) > 0.0)

    def predict_proba(self, X: Any) -> Floats:
        """Return the fitted chance of each class; fitted near the boundary, it is somewhat too sure far from it."""
        from scipy.special import expit

        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])

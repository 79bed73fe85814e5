"""NewtonVC: a linear classifier from few labels, chosen from a pool or a stream by how easily each row's sign flips."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, check_flag, check_number, keep, rows_to_predict
from observal.errors import InvalidInput
from observal.intervals.state import PoolState
from observal.intervals.thresholds import ThresholdClassifier
from observal.methods.draw import Choice, draw, draw_plan, least_chance
from observal.methods.stream import StreamRule, StreamState, stream_plan
from observal.problem.interval import Interval
from observal.problem.method import Method, TwoClassPredictions
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import RETURNED, Round

FEATURES = ("linear", "splines", "fourier", "auto")


class FixedSettings(NamedTuple):
    """Settings of NewtonVC that are fixed, because changing them was never seen to help (docs/methods.md)."""

    clip_constant: float | None = 4.0
    """Takes the place of the log term in the paper's clip threshold; None clips nothing."""
    penalty: float = 0.0
    """λ of the second-moment regulariser sqrt(λ/N·V̂)."""
    curvature: bool = True
    """Whether rows are ordered by the flip gap; otherwise by the margin alone, as in uncertainty sampling."""
    doubt: float = 0.05
    """A row is uncertain if its chance of a flip is above this."""
    return_earlier: bool = True
    """Whether the classifier of the log alone is returned if it makes fewer mistakes than the last one, with 97.5 % confidence."""


@dataclass(frozen=True)
class NewtonVC(Method[PoolState]):
    """Logistic regression on clipped, tempered importance weights; asks for the rows whose sign flips most easily.

    There are two fits of the same labels. The first decides what to ask. The second, which up-weights rows near the boundary,
    is returned, unless the classifier of the log alone makes fewer mistakes with 97.5 % confidence (:mod:`observal.methods.newton.earlier`).

    Parameters
    ----------
    batch : int
        Labels per round.
    explore_share : float
        The share of each batch that is picked at random, so every row can be chosen; on a stream, the chance of asking about
        a row whose prediction is certain.
    gate_share : float
        The share of each batch that goes to uncertain rows where the log has few labels; 0 switches this gate off. See
        :mod:`observal.methods.draw`.
    tempering : "auto" or float
        Importance weights are raised to this power: 1 is the full correction, 0 none. "auto" is ½, because a little bias costs
        less than the variance it saves. It becomes 1 if the fully weighted log loss out of fold is lower than at ½ by more
        than two standard errors.
    ridge : "auto" or float
        The ridge of both fits; "auto" chooses it for the first by importance-weighted cross-validation.
    features : {"linear", "splines", "fourier", "auto"}
        What the linear model sees; "auto" chooses by the same cross-validation.
    refit_near_boundary : bool
        Whether the returned classifier is a second fit that up-weights rows near the boundary. It makes fewer mistakes; its
        probabilities are good near the boundary but too confident far from it. Which rows are asked about does not depend on
        it. See :func:`~observal.learners.tuned_logistic.near_boundary`.
    stop_below : float
        Stop when more labels are expected to change less than this share of the first fit's predictions: on the pool, or on
        the log if the pool is a stream.
    order : {"pool", "stream"}
        Choose from the whole pool, or take its rows in order and decide on each one as it arrives; see
        :func:`~observal.methods.stream.stream_chances`. On a stream no row is looked at before its turn, not even to
        standardise features.

    Notes
    -----
    With F the objective of the first fit, H its Hessian and A the effective number of labelled rows, raising A·F by
    ``gap(x) = A·(w·x)² / (2·xᵀH⁻¹x)`` is enough to flip the sign at x. This is exact for a quadratic F. For the logistic loss
    it is the second-order approximation at the minimum, which is best for small gaps, where it is used. The chance of a flip
    is taken as Φ(−sqrt(2·gap)), as if the weights were normal around the fit; a row is uncertain if it is above 5 %.

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
    explore_share: float = 0.1
    gate_share: float = 0.5
    tempering: float | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = "auto"
    features: Literal["linear", "splines", "fourier", "auto"] = "linear"
    refit_near_boundary: bool = True
    stop_below: float = 1e-4
    order: Literal["pool", "stream"] = "pool"

    stops_early: ClassVar[bool] = True
    follows_objective: ClassVar[bool] = True
    by_parts: ClassVar[bool] = True
    pool_may_grow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        choice = self.choice  # it checks itself
        keep(
            self,
            batch=choice.batch,
            explore_share=choice.explore_share,
            gate_share=choice.gate_share,
            tempering=check_number(self.tempering, "tempering", 0.0, word="auto"),
            ridge=check_number(self.ridge, "ridge", 0.0, word="auto"),
            refit_near_boundary=check_flag(self.refit_near_boundary, "refit_near_boundary"),
            stop_below=check_number(self.stop_below, "stop_below", 0.0, fix="0 never stops early"),
        )
        if self.features not in FEATURES:
            raise InvalidInput(f"features must be one of {FEATURES}, but is {self.features!r}.")
        if self.order not in ("pool", "stream"):
            raise InvalidInput(f'order must be "pool" or "stream", but is {self.order!r}.')

    @property
    def plans_ahead(self) -> bool:
        """Whether the next rows can be chosen while a round is open; a stream is taken in order."""
        return self.order == "pool"

    @property
    def fixed(self) -> FixedSettings:
        """The settings that a user cannot change."""
        return FixedSettings()

    @property
    def choice(self) -> Choice:
        """How a round chooses."""
        return Choice(self.batch, self.explore_share, self.gate_share)

    @property
    def uncertain_gap(self) -> float:
        """The gap below which a row is uncertain: its chance of a flip, Φ(−sqrt(2·gap)), is above `fixed.doubt`."""
        from scipy.special import ndtri

        return 0.5 * float(ndtri(self.fixed.doubt)) ** 2

    @property
    def stream_rule(self) -> StreamRule:
        """How rows of a stream are decided on."""
        return StreamRule(self.uncertain_gap, self.batch, self.explore_share, self.gate_share)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Return the initial state."""
        from observal.methods.newton.model import Fitter

        problem.require_two_classes("NewtonVC")
        kind = StreamState if self.order == "stream" else PoolState
        return kind.start(problem, Fitter.of(self, problem))

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round."""
        if not state.any_left(problem):
            return Stop()
        model = state.model
        if state.bought.size and model.flips < self.stop_below:
            where = "log" if self.order == "stream" else "pool"
            return Stop(
                f"more labels would change only about {model.flips:.2%} of the {where}'s predictions, "
                f"less than stop_below = {self.stop_below:.2%}"
            )
        if isinstance(state, StreamState):
            return stream_plan(self.stream_rule, problem, state, rng)
        order = model.judged_gaps if self.fixed.curvature else model.pool_margins
        return draw_plan(draw(problem, state, self.choice, order, model.judged_gaps < self.uncertain_gap), rng)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        n_bought = state.bought.size + int(answers.answered.sum())
        return state.after(plan, answers, state.fit.after(state, n_bought))

    def estimator_of(self, problem: Problem, state: PoolState) -> Any:
        """Return the classifier of a state without looking at the pool."""
        model, classes = state.model.returned.model, problem.logged.classes
        fit = model.output_fit.fit
        found = NewtonClassifier(model.feature_map, fit.coef[None, :], np.array([fit.intercept]), classes)
        return ThresholdClassifier(found, 1.0 / (1.0 + float(np.exp(-model.threshold)))) if model.follows else found

    def returned_round(self, problem: Problem, state: PoolState) -> int | None:
        """Return the earlier round whose classifier a run that ends here returns; None if it returns its own."""
        returned = state.model.returned
        return None if returned is state else int(returned.rounds)

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round as people see it."""
        model, returned = state.model, self.returned_round(problem, state)
        return state.as_round(
            estimator=self.estimator_of(problem, state),
            clip=model.labels.clip,
            disagreement=model.flips,
            least_chance=self.explore_share if self.order == "stream" else least_chance(problem, state, self.choice),
            **model.chosen._asdict(),
            **({} if returned is None else {RETURNED: returned}),
        )

    def intervals(self, problem: Problem, state: PoolState) -> dict[str, Interval]:
        """Return intervals for error, precision, recall and prevalence; costs are ignored.

        See :mod:`observal.intervals.error`.
        """
        from observal.intervals.error import intervals_of

        returned = state.model.returned
        found = intervals_of(problem, state, state.model.judged_labels)
        if returned is state:
            return found
        words = f"of the classifier of round {returned.rounds}, which makes fewer mistakes"
        return {name: replace(one, method=f"{one.method}; {words}") for name, one in found.items()}

    def judged(self, problem: Problem, state: PoolState) -> tuple[Ints, Ints, Ints, Floats] | None:
        """Return the labelled rows, their classes, what fits that have not seen them say, and what each stands for."""
        found = state.model.judged_labels
        return None if found is None else found.weighted()


@dataclass(frozen=True, eq=False)
class NewtonClassifier(TwoClassPredictions):
    """The classifier that NewtonVC returns: linear, with its feature handling inside.

    `coef_` and `intercept_` refer to the features after `feature_map`: standardised and, if asked for, expanded.
    """

    feature_map: Any = field(repr=False)
    coef_: Floats = field(repr=False)
    intercept_: Floats
    classes_: NDArray[Any] = field(repr=False)

    def decision_function(self, X: Any) -> Floats:
        """Return each row's margin; positive values mean the second class."""
        rows = rows_to_predict(X, self.feature_map.mean.size)
        return np.asarray(self.feature_map(rows) @ self.coef_[0] + self.intercept_[0])

    def positive(self, X: Any) -> Bools:
        """Return which rows are predicted to be of the second class."""
        return np.asarray(self.decision_function(X) > 0.0)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class; with `refit_near_boundary` it is too confident far from the boundary."""
        from scipy.special import expit

        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])

"""NewtonVC: few labels for a linear classifier, chosen from a pool or a stream by how easily each row's sign flips."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, stack_rows
from observal.errors import InvalidInput
from observal.methods.base import TwoClassPredictions
from observal.methods.pooling import Choice, PoolState, draw, draw_plan
from observal.types import Answers, Interval, Plan, Problem, Round, Stop
from observal.weights import effective_sample_size

RIDGES = tuple(float(r) for r in 10.0 ** np.arange(-5.0, 0.6, 0.5))
FOLDS = 5
FEATURES = ("linear", "splines", "fourier", "auto")
RECHOOSE_AFTER = 50  # labels bought before the ridge is chosen again
TEMPERED = 0.5
SIGNIFICANT = 2.0  # standard errors by which the full weights must be better
MOST_ROWS_TO_CHOOSE = 2000  # labelled rows that cross-validation looks at


@dataclass(frozen=True)
class NewtonVC:
    """Logistic regression on clipped, tempered importance weights; asks for the rows whose sign flips most easily.

    Parameters
    ----------
    batch, floor, gate_share, rows_per_label
        How a round chooses; see :class:`~observal.methods.pooling.Choice`.
    tempering : "auto" or float
        Weights are raised to this power: 1 is the full correction, 0 none. "auto" is ½, because a little bias costs less
        than the variance it saves, unless the labels at hand say that it costs too much: 1 where the fully weighted
        log loss out of fold is lower than at ½ by more than two standard errors.
    clip : bool
        Whether weights are cut at the paper's threshold.
    capacity : float
        Stands for the log term of that threshold, as C in the paper's experiments.
    ridge : "auto" or float
        The ridge; "auto" chooses it by importance-weighted cross-validation on the labels at hand.
    penalty : float
        λ of the second-moment regulariser sqrt(λ/N·V̂), solved by majorisation.
    features : {"linear", "splines", "fourier", "auto"}
        What the linear model sees; "auto" chooses by the same cross-validation.
    settled : float
        Stop when the expected share of pool predictions that more labels would change is below this.

    Notes
    -----
    With F the fitted objective, H its Hessian and A the effective number of labelled rows, raising A·F by
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
    floor: float = 0.05
    gate_share: float = 0.5
    rows_per_label: float = 4.0
    tempering: float | Literal["auto"] = "auto"
    clip: bool = True
    capacity: float = 4.0
    ridge: float | Literal["auto"] = "auto"
    penalty: float = 0.0
    features: Literal["linear", "splines", "fourier", "auto"] = "linear"
    settled: float = 1e-4

    name: ClassVar[str] = "newton_vc"
    takes: ClassVar[str] = "pool"
    curve_from_one_run: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.choice  # noqa: B018  the settings check themselves
        if self.features not in FEATURES:
            raise InvalidInput(f"features must be one of {FEATURES}, but is {self.features!r}.")
        for name in ("tempering", "ridge"):
            value = getattr(self, name)
            if value != "auto" and not (isinstance(value, int | float) and value >= 0.0):
                raise InvalidInput(f'{name} must be "auto" or a number of at least 0, but is {value!r}.')
        if not (self.capacity > 0.0 and self.penalty >= 0.0 and self.settled >= 0.0):
            raise InvalidInput(
                "capacity must be above 0, and penalty and settled at least 0, but they are "
                f"{self.capacity}, {self.penalty} and {self.settled}."
            )

    @property
    def choice(self) -> Choice:
        """How a round chooses."""
        return Choice(self.batch, self.floor, self.gate_share, self.rows_per_label)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Fit on the log alone."""
        problem.require_two_classes("NewtonVC")
        return self._fitted(problem, PoolState.start(problem), rng)

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round."""
        if not state.open_rows(problem).any():
            return Stop()
        if state.bought.size and state.model.flips < self.settled:
            return Stop(
                f"further labels are unlikely to change anything: they would change about {state.model.flips:.2%} "
                f"of the pool's predictions, below {self.settled:.2%}"
            )
        return draw_plan(problem, draw(problem, state, self.choice, state.model.gaps), rng)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers and fit again."""
        return self._fitted(problem, state.after(plan, answers), rng)

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round as people see it."""
        model: _Model = state.model
        estimator = NewtonClassifier(model.feature_map, model.coef, model.intercept, problem.logged.classes)
        return state.as_round(
            estimator=estimator,
            clip=model.clip,
            disagreement=model.flips,
            ridge=model.ridge,
            tempering=model.tempering,
            features=model.features,
        )

    def error_interval(self, problem: Problem, state: PoolState) -> Interval:
        """Return a cross-fitted interval for the population error; see :func:`cross_fitted_interval`."""
        from observal.methods.pooling_interval import cross_fitted_interval

        model: _Model = state.model
        rows, codes = state.labelled(problem)
        signs = 2 * codes - 1
        weights, _ = self._weights(problem, state, rows, model.tempering)

        def wrong(train: Ints, test: Ints) -> NDArray[np.bool_]:
            fit = self._solve(model.X[rows[train]], signs[train], weights[train], model.ridge)
            return np.asarray((model.X[rows[test]] @ fit.coef + fit.intercept > 0.0) != (signs[test] > 0))

        return cross_fitted_interval(problem, state.bought.size, wrong)

    # -- fitting ------------------------------------------------------------------------------------------------

    def _weights(self, problem: Problem, state: PoolState, rows: Ints, tempering: float) -> tuple[Floats, float]:
        """Return the clipped, tempered weight of each labelled row, costs included, and the clip."""
        weights, clip = state.importance(problem, rows, self.clip, self.capacity)
        weights = weights**tempering
        if problem.logged.cost is not None and problem.pool.cost is not None:
            weights = weights * np.concatenate([problem.logged.cost, problem.pool.cost])[rows]
        return weights, clip

    def _solve(self, X: Any, signs: Ints, weights: Floats, ridge: float, start: Floats | None = None) -> Any:
        """Fit, with half a row of each class in the centre: a log with one class only has a classifier too."""
        from observal.learners.newton import make_objective, solve

        if weights.size and not weights.sum() > 0.0:
            weights = np.ones(weights.size)  # mistakes on all labelled rows cost nothing, so any fit is as good
        centre, half = _centre_rows(X), 0.5 * float(weights.mean()) if weights.size else 0.5
        X = stack_rows(X, centre)
        a = np.concatenate([weights, [half, half]])
        y = np.concatenate([signs, [-1, 1]])
        objective = make_objective(
            X, y, a / a.mean(), regulariser="second_moment" if self.penalty else None, penalty=self.penalty, ridge=ridge
        )
        return solve(objective, start, max_iter=50, tol=1e-8)

    def _fitted(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> PoolState:
        from scipy.special import ndtr

        rows, codes = state.labelled(problem)
        signs = 2 * codes - 1
        model: _Model | None = state.model
        if model is None or state.bought.size >= model.chosen_at + RECHOOSE_AFTER:
            model = self._chosen(problem, state, rows, signs, rng)
        weights, clip = self._weights(problem, state, rows, model.tempering)
        start = model.theta if model.theta.size == model.X.shape[1] + 1 else None
        fit = self._solve(model.X[rows], signs, weights, model.ridge, start)
        theta = np.append(fit.coef, fit.intercept)
        total = effective_sample_size(weights) + 1.0  # with the two half rows in the centre
        margins = model.X @ fit.coef + fit.intercept
        gaps = 0.5 * total * margins**2 / np.maximum(_leverages(model.X, fit.hessian), 1e-300)
        flips = float(ndtr(-np.sqrt(2.0 * gaps[len(problem.logged) :])).mean())
        return replace(state, model=replace(model, theta=theta, gaps=gaps, flips=flips, clip=clip))

    def _chosen(self, problem: Problem, state: PoolState, rows: Ints, signs: Ints, rng: np.random.Generator) -> _Model:
        """Choose features, ridge and tempering by cross-validation on the labels at hand."""
        from observal.learners.features import FeatureMap

        stack = stack_rows(problem.logged.X, problem.pool.X)
        some = np.arange(rows.size)
        if rows.size > MOST_ROWS_TO_CHOOSE:
            some = np.sort(rng.choice(rows.size, MOST_ROWS_TO_CHOOSE, replace=False))
        folds = _folds(signs[some], rng)
        full, _ = self._weights(problem, state, rows, 1.0)
        names: tuple[Any, ...] = ("linear", "splines", "fourier") if self.features == "auto" else (self.features,)
        if hasattr(stack, "tocsr") and self.features == "auto":
            names = ("linear",)  # sparse rows cannot be expanded
        maps = {name: FeatureMap.of(stack, name) for name in names}
        ridges = RIDGES if self.ridge == "auto" else (self.ridge,)
        expanded = {name: feature_map(stack) for name, feature_map in maps.items()}

        def best(tempering: float) -> tuple[float, str, float, Floats]:
            """Return the least weighted loss out of fold, its features and ridge, and each row's loss there."""
            weights = self._weights(problem, state, rows, tempering)[0][some]
            found = []
            for name, X in expanded.items():
                losses = self._losses_out_of_fold(X[rows[some]], signs[some], weights, folds, ridges)
                found += [(float(loss @ weights), name, r, loss) for loss, r in zip(losses, ridges, strict=True)]
            return min(found, key=lambda f: f[0])

        tempering = TEMPERED if self.tempering == "auto" else self.tempering
        _, name, ridge, losses = best(tempering)
        if self.tempering == "auto":
            _, other_name, other_ridge, other = best(1.0)
            gain = full[some] * (losses - other)
            if gain.sum() > SIGNIFICANT * np.sqrt(gain @ gain):
                tempering, name, ridge = 1.0, other_name, other_ridge
        return _Model(maps[name], expanded[name], name, ridge, tempering, int(state.bought.size))

    def _losses_out_of_fold(
        self, X: Any, signs: Ints, weights: Floats, folds: Ints, ridges: tuple[float, ...]
    ) -> Floats:
        """Return each row's log loss out of fold at each ridge; each fit starts from the next larger ridge's."""
        losses = np.zeros((len(ridges), signs.size))
        for fold in range(int(folds.max(initial=-1)) + 1):
            inside, outside = folds != fold, folds == fold
            start = None
            for i in np.argsort(ridges)[::-1]:
                fit = self._solve(X[inside], signs[inside], weights[inside], ridges[i], start)
                start = np.append(fit.coef, fit.intercept)
                losses[i, outside] = np.logaddexp(0.0, -signs[outside] * (X[outside] @ fit.coef + fit.intercept))
        return losses


@dataclass(frozen=True, eq=False)
class _Model:
    """The fit after a round; `X` is log and pool as the linear model sees them."""

    feature_map: Any
    X: Any = field(repr=False)
    features: str
    ridge: float
    tempering: float
    chosen_at: int
    theta: Floats = field(default_factory=lambda: np.empty(0))
    gaps: Floats = field(default_factory=lambda: np.empty(0), repr=False)  # of log and pool
    flips: float = 1.0  # the expected share of pool rows whose sign more labels would change
    clip: float = np.inf

    @property
    def coef(self) -> Floats:
        return self.theta[:-1]

    @property
    def intercept(self) -> float:
        return float(self.theta[-1])


@dataclass(frozen=True, eq=False)
class NewtonClassifier(TwoClassPredictions):
    """What NewtonVC returns: a linear classifier with its feature handling inside."""

    feature_map: Any = field(repr=False)
    coef: Floats = field(repr=False)
    intercept: float
    classes_: NDArray[Any] = field(repr=False)

    def decision_function(self, X: Any) -> Floats:
        """Return how far each row is on the side of the second class."""
        return np.asarray(self.feature_map(X) @ self.coef + self.intercept)

    def positive(self, X: Any) -> Bools:
        """Return which rows are on the side of the second class."""
        return np.asarray(self.decision_function(X) > 0.0)

    def predict_proba(self, X: Any) -> Floats:
        """Return the fitted chance of each class."""
        from scipy.special import expit

        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])


def _folds(signs: Ints, rng: np.random.Generator) -> Ints:
    """Return a fold for each row, with both classes spread over all folds."""
    folds = np.empty(signs.size, dtype=np.int64)
    for sign in (-1, 1):
        rows = rng.permutation(np.flatnonzero(signs == sign))
        folds[rows] = np.arange(rows.size) % FOLDS
    return np.asarray(np.unique(folds, return_inverse=True)[1])


def _centre_rows(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_matrix

        return csr_matrix((2, X.shape[1]))
    return np.zeros((2, X.shape[1]))


def _leverages(X: Any, hessian: Floats) -> Floats:
    """Return x̃ᵀH⁻¹x̃ of each row, x̃ = (x, 1)."""
    from scipy.linalg import cholesky, solve_triangular

    jitter = 1e-12 * float(np.trace(hessian)) / len(hessian)
    lower = cholesky(hessian + jitter * np.eye(len(hessian)), lower=True)
    root = solve_triangular(lower, np.eye(len(hessian)), lower=True)  # H⁻¹ = rootᵀ·root
    projected = X @ root[:, :-1].T + root[:, -1]
    return np.asarray(np.einsum("ij,ij->i", projected, projected))

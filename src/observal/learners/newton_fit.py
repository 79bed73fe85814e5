"""Newton's method for a linear classifier on weighted labels, with the paper's second-moment regulariser.

With margins z_i = y_i·(x_i·w + b), weighted losses u_i = a_i·φ(z_i), and all means over N rows, revealed or not,

``F(w, b) = mean(u) + sqrt(λ/N · V̂) + ridge/2·|w|²``,  V̂ = mean(u²), or mean(u²) − mean(u)², or 0.

The second moment keeps F convex: sqrt(Σ u²) is a norm, rising in each u_i ≥ 0, of convex functions. The
variance does not.

Derivatives. Let R be the square root, κ = λ/(N·R), c = 0 for the second moment and c = mean(u) for the
variance, and ρ_i = 1 + κ·(u_i − c), the factor on one row. Then, with x̃ = (x, 1),

- ∇F = mean(ρ·a·φ'·y·x̃) + ridge·w,
- ∇²F = mean((ρ·a·φ'' + κ·(a·φ')²)·x̃x̃ᵀ) + ridge·I − ∇R∇Rᵀ/R − κ·∇mean(u)∇mean(u)ᵀ (the last for the variance
  only).

Majorisation. A square root lies below its tangents, and mean(u²) − mean(u)² = min over c of mean((u − c)²).
So with R and c held at the current point, ``mean(u) + R/2 + λ/(2·N·R)·mean((u − c)²)`` lies above F and
touches it there. Its Hessian is ∇²F without the two subtracted terms, positive where every ρ ≥ 0, as always
for the second moment; negative ρ are set to 0. A step uses ∇²F if it is positive definite, and the
majoriser's Hessian otherwise. Either way it is a descent direction, and backtracking on F makes every
iteration lower F.

Why not a library: none minimises F, and each of the hundreds of small fits in a round takes a fraction of
scikit-learn's time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Floats
from observal.errors import InvalidInput
from observal.problem.rows import Matrix, by_column, is_sparse

Loss = Literal["logistic", "squared"]
Regulariser = Literal["second_moment", "variance"]
Factor = tuple[Floats, Floats]

_SUFFICIENT = 1e-4  # the share of the linear decrease that a step must achieve (Armijo)
_SIZES = tuple(0.5**k for k in range(60))  # a step of 2^-60 changes nothing


@dataclass(frozen=True, eq=False)
class NewtonFit:
    """A linear classifier and the Hessian of the objective it minimises."""

    coef: Floats  # w
    intercept: float  # b; 0 where none was fitted
    objective: float  # F(w, b)
    # ∇²F at (w, b), the intercept last, or the majoriser's Hessian if that is not positive definite (only
    # with the variance); empty if not asked for.
    hessian: Floats
    converged: bool  # whether the last predicted decrease was at most `tol` or below floating-point precision
    n_iter: int  # steps taken
    history: Floats  # F before the first step and after each; never increases

    @property
    def theta(self) -> Floats:
        """(w, b)."""
        return np.append(self.coef, self.intercept)

    def margins(self, X: Matrix) -> Floats:
        """Return w·x + b of each row: with the logistic loss, its log-odds."""
        return np.asarray(X @ self.coef + self.intercept)


@dataclass(frozen=True, eq=False)
class Objective:
    """F of the module's docstring as a function of θ = (w, b), or of w alone."""

    X: Matrix  # rows of positive weight; a dense X ends in a column of ones if there is an intercept
    signs: Floats  # y_i in {−1, +1}
    weights: Floats  # a_i
    counts: Floats  # how often each row occurs in the data
    n_rows: float  # N
    loss: Loss = "logistic"  # from here on as in ``make_objective``
    regulariser: Regulariser | None = "second_moment"
    penalty: float = 0.0  # λ
    ridge: float = 0.0
    fit_intercept: bool = True

    @property
    def n_features(self) -> int:
        """The length of w."""
        return int(self.X.shape[1]) - (self.fit_intercept and not is_sparse(self.X))

    def margins(self, theta: Floats) -> Floats:
        """Return y·(x·w + b) for each row; linear in θ."""
        if self.X.shape[1] == theta.size:
            return np.asarray(self.signs * (self.X @ theta))
        return np.asarray(self.signs * (self.X @ theta[:-1] + theta[-1]))

    def value(self, theta: Floats, margins: Floats | None = None) -> float:
        """Return F(θ); infinity where it overflows."""
        z = self.margins(theta) if margins is None else margins
        with np.errstate(over="ignore", invalid="ignore"):
            mean, _, root = self._moments(self.weights * _loss(self.loss, z))
            coef = theta[: self.n_features]
            total = mean + root + 0.5 * self.ridge * float(coef @ coef)
        return total if np.isfinite(total) else np.inf

    def _moments(self, u: Floats) -> tuple[float, float, float]:
        """Return mean(u), the centre c and R."""
        mean = float(self.counts @ u) / self.n_rows
        if self.regulariser is None or self.penalty == 0.0:
            return mean, 0.0, 0.0
        spread = float(self.counts @ (u * u)) / self.n_rows
        centre = 0.0
        if self.regulariser == "variance":
            # Centred at the mean, and including the dropped rows, whose u is 0, to avoid cancellation.
            centre = mean
            absent = self.n_rows - float(self.counts.sum())
            spread = (float(self.counts @ (u - mean) ** 2) + absent * mean**2) / self.n_rows
        return mean, centre, float(np.sqrt(self.penalty / self.n_rows * spread))

    def derivatives(
        self, theta: Floats, majoriser: bool = False, margins: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return ∇F and ∇²F at θ, or the majoriser's Hessian there instead of ∇²F."""
        z = self.margins(theta) if margins is None else margins
        a, s = self.weights, self.counts / self.n_rows
        slope, bend = _slopes(self.loss, z)
        along = self.signs * a * slope
        if self.regulariser is None or self.penalty == 0.0:
            gradient, hessian = self._rmatvec(s * along), self._gram(s * (a * bend))
            self._add_ridge(theta, gradient, hessian)
            return gradient, hessian
        u = a * _loss(self.loss, z)
        _, centre, root = self._moments(u)
        kappa = self.penalty / (self.n_rows * root) if root > 0.0 else 0.0
        pull = 1.0 + kappa * (u - centre)
        gradient = self._rmatvec(s * pull * along)
        hessian = self._gram(s * ((np.maximum(pull, 0.0) if majoriser else pull) * a * bend + kappa * along**2))
        self._add_ridge(theta, gradient, hessian)
        if kappa > 0.0 and not majoriser:
            of_root = self._rmatvec(s * kappa * (u - centre) * along)
            hessian -= np.outer(of_root, of_root) / root
            if self.regulariser == "variance":
                of_mean = self._rmatvec(s * along)
                hessian -= kappa * np.outer(of_mean, of_mean)
        return gradient, hessian

    def _add_ridge(self, theta: Floats, gradient: Floats, hessian: Floats) -> None:
        gradient[: self.n_features] += self.ridge * theta[: self.n_features]
        hessian.flat[: self.n_features * (theta.size + 1) : theta.size + 1] += self.ridge

    # SciPy takes longer to build a small sparse matrix than to multiply it, so these are built once.
    @cached_property
    def _transposed(self) -> Any:
        return self.X.T

    @cached_property
    def _by_column(self) -> Any:
        return by_column(self.X)

    def _rmatvec(self, values: Floats) -> Floats:
        product = np.asarray(self._transposed @ values, dtype=np.float64)
        if self.fit_intercept and is_sparse(self.X):
            return np.append(product, values.sum())
        return product

    def _gram(self, values: Floats) -> Floats:
        """Return Σ values·x̃x̃ᵀ."""
        if not is_sparse(self.X):
            if (values >= 0.0).all():
                half = self.X * np.sqrt(values)[:, None]
                return np.asarray(half.T @ half)  # BLAS recognises AᵀA and halves the work
            return np.asarray((self.X * values[:, None]).T @ self.X)
        weighted = self._by_column.copy()
        weighted.data *= values[weighted.indices]
        inner = np.asarray((self._transposed @ weighted).toarray())
        if not self.fit_intercept:
            return inner
        border = np.asarray(self._transposed @ values)[:, None]
        return np.block([[inner, border], [border.T, values.sum()]])


def make_objective(
    X: Matrix,
    signs: ArrayLike,
    weights: ArrayLike,
    *,
    counts: ArrayLike | None = None,
    n_rows: float | None = None,
    loss: Loss = "logistic",
    regulariser: Regulariser | None = "second_moment",
    penalty: float = 0.0,
    ridge: float = 1e-4,
    fit_intercept: bool = True,
) -> Objective:
    """Check the parts of an objective and drop rows of weight or count 0.

    Parameters
    ----------
    X : array or CSR matrix of shape (rows, features)
        Finite.
    signs : array of shape (rows,)
        −1 or +1; ignored on rows of weight 0.
    weights : array of shape (rows,)
        a_i: clipped importance weights, 0 where a label is not revealed or the row is clipped.
    counts : array of shape (rows,), optional
        How often each row occurs in the data; once by default.
    n_rows : float, optional
        N; the sum of `counts` by default.
    loss : {"logistic", "squared"}
        φ(z) = log(1 + exp(−z)) or (1 − z)².
    regulariser : {"second_moment", "variance", None}
        What V̂ is.
    penalty : float
        λ, 4·log(|H|/δ) in the paper.
    ridge : float
        Above 0 it makes the minimum unique, even on separable rows or with more features than rows.
    fit_intercept : bool
        Whether to fit b, which is not penalised.
    """
    a = np.asarray(weights, dtype=np.float64)
    s = np.ones(a.shape) if counts is None else np.asarray(counts, dtype=np.float64)
    y = np.asarray(signs, dtype=np.float64)
    if not a.shape == s.shape == y.shape == (X.shape[0],):
        raise InvalidInput(
            f"Features, signs, weights and counts must have the same number of rows, but have {X.shape[0]} rows and shapes "
            f"{y.shape}, {a.shape} and {s.shape}."
        )
    if not all(np.isfinite(v).all() and (np.asarray(v) >= 0.0).all() for v in (a, s, penalty, ridge)):
        raise InvalidInput("Weights, counts, penalty and ridge must be finite and at least 0, but some are not.")
    options = {"loss": get_args(Loss), "regulariser": (*get_args(Regulariser), None)}
    for name, value in (("loss", loss), ("regulariser", regulariser)):
        if value not in options[name]:
            raise InvalidInput(f"{name} must be one of {options[name]}, but is {value!r}; choose one of them.")
    used = (a > 0.0) & (s > 0.0)
    if not np.isin(y[used], (-1.0, 1.0)).all():
        raise InvalidInput("Signs must be −1 or +1 on rows that count, but others were seen; encode the labels first.")
    total = float(s.sum()) if n_rows is None else float(n_rows)
    if not total * (1.0 + 1e-9) >= float(s[used].sum()) > 0.0:
        raise InvalidInput(
            f"A fit needs rows that count, and n_rows no smaller than their number, but {s[used].sum():g} count and "
            f"n_rows is {total:g}."
        )
    if not used.all():
        X, y, a, s = X[used], y[used], a[used], s[used]
    if is_sparse(X):
        X = X.astype(np.float64)
    else:
        X = np.concatenate([X, np.ones((X.shape[0], int(fit_intercept)))], axis=1, dtype=np.float64)
    return Objective(X, y, a, s, total, loss, regulariser, float(penalty), float(ridge), fit_intercept)


def solve(
    objective: Objective,
    start: ArrayLike | None = None,
    *,
    max_iter: int = 100,
    tol: float = 1e-10,
    with_hessian: bool = True,
) -> NewtonFit:
    """Minimise an objective by Newton's method with backtracking.

    Parameters
    ----------
    objective : Objective
        From ``make_objective``. The variance makes it non-convex: the descent then ends in a stationary point
        and starts, by default, from the solution for the second moment.
    start : array, optional
        (w, b), or w without an intercept: starting from a similar problem's solution saves steps.
    max_iter, tol
        Stop after a step whose predicted decrease, ½·∇Fᵀ(∇²F)⁻¹∇F, is at most `tol`.
    with_hessian : bool
        Whether to return the Hessian. Without it, the last of about five systems is not computed.

    Examples
    --------
    >>> import numpy as np
    >>> X, signs, weights = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, -1, 1, 1], [1.0, 4.0, 0.0, 1.0]
    >>> fit = solve(make_objective(X, signs, weights, penalty=4.0, ridge=0.1))
    >>> fit.converged, fit.hessian.shape, bool((np.diff(fit.history) <= 0).all())
    (True, (2, 2), True)
    """
    n_theta = objective.n_features + objective.fit_intercept
    if start is None and objective.regulariser == "variance":
        # Where all losses are equal, as at 0, the standard deviation has a kink; the convex problem leads
        # away from it.
        near = solve(replace(objective, regulariser="second_moment"), max_iter=max_iter, tol=tol)
        start = near.theta[:n_theta]
    theta = np.zeros(n_theta) if start is None else np.array(start, dtype=np.float64)
    if theta.shape != (n_theta,) or not np.isfinite(theta).all():
        raise InvalidInput(f"start must be {n_theta} finite numbers, but has shape {theta.shape} or a NaN.")
    margins = objective.margins(theta)
    value = objective.value(theta, margins)
    history = [value]
    converged = False
    gradient, hessian, factor = _newton_system(objective, theta, margins)
    while not converged and len(history) <= max_iter:
        step = -_solve(factor, gradient)
        promise = -0.5 * float(gradient @ step)
        converged = promise <= tol
        size, value = _backtrack(objective, theta, margins, step, value, promise)
        if size == 0.0:  # no decrease that floating point can represent
            converged = promise <= max(tol, 1e-9 * abs(value))
            break
        theta = theta + size * step
        history.append(value)
        if converged and not with_hessian:
            break
        margins = objective.margins(theta)
        gradient, hessian, factor = _newton_system(objective, theta, margins)
    hessian = hessian if with_hessian else np.empty((0, 0))
    intercept = float(theta[-1]) if objective.fit_intercept else 0.0
    coef = theta[: objective.n_features]
    return NewtonFit(coef, intercept, value, hessian, converged, len(history) - 1, np.array(history))


def _backtrack(
    objective: Objective, theta: Floats, margins: Floats, step: Floats, value: float, promise: float
) -> tuple[float, float]:
    """Return the largest step size of 1, ½, ¼, … that lowers F enough, or 0, and F there; `margins` are those at θ."""
    ahead = objective.margins(step)
    rounding = 8.0 * float(np.finfo(np.float64).eps) * abs(value) if promise <= 1e-6 * abs(value) else 0.0
    for size in _SIZES:
        reached = objective.value(theta + size * step, margins + size * ahead)
        if reached <= value - 2.0 * _SUFFICIENT * size * promise + rounding:
            return size, min(reached, value)
    return 0.0, value


def _newton_system(objective: Objective, theta: Floats, margins: Floats) -> tuple[Floats, Floats, Factor]:
    """Return ∇F, a positive definite Hessian, and its Cholesky factor."""
    gradient, hessian = objective.derivatives(theta, margins=margins)
    factor = _factor(hessian)
    if factor is None and objective.regulariser is not None:
        hessian = objective.derivatives(theta, majoriser=True, margins=margins)[1]
    for jitter in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-3):
        factor = _factor(hessian, jitter) if factor is None else factor
    if factor is None:
        hessian = np.eye(theta.size)
        factor = hessian, np.ones(theta.size)
    return gradient, hessian, factor


def _factor(hessian: Floats, jitter: float = 0.0) -> Factor | None:
    """Return the Cholesky factor after scaling the diagonal to 1, as features have any unit; None if there is none."""
    from scipy.linalg.lapack import dpotrf  # lazy: scipy is slow to import

    diagonal = np.diagonal(hessian)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = hessian * scale[:, None] * scale
    scaled.flat[:: scaled.shape[0] + 1] += jitter
    # LAPACK directly: SciPy's argument checks take longer than these small systems.
    cholesky, failed = dpotrf(scaled, lower=1, clean=0, overwrite_a=1)
    return None if failed else (cholesky, scale)


def _solve(factor: Factor, right: Floats) -> Floats:
    from scipy.linalg.lapack import dpotrs

    cholesky, scale = factor
    return np.asarray(scale * dpotrs(cholesky, scale * right, lower=1)[0])


def _loss(loss: Loss, z: Floats) -> Floats:
    return np.logaddexp(0.0, -z) if loss == "logistic" else np.square(1.0 - z)


def _slopes(loss: Loss, z: Floats) -> tuple[Floats, Floats]:
    """Return φ'(z) and φ''(z)."""
    if loss == "squared":
        return 2.0 * (z - 1.0), np.full(z.shape, 2.0)
    from scipy.special import expit

    tail = expit(-z)
    return -tail, tail * expit(z)

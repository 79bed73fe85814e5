"""Weighted logistic regression, with its ridge chosen by weighted cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from observal.checks import Floats, Ints
from observal.learners.folds import random_folds
from observal.learners.newton_fit import NewtonFit, Objective, make_objective, solve
from observal.problem.rows import Matrix, is_sparse, stack_rows

RIDGES = tuple(float(r) for r in 10.0 ** np.arange(-5.0, 0.6, 0.5))
RIDGE_FOLDS = 5  # folds for tuning a ridge
STEPS = 50  # most Newton steps
NEAR_FITS = 2  # refits near the boundary; more no longer move it


class TunedRidge(NamedTuple):
    """A ridge, and each row's out-of-fold log loss."""

    ridge: float
    losses: Floats


def fit_logistic(
    X: Matrix,
    signs: Ints,
    weights: Floats,
    ridge: float,
    penalty: float = 0.0,
    start: Floats | None = None,
    tol: float = 1e-8,
    with_hessian: bool = True,
) -> NewtonFit:
    """Fit logistic regression with half a row of each class added at the origin, so that one class is enough.

    `X` is standardised. Only the ratios of `weights` matter. `ridge` and `penalty`, the second moment's, are
    as in ``make_objective``; `start` is (w, b). Stops when a step would lower the objective by less than
    `tol`. It is faster without the Hessian.

    Examples
    --------
    >>> import numpy as np
    >>> fit = fit_logistic(np.array([[-1.0], [1.0], [2.0]]), np.array([-1, 1, 1]), np.ones(3), ridge=0.01)
    >>> bool(fit.coef[0] > 0)
    True
    """
    objective = _objective(X, signs, weights, ridge, penalty)
    return solve(objective, start, max_iter=STEPS, tol=tol, with_hessian=with_hessian)


def fit_ridges(
    X: Matrix, signs: Ints, weights: Floats, ridges: Sequence[float], penalty: float = 0.0, *, tol: float
) -> Iterator[tuple[int, NewtonFit]]:
    """Yield the index and fit of each ridge, largest first; each fit is a warm start for the next.

    Examples
    --------
    >>> import numpy as np
    >>> fits = dict(fit_ridges(np.array([[-1.0], [1.0]]), np.array([-1, 1]), np.ones(2), [0.01, 1.0], tol=1e-8))
    >>> list(fits), bool(fits[0].coef[0] > fits[1].coef[0])
    ([1, 0], True)
    """
    objective, start = _objective(X, signs, weights, 0.0, penalty), None
    for i in np.argsort(ridges)[::-1].tolist():
        fit = solve(replace(objective, ridge=ridges[i]), start, max_iter=STEPS, tol=tol, with_hessian=False)
        start = fit.theta
        yield i, fit


def nearness(margins: Floats, typical: float) -> Floats:
    """Return a row's weight by its distance from the boundary: 1 there, ½ at a typical distance.

    The weight is ``1/(1 + (m/h)²)``, with m the log-odds (`margins`) and h the typical distance; 1 if h is 0.

    Examples
    --------
    >>> import numpy as np
    >>> nearness(np.array([0.0, -2.0, 6.0]), 2.0).round(6).tolist()
    [1.0, 0.5, 0.1]
    """
    if not typical > 0.0:
        return np.ones(margins.size)
    return np.asarray(1.0 / (1.0 + np.square(margins / typical)))


def near_boundary(
    fit: NewtonFit,
    X: Matrix,
    signs: Ints,
    weights: Floats,
    ridge: float,
    penalty: float,
    *,
    population: Matrix,
    with_hessian: bool = True,
) -> tuple[NewtonFit, Floats]:
    """Refit twice, up-weighting rows near the last boundary; return the last fit and its weights.

    Mistakes happen near the boundary, but the log loss also depends on the confidence in rows far from it. If
    class probabilities are not quite logistic, for example because some labels are wrong, those rows pull the
    boundary away from where it would make the fewest mistakes.

    `fit` was fitted on `weights`. The typical distance is the root mean square over `population`, a sample of rows.

    Examples
    --------
    A fifth of the labels on the positive side are wrong; the boundary with the fewest mistakes is at 0:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, everyone = rng.normal(size=(4000, 1)), np.ones(4000)
    >>> signs = np.where((X[:, 0] > 0.0) & (rng.random(4000) > 0.2), 1, -1)
    >>> fit = fit_logistic(X, signs, everyone, 1e-3)
    >>> near, weights = near_boundary(fit, X, signs, everyone, 1e-3, 0.0, population=X)
    >>> [round(float(-f.intercept / f.coef[0]), 2) for f in (fit, near)]
    [0.33, 0.23]
    """
    near = weights
    for more in reversed(range(NEAR_FITS)):
        typical = float(np.sqrt(np.mean(np.square(fit.margins(population)))))
        near = weights * nearness(fit.margins(X), typical)
        fit = fit_logistic(X, signs, near, ridge, penalty, fit.theta, with_hessian=with_hessian and not more)
    return fit, near


def tune(
    X: Matrix,
    signs: Ints,
    weights: Floats,
    ridges: tuple[float, ...] = RIDGES,
    penalty: float = 0.0,
    groups: Ints | None = None,
) -> TunedRidge:
    """Return the ridge with the fewest weighted out-of-fold mistakes among those of about the smallest loss.

    Mistakes are what counts, but they are few and jumpy. So they decide only between ridges whose log loss
    exceeds the smallest by no more than a standard error of the difference.

    Each fit starts from that of the next larger ridge. Rows of a group share a fold.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> signs = np.where(X[:, 0] + rng.normal(size=200) > 0, 1, -1)
    >>> 1e-3 <= tune(X, signs, np.ones(200)).ridge <= 1.0
    True
    """
    order = np.argsort(ridges)[::-1]
    margins = np.zeros((len(ridges), signs.size))
    folds = random_folds(signs, RIDGE_FOLDS, np.random.default_rng(0), groups)
    for fold in np.unique(folds):
        inside, outside = folds != fold, folds == fold
        for i, fit in fit_ridges(X[inside], signs[inside], weights[inside], ridges, penalty, tol=1e-5):
            margins[i, outside] = signs[outside] * fit.margins(X[outside])
    losses = np.logaddexp(0.0, -margins)
    least = min(order, key=lambda i: float(losses[i] @ weights))
    flat = [i for i in order if is_within_error(losses[i] - losses[least], weights)]
    best = min(flat, key=lambda i: (float((margins[i] <= 0.0) @ weights), float(losses[i] @ weights)))
    return TunedRidge(ridges[best], losses[best])


def is_within_error(differences: Floats, weights: Floats) -> bool:
    """Return whether the weighted sum of differences is at most its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> [is_within_error(np.array(d), np.ones(4)) for d in ([0.1, -0.1, 0.2, 0.0], [0.1, 0.1, 0.2, 0.1])]
    [True, False]
    """
    total = float(differences @ weights)
    spread = weights * differences
    return total <= float(np.sqrt(np.square(spread - total / max(1, spread.size)).sum()))


def leverages(X: Matrix, hessian: Floats) -> Floats:
    """Return x̃ᵀH⁻¹x̃ of each row, x̃ = (x, 1).

    Examples
    --------
    >>> import numpy as np
    >>> leverages(np.array([[2.0], [0.0]]), np.diag([4.0, 1.0])).round(6).tolist()
    [2.0, 1.0]
    """
    jitter = 1e-12 * float(np.trace(hessian)) / len(hessian)
    # NumPy, not SciPy: SciPy's BLAS has its own thread pool, and the two slow each other down.
    root = np.linalg.inv(np.linalg.cholesky(hessian + jitter * np.eye(len(hessian))))  # H⁻¹ = rootᵀ·root
    projected = np.asarray(X @ root[:, :-1].T)
    projected += root[:, -1]  # in place: another array of this size would take longer than the sum
    return np.asarray(np.einsum("ij,ij->i", projected, projected))


def _objective(X: Matrix, signs: Ints, weights: Floats, ridge: float, penalty: float) -> Objective:
    return make_objective(
        stack_rows(X, _centre_rows(X)),
        np.concatenate([signs, [-1, 1]]),
        _add_centre_weights(weights),
        regulariser="second_moment" if penalty else None,
        penalty=penalty,
        ridge=ridge,
    )


def _add_centre_weights(weights: Floats) -> Floats:
    """Return weights of mean 1, followed by those of the two half rows at the origin."""
    if not weights.sum() > 0.0:
        weights = np.ones(weights.size)  # if no mistake costs anything, any fit is as good
    half = 0.5 * float(weights.mean()) if weights.size else 0.5
    a = np.concatenate([weights, [half, half]])
    return np.asarray(a / a.mean())


def _centre_rows(X: Matrix) -> Matrix:
    """Return two rows of zeros, sparse if X is."""
    if is_sparse(X):
        from scipy.sparse import csr_array

        return csr_array((2, X.shape[1]))
    return np.zeros((2, X.shape[1]))

"""Weighted logistic regression, with its ridge chosen by weighted cross-validation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from observal.checks import Floats, Ints, stack_rows
from observal.folds import random_folds
from observal.learners.newton import NewtonFit, make_objective, solve

RIDGES = tuple(float(r) for r in 10.0 ** np.arange(-5.0, 0.6, 0.5))
FOLDS = 5
NEAR_FITS = 2  # fits after the first; more of them no longer move the boundary


class Tuned(NamedTuple):
    """A ridge, and each row's log loss under a fit that has not seen it."""

    ridge: float
    losses: Floats


def fit_logistic(
    X: Any,
    signs: Ints,
    weights: Floats,
    ridge: float,
    penalty: float = 0.0,
    start: Floats | None = None,
    tol: float = 1e-8,
) -> NewtonFit:
    """Fit logistic regression with half a row of each class added at the origin, so one class is enough.

    Parameters
    ----------
    X : array or CSR matrix of shape (rows, features)
        Standardised features.
    signs : array of −1 and +1
        The labels.
    weights : array
        At least 0; only their ratios matter.
    ridge, penalty : float
        As in :func:`~observal.learners.newton.make_objective`; the penalty is that of the second moment.
    start : array, optional
        (w, b) to start from.
    tol : float
        Stop when another step would lower the objective by less than this.

    Examples
    --------
    >>> import numpy as np
    >>> fit = fit_logistic(np.array([[-1.0], [1.0], [2.0]]), np.array([-1, 1, 1]), np.ones(3), ridge=0.01)
    >>> bool(fit.coef[0] > 0)
    True
    """
    a = _with_centre(weights)
    objective = make_objective(
        stack_rows(X, _centre(X)),
        np.concatenate([signs, [-1, 1]]),
        a,
        regulariser="second_moment" if penalty else None,
        penalty=penalty,
        ridge=ridge,
    )
    return solve(objective, start, max_iter=50, tol=tol)


def nearness(margins: Floats, typical: float) -> Floats:
    """Return the weight of a row by its distance from the boundary: 1 on it, ½ at a typical distance, ``1/(1 + (m/h)²)``.

    Parameters
    ----------
    margins : array
        m: the log odds of each row.
    typical : float
        h, the typical distance; if it is 0 every row has weight 1.

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
    fit: NewtonFit, X: Any, signs: Ints, weights: Floats, ridge: float, penalty: float, *, population: Any
) -> tuple[NewtonFit, Floats]:
    """Fit two more times, up-weighting rows near the last boundary; return the last fit and its weights.

    Mistakes are made near the boundary, but the log loss also depends on how confident the fit is about rows far from it. If the
    probability of a class is not quite logistic, for example because some labels are wrong, such rows pull the boundary away
    from where it would make the fewest mistakes.

    Parameters
    ----------
    fit : NewtonFit
        The fit on `weights`.
    X, signs, weights, ridge, penalty
        As for :func:`fit_logistic`.
    population : array or CSR matrix of shape (any, features)
        Rows that represent the population; the typical distance is the root mean square of theirs.

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
    for _ in range(NEAR_FITS):
        typical = float(np.sqrt(np.mean(np.square(population @ fit.coef + fit.intercept))))
        near = weights * nearness(X @ fit.coef + fit.intercept, typical)
        fit = fit_logistic(X, signs, near, ridge, penalty, np.append(fit.coef, fit.intercept))
    return fit, near


def tune(X: Any, signs: Ints, weights: Floats, ridges: tuple[float, ...] = RIDGES, penalty: float = 0.0) -> Tuned:
    """Return the ridge with the fewest weighted mistakes out of fold among those whose log loss is about the least.

    Mistakes are what counts, but they are few and jump. So they decide only between ridges whose log loss exceeds the least
    one by no more than a standard error of the difference.

    Parameters
    ----------
    X, signs, weights, penalty
        As for :func:`fit_logistic`.
    ridges : tuple of float
        To choose from; each fit starts from that of the next larger ridge.

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
    folds = random_folds(signs, FOLDS, np.random.default_rng(0))
    for fold in np.unique(folds):
        inside, outside = folds != fold, folds == fold
        start = None
        for i in order:
            fit = fit_logistic(X[inside], signs[inside], weights[inside], ridges[i], penalty, start, tol=1e-5)
            start = np.append(fit.coef, fit.intercept)
            margins[i, outside] = signs[outside] * (X[outside] @ fit.coef + fit.intercept)
    losses = np.logaddexp(0.0, -margins)
    least = min(order, key=lambda i: float(losses[i] @ weights))
    flat = [i for i in order if about_equal(losses[i] - losses[least], weights)]
    best = min(flat, key=lambda i: (float((margins[i] <= 0.0) @ weights), float(losses[i] @ weights)))
    return Tuned(ridges[best], losses[best])


def about_equal(differences: Floats, weights: Floats) -> bool:
    """Tell whether the weighted sum of differences is no more than its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> [about_equal(np.array(d), np.ones(4)) for d in ([0.1, -0.1, 0.2, 0.0], [0.1, 0.1, 0.2, 0.1])]
    [True, False]
    """
    total = float(differences @ weights)
    spread = weights * differences
    return total <= float(np.sqrt(np.square(spread - total / max(1, spread.size)).sum()))


def leverages(X: Any, hessian: Floats) -> Floats:
    """Return x̃ᵀH⁻¹x̃ of each row, x̃ = (x, 1).

    Examples
    --------
    >>> import numpy as np
    >>> leverages(np.array([[2.0], [0.0]]), np.diag([4.0, 1.0])).round(6).tolist()
    [2.0, 1.0]
    """
    jitter = 1e-12 * float(np.trace(hessian)) / len(hessian)
    # NumPy's functions, not SciPy's: SciPy's BLAS has its own threads, and the two slow each other down.
    root = np.linalg.inv(np.linalg.cholesky(hessian + jitter * np.eye(len(hessian))))  # H⁻¹ = rootᵀ·root
    projected = np.asarray(X @ root[:, :-1].T)
    projected += root[:, -1]  # in place: allocating another array of this size would take longer than the sum
    return np.asarray(np.einsum("ij,ij->i", projected, projected))


def _with_centre(weights: Floats) -> Floats:
    """Return weights of mean 1, those of the two half rows at the origin last."""
    if not weights.sum() > 0.0:
        weights = np.ones(weights.size)  # if no mistake costs anything, any fit is as good
    half = 0.5 * float(weights.mean()) if weights.size else 0.5
    a = np.concatenate([weights, [half, half]])
    return np.asarray(a / a.mean())


def _centre(X: Any) -> Any:
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_matrix

        return csr_matrix((2, X.shape[1]))
    return np.zeros((2, X.shape[1]))

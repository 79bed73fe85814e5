"""The blend's linear learner: NewtonVC's fit for two classes, ridge regression onto the classes for more."""

from __future__ import annotations

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.learners.blend_settings import LOGISTIC_RIDGES, SLOPES
from observal.learners.kernel import LinearChances, fit_ridge
from observal.learners.labelled import Fitted, Labelled
from observal.learners.newton_fit import NewtonFit
from observal.learners.population import Population
from observal.learners.tuned_logistic import fit_logistic, fit_ridges, near_boundary

LOOSE = 1e-4  # the decrease of the objective that is not worth another step of a fit that only judges rows


def fit_linear(population: Population, labelled: Labelled, tuned: tuple[float, ...] = ()) -> Fitted:
    """Fit the linear learner; `tuned` is its ridge, chosen out of fold where not given."""
    from scipy.special import expit  # lazy: scipy is slow to import

    if labelled.n_classes != 2:
        return fit_ridge(population, labelled, tuned)
    ridge = tuned[0] if tuned else _best_ridge(labelled.some())
    fit = _near(population, labelled, ridge)
    margins = np.zeros(labelled.codes.size)
    for fold in np.unique(labelled.folds):
        out = labelled.folds == fold
        without = _near(population, labelled.taken(~out), ridge, LOOSE)
        margins[out] = _margins(labelled, out, without)
    slope = best_slope(margins, 2 * labelled.codes - 1, labelled.weights)
    chance = expit(slope * margins)
    coef = np.column_stack([np.zeros(fit.coef.size), slope * fit.coef])
    made = LinearChances(coef, np.array([0.0, slope * fit.intercept]))
    return Fitted(made, np.column_stack([1.0 - chance, chance]), (ridge,))


def best_slope(margins: Floats, signs: Ints, weights: Floats) -> float:
    """Return the slope that makes margins the best log odds; the boundary stays where it is.

    Examples
    --------
    >>> import numpy as np
    >>> round(best_slope(np.array([5.0, 5.0, 5.0, -5.0]), np.array([1, 1, -1, -1]), np.ones(4)), 2)
    0.2
    """
    losses = [float(weights @ np.logaddexp(0.0, -slope * signs * margins)) for slope in SLOPES]
    return float(SLOPES[int(np.argmin(losses))])


def _best_ridge(labelled: Labelled) -> float:
    """Return the ridge with the least weighted log loss out of fold; each fit starts from that of the next larger."""
    losses = np.zeros(len(LOGISTIC_RIDGES))
    for fold in np.unique(labelled.folds):
        out = labelled.folds == fold
        inside = labelled.taken(~out)
        for i, fit in fit_ridges(inside.rows, 2 * inside.codes - 1, inside.weights, LOGISTIC_RIDGES, tol=LOOSE):
            margins = (2 * labelled.codes[out] - 1) * _margins(labelled, out, fit)
            losses[i] += float(labelled.weights[out] @ np.logaddexp(0.0, -margins))
    return LOGISTIC_RIDGES[int(np.argmin(losses))]


def _near(population: Population, labelled: Labelled, ridge: float, tol: float = 1e-8) -> NewtonFit:
    """Fit, and fit twice again near the boundary."""
    signs = 2 * labelled.codes - 1
    fit = fit_logistic(labelled.rows, signs, labelled.weights, ridge, tol=tol, with_hessian=False)
    settings = labelled.rows, signs, labelled.weights, ridge, 0.0
    return near_boundary(fit, *settings, population=population.typical, with_hessian=False)[0]


def _margins(labelled: Labelled, rows: Bools, fit: NewtonFit) -> Floats:
    return np.asarray(labelled.rows[rows] @ fit.coef + fit.intercept)

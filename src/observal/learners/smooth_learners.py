"""The blend's linear, additive and kernel learners: smooth functions of the features.

For two classes the linear learner is NewtonVC's fit. Otherwise all are ridge regression onto the classes: on
the features, on piecewise linear curves of each feature, or on a Gaussian kernel. With Y the classes as −1/K
and 1 − 1/K and w the weights, ``C = argmin Σ w·|Y − F·C|² + ridge·|C|²``. In the eigenbasis of FᵀWF this is a
division, so every ridge costs one product, and leave-one-out is exact: a residual is divided by
``1 − w·fᵀ(FᵀWF + ridge)⁻¹f``. Ridge, width and space minimise the squared leave-one-out residual. A slope and
a shift per class turn scores into probabilities; they are fitted on out-of-fold scores, as leave-one-out
scores are a little optimistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.learners.blend_settings import (
    CONSTANT,
    CURVE_KNOTS,
    KERNEL_RIDGES,
    KNOT_SCALE,
    LINEAR_RIDGES,
    LOGISTIC_RIDGES,
    MIN_REMAINDER,
    SLOPES,
)
from observal.learners.labelled import LabelledRows, LearnerFit, calibrate, softmax, targets
from observal.learners.newton_fit import NewtonFit
from observal.learners.population import KernelMap, Population, Space, gaussian
from observal.learners.tuned_logistic import fit_logistic, fit_ridges, near_boundary
from observal.problem.rows import Matrix, is_sparse, to_dense, with_constant

TUNING_TOL = 1e-4  # tolerance of fits that are only compared, not returned


# -- what fits return -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearChances:
    """softmax(x·C + b): the class probabilities of a linear learner."""

    coef: Floats  # C, of shape (features, classes)
    shift: Floats  # b

    def __post_init__(self) -> None:
        if self.coef.ndim != 2 or self.shift.shape != self.coef.shape[1:]:
            raise InvalidInput("The weights and shifts of a linear learner do not match; use an undamaged copy.")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and classes."""
        return self.coef.shape[0], self.coef.shape[1]

    def __call__(self, Z: Matrix) -> Floats:
        """Return class probabilities of standardised rows."""
        return softmax(np.asarray(Z @ self.coef) + self.shift)


@dataclass(frozen=True, eq=False)
class AdditiveChances:
    """softmax(x·C + Σ_j f_j(x_j) + b), each f_j piecewise linear."""

    features: Ints  # shape (curved,): the features with a curve
    knots: Floats  # shape (knots, curved): increasing
    values: Floats  # shape (knots, curved, classes): f_j at the knots
    coef: Floats  # C, of shape (features, classes)
    shift: Floats  # b

    def __post_init__(self) -> None:
        fits = (
            self.coef.ndim == self.knots.ndim == 2
            and self.features.shape == self.knots.shape[1:]
            and self.values.shape == (*self.knots.shape, self.coef.shape[1])
            and self.shift.shape == self.coef.shape[1:]
            and len(self.knots) >= 2
            and bool((np.diff(self.knots, axis=0) > 0.0).all())
            and bool(((self.features >= 0) & (self.features < len(self.coef))).all())
        )
        if not fits:
            raise InvalidInput("The bends of an additive learner do not match; use an undamaged copy.")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and classes."""
        return self.coef.shape[0], self.coef.shape[1]

    def __call__(self, Z: Floats) -> Floats:
        """Return class probabilities of standardised rows."""
        scores = Z @ self.coef + self.shift
        for i, feature in enumerate(self.features):
            for k in range(scores.shape[1]):
                scores[:, k] += np.interp(Z[:, feature], self.knots[:, i], self.values[:, i, k])
        return softmax(scores)


@dataclass(frozen=True, eq=False)
class KernelChances:
    """softmax(k(x)·C + b), k(x) being the kernel between a row and the landmarks."""

    space: Space  # where distances are measured
    landmarks: Floats  # shape (landmarks, features): points of that space
    gamma: float  # of the kernel exp(−γ·distance²)
    coef: Floats  # C, of shape (landmarks, classes)
    shift: Floats  # b

    def __post_init__(self) -> None:
        knots, scores = self.space.knots, self.space.scores
        fits = (
            self.landmarks.ndim == self.coef.ndim == knots.ndim == 2
            and knots.shape == scores.shape
            and len(self.landmarks) == len(self.coef)
            and self.landmarks.shape[1] == knots.shape[1]
            and self.shift.shape == self.coef.shape[1:]
        )
        if not fits:
            raise InvalidInput("The landmarks and weights of a kernel learner do not match; use an undamaged copy.")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of features and classes."""
        return self.landmarks.shape[1], self.coef.shape[1]

    def __call__(self, Z: Floats) -> Floats:
        """Return class probabilities of standardised rows."""
        scores = gaussian(self.space(Z), self.landmarks, self.gamma) @ self.coef
        return softmax(scores + self.shift)


# -- ridge regression -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Rows in the eigenbasis of FᵀWF, in which ridge regression is a division."""

    rows: Floats  # F·V, of shape (rows, directions)
    values: Floats  # the eigenvalues
    directions: Floats  # V, of shape (features, directions)
    weights: Floats  # w
    targets: Floats  # Y, of shape (rows, classes)

    @classmethod
    def of(cls, F: Matrix, weights: Floats, targets: Floats) -> Self:
        """Decompose FᵀWF, or WFFᵀ where there are fewer rows than features."""
        roots = np.sqrt(weights)[:, None]
        half: Matrix = F.multiply(roots).tocsr() if is_sparse(F) else F * roots
        if F.shape[0] >= F.shape[1]:
            values, directions = np.linalg.eigh(to_dense(half.T @ half))
            values = np.maximum(values, 0.0)
        else:
            values, vectors = np.linalg.eigh(to_dense(half @ half.T))
            nonzero = values > 1e-12 * values[-1]
            values = values[nonzero]
            directions = to_dense(half.T @ vectors[:, nonzero]) / np.sqrt(values)
        return cls(to_dense(F @ directions), values, directions, weights, targets)

    def leave_one_out_loss(self, ridge: float) -> float:
        """Return the weighted sum of squared leave-one-out residuals."""
        inverse = 1.0 / (self.values + ridge)
        remainder = np.maximum(1.0 - self.weights * (np.square(self.rows) @ inverse), MIN_REMAINDER)
        residuals = (self.targets - self.rows @ (inverse[:, None] * self._products)) / remainder[:, None]
        return float(self.weights @ np.square(residuals).sum(axis=1))

    def coef(self, ridge: float) -> Floats:
        """Return C."""
        return np.asarray(self.directions @ (self._products / (self.values + ridge)[:, None]))

    def out_of_fold(self, ridge: float, folds: Ints) -> Floats:
        """Return the out-of-fold scores of each row."""
        scores = np.zeros(self.targets.shape)
        for fold in np.unique(folds):
            out = folds == fold
            rows, weighted = self.rows[out], self.rows[out] * self.weights[out, None]
            system = np.diag(self.values + ridge) - weighted.T @ rows
            scores[out] = rows @ np.linalg.solve(system, self._products - weighted.T @ self.targets[out])
        return scores

    @property
    def _products(self) -> Floats:
        return np.asarray(self.rows.T @ (self.weights[:, None] * self.targets))


def best_ridge(designs: Sequence[Matrix], labelled: LabelledRows, ridges: Sequence[float]) -> tuple[int, float]:
    """Return the index of the design and the ridge with the smallest squared leave-one-out residual."""
    Y = targets(labelled.codes, labelled.n_classes)
    losses = []
    for F in designs:
        spectrum = Spectrum.of(F, labelled.weights, Y)
        losses.append([spectrum.leave_one_out_loss(ridge) for ridge in ridges])
    design, ridge = np.unravel_index(np.argmin(losses), (len(designs), len(ridges)))
    return int(design), ridges[int(ridge)]


def fit_to_targets(F: Matrix, labelled: LabelledRows, ridge: float) -> tuple[Floats, Floats, Floats]:
    """Return calibrated coefficients (features × classes), shifts, and out-of-fold probabilities."""
    spectrum = Spectrum.of(F, labelled.weights, targets(labelled.codes, labelled.n_classes))
    scores = spectrum.out_of_fold(ridge, labelled.folds)
    slope, shift = calibrate(scores, labelled.codes, labelled.weights)
    return slope * spectrum.coef(ridge), shift, softmax(slope * scores + shift)


# -- the linear learner -----------------------------------------------------------------------------------------


def fit_linear(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit:
    """Fit the linear learner; `tuned` is its ridge, chosen by out-of-fold loss if not given."""
    from scipy.special import expit  # lazy: scipy is slow to import

    if labelled.n_classes != 2:
        return fit_ridge(population, labelled, tuned)
    ridge = tuned[0] if tuned else _best_ridge(labelled.subsample())
    fit = _fit_near_boundary(population, labelled, ridge)
    margins = np.zeros(labelled.codes.size)
    for fold in np.unique(labelled.folds):
        out = labelled.folds == fold
        without = _fit_near_boundary(population, labelled.select(~out), ridge, TUNING_TOL)
        margins[out] = without.margins(labelled.rows[out])
    slope = best_slope(margins, 2 * labelled.codes - 1, labelled.weights)
    chance = expit(slope * margins)
    coef = np.column_stack([np.zeros(fit.coef.size), slope * fit.coef])
    chances = LinearChances(coef, np.array([0.0, slope * fit.intercept]))
    return LearnerFit(chances, np.column_stack([1.0 - chance, chance]), (ridge,))


def best_slope(margins: Floats, signs: Ints, weights: Floats) -> float:
    """Return the slope that calibrates margins as log-odds; the boundary stays where it is.

    Examples
    --------
    >>> import numpy as np
    >>> round(best_slope(np.array([5.0, 5.0, 5.0, -5.0]), np.array([1, 1, -1, -1]), np.ones(4)), 2)
    0.2
    """
    losses = [float(weights @ np.logaddexp(0.0, -slope * signs * margins)) for slope in SLOPES]
    return float(SLOPES[int(np.argmin(losses))])


def _best_ridge(labelled: LabelledRows) -> float:
    """Return the ridge with the smallest weighted out-of-fold log loss; ridges warm-start each other."""
    losses = np.zeros(len(LOGISTIC_RIDGES))
    for fold in np.unique(labelled.folds):
        out = labelled.folds == fold
        inside = labelled.select(~out)
        for i, fit in fit_ridges(inside.rows, 2 * inside.codes - 1, inside.weights, LOGISTIC_RIDGES, tol=TUNING_TOL):
            margins = (2 * labelled.codes[out] - 1) * fit.margins(labelled.rows[out])
            losses[i] += float(labelled.weights[out] @ np.logaddexp(0.0, -margins))
    return LOGISTIC_RIDGES[int(np.argmin(losses))]


def _fit_near_boundary(population: Population, labelled: LabelledRows, ridge: float, tol: float = 1e-8) -> NewtonFit:
    """Fit once, then twice more with rows near the boundary up-weighted."""
    signs = 2 * labelled.codes - 1
    fit = fit_logistic(labelled.rows, signs, labelled.weights, ridge, tol=tol, with_hessian=False)
    settings = labelled.rows, signs, labelled.weights, ridge, 0.0
    return near_boundary(fit, *settings, population=population.typical, with_hessian=False)[0]


def fit_ridge(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit:
    """Fit ridge regression on the features; `tuned` is the ridge, chosen if not given."""
    if not tuned:
        subset = labelled.subsample()
        tuned = (best_ridge([with_constant(subset.rows, CONSTANT)], subset, LINEAR_RIDGES)[1],)
    coef, shift, out_of_fold = fit_to_targets(with_constant(labelled.rows, CONSTANT), labelled, tuned[0])
    return LearnerFit(LinearChances(coef[:-1], shift + CONSTANT * coef[-1]), out_of_fold, tuned)


# -- the additive learner ---------------------------------------------------------------------------------------


def fit_additive(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit:
    """Fit the additive learner; `tuned` is its ridge, chosen by leave-one-out if not given."""
    curve_knots = population.curve_knots

    def design(Z: Floats) -> Floats:
        return np.column_stack([Z, KNOT_SCALE * curve_knots(Z), np.full(len(Z), CONSTANT)])

    if not tuned:
        subset = labelled.subsample()
        tuned = (best_ridge([design(subset.dense)], subset, LINEAR_RIDGES)[1],)
    coef, shift, out_of_fold = fit_to_targets(design(labelled.dense), labelled, tuned[0])
    n_features, n_curved = labelled.rows.shape[1], curve_knots.features.size
    values = KNOT_SCALE * coef[n_features:-1].reshape(n_curved, CURVE_KNOTS, labelled.n_classes).transpose(1, 0, 2)
    for i, count in enumerate(curve_knots.count):
        values[count:, i] = values[count - 1, i]
    chances = AdditiveChances(
        curve_knots.features, curve_knots.knots, values, coef[:n_features], shift + CONSTANT * coef[-1]
    )
    return LearnerFit(chances, out_of_fold, tuned)


# -- the kernel learner -----------------------------------------------------------------------------------------


def fit_kernel(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit:
    """Fit ridge regression on a Gaussian kernel; `tuned` is the index of its map and its ridge, chosen if not given."""
    if not tuned:
        subset = labelled.subsample()
        tuned = best_ridge([kernel(subset.dense) for kernel in population.maps], subset, KERNEL_RIDGES)
    kernel: KernelMap = population.maps[int(tuned[0])]
    coef, shift, out_of_fold = fit_to_targets(kernel(labelled.dense), labelled, tuned[1])
    chances = KernelChances(
        kernel.space, kernel.landmarks, kernel.gamma, kernel.whiten @ coef[:-1], shift + CONSTANT * coef[-1]
    )
    return LearnerFit(chances, out_of_fold, tuned)

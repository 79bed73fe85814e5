"""Ridge regression onto the classes, on a Gaussian kernel or on the features themselves.

With Y the classes as −1/K and 1 − 1/K and w the weights, ``C = argmin Σ w·|Y − F·C|² + ridge·|C|²``. In the eigenvectors of
FᵀWF it is a division, so that every ridge costs one product, and leaving a row out is exact: its residual is divided by
``1 − w·fᵀ(FᵀWF + ridge)⁻¹f``. Ridge, width and space are those with the least squared residual left out. Scores become chances
by a slope and a shift for each class, chosen on scores out of fold: those of left-out rows are a little too kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.learners.blend_settings import CONSTANT, KERNEL_RIDGES, LEAST_LEFT, LINEAR_RIDGES
from observal.learners.calibration import calibrate, softmax
from observal.learners.labelled import Fitted, Labelled, targets
from observal.learners.population import KernelMap, Population, Space, gaussian
from observal.problem.rows import Matrix, is_sparse, to_dense, with_constant


@dataclass(frozen=True, eq=False)
class LinearChances:
    """softmax(x·C + b): the chances of a linear learner.

    Parameters
    ----------
    coef : array of shape (features, classes)
        C.
    shift : array of shape (classes,)
        b.
    """

    coef: Floats
    shift: Floats

    def __post_init__(self) -> None:
        if self.coef.ndim != 2 or self.shift.shape != self.coef.shape[1:]:
            raise InvalidInput("The weights and shifts of a linear learner do not fit together; use an undamaged copy.")

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return self.coef.shape[0], self.coef.shape[1]

    def __call__(self, Z: Any) -> Floats:
        """Return the chance of each class for standardised rows."""
        return softmax(np.asarray(Z @ self.coef) + self.shift)


@dataclass(frozen=True, eq=False)
class KernelChances:
    """softmax(k(x)·C + b), k(x) being the kernel between a row and the landmarks.

    Parameters
    ----------
    space : Space
        Where distances are measured.
    landmarks : array of shape (landmarks, features)
        Points of that space.
    gamma : float
        Of the kernel exp(−γ·distance²).
    coef : array of shape (landmarks, classes)
        C.
    shift : array of shape (classes,)
        b.
    """

    space: Space
    landmarks: Floats
    gamma: float
    coef: Floats
    shift: Floats

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
            raise InvalidInput(
                "The landmarks and weights of a kernel learner do not fit together; use an undamaged copy."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return self.landmarks.shape[1], self.coef.shape[1]

    def __call__(self, Z: Floats) -> Floats:
        """Return the chance of each class for standardised rows."""
        scores = gaussian(self.space(Z), self.landmarks, self.gamma) @ self.coef
        return softmax(scores + self.shift)


# -- ridge regression -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Rows in the eigenvectors of FᵀWF, in which ridge regression is a division.

    Parameters
    ----------
    rows : array of shape (rows, directions)
        F·V.
    values : array of shape (directions,)
        The eigenvalues.
    directions : array of shape (features, directions)
        V.
    weights : array of shape (rows,)
        w.
    targets : array of shape (rows, classes)
        Y.
    """

    rows: Floats
    values: Floats
    directions: Floats
    weights: Floats
    targets: Floats

    @classmethod
    def of(cls, F: Matrix, weights: Floats, targets: Floats) -> Self:
        """Decompose FᵀWF, or WFFᵀ where there are fewer rows than features."""
        roots = np.sqrt(weights)[:, None]
        half: Matrix = F.multiply(roots).tocsr() if is_sparse(F) else F * roots
        if F.shape[0] >= F.shape[1]:
            values, directions = np.linalg.eigh(to_dense(half.T @ half))
            values = np.maximum(values, 0.0)
        else:
            values, left = np.linalg.eigh(to_dense(half @ half.T))
            kept = values > 1e-12 * values[-1]
            values = values[kept]
            directions = to_dense(half.T @ left[:, kept]) / np.sqrt(values)
        return cls(to_dense(F @ directions), values, directions, weights, targets)

    def left_out(self, ridge: float) -> float:
        """Return the weighted sum of squared residuals, each row's from the regression without it."""
        inverse = 1.0 / (self.values + ridge)
        left = np.maximum(1.0 - self.weights * (np.square(self.rows) @ inverse), LEAST_LEFT)
        residuals = (self.targets - self.rows @ (inverse[:, None] * self._products)) / left[:, None]
        return float(self.weights @ np.square(residuals).sum(axis=1))

    def coef(self, ridge: float) -> Floats:
        """Return C."""
        return np.asarray(self.directions @ (self._products / (self.values + ridge)[:, None]))

    def out_of_fold(self, ridge: float, folds: Ints) -> Floats:
        """Return each row's scores by the regression without its fold."""
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


def best_ridge(designs: Sequence[Matrix], labelled: Labelled, ridges: Sequence[float]) -> tuple[int, float]:
    """Return which of some designs, and which ridge, have the least squared residual left out."""
    Y = targets(labelled.codes, labelled.n_classes)
    losses = []
    for F in designs:
        spectrum = Spectrum.of(F, labelled.weights, Y)
        losses.append([spectrum.left_out(ridge) for ridge in ridges])
    design, ridge = np.unravel_index(np.argmin(losses), (len(designs), len(ridges)))
    return int(design), ridges[int(ridge)]


def fit_to_targets(F: Matrix, labelled: Labelled, ridge: float) -> tuple[Floats, Floats, Floats]:
    """Return calibrated weights (features × classes), shifts, and chances out of fold."""
    spectrum = Spectrum.of(F, labelled.weights, targets(labelled.codes, labelled.n_classes))
    scores = spectrum.out_of_fold(ridge, labelled.folds)
    slope, shift = calibrate(scores, labelled.codes, labelled.weights)
    return slope * spectrum.coef(ridge), shift, softmax(slope * scores + shift)


# -- the learners -----------------------------------------------------------------------------------------------


def fit_kernel(population: Population, labelled: Labelled, tuned: tuple[float, ...] = ()) -> Fitted:
    """Fit ridge regression on a Gaussian kernel; `tuned` is the number of its map and the ridge, chosen where not given."""
    if not tuned:
        some = labelled.some()
        tuned = best_ridge([kernel(some.dense) for kernel in population.maps], some, KERNEL_RIDGES)
    kernel: KernelMap = population.maps[int(tuned[0])]
    coef, shift, out_of_fold = fit_to_targets(kernel(labelled.dense), labelled, tuned[1])
    made = KernelChances(
        kernel.space, kernel.landmarks, kernel.gamma, kernel.whiten @ coef[:-1], shift + CONSTANT * coef[-1]
    )
    return Fitted(made, out_of_fold, tuned)


def fit_ridge(population: Population, labelled: Labelled, tuned: tuple[float, ...] = ()) -> Fitted:
    """Fit ridge regression on the features; `tuned` is the ridge, chosen where not given."""
    if not tuned:
        some = labelled.some()
        tuned = (best_ridge([with_constant(some.rows, CONSTANT)], some, LINEAR_RIDGES)[1],)
    coef, shift, out_of_fold = fit_to_targets(with_constant(labelled.rows, CONSTANT), labelled, tuned[0])
    return Fitted(LinearChances(coef[:-1], shift + CONSTANT * coef[-1]), out_of_fold, tuned)

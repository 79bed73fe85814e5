"""The blend's additive learner: a bent line for each feature, fitted together by ridge regression onto the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.learners.blend_settings import BENDS, CONSTANT, CURVE, LEAST_VALUES, LINEAR_RIDGES, MOST_CURVED
from observal.learners.calibration import softmax
from observal.learners.kernel import best_ridge, fit_to_targets
from observal.learners.labelled import Fitted, Labelled
from observal.learners.population import Population
from observal.problem.rows import to_dense


@dataclass(frozen=True, eq=False)
class Bends:
    """Where the line of each curved feature may bend: at quantiles of the population.

    Parameters
    ----------
    features : int array of shape (curved,)
        The features that are curved: those with more than a few values.
    knots : array of shape (bends, curved)
        Increasing. Where a feature has fewer quantiles, further knots lie one apart beyond the last.
    count : int array of shape (curved,)
        Knots of each feature that are quantiles.
    """

    features: Ints
    knots: Floats
    count: Ints

    @classmethod
    def of(cls, Z: Floats) -> Self:
        """Find the bends for standardised rows of the population."""
        features = [j for j in range(Z.shape[1]) if np.unique(Z[:2000, j]).size >= LEAST_VALUES][:MOST_CURVED]
        knots, count = np.empty((BENDS, len(features))), np.empty(len(features), dtype=np.int64)
        for i, j in enumerate(features):
            found = np.unique(np.quantile(Z[:, j], np.linspace(0.0, 1.0, BENDS)))
            beyond = found[-1] + np.arange(1.0, BENDS - found.size + 1)
            knots[:, i], count[i] = np.append(found, beyond), found.size
        return cls(np.array(features, dtype=np.int64), knots, count)

    def place(self, Z: Floats, i: int) -> tuple[Ints, Floats]:
        """Return the knot before each row's value of a curved feature, and how far the row is from there to the next."""
        return place(Z[:, self.features[i]], self.knots[:, i])

    def __call__(self, Z: Floats) -> Floats:
        """Return a column for each knot: 1 on it, 0 from the next knots on, straight in between."""
        rows, parts = np.arange(len(Z)), []
        for i in range(self.features.size):
            at, part = self.place(Z, i)
            columns = np.zeros((len(Z), BENDS))
            columns[rows, at] = 1.0 - part
            columns[rows, at + 1] += part
            last = self.count[i] - 1
            columns[:, last] += columns[:, last + 1 :].sum(axis=1)  # level beyond the last quantile
            columns[:, last + 1 :] = 0.0
            parts.append(columns)
        return np.hstack(parts) if parts else np.empty((len(Z), 0))


def place(values: Floats, knots: Floats) -> tuple[Ints, Floats]:
    """Return the knot before each value, and the part of the way to the next; level beyond both ends.

    Examples
    --------
    >>> import numpy as np
    >>> [part.tolist() for part in place(np.array([-5.0, 0.5, 9.0]), np.array([0.0, 1.0, 3.0]))]
    [[0, 0, 1], [0.0, 0.5, 1.0]]
    """
    at = np.clip(np.searchsorted(knots, values, "right") - 1, 0, knots.size - 2)
    return at, np.clip((values - knots[at]) / (knots[at + 1] - knots[at]), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class AdditiveChances:
    """softmax(x·C + Σ_j f_j(x_j) + b), each f_j a line that bends at some knots.

    Parameters
    ----------
    features : int array of shape (curved,)
        The features that are curved.
    knots : array of shape (bends, curved)
        Increasing.
    values : array of shape (bends, curved, classes)
        f_j at the knots.
    coef : array of shape (features, classes)
        C.
    shift : array of shape (classes,)
        b.
    """

    features: Ints
    knots: Floats
    values: Floats
    coef: Floats
    shift: Floats

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
            raise InvalidInput("The bends of an additive learner do not fit together; use an undamaged copy.")

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return self.coef.shape[0], self.coef.shape[1]

    def __call__(self, Z: Floats) -> Floats:
        """Return the chance of each class for standardised rows."""
        scores = Z @ self.coef + self.shift
        for i, feature in enumerate(self.features):
            at, part = place(Z[:, feature], self.knots[:, i])
            values, steps = self.values[:, i], np.diff(self.values[:, i], axis=0)
            scores += values[at] + part[:, None] * steps[at]
        return softmax(scores)


def fit_additive(population: Population, labelled: Labelled, tuned: tuple[float, ...] = ()) -> Fitted:
    """Fit the additive learner; `tuned` is its ridge, chosen by leaving rows out where not given."""
    bends = Bends.of(to_dense(population.sample))

    def design(Z: Floats) -> Floats:
        return np.column_stack([Z, CURVE * bends(Z), np.full(len(Z), CONSTANT)])

    if not tuned:
        some = labelled.some()
        tuned = (best_ridge([design(some.dense)], some, LINEAR_RIDGES)[1],)
    coef, shift, out_of_fold = fit_to_targets(design(labelled.dense), labelled, tuned[0])
    n_features, n_curved = labelled.rows.shape[1], bends.features.size
    values = CURVE * coef[n_features:-1].reshape(n_curved, BENDS, labelled.n_classes).transpose(1, 0, 2)
    for i, count in enumerate(bends.count):
        values[count:, i] = values[count - 1, i]
    made = AdditiveChances(bends.features, bends.knots, values, coef[:n_features], shift + CONSTANT * coef[-1])
    return Fitted(made, out_of_fold, tuned)

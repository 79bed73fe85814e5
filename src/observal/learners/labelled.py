"""What every learner of the blend takes and returns: labelled rows, and calibrated probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.learners.blend_settings import MIN_CHANCE, SHARPNESSES, TUNING_ROWS
from observal.problem.rows import Matrix, to_dense


class LabelledRows(NamedTuple):
    """Labelled rows as learners get them.

    `rows` are standardised; `codes` run from 0 to `n_classes` − 1; `weights` are positive with mean 1;
    `folds` holds each row's fold.
    """

    rows: Matrix
    codes: Ints
    weights: Floats
    n_classes: int
    folds: Ints

    @property
    def dense(self) -> Floats:
        """The rows as an array; only the linear learner is given sparse rows."""
        return to_dense(self.rows)

    def subsample(self) -> LabelledRows:
        """Return an evenly spaced subset that is large enough for tuning."""
        return self.select(slice(None, None, 1 + (self.codes.size - 1) // TUNING_ROWS))

    def select(self, which: slice | Ints | Bools) -> LabelledRows:
        """Return some of the rows."""
        return LabelledRows(self.rows[which], self.codes[which], self.weights[which], self.n_classes, self.folds[which])

    def splits(self) -> Iterator[tuple[int, Bools, Bools]]:
        """Yield the number, training rows and held-out rows of each fold that leaves two classes or more."""
        for fold in np.unique(self.folds):
            test = self.folds == fold
            if np.unique(self.codes[~test]).size > 1:
                yield int(fold), ~test, test

    def uniform_chances(self) -> Floats:
        """Return equal class probabilities for each row."""
        return np.full((self.codes.size, self.n_classes), 1.0 / self.n_classes)


class LearnerFit(NamedTuple):
    """A fitted learner: a function from standardised rows to probabilities, out-of-fold probabilities, settings."""

    chances: Any
    out_of_fold: Floats
    tuned: tuple[float, ...] = ()


def targets(codes: Ints, n_classes: int) -> Floats:
    """Return centred one-hot class targets.

    Examples
    --------
    >>> import numpy as np
    >>> targets(np.array([0, 1]), 2).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    return np.asarray(np.eye(n_classes)[codes] - 1.0 / n_classes)


# -- probabilities -----------------------------------------------------------------------------------------------


def clip_chances(chances: Floats) -> Floats:
    """Return probabilities with a floor, summing to 1.

    The result is finite for any input: a learner loaded from a file may return anything.

    Examples
    --------
    >>> import numpy as np
    >>> clip_chances(np.array([[0.0, 1.0], [np.nan, np.inf]])).round(4).tolist()
    [[0.001, 0.999], [0.0, 1.0]]
    """
    chances = np.fmin(np.fmax(chances, MIN_CHANCE), 1e100)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def sharpen(chances: Floats, sharpness: float) -> Floats:
    """Return probabilities raised to a power and normalised: above 1 they become more confident.

    Examples
    --------
    >>> import numpy as np
    >>> sharpen(np.array([[0.2, 0.8]]), 2.0).round(3).tolist()
    [[0.059, 0.941]]
    """
    return clip_chances(clip_chances(chances) ** sharpness)


def best_sharpness(chances: Floats, codes: Ints, weights: Floats) -> float:
    """Return the sharpness with the smallest weighted log loss plus log(sharpness)², a penalty for leaving 1.

    `chances` are out-of-fold, and `weights` have mean 1.

    Examples
    --------
    >>> import numpy as np
    >>> chances = np.tile([[0.4, 0.6]], (400, 1))  # 80 % of these rows are of the second class
    >>> best_sharpness(chances, (np.arange(400) % 5 > 0).astype(int), np.ones(400)) > 2.5
    True
    """
    at = np.arange(codes.size), codes
    odds = np.log(clip_chances(chances))
    odds -= odds[at][:, None]
    losses = [weights @ np.log(np.exp(s * odds).sum(axis=1)) + np.log(s) ** 2 for s in SHARPNESSES]
    return float(SHARPNESSES[int(np.argmin(losses))])


def softmax(scores: Floats, axis: int = 1) -> Floats:
    """Return the softmax of scores.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.log([[1.0, 3.0]])).tolist()
    [[0.25, 0.75]]
    """
    from scipy import special  # lazy: scipy is slow to import

    return np.asarray(special.softmax(scores, axis=axis))


def calibrate(scores: Floats, codes: Ints, weights: Floats) -> tuple[float, Floats]:
    """Return the slope a and shifts b that minimise the weighted log loss of softmax(a·scores + b).

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> slope, shift = calibrate(scores, np.array([0, 1, 1, 0]), np.ones(4))  # scores that say nothing
    >>> round(slope, 2), shift.round(2).tolist()
    (0.1, [0.0, 0.0])
    """
    from scipy.optimize import minimize

    n, n_classes = scores.shape
    at, shares = (np.arange(n), codes), weights / weights.sum()

    def loss(theta: Floats) -> tuple[float, Floats]:
        chances = softmax(theta[0] * scores + theta[1:])
        value = -shares @ np.log(np.maximum(chances[at], 1e-300)) + 1e-3 * float(theta[1:] @ theta[1:])
        chances[at] -= 1.0
        chances *= shares[:, None]
        return float(value), np.append((chances * scores).sum(), chances.sum(axis=0) + 2e-3 * theta[1:])

    limits = [(0.1, 50.0)] + [(-5.0, 5.0)] * n_classes
    theta = minimize(loss, np.append(3.0, np.zeros(n_classes)), jac=True, method="L-BFGS-B", bounds=limits).x
    return float(theta[0]), theta[1:]

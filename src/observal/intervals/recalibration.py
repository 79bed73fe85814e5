"""What a classifier's scores mean for the whole population, and how uncertain that is.

A classifier is fitted on labels that were chosen, so its chances need not hold for all rows. With z the out-of-fold log odds
of a labelled row, the chance of the positive class is taken to be ``σ(a + b·z)``. Shift a and slope b maximise

    Σ w·log p(y | z) − (a²·PRIOR_SHIFT + (b − 1)²·PRIOR_SLOPE)/2.

w is the square root of the share of the population that a label represents, scaled so that they sum to the effective sample size,
(Σ w)²/Σ w². The square root trades a little bias for much less noise, as in the fits themselves. The inverse of the curvature is the covariance of (a, b): draws
from that normal distribution stand for all values that the labels allow. With few positive labels the draws vary a lot, and in some of them positive rows hide
among low scores.

Out-of-fold fits are less confident than the classifier, so the same score means less to them. ``match_scores`` puts theirs on the
classifier's scale: a score becomes the one that the classifier gives to as large a share of the unlabelled rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from observal.checks import Floats, Ints

PRIOR_SHIFT, PRIOR_SLOPE = 0.04, 1.0
"""How strongly the shift is held at 0, and the slope at 1: by little, as a handful of labels overrules them."""
DRAWN_WIDER = 2.0**0.5
"""Factor by which draws are spread out for intervals and cautious targets: scores do not quite follow a logistic curve, so the variance is doubled."""
LEAST_SLOPE = 0.05  # higher scores are never less likely to be positive
DRAWS = 100
STEPS, STEP, ENOUGH = 50, 2.0, 1e-8  # Newton's steps: how many, how long at most, and when to stop
FARTHEST = 9.21  # log odds beyond which chances are as good as certain: those of 1 in 10,000


@dataclass(frozen=True, eq=False)
class Recalibration:
    """From scores in log odds to chances in the whole population: σ(shift + slope·score).

    Parameters
    ----------
    shift, slope : float
        a and b.
    draws : array of shape (DRAWS, 2)
        Other shifts and slopes that the labels allow, each as likely as the next.

    Examples
    --------
    >>> import numpy as np
    >>> Recalibration(0.0, 1.0, np.array([[0.0, 1.0]])).chances(np.array([0.0, 3.0])).round(2).tolist()
    [0.5, 0.95]
    """

    shift: float
    slope: float
    draws: Floats = field(repr=False)

    def chances(self, scores: Floats) -> Floats:
        """Return the chance of each row."""
        return sigmoid(self.shift + self.slope * clip_scores(scores))

    def drawn_chances(self, scores: Floats) -> Floats:
        """Return the chances of each row by each draw, draws × rows."""
        return sigmoid(self.draws[:, :1] + self.draws[:, 1:] * clip_scores(scores))

    def widened(self, factor: float) -> Recalibration:
        """Return the recalibration with draws that are `factor` times as far away from the fit.

        Examples
        --------
        >>> import numpy as np
        >>> Recalibration(0.0, 1.0, np.array([[0.1, 1.2]])).widened(2.0).draws.round(2).tolist()
        [[0.2, 1.4]]
        """
        fit = np.array([self.shift, self.slope])
        draws = fit + factor * (self.draws - fit)
        draws[:, 1] = np.maximum(draws[:, 1], LEAST_SLOPE)
        return replace(self, draws=draws)


def recalibrate(scores: Floats, codes: Ints, shares: Floats, worth: float = 1.0) -> Recalibration:
    """Fit a recalibration.

    Parameters
    ----------
    scores, codes : arrays
        Of the labelled rows: log odds by fits that have not seen their labels, and classes.
    shares : array
        The share of the population that each represents.
    worth : float
        How much of a label each counts, where rows are related.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=2000)
    >>> codes = (rng.random(2000) < sigmoid(2.0 * scores - 1.0)).astype(int)
    >>> fit = recalibrate(scores, codes, np.ones(2000))
    >>> round(fit.shift, 1), round(fit.slope, 1)
    (-0.9, 2.0)
    """
    weights = worth * label_strength(shares)
    Z = np.column_stack([np.ones(scores.size), clip_scores(scores)])
    prior, start = np.diag([PRIOR_SHIFT, PRIOR_SLOPE]), np.array([0.0, 1.0])
    theta, curvature = start, prior
    for _ in range(STEPS):
        chances = sigmoid(Z @ theta)
        gradient = Z.T @ (weights * (chances - codes)) + prior @ (theta - start)
        curvature = (Z.T * (weights * chances * (1.0 - chances))) @ Z + prior
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(step).max())
        theta = theta - step * min(1.0, STEP / max(longest, ENOUGH))
        if longest < ENOUGH:
            break
    spread = np.linalg.cholesky(np.linalg.inv(curvature))
    away = np.random.default_rng(0).normal(size=(DRAWS // 2, 2)) @ spread.T
    draws = np.concatenate([theta + away, theta - away])
    draws[:, 1] = np.maximum(draws[:, 1], LEAST_SLOPE)
    return Recalibration(float(theta[0]), max(float(theta[1]), LEAST_SLOPE), draws)


def match_scores(scores: Floats, own: Floats, reference: Floats) -> Floats:
    """Return scores of one classifier on the scale of another: as high among `reference` as they were among `own`.

    Beyond the ends they keep their distance from them.

    Parameters
    ----------
    scores : array
        By the first classifier.
    own, reference : arrays
        What the two give to the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> match_scores(np.array([1.0, 2.5, 5.0]), np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])).tolist()
    [10.0, 25.0, 32.0]
    """
    own, reference = np.sort(own), np.sort(reference)
    inside = np.interp(scores, own, reference)
    return np.asarray(inside + np.minimum(scores - own[0], 0.0) + np.maximum(scores - own[-1], 0.0))


def label_strength(shares: Floats) -> Floats:
    """Return what each label counts: the square roots of the shares, scaled to the number of labels that they are worth.

    Examples
    --------
    >>> import numpy as np
    >>> label_strength(np.array([1.0, 1.0, 4.0])).round(2).tolist()
    [0.67, 0.67, 1.33]
    """
    roots = np.sqrt(np.maximum(shares, 0.0))
    if not roots.any():
        return np.ones(shares.size)
    return np.asarray(roots * (roots.sum() / (roots @ roots)))


def log_odds(chances: Floats) -> Floats:
    """Return the log odds of chances, as far as they are told apart.

    Examples
    --------
    >>> import numpy as np
    >>> log_odds(np.array([0.5, 1.0])).round(2).tolist()
    [0.0, 9.21]
    """
    inside = np.clip(chances, 1e-300, 1.0 - 1e-16)
    return clip_scores(np.log(inside) - np.log1p(-inside))


def clip_scores(scores: Floats) -> Floats:
    """Return scores within the range in which they are told apart."""
    return np.clip(scores, -FARTHEST, FARTHEST)


def sigmoid(values: Floats) -> Floats:
    """Return 1/(1 + exp(−v)).

    Examples
    --------
    >>> sigmoid(np.array([0.0])).tolist()
    [0.5]
    """
    from scipy.special import expit  # lazy: scipy is slow to import

    return np.asarray(expit(values))

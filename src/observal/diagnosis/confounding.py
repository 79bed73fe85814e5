"""Hidden confounding: how far the error estimate moves if the policy used something that is not recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Floats, check_number, check_propensity
from observal.errors import InvalidInput
from observal.problem.words import count, number, percent


def confounded_range(outcomes: ArrayLike, propensity: ArrayLike, strength: float) -> tuple[float, float]:
    r"""Return the smallest and largest weighted mean under hidden confounding of a given strength, exactly.

    Under the marginal sensitivity model (Tan, 2006) the odds that a row was truly revealed, which may depend
    on its label, are within [1/Γ, Γ] times those of its stated propensity e. Its weight is then
    ``w = 1 + (1/e − 1)·g`` with g in [1/Γ, Γ], and the mean is ``Σ w·v / Σ w``. That ratio is largest if
    every row with an outcome above some threshold has its largest weight and every other row its smallest, so
    one sort and cumulative sums find it.

    `outcomes` are v, for instance 1 for a mistake and 0 otherwise; `propensity` is e > 0; `strength` is Γ ≥
    1, where 1 means no hidden confounding.

    Examples
    --------
    >>> confounded_range([1, 0, 0, 1], [0.5, 0.5, 0.5, 0.5], strength=1.0)
    (0.5, 0.5)
    >>> low, high = confounded_range([1, 0, 0, 1], [0.5, 0.5, 0.5, 0.5], strength=2.0)
    >>> round(low, 4), round(high, 4)
    (0.3333, 0.6667)
    """
    check_number(strength, "The strength of confounding", 1.0)
    values = np.asarray(outcomes, dtype=np.float64).ravel()
    chance = check_propensity(propensity, values.size, "The rows")
    if values.size == 0 or not np.isfinite(values).all() or not (chance > 0.0).all():
        raise InvalidInput(
            f"A confounded range needs finite outcomes with propensities above 0, but got {values.size} outcomes and "
            f"propensities from {chance.min(initial=1.0):g}; leave out rows without a label."
        )
    odds = (1.0 - chance) / chance
    lightest, heaviest = 1.0 + odds / strength, 1.0 + odds * strength
    return -_largest_weighted_mean(-values, lightest, heaviest), _largest_weighted_mean(values, lightest, heaviest)


def _largest_weighted_mean(values: Floats, lightest: Floats, heaviest: Floats) -> float:
    """Return the largest weighted mean with each weight between its two bounds."""
    order = np.argsort(-values, kind="stable")
    v, low, high = values[order], lightest[order], heaviest[order]

    def prefix(a: Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(a)])

    def suffix(a: Floats) -> Floats:
        return np.concatenate([np.cumsum(a[::-1])[::-1], [0.0]])

    return float(np.max((prefix(high * v) + suffix(low * v)) / (prefix(high) + suffix(low))))


@dataclass(frozen=True)
class Confounding:
    """How far hidden confounding would move the estimated error of a classifier fitted on the log.

    Parameters
    ----------
    error : float or None
        The weighted out-of-fold error, without clipped rows; None if there are too few labels.
    rows : int
        Labels behind it.
    ranges : tuple of (strength, low, high)
        The errors that confounding of each strength allows.
    """

    error: float | None
    rows: int
    ranges: tuple[tuple[float, float, float], ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        if self.error is None:
            return (
                "There are too few labels within the clip to estimate an error, so the effect of confounding is unknown.",
            )
        sentences = [
            f"A linear classifier fitted on the log's labels is wrong on about {percent(self.error)} of the rows that the log "
            f"covers (out of fold, {count(self.rows, 'label')}).",
        ]
        if all(percent(low) == percent(high) for _, low, high in self.ranges):
            return (
                *sentences,
                "These rows were almost certain to get a label, so wrong odds would hardly change that number. It says nothing about rows "
                "that had almost no chance of a label.",
            )
        sentences += [
            "If the old policy also used something that was not recorded, its true odds of revealing a label differ "
            "from the stated ones. The error could then be:",
        ]
        sentences += [
            f"– odds wrong by a factor of up to {number(strength)}: between {percent(low)} and {percent(high)}."
            for strength, low, high in self.ranges
        ]
        return tuple(sentences)

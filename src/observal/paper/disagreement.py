"""How far classifiers close to the best one disagree: the disagreement coefficients of a finite class, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Bools, check_mass, check_number, check_propensity
from observal.errors import InvalidInput


def disagreement_coefficient(
    predictions: ArrayLike,
    mass: ArrayLike | None,
    best: int,
    *,
    noise: float = 0.0,
    radius: float | None = None,
    propensity: ArrayLike | None = None,
    max_propensity: float | None = None,
    n_logged: float | None = None,
    n_online: float | None = None,
) -> float:
    """Return θ, or with `propensity` the modified θ̃, of a finite class on a finite distribution, exactly.

    θ̃(r, t) = P(DIS(B(h*, r)) ∩ {Q0 ≤ 1/t})/r at `radius` r, or its supremum over r > 2ν where no radius is given, and
    θ(r) = θ̃(r, 1). The disagreement region grows only at the distances of classifiers from h*, so the supremum is that over
    those distances above 2ν, or the limit at 2ν from above. A distance counts as within r up to a rounding error of 1e-12·r.

    1/t is `max_propensity`, by default min(1, 2n/m) from `n_logged` and `n_online`: Algorithm 1 asks where Q0 < 2n/m, so
    t = max(1, m/(2n)). The paper prints t = 2m/n, that is ``max_propensity=n / (2 * m)``.

    Parameters
    ----------
    predictions : array of shape (classifiers, points)
        −1 or +1.
    mass : array of shape (points,) or None
        P(x) of each point; equal masses for None.
    best : int
        The row of h*.
    noise : float
        ν, the error of h*.

    Examples
    --------
    Thresholds on four equally likely points, the best in the middle, and a log that saw only the upper half:

    >>> predictions = np.where(np.arange(4) >= np.arange(5)[:, None], 1, -1)
    >>> disagreement_coefficient(predictions, None, best=2)
    2.0
    >>> disagreement_coefficient(predictions, None, best=2, propensity=[0, 0, 1, 1], n_logged=100, n_online=10)
    1.0
    """
    signs = np.asarray(predictions)
    if signs.ndim != 2 or signs.size == 0 or not np.isin(signs, (-1, 1)).all():
        raise InvalidInput(
            f"Predictions must be −1 or +1, classifiers × points, but have shape {signs.shape} or other values; encode them."
        )
    if not 0 <= best < signs.shape[0]:
        raise InvalidInput(
            f"The best classifier must be one of the {signs.shape[0]} rows, but is {best}; give its position."
        )
    share = check_mass(mass, signs.shape[1])
    allowed = (share > 0.0) & _asked(signs.shape[1], propensity, max_propensity, n_logged, n_online)
    differ = signs != signs[best]
    distance = differ @ share
    order = np.argsort(distance)
    nearest = differ[order].argmax(axis=0)  # per point, the closest classifier that disagrees with h* there
    counted = allowed & differ.any(axis=0)
    reach, weight = distance[order][nearest][counted], share[counted]
    if radius is not None:
        check_number(radius, "The radius", 0.0, open_low=True)
        return float(weight[reach <= radius * (1.0 + 1e-12)].sum()) / radius
    least = 2.0 * check_number(noise, "The noise", 0.0, 1.0)
    limit = float(weight[reach <= least].sum()) / least if least > 0.0 else 0.0
    order = np.argsort(reach)
    reach, weight = reach[order], np.cumsum(weight[order])
    beyond = reach > least
    return max(limit, float(np.max(weight[beyond] / reach[beyond], initial=0.0)))


def _asked(
    n_points: int,
    propensity: ArrayLike | None,
    max_propensity: float | None,
    n_logged: float | None,
    n_online: float | None,
) -> Bools:
    """Return where Q0 ≤ 1/t; everywhere without propensities."""
    if propensity is None:
        if max_propensity is not None:
            raise InvalidInput(
                f"A largest propensity of {max_propensity} needs propensities, but none were given; give propensity=."
            )
        return np.ones(n_points, dtype=np.bool_)
    if max_propensity is None:
        if n_logged is None or n_online is None:
            raise InvalidInput(
                f"The region that is asked about needs both sample sizes, but n_logged is {n_logged} and n_online is "
                f"{n_online}; give both, or max_propensity=."
            )
        check_number(n_logged, "The number of logged rows", 0.0, open_low=True)
        max_propensity = min(1.0, 2.0 * check_number(n_online, "The number of online rows", 0.0) / n_logged)
    check_number(max_propensity, "The largest propensity", 0.0, 1.0)
    return check_propensity(propensity, n_points, "The distribution") <= max_propensity

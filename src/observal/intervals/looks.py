"""How much wider intervals must be because people look at every round.

An interval that covers in 95 of 100 campaigns when it is looked at once covers less often at all rounds together, and least at the
round that looks best. There are two remedies; both multiply the distance from the estimate to either end.

**Planned.** Let t be the share of all planned labels (the log's and the budget) that exist so far. Up to t, the chance of ever missing is
allowed to be ``α(t) = 2 − 2·Φ(z/√(t^r))``, z being the quantile for one look: O'Brien and Fleming's (Lan and DeMets, 1983), with a
power r such that the first look, with the log alone, is about twice as wide as a single look would be. Little is spent early, so
that the last interval is hardly wider than a single look's. At each look the bound follows from those before it: estimates at
several looks behave like a Brownian motion B(t)/t, because later ones contain the labels of the earlier ones. They are a little less
correlated than that, because the classifier changes from round to round; a twentieth is added, which sufficed in 240 campaigns of four
kinds.

**Sequence.** Without a planned end, Robbins' normal mixture holds at all times at once: with n labels,
``√(2·(n·ρ² + 1)/(n·ρ²)·log(√(n·ρ² + 1)/α))`` standard errors, ρ chosen to be narrowest at a given n.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log, sqrt

import numpy as np

from observal.checks import Floats
from observal.problem.goals import Looks, check_looks

ALPHA = 0.05
POINTS = 401
"""Grid points for the density of paths that have not crossed a bound."""
LESS_ALIKE = 1.05
"""Factor that widens bounds over several looks, because the classifier changes between them."""
NO_STEP = 1e-3
"""Looks closer together than this share of all labels are one look."""


def stretch(looks: Looks, labels: Sequence[int], planned: int | None) -> float:
    """Return by how much the last look's interval is to be stretched, compared with a single look.

    Parameters
    ----------
    looks : {"planned", "always", "once"}
        What the intervals must hold for: all rounds up to the planned number of labels; all rounds, however many follow; or one
        round that was settled beforehand.
    labels : sequence of int
        All labels, the log's and the bought ones, at each look so far.
    planned : int, optional
        All labels at the end; without it "planned" is "always".

    Examples
    --------
    >>> stretch("once", [200, 300], 500)
    1.0
    >>> [round(stretch("planned", [200, 300, 400, 500][:k], 500), 2) for k in (1, 2, 3, 4)]
    [2.1, 1.55, 1.25, 1.08]
    >>> round(stretch("always", [200, 300], None), 2)
    1.55
    """
    check_looks(looks)
    if looks == "once" or not labels or labels[-1] <= 0:
        return 1.0
    if looks == "always" or planned is None:
        return sequence_bound(labels[-1], max(1, labels[0])) / _one_look()
    shares = np.minimum(1.0, np.asarray(labels, dtype=np.float64) / max(planned, labels[-1]))
    return LESS_ALIKE * _last_bound(tuple(shares[shares > 0.0].tolist())) / _one_look()


@lru_cache(maxsize=1024)
def _last_bound(shares: tuple[float, ...]) -> float:
    return float(planned_bounds(np.array(shares))[-1])


def planned_bounds(shares: Floats, alpha: float = ALPHA) -> Floats:
    """Return the bound, in standard errors, at each look of the "planned" kind.

    Parameters
    ----------
    shares : array
        t: the share of the planned labels at each look, above 0, not decreasing, at most 1.
    alpha : float
        The chance of ever missing.

    Examples
    --------
    >>> import numpy as np
    >>> planned_bounds(np.array([0.25, 0.5, 0.75, 1.0])).round(2).tolist()
    [3.92, 2.77, 2.3, 2.04]
    """
    from scipy.special import ndtr, ndtri

    z = -float(ndtri(alpha / 2.0))
    power = spending_power(float(shares[0])) if shares.size else 1.0
    bounds, before, spent = np.empty(shares.size), 0.0, 0.0
    points, density = np.zeros(1), np.ones(1)  # where paths are that have crossed no bound, and how many of them
    for k, t in enumerate(shares):
        if k and t - before < NO_STEP:
            bounds[k] = bounds[k - 1]
            continue
        to_spend = 2.0 * float(ndtr(-z / sqrt(t**power))) - spent
        step = sqrt(t - before)

        def crossing(reach: float, at: Floats = points, mass: Floats = density, step: float = step) -> float:
            return float(mass @ (ndtr((at - reach) / step) + ndtr((-at - reach) / step)))

        low, high = 0.0, 10.0 * sqrt(t)
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if crossing(middle) > to_spend else (low, middle)
        bounds[k] = high / sqrt(t)
        grid = np.linspace(-high, high, POINTS)
        kernel = np.exp(-0.5 * ((grid[:, None] - points) / step) ** 2) / (step * sqrt(2.0 * np.pi))
        points, density = grid, (kernel @ density) * (grid[1] - grid[0])
        before, spent = float(t), spent + to_spend
    return bounds


def spending_power(first: float) -> float:
    """Return r: the first look, at that share of the planned labels, is about twice as wide as a single one would be.

    Examples
    --------
    >>> spending_power(0.5), spending_power(0.1)
    (2.0, 1.0)
    """
    return max(1.0, log(4.0) / max(-log(first), 1e-3))


def sequence_bound(n: float, narrowest_at: float, alpha: float = ALPHA) -> float:
    """Return the bound, in standard errors, of the normal mixture at n labels.

    Parameters
    ----------
    n : float
        Labels now.
    narrowest_at : float
        Where the mixture is narrowest.
    alpha : float
        The chance of ever missing.

    Examples
    --------
    >>> round(sequence_bound(100, 100), 2), round(sequence_bound(1000, 100), 2)
    (3.04, 3.24)
    """
    rho = (-2.0 * log(alpha) + log(1.0 - 2.0 * log(alpha))) / narrowest_at
    return sqrt(2.0 * (n * rho + 1.0) / (n * rho) * log(sqrt(n * rho + 1.0) / alpha))


def _one_look() -> float:
    from scipy.special import ndtri

    return -float(ndtri(ALPHA / 2.0))

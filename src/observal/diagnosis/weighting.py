"""How informative the importance-weighted revealed labels are, and what the clip drops."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

import numpy as np

from observal.checks import Floats
from observal.paper.weights import (
    effective_sample_size,
    passive_clip_threshold,
    plain_importance,
    practical_clip_threshold,
)
from observal.problem.problem import Problem
from observal.problem.words import count, number, percent

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
CLIP_CONSTANT = 4.0  # as in NewtonVC
MISS_CHANCE = 0.05  # as in LoggedClassifier


@dataclass(frozen=True)
class Weighting:
    """The weights 1/Q0 of the revealed labels.

    Parameters
    ----------
    revealed : int
        Labels in the log.
    effective : float
        The effective sample size.
    quantiles : tuple of (share, weight)
        The distribution of the weights.
    top_share : float
        The share of the total weight in the heaviest 1% of the labels (at least one label).
    clip, practical_clip : float
        The threshold for the log alone, and that of the paper's experiments; see ``observal.paper.weights``.
    dropped : float
        The share of the population, log and pool together, whose weight is above `clip`.
    labels_dropped : int
        Revealed labels above `clip`.
    overflowing : int
        Revealed labels whose propensity is so small that 1/Q0 overflows; they are left out.
    """

    revealed: int
    effective: float
    quantiles: tuple[tuple[float, float], ...]
    top_share: float
    clip: float
    practical_clip: float
    dropped: float
    labels_dropped: int
    overflowing: int

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        if self.revealed == 0:
            return ("The log reveals no label, so there is nothing to weight.",)
        median = dict(self.quantiles).get(0.5, 1.0)
        sentences = [
            f"The log reveals {count(self.revealed, 'label')}; their effective sample size is "
            f"{number(self.effective)}.",
            f"The median weight is {number(median)}, the largest {number(self.quantiles[-1][1])}; the heaviest 1% of "
            f"the labels carry {percent(self.top_share)} of the total weight.",
            f"Weights above {number(self.clip)} are cut off: a larger one would add more noise than it removes bias.",
        ]
        if self.dropped > 0.0 or self.labels_dropped:
            sentences.append(
                f"That leaves {percent(self.dropped)} of the population unseen and drops "
                f"{count(self.labels_dropped, 'label')}."
            )
        else:
            sentences.append("No weight is that large, so nothing is lost.")
        return tuple(sentences)


def summarise_weights(problem: Problem, n_rows: float, labelled_only: bool) -> Weighting:
    """Return how informative the revealed labels are.

    `n_rows` counts logged rows, revealed or not. If the log kept only its labelled rows, the pool alone
    represents the population.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> logged = ob.LoggedData(np.zeros((4, 1)), [0, 1, 1, np.nan], propensity=[1.0, 0.5, 0.5, 0.25])
    >>> weighting = summarise_weights(ob.Problem(logged, ob.Pool(np.zeros((4, 1)), propensity=0.5)), 4, False)
    >>> round(weighting.effective, 2), weighting.quantiles[-1]
    (2.78, (1.0, 2.0))
    """
    logged = problem.logged
    weights = plain_importance(logged.propensity[logged.revealed])
    usable = weights[np.isfinite(weights)]
    population = problem.pool.propensity if labelled_only else np.asarray(problem.propensity)
    rows = max(1, round(min(n_rows, 1e15)))
    clip = passive_clip_threshold(population, rows, log((logged.X.shape[1] + 1) / MISS_CHANCE))
    return Weighting(
        revealed=weights.size,
        effective=effective_sample_size(usable),
        quantiles=tuple((q, float(np.quantile(usable, q))) for q in QUANTILES) if usable.size else (),
        top_share=_top_share(usable),
        clip=clip,
        practical_clip=practical_clip_threshold(population, rows, 0, CLIP_CONSTANT),
        dropped=float(np.mean(plain_importance(population) > clip)) if isfinite(clip) else 0.0,
        labels_dropped=int(np.count_nonzero(weights > clip)),
        overflowing=weights.size - usable.size,
    )


def _top_share(weights: Floats) -> float:
    if weights.size == 0:
        return 0.0
    shares = np.sort(weights / weights.max())[::-1]  # scaled, so that the sum cannot overflow
    return float(shares[: max(1, weights.size // 100)].sum() / shares.sum())

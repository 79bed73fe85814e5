"""An interval for the population error of a pool method's classifier: cross-fitted on the log's own labels."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints
from observal.risk import clipped
from observal.types import Interval, Problem
from observal.weights import passive_clip_threshold, plain_importance

FOLDS = 5
CONFIDENCE = 0.95


def cross_fitted_interval(
    problem: Problem, n_bought: int, wrong: Callable[[Ints, Ints], NDArray[np.bool_]]
) -> Interval:
    """Return an interval for the population error, each revealed label judged by a fit that has not seen it.

    The log's labels are revealed with known chances, whatever was bought later, so the weighted share of mistakes out of
    fold, ``l̂ = Σ w·1{wrong} / Σ w`` with ``w = 1{1/Q0 ≤ M}/Q0``, estimates the error on rows within the clip. Its
    standard error is that of a ratio; the share of rows beyond the clip, on which the log says nothing, is added to
    the upper end. Bought rows train every fit and judge none: they were chosen for being hard. The normal
    approximation needs a few dozen revealed labels; pseudo-mistakes as in Agresti and Coull's interval keep it from
    collapsing where no mistake was seen.

    Parameters
    ----------
    problem : Problem
        Log and pool.
    n_bought : int
        Labelled rows behind the revealed ones.
    wrong : callable
        From the labelled rows to train on and the revealed rows to judge, both as positions in the list of revealed
        rows followed by bought ones, to which of the latter are judged wrongly.
    """
    logged = problem.logged
    shown = np.flatnonzero(logged.revealed)
    everyone = np.concatenate([logged.propensity, problem.pool.propensity])
    clip = passive_clip_threshold(everyone, len(logged), log(2.0 / (1.0 - CONFIDENCE)))
    hidden = float(np.mean(plain_importance(everyone) > clip))
    weights = clipped(plain_importance(logged.propensity[shown]), clip, np.ones(shown.size, dtype=bool))
    method = "cross-fitted on the log's labels, clipped importance weights, normal approximation"
    total = float(weights.sum())
    effective = total**2 / float(weights @ weights) if total > 0.0 else 0.0
    if effective < FOLDS:
        return Interval(0.5, 0.0, 1.0, CONFIDENCE, f"{method}: too few labels within the clip")
    folds = np.random.default_rng(0).permutation(shown.size) % FOLDS
    bought = np.arange(shown.size, shown.size + n_bought)
    mistakes = np.zeros(shown.size)
    for fold in range(FOLDS):
        test = np.flatnonzero(folds == fold)
        mistakes[test] = wrong(np.concatenate([np.flatnonzero(folds != fold), bought]), test)
    estimate = float(weights @ mistakes) / total
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    centre = (estimate * effective + z * z / 2) / (effective + z * z)
    ratio = float(np.sqrt(np.sum((weights * (mistakes - estimate)) ** 2))) / total
    reach = z * max(ratio, float(np.sqrt(centre * (1.0 - centre) / (effective + z * z))))
    within = 1.0 - hidden
    return Interval(
        estimate,
        max(0.0, within * (centre - reach)),
        min(1.0, within * (centre + reach) + hidden),
        CONFIDENCE,
        method,
    )

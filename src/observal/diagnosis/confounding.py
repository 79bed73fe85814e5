"""Hidden confounding: how far the error estimate moves if the policy used something that is not recorded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Bools, Floats, Ints, check_number, check_propensity
from observal.diagnosis.feature_values import standardise
from observal.errors import InvalidInput
from observal.learners.folds import random_folds
from observal.paper.weights import plain_importance
from observal.problem.problem import Problem
from observal.problem.rows import Matrix
from observal.problem.words import count, number, percent

FOLDS = 5
MIN_LABELS = 10  # for an error estimate
MAX_FOR_NEWTON = 200  # features; with more, a Hessian costs more than it saves


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


def confound(problem: Problem, rows: Ints, strengths: Sequence[float], rng: np.random.Generator) -> Confounding:
    """Return how far hidden confounding of each strength would move the out-of-fold error of these logged rows."""
    if rows.size < MIN_LABELS:
        return Confounding(None, int(rows.size))
    logged = problem.logged
    chance, codes = logged.propensity[rows], logged.codes[rows]
    X, folds = standardise(logged.rows.take(rows)), random_folds(codes, FOLDS, rng, problem.groups_of(rows))
    outcomes = _out_of_fold_mistakes(X, codes, plain_importance(chance), folds) * (
        1.0 if logged.cost is None else logged.cost[rows]
    )
    ranges = tuple((float(g), *confounded_range(outcomes, chance, float(g))) for g in sorted(strengths))
    return Confounding(confounded_range(outcomes, chance, 1.0)[0], int(rows.size), ranges)


def _out_of_fold_mistakes(X: Matrix, codes: Ints, weights: Floats, folds: Ints) -> Bools:
    """Return the out-of-fold mistakes of a weighted logistic regression; `X` is standardised, and `weights` are positive."""
    wrong = np.zeros(codes.size, dtype=bool)
    for fold in range(FOLDS):
        test, train = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if test.size and train.size:
            wrong[test] = _predict(X, codes, weights, train, test) != codes[test]
    return wrong


def _predict(X: Matrix, codes: Ints, weights: Floats, train: Ints, test: Ints) -> Ints:
    """Return the predicted classes of the test rows by a fit on the training rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if np.unique(codes[train]).size < 2 or X.shape[1] == 0:
        return np.full(test.size, np.argmax(np.bincount(codes[train], weights[train])))
    share = weights[train] / weights[train].max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a diagnosis need not be exact
        solver = "newton-cholesky" if X.shape[1] <= MAX_FOR_NEWTON else "lbfgs"
        model = LogisticRegression(C=1.0, solver=solver, max_iter=200).fit(X[train], codes[train], share / share.mean())
    return np.asarray(model.predict(X[test]))

"""The blend's formulas, one row at a time."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from tests.reference import pooling


def left_out_loss(F, weights, targets, ridge):
    """Fit without each row in turn and add up the weighted squares of what is left of it."""
    total = 0.0
    for i in range(len(F)):
        others = np.arange(len(F)) != i
        A = sum(w * np.outer(f, f) for f, w in zip(F[others], weights[others], strict=True)) + ridge * np.eye(
            F.shape[1]
        )
        b = sum(w * np.outer(f, y) for f, y, w in zip(F[others], targets[others], weights[others], strict=True))
        total += weights[i] * float(((targets[i] - F[i] @ np.linalg.solve(A, b)) ** 2).sum())
    return total


def fold_scores(F, weights, targets, ridge, folds):
    """Fit without each fold in turn, by least squares on rows stacked with the ridge."""
    out = np.zeros(targets.shape)
    for fold in set(folds.tolist()):
        inside = folds != fold
        root = np.sqrt(weights[inside])[:, None]
        A = np.vstack([F[inside] * root, np.sqrt(ridge) * np.eye(F.shape[1])])
        b = np.vstack([targets[inside] * root, np.zeros((F.shape[1], targets.shape[1]))])
        out[~inside] = F[~inside] @ np.linalg.lstsq(A, b, rcond=None)[0]
    return out


def mixture_value(theta, likelihoods, weights, prior):
    """The log likelihood of convex weights, and of `prior` labels that speak for all learners alike."""
    return (
        sum(w * np.log(row @ theta) for row, w in zip(likelihoods, weights, strict=True)) + prior * np.log(theta).mean()
    )


def best_mixture(likelihoods, weights, prior):
    """Maximise it over convex weights by a general solver."""
    k = likelihoods.shape[1]
    found = minimize(
        lambda theta: -mixture_value(theta, likelihoods, weights, prior),
        np.full(k, 1.0 / k),
        bounds=[(1e-9, 1.0)] * k,
        constraints={"type": "eq", "fun": lambda theta: theta.sum() - 1.0},
        options={"ftol": 1e-12},
    )
    return found.x


def sharpness_loss(sharpness, chances, codes, weights):
    """The weighted log loss of powers of chances, normalised, plus log(sharpness)²."""
    total = np.log(sharpness) ** 2
    for row, code, weight in zip(chances, codes, weights, strict=True):
        powers = [p**sharpness for p in row]
        total -= weight * np.log(powers[code] / sum(powers))
    return total


def rank_score(column, value):
    """Return the normal score of the middle of a value's ranks in a column."""
    n = len(column)
    middle = (sum(v < value for v in column) + sum(v <= value for v in column)) / 2
    return norm.ppf(min(max(middle / n, 0.5 / n), 1 - 0.5 / n))


def surprise(plans, answers):
    """Count labels of rows picked at random and wrong guesses beyond the expected ones; `answers` maps positions to codes."""
    labels, excess = 0, 0.0
    for plan in plans:
        for i, position in enumerate(plan.positions.tolist()):
            if plan.reasons[plan.reason[i]].startswith("picked at random") and answers.get(position) is not None:
                labels += 1
                excess += (answers[position] != plan.inferred[i]) - plan.doubt[i]
    return labels, excess


def picked(state):
    """The pool rows up to a state that have a label because they were picked at random."""
    rows = []
    while state.plan is not None:
        plan = state.plan
        for position, code in zip(plan.positions.tolist(), plan.reason.tolist(), strict=True):
            if plan.reasons[code].startswith("picked at random"):
                rows.append(position)
        state = state.before
    return rows


def chances(margins, open_rows, propensity, n_logged, n_bought, batch, share, picked):
    """Return the chance of each pool row, row by row; `picked` are the rows with labels that were picked at random."""
    batch = min(batch, len(open_rows))
    passing = [i for i in open_rows if 2 * (n_bought + batch) > n_logged * propensity[i]]
    if len(passing) < batch:
        passing = list(open_rows)
    is_open = [i in set(open_rows) for i in range(len(margins))]
    unseen, n_blind = pooling.blind(n_logged, list(propensity), is_open, picked, batch=batch, most_blind=0.5)
    size = batch - n_blind
    smallest = sorted(open_rows, key=lambda i: margins[i])[:size]
    unseen = [i for i in unseen if i not in smallest]
    out = np.zeros(len(margins))
    for i in open_rows:
        out[i] = min(1.0, (1 - share) * (i in smallest) + share * size / len(passing) * (i in passing))
        out[i] += n_blind / len(unseen) if i in unseen else 0.0
    return out

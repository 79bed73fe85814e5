"""The threshold that suits an objective, chosen from out-of-fold scores of the labelled rows.

**Weights.** Each labelled row counts by the share of the population that it represents: by propensity and score, as in
:mod:`observal.intervals.error`, with rows that were taken for their gap representing themselves alone. That needs no fit of an
earlier round.

**Honest predictions.** Intervals judge each labelled row of the rarer class by a threshold that was chosen without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Floats, Ints
from observal.intervals.cells import Cells, make_cells
from observal.intervals.state import PoolState, rows_for_cells, taken_rows
from observal.learners.folds import FINE_FOLDS, dealt_folds
from observal.problem.objectives import BALANCED, costs_of, measure_of, target_of
from observal.problem.problem import Problem
from observal.problem.rows import Features

# Rows of log and pool that are sorted into cells: a threshold needs them less exactly than an interval.
THRESHOLD_ROWS = 20_000


def label_weights(
    problem: Problem, state: PoolState, scores_of: Callable[[Ints], Floats], out_of_fold: Floats
) -> Floats:
    """Return the share of the population that each labelled row represents: the weights of :func:`label_cells`."""
    return label_cells(problem, state, scores_of, out_of_fold).row_weight


def label_cells(problem: Problem, state: PoolState, scores_of: Callable[[Ints], Floats], out_of_fold: Floats) -> Cells:
    """Return the labelled rows in cells, rows that were taken for their gap representing themselves alone.

    Parameters
    ----------
    problem : Problem
        Log and pool.
    state : PoolState
        What was bought and skipped.
    scores_of : callable
        From rows to the classifier's scores.
    out_of_fold : array
        The scores of the labelled rows by fits that have not seen them.
    """
    rows, _ = state.labelled(problem)
    frame, where, counted = rows_for_cells(state, rows, problem.n_logged, state.n_seen(problem), THRESHOLD_ROWS)
    scores = scores_of(frame)
    scores[where] = out_of_fold
    of_pool = frame - problem.n_logged
    for_gap, bought, skipped = (np.isin(of_pool, part) for part in (taken_rows(state), state.bought, state.skipped))
    target = problem.counts(frame)
    sorting = (problem.propensity[frame], for_gap, scores, where, bought, skipped, of_pool >= 0, counted, target)
    return replace(make_cells(*sorting), groups=problem.groups_of(rows))


def choose_threshold(scores: Floats, codes: Ints, weights: Floats, objective: str, otherwise: float) -> float:
    """Return the lowest score at which a row is predicted to be positive.

    Parameters
    ----------
    scores, codes, weights : arrays
        Of the labelled rows: how far each is on the side of the positive class, its class code, and its weight.
    objective : str
        See :mod:`observal.problem.objectives`.
    otherwise : float
        The threshold while all labels are of one class.

    Examples
    --------
    >>> import numpy as np
    >>> scores, codes = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1])
    >>> round(choose_threshold(scores, codes, np.ones(4), "recall=0.5", 0.5), 2)
    0.35
    >>> round(choose_threshold(scores, codes, np.ones(4), "cost=1,10", 0.5), 2)
    0.15
    """
    values, place = np.unique(scores, return_inverse=True)
    positive = np.bincount(place, weights=weights * (codes == 1), minlength=values.size)
    negative = np.bincount(place, weights=weights * (codes == 0), minlength=values.size)
    if not (positive.sum() > 0.0 and negative.sum() > 0.0):
        return otherwise
    # Entry k: the k lowest values are predicted to be negative.
    missed, let_go = (np.append(0.0, np.cumsum(part)) for part in (positive, negative))
    hits, alarms = positive.sum() - missed, negative.sum() - let_go
    name = measure_of(objective)
    if name == "recall":
        enough = np.flatnonzero(hits >= (target_of(objective) - 1e-9) * positive.sum())
        return _between(values, int(enough[-1]))
    if name == "precision":
        positives = np.maximum(hits + alarms, 1e-300)
        right = np.where(hits > 0.0, hits / positives, 0.0)
        enough = np.flatnonzero(right >= target_of(objective) - 1e-9)
        return _between(values, int(enough[0]) if enough.size else int(np.argmax(right)))
    costs = costs_of(objective)
    if name == BALANCED:
        costs = (1.0 / float(negative.sum()), 1.0 / float(positive.sum()))
    total = costs[1] * missed + costs[0] * alarms
    best = np.flatnonzero(total <= total.min() + 1e-12 * total.max())
    return _between(values, int(best[best.size // 2]))


def _between(values: Floats, k: int) -> float:
    """Return a threshold between the k lowest values and the others."""
    if k == 0:
        return float(values[0] - 1e-9 * (1.0 + abs(values[0])))
    if k == values.size:
        return float(values[-1] + 1e-9 * (1.0 + abs(values[-1])))
    return float((values[k - 1] + values[k]) / 2.0)


def judged_by_others(
    scores: Floats,
    codes: Ints,
    weights: Floats,
    objective: str,
    threshold: float,
    otherwise: float,
    groups: Ints | None = None,
) -> Ints:
    """Return the predicted class of each labelled row, by `threshold` or by one that was chosen without the row.

    The threshold depends mostly on the rows of the rarer class, so they are judged by thresholds that were chosen without them. A single
    row of the other class hardly moves it.

    Parameters
    ----------
    scores, codes, weights, objective, otherwise
        As for :func:`choose_threshold`.
    threshold : float
        Chosen from all labels.
    groups : int array, optional
        The group of each row: a row is judged without any of its group.
    """
    predicted = (scores >= threshold).astype(np.int64)
    rarer = np.flatnonzero(codes == int(np.argmin(np.bincount(codes, minlength=2))))
    fold_of = np.full(codes.size, -1)
    fold_of[rarer] = dealt_folds(codes[rarer], FINE_FOLDS, None if groups is None else groups[rarer])
    for fold in range(min(FINE_FOLDS, rarer.size)):
        rest, fold_rows = fold_of != fold, fold_of == fold
        predicted[fold_rows] = scores[fold_rows] >= choose_threshold(
            scores[rest], codes[rest], weights[rest], objective, otherwise
        )
    return predicted


@dataclass(frozen=True, eq=False)
class ThresholdClassifier:
    """A classifier of two classes with a threshold other than ½.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``, which stays as it is.
    threshold : float
        The least chance of the second class at which it is predicted.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> fit = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> ThresholdClassifier(fit, 0.2).predict([[1.2]]).tolist(), fit.predict([[1.2]]).tolist()
    (['yes'], ['no'])
    """

    estimator: Any = field(repr=False)
    threshold: float

    @property
    def classes_(self) -> NDArray[Any]:
        """The label values, the positive one last."""
        classes: NDArray[Any] = self.estimator.classes_
        return classes

    def predict_proba(self, X: Features) -> Floats:
        """Return the chance of each class."""
        chances: Floats = self.estimator.predict_proba(X)
        return chances

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        return np.asarray(self.classes_[(self.predict_proba(X)[:, 1] >= self.threshold).astype(np.intp)])

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the share of rows predicted right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def shifted_proba(self, X: Features) -> Floats:
        """Return chances with the odds multiplied so that the threshold becomes ½."""
        from observal.learners.blend import shift_odds

        return shift_odds(self.predict_proba(X), odds_at(self.threshold))


def odds_at(threshold: float) -> float:
    """Return the factor of the odds that moves a threshold to ½.

    Examples
    --------
    >>> odds_at(0.1)
    9.0
    """
    inside = min(max(threshold, 1e-9), 1.0 - 1e-9)
    return (1.0 - inside) / inside

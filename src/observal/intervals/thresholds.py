"""The threshold that suits an objective, chosen for the whole population.

**All rows count.** Each row of log and pool is positive with a chance estimated from its score and all labels (``observal.intervals.recalibration``);
a labelled row counts as its label. A threshold chosen from the labelled rows alone would ignore the positive rows that nobody has seen yet, and
find too few.

**More than two classes.** What is found is the last class: its score is the log of its chance over that of its strongest rival. For costs, or the balanced
error, each chance is multiplied by a factor: what missing the class costs, or one over its mean chance in the population.

**On average.** For a recall of 80 % the threshold is the highest at which the expected recall, over all that the labels allow, is 80 %.
``recall>=0.8`` is cautious: recall is at least 80 % in 95 % of what the labels allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Floats, Ints
from observal.intervals.cells import Cells, make_cells
from observal.intervals.recalibration import DRAWN_WIDER, Recalibration, log_odds, recalibrate, sigmoid
from observal.intervals.related import effective_number
from observal.intervals.state import PoolState, rows_for_cells, taken_rows
from observal.problem.objectives import BALANCED, costs_of, is_cautious, measure_of, target_of
from observal.problem.problem import Problem
from observal.problem.rows import Features

# Rows of log and pool that are sorted into cells: a threshold needs them less exactly than an interval.
THRESHOLD_ROWS = 20_000
CAUTION = 0.05  # chance that a cautious target is missed
UNLABELLED = -1


class ScoredRows(NamedTuple):
    """Rows of log and pool that a threshold is chosen for.

    Scores are in log odds, those of labelled rows by fits that have not seen their labels. Codes are 1 for positive rows, 0 for others, and
    `UNLABELLED`.
    """

    scores: Floats
    codes: Ints


class Threshold(NamedTuple):
    """From which score on rows are positive, in log odds; what scores say about the population; and the rows that it was chosen for."""

    cut: float
    recalibration: Recalibration
    rows: ScoredRows

    @property
    def chance(self) -> float:
        """The recalibrated chance at the cut."""
        return float(self.recalibration.chances(np.array([self.cut]))[0])

    def classifier(self, estimator: Any) -> ThresholdClassifier:
        """Return a classifier with this threshold, from one whose log odds are the scores."""
        return ThresholdClassifier(estimator, self.chance, self.recalibration.shift, self.recalibration.slope)


def find_threshold(
    problem: Problem, state: PoolState, scores_of: Callable[[Ints], Floats], out_of_fold: Floats
) -> Threshold:
    """Return the threshold for a problem's objective.

    Parameters
    ----------
    problem, state, scores_of, out_of_fold
        As for ``sort_labels``.
    """
    labelled, codes = labelled_as_last(problem, state)
    cells, rows = sort_labels(problem, state, scores_of, out_of_fold)
    worth = effective_number(problem.groups_of(labelled), codes.size) / codes.size
    recalibration = recalibrate(out_of_fold, codes, cells.row_weight, worth)
    return Threshold(choose_threshold(rows, recalibration, problem.goals.objective), recalibration, rows)


def find_factors(
    problem: Problem, state: PoolState, chances_of: Callable[[Ints], Floats], out_of_fold: Floats
) -> Floats:
    """Return by what to multiply the chance of each of several classes for costs or the balanced error, so that the largest decides.

    Parameters
    ----------
    problem, state
        As for ``sort_labels``.
    chances_of : callable
        From rows to the classifier's chances of all classes.
    out_of_fold : array of shape (labelled rows, classes)
        The chances of the labelled rows by fits that have not seen them.
    """
    objective = problem.goals.objective
    if measure_of(objective) != BALANCED:
        return np.array(costs_of(objective))
    rows = state.labelled(problem)[0]
    frame, where, counted = rows_for_cells(state, rows, problem.n_logged, state.n_seen(problem), THRESHOLD_ROWS)
    chances = chances_of(frame)
    chances[where] = out_of_fold
    means = chances[counted & problem.counts(frame)].mean(axis=0)
    return np.asarray(1.0 / np.maximum(means, 0.5 / max(1, rows.size)))


def score_of_last(chances: Floats) -> Floats:
    """Return the log of the last class's chance over that of its strongest rival; with two classes, the log odds.

    Examples
    --------
    >>> import numpy as np
    >>> score_of_last(np.array([[0.4, 0.3, 0.3], [0.1, 0.1, 0.8]])).round(2).tolist()
    [-0.29, 2.08]
    """
    if chances.shape[1] == 2:
        return log_odds(chances[:, 1])
    return log_odds(chances[:, -1] / (chances[:, -1] + chances[:, :-1].max(axis=1)))


def labelled_as_last(problem: Problem, state: PoolState) -> tuple[Ints, Ints]:
    """Return the labelled rows, and 1 for those of the last class."""
    rows, codes = state.labelled(problem)
    return rows, (codes == problem.logged.classes.size - 1).astype(np.int64)


def label_cells(problem: Problem, state: PoolState, scores_of: Callable[[Ints], Floats], out_of_fold: Floats) -> Cells:
    """Return the labelled rows in cells: the first part of ``sort_labels``."""
    return sort_labels(problem, state, scores_of, out_of_fold)[0]


def sort_labels(
    problem: Problem, state: PoolState, scores_of: Callable[[Ints], Floats], out_of_fold: Floats
) -> tuple[Cells, ScoredRows]:
    """Return the labelled rows in cells, rows that were taken for their gap representing themselves alone, and all rows with their scores.

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
    rows, codes = labelled_as_last(problem, state)
    frame, where, counted = rows_for_cells(state, rows, problem.n_logged, state.n_seen(problem), THRESHOLD_ROWS)
    scores = scores_of(frame)
    scores[where] = out_of_fold
    of_pool = frame - problem.n_logged
    for_gap, bought, skipped = (np.isin(of_pool, part) for part in (taken_rows(state), state.bought, state.skipped))
    target = problem.counts(frame)
    sorting = (problem.propensity[frame], for_gap, scores, where, bought, skipped, of_pool >= 0, counted, target)
    cells = replace(make_cells(*sorting), groups=problem.groups_of(rows))
    known = np.full(frame.size, UNLABELLED)
    known[where] = codes
    about = counted & target
    return cells, ScoredRows(scores[about], known[about])


def choose_threshold(rows: ScoredRows, recalibration: Recalibration, objective: str) -> float:
    """Return the lowest score at which a row is predicted to be positive.

    Parameters
    ----------
    rows : ScoredRows
        The rows of the population.
    recalibration : Recalibration
        What scores say about them.
    objective : str
        See ``observal.problem.objectives``.

    Examples
    --------
    >>> import numpy as np
    >>> sure = Recalibration(0.0, 1.0, np.array([[0.0, 1.0]]))
    >>> rows = ScoredRows(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1]))
    >>> [round(choose_threshold(rows, sure, goal), 2) for goal in ("recall=0.5", "cost=1,10", "flag=0.75")]
    [0.35, 0.15, 0.15]
    """
    values, place = np.unique(-rows.scores, return_inverse=True)  # the highest score first
    drawn = drawn_positives(rows, recalibration.widened(DRAWN_WIDER) if is_cautious(objective) else recalibration)
    sizes = np.bincount(place, minlength=values.size)
    # Entry k: so many rows, and so many positive ones by each draw, are among those with the k highest values.
    flagged = np.append(0, np.cumsum(sizes))
    hits = np.stack([np.append(0.0, np.cumsum(np.bincount(place, weights=d, minlength=values.size))) for d in drawn])
    k = _count_flagged(flagged, hits, objective)
    return -_between(values, k)


def drawn_positives(rows: ScoredRows, recalibration: Recalibration) -> Floats:
    """Return how positive each row is by each draw, draws × rows: 0 or 1 where the label is known, and otherwise the chance."""
    labelled = rows.codes != UNLABELLED
    drawn = recalibration.drawn_chances(rows.scores)
    drawn[:, labelled] = rows.codes[labelled]
    return drawn


def _count_flagged(flagged: Ints, hits: Floats, objective: str) -> int:
    """Return how many of the highest scores are positive for an objective."""
    name, positives, expected = measure_of(objective), hits[:, -1:], hits.mean(axis=0)
    if name == "flag":
        return int(np.searchsorted(flagged, target_of(objective) * flagged[-1] + 1e-9, side="right")) - 1
    if name == "recall":
        recall = hits / np.maximum(positives, 1e-300)
        found = np.quantile(recall, CAUTION, axis=0) if is_cautious(objective) else recall.mean(axis=0)
        return int(np.argmax(found >= target_of(objective) - 1e-9)) if found[-1] > 0.0 else flagged.size - 1
    if name == "precision":
        precision = hits / np.maximum(flagged, 1)
        right = np.quantile(precision, CAUTION, axis=0) if is_cautious(objective) else precision.mean(axis=0)
        enough = np.flatnonzero(right >= target_of(objective) - 1e-9)
        return int(enough[-1]) if enough.size else 1 + int(np.argmax(right[1:]))
    costs = costs_of(objective)
    alarms, missed = flagged - expected, expected[-1] - expected
    if name == BALANCED:
        costs = (1.0 / max(float(alarms[-1]), 1e-300), 1.0 / max(float(missed[0]), 1e-300))
    total = costs[1] * missed + costs[0] * alarms
    best = np.flatnonzero(total <= total.min() + 1e-12 * total.max())
    return int(best[best.size // 2])


def _between(values: Floats, k: int) -> float:
    """Return a threshold between the k lowest values and the others."""
    if k == 0:
        return float(values[0] - 1e-9 * (1.0 + abs(values[0])))
    if k == values.size:
        return float(values[-1] + 1e-9 * (1.0 + abs(values[-1])))
    return float((values[k - 1] + values[k]) / 2.0)


@dataclass(frozen=True, eq=False)
class ThresholdClassifier:
    """A classifier of two classes with a threshold other than ½, its chances recalibrated for the whole population.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``.
    threshold : float
        The least chance of the second class at which it is predicted.
    shift, slope : float
        From the estimator's log odds z to the classifier's: ``shift + slope·z``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> fit = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> ThresholdClassifier(fit, 0.2).predict([[1.2]]).tolist(), fit.predict([[1.2]]).tolist()
    (['yes'], ['no'])
    """

    estimator: Any = field(repr=False)
    threshold: float
    shift: float = 0.0
    slope: float = 1.0

    @property
    def classes_(self) -> NDArray[Any]:
        """The label values, the positive one last."""
        classes: NDArray[Any] = self.estimator.classes_
        return classes

    def predict_proba(self, X: Features) -> Floats:
        """Return the chance of each class."""
        chances: Floats = self.estimator.predict_proba(X)
        if (self.shift, self.slope) == (0.0, 1.0):
            return chances
        second = sigmoid(self.shift + self.slope * log_odds(chances[:, 1]))
        return np.column_stack([1.0 - second, second])

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


@dataclass(frozen=True, eq=False)
class FactorClassifier:
    """A classifier of several classes that predicts the one whose chance, times a factor, is largest.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba``.
    factors : array
        One for each class.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> fit = LogisticRegression().fit([[0.0], [1.0], [2.0]], ["a", "b", "c"])
    >>> FactorClassifier(fit, np.array([1.0, 1.0, 9.0])).predict([[0.5]]).tolist(), fit.predict([[0.5]]).tolist()
    (['c'], ['a'])
    """

    estimator: Any = field(repr=False)
    factors: Floats

    @property
    def classes_(self) -> NDArray[Any]:
        """The label values."""
        classes: NDArray[Any] = self.estimator.classes_
        return classes

    def predict_proba(self, X: Features) -> Floats:
        """Return the chance of each class."""
        chances: Floats = self.estimator.predict_proba(X)
        return chances

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        return np.asarray(self.classes_[(self.predict_proba(X) * self.factors).argmax(axis=1)])

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the share of rows predicted right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def shifted_proba(self, X: Features) -> Floats:
        """Return chances multiplied so that the largest decides."""
        from observal.learners.blend import shift_odds

        return shift_odds(self.predict_proba(X), self.factors)


def odds_at(threshold: float) -> float:
    """Return the factor of the odds that moves a threshold to ½.

    Examples
    --------
    >>> odds_at(0.1)
    9.0
    """
    inside = min(max(threshold, 1e-9), 1.0 - 1e-9)
    return (1.0 - inside) / inside

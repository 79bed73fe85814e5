"""Measures of a classifier besides its error, each with an interval from the same cells.

**Baseline.** The error of always predicting the commonest class. A classifier differs from that only on rows for which it predicts another class.
Of those, it wins where it is right and loses where the row is of the commonest class: it is better than the baseline if and only if it
wins more of all rows than it loses. So half of one plus the difference is estimated, row by row: above one half, the classifier is better.

**AUC.** The chance that a row of the positive class has a higher score than one of the other class, equal scores counting half. With V
the chance that a row's score is on the right side of a row of the other class, it is the mean of V in either class. Moving one row
moves V of all others as well, so each row counts twice (the first-order term of a two-sample U-statistic).

**Balanced error.** The mean over classes of the share of their rows that is wrong.

**Cost.** The mean cost of a row, where missing a row of one class costs more than other mistakes, or where flagged rows are checked; see ``observal.problem.objectives``. Its
baseline is the cost of always predicting the class for which that is lowest. The model is compared with this baseline by the costs that
it wins and loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.intervals.cells import Cells
from observal.problem.interval import Interval
from observal.problem.objectives import BALANCED, COST, FLAG, TARGETS, is_about_last, measure_of, prices_of

BASELINE, WINS, AUC = "baseline", "wins over the baseline", "AUC"
BASELINE_COST, COST_WINS = "baseline cost", "wins over the baseline, in cost"
MOST_CLASSES = 10  # classes of a confusion matrix


def confusion_key(actual: object, predicted: object) -> str:
    """Return the name of the share of all rows that are of one class and predicted to be of another.

    Examples
    --------
    >>> confusion_key("default", "paid")
    'is default, said paid'
    """
    return f"is {actual}, said {predicted}"


def measure_all(
    cells: Cells, codes: Ints, predicted: Ints, scores: Floats, classes: Sequence[Any], objective: str = "error"
) -> dict[str, Interval]:
    """Return all measures but the error by name.

    Parameters
    ----------
    cells : Cells
        The share of the population that each labelled row represents.
    codes, predicted : int arrays
        The class of each labelled row, and its out-of-fold prediction.
    scores : array
        How far each is on the side of the last class.
    classes : sequence
        The label values.
    objective : str
        See ``observal.problem.objectives``; costs have a measure of their own.
    """
    unit, n_classes = np.ones(codes.size), len(classes)
    commonest = int(np.argmax(np.bincount(codes, weights=cells.row_weight, minlength=n_classes)))
    wrong, differs = (predicted != codes).astype(np.float64), predicted != commonest
    won = (differs & (predicted == codes)).astype(np.float64)
    intervals = {
        BASELINE: cells.ratio((codes != commonest).astype(np.float64), unit),
        WINS: cells.ratio(half_won(won, differs & (codes == commonest)), unit),
        BALANCED: cells.mean_of_classes(wrong, codes, n_classes),
    }
    if is_about_last(objective, n_classes):
        is_last = (codes == n_classes - 1).astype(np.int64)
        intervals[AUC] = cells.mean_of_classes(right_side(scores, is_last, cells.row_weight), is_last, 2, moved=2.0)
    if measure_of(objective) == COST:
        intervals |= _costs(cells, codes, predicted, np.array(prices_of(objective)))
    if n_classes <= MOST_CLASSES:
        intervals |= {
            confusion_key(a, b): cells.ratio(((codes == i) & (predicted == j)).astype(np.float64), unit)
            for i, a in enumerate(classes)
            for j, b in enumerate(classes)
        }
    return intervals


def _costs(cells: Cells, codes: Ints, predicted: Ints, prices: Floats) -> dict[str, Interval]:
    """Return the mean cost of a row, that of the cheapest constant prediction, and the share of costs won against it.

    `prices` says what a row costs, by its class and by what is predicted.
    """
    most, share = float(prices.max()), prices / prices.max()
    priors = np.bincount(codes, weights=cells.row_weight, minlength=len(prices))
    cheapest = int(np.argmin(priors @ prices))
    always, now, unit = share[codes, cheapest], share[codes, predicted], np.ones(codes.size)
    won, lost = np.maximum(always - now, 0.0), np.maximum(now - always, 0.0)
    return {
        COST: cells.ratio(now, unit).times(most),
        BASELINE_COST: cells.ratio(always, unit).times(most),
        COST_WINS: cells.ratio(half_won(won, lost), unit),
    }


def half_won(won: Floats | Bools, lost: Floats | Bools) -> Floats:
    """Return one half for rows that one classifier neither wins nor loses against another, up to 1 if it wins and down to 0 if it loses."""
    return np.asarray((1.0 + won - lost) / 2.0)


def right_side(scores: Floats, codes: Ints, weights: Floats) -> Floats:
    """Return V: the chance that each row's score is on the right side of a row of the other class.

    Examples
    --------
    >>> import numpy as np
    >>> right_side(np.array([0.1, 0.4, 0.4]), np.array([0, 0, 1]), np.ones(3)).tolist()
    [1.0, 0.5, 0.75]
    """
    values, place = np.unique(scores, return_inverse=True)
    out = np.empty(scores.size)
    for code in (0, 1):
        opposite = codes != code
        mass = np.bincount(place[opposite], weights=weights[opposite], minlength=values.size)
        below = np.cumsum(mass) - mass / 2.0
        share = below / max(float(mass.sum()), 1e-300)
        out[~opposite] = (share if code == 1 else 1.0 - share)[place[~opposite]]
    return out


def judged_by(objective: str) -> tuple[str, ...]:
    """Return the names of the measures that a model with an objective is judged by.

    Examples
    --------
    >>> judged_by("recall=0.8"), judged_by("flag=0.05"), judged_by("cost=1,10")
    (('recall', 'precision'), ('recall', 'precision'), ('cost',))
    """
    name = measure_of(objective)
    if name == FLAG:
        return TARGETS
    return (name, *(target for target in TARGETS if name in TARGETS and target != name))


def beats_baseline(intervals: Mapping[str, Interval], key: str = WINS) -> bool | None:
    """Return whether a classifier is better than the baseline; None where that is not clear. `COST_WINS` compares costs.

    Examples
    --------
    >>> beats_baseline({WINS: Interval(0.7, 0.6, 0.8, 0.95, "cells")}), beats_baseline({})
    (True, None)
    """
    wins = intervals.get(key)
    return None if wins is None or wins.low <= 0.5 <= wins.high else wins.low > 0.5

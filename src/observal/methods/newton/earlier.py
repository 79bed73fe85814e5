"""The classifier of the log alone, for when it very likely makes fewer mistakes than the last one.

Labels can make a linear model worse: a few distant rows that it cannot fit pull it away from where it was right. So the last classifier
is compared with that of the log alone, round 0, on all labelled rows, each judged by fits that have
not seen it. With w_i the share of the population that a row stands for and d_i = 1{the last is wrong} − 1{the earlier is wrong}, the
last one makes ``D = Σ w_i·d_i`` more mistakes. With d̄_c the mean of a cell with n_c labels, and N the rows of log and pool, its standard
error is 1.1 times the root of ``Σ w_i²·(d_i − d̄_c)²·n_c/(n_c − 1) + Σ w_i·(d̄_c − D)²/N``. The earlier one is returned if D is above 0
with a confidence of 97.5 %, one-sided.
"""

from __future__ import annotations

import numpy as np

from observal.checks import Floats
from observal.intervals.cells import Cells
from observal.intervals.error import Scores
from observal.intervals.state import PoolState
from observal.problem.problem import Problem

CONFIDENCE = 0.975
# Times the standard error of independent mistakes. A larger one returns the earlier classifier less often.
CORRELATED = 1.1
LEAST_DIFFERENT = 10  # labelled rows on which two classifiers must differ to be compared


def better_earlier(problem: Problem, state: PoolState) -> PoolState | None:
    """Return the state that knows the log alone, if its classifier very likely makes fewer mistakes; else None."""
    from scipy.special import ndtri

    earlier = state
    while earlier.before is not None:
        earlier = earlier.before
    if earlier is state or np.unique(earlier.labelled(problem)[1]).size < 2:
        return None
    rows, codes = state.labelled(problem)
    fitted, before = (one.model.scores_of(rows)[1] != codes for one in (state, earlier))
    # The last fit has seen all labels. If it looks better even so, it may be; if it looks worse, both are judged fairly.
    if state.importance(problem, rows, None)[0] @ (fitted.astype(float) - before) <= 0.0:
        return None
    said = state.model.left_out_classes
    different = (said != codes).astype(float) - (said_by(problem, earlier, state)[1] != codes)
    more, error = paired(state.model.label_cells, different)
    credible = np.count_nonzero(different) >= LEAST_DIFFERENT and more > float(ndtri(CONFIDENCE)) * error
    return earlier if credible else None


def paired(cells: Cells, different: Floats) -> tuple[float, float]:
    """Return D and its standard error.

    Examples
    --------
    >>> import numpy as np
    >>> cells = Cells(np.array([1.0]), np.zeros(4, dtype=np.int64), np.ones(4), 0.0, 1000)
    >>> [round(value, 3) for value in paired(cells, np.array([1.0, 0.0, 0.0, -1.0]))]
    [0.0, 0.449]
    """
    used = cells.of_label >= 0
    cell, weight, value = cells.of_label[used], cells.row_weight[used], different[used]
    count = np.bincount(cell, minlength=cells.share.size)[cell]
    mean = (np.bincount(cell, weights=weight * value) / np.maximum(np.bincount(cell, weights=weight), 1e-300))[cell]
    more = float(weight @ value)
    within = weight**2 @ ((value - mean) ** 2 * count / np.maximum(count - 1, 1))
    return more, CORRELATED * float(np.sqrt(within + weight @ (mean - more) ** 2 / cells.n_rows))


def said_by(problem: Problem, earlier: PoolState, state: PoolState) -> Scores:
    """Return score and class of all rows that `state` has labels of, by fits of `earlier` that have not seen them."""
    rows = state.labelled(problem)[0]
    scores, _ = earlier.model.scores_of(rows)
    known = earlier.labelled(problem)[0]
    order = np.argsort(rows)
    scores[order[np.searchsorted(rows, known, sorter=order)]] = earlier.model.left_out_scores
    return scores, (scores > 0.0).astype(np.int64)

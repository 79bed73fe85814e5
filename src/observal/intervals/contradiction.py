"""Whether rows picked at random contradict the log: the only test that can detect a hidden cause or stale labels.

Rows of one cell (of ``observal.intervals.error``) have about the same propensity and the same score. If the log's labels can be
trusted, labels of the log and of rows that were picked at random there have the same mean. Only rows picked at random count: those
that were chosen because they are uncertain are not typical of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.intervals.related import merge_groups
from observal.problem.interval import Interval

COMPARED = {"prevalence": "random rows minus log, last class", "error": "random rows minus log, mistakes"}
"""The keys of the differences among a method's intervals, by what is compared: a hidden cause shows in the first, stale labels in the
second."""
LEAST_PICKED = 20  # rows picked at random that a comparison needs
CONTRADICTION_CONFIDENCE = 0.995  # twice: one clean campaign in a hundred is reported as contradicting its log


def random_minus_log(cell: Ints, picked: Bools, outcome: Floats, groups: Ints | None = None) -> Interval | None:
    r"""Return the difference between rows picked at random and similar rows of the log; None where too few can be compared.

    With n and m the two numbers of labels of a cell, and d the difference of their mean outcomes, the estimate is
    ``Σ w·d/Σ w`` with Cochran's weights ``w = n·m/(n + m)``; its variance is ``Σ w·s²/(Σ w)²`` with s² the cell's variance.

    Parameters
    ----------
    cell : int array
        The cell of each labelled row.
    picked : bool array
        Whether it was picked at random; else it is from the log.
    outcome : array
        1 or 0: whether it is of the positive class, or a mistake.
    groups : int array, optional
        The group of each row, where rows are related: those of a cell and group count as one, the log's apart from the others.

    Examples
    --------
    >>> import numpy as np
    >>> cell, picked = np.zeros(200, dtype=np.int64), np.arange(200) < 100
    >>> found = random_minus_log(cell, picked, np.where(picked, np.arange(200) % 2, np.arange(200) % 5 == 0).astype(float))
    >>> round(found.estimate, 2), found.low > 0
    (0.3, True)
    """
    from scipy.special import ndtri

    if groups is not None:
        merged = merge_groups(2 * cell + picked, groups, np.ones(cell.size), outcome)
        cell, picked, outcome = merged.cell // 2, merged.cell % 2 == 1, merged.value

    def counted(weights: Floats) -> Floats:
        return np.bincount(cell, weights=weights, minlength=int(cell.max(initial=-1)) + 1).astype(np.float64)

    n, m = counted(picked.astype(np.float64)), counted((~picked).astype(np.float64))
    comparable = (n > 0.0) & (m > 0.0)
    if n[comparable].sum() < LEAST_PICKED:
        return None
    n, m = n[comparable], m[comparable]
    top, bottom = counted(picked * outcome)[comparable], counted(~picked * outcome)[comparable]
    weight = n * m / (n + m)
    estimate = float(weight @ (top / n - bottom / m) / weight.sum())
    mean = (top + bottom + 0.5) / (n + m + 1.0)  # half a row of each outcome: few that agree are not certain
    reach = float(
        -ndtri((1.0 - CONTRADICTION_CONFIDENCE) / 2.0) * np.sqrt(weight @ (mean * (1.0 - mean))) / weight.sum()
    )
    words = f"{round(float(n.sum()))} rows picked at random against the log's labels of the same cells, normal approximation"
    return Interval(estimate, estimate - reach, estimate + reach, CONTRADICTION_CONFIDENCE, words)


def contradiction(intervals: Mapping[str, Interval]) -> tuple[str, Interval] | None:
    """Return the key and the difference that contradicts the log most, if any of a method's intervals does.

    Examples
    --------
    >>> key = COMPARED["error"]
    >>> contradiction({key: Interval(0.3, -0.1, 0.7, 0.995, "cells")})
    >>> contradiction({key: Interval(0.3, 0.1, 0.5, 0.995, "cells")})[0]
    'random rows minus log, mistakes'
    """
    differences = [(key, intervals[key]) for key in COMPARED.values() if key in intervals]
    beyond = [(key, difference) for key, difference in differences if difference.low > 0.0 or difference.high < 0.0]
    return max(beyond, key=lambda pair: abs(pair[1].estimate) / (pair[1].high - pair[1].low), default=None)

"""Cells with few labels borrow from cells that are alike.

How often the rows of a cell are predicted wrong follows a trend: with the lead, with the propensity, with the side of the boundary. Each cell is off the
trend by its own amount, of variance τ². Of all estimates Σ a_c·ē_c of the error that are right for whatever trend, Σ a_c·t_c = Σ P_c·t_c, the one used
here has the least expected squared error,

    Σ a_c²·v_c + τ²·Σ (P_c − a_c)²,

v_c being the variance of ē_c. It is g_c·(1 − g_c)/n_c with g_c from the trend: by its own labels a cell without mistakes would seem certain, and count
too much. τ² is p·(1 − p)/20, so the trend says as much about a cell as 20 labels of its own; or it is what the cells themselves
show, by the method of moments (DerSimonian and Laird), if that is larger. Where there are no more cells than columns of the trend, a_c is P_c.
"""

from __future__ import annotations

import numpy as np

from observal.checks import Bools, Floats, Ints

TREND_LABELS = 20.0
"""The trend says as much about a cell as this many labels of its own."""
LEAST_VARIANCE = 0.2
"""Of the variance of all mistakes: those of a cell vary at least as much."""
LEAST_COUNT = 0.1
"""Of a cell's share: its labels count at least as much."""


def trend_of(cell: Ints, n_cells: int, kind: Bools, scores: Floats, propensity: Floats) -> Floats:
    """Return what mistakes may depend on, cells × columns: ones, and means of kind, lead, side, lead by side, and propensity.

    Leads and propensities count by their ranks.

    Parameters
    ----------
    cell : int array
        Of each row; below 0 for rows that are in none.
    n_cells : int
        How many cells there are.
    kind, scores, propensity : arrays
        Of each row; the lead is the size of the score and the side its sign.
    """
    lead, side, inside = ranks(np.abs(scores)), np.sign(scores), cell >= 0
    here = cell[inside]
    sizes = np.maximum(np.bincount(here, minlength=n_cells), 1)
    columns = (np.ones(cell.size), kind, lead, side, side * lead, ranks(propensity))
    return np.stack([np.bincount(here, weights=c[inside], minlength=n_cells) / sizes for c in columns], axis=1)


def ranks(values: Floats) -> Floats:
    """Return the share of values that are smaller, equal ones counted half.

    Examples
    --------
    >>> import numpy as np
    >>> ranks(np.array([3.0, 1.0, 3.0, 7.0])).tolist()
    [0.5, 0.125, 0.5, 0.875]
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(((np.cumsum(count) - count / 2.0) / values.size)[place])


def borrowed(share: Floats, trend: Floats, labels: Floats, wrong: Floats) -> tuple[Floats, float]:
    """Return how much the labels of each cell count, a, and τ² as a share of p·(1 − p).

    Parameters
    ----------
    share : array
        P: the share of rows in each cell.
    trend : array of shape (cells, columns)
        What mistakes may depend on.
    labels, wrong : arrays
        How many labels each cell has, and the share of them that are mistakes.

    Examples
    --------
    >>> import numpy as np
    >>> share, trend = np.full(4, 0.25), np.ones((4, 1))
    >>> borrowed(share, trend, np.array([100.0, 100, 100, 2]), np.array([0.1, 0.1, 0.1, 0.5]))[0].round(2).tolist()
    [0.32, 0.32, 0.32, 0.05]
    """
    overall = (float(share @ wrong) * labels.sum() + 1.0) / (labels.sum() + 2.0)
    of_all = overall * (1.0 - overall)
    expected = np.clip(_fitted(trend, labels, wrong), 0.0, 1.0)
    variance = np.maximum(expected * (1.0 - expected), LEAST_VARIANCE * of_all) / labels
    off = max(of_all / TREND_LABELS, _off_trend(trend, variance, wrong))
    own = off / (variance + off) * share
    lent = trend / (variance + off)[:, None]
    counts = own + lent @ np.linalg.lstsq(trend.T @ lent, (share - own) @ trend, rcond=None)[0]
    counts = np.maximum(counts, LEAST_COUNT * share)
    return counts / counts.sum(), off / of_all


def _fitted(trend: Floats, weight: Floats, values: Floats) -> Floats:
    """Return the weighted least-squares fit of values by the trend."""
    root = np.sqrt(weight)
    return np.asarray(trend @ np.linalg.lstsq(root[:, None] * trend, root * values, rcond=None)[0])


def _off_trend(trend: Floats, variance: Floats, wrong: Floats) -> float:
    """Return τ² by the method of moments: by how much cells differ from the trend beyond what their labels explain."""
    weight = 1.0 / variance
    squares = weight @ (wrong - _fitted(trend, weight, wrong)) ** 2
    freedom = trend.shape[0] - np.linalg.matrix_rank(trend)
    squared = (trend * weight[:, None] ** 2).T @ trend
    scale = weight.sum() - np.trace(np.linalg.pinv((trend * weight[:, None]).T @ trend) @ squared)
    return float((squares - freedom) / scale) if freedom > 0 and scale > 0.0 else 0.0

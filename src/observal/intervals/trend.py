"""Cells with few labels also use the labels of similar cells (partial pooling).

P_c is the share of rows in cell c, and ē_c the share of mistakes among its labels. How often rows are wrong follows a trend t: with the lead, the
propensity and the side of the boundary. Each cell differs from the trend by an amount of its own, of variance τ². The error is estimated by
Σ a_c·ē_c. The a_c keep the trend, Σ a_c·t_c = Σ P_c·t_c, and make the expected squared error smallest:

    Σ a_c²·v_c + τ²·Σ (P_c − a_c)².

v_c is the variance of ē_c: g_c·(1 − g_c)/n_c, where g_c is the trend's value for the cell, and at least a fifth of p·(1 − p)/n_c, p being the share of
all mistakes. Judged by its own labels, a cell without any mistake yet would look certain and count too much. τ² is p·(1 − p)/40, so the trend is worth 40 labels of the
cell itself; or it is the variance that the cells show, if that is larger (the method of moments of DerSimonian and Laird). No cell counts for
less than a tenth of its share: those that would are set to it, and the others are solved for again, so that they keep the trend. If the trend can fit every
cell exactly, a_c is P_c.
"""

from __future__ import annotations

import numpy as np

from observal.checks import Bools, Floats, Ints

TREND_LABELS = 40.0
"""Strength of the trend as a prior for a cell, in labels of its own."""
LEAST_VARIANCE = 0.2
"""Floor for the variance of a cell's mistakes, as a share of the variance of all mistakes."""
LEAST_COUNT = 0.1
"""Floor for a cell's coefficient, as a share of its rows."""


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
    inside_cell = cell[inside]
    sizes = np.maximum(np.bincount(inside_cell, minlength=n_cells), 1)
    columns = (np.ones(cell.size), kind, lead, side, side * lead, ranks(propensity))
    return np.stack([np.bincount(inside_cell, weights=c[inside], minlength=n_cells) / sizes for c in columns], axis=1)


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


def borrow(share: Floats, trend: Floats, labels: Floats, wrong: Floats) -> tuple[Floats, float]:
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
    >>> borrow(share, trend, np.array([100.0, 100, 100, 2]), np.array([0.1, 0.1, 0.1, 0.5]))[0].round(2).tolist()
    [0.32, 0.32, 0.32, 0.03]
    """
    overall = (float(share @ wrong) * labels.sum() + 1.0) / (labels.sum() + 2.0)
    of_all = overall * (1.0 - overall)
    expected = np.clip(_fit_trend(trend, labels, wrong), 0.0, 1.0)
    variance = np.maximum(expected * (1.0 - expected), LEAST_VARIANCE * of_all) / labels
    off = max(of_all / TREND_LABELS, _off_trend(trend, variance, wrong))
    root, floor = 1.0 / np.sqrt(variance + off), LEAST_COUNT * share
    counts, free = floor, np.ones(share.size, dtype=bool)
    while free.any():
        counts = np.where(free, off / (variance + off) * share, floor)
        missing = (share - counts) @ trend
        counts[free] += root[free] * np.linalg.lstsq((root[:, None] * trend)[free].T, missing, rcond=None)[0]
        below = free & (counts < floor)
        if not below.any():
            break
        free &= ~below
    counts = np.maximum(counts, floor)
    return counts / counts.sum(), float(off / of_all)


def _fit_trend(trend: Floats, weight: Floats, values: Floats) -> Floats:
    """Return the weighted least-squares fit of values by the trend."""
    root = np.sqrt(weight)
    return np.asarray(trend @ np.linalg.lstsq(root[:, None] * trend, root * values, rcond=None)[0])


def _off_trend(trend: Floats, variance: Floats, wrong: Floats) -> float:
    """Return τ² by the method of moments: by how much cells differ from the trend beyond what their labels explain."""
    root = 1.0 / np.sqrt(variance)
    directions, sizes, _ = np.linalg.svd(root[:, None] * trend, full_matrices=False)
    directions = directions[:, sizes > 1e-10 * sizes.max()]
    freedom, values = wrong.size - directions.shape[1], root * wrong
    squares = ((values - directions @ (directions.T @ values)) ** 2).sum()
    scale = root**2 @ (1.0 - (directions**2).sum(axis=1))
    return float((squares - freedom) / scale) if freedom > 0 else 0.0

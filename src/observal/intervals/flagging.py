"""How many rows a classifier flags, that is, predicts to be positive; and what it would find if it flagged more or fewer.

**Flagged share.** Every row of log and pool has a prediction, so the only uncertainty is which rows happened to be sampled: with N rows, its variance is
``p·(1 − p)/N``. Labelled rows are judged by out-of-fold fits, which differ from the classifier; by how much that moves the share is added as a
standard error of its own.

**Recall by share.** For some shares of all rows the recall is estimated from the same labels and weights, as if the rows with that share of the
highest scores were flagged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from observal.checks import Bools, Floats
from observal.intervals.cells import METHOD, Cells, beta_ends
from observal.problem.interval import CONFIDENCE, Interval

FLAGGED = "flagged"
CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
"""Shares of all rows for which recall is estimated as if they were flagged."""


class Flagging(NamedTuple):
    """The share of rows that are flagged, how far it is from the classifier's own, and the score from which on each of `CURVE_SHARES` would be."""

    share: float
    moved: float
    cuts: tuple[float, ...]


def recall_key(share: float) -> str:
    """Return the name of the recall that flagging a share of all rows would have.

    Examples
    --------
    >>> recall_key(0.05)
    'recall if 5% are flagged'
    """
    return f"recall if {100 * share:g}% are flagged"


def flagging_of(scores: Floats, is_flagged: Bools, by_classifier: Bools, about: Bools) -> Flagging:
    """Return what is flagged of rows, and what other shares need.

    Parameters
    ----------
    scores : array
        How far each row is on the side of the positive class.
    is_flagged, by_classifier : bool arrays
        Which rows are flagged, labelled ones by fits that have not seen them; and by the classifier itself.
    about : bool array
        The rows that count.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.arange(200)
    >>> found = flagging_of(1.0 * rows, rows >= 150, rows >= 148, rows >= 0)
    >>> found.share, round(found.moved, 4), found.cuts[:3]
    (0.25, 0.01, (198.0, 196.0, 190.0))
    """
    counted = np.sort(scores[about])[::-1]
    places = [min(counted.size, max(1, round(share * counted.size))) - 1 for share in CURVE_SHARES]
    share, own = (float(np.mean(part[about])) for part in (is_flagged, by_classifier))
    return Flagging(share, abs(share - own), tuple(counted[places].tolist()))


def in_whole_rows(interval: Interval, rows: float) -> Interval:
    """Return an interval for a share of so many rows, its ends moved out to whole rows.

    Where 60 rows are flagged, an upper end of 0.999 for the precision would rule out that all of them are positive, for a sixteenth of a row.

    Examples
    --------
    >>> found = in_whole_rows(Interval(0.9, 0.76, 0.999, 0.95, "cells"), 10)
    >>> found.low, found.high
    (0.7, 1.0)
    """
    n = max(1, round(rows))
    low, high = np.floor(n * interval.low + 1e-9) / n, np.ceil(n * interval.high - 1e-9) / n
    return replace(interval, low=min(interval.low, float(low)), high=max(interval.high, float(high)))


def flagging_intervals(flagging: Flagging, cells: Cells, is_positive: Bools, scores: Floats) -> dict[str, Interval]:
    """Return intervals for the flagged share, and for the recall of other shares.

    Parameters
    ----------
    flagging : Flagging
        What is flagged.
    cells : Cells
        The share of the population that each labelled row represents.
    is_positive, scores : arrays
        Of the labelled rows.
    """
    share, n = flagging.share, cells.n_rows
    low, high = beta_ends(share, share * (1.0 - share) / n + flagging.moved**2, 1.0 / n, 1.0 / n**2)
    out = {FLAGGED: Interval(share, low, high, CONFIDENCE, METHOD)}
    positive = is_positive.astype(np.float64)
    prevalence = float(cells.row_weight @ positive)
    for other, cut in zip(CURVE_SHARES, flagging.cuts, strict=True):
        recall = cells.ratio(positive * (scores >= cut), positive)
        # Of few labels with large weights, more rows would seem to be found than are flagged.
        most = min(1.0, other / max(prevalence, 1e-300))
        out[recall_key(other)] = replace(recall, estimate=min(recall.estimate, most), low=min(recall.low, most))
    return out

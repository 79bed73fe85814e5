"""How many rows a classifier flags, that is, predicts to be positive; and what it would find if it flagged more or fewer.

**Flagged share.** Every row of log and pool has a prediction, so the only uncertainty is which rows happened to be sampled: with N rows, its variance is
``p·(1 − p)/N``. Labelled rows are judged by out-of-fold fits, which differ from the classifier; by how much that moves the share is added as a
standard error of its own.

**Recall by share.** For some shares of all rows the recall is estimated as if the rows with the highest scores, up to
that share, were flagged.

**Two estimates.** By the labels alone, recall is usually too high: the positive rows that nobody has seen yet are those
that a classifier misses, and a single one that is labelled moves the estimate a lot. The recalibrated probabilities of
the unlabelled rows say how many to expect, but only as far as scores follow a logistic curve. So recall and precision are
the mean of the two estimates. Recall's lower end is the mean of the two lower ends, and its upper end the larger of the
two: where the curve is wrong, it has too few positive rows among the highest scores. With two classes, error, prevalence
and the like are means of the same two estimates, so that they agree with recall. All ends but recall's only move outwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Bools, Floats
from observal.intervals.cells import METHOD, Cells, beta_ends
from observal.intervals.measures import BASELINE, confusion_key
from observal.intervals.recalibration import DRAWN_WIDER
from observal.intervals.thresholds import Threshold, drawn_positives
from observal.problem.interval import CONFIDENCE, Interval
from observal.problem.objectives import BALANCED, TARGETS

FLAGGED = "flagged"
CURVE_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
"""Shares of all rows for which recall is estimated as if they were flagged."""


class Flagging(NamedTuple):
    """The share of rows that are flagged, how far it is from the classifier's own, and the score from which on each of `CURVE_SHARES` would be.

    `expected` has what the probabilities of all rows say of recall, precision and so on: a value for each draw.
    """

    share: float
    moved: float
    cuts: tuple[float, ...]
    expected: dict[str, Floats]


def recall_key(share: float) -> str:
    """Return the name of the recall that flagging a share of all rows would have.

    Examples
    --------
    >>> recall_key(0.05)
    'recall if 5% are flagged'
    """
    return f"recall if {100 * share:g}% are flagged"


def flagging_of(
    threshold: Threshold,
    scores: Floats,
    is_flagged: Bools,
    by_classifier: Bools,
    about: Bools,
    classes: Sequence[Any],
) -> Flagging:
    """Return what is flagged of rows, what other shares need, and what is found by the chances of all rows.

    Parameters
    ----------
    threshold : Threshold
        What is flagged, and the chances.
    scores : array
        How far each row is on the side of the positive class.
    is_flagged, by_classifier : bool arrays
        Which rows are flagged, labelled ones by fits that have not seen them; and by the classifier itself.
    about : bool array
        The rows that count.
    classes : sequence
        The label values.
    """
    counted = np.sort(scores[about])[::-1]
    places = [min(counted.size, max(1, round(share * counted.size))) - 1 for share in CURVE_SHARES]
    share, own = (float(np.mean(part[about])) for part in (is_flagged, by_classifier))
    return Flagging(share, abs(share - own), tuple(counted[places].tolist()), expected_measures(threshold, classes))


def expected_measures(threshold: Threshold, classes: Sequence[Any]) -> dict[str, Floats]:
    """Return recall, precision, and the recall of each of `CURVE_SHARES`, by each draw of the rows' probabilities.

    With two classes, also the error, the baseline, the prevalence, the balanced error and the confusion matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.intervals.recalibration import Recalibration
    >>> from observal.intervals.thresholds import ScoredRows
    >>> rows = ScoredRows(np.array([-1.0, 0.0, 1.0, 2.0]), np.array([0, -1, 1, 1]))
    >>> fit = Recalibration(0.0, 1.0, np.array([[0.0, 1.0]]))
    >>> expected = expected_measures(Threshold(0.5, fit, rows), ["no", "yes"])
    >>> [expected[name].tolist() for name in ("recall", "precision", "prevalence", "error")]
    [[0.8], [1.0], [0.625], [0.125]]
    """
    rows = threshold.rows
    order = np.argsort(-rows.scores, kind="stable")
    drawn = drawn_positives(rows, threshold.recalibration.widened(DRAWN_WIDER))[:, order]
    hits = np.concatenate([np.zeros((len(drawn), 1)), np.cumsum(drawn, axis=1)], axis=1)
    positives, n = np.maximum(hits[:, -1], 1e-300), rows.scores.size
    n_flagged = int(np.count_nonzero(rows.scores >= threshold.cut))
    by_share = {recall_key(share): hits[:, min(n, max(1, round(share * n)))] / positives for share in CURVE_SHARES}
    found = hits[:, n_flagged]
    measures = {"recall": found / positives, "precision": found / max(1, n_flagged)} | by_share
    if len(classes) != 2:
        return measures
    missed, alarms = (hits[:, -1] - found) / n, (n_flagged - found) / n
    prevalence, hit = hits[:, -1] / n, found / n
    shares = ((1.0 - prevalence - alarms, alarms), (missed, hit))
    confusion = {confusion_key(a, b): shares[i][j] for i, a in enumerate(classes) for j, b in enumerate(classes)}
    wrong_by_class = missed / np.maximum(prevalence, 1e-300) + alarms / np.maximum(1.0 - prevalence, 1e-300)
    others = {
        "error": missed + alarms,
        "prevalence": prevalence,
        BASELINE: np.minimum(prevalence, 1.0 - prevalence),
        BALANCED: wrong_by_class / 2.0,
    }
    return measures | others | confusion


def combine_estimates(intervals: Mapping[str, Interval], flagging: Flagging) -> dict[str, Interval]:
    """Return intervals from labels alone, combined with what the probabilities of all rows say: see above.

    One from 0 to 1 stays, because labels say nothing there. Only those of recall may become narrower.

    Examples
    --------
    >>> import numpy as np
    >>> by_labels = {"recall": Interval(0.9, 0.7, 1.0, 0.95, "cells")}
    >>> flagging = Flagging(0.1, 0.0, (), {"recall": np.linspace(0.7, 0.9, 101)})
    >>> recall = combine_estimates(by_labels, flagging)["recall"]
    >>> round(recall.estimate, 2), round(recall.low, 3), recall.high
    (0.85, 0.702, 1.0)
    """
    tail = 0.5 - CONFIDENCE / 2

    def combine(name: str, by_labels: Interval, drawn: Floats) -> Interval:
        if by_labels.low <= 0.0 and by_labels.high >= 1.0:
            return by_labels
        unknown = by_labels.unknown
        low, high = (1.0 - unknown) * np.quantile(drawn, [tail, 1.0 - tail]) + [0.0, unknown]
        estimate, low = (by_labels.estimate + float(drawn.mean())) / 2.0, (by_labels.low + float(low)) / 2.0
        low = low if name.startswith("recall") else min(by_labels.low, low)
        high = high if name.startswith(TARGETS) else (by_labels.high + high) / 2.0
        high = max(by_labels.high, float(high))
        return replace(by_labels, estimate=estimate, low=min(low, estimate), high=min(1.0, max(high, estimate)))

    return {
        name: combine(name, intervals[name], drawn) for name, drawn in flagging.expected.items() if name in intervals
    }


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

"""When more labels are unlikely to make the classifier better.

**What the last half of the labels gained.** Let ŷ be the classes that the classifier gives to rows of the population now, ŷ' those that
it gave when half of the labels were bought, and p the probabilities it gives now. By its own estimate, the labels since then lowered its error by
``g = mean(p(ŷ) − p(ŷ'))``. Only rows whose class changed count, and those whose class is still a toss-up count little, so g is known
far better than either error is. A model of the wrong kind may call rows a toss-up that are not. AutoVC sets its chances by labels that its fits
have not seen, so they count as they are. With other methods, rows whose class changed count as a gain of at least 0.09 on average, as if
54.5 of 100 changes were right.

**What the rest will gain.** Errors fall more and more slowly. If each doubling of all labels n, the log's included, still gained as much
as the last one, labels from n to the planned N would gain ``g·log(N/n)/log(n/n')``: most curves flatten sooner than that. Half of it
is added for caution.

**Stop** once at least 100 labels are bought and this forecast has stayed below the tolerance for 25 labels. A single low forecast may be chance, and so may several of small
rounds in a row: they share nearly all of their labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from observal.checks import Floats
from observal.intervals.thresholds import FactorClassifier, ThresholdClassifier
from observal.problem.method import Classifier, has_probabilities
from observal.problem.rows import Features

LEAST_BOUGHT = 100
"""No run stops before this many labels: half of a small sample is uninformative."""
STEADY_LABELS = 25
"""Forecasts must be below the tolerance for so many labels."""
CAUTION = 1.5
LEAST_GAIN = 0.09
"""The least mean gain of rows whose class changed, unless chances are calibrated: 0.545 − 0.455."""


class Forecast(NamedTuple):
    """The labels bought, and by how much the rest may still lower the error: see ``still_to_gain``."""

    bought: int
    to_gain: float


def are_steadily_below(tolerance: float, forecasts: Sequence[Forecast]) -> bool:
    """Return whether forecasts have been below the tolerance for long enough to stop.

    Examples
    --------
    >>> are_steadily_below(0.002, [Forecast(100, 0.004), Forecast(110, 0.001), Forecast(120, 0.001)])
    False
    >>> are_steadily_below(0.002, [Forecast(100, 0.004), Forecast(110, 0.001), Forecast(140, 0.001)])
    True
    """
    first = len(forecasts)
    while first and forecasts[first - 1].to_gain < tolerance:
        first -= 1
    low = forecasts[first:]
    return bool(low) and low[-1].bought - low[0].bought >= STEADY_LABELS


def chances_of(estimator: Classifier, X: Features) -> Floats:
    """Return the chance of each class; a classifier that has none is taken to be three quarters sure of what it says.

    Examples
    --------
    >>> class Always:
    ...     classes_ = ["no", "yes"]
    ...     def predict(self, X):
    ...         return ["yes"] * len(X)
    >>> chances_of(Always(), [[0.0]]).tolist()
    [[0.25, 0.75]]
    """
    if isinstance(estimator, ThresholdClassifier | FactorClassifier):
        return np.asarray(estimator.shifted_proba(X), dtype=np.float32)
    if has_probabilities(estimator):
        return np.asarray(estimator.predict_proba(X), dtype=np.float32)
    classes = np.asarray(estimator.classes_)
    is_predicted = np.asarray(estimator.predict(X))[:, None] == classes
    return np.where(is_predicted, 0.75, 0.25 / max(1, classes.size - 1)).astype(np.float32)


def estimate_gain(now: Floats, before: Floats, calibrated: bool = False) -> float:
    """Return by how much the error has fallen since `before`, by the probabilities of `now`: g above.

    Parameters
    ----------
    now, before : arrays of shape (rows, classes)
        The probabilities now, and when half of the labels were bought.
    calibrated : bool
        Whether those of now can be taken as they are.

    Examples
    --------
    >>> import numpy as np
    >>> now, before = np.array([[0.2, 0.8], [0.55, 0.45]]), np.array([[0.6, 0.4], [0.9, 0.1]])
    >>> round(estimate_gain(now, before), 2)
    0.3
    >>> toss_up = np.array([[0.49, 0.51]]), np.array([[0.51, 0.49]])
    >>> round(estimate_gain(*toss_up), 2), round(estimate_gain(*toss_up, calibrated=True), 2)
    (0.09, 0.02)
    """
    classes_before = before.argmax(axis=1)
    gain = float(np.mean(now.max(axis=1) - now[np.arange(len(now)), classes_before]))
    return gain if calibrated else max(gain, LEAST_GAIN * float(np.mean(now.argmax(axis=1) != classes_before)))


def still_to_gain(gain: float, labels: int, labels_before: int, planned: int) -> float:
    """Return by how much all labels up to `planned` may still lower the error.

    Parameters
    ----------
    gain : float
        g: what was gained since `labels_before`.
    labels, labels_before, planned : int
        All labels now, then and at the end, the log's included.

    Examples
    --------
    >>> round(still_to_gain(0.01, 400, 200, 800), 4)
    0.015
    """
    if planned <= labels:
        return 0.0
    return CAUTION * gain * log(planned / labels) / log(labels / labels_before) if labels > labels_before > 0 else 1.0

"""Labelled rows with held-out predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from observal.checks import Floats, Ints
from observal.problem.interval import Interval

Ratio = Callable[[Floats, Floats], Interval]
"""From two values in [0, 1] per labelled row to an interval for the ratio of their population means."""


class JudgedRows(NamedTuple):
    """Labelled rows, numbered as in ``Problem``, with their classes, held-out predictions and weights.

    The weights sum to 1. `ratio` uses the same weights, so that errors of groups and of other models are comparable
    with the model's own.
    """

    rows: Ints
    codes: Ints
    predicted: Ints
    weight: Floats
    ratio: Ratio

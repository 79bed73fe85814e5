"""Labelled rows as fits that have not seen them judge them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from observal.checks import Floats, Ints
from observal.problem.interval import Interval

Ratio = Callable[[Floats, Floats], Interval]
"""From two values of each labelled row, each from 0 to 1, to an interval for the ratio of their means over the population."""


class JudgedRows(NamedTuple):
    """Labelled rows, numbered as in a Problem: their classes, what fits that have not seen them predict, and what each stands for.

    The weights sum to 1. `ratio` makes intervals from the same weights, so errors of groups and of other models agree with the model's own.
    """

    rows: Ints
    codes: Ints
    predicted: Ints
    weight: Floats
    ratio: Ratio

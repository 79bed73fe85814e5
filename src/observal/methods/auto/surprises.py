"""How far bought labels surprise the blend: its guesses and doubts are in the plans, so that nothing is fitted again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from observal.intervals.state import RANDOM, PoolState
from observal.problem.plan import ASKED

PRIOR = 4.0  # labels that the record begins with, none of them a surprise


class Surprises(NamedTuple):
    """Labels of rows picked at random: how many, and how many more wrong guesses among them than the blend expected."""

    labels: int
    excess: float


def surprises(state: PoolState) -> Surprises:
    """Count the surprises up to a state."""
    labels, excess = 0, 0.0
    while state.before is not None and state.plan is not None:
        before, plan = state.before, state.plan
        if plan.doubt is not None:
            rows = np.flatnonzero(plan.action == ASKED)
            new, codes = state.bought[before.bought.size :], state.codes[before.codes.size :]
            rows = rows[np.isin(plan.positions[rows], new)]  # in the order of the labels: skipped rows drop out
            picked = plan.reason[rows] == RANDOM
            wrong = plan.inferred[rows] != codes
            labels += int(picked.sum())
            excess += float((wrong - plan.doubt[rows])[picked].sum())
        state = before
    return Surprises(labels, excess)


def explored(found: Surprises, least: float, most: float) -> float:
    """Return the share of a batch to pick at random: wrong guesses beyond the expected ones, for each label, within limits.

    Examples
    --------
    >>> explored(Surprises(0, 0.0), 0.1, 0.5)
    0.1
    >>> round(explored(Surprises(16, 7.0), 0.1, 0.5), 2)
    0.35
    """
    return float(np.clip(found.excess / (PRIOR + found.labels), least, most))

"""The rows of log and pool that are sorted into cells, and those that a plan notes."""

from __future__ import annotations

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.methods.draw import RANDOM
from observal.methods.pool import PoolState
from observal.types import ASKED, Plan

MOST_NEAR, MOST_NEAR_SHARE = 2000, 10  # rows that a plan notes, at most: in all, and for each row that it asks about


def taken_rows(state: PoolState) -> Ints:
    """Return the pool rows that rounds took for their gap."""
    taken = [np.empty(0, dtype=np.int64), *(taken_for_gap(plan) for plan in state.plans())]
    return np.concatenate(taken)


def taken_for_gap(plan: Plan) -> Ints:
    """Return the rows that a plan asks about for their gap, not picked at random."""
    return np.asarray(plan.positions[(plan.action == ASKED) & (plan.reason != RANDOM)])


def as_near(plan: Plan, gaps: Floats, n_logged: int) -> tuple[Ints | None, Floats | None]:
    """Return the rows with gaps as small as those that a plan takes for their gap, as :class:`Plan` records them.

    Nothing is recorded where very many rows have equal gaps.

    Parameters
    ----------
    plan : Plan
        What was drawn.
    gaps : array
        Of the stack of log and pool, labelled rows judged as if their labels were not known.
    n_logged : int
        Rows of the log.
    """
    near = np.flatnonzero(gaps <= gaps[n_logged + taken_for_gap(plan)].max(initial=-np.inf))
    if near.size > max(MOST_NEAR, MOST_NEAR_SHARE * plan.positions.size):
        return None, None
    return near, gaps[near]


def rows_for_cells(state: PoolState, rows: Ints, n_logged: int, n_rows: int, most: int) -> tuple[Ints, Ints, Bools]:
    """Return the rows to sort into cells, the places of the labelled rows among them, and which rows represent the population.

    Of a large pool and log a random part is enough to tell how large the cells are; labelled and skipped rows are always
    sorted, but count only if they are in that part.

    Parameters
    ----------
    state : PoolState
        What was bought and skipped.
    rows : int array
        The labelled rows.
    n_logged, n_rows : int
        Rows of the log, and of log and pool together.
    most : int
        Rows of the random part.
    """
    every = np.random.default_rng(0).choice(n_rows, most, replace=False) if n_rows > most else np.arange(n_rows)
    frame = np.unique(np.concatenate([every, rows, n_logged + state.skipped]))
    return frame, np.searchsorted(frame, rows), np.isin(frame, every)

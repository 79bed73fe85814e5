"""Logs that kept only their labelled rows: estimate how many rows they had, and fill in pool rows for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Ints, check_propensity
from observal.errors import InvalidInput, InvalidPropensity
from observal.problem.data import LoggedData, Pool
from observal.problem.rows import stack_rows

_MIN_CHANCE = 1e-9  # at this propensity, one labelled row stands for a billion
_MAX_VALUES = 500_000_000  # feature values drawn from the pool: 4 GB


@dataclass(frozen=True)
class LoggedRows:
    """How many rows the log had, labelled or not; the standard error is 0 if the number was given."""

    n_logged_rows: int
    standard_error: float
    method: str


def count_logged_rows(propensity: ArrayLike, n_logged_rows: int | None = None) -> LoggedRows:
    """Return how many rows a log had that kept only its labelled rows.

    Estimated as Σ 1/Q0 over the labelled rows (Horvitz–Thompson, unbiased if no propensity is 0), with
    standard error sqrt(Σ (1 − Q0)/Q0²).

    Parameters
    ----------
    propensity : array of shape (labelled rows,)
        The probability that each row's label was revealed; above 0.
    n_logged_rows : int, optional
        The number of rows, if known.

    Examples
    --------
    >>> from observal.diagnosis.complete_log import count_logged_rows
    >>> count_logged_rows([0.1] * 20).n_logged_rows, count_logged_rows([0.1] * 20, n_logged_rows=210).n_logged_rows
    (200, 210)
    """
    if np.ndim(propensity) != 1:
        raise InvalidPropensity(
            f"Propensities must be one number per labelled row, but got shape {np.shape(propensity)}; give one for each."
        )
    chances = check_propensity(propensity, np.size(propensity), "The table")
    if chances.size == 0:
        raise InvalidInput("Counting the rows of a log needs labelled rows, but got none; give their propensities.")
    if (chances == 0.0).any():
        raise InvalidPropensity(
            f"A labelled row must have had a chance to be revealed, but row {int(np.argmin(chances))} (counted from 0) has propensity 0; "
            "correct the propensity."
        )
    if n_logged_rows is None:
        if chances.min() < _MIN_CHANCE:
            raise InvalidPropensity(
                f"The rows of the log cannot be counted with a propensity as small as {chances.min():g}; "
                "give their number, or a floor."
            )
        estimate = float((1.0 / chances).sum())
        error = float(np.sqrt(((1.0 - chances) / chances**2).sum()))
        return LoggedRows(max(round(estimate), chances.size), error, "estimated as the sum of 1/propensity")
    if n_logged_rows < chances.size:
        raise InvalidInput(
            f"The log must have at least as many rows as labelled ones, but {n_logged_rows} were given for "
            f"{chances.size} labelled rows; give the number of all rows that the old policy saw."
        )
    return LoggedRows(int(n_logged_rows), 0.0, "given")


@dataclass(frozen=True, eq=False)
class CompletedLog:
    """A log with replacements for the rows it did not keep, and notes on what was done."""

    logged: LoggedData
    logged_rows: LoggedRows
    n_added: int
    notes: tuple[str, ...]


def complete_log(
    labelled: LoggedData, pool: Pool, n_logged_rows: int | None = None, random_state: int = 0
) -> CompletedLog:
    """Complete a log that kept only its labelled rows, with pool rows in place of the missing ones.

    The pool is drawn from P(x), and a row stayed unlabelled with probability 1 − Q0(x), so the missing rows
    follow P(x | not revealed) ∝ P(x)·(1 − Q0(x)). Sampling pool rows in proportion to 1 − Q0(x) therefore
    reproduces, in expectation, the whole log's distribution of rows and propensities. The sampled rows carry
    no label: they change only the number of logged rows and the distribution of Q0, which determine weights
    and clip thresholds. Sampling is systematic: a row is taken as often as expected, up to one more or less.

    Parameters
    ----------
    labelled : LoggedData
        A log with a label in every row.
    pool : Pool
        The unlabelled rows, with their propensities under the same policy.
    n_logged_rows : int, optional
        The number of rows that the log had; estimated by default, see ``count_logged_rows``.
    random_state : int
        Seed of the sampling.

    Examples
    --------
    >>> import observal as ob
    >>> from observal.diagnosis.complete_log import complete_log
    >>> labelled = ob.LoggedData([[0.0], [1.0]], [0, 1], propensity=0.25, ids=["a", "b"])
    >>> completed = complete_log(labelled, ob.Pool([[0.3], [0.6]], 0.25, ids=["c", "d"]))
    >>> len(completed.logged), completed.logged.ids.tolist()[:3]
    (8, ['a', 'b', 'not kept 1'])
    """
    if not labelled.revealed.all():
        raise InvalidInput(
            f"A log that kept only its labelled rows has a label in every row, but {int((~labelled.revealed).sum())} of "
            f"{len(labelled)} have none; use it as it is, it is complete."
        )
    size = count_logged_rows(labelled.propensity, n_logged_rows)
    n_added = size.n_logged_rows - len(labelled)
    if n_added == 0:
        return CompletedLog(labelled, size, 0, ("The log is complete: it kept every row.",))
    if n_added * pool.X.shape[1] > _MAX_VALUES:
        raise InvalidInput(
            f"The log kept only {len(labelled)} of {size.n_logged_rows} rows ({size.method}), and so many replacements do not fit in "
            "memory; give the number of rows that the log had, or a floor for the propensities."
        )
    unrevealed = np.cumsum(1.0 - pool.propensity)
    if unrevealed[-1] <= 0.0:
        raise InvalidPropensity(
            f"The pool cannot replace the {n_added} rows that the log did not keep, because all its propensities are 1; "
            "a propensity is the chance that a row's label was revealed."
        )
    points = (np.arange(n_added) + np.random.default_rng(random_state).random()) / n_added * unrevealed[-1]
    # side="right": a row of probability 0 is never taken.
    positions = np.minimum(np.searchsorted(unrevealed, points, side="right"), np.flatnonzero(pool.propensity < 1.0)[-1])
    completed = _append_pool_rows(labelled, pool, positions)
    error = f" ± {size.standard_error:.0f}" if size.standard_error else ""
    note = (
        f"The log kept only its {len(labelled)} labelled rows; it had {size.n_logged_rows}{error} ({size.method}), "
        f"and {n_added} rows drawn from the pool replace those that were not kept."
    )
    return CompletedLog(completed, size, n_added, (note,))


def _append_pool_rows(labelled: LoggedData, pool: Pool, positions: Ints) -> LoggedData:
    labels = np.empty(len(labelled) + positions.size, dtype=object)
    labels[: len(labelled)] = labelled.y.tolist()
    if (labelled.cost is None) != (pool.cost is None):
        raise InvalidInput("Costs must be given for both log and pool, but only one of them has costs; give both.")
    if (labelled.groups is None) != (pool.groups is None):
        raise InvalidInput("Groups must be given for both log and pool, but only one of them has groups; give both.")
    return LoggedData(
        stack_rows(labelled.rows.to_matrix(), pool.rows.take(positions)),
        labels,
        np.concatenate([labelled.propensity, pool.propensity[positions]]),
        _make_ids(labelled.ids, pool.ids, positions.size),
        labelled.classes,
        None if labelled.cost is None else np.concatenate([labelled.cost, pool.cost[positions]]),
        labelled.column_groups,
        None if labelled.groups is None else np.concatenate([labelled.groups, pool.groups[positions]]),
    )


def _make_ids(log_ids: NDArray[Any], pool_ids: NDArray[Any], n_added: int) -> NDArray[Any]:
    """Return the log's ids and new ones: numbers that follow the largest, or names if ids are text."""
    used = set(log_ids.tolist()) | set(pool_ids.tolist())
    if log_ids.dtype.kind in "iu" and pool_ids.dtype.kind in "iu" and (largest := max(used)) + n_added < 2**63:
        return np.concatenate([log_ids, np.arange(largest + 1, largest + 1 + n_added)])
    names = (f"not kept {number}" for number in range(1, n_added + len(used) + 1))
    ids = np.empty(len(log_ids) + n_added, dtype=object)
    ids[: len(log_ids)] = log_ids.tolist()
    ids[len(log_ids) :] = [name for name, _ in zip((n for n in names if n not in used), range(n_added), strict=False)]
    return ids

"""Logs of which nobody knows the propensities: a label that was there before we began stands for its own row and for no other.

With x' = (x, A), A being 1 for a row with such a *given* label, the paper's Q0(x') is A itself. Given x' nothing about the old policy is
random, so the paper's results hold for x' whatever the reasons for A were. Rows with A = 0 are known through bought labels only, whose
selection probabilities we record. The population is a set of rows each of which has its label or can be asked about:

    one table        its m rows: λ(x') = m·(A + (1 − A)·P(x)), P being the probability that some round chose the row
    log and "pool"   the N rows of the pool: λ = N·P, and the log's labels train only
    log and "both"   the m + N rows: λ(x') = (m + N)·(A + (1 − A)·P(x)), and whatever has no label in either can be asked about

So methods get a log of labelled rows alone, with propensity 1, and a pool of all rows that can be asked about, with propensity 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints, keep
from observal.errors import InvalidInput
from observal.problem.data import LoggedData, Pool
from observal.problem.frames import Frame
from observal.problem.problem import Problem
from observal.problem.rows import Rows, stack_rows

Part = tuple[LoggedData | Pool, Ints, NDArray[Any]]
"""A log or pool, some of its rows, and the ids of all of them."""


class Arranged(NamedTuple):
    """A log and a pool as methods take them, and the population that the error is about.

    `rows` are the pool's rows as positions in what was given, the log first; None if the pool is as it was given.
    """

    logged: LoggedData
    pool: Pool
    population: str | None
    rows: Ints | None = None


def arrange(logged: LoggedData, pool: Pool | None, population: str | None = None) -> Arranged:
    """Return log and pool so that each row of the population is in one of them; unchanged where propensities are known.

    Rows with the same id in log and pool are the same row.

    Examples
    --------
    >>> logged, pool, population, rows = arrange(LoggedData([[0.0], [1.0], [2.0]], ["no", None, "yes"]), None)
    >>> logged.ids.tolist(), pool.ids.tolist(), population, rows.tolist()
    ([0, 2], [1], 'table', [1])
    """
    if not logged.is_given:
        return Arranged(logged, _require_pool(pool), population)
    _check_population(pool, population)
    has_label = np.asarray(logged.revealed)
    if not has_label.any():
        raise InvalidInput(
            f"None of the {len(logged)} rows has a label, and observal learns from some that are there; label a few rows picked at random "
            "first."
        )
    log_ids = logged.ids
    if pool is None:
        of_log, of_pool, population = np.flatnonzero(~has_label), np.empty(0, dtype=np.int64), "table"
    else:
        pool = Problem(logged, pool).pool  # with its columns in the log's order
        if not logged.has_ids and not pool.has_ids:  # both are numbered from 0
            log_ids = len(pool) + logged.ids
        pool_ids, with_label = set(pool.ids.tolist()), set(log_ids[has_label].tolist())
        in_pool = np.array([id_ in pool_ids for id_ in log_ids.tolist()])
        n_twice = int((in_pool & has_label).sum())
        if population != "both":
            if n_twice == 0:
                return Arranged(_labelled(logged, log_ids), pool, "pool")
            if n_twice < len(with_label):
                raise InvalidInput(
                    f"{n_twice} of the {len(with_label)} labelled rows of the log are in the pool, too; leave them out of one of the "
                    "tables, or let the error be about both (population='both', --population both)."
                )
        of_pool = np.flatnonzero([id_ not in with_label for id_ in pool.ids.tolist()])
        # If the pool has all labelled rows, it is one table with its labels apart.
        of_log = np.flatnonzero(~has_label & ~in_pool) if population == "both" else np.empty(0, dtype=np.int64)
        population = "both" if population == "both" else "table"
    if of_log.size + of_pool.size == 0:
        raise InvalidInput(
            f"All {int(has_label.sum())} rows have a label, so there is nothing to ask about; leave the label of others empty, or give a pool."
        )
    open_rows: list[Part] = [(logged, of_log, log_ids)]
    open_rows += [] if pool is None else [(pool, of_pool, pool.ids)]
    return Arranged(
        _labelled(logged, log_ids), _pool_of(open_rows), population, np.concatenate([of_log, len(logged) + of_pool])
    )


def _require_pool(pool: Pool | None) -> Pool:
    if pool is None:
        raise InvalidInput(
            "A log with propensities needs a pool of rows to ask about, but there is none; give one or, to ask about the log's own rows, "
            "leave the propensities out."
        )
    if pool.is_given:
        raise InvalidInput("The log has propensities, but the pool has none; give both theirs, or neither.")
    return pool


def _check_population(pool: Pool | None, population: str | None) -> None:
    if pool is not None and not pool.is_given:
        raise InvalidInput("The pool has propensities, but the log has none; give both theirs, or neither.")
    if population is not None and (pool is None or population not in ("pool", "both")):
        raise InvalidInput(
            f"The population is {population!r}, but "
            + (
                "with one table the error is about all of its rows; leave the population out."
                if pool is None
                else "without propensities the error can only be about 'pool' or 'both'; give one of these."
            )
        )
    if population == "both" and pool is not None and pool.price is not None:
        raise InvalidInput("Prices of labels are known for the pool only; leave them out, or ask about the pool alone.")


def _labelled(logged: LoggedData, ids: Any) -> LoggedData:
    """Return the log's rows with a label, each of which stands for itself."""
    rows = np.flatnonzero(logged.revealed)
    features, frame = _stack([(logged, rows, ids)])
    part = LoggedData(y=np.asarray(logged.y)[rows], classes=logged.classes, **features)
    keep(part, frame=frame, is_positive_named=logged.is_positive_named)
    return part


def _pool_of(parts: Sequence[Part]) -> Pool:
    features, frame = _stack(parts)
    pool = Pool(**features)
    keep(pool, frame=frame)
    return pool


def _stack(parts: Sequence[Part]) -> tuple[dict[str, Any], Frame | None]:
    """Return what logs and pools have for some of their rows, one after the other, and these rows as the user's own table."""
    parts = [part for part in parts if part[1].size]
    tables, rows = [table for table, _, _ in parts], [part for _, part, _ in parts]
    frames: list[Rows] = [table.frame.select(part) for table, part, _ in parts if table.frame is not None]
    stacked = reduce(lambda top, bottom: top.stack(bottom), frames) if len(frames) == len(parts) else None
    frame = stacked if isinstance(stacked, Frame) else None
    is_table = any(isinstance(table.X, Frame) for table in tables)
    fields: dict[str, Any] = {
        "X": frame
        if is_table
        else reduce(stack_rows, [table.rows.take(part) for table, part in zip(tables, rows, strict=True)]),
        "ids": np.concatenate([ids[part] for _, part, ids in parts]),
        "column_groups": tables[0].column_groups,
    }
    for name in ("cost", "groups"):
        values = [getattr(table, name) for table in tables]
        if all(value is not None for value in values):
            fields[name] = np.concatenate([value[part] for value, part in zip(values, rows, strict=True)])
    return fields, frame

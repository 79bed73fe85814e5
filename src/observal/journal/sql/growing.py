"""More rows for the pool of a campaign, stored in one transaction.

Positions stay: new rows come after the others. What was decided stays too. A plan that was made before the rows existed could not take
them. Whether it would have, had they been there, decides which rows its labels stand for (:mod:`observal.intervals.error`), so that is
noted with the new rows, as it would have been in the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput
from observal.journal.ledger import Ledger
from observal.journal.replay import Replay
from observal.journal.sql.chunks import append_array, append_table
from observal.journal.sql.connection import StoreConnection
from observal.journal.sql.stored_problem import ROWS, storable_ids
from observal.problem.data import Pool
from observal.problem.problem import Problem


def require_growable(settings: Mapping[str, Any]) -> None:
    """Refuse to add rows where that is not possible."""
    if settings.get("in_place"):
        raise InvalidInput(
            "The campaign's tables stay in place, and rows cannot be added to those; make a new campaign with all rows."
        )
    if not settings["method"].pool_may_grow:
        raise InvalidInput(
            f"{type(settings['method']).__name__} plans for the pool that it was given, so rows cannot be added; make a new campaign "
            "with all rows."
        )


def grown(known: Problem, more: Pool) -> Problem:
    """Return the problem with more pool rows."""
    pool = known.pool
    if more.X.shape[1] != pool.X.shape[1]:
        raise InvalidInput(
            f"New rows need the {pool.X.shape[1]} features of the pool, but have {more.X.shape[1]}; give the same columns."
        )
    if (pool.cost is None) != (more.cost is None):
        raise InvalidInput("New rows need a cost if the pool has one, and none otherwise; give the same columns.")
    cost = None if pool.cost is None else np.concatenate([pool.cost, more.cost])
    ids = _joined_ids(pool.ids, more.ids)
    X = np.concatenate([pool.X, np.asarray(more.X, dtype=pool.X.dtype)])
    propensity = np.concatenate([pool.propensity, more.propensity])
    return Problem(known.logged, Pool(X, propensity, ids, cost, pool.column_groups))


def _joined_ids(ids: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    """Return the ids of all rows; refuse those of another kind, and those that are there already."""
    kinds = ["whole numbers" if one.dtype.kind in "iu" else "text" for one in (ids, more)]
    if kinds[0] != kinds[1]:
        raise InvalidInput(
            f"The ids of the pool are {kinds[0]}, but those of the new rows are {kinds[1]}; give ids of the same kind (ids=)."
        )
    joined = np.concatenate([ids, more])
    if len({str(value) for value in joined.tolist()}) < joined.size:
        free = f", for example whole numbers from {int(ids.max()) + 1} on" if kinds[0] == "whole numbers" else ""
        raise InvalidInput(
            f"Every row needs an id of its own, but some of the new rows have ids of the pool; give others (ids=){free}."
        )
    return joined


def near_rows(replay: Replay, ledger: Ledger, first: int) -> list[list[int] | None]:
    """Return, for each plan, the pool rows from `first` on that it would have noted as near, had they been there; None if not known."""
    replay.follow(ledger.plans, ledger.labels, ledger.bases)
    if replay.closed < ledger.base:
        raise InvalidInput(
            "An undone answer of an earlier round is open, so rows cannot be added now; answer or skip it first."
        )
    return [replay.near(plan, base, first) for plan, base in zip(ledger.plans, ledger.bases, strict=True)]


def write_more(stored: StoreConnection, forms: Mapping[str, Any], more: Pool, rows: Any) -> dict[str, Any]:
    """Store more pool rows after the others, and return the dtypes and shapes of all arrays."""
    import pyarrow as pa

    new = {"pool.features": more.X, "pool.propensity": more.propensity, "pool.cost": more.cost}
    before: int = forms["pool.propensity"]["shape"][0]
    arrays = {name: append_array(stored, name, array, forms[name]) for name, array in new.items() if array is not None}
    append_table(stored, "pool.ids", pa.table({"id": storable_ids(more.ids, "The new rows")}), before)
    append_table(stored, ROWS, rows, before)
    return {**forms, **arrays}

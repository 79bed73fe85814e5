"""The log and the pool of a campaign: how they are written to its database and read from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints
from observal.errors import InvalidInput, NotACampaign
from observal.journal.sql.chunks import Progress, read_array, read_rows, read_whole_table, write_arrays, write_table
from observal.journal.sql.connection import StoreConnection
from observal.problem.column_groups import ColumnGroups
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import class_array
from observal.problem.problem import Problem

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = "pool.rows"
SOME = 1000  # up to so many rows are read by themselves; for more, the whole table is read


def write_problem(
    transaction: StoreConnection, logged: LoggedData, pool: Pool, rows: pa.Table, progress: Progress = None
) -> dict[str, Any]:
    """Store log and pool, and the pool's raw `rows` for people; return the dtypes and shapes that :func:`read_problem` needs.

    Parameters
    ----------
    transaction : StoreConnection
        One that may write.
    logged, pool : LoggedData, Pool
        With dense features.
    rows : pyarrow.Table
        The pool as it is in the table.
    progress : callable, optional
        Called with (done, total, what).
    """
    import pyarrow as pa

    if logged.rows.is_sparse or pool.rows.is_sparse:
        raise InvalidInput(
            "A campaign needs dense features, but sparse ones were given; convert them with X.toarray()."
        )
    parts: dict[str, Any] = {
        "log.features": logged.X,
        "log.codes": logged.codes,
        "log.revealed": logged.revealed,
        "log.propensity": logged.propensity,
        "log.cost": logged.cost,
        "pool.features": pool.X,
        "pool.propensity": pool.propensity,
        "pool.cost": pool.cost,
    }
    forms = write_arrays(transaction, parts, progress, len(parts) + 2)
    write_table(transaction, "log.ids", pa.table({"id": storable_ids(logged.ids, "The log")}))
    write_table(transaction, "pool.ids", pa.table({"id": storable_ids(pool.ids, "The pool")}))
    if progress:
        progress(len(parts), len(parts) + 2, "storing")
    write_table(transaction, ROWS, rows)
    return forms


def read_problem(
    transaction: StoreConnection,
    forms: dict[str, Any],
    classes: list[Any],
    with_ids: bool = True,
    groups: ColumnGroups | None = None,
) -> Problem:
    """Return the stored log and pool; without ids, rows are numbered, which is faster."""
    try:
        return _read_problem(transaction, forms, classes, with_ids, groups)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, NotACampaign):
            raise
        said = " ".join(str(error).split())[:80]
        raise NotACampaign(
            f"The campaign is damaged: its data are not valid ({said}); use an undamaged copy."
        ) from None


def _read_problem(
    transaction: StoreConnection, forms: dict[str, Any], classes: list[Any], with_ids: bool, groups: ColumnGroups | None
) -> Problem:
    arrays = {name: read_array(transaction, name, form) for name, form in forms.items()}
    values = class_array(classes)
    y: NDArray[Any] = values[arrays["log.codes"]]
    y = y.astype(object if values.dtype.kind == "O" else np.float64)
    y[~arrays["log.revealed"]] = None if values.dtype.kind == "O" else np.nan
    logged = LoggedData(
        arrays["log.features"],
        y,
        arrays["log.propensity"],
        _ids(transaction, "log.ids") if with_ids else None,
        values,
        arrays.get("log.cost"),
        groups,
    )
    pool = Pool(
        arrays["pool.features"],
        arrays["pool.propensity"],
        _ids(transaction, "pool.ids") if with_ids else None,
        arrays.get("pool.cost"),
        groups,
    )
    return Problem(logged, pool)


def storable_ids(ids: NDArray[Any], what: str) -> Any:
    """Return ids as an Arrow array of whole numbers or text; other kinds become text."""
    import pyarrow as pa

    if ids.dtype.kind in "iu":
        return pa.array(ids)
    texts = [str(value) for value in ids.tolist()]
    if len(set(texts)) < len(texts):
        raise InvalidInput(f"{what} must have ids that differ as text, but two are the same; rename one of them.")
    try:
        return pa.array(texts, pa.large_string())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} must have ids that are valid text, but one is not; rename it.") from None


def read_pool_ids(transaction: StoreConnection, positions: Ints) -> NDArray[Any]:
    """Return the ids of some pool rows; the chunks that hold them are read, and no others."""
    if positions.size > SOME:
        return np.asarray(_ids(transaction, "pool.ids")[positions])
    return np.asarray(read_rows(transaction, "pool.ids", positions.tolist()).column("id").to_numpy())


def _ids(transaction: StoreConnection, name: str) -> NDArray[Any]:
    return np.asarray(read_whole_table(transaction, name).column("id").to_numpy())

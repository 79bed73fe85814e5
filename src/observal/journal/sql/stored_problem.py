"""The log and pool of a campaign: writing them to its database, reading them back, and growing the pool.

Either everything is copied, or the tables stay in Parquet and the database holds propensities, labels, and
where each part is. What is read from the files is then compared with its part's checksum, so a changed file
is noticed. Ids are not copied: those of asked rows are in the journal anyway.

New pool rows come after the others, so positions and decisions stay. An earlier plan could not take the new
rows. Whether it would have, had they been there, determines which rows its labels represent
(``observal.intervals.error``), so that is recorded with the new rows, as it would have been in the plan.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints, sealed
from observal.errors import InvalidInput, NotACampaign
from observal.journal.ledger import Ledger
from observal.journal.replay import Replay
from observal.journal.settings import Settings, StoredArray
from observal.journal.sql.chunks import (
    append_array,
    append_table,
    read_array,
    read_rows,
    read_whole_table,
    write_array,
    write_table,
)
from observal.journal.sql.connection import StoreConnection
from observal.parquet import Parts
from observal.parquet.row_groups import Part, require_unchanged
from observal.parquet.vectors import LazyIds
from observal.problem.arrow_stream import Budget
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import CodedLabels, class_array
from observal.problem.problem import Problem
from observal.tables.load_in_place import encode_in_place

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[..., None] | None  # called with (steps done, number of steps, current step)

ROWS = "pool.rows"
_PARTS = "parts"
_COPIED = {"log.features", "log.codes", "log.revealed", "log.propensity", "pool.features", "pool.propensity"}
_IN_PLACE = {"log.codes", "log.propensity", "pool.propensity"}
_OPTIONAL = {"log.cost", "pool.cost", "log.groups", "pool.groups", "pool.price"}
_ITEM_TYPES = ("<f8", "<f4", "<i8", "|b1", "|i1")
_FEW = 1000  # up to this many ids are read individually; for more, the whole table is read


# -- writing -------------------------------------------------------------------------------------------------------


def write_problem(
    connection: StoreConnection, problem: Problem, rows: pa.Table | None, progress: Progress = None
) -> dict[str, StoredArray]:
    """Store log and pool, and return the layout of their arrays.

    `rows` is the pool for display; None if the tables stay in Parquet. `progress` is called with (done,
    total, what).
    """
    import pyarrow as pa

    logged, pool = problem.logged, problem.pool
    if rows is None:
        arrays = _write_arrays(connection, problem, _IN_PLACE | _OPTIONAL, progress)
        where = {
            name: {"parts": [astuple(part) for part in table.X.parts], "id": table.ids.column, "first": table.ids.first}
            for name, table in (("log", logged), ("pool", pool))
        }
        connection.write_chunk(_PARTS, 0, 0, json.dumps(where).encode())
        return arrays
    if logged.rows.is_sparse or pool.rows.is_sparse:
        raise InvalidInput(
            "A campaign needs dense features, but sparse ones were given; convert them with X.toarray()."
        )
    arrays = _write_arrays(connection, problem, _COPIED | _OPTIONAL, progress)
    write_table(connection, "log.ids", pa.table({"id": _storable_ids(logged.ids, "The log")}))
    write_table(connection, "pool.ids", pa.table({"id": _storable_ids(pool.ids, "The pool")}))
    write_table(connection, ROWS, rows)
    return arrays


def _write_arrays(
    connection: StoreConnection, problem: Problem, names: set[str], progress: Progress
) -> dict[str, StoredArray]:
    logged = problem.logged
    values = {
        "log.features": logged.X,
        "log.codes": logged.codes,
        "log.revealed": logged.revealed,
        "log.propensity": logged.propensity,
        "log.cost": logged.cost,
        "log.groups": logged.groups,
        **_pool_arrays(problem.pool),
    }
    arrays = {name: value for name, value in values.items() if name in names and value is not None}
    layouts = {}
    for step, (name, array) in enumerate(arrays.items()):
        if progress:
            progress(step, len(arrays) + 1, "storing")
        layouts[name] = write_array(connection, name, array)
    if progress:
        progress(len(arrays), len(arrays) + 1, "storing")
    return layouts


def _pool_arrays(pool: Pool) -> dict[str, Any]:
    """Return a pool's arrays by their stored names; None for those it lacks."""
    return {
        "pool.features": pool.X,
        "pool.propensity": pool.propensity,
        "pool.cost": pool.cost,
        "pool.groups": pool.groups,
        "pool.price": pool.price,
    }


def _storable_ids(ids: NDArray[Any], what: str) -> pa.Array:
    """Return ids as an Arrow array of integers or text; other types become text."""
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


# -- reading -------------------------------------------------------------------------------------------------------


def check_stored(settings: Settings) -> None:
    """Raise ValueError if settings describe arrays or classes that observal never stores."""
    if not all(isinstance(value, bool | int | float | str) for value in settings.classes):
        raise ValueError("a class is not valid")
    if len({str(value) for value in settings.classes}) < len(settings.classes):
        raise ValueError("its classes are not distinct")
    if settings.in_place and settings.encoder is None:
        raise ValueError("its encoder is missing")
    expected = _IN_PLACE if settings.in_place else _COPIED
    if not expected <= set(settings.arrays) <= expected | _OPTIONAL:
        raise ValueError("its list of arrays is not valid")
    for name, array in settings.arrays.items():
        rows = settings.log_rows if name.startswith("log.") else settings.pool_rows
        shape = (rows, len(settings.features)) if name.endswith(".features") else (rows,)
        if array.shape != shape or array.dtype not in _ITEM_TYPES:
            raise ValueError(f"its {name} is not valid")
    Budget().take(sum(math.prod(array.shape) * np.dtype(array.dtype).itemsize for array in settings.arrays.values()))


def read_problem(connection: StoreConnection, settings: Settings, with_ids: bool = True) -> Problem:
    """Return log and pool. Without ids, rows are numbered, which is faster; rows in Parquet are read on demand."""
    if settings.in_place:
        return _read_in_place(connection, settings)
    try:
        return _read_copy(connection, settings, with_ids)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, NotACampaign):
            raise
        reason = " ".join(str(error).split())[:80]
        raise NotACampaign(
            f"The campaign is damaged: its data are not valid ({reason}); use an undamaged copy."
        ) from None


def _read_copy(connection: StoreConnection, settings: Settings, with_ids: bool) -> Problem:
    arrays = {name: read_array(connection, name, layout) for name, layout in settings.arrays.items()}
    classes = class_array(list(settings.classes))
    y: NDArray[Any] = classes[arrays["log.codes"]]
    y = y.astype(object if classes.dtype.kind == "O" else np.float64)
    y[~arrays["log.revealed"]] = None if classes.dtype.kind == "O" else np.nan
    features = arrays["log.features"], arrays["pool.features"]
    ids = [_read_ids(connection, name) if with_ids else None for name in ("log.ids", "pool.ids")]
    return _make_problem(settings, arrays, features, y, ids, classes)


def _make_problem(
    settings: Settings,
    arrays: Mapping[str, NDArray[Any]],
    features: Sequence[Any],
    y: Any,
    ids: Sequence[Any],
    classes: NDArray[Any] | None,
) -> Problem:
    """Return log and pool; features and ids are those of both, the log's first."""
    get, groups = arrays.get, settings.column_groups
    log_costs, log_groups = get("log.cost"), get("log.groups")
    pool_costs, pool_groups, prices = get("pool.cost"), get("pool.groups"), get("pool.price")
    return Problem(
        LoggedData(features[0], y, arrays["log.propensity"], ids[0], classes, log_costs, groups, log_groups),
        Pool(features[1], arrays["pool.propensity"], ids[1], pool_costs, groups, pool_groups, prices),
    )


def _read_ids(connection: StoreConnection, name: str) -> NDArray[Any]:
    return np.asarray(read_whole_table(connection, name).column("id").to_numpy())


def _read_in_place(connection: StoreConnection, settings: Settings) -> Problem:
    arrays = {name: sealed(read_array(connection, name, layout)) for name, layout in settings.arrays.items()}
    encoder = settings.encoder
    if encoder is None:
        raise ValueError("its encoder is missing")
    tables, ids = _read_parts(connection)
    labels = CodedLabels(arrays["log.codes"], class_array(list(settings.classes)))
    features = [encode_in_place(rows, encoder) for rows in tables]
    return _make_problem(settings, arrays, features, labels, ids, None)


def read_pool_ids(connection: StoreConnection, positions: Ints) -> NDArray[Any]:
    """Return the ids of some pool rows, reading only the chunks that hold them."""
    if is_in_place(connection):
        return np.asarray(_read_parts(connection)[1][1][positions])
    if positions.size > _FEW:
        return np.asarray(_read_ids(connection, "pool.ids")[positions])
    return np.asarray(read_rows(connection, "pool.ids", positions.tolist()).column("id").to_numpy())


def read_pool_rows(connection: StoreConnection, positions: list[int]) -> pa.Table:
    """Return some pool rows as in the table."""
    if is_in_place(connection):
        return pool_in_place(connection).raw_rows(positions)
    return read_rows(connection, ROWS, positions)


def is_in_place(connection: StoreConnection) -> bool:
    """Return whether a campaign's tables stay in their files."""
    return connection.has_chunk(_PARTS, 0)


def pool_in_place(connection: StoreConnection) -> Parts:
    """Return the pool without features; its ``raw_rows`` are those of the files."""
    return _read_parts(connection)[0][1]


def check_rows(connection: StoreConnection) -> None:
    """Read the pool's rows for display; in place, compare every part with its checksum, even if compared before."""
    if not is_in_place(connection):
        read_whole_table(connection, ROWS)
        return
    tables, _ = _read_parts(connection)
    for part in (part for table in tables for part in table.parts):
        require_unchanged(part, again=True)


def _read_parts(connection: StoreConnection) -> tuple[tuple[Parts, Parts], tuple[LazyIds, LazyIds]]:
    """Return log and pool without features, and their ids."""
    try:
        where = json.loads(connection.read_chunk(_PARTS, 0))
        tables = [where[name] for name in ("log", "pool")]
        rows = [Parts(tuple(map(_part, table["parts"])), (), 0, np.dtype(np.float64)) for table in tables]
        ids = [LazyIds(parts, table["id"], table["first"]) for parts, table in zip(rows, tables, strict=True)]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, NotACampaign):
            raise
        raise NotACampaign(
            "The campaign is damaged: the record of where its tables are cannot be read; use an undamaged copy."
        ) from None
    return (rows[0], rows[1]), (ids[0], ids[1])


def _part(fields: list[Any]) -> Part:
    """Return a part from a campaign's record; one without a checksum was not written by observal."""
    path, group, rows, first, size, checksum = fields
    numbers = all(type(number) is int and number >= 0 for number in (group, rows, first, size))
    if not (isinstance(path, str) and isinstance(checksum, str) and checksum and numbers):
        raise ValueError("a part is not valid")
    return Part(path, group, rows, first, size, checksum)


# -- more pool rows ------------------------------------------------------------------------------------------------


def require_growable(settings: Settings) -> None:
    """Raise if rows cannot be added."""
    if settings.in_place:
        raise InvalidInput(
            "The campaign's tables stay in place, and rows cannot be added to those; make a new campaign with all rows."
        )
    if not settings.method.pool_may_grow:
        raise InvalidInput(
            f"{type(settings.method).__name__} plans for a fixed pool, so rows cannot be added; make a new campaign "
            "with all rows."
        )


def add_rows(problem: Problem, more: Pool) -> Problem:
    """Return the problem with more pool rows."""
    pool = problem.pool
    optional = {}
    for name, what in (("cost", "a cost"), ("groups", "a group"), ("price", "a price")):
        values, new = getattr(pool, name), getattr(more, name)
        if (values is None) != (new is None):
            raise InvalidInput(f"New rows need {what} if the pool has one, and none otherwise; give the same columns.")
        optional[name] = None if values is None else np.concatenate([values, new])
    ids = _join_ids(pool.ids, more.ids)
    X = np.concatenate([pool.X, np.asarray(more.X, dtype=pool.X.dtype)])
    propensity = np.concatenate([pool.propensity, more.propensity])
    return Problem(problem.logged, Pool(X, propensity, ids, column_groups=pool.column_groups, **optional))


def _join_ids(ids: NDArray[Any], more: NDArray[Any]) -> NDArray[Any]:
    """Return the ids of all rows; reject new ones of another type or that exist already."""
    kinds = ["whole numbers" if values.dtype.kind in "iu" else "text" for values in (ids, more)]
    if kinds[0] != kinds[1]:
        raise InvalidInput(
            f"The ids of the pool are {kinds[0]}, but those of the new rows are {kinds[1]}; give ids of the same kind (ids=)."
        )
    joined = np.concatenate([ids, more])
    if len({str(value) for value in joined.tolist()}) < joined.size:
        free = f", for example whole numbers from {int(ids.max()) + 1} on" if kinds[0] == "whole numbers" else ""
        raise InvalidInput(
            f"Every row needs a unique id, but some of the new rows have ids of the pool; give others (ids=){free}."
        )
    return joined


def find_near_rows(replay: Replay, ledger: Ledger, first: int) -> list[list[int] | None]:
    """Return, for each plan, the pool rows from `first` on that it would have recorded as near; None if unknown."""
    replay.follow(ledger.plans, ledger.labels, ledger.bases)
    if replay.closed < ledger.base:
        raise InvalidInput(
            "An undone answer of an earlier round is open, so rows cannot be added now; answer or skip it first."
        )
    return [replay.near(plan, base, first) for plan, base in zip(ledger.plans, ledger.bases, strict=True)]


def write_more_rows(
    connection: StoreConnection, arrays: Mapping[str, StoredArray], more: Pool, rows: pa.Table
) -> dict[str, StoredArray]:
    """Append pool rows to the stored ones, and return the new layout of all arrays."""
    import pyarrow as pa

    before = arrays["pool.propensity"].shape[0]
    longer = {
        name: append_array(connection, name, array, arrays[name])
        for name, array in _pool_arrays(more).items()
        if array is not None
    }
    append_table(connection, "pool.ids", pa.table({"id": _storable_ids(more.ids, "The new rows")}), before)
    append_table(connection, ROWS, rows, before)
    return {**arrays, **longer}

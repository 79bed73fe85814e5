"""The log and the pool of a campaign whose tables stay in Parquet: the database has propensities, labels, and where each part is.

What is read of the files is compared with the checksum of its part, so a file that was changed is noticed. Ids are not copied: those of the rows
that were asked about are in the journal anyway.
"""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints, sealed
from observal.errors import NotACampaign
from observal.journal.sql.chunks import Progress, read_array, write_arrays
from observal.journal.sql.connection import StoreConnection
from observal.parquet import Parts
from observal.parquet.row_groups import Part, require_unchanged
from observal.parquet.vectors import LazyIds
from observal.problem.column_groups import ColumnGroups
from observal.problem.data import LoggedData, Pool
from observal.problem.labels import CodedLabels, class_array
from observal.problem.problem import Problem
from observal.tables.encoder import TableEncoder
from observal.tables.load_in_place import encode_in_place

WHERE = "parts"
ARRAYS = {"log.codes", "log.propensity", "pool.propensity"}


def write_in_place(transaction: StoreConnection, problem: Problem, progress: Progress = None) -> dict[str, Any]:
    """Store propensities, labels and where the parts are; return the dtypes and shapes that :func:`read_in_place` needs."""
    logged, pool = problem.logged, problem.pool
    vectors: dict[str, Any] = {
        "log.codes": logged.codes,
        "log.propensity": logged.propensity,
        "log.cost": logged.cost,
        "pool.propensity": pool.propensity,
        "pool.cost": pool.cost,
    }
    forms = write_arrays(transaction, vectors, progress, len(vectors))
    where = {
        name: {"parts": [astuple(part) for part in table.X.parts], "id": table.ids.column, "first": table.ids.first}
        for name, table in (("log", logged), ("pool", pool))
    }
    transaction.write_chunk(WHERE, 0, 0, json.dumps(where).encode())
    return forms


def is_in_place(transaction: StoreConnection) -> bool:
    """Tell whether a campaign's tables stay in their files."""
    return transaction.has_chunk(WHERE, 0)


def _rows(transaction: StoreConnection) -> tuple[tuple[Parts, Parts], tuple[LazyIds, LazyIds]]:
    """Return log and pool without features, and their ids."""
    try:
        where = json.loads(transaction.read_chunk(WHERE, 0))
        tables = [where[name] for name in ("log", "pool")]
        rows = [Parts(tuple(_part(one) for one in table["parts"]), (), 0, np.dtype(np.float64)) for table in tables]
        ids = [LazyIds(one, table["id"], table["first"]) for one, table in zip(rows, tables, strict=True)]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, NotACampaign):
            raise
        raise NotACampaign(
            "The campaign is damaged: where its tables are cannot be read; use an undamaged copy."
        ) from None
    return (rows[0], rows[1]), (ids[0], ids[1])


def _part(fields: Any) -> Part:
    """Return a part that a campaign names; one without a checksum was not written by observal."""
    path, group, rows, first, size, checksum = fields
    numbers = all(type(number) is int and number >= 0 for number in (group, rows, first, size))
    if not (isinstance(path, str) and isinstance(checksum, str) and checksum and numbers):
        raise ValueError("a part is not valid")
    return Part(path, group, rows, first, size, checksum)


def read_in_place(
    transaction: StoreConnection,
    forms: dict[str, Any],
    classes: list[Any],
    encoder: Any,
    groups: ColumnGroups | None = None,
) -> Problem:
    """Return log and pool; their rows are read when they are needed."""
    arrays = {name: sealed(read_array(transaction, name, form)) for name, form in forms.items()}
    learned = TableEncoder.from_dict(encoder)
    (log, pool), (log_ids, pool_ids) = _rows(transaction)
    labels = CodedLabels(arrays["log.codes"], class_array(classes))
    return Problem(
        LoggedData(
            encode_in_place(log, learned),
            labels,
            arrays["log.propensity"],
            log_ids,
            None,
            arrays.get("log.cost"),
            groups,
        ),
        Pool(encode_in_place(pool, learned), arrays["pool.propensity"], pool_ids, arrays.get("pool.cost"), groups),
    )


def in_place_ids(transaction: StoreConnection, positions: Ints) -> NDArray[Any]:
    """Return the ids of some pool rows."""
    return np.asarray(_rows(transaction)[1][1][positions])


def pool_in_place(transaction: StoreConnection) -> Parts:
    """Return the pool without features; its ``raw_rows`` are as they are in the files."""
    return _rows(transaction)[0][1]


def check_parts(transaction: StoreConnection) -> None:
    """Compare every part with its checksum, also those that this process has compared before."""
    rows, _ = _rows(transaction)
    for part in (part for one in rows for part in one.parts):
        require_unchanged(part, again=True)

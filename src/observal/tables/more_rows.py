"""More rows for the pool of a campaign that exists: read and encoded exactly as its first rows were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, check_propensity
from observal.diagnosis import propensity as chances
from observal.errors import InvalidInput
from observal.problem.data import Pool
from observal.problem.problem import Problem
from observal.tables.columns import column_kind
from observal.tables.encoder import TableEncoder
from observal.tables.read import read_raw
from observal.tables.roles import read_ids, read_numbers
from observal.tables.table_format import TableFormat
from observal.tables.text_columns import convert_text

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

WHAT = "The table of new rows"
_HOW = "name a column of the new rows, or a number for all of them, with --propensity (propensity=)"


def read_more_rows(
    source: TableSource,
    settings: Mapping[str, Any],
    problem: Problem,
    raw: pa.Table,
    propensity: str | float | None = None,
) -> tuple[Pool, pa.Table]:
    """Return new rows for a pool, encoded, and as they are in the table, in the columns of the stored rows.

    Parameters
    ----------
    source : table
        Whatever :func:`observal.read_table` takes.
    settings : mapping
        Those of the campaign: names of columns, the encoder, where propensities came from.
    problem : Problem
        The log and the pool so far.
    raw : pyarrow.Table
        Some rows of the pool as they are stored; only their columns and types count.
    propensity : str or float, optional
        A column of the new rows, or one number for all of them; by default where those of the pool came from.
    """
    encoder = TableEncoder.from_dict(settings["encoder"])
    has_ids = settings["id"] in raw.column_names
    as_text = read_raw(
        source, settings["id"], TableFormat(decimal=encoder.format.decimal, missing=encoder.format.missing)
    )
    if as_text.num_rows == 0:
        raise InvalidInput(f"{WHAT} is empty, it has columns but no rows; give a table with rows.")
    table = convert_text([as_text], keep=(settings["id"], settings["label"]))[0]
    X = encoder.encode(as_text)
    cost = None
    if problem.pool.cost is not None:
        cost = read_numbers(table, _cost_column(settings), "cost", WHAT)
    q = _propensities(table, settings, problem, X, propensity)
    ids = _new_ids(table, settings["id"] if has_ids else None, problem)
    return Pool(X, q, ids, cost), _in_stored_columns(as_text, table, raw.schema, encoder)


def _cost_column(settings: Mapping[str, Any]) -> str:
    name = (settings.get("pool_from") or {}).get("cost")
    if not isinstance(name, str):
        raise InvalidInput(
            "Rows cannot be added to this campaign, because the name of its cost column was not recorded; make a new campaign."
        )
    return name


def _propensities(
    table: pa.Table, settings: Mapping[str, Any], problem: Problem, X: Floats, given: str | float | None
) -> Floats:
    """Return the propensity of each new row, from where those of the pool came from."""
    columns, origin = settings.get("propensity"), settings.get("pool_from") or {}
    columns = columns if isinstance(columns, list) else [columns] if columns else []
    if given is None:
        given = columns[0] if len(columns) == 1 else origin.get("number")
    if isinstance(given, str):
        q = check_propensity(read_numbers(table, given, "propensity", WHAT), table.num_rows, WHAT)
    elif given is not None:
        q = chances.known(given, table.num_rows)
    elif origin.get("estimated"):
        logged = problem.logged
        q = np.asarray(chances.estimate(logged.X, logged.revealed, X, random_state=settings["seed"]).pool)
    else:
        raise InvalidInput(f"No propensities were given for the new rows; {_HOW}.")
    floor = origin.get("floor")
    return q if floor is None else chances.apply_floor(q, floor, WHAT).propensity


def _new_ids(table: pa.Table, name: str | None, problem: Problem) -> NDArray[Any]:
    """Return the ids of the new rows, of the same kind as the pool's and different from all of them."""
    others = {"the log": problem.logged.ids.tolist(), "the pool": problem.pool.ids.tolist()}
    if name is None:
        first = 1 + max(*others["the log"], *others["the pool"])
        return np.arange(first, first + table.num_rows)
    ids = read_ids([table], name, [WHAT])[0]
    if problem.pool.ids.dtype.kind in "iu" and ids.dtype == object:
        raise InvalidInput(
            f"The ids of the pool are whole numbers, but {WHAT.lower()} has {ids[0]!r} in {name!r}; write whole numbers."
        )
    if problem.pool.ids.dtype == object:
        ids = np.array([str(value) for value in ids.tolist()], dtype=object)
    for where, values in others.items():
        if twice := {str(value) for value in values} & {str(value) for value in ids.tolist()}:
            raise InvalidInput(
                f"Every row needs an id of its own, but {min(twice)!r} is in {where} already; leave out the rows that the campaign has."
            )
    return ids


def _in_stored_columns(as_text: pa.Table, table: pa.Table, schema: pa.Schema, encoder: TableEncoder) -> pa.Table:
    """Return the new rows in the columns and types of the stored ones; a column that they do not have is empty."""
    import pyarrow as pa

    rules = {rule.source: rule for rule in encoder.rules}
    columns = []
    for field in schema:
        if field.name not in as_text.column_names:
            columns.append(pa.nulls(as_text.num_rows, field.type))
            continue
        rule = rules.get(field.name)
        column = table.column(field.name) if rule is None else encoder.usable_column(as_text, rule)
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if column_kind(column.type) == column_kind(field.type) == "number":  # halves where there were whole numbers
                columns.append(column.cast(pa.float64()))
                continue
            raise InvalidInput(
                f"Column {field.name!r} of the new rows is of type {column.type}, but {field.type} in the pool; write it as it is there."
            ) from None
    return pa.table(columns, names=schema.names)

"""More rows for the pool of a campaign that exists: read and encoded exactly as its first rows were."""

from __future__ import annotations

from dataclasses import dataclass
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
from observal.tables.roles import TableRoles, read_groups, read_ids, read_numbers
from observal.tables.table_format import TableFormat
from observal.tables.text_columns import convert_text

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

WHAT = "The table of new rows"
_HOW = "name a column of the new rows, or a number for all of them, with --propensity (propensity=)"


@dataclass(frozen=True)
class PropensityOrigin:
    """Where the propensities of a campaign's pool came from, so that those of more rows can come from there."""

    columns: tuple[str, ...] = ()  # the columns of the pool that have them
    number: float | None = None  # the number that all rows have
    estimated: bool = False  # whether they were estimated from the log, in a campaign of an earlier version
    floor: float | None = None  # what smaller ones were raised to


def read_more_rows(
    source: TableSource,
    roles: TableRoles,
    encoder: TableEncoder,
    propensities: PropensityOrigin,
    problem: Problem,
    raw: pa.Table,
    random_state: int = 0,
) -> tuple[Pool, pa.Table]:
    """Return new rows for a pool, encoded, and as they are in the table, in the columns of the stored rows.

    `raw` is some rows of the pool as they are stored; only their columns and types count. `random_state` is the seed of an estimate of the
    propensities.
    """
    as_text = read_raw(source, roles.id, TableFormat(decimal=encoder.format.decimal, missing=encoder.format.missing))
    if as_text.num_rows == 0:
        raise InvalidInput(f"{WHAT} has columns but no rows; give a table with rows.")
    table = convert_text([as_text], keep=(str(roles.id), roles.label))[0]
    X = encoder.encode(as_text)
    cost = None
    if problem.pool.cost is not None and roles.cost is not None:
        cost = read_numbers(table, roles.cost, "cost", WHAT)
    q = _propensities(table, propensities, problem, X, random_state)
    ids = _new_ids(table, roles.id if roles.id in raw.column_names else None, problem)
    groups = None if problem.pool.groups is None or roles.group is None else read_groups(table, roles.group, WHAT)
    price = (
        None if problem.pool.price is None or roles.price is None else read_numbers(table, roles.price, "price", WHAT)
    )
    return Pool(X, q, ids, cost, groups=groups, price=price), _in_stored_columns(as_text, table, raw.schema, encoder)


def _propensities(table: pa.Table, source: PropensityOrigin, problem: Problem, X: Floats, random_state: int) -> Floats:
    """Return the propensity of each new row."""
    if len(source.columns) == 1:
        q = check_propensity(read_numbers(table, source.columns[0], "propensity", WHAT), table.num_rows, WHAT)
    elif source.number is not None:
        q = chances.known(source.number, table.num_rows)
    else:
        raise InvalidInput(f"No propensities were given for the new rows; {_HOW}.")
    return q if source.floor is None else chances.apply_floor(q, source.floor, WHAT).propensity


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
                f"Every row needs a unique id, but {min(twice)!r} is already in {where}; leave out rows that the campaign already has."
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
                f"Column {field.name!r} of the new rows is of type {column.type}, but {field.type} in the pool; use the same type."
            ) from None
    return pa.table(columns, names=schema.names)

"""Groups of rows by columns that the user names, whether or not the model uses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.checks import Ints
from observal.diagnosis.feature_values import columns_by_source, source_of
from observal.errors import InvalidInput
from observal.journal.settings import Settings
from observal.journal.sql.journal import SqlTransaction
from observal.parquet import Parts
from observal.problem.problem import Problem
from observal.report.inspection import Group, groups_of_features, groups_of_values
from observal.session import Labelling

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

MOST_FOR_THIRDS = 20_000  # rows of the pool whose values make the thirds of a number


def check_columns(campaign: Labelling[Any], by: Sequence[str]) -> None:
    """Refuse columns to group by that neither the model nor the pool's table has."""
    encoder, features = campaign.settings.encoder, campaign.settings.features
    sources = [source_of(name) for name in features] if encoder is None else encoder.sources
    others = [name for name in by if name not in sources]
    if not others:
        return
    rows = campaign.problem.pool.rows
    if isinstance(rows, Parts):
        known: Sequence[str] = rows.names
    else:
        with campaign.engine.reading() as transaction:
            stored = isinstance(transaction, SqlTransaction)
            known = transaction.pool_rows([0]).column_names if stored else features
    unknown = next((name for name in others if name not in known), None)
    if unknown is not None:
        raise _unknown_column(unknown, known)


def find_named_groups(
    campaign: Labelling[Any],
    by: Sequence[str],
    rows: Ints,
    sources: Sequence[str],
    words: Callable[[str, float], str],
    logs: Sequence[TableSource] = (),
) -> list[Group]:
    """Return the groups that columns make of labelled rows.

    `rows` are the labelled rows, numbered as in a Problem, and `sources` has the column of the table that each feature comes from. `words`
    takes a feature's name and a value of it. `logs` are the log's tables, needed for columns that are not features: a campaign keeps of its
    log only what the model uses.
    """
    problem, settings, features = campaign.problem, campaign.settings, columns_by_source(sources)
    others = [name for name in by if name not in features]
    tables = _read_raw(campaign, problem, settings, others, rows, logs) if others else {}
    groups: list[Group] = []
    for name in by:
        if name in features:
            groups += groups_of_features(problem, rows, features[name], settings.features, words)
        else:
            groups += groups_of_values(name, *tables[name])
    return groups


def _read_raw(
    campaign: Labelling[Any],
    problem: Problem,
    settings: Settings,
    names: Sequence[str],
    rows: Ints,
    logs: Sequence[TableSource],
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return the values of columns that are not features: those of the rows, and those of the pool."""
    in_log, in_pool = rows[rows < problem.n_logged], rows[rows >= problem.n_logged] - problem.n_logged
    everywhere = np.arange(min(len(problem.pool), MOST_FOR_THIRDS))
    pool_rows = problem.pool.rows
    if isinstance(pool_rows, Parts) and isinstance(problem.logged.rows, Parts):
        pool, population = (pool_rows.raw_rows(part.tolist()) for part in (in_pool, everywhere))
        log = problem.logged.rows.raw_rows(in_log.tolist())
    else:
        with campaign.engine.reading() as transaction:
            assert isinstance(transaction, SqlTransaction)  # a session has no other columns: see check_columns
            pool, population = (transaction.pool_rows(part.tolist()) for part in (in_pool, everywhere))
        log = _read_log(names, settings, logs).take(in_log)
    found, read = {}, [*in_log.tolist(), *(in_pool + problem.n_logged).tolist()]
    for name in names:
        values = dict(zip(read, [*log.column(name).to_pylist(), *pool.column(name).to_pylist()], strict=True))
        found[name] = [values[row] for row in rows.tolist()], population.column(name).to_pylist()
    return found


def _read_log(names: Sequence[str], settings: Settings, logs: Sequence[TableSource]) -> pa.Table:
    """Return the named columns of the log's tables, one below the other."""
    import pyarrow as pa

    from observal.tables.read import read_tables
    from observal.tables.table_format import TableFormat

    if not logs:
        raise InvalidInput(
            f"Column {names[0]!r} is not a feature, so the campaign does not have it for its log; give the log's table as well, "
            "with --logged FILE (logs=)."
        )
    tables = read_tables(list(logs), settings.id, settings.label, settings.format or TableFormat())
    for table in tables:
        _require_columns(names, table)
    joined = pa.concat_tables([table.select(list(names)) for table in tables], promote_options="permissive")
    if len(joined) != settings.log_rows:
        raise InvalidInput(
            f"The log of this campaign has {settings.log_rows} rows, but the table given has {len(joined)}; give the tables that it "
            "was made from, in the same order."
        )
    return joined


def _require_columns(names: Sequence[str], table: pa.Table) -> None:
    for name in names:
        if name not in table.column_names:
            raise _unknown_column(name, table.column_names)


def _unknown_column(name: str, known: Sequence[str]) -> InvalidInput:
    return InvalidInput(f"There is no column {name!r} to group by; the columns are {', '.join(map(str, known))}.")

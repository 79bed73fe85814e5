"""From a user's tables to what a campaign stores: log and pool, the rows as people see them, and what its settings say of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from observal.errors import InvalidInput
from observal.parquet import ExecutorLike
from observal.problem.problem import Problem

if TYPE_CHECKING:
    from observal.tables import TableRoles
    from observal.tables.table_format import TableFormat


class CampaignTables(NamedTuple):
    """Log and pool, the pool's rows as people see them (None if tables stay in place), and entries for the settings."""

    problem: Problem
    rows: Any
    about: dict[str, Any]


def load_tables(
    logs: list[Any],
    pool: Any,
    roles: TableRoles,
    given: TableFormat,
    *,
    propensity: Any,
    classes: Sequence[Any] | None,
    positive: Any,
    propensity_floor: float | None,
    kept_only_labelled: bool,
    n_logged_rows: int | None,
    random_state: int,
    shown: tuple[Any, Any, Any],
    in_place: bool | None,
    executor: ExecutorLike,
) -> CampaignTables:
    """Read a campaign's tables, or leave them in place if they are large and allow it.

    `shown` are the folder of images, the column of images and the shape of pixels; the other parameters are those of
    :meth:`observal.Campaign.create`.
    """
    from observal.tables.load_in_place import can_stay, is_large

    simple = not kept_only_labelled and not any(shown) and can_stay(logs, propensity, given)
    chosen = {
        "propensity": propensity,
        "classes": classes,
        "positive": positive,
        "propensity_floor": propensity_floor,
    }
    if in_place or (in_place is None and simple and is_large([*logs, pool])):
        if not simple:
            raise InvalidInput(
                "Tables that stay in place need one complete log with a propensity column, are used as they are in the files (without "
                "missing, --missing and the like), and cannot show images; leave out in_place (--in-place), or prepare such a log first."
            )
        return _in_place(logs[0], pool, roles, executor, chosen)
    estimated = {
        "kept_only_labelled": kept_only_labelled,
        "n_logged_rows": n_logged_rows,
        "random_state": random_state,
    }
    return _copied(logs, pool, roles, given, shown, chosen, estimated)


def _in_place(log: Any, pool: Any, roles: TableRoles, executor: ExecutorLike, chosen: dict[str, Any]) -> CampaignTables:
    from observal.tables.load_in_place import load_in_place

    here = load_in_place(log, pool, roles, executor=executor, **chosen)
    files, propensity = [source_name(log), source_name(pool)], [chosen["propensity"]]
    about = {**_about(here, roles, here.pool.X.names), "in_place": True, "files": files, "propensity": propensity}
    return CampaignTables(Problem(here.logged, here.pool), None, about)


def _copied(
    logs: list[Any],
    pool: Any,
    roles: TableRoles,
    given: TableFormat,
    shown: tuple[Any, Any, Any],
    chosen: dict[str, Any],
    estimated: dict[str, Any],
) -> CampaignTables:
    from observal.journal.display import shown_as, without_columns
    from observal.tables import load_problem
    from observal.tables.read import read_tables
    from observal.tables.table_format import without_reading

    *tables, rows = read_tables([*logs, pool], roles.id, roles.label, given)
    show, image_column = shown_as(rows, *shown), shown[1]
    unused = [image_column] if image_column and image_column not in (roles.features or ()) else []
    without = [without_columns(table, unused) for table in (*tables, rows)]
    loaded = load_problem(without[:-1], without[-1], roles, **chosen, **estimated)
    propensity = chosen["propensity"]
    about = {
        **_about(loaded, roles, rows.column_names),
        "files": [source_name(table) for table in (*logs, pool)],
        "propensity": _columns_of(propensity, rows.column_names),
        "pool_from": {
            "number": float(propensity) if isinstance(propensity, int | float) else None,
            "estimated": isinstance(propensity, str)
            and propensity == "estimate"
            and not estimated["kept_only_labelled"],
            "floor": chosen["propensity_floor"],
            "cost": roles.cost,
        },
        "show": show,
    }
    return CampaignTables(Problem(loaded.logged, loaded.pool), without_reading(rows), about)


def source_name(table: Any) -> str:
    """Return the file name of a table, without its folder; empty for a frame.

    Examples
    --------
    >>> source_name("data/logged.csv"), source_name(object())
    ('logged.csv', '')
    """
    return Path(table).name if isinstance(table, str | Path) else ""


def _about(loaded: Any, roles: TableRoles, columns: Sequence[str]) -> dict[str, Any]:
    """Return what a campaign's settings say of its tables."""
    from observal.diagnosis.quick_warnings import quick_warnings

    encoder = loaded.encoder
    dates = [rule.source for rule in encoder.rules if rule.kind in ("date", "duration")]
    warnings = quick_warnings(loaded.logged, loaded.pool, encoder.names, encoder.sources, dates)
    return {
        "id": roles.id or ("id" if "id" not in columns else "row"),
        "label": roles.label,
        "features": list(loaded.encoder.names),
        "encoder": loaded.encoder.to_dict(),
        "notes": [*warnings, *loaded.notes],
    }


def _columns_of(propensity: Any, names: Sequence[str]) -> list[str]:
    """Return the columns of the pool that a propensity was given as."""
    given = propensity if isinstance(propensity, list | tuple) else [propensity]
    return [one for one in given if isinstance(one, str) and one in names]

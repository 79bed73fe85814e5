"""Rules about a log and a pool from tables, the same for tables that are copied and for those that stay in place."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

import numpy as np

from observal.checks import Floats
from observal.diagnosis import propensity as chances
from observal.errors import InvalidInput, InvalidLabel
from observal.problem.data import LoggedData
from observal.tables.written import PLACEHOLDERS

MOST_CLASSES = 20  # a column with more values than this, and few labels of each, does not hold classes
_UNLIKELY = -10.0  # the log of a chance that is no accident


def check_excluded(tables: Sequence[Any], exclude: Sequence[str]) -> None:
    """Refuse a column to exclude that no table has."""
    everywhere = {name for table in tables for name in table.column_names}
    strange = next((name for name in exclude if name not in everywhere), None)
    if strange is not None:
        raise InvalidInput(
            f"There is no column {strange!r} to exclude, the columns are {sorted(everywhere)}; name existing ones."
        )


def check_classes(classes: Sequence[Any], label: str, n_labels: int, named: bool) -> None:
    """Refuse label values that cannot be the classes: fewer than two or, unless somebody named them, far too many or ``?``.

    Parameters
    ----------
    classes : sequence
        The label values.
    label : str
        Their column.
    n_labels : int
        How many rows have a label.
    named : bool
        Whether somebody named the classes; otherwise they are what the column shows.
    """
    if not named:
        _refuse_placeholders(classes, label)
    if len(classes) < 2:
        shown = ", ".join(repr(value) for value in classes)
        raise InvalidLabel(
            f"The label column {label!r} must show two classes or more, but shows {len(classes)} "
            f"({shown or 'every label is missing'}); name all classes (classes= or --classes)."
        )
    if not named and len(classes) > max(MOST_CLASSES, n_labels / 2):
        raise InvalidLabel(
            f"The label column {label!r} shows {len(classes)} different values in {n_labels} labels, too many for "
            "classes; name another column, merge values into classes, or name all classes (classes= or --classes)."
        )


def _refuse_placeholders(classes: Sequence[Any], label: str) -> None:
    """Refuse a label that often means "not known", such as ``?``, until somebody says what it means."""
    doubtful = [value for value in classes if isinstance(value, str) and value.strip().lower() in PLACEHOLDERS]
    if doubtful:
        words = " ".join(f"--missing {quote(value)}" for value in doubtful)
        raise InvalidLabel(
            f"The label column {label!r} has the value {doubtful[0]!r}, which may mean that the label is not known; if so, use "
            f"{words} (missing={doubtful}), and otherwise name the classes (--classes, classes=)."
        )


def numbered(n_pool: int) -> str:
    """Return how rows without ids are numbered, in a sentence."""
    return f"No id column was named: pool rows are numbered from 0 in their order, and log rows from {n_pool} on."


def floored(log: Floats, pool: Floats, floor: float | None) -> tuple[Floats, Floats, list[str]]:
    """Return the propensities of log and pool, raised to a floor where there is one, and how many were raised."""
    if floor is None:
        return log, pool, []
    of_log, of_pool = chances.apply_floor(log, floor, "The log"), chances.apply_floor(pool, floor, "The pool")
    said = [one.warning for one in (of_log, of_pool) if one.warning is not None]
    return of_log.propensity, of_pool.propensity, said


def doubts(logged: LoggedData, pool: Any, label: str) -> list[str]:
    """Return what looks wrong, in sentences: labels in the pool's table, a log in which every row has a label."""
    found = []
    if label in pool.column_names and pool.column(label).null_count < pool.num_rows:
        found.append(f"The pool's column {label!r} was not used: labels of pool rows are bought and not read.")
    if logged.revealed.all() and float(np.log(logged.propensity).sum()) < _UNLIKELY:
        found.append(
            f"Every row of the log has a label, though their mean propensity is {logged.propensity.mean():.3g}; if the log "
            "kept only its labelled rows, say so, because the missing rows must be counted."
        )
    return found

"""The settings of a session or campaign, checked: the payload of its journal's first event."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from observal.checks import check_whole
from observal.diagnosis.drift import strong_shift
from observal.errors import InvalidInput
from observal.methods import AutoVC, Method
from observal.problem.data import Pool
from observal.problem.goals import Goals
from observal.problem.method import check_method
from observal.problem.objectives import canonical
from observal.problem.problem import Problem

ANYONE = "anyone"
"""The annotator if no name is given."""
_LONGEST_NAME = 100


def new_settings(
    problem: Problem,
    method: Method | None,
    label_budget: int | None,
    random_state: int,
    overlap: int = 1,
    about: Mapping[str, Any] | None = None,
    goals: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the settings for the journal's first event.

    Parameters
    ----------
    problem : Problem
        Log and pool.
    method, label_budget, random_state, overlap
        As for :class:`observal.Session`.
    about : mapping, optional
        Further entries: names of columns, the encoder, notes.
    goals : mapping, optional
        As for :class:`observal.Session`: population, looks, tolerance, width, objective.
    """
    check_whole(overlap, "overlap", 1)
    check_whole(random_state, "random_state", 0)
    if label_budget is not None:
        check_whole(label_budget, "label_budget", 0)
    method = AutoVC() if method is None else check_method(method)
    logged, pool = problem.logged, problem.pool
    names = _feature_names(pool)
    unnamed = {"id": "row" if "id" in names else "id", "label": "label", "features": names}
    entries = {**unnamed, "encoder": None, "notes": [], **(about or {})}
    chosen = dict(goals or {})
    if chosen.get("population") is None:
        chosen["population"], note = _population(problem, entries["features"])
        entries["notes"] = [*entries["notes"], *note]
    chosen["objective"] = canonical(chosen.get("objective") or "error", logged.classes.tolist())
    if chosen["objective"] != "error" and not method.follows_objective:
        raise InvalidInput(
            f"{type(method).__name__} can only aim for the fewest mistakes, but the objective is {chosen['objective']!r}; "
            "use AutoVC or NewtonVC, or leave the objective out."
        )
    groups = problem.column_groups
    return {
        **entries,
        "column_groups": None if groups is None else groups.to_dict(),
        "goals": asdict(Goals(**chosen)),
        "label_budget": None if label_budget is None else int(label_budget),
        "seed": int(random_state),
        "overlap": int(overlap),
        "method": method,
        "classes": logged.classes.tolist(),
        "log_rows": len(logged),
        "revealed": int(logged.revealed.sum()),
        "pool_rows": len(pool),
    }


def _feature_names(pool: Pool) -> list[str]:
    """Return the names of a table's columns; those of an array have numbers."""
    named = [] if pool.frame is None else [str(name) for name in pool.frame.names]
    if named and len(set(named)) == len(named):
        return named
    return pool.rows.feature_names


def _population(problem: Problem, names: Sequence[str]) -> tuple[str, list[str]]:
    """Return whose error is measured where nobody said: log and pool as one, but the pool alone where they differ much."""
    shift = strong_shift(problem)
    if shift is None:
        return "both", []
    feature, by = shift
    higher = "higher" if by > 0 else "lower"
    return "pool", [
        f"Log and pool differ: {names[feature]} is {abs(by):.2f} standard deviations {higher} in the pool. Intervals are about the "
        "pool alone; give population='both' (--population both) if you want them to be about both."
    ]


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that affect results.

    Examples
    --------
    >>> "numpy" in versions()
    True
    """
    packages = ("observal", "numpy", "scipy", "scikit-learn", "pyarrow", "sqlalchemy")
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


def observal_version() -> str:
    """Return the version of observal.

    Examples
    --------
    >>> observal_version() == versions()["observal"]
    True
    """
    return _version("observal")


@cache
def _version(package: str) -> str:
    return importlib.metadata.version(package)  # reads and parses a file


def check_annotator(annotator: str, overlap: int) -> None:
    """Refuse an annotator's name that is missing, too long or not printable.

    Examples
    --------
    >>> check_annotator("Ann", 2)
    """
    if not isinstance(annotator, str) or not annotator.strip() or not annotator.isprintable():
        raise InvalidInput(f"An annotator's name must be printable text, but is {annotator!r}; give a name.")
    if len(annotator) > _LONGEST_NAME:
        raise InvalidInput(
            f"An annotator's name may have at most {_LONGEST_NAME} characters, but has {len(annotator)}; give a shorter one."
        )
    if overlap > 1 and annotator == ANYONE:
        raise InvalidInput(
            f"Each row goes to {overlap} different people, but no name was given; "
            "give yours with --annotator NAME (annotator=)."
        )

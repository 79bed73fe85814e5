"""Journal entries: what happened, when, by whom.

========== =====================================================================================
kind       payload
========== =====================================================================================
created    the settings: names of columns, sizes, classes, method, label budget
round      the plan of a round, the ids of the rows it asks about, what labels may still gain, and what was known then; where it
           was chosen ahead, the closed round (base) whose model chose it
asked      the rows that were handed to an annotator
released   the rows that were taken back from an annotator
answered   rows and class codes; None is a skip
corrected  rows, the code before and the code now
extended   the new label budget; or how many rows the pool now has, how they are stored, and for each plan the new rows that it
           would have noted as near (None if that is not known)
late       as answered, for rows that somebody else had answered by then: they keep their labels
decided    as corrected, by an owner: what others answer no longer changes the label
undone     rows and the code that an annotator took back; the row is open, and they hold it
finished   why the method has nothing left to ask
========== =====================================================================================

Rows are positions in the pool. What comes from a file or database is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from observal.errors import InvalidInput
from observal.journal.display import check_show
from observal.problem.column_groups import ColumnGroups
from observal.problem.goals import Goals
from observal.problem.interval import Interval
from observal.problem.plan import Plan
from observal.problem.result import Recorded
from observal.tables.encoder import TableEncoder

OBSERVAL = "observal"
"""The actor of entries that no person caused."""


@dataclass(frozen=True)
class Event:
    """One entry of the journal; a plan or method in it is an object, not its encoding."""

    sequence: int
    time: str
    actor: str
    kind: str
    payload: Mapping[str, Any]
    digest: str = ""


_CREATED = {
    "id": str,
    "label": str,
    "features": list,
    "notes": list,
    "seed": int,
    "overlap": int,
    "classes": list,
    "log_rows": int,
    "revealed": int,
    "pool_rows": int,
}


def check_payload(kind: str, payload: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise ValueError if a journal entry contains something that observal never writes.

    Parameters
    ----------
    kind : str
        The kind of entry.
    payload : mapping
        Its content.
    settings : mapping
        The payload of the first entry; empty if this is the first.

    Examples
    --------
    >>> check_payload("answered", {"answers": [[3, 1]]}, {"pool_rows": 9, "classes": ["no", "yes"]})
    >>> check_payload("answered", {"answers": [[9, 1]]}, {"pool_rows": 9, "classes": ["no", "yes"]})
    Traceback (most recent call last):
    ...
    ValueError: there is no pool row 9
    """
    require((kind == "created") == (not settings), "it is in the wrong place")
    if kind == "created":
        _check_created(payload)
    elif kind == "finished":
        require(isinstance(payload["reason"], str), "its text is missing")
    elif kind == "extended":
        _check_extended(payload, settings)
    elif kind == "round":
        check_planned_rows(payload["plan"], settings["log_rows"], settings["pool_rows"], len(settings["classes"]))
        require(len(payload["ids"]) == payload["plan"].asked.size, "it does not have one id for each row")
        require(isinstance(payload["observal"], str), "its version is missing")
        require(isinstance(payload.get("to_gain"), float | None), "its forecast is not valid")
        require(type(payload.get("base", 0)) is int and payload.get("base", 0) >= 0, "its base is not valid")
        _check_recorded(payload.get("recorded"))
    elif kind in ("asked", "released"):
        require(kind == "asked" or isinstance(payload["annotator"], str), "its annotator is missing")
        _check_rows(payload["rows"], settings)
    elif kind in (
        "answered",
        "corrected",
        "late",
        "decided",
        "undone",
    ):  # the ledger refuses kinds that it does not know
        _check_rows([answer[0] for answer in payload["answers"]], settings)
        codes = [code for answer in payload["answers"] for code in answer[1:]]
        most = len(settings["classes"])
        require(all(code is None or (type(code) is int and 0 <= code < most) for code in codes), "a class is unknown")


def _check_extended(payload: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    require("label_budget" in payload or "pool_rows" in payload, "it extends nothing")
    for name in ("label_budget", "pool_rows", *(("added",) if "pool_rows" in payload else ())):
        if name in payload or name == "added":
            require(type(payload[name]) is int and payload[name] >= 0, f"its {name} is not valid")
    rows = payload.get("pool_rows", settings["pool_rows"])
    require(rows >= settings["pool_rows"], "the pool cannot have fewer rows than before")
    for row in (row for near in payload.get("near", ()) for row in near or ()):
        require(type(row) is int and 0 <= row < rows, f"there is no pool row {row!r:.20}")


def extended(settings: Mapping[str, Any], payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings after an entry that raised the budget or added pool rows.

    Labels that were planned for are no longer those at the end if the budget was raised, or if the pool was smaller than it.

    Examples
    --------
    >>> extended({"label_budget": 9, "pool_rows": 20}, {"label_budget": 12})
    {'label_budget': 12, 'pool_rows': 20, 'extended': True}
    >>> extended({"label_budget": 9, "pool_rows": 20}, {"pool_rows": 30})
    {'label_budget': 9, 'pool_rows': 30}
    """
    budget = settings["label_budget"]
    changed = {name: payload[name] for name in ("label_budget", "pool_rows", "arrays") if name in payload}
    unplanned = "label_budget" in payload or budget is None or budget > settings["pool_rows"]
    return {**settings, **changed, **({"extended": True} if unplanned else {})}


def check_planned_rows(plan: Any, log_rows: int, pool_rows: int, n_classes: int) -> None:
    """Raise ValueError if a plan names rows or classes that do not exist."""
    require(isinstance(plan, Plan), "its plan is missing")
    inside = plan.positions.max(initial=-1) < pool_rows and plan.inferred.max(initial=-1) < n_classes
    require(bool(inside), "its plan names a row or a class that does not exist")
    beyond = plan.near is not None and plan.near.max(initial=-1) >= log_rows + pool_rows
    require(not beyond, "its plan notes a row that does not exist")
    require(np.unique(plan.positions).size == plan.positions.size, "its plan names a row twice")


def _check_recorded(recorded: Any) -> None:
    if recorded is None:
        return
    require(isinstance(recorded, Recorded) and isinstance(recorded.error, Interval), "its record is not valid")
    numbers = (recorded.clip, recorded.disagreement, recorded.error.estimate, recorded.error.low, recorded.error.high)
    require(all(isinstance(number, float) for number in numbers), "its record is not valid")
    pairs = all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in recorded.details)
    require(pairs, "its record is not valid")


def _check_created(payload: Mapping[str, Any]) -> None:
    for name, kind in _CREATED.items():
        require(type(payload[name]) is kind, f"its {name} is not valid")
    budget, classes = payload["label_budget"], payload["classes"]
    require(budget is None or (type(budget) is int and budget >= 0), "its label_budget is not valid")
    counts = (payload["seed"], payload["overlap"] - 1, payload["log_rows"] - 1, payload["pool_rows"] - 1)
    require(min(counts) >= 0, "a count is too small")
    require(len({str(value) for value in classes}) == len(classes) >= 2, "its classes are not distinct")
    require(check_show(payload.get("show")), "how its rows are shown is not valid")
    names = payload.get("propensity", [])
    require(all(isinstance(name, str) for name in names), "its propensity is not the name of a column")
    texts = [*payload["features"], *payload["notes"]]
    require(all(isinstance(text, str) for text in texts), "a name is not text")
    try:
        goals_of(payload)
    except (InvalidInput, TypeError) as error:
        raise ValueError("its goals are not valid") from error
    try:
        groups = ColumnGroups.from_dict(payload.get("column_groups"))
    except (InvalidInput, KeyError, TypeError) as error:
        raise ValueError("its groups of columns are not valid") from error
    require(
        groups is None or groups.n_columns <= len(payload["features"]), "a group names a column that does not exist"
    )
    if payload["encoder"] is not None:
        try:
            TableEncoder.from_dict(payload["encoder"])
        except (InvalidInput, KeyError, TypeError, AttributeError) as error:
            raise ValueError("its encoder is not valid") from error


def goals_of(settings: Mapping[str, Any]) -> Goals:
    """Return the goals in the settings.

    Without a budget no rounds are planned. A budget that was raised was not the one that rounds were planned for, and people may have
    raised it because of what they saw; intervals then hold at all rounds, however many follow.

    Examples
    --------
    >>> goals_of({"label_budget": 9, "goals": {}}).looks, goals_of({"label_budget": None, "goals": {}}).looks
    ('planned', 'always')
    """
    goals = Goals(**settings["goals"])
    unplanned = goals.looks == "planned" and (settings["label_budget"] is None or settings.get("extended", False))
    return replace(goals, looks="always") if unplanned else goals


def _check_rows(rows: Any, settings: Mapping[str, Any]) -> None:
    for row in rows:
        require(type(row) is int and 0 <= row < settings["pool_rows"], f"there is no pool row {row!r:.20}")


def require(condition: bool, otherwise: str) -> None:
    """Raise ValueError with the text `otherwise` unless a condition holds."""
    if not condition:
        raise ValueError(otherwise)

"""Journal entries: what happened, when, by whom.

========== =====================================================================================
kind       payload
========== =====================================================================================
created    the settings; in a database also the versions of the software and the digest of all data
round      the plan, the ids of the rows it asks about and their prices, if any; what labels may still gain,
           and what was known then; if chosen ahead, the closed round (base) whose model chose it
asked      the rows handed to an annotator
released   the rows taken back from an annotator
answered   rows and class codes; None is a skip
corrected  rows, the code before and the code now
extended   the new label or cost budget; or the pool's new number of rows, how they are stored, and for each
           plan the new rows that it would have recorded as near (None if unknown)
late       as answered, for rows that another annotator had answered by then: they keep their labels
decided    as corrected, by an owner: later answers no longer change the label
flagged    rows for others to look at, and a comment, which may be empty
sampled    rows of a new table drawn at random to check the error: their ids, the model's predictions, and the
           table's name and number of rows
verified   which sample, and class codes by position in it; None is a skip
undone     rows and the code that an annotator took back; the row is open, and they hold it
finished   why the method has nothing left to ask
========== =====================================================================================

Rows are positions in the pool. What comes from a file or database is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from observal.journal.settings import Settings
from observal.problem.interval import Interval
from observal.problem.plan import Plan
from observal.problem.result import Recorded

OBSERVAL = "observal"
"""The actor of entries that no person caused."""


@dataclass(frozen=True)
class Event:
    """One entry of the journal; a plan or method in it is an object, not encoded."""

    sequence: int
    time: str
    actor: str
    kind: str
    payload: Mapping[str, Any]
    digest: str = ""


def check_payload(kind: str, payload: Mapping[str, Any], settings: Settings | None) -> None:
    """Raise ValueError if a journal entry contains something that observal never writes.

    `settings` are those of the earlier entries; None for the first.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> settings = ob.Session(ob.LoggedData([[0.0], [1.0]], [0, 1], 0.5), ob.Pool(np.ones((9, 1)), 0.5)).settings
    >>> check_payload("answered", {"answers": [[3, 1]]}, settings)
    >>> check_payload("answered", {"answers": [[9, 1]]}, settings)
    Traceback (most recent call last):
    ...
    ValueError: there is no pool row 9
    """
    require((kind == "created") == (settings is None), "it is in the wrong place")
    if settings is None:
        require(isinstance(payload["settings"], Settings), "its settings are missing")
    elif kind == "finished":
        require(isinstance(payload["reason"], str), "its text is missing")
    elif kind == "extended":
        _check_extended(payload, settings)
    elif kind == "round":
        check_planned_rows(payload["plan"], settings.log_rows, settings.pool_rows, len(settings.classes))
        require(len(payload["ids"]) == payload["plan"].asked.size, "it does not have one id for each row")
        _check_prices(payload.get("prices"), payload["plan"].asked.size)
        require(isinstance(payload["observal"], str), "its version is missing")
        require(isinstance(payload.get("to_gain"), float | None), "its forecast is not valid")
        require(type(payload.get("base", 0)) is int and payload.get("base", 0) >= 0, "its base is not valid")
        _check_recorded(payload.get("recorded"))
    elif kind == "sampled":
        _check_sampled(payload, settings)
    elif kind == "verified":
        require(type(payload["sample"]) is int and payload["sample"] >= 1, "its sample is not valid")
        require(all(type(place) is int and place >= 0 for place, _ in payload["answers"]), "its rows are not valid")
        _check_codes([code for _, code in payload["answers"]], settings)
    elif kind == "flagged":
        require(isinstance(payload["text"], str), "its text is missing")
        _check_rows(payload["rows"], settings)
    elif kind in ("asked", "released"):
        require(kind == "asked" or isinstance(payload["annotator"], str), "its annotator is missing")
        _check_rows(payload["rows"], settings)
    elif kind in ("answered", "corrected", "late", "decided", "undone"):  # the ledger rejects unknown kinds
        _check_rows([answer[0] for answer in payload["answers"]], settings)
        _check_codes([code for answer in payload["answers"] for code in answer[1:]], settings)


def _check_codes(codes: Iterable[object], settings: Settings) -> None:
    most = len(settings.classes)
    require(all(code is None or (type(code) is int and 0 <= code < most) for code in codes), "a class is unknown")


def _check_sampled(payload: Mapping[str, Any], settings: Settings) -> None:
    ids, predicted = payload["ids"], payload["predicted"]
    require(bool(ids) and all(isinstance(id_, str) for id_ in ids), "its ids are not valid")
    require(len(ids) == len(predicted) and None not in predicted, "it does not have one prediction for each row")
    require(type(payload["rows"]) is int and payload["rows"] >= len(ids), "its number of rows is not valid")
    require(isinstance(payload["table"], str), "its table is missing")
    _check_codes(predicted, settings)


def _check_extended(payload: Mapping[str, Any], settings: Settings) -> None:
    require(not {"label_budget", "budget_cost", "pool_rows"}.isdisjoint(payload), "it extends nothing")
    if "budget_cost" in payload:
        require(_is_amount(payload["budget_cost"]), "its budget_cost is not valid")
    for name in ("label_budget", "pool_rows", *(("added",) if "pool_rows" in payload else ())):
        if name in payload or name == "added":
            require(type(payload[name]) is int and payload[name] >= 0, f"its {name} is not valid")
    rows = payload.get("pool_rows", settings.pool_rows)
    require(rows >= settings.pool_rows, "the pool cannot have fewer rows than before")
    for row in (row for near in payload.get("near", ()) for row in near or ()):
        require(type(row) is int and 0 <= row < rows, f"there is no pool row {row!r:.20}")


def _is_amount(value: object) -> bool:
    return type(value) in (int, float) and 0.0 <= cast(float, value) < np.inf


def _check_prices(prices: object, rows: int) -> None:
    if prices is None:
        return
    sound = isinstance(prices, list | tuple) and len(prices) == rows and all(map(_is_amount, prices))
    require(sound, "it does not have one price for each row")


def check_planned_rows(plan: object, log_rows: int, pool_rows: int, n_classes: int) -> None:
    """Raise ValueError if a plan names rows or classes that do not exist."""
    if not isinstance(plan, Plan):
        raise ValueError("its plan is missing")
    inside = plan.positions.max(initial=-1) < pool_rows and plan.inferred.max(initial=-1) < n_classes
    require(bool(inside), "its plan names a row or a class that does not exist")
    beyond = plan.near is not None and plan.near.max(initial=-1) >= log_rows + pool_rows
    require(not beyond, "its plan notes a row that does not exist")
    require(np.unique(plan.positions).size == plan.positions.size, "its plan names a row twice")


def _check_recorded(recorded: object) -> None:
    if recorded is None:
        return
    if not isinstance(recorded, Recorded) or not isinstance(recorded.error, Interval):
        raise ValueError("its record is not valid")
    numbers = (recorded.clip, recorded.disagreement, recorded.error.estimate, recorded.error.low, recorded.error.high)
    require(all(isinstance(number, float) for number in numbers), "its record is not valid")
    pairs = all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in recorded.details)
    require(pairs, "its record is not valid")


def _check_rows(rows: Iterable[object], settings: Settings) -> None:
    for row in rows:
        require(type(row) is int and 0 <= row < settings.pool_rows, f"there is no pool row {row!r:.20}")


def require(condition: bool, otherwise: str) -> None:
    """Raise ValueError with the text `otherwise` unless a condition holds."""
    if not condition:
        raise ValueError(otherwise)

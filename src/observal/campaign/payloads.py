"""What each kind of journal entry must hold: checked when it is read, because a file may come from anybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from observal.types import Plan

_CREATED = {
    "id": str,
    "label": str,
    "features": list,
    "notes": list,
    "seed": int,
    "overlap": int,
    "method": dict,
    "classes": list,
    "arrays": dict,
    "log_rows": int,
    "revealed": int,
    "pool_rows": int,
}
_ARRAYS = (
    *("log.features", "log.codes", "log.revealed", "log.propensity", "log.cost"),
    *("pool.features", "pool.propensity", "pool.cost"),
)
_ITEM_TYPES = ("<f8", "<f4", "<i8", "|b1")


def check_payload(kind: str, payload: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise ValueError where a journal entry holds something that observal never writes.

    Parameters
    ----------
    kind : str
        The kind of entry.
    payload : mapping
        What it holds.
    settings : mapping
        The payload of the first entry; empty where this is the first.

    Examples
    --------
    >>> check_payload("answered", {"answers": [[3, 1]]}, {"pool_rows": 9, "classes": ["no", "yes"]})
    >>> check_payload("answered", {"answers": [[9, 1]]}, {"pool_rows": 9, "classes": ["no", "yes"]})
    Traceback (most recent call last):
    ...
    ValueError: there is no pool row 9
    """
    _require((kind == "created") == (not settings), "it stands in the wrong place")
    if kind == "created":
        _check_created(payload)
    elif kind in ("finished", "upgraded"):
        names = ("reason",) if kind == "finished" else ("data", "schema")
        _require(all(isinstance(payload[name], str) for name in names), "it has no text")
    elif kind == "round":
        _require(isinstance(payload["ids"], list) and isinstance(payload["observal"], str), "it has no ids")
        _require(all(isinstance(id_, str | int) for id_ in payload["ids"]), "an id is neither text nor a whole number")
    elif kind in ("asked", "released"):
        _require(kind == "asked" or isinstance(payload["annotator"], str), "it names nobody")
        _check_rows(payload["rows"], settings)
    else:
        _check_rows([answer[0] for answer in payload["answers"]], settings)
        codes = [code for answer in payload["answers"] for code in answer[1:]]
        most = len(settings["classes"])
        _require(all(code is None or (type(code) is int and 0 <= code < most) for code in codes), "a class is unknown")


def check_plan(plan: Plan, pool_rows: int, n_classes: int) -> None:
    """Raise ValueError where a plan names rows or classes that there are none of."""
    inside = plan.positions.max(initial=-1) < pool_rows and plan.inferred.max(initial=-1) < n_classes
    _require(bool(inside), "its plan names what there is not")
    _require(np.unique(plan.positions).size == plan.positions.size, "its plan names a row twice")


def _check_created(payload: Mapping[str, Any]) -> None:
    for name, kind in _CREATED.items():
        _require(type(payload[name]) is kind, f"its {name} is not as it should be")
    _require(payload["encoder"] is None or isinstance(payload["encoder"], dict), "its encoder is not as it should be")
    budget, classes = payload["label_budget"], payload["classes"]
    _require(budget is None or (type(budget) is int and budget >= 0), "its label_budget is not as it should be")
    counts = (payload["seed"], payload["overlap"] - 1, payload["log_rows"] - 1, payload["pool_rows"] - 1)
    _require(min(counts) >= 0, "a count is too small")
    _require(all(isinstance(value, bool | int | float | str) for value in classes), "a class is not as it should be")
    _require(len({str(value) for value in classes}) == len(classes) >= 2, "its classes are not distinct")
    texts = [*payload["features"], *payload["notes"]]
    _require(all(isinstance(text, str) for text in texts), "a name is not text")
    forms, n_features = payload["arrays"], len(payload["features"])
    _require(
        set(_ARRAYS) - {"log.cost", "pool.cost"} <= set(forms) <= set(_ARRAYS), "its arrays are not as they should be"
    )
    for name, form in forms.items():
        rows = payload["log_rows" if name.startswith("log.") else "pool_rows"]
        shape = [rows, n_features] if name.endswith(".features") else [rows]
        _require(form["shape"] == shape and form["dtype"] in _ITEM_TYPES, f"its {name} is not as it should be")


def _check_rows(rows: Any, settings: Mapping[str, Any]) -> None:
    for row in rows:
        _require(type(row) is int and 0 <= row < settings["pool_rows"], f"there is no pool row {row!r:.20}")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)

"""A session in one file: log, pool, method and journal. Opening it cannot run code.

The file is a zip of NumPy arrays and ``record.json``. It may name only the classes listed in
``observal.journal.codec``, and ``observal.journal.archive`` checks its contents.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import InvalidInput, ObservalError
from observal.files import writing
from observal.journal.archive import Damaged, open_archive, seal
from observal.journal.codec import Arrays, ArraysBeside, Json, build, decode, encode, unsaved
from observal.journal.events import OBSERVAL, Event, check_payload
from observal.journal.memory import MemoryJournal
from observal.journal.settings import GivenGoals, Settings, make_settings
from observal.methods import Method
from observal.problem.data import LoggedData, Pool
from observal.problem.goals import Goals
from observal.problem.method import check_method
from observal.problem.problem import Problem

_FORMAT = 4  # increase it with every change; files of other formats are rejected
# The other settings follow from log and pool.
_SETTINGS = ("label_budget", "random_state", "overlap", "pool_rows", "goals", "notes")
_COLUMNS = ("time", "actor", "kind", "payload")


def write_session(path: str | Path, problem: Problem, events: list[Event]) -> None:
    """Write a session; an existing file is replaced only if it is a session too, once the new one is complete.

    What the log, the pool and the method already contain is not written again.
    """
    if problem.in_parts:
        raise InvalidInput(
            "The rows stay in their Parquet files, so a session cannot store them; use Campaign.create(..., tables=TableOptions(in_place=True))."
        )
    first, *later = events
    settings: Settings = first.payload["settings"]
    _write_record(
        path,
        {
            "logged": problem.logged,
            "pool": problem.pool,
            "method": settings.method,
            **{name: getattr(settings, name) for name in _SETTINGS},
            **({} if settings.budget_cost is None else {"budget_cost": settings.budget_cost}),
            **({"columns": settings.features} if settings.named else {}),
            "made": first.time,
            "events": [
                tuple(_stored_payload(event) if name == "payload" else getattr(event, name) for name in _COLUMNS)
                for event in later
            ],
        },
    )


def _stored_payload(event: Event) -> list[Any]:
    """Return a payload as pairs, without a round's ids, which are the pool's, and without database details."""
    known = ("arrays", "data", *(("ids",) if event.kind == "round" else ()))
    return [(name, value) for name, value in event.payload.items() if name not in known]


def read_session(path: str | Path, method: Method | None = None) -> MemoryJournal:
    """Return the journal of a saved session.

    `method` is needed only if it could not be saved, for example because it contains callables.
    """
    record = _read_record(path, method)
    try:
        if not (isinstance(record["logged"], LoggedData) and isinstance(record["pool"], Pool)):
            raise TypeError("it has no log or no pool")
        problem = Problem(record["logged"], record["pool"]).for_method(check_method(record["method"]))
        settings = _read_settings(record, problem)
        events = [Event(1, record["made"], OBSERVAL, "created", {"settings": settings})]
        for number, event in enumerate(_events(record), start=2):
            if event.kind == "round":
                ids = problem.pool.ids[event.payload["plan"].asked].tolist()
                event = replace(event, payload={**event.payload, "ids": ids})  # noqa: PLW2901
            check_payload(event.kind, event.payload, settings)
            if event.kind == "extended":
                settings = settings.extend(event.payload)
            events.append(replace(event, sequence=number))
    except ObservalError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"{path} is not a session, or it is damaged ({' '.join(str(error).split())[:80]}); "
            "give a file that Session.save wrote."
        ) from error
    return MemoryJournal(problem, events)


def _read_settings(record: dict[str, Any], problem: Problem) -> Settings:
    """Return a session's settings: those in its file, and the rest from log and pool."""
    if not isinstance(record["goals"], Goals):
        raise TypeError("it has no goals")
    derived = make_settings(
        problem,
        record["method"],
        GivenGoals(*astuple(record["goals"])),
        record["label_budget"],
        record["random_state"],
        record["overlap"],
        record.get("budget_cost"),  # absent from files older than prices
    )
    entries = {item.name: getattr(derived, item.name) for item in fields(derived)}
    named = {"features": record["columns"], "named": True} if "columns" in record else {}
    # Later events raise budgets and add rows.
    return build(Settings, {**entries, **named, **{name: record[name] for name in _SETTINGS}})


def _events(record: dict[str, Any]) -> list[Event]:
    events = []
    for time, actor, kind, pairs in record["events"]:
        if not all(isinstance(text, str) for text in (time, actor, kind)):
            raise TypeError("an event lacks its time, actor or kind")
        events.append(Event(0, time, actor, kind, dict(pairs)))
    return events


# -- the zip -----------------------------------------------------------------------------------------------------


def _write_record(path: str | Path, record: dict[str, Any]) -> None:
    """Write `record` completely or not at all; an existing file is replaced only if this function wrote it.

    What cannot be stored is rejected, except within the method, which can be passed in again when reading.
    """
    arrays: Arrays = []
    encoded = {name: encode(value, arrays, name) for name, value in record.items()}
    for name, value in encoded.items():
        if name != "method" and (lost := unsaved(value)):
            raise InvalidInput(f"{lost} cannot be stored in a file, so nothing was saved; use numbers, text or dates.")
    text = json.dumps({"format": _FORMAT, "record": encoded})
    with writing(path, force=_is_record(path)) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("record.json", text)
            for number, array in enumerate(arrays):
                with archive.open(f"{number}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        seal(file)


def _is_record(path: str | Path) -> bool:
    """Return whether ``_write_record`` wrote a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "record.json" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _read_record(path: str | Path, method: Method | None) -> dict[str, Any]:
    """Return what ``_write_record`` wrote, with another method if one is given."""
    with open_archive(path, "a file that observal saved", "give the path used with save(), or a copy") as archive:
        archive.check_digest()  # before anything is read
        content = archive.json("record.json")
        format_, record = content["format"], dict(content["record"])
        if format_ != _FORMAT:
            raise InvalidInput(
                f"{path} was written by another version of observal (format {format_!r:.20}; this one reads {_FORMAT}); "
                "open it with that version."
            )
        if method is not None:
            _check_same_class(record.pop("method"), method)

        last = -1

        def read_array(number: int) -> NDArray[Any]:
            nonlocal last
            if number <= last:  # arrays are numbered in reading order, so none can be read twice
                raise Damaged("its arrays are not in order")
            last = number
            return archive.array(f"{number}.npy")

        arrays = ArraysBeside(read_array, archive.budget)
        decoded = {name: decode(value, arrays, name) for name, value in record.items()}
        return decoded if method is None else {**decoded, "method": method}


def _check_same_class(encoded: Json, method: Method) -> None:
    recorded = encoded.get("type") if isinstance(encoded, dict) else encoded
    if recorded is not None and recorded != type(method).__name__:
        raise InvalidInput(
            f"The file was saved with {recorded} as its method, but {type(method).__name__} was given; give the same class."
        )

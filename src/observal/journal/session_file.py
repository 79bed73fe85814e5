"""A session in one file: log, pool, method, and the journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from observal.errors import InvalidInput, ObservalError
from observal.journal.events import OBSERVAL, Event, check_payload
from observal.journal.memory import MemoryJournal
from observal.journal.record_file import read_record, write_record
from observal.journal.settings import new_settings, observal_version
from observal.methods import Method
from observal.types import LoggedData, Plan, Pool, Problem

_SETTINGS = ("label_budget", "random_state", "overlap")
_COLUMNS = ("time", "actor", "kind", "payload")


def write_session(path: str | Path, problem: Problem, events: list[Event]) -> None:
    """Write a session; a file at `path` is replaced only if it is a session, too, and once the new one is complete.

    Ids of rows and settings that the log and the method have are not written twice.
    """
    first, *later = events
    settings = {"random_state": first.payload["seed"]} | {name: first.payload.get(name) for name in _SETTINGS[::2]}
    write_record(
        path,
        {
            "logged": problem.logged,
            "pool": problem.pool,
            "method": first.payload["method"],
            **settings,
            "made": first.time,
            "events": [
                tuple(_payload(event) if name == "payload" else getattr(event, name) for name in _COLUMNS)
                for event in later
            ],
        },
        replaceable=("method",),
    )


def _payload(event: Event) -> list[Any]:
    """Return a payload as pairs; the ids of a round are the pool's."""
    return [(name, value) for name, value in event.payload.items() if name != "ids"]


def read_session(path: str | Path, method: Method | None = None) -> MemoryJournal:
    """Return the journal of a saved session, of this or an older version.

    Parameters
    ----------
    path : path
        Of the file.
    method : Method, optional
        Needed only where the method could not be saved, such as one with callables.
    """
    record = read_record(path, {"method": method} if method is not None else {})
    try:
        if not (isinstance(record["logged"], LoggedData) and isinstance(record["pool"], Pool)):
            raise TypeError("it has no log or no pool")
        problem = Problem(record["logged"], record["pool"])
        made = {name: record[name] for name in _SETTINGS if name in record}
        settings = new_settings(problem, record["method"], **made)
        later = _events(record, problem) if "events" in record else _events_of_0_1(record)
        events = [Event(1, record.get("made", ""), OBSERVAL, "created", settings)]
        for number, event in enumerate(later, start=2):
            if event.kind == "round":
                ids = problem.pool.ids[event.payload["plan"].asked].tolist()
                event = replace(event, payload={**event.payload, "ids": ids})  # noqa: PLW2901
            check_payload(event.kind, event.payload, settings)
            events.append(replace(event, sequence=number))
    except ObservalError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"{path} holds no session, or it is damaged ({' '.join(str(error).split())[:80]}); "
            "give a file that Session.save wrote."
        ) from error
    return MemoryJournal(problem, events)


def _events(record: dict[str, Any], problem: Problem) -> list[Event]:
    events = []
    for time, actor, kind, pairs in record["events"]:
        if not all(isinstance(text, str) for text in (time, actor, kind)):
            raise TypeError("an event names no time, person or kind")
        events.append(Event(0, time, actor, kind, dict(pairs)))
    return events


def _events_of_0_1(record: dict[str, Any]) -> list[Event]:
    """Return the events of a file of version 0.1, which kept plans and answers without times and names."""
    plans, rows, codes = record["plans"], record["answered"], record["codes"]
    if not (isinstance(plans, list) and isinstance(rows, np.ndarray) and isinstance(codes, list)):
        raise TypeError("it has no plans or no answers")
    if not all(isinstance(plan, Plan) for plan in plans):
        raise TypeError("a plan is not one")
    answers = dict(zip(rows.tolist(), codes, strict=True))
    asked = {row for plan in plans for row in plan.asked.tolist()}
    if not asked >= set(answers):
        raise ValueError("a row has an answer but was not asked about")
    version = observal_version()
    rounds = [{"round": k, "plan": plan, "observal": version} for k, plan in enumerate(plans, start=1)]
    told = [[row, code] for row, code in answers.items()]
    events = [Event(0, "", OBSERVAL, "round", payload) for payload in rounds]
    return [*events, Event(0, "", "anyone", "answered", {"answers": told})] if told else events

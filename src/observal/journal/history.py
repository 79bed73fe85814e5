"""The journal in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from observal.journal.events import Event
from observal.journal.ledger import Ledger
from observal.journal.settings import Display, Settings
from observal.problem.column_groups import ColumnGroups
from observal.problem.goals import Goals
from observal.problem.words import count, money
from observal.tables.more_rows import PropensityOrigin

MAX_LISTED = 5  # rows or answers listed per event
_LONG = ("method", "encoder", "arrays")  # settings that a history omits


@dataclass(frozen=True)
class Entry:
    """One event of a session or campaign, for people.

    Parameters
    ----------
    sequence : int
        1, 2, 3, …, without gaps.
    time : str
        When, in UTC.
    actor : str
        Who.
    kind : str
        created, round, asked, answered, corrected, late, decided, flagged, undone, released, extended,
        sampled, verified or finished.
    text : str
        What happened, in words.
    details : mapping
        The same as values: ids and labels.
    """

    sequence: int
    time: str
    actor: str
    kind: str
    text: str
    details: Mapping[str, Any] = field(repr=False)


def describe_events(events: Iterable[Event], ledger: Ledger) -> list[Entry]:
    """Describe each event in words, with its ids and labels; `ledger` must have followed all of them."""
    return [Entry(e.sequence, e.time, e.actor, e.kind, *_describe(e, ledger)) for e in events]


def _describe(event: Event, ledger: Ledger) -> tuple[str, dict[str, Any]]:
    payload = event.payload
    if event.kind == "created":
        settings: Settings = payload["settings"]
        budget = settings.label_budget
        text = (
            f"a log of {settings.log_rows} rows, a pool of {settings.pool_rows} rows, "
            f"{'no limit' if budget is None else budget} labels to buy, "
            + (f"for at most {money(settings.budget_cost)}, " if settings.budget_cost is not None else "")
            + f"seed {settings.random_state}"
        )
        details = {item.name: getattr(settings, item.name) for item in fields(settings) if item.name not in _LONG}
        details = {
            name: asdict(value) if isinstance(value, Goals | ColumnGroups | Display | PropensityOrigin) else value
            for name, value in details.items()
        }
        return text, {**details, **{name: value for name, value in payload.items() if name != "settings"}}
    if event.kind == "round":
        plan = payload["plan"]
        asked = len(payload["ids"])
        n_unasked = plan.positions.size - asked
        text = f"round {payload['round']} opens with {asked} rows" + (
            f", {n_unasked} decided without asking" if n_unasked else ""
        )
        details = {"round": payload["round"], "ids": payload["ids"], "observal": payload["observal"]}
        if "base" in payload:
            text += f", chosen ahead by the model of round {payload['base']}"
            details["base"] = payload["base"]
        return text, details
    if event.kind == "extended":
        parts = []
        if "label_budget" in payload:
            parts.append(f"the label budget is now {payload['label_budget']}")
        if "budget_cost" in payload:
            parts.append(f"labels may now cost {money(payload['budget_cost'])}")
        if "pool_rows" in payload:
            parts.append(f"the pool now has {payload['pool_rows']} rows, {payload['added']} of them new")
        known = ("label_budget", "budget_cost", "pool_rows", "added")
        return "; ".join(parts), {k: v for k, v in payload.items() if k in known}
    if event.kind == "finished":
        return payload["reason"], dict(payload)
    if event.kind == "sampled":
        text = (
            f"{count(len(payload['ids']), 'row')} of {payload['rows']:,} in {payload['table']} drawn to check the error"
        )
        return text, {name: payload[name] for name in ("table", "rows", "ids")}
    if event.kind == "verified":
        sample, classes = ledger.samples[payload["sample"] - 1], ledger.settings.classes
        labels = {sample.ids[place]: None if code is None else classes[code] for place, code in payload["answers"]}
        text = f"{count(len(labels), 'answer')} to the rows of check {payload['sample']}, which train nothing"
        return text, {"check": payload["sample"], "answers": [{"id": id_, "label": v} for id_, v in labels.items()]}
    if event.kind == "flagged":
        ids, comment = [ledger.ids[p] for p in payload["rows"]], payload["text"]
        return f"{_list_first(ids)} flagged" + (f": {comment}" if comment else ""), {"ids": ids, "text": comment}
    if event.kind in ("asked", "released"):
        ids = [ledger.ids[p] for p in payload["rows"]]
        if event.kind == "asked":
            return f"{count(len(ids), 'row')} handed out: {_list_first(ids)}", {"ids": ids}
        holder = payload["annotator"]
        return f"{count(len(ids), 'row')} taken back from {holder}: {_list_first(ids)}", {
            "annotator": holder,
            "ids": ids,
        }
    return _describe_answers(event, ledger)


def _describe_answers(event: Event, ledger: Ledger) -> tuple[str, dict[str, Any]]:
    classes = ledger.settings.classes

    def label(code: int | None) -> Any:
        return None if code is None else classes[code]

    def word(code: int | None) -> str:
        return "skipped" if code is None else str(classes[code])

    if event.kind == "undone":
        undone = [(ledger.ids[p], code) for p, code in event.payload["answers"]]
        parts = [f"{id_}: {word(code)} taken back" for id_, code in undone]
        return _list_first(parts), {"answers": [{"id": id_, "was": label(code)} for id_, code in undone]}
    if event.kind in ("corrected", "decided"):
        rows = [(ledger.ids[p], old, new) for p, old, new in event.payload["answers"]]
        parts = [f"{id_}: {word(old)} → {word(new)}" for id_, old, new in rows]
        return _list_first(parts), {
            "answers": [{"id": i, "was": label(old), "label": label(new)} for i, old, new in rows]
        }
    answers = [(ledger.ids[p], code) for p, code in event.payload["answers"]]
    counts = Counter(word(code) for _, code in answers)
    late = ", after another annotator's" if event.kind == "late" else ""
    text = f"{count(len(answers), 'answer')}{late}: " + ", ".join(f"{n} {what}" for what, n in counts.items())
    return text, {"answers": [{"id": id_, "label": label(code)} for id_, code in answers]}


def _list_first(items: list[Any]) -> str:
    first = ", ".join(str(item) for item in items[:MAX_LISTED])
    return first + (f", and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else "")

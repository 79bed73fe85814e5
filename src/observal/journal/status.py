"""The status, computed from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from observal.journal.agreement import agreement
from observal.journal.codec import describe_method
from observal.journal.events import goals_of
from observal.journal.ledger import Ledger
from observal.journal.results import Status

CHOOSING = "Choosing the next rows…"


def why_nothing(ledger: Ledger, annotator: str) -> str:
    """Return why there is no row for an annotator, in words."""
    if ledger.stopped:
        return f"Nothing is left to ask: {ledger.stopped}."
    rows = len(ledger.open_rows)
    said = f"There is no row for {annotator} now: of the {rows} open {'row' if rows == 1 else 'rows'}, {_holders(ledger, ledger.open_rows)}."
    return said if ledger.to_buy != 0 else f"{said} They use up the label budget; raise it with observal extend."


def why_ahead(ledger: Ledger, round_: int) -> str:
    """Return why rows of a round were chosen ahead, in words; empty if they were not, or if the rounds before are closed by now."""
    before = [row for row in ledger.open_rows if ledger.round_of[row] < round_]
    base = ledger.bases[round_ - 1]
    if base == round_ - 1 or not before:
        return ""
    return (
        f"These rows were chosen ahead by the model of round {base}, because earlier rows are still open: "
        f"{_holders(ledger, before)}."
    )


def _holders(ledger: Ledger, rows: Sequence[int]) -> str:
    held = Counter(name for row in rows for name in ledger.holders.get(row, ()))
    said = [f"{name} holds {count}" for name, count in sorted(held.items())]
    if waiting := sum(not ledger.holders.get(row) for row in rows):
        said.append(f"{waiting} wait for another annotator")
    return ", ".join(said)


def round_rows(ledger: Ledger) -> int:
    """Return how many rows the open rounds ask about; if none is open, the latest."""
    return sum(int(plan.asked.size) for plan in ledger.plans[min(ledger.closed, len(ledger.plans) - 1) :])


def status_of(ledger: Ledger) -> Status:
    """Return the status."""
    settings = ledger.settings
    answers = Counter(name for row in ledger.responses.values() for name, code in row.items() if code is not None)
    return Status(
        n_logged=settings["log_rows"],
        revealed=settings["revealed"],
        pool_rows=settings["pool_rows"],
        features=len(settings["features"]),
        classes=tuple(settings["classes"]),
        label_budget=settings["label_budget"],
        labels=ledger.bought,
        skipped=len(ledger.labels) - ledger.bought,
        round=len(ledger.plans),
        round_rows=round_rows(ledger),
        open_rounds=len(ledger.plans) - ledger.closed,
        open_rows=len(ledger.open_rows),
        held=dict(sorted(ledger.held().items())),
        answers=dict(sorted(answers.items())),
        overlap=ledger.overlap,
        corrections=ledger.corrections,
        agreement=agreement(ledger.responses.values(), len(settings["classes"])),
        stopped=ledger.stopped,
        method=describe_method(settings["method"]),
        random_state=settings["seed"],
        intervals=goals_of(settings).words(),
        objective=goals_of(settings).objective,
        notes=tuple(settings["notes"]),
    )

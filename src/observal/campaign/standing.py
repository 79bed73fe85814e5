"""Where a campaign stands, read off its ledger."""

from __future__ import annotations

from collections import Counter

from observal.campaign.agreement import agreement
from observal.campaign.contents import ROWS
from observal.campaign.encoding import decode_method
from observal.campaign.ledger import Ledger
from observal.campaign.pieces import read_rows
from observal.campaign.results import Batch, Status
from observal.campaign.store import Transaction
from observal.codec import gone_settings, in_short


def make_batch(transaction: Transaction, ledger: Ledger, positions: list[int], annotator: str) -> Batch:
    """Return rows of the current round as people see them, or why there are none."""
    settings = ledger.settings
    ids = [ledger.ids[p] for p in positions]
    rows = read_rows(transaction, ROWS, positions)
    if settings["id"] in rows.column_names:
        rows = rows.drop_columns([settings["id"]])
    chances: list[float] = []
    reasons: list[str] = []
    if positions:
        plan = ledger.plans[-1]
        place = {p: i for i, p in enumerate(plan.positions.tolist())}
        chances = [float(plan.query_probability[place[p]]) for p in positions]
        reasons = [plan.reasons[plan.reason[place[p]]] for p in positions]
    return Batch(
        ids=tuple(ids),
        round=len(ledger.plans),
        query_probability=tuple(chances),
        reason=tuple(reasons),
        rows=rows.add_column(0, settings["id"], [ids]),
        finished=bool(ledger.stopped),
        note="" if positions else why_nothing(ledger, annotator),
    )


def why_nothing(ledger: Ledger, annotator: str) -> str:
    """Return in words why there is no row for an annotator."""
    if ledger.stopped:
        return f"The campaign is finished: {ledger.stopped}."
    said = [f"{name} has {count}" for name, count in sorted(ledger.held().items())]
    waiting = sum(not ledger.holders.get(p) for p in ledger.open_rows)
    if waiting:
        said.append(f"{waiting} wait for someone who has not answered them yet")
    return f"There is no row for {annotator} now: of the {len(ledger.open_rows)} open rows, {', '.join(said)}."


def status_of(ledger: Ledger) -> Status:
    """Return where a campaign stands."""
    settings = ledger.settings
    answers = Counter(name for row in ledger.responses.values() for name, code in row.items() if code is not None)
    gone = gone_settings(settings["method"])
    notes = [f"The method's setting {name} is gone in this version and is not used." for name in gone]
    return Status(
        log_rows=settings["log_rows"],
        revealed=settings["revealed"],
        pool_rows=settings["pool_rows"],
        features=len(settings["features"]),
        classes=tuple(settings["classes"]),
        label_budget=settings["label_budget"],
        labels=ledger.bought,
        skipped=len(ledger.labels) - ledger.bought,
        round=len(ledger.plans),
        round_rows=int(ledger.plans[-1].asked.size) if ledger.plans else 0,
        open_rows=len(ledger.open_rows),
        held=dict(sorted(ledger.held().items())),
        answers=dict(sorted(answers.items())),
        overlap=ledger.overlap,
        corrections=ledger.corrections,
        agreement=agreement(ledger.responses.values(), len(settings["classes"])),
        stopped=_stopped(ledger),
        method=in_short(decode_method(settings["method"])),
        seed=settings["seed"],
        notes=(*settings["notes"], *notes),
    )


def _stopped(ledger: Ledger) -> str:
    """Return why nothing is left to ask: what the journal says, or that the budget is spent, which nobody need ask for."""
    budget = ledger.settings["label_budget"]
    if ledger.stopped or ledger.open_rows or budget is None or ledger.bought < budget:
        return ledger.stopped
    return f"the label budget of {budget} is spent"

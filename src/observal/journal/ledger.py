"""The state that a journal adds up to: rounds, who holds and answered which row, labels, and whether to stop.

A ledger is made only by following the journal's events in order, so it can always be discarded and rebuilt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np

from observal.errors import NotACampaign
from observal.intervals.stopping import Forecast
from observal.journal.events import Event
from observal.journal.settings import Settings
from observal.problem.labels import find_key
from observal.problem.plan import Plan
from observal.problem.result import Recorded
from observal.problem.words import money

PRICE_TOLERANCE = 1e-9  # share of a budget by which sums of prices may be off, as most fractions are inexact in binary


@dataclass(frozen=True)
class Sample:
    """Rows of a new table drawn at random to check the error: their labels train nothing.

    Parameters
    ----------
    time : str
        When they were drawn.
    table : str
        The name of the table.
    rows : int
        The number of rows in the table.
    ids : tuple of str
        The rows.
    predicted : tuple of int
        The class code predicted for each row when it was drawn.
    answers : dict
        Id → class code, or None for a skip.
    """

    time: str
    table: str
    rows: int
    ids: tuple[str, ...]
    predicted: tuple[int, ...]
    answers: dict[str, int | None] = field(default_factory=dict)

    @property
    def wrong(self) -> int:
        """The number of answers that differ from the prediction."""
        pairs = zip(self.ids, self.predicted, strict=True)
        return sum(self.answers.get(id_) not in (None, code) for id_, code in pairs)

    @property
    def unknown(self) -> int:
        """The number of rows without a label."""
        return sum(self.answers.get(id_) is None for id_ in self.ids)


class Ledger:
    """The state of a session or campaign after some of its events.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> session = ob.Session(ob.LoggedData(X, X[:, 0] > 0, 0.5), ob.Pool(X, 0.5), label_budget=5, overlap=2)
    >>> ids = session.ask(1, "ann").ids
    >>> print(session.tell(ids, [True], "ann"), session.engine.read().labels)  # the other annotator has not answered yet
    1 label stored. {}
    >>> session.ask(1, "bob").ids == ids
    array([ True])
    >>> print(session.tell(ids, [True], "bob"), list(session.engine.read().labels.values()))
    1 label stored. [1]
    """

    def __init__(self) -> None:
        self.sequence = 0
        self.digest = ""
        self.first_digest = ""  # of the campaign's first entry, so unique to this campaign
        self.data_digest = ""
        # For each round, the digest of the entry that completes what its model depends on, besides labels.
        self.model_digests: list[str] = []
        self._settings: Settings | None = None
        self.plans: list[Plan] = []  # one per round, as recorded when it was opened
        # The closed round that each plan is based on: the one before it, or an earlier one if it was chosen
        # ahead.
        self.bases: list[int] = []
        self._position_of: dict[Any, int] = {}  # by id, and by its text unless that is another row's id
        # By pool position, for rows that were asked about:
        self.ids: dict[int, Any] = {}
        self.round_of: dict[int, int] = {}  # the round that asked about it
        self.recipients: dict[int, set[str]] = {}  # all annotators who were ever given it
        self.holders: dict[int, list[str]] = {}  # annotators who hold it and have not answered
        self.responses: dict[int, dict[str, int | None]] = {}  # annotator → class code, or None for a skip
        self.times: dict[int, dict[str, str]] = {}  # annotator → when they answered
        self.labels: dict[int, int | None] = {}  # class code, or None if skipped; only rows that are not open
        self.decisions: dict[int, int | None] = {}  # the class code decided by an owner, which overrides answers
        self.flags: dict[int, list[tuple[str, str, str]]] = {}  # who flagged it, when, and the comment, in order
        self.prices: dict[int, float] = {}  # the cost of its label; empty if the pool has no prices
        self.answer_times: list[str] = []  # when each answer was given, in order
        self.samples: list[Sample] = []  # rows of new tables drawn to check the error, in order
        self.bought = 0  # rows with a label
        self.corrections = 0
        self.stop_reason = ""
        self.forecasts: list[Forecast] = []  # made when rounds were opened
        # What was known of each closed round when the next was planned; dropped if one of its labels changes.
        self.records: dict[int, Recorded] = {}
        # Kept up to date so that no operation scans all rows; dictionaries serve as ordered sets.
        self._open: dict[int, None] = {}  # rows of the open rounds
        self._reopened: dict[int, None] = {}  # rows whose answer was undone, in that order
        self._held: dict[str, dict[int, None]] = {}
        self._answered_rows: dict[str, dict[int, None]] = {}  # each annotator's rows, in the order answered

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The session's or campaign's settings, with the current budgets and pool."""
        if self._settings is None:
            raise NotACampaign("The journal is empty, so there is no campaign; use an undamaged copy.")
        return self._settings

    @property
    def started(self) -> bool:
        """Whether the journal's first event has been followed."""
        return self._settings is not None

    @property
    def overlap(self) -> int:
        """How many annotators label each row."""
        return self.settings.overlap

    @property
    def stopped(self) -> str:
        """Why nothing is left to ask: the method's reason or a spent budget; empty if there may be more."""
        budget = self.settings.label_budget
        if self.stop_reason or self.open_rows:
            return self.stop_reason
        if budget is not None and self.bought >= budget:
            return f"the label budget of {budget} is spent"
        return "" if self.money_left != 0.0 else f"the {money(self.settings.budget_cost or 0.0)} for labels are spent"

    @property
    def open_rows(self) -> list[int]:
        """Pool positions that need an answer: undone ones first, latest first, then the others in plan order."""
        return [*reversed(self._reopened), *self._open]

    @property
    def closed(self) -> int:
        """The number of leading rounds whose rows are all answered."""
        return min((self.round_of[row] for row in self.open_rows), default=len(self.plans) + 1) - 1

    @property
    def base(self) -> int:
        """The last closed round that a plan is based on; −1 before the first plan."""
        return self.bases[-1] if self.bases else -1

    @property
    def to_buy(self) -> int | None:
        """How many labels may be bought besides those of open rows; None without a label budget."""
        budget = self.settings.label_budget
        return None if budget is None else max(0, budget - self.bought - len(self.open_rows))

    @property
    def spent(self) -> float:
        """What the labels have cost so far; a skipped row costs nothing."""
        if not self.prices:
            return 0.0
        return math.fsum(self.prices[row] for row, code in self.labels.items() if code is not None)

    @property
    def money_left(self) -> float | None:
        """What labels besides those of open rows may still cost, at least 0; None without a cost budget."""
        budget = self.settings.budget_cost
        if budget is None:
            return None
        left = budget - self.spent - math.fsum(self.prices[row] for row in self.open_rows)
        return left if left > PRICE_TOLERANCE * budget else 0.0

    @property
    def tied_rows(self) -> list[int]:
        """Open rows that everyone asked has answered, without a majority: an owner or one more annotator decides."""
        if self.overlap == 1:  # the first answer decides
            return []
        return [row for row in self.open_rows if len(self.responses.get(row, ())) >= self.overlap]

    def waits_for_others(self, annotator: str) -> bool:
        """Return whether an annotator can only wait for rows that others hold or an owner must decide."""
        if self.held_by(annotator) or self.free_for(annotator, 1):
            return False
        return any(self.holders.get(row) for row in self.open_rows) or bool(self.tied_rows)

    def held_by(self, annotator: str) -> list[int]:
        """Return the open rows that an annotator holds and has not answered."""
        rows = self._held.get(annotator, {})
        return [p for p in reversed(self._reopened) if p in rows] + [p for p in rows if p in self._open]

    def free_for(self, annotator: str, most: int | None = None) -> list[int]:
        """Return at most `most` open rows that can be handed to an annotator now."""
        return list(
            islice((p for p in chain(reversed(self._reopened), self._open) if self._is_free(p, annotator)), most)
        )

    def held(self) -> Counter[str]:
        """Return how many open rows each annotator holds."""
        counts = {name: len(self.held_by(name)) for name in self._held}
        return Counter({name: count for name, count in counts.items() if count})

    def answers_of(self, annotator: str) -> int:
        """Return how many answers of an annotator, skips included, can be undone."""
        return len(self._answered_rows.get(annotator, {}))

    def latest_of(self, annotator: str) -> int | None:
        """Return the row of an annotator's latest answer that can be undone."""
        return next(reversed(self._answered_rows.get(annotator, {})), None)

    def can_undo(self, position: int, annotator: str) -> bool:
        """Return whether an annotator's answer to a row can be undone: it exists, and no owner has decided the row."""
        return position in self._answered_rows.get(annotator, {})

    def _is_free(self, position: int, annotator: str) -> bool:
        responses, holders = self.responses.get(position, {}), self.holders.get(position, [])
        if annotator in responses or annotator in holders:
            return False
        # After a tie among everyone who was asked, one more person decides.
        needed = self.overlap if len(responses) < self.overlap else len(responses) + 1
        return len(responses) + len(holders) < needed

    def find(self, id_: object) -> int | None:
        """Return the pool position of an asked row, by its id or its text.

        17.0 is found as 17, because spreadsheets may write integers that way.
        """
        text = str(id_)
        forms = (id_, text, text.strip(), text.strip().removesuffix(".0"))
        positions = (find_key(self._position_of, form) for form in forms)
        return next((position for position in positions if position is not None), None)

    def response(self, position: int, annotator: str) -> tuple[bool, int | None]:
        """Return whether a new answer would replace an earlier one, and the earlier one.

        With an overlap of 1 a row has a single answer, which any annotator may replace. Otherwise each
        annotator has their own.
        """
        responses = self.responses.get(position, {})
        if self.overlap == 1:
            return bool(responses), next(iter(responses.values()), None)
        return annotator in responses, responses.get(annotator)

    # -- going through the journal ------------------------------------------------------------------------------

    def follow(self, events: Iterable[Event]) -> None:
        """Follow further events in order; one that observal cannot have written raises NotACampaign."""
        for event in events:
            change = getattr(self, f"_on_{event.kind}", None)
            if change is None or event.sequence != self.sequence + 1:
                raise NotACampaign(
                    f"Journal entry {event.sequence} ({event.kind!r}) was not expected after entry {self.sequence}; "
                    "update observal, or use an undamaged copy."
                )
            try:
                change(event)
            except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise NotACampaign(
                    f"Journal entry {event.sequence} ({event.kind!r}) is damaged ({' '.join(str(error).split())[:80]}); "
                    "use an undamaged copy."
                ) from None
            self.sequence, self.digest = event.sequence, event.digest

    def _on_created(self, event: Event) -> None:
        self._settings, self.first_digest = event.payload["settings"], event.digest
        self.model_digests = [event.digest]
        self.data_digest = event.payload.get("data", "")

    def _on_round(self, event: Event) -> None:
        plan: Plan = event.payload["plan"]
        base = event.payload.get("base", len(self.plans))
        if not self.base <= base <= len(self.plans):
            raise ValueError(f"its rows were not chosen by the model of round {base}")
        if base > self.base and (to_gain := event.payload.get("to_gain")) is not None:
            self.forecasts.append(Forecast(self.bought, to_gain))
        if (record := event.payload.get("recorded")) is not None:
            self.records[base] = record
        self.plans.append(plan)
        self.bases.append(base)
        self.model_digests.append(event.digest)
        if (prices := event.payload.get("prices")) is not None:
            self.prices.update(zip(plan.asked.tolist(), map(float, prices), strict=True))
        for position, id_ in zip(plan.asked.tolist(), event.payload["ids"], strict=True):
            if position in self.ids:
                raise ValueError(f"pool row {position} was asked about before")
            self.ids[position] = id_
            self._open[position] = None
            self.round_of[position] = len(self.plans)
            self._position_of[id_] = position
            self._position_of.setdefault(str(id_), position)

    def _on_extended(self, event: Event) -> None:
        self._settings = self.settings.extend(event.payload)
        self.model_digests = [event.digest] * len(self.model_digests)
        self.stop_reason, self.forecasts = "", []
        if "pool_rows" in event.payload:
            self.data_digest = event.payload.get("data", self.data_digest)
            self.records.clear()  # they were about the pool without the new rows
            near = event.payload.get("near", [None] * len(self.plans))
            first = self.settings.log_rows
            self.plans = [
                plan.with_near(None if rows is None else first + np.array(rows, dtype=np.int64))
                for plan, rows in zip(self.plans, near, strict=True)
            ]

    def _on_finished(self, event: Event) -> None:
        self.stop_reason = event.payload["reason"]

    def _on_asked(self, event: Event) -> None:
        for position in event.payload["rows"]:
            self._hand_to(position, event.actor)

    def _hand_to(self, position: int, annotator: str) -> None:
        self._require_asked(position)
        self.holders.setdefault(position, []).append(annotator)
        self.recipients.setdefault(position, set()).add(annotator)
        self._held.setdefault(annotator, {})[position] = None

    def _take_back(self, position: int, annotator: str) -> None:
        self.holders[position].remove(annotator)
        self._held[annotator].pop(position, None)

    def _on_released(self, event: Event) -> None:
        for position in event.payload["rows"]:
            self._take_back(position, event.payload["annotator"])

    def _on_answered(self, event: Event) -> None:
        for position, code in event.payload["answers"]:
            self._respond(position, event, code)

    def _on_corrected(self, event: Event) -> None:
        for position, _, code in event.payload["answers"]:
            self._respond(position, event, code)
            self.corrections += 1

    def _on_late(self, event: Event) -> None:
        for position, code in event.payload["answers"]:
            self._record_answer(position, event, code)  # the row keeps its label

    def _on_decided(self, event: Event) -> None:
        for position, _, code in event.payload["answers"]:
            self._require_asked(position)
            self.decisions[position] = code
            for trail in self._answered_rows.values():
                trail.pop(position, None)
            self._settle(position)
            self.corrections += 1
            self.stop_reason = ""

    def _on_flagged(self, event: Event) -> None:
        for position in event.payload["rows"]:
            self._require_asked(position)
            self.flags.setdefault(position, []).append((event.actor, event.time, event.payload["text"]))

    def _on_sampled(self, event: Event) -> None:
        given = event.payload
        self.samples.append(
            Sample(event.time, given["table"], given["rows"], tuple(given["ids"]), tuple(given["predicted"]))
        )

    def _on_verified(self, event: Event) -> None:
        sample = self.samples[event.payload["sample"] - 1]
        for place, code in event.payload["answers"]:
            sample.answers[sample.ids[place]] = code

    def _on_undone(self, event: Event) -> None:
        for position, _ in event.payload["answers"]:
            del self.responses[position][event.actor], self.times[position][event.actor]
            self._answered_rows[event.actor].pop(position)
            before = self.labels.pop(position, None)
            self.bought -= before is not None
            self._forget_records(position)
            self._settle(position)
            if position not in self.labels:  # another annotator may have answered it
                self._open.pop(position, None)
                self._reopened[position] = None
                self._hand_to(position, event.actor)
            self.corrections += 1
            self.stop_reason = ""

    def _require_asked(self, position: int) -> None:
        if position not in self.ids:
            raise ValueError(f"pool row {position} was never asked about")

    def _record_answer(self, position: int, event: Event, code: int | None) -> None:
        """Record who answered what and when."""
        self._require_asked(position)
        annotator = event.actor
        self.responses.setdefault(position, {})[annotator] = code
        self.times.setdefault(position, {})[annotator] = event.time
        self.answer_times.append(event.time)
        trail = self._answered_rows.setdefault(annotator, {})
        trail.pop(position, None)
        trail[position] = None
        if annotator in self.holders.get(position, ()):
            self._take_back(position, annotator)

    def _respond(self, position: int, event: Event, code: int | None) -> None:
        if self.overlap == 1 and event.actor not in self.responses.get(position, {}):
            for previous in self.responses.pop(position, {}):  # a row has a single answer, which is replaced
                self._answered_rows[previous].pop(position, None)
                del self.times[position][previous]
        self._record_answer(position, event, code)
        self.stop_reason = ""  # after another answer there may be more to ask
        self._settle(position)

    def _settle(self, position: int) -> None:
        """Set a row's label from its answers; a tie leaves it unchanged: open, or with its earlier label."""
        responses = self.responses.get(position, {})
        if position in self.decisions:
            code = self.decisions[position]
        elif len(responses) < self.overlap:
            return
        elif self.overlap == 1:
            code = next(iter(responses.values()))  # later ones came too late
        else:
            ranked = Counter(c for c in responses.values() if c is not None).most_common(2)
            if len(ranked) == 2 and ranked[0][1] == ranked[1][1]:
                return
            code = ranked[0][0] if ranked else None
        if self.labels.get(position, code) != code:
            self._forget_records(position)
        self.bought += (code is not None) - (self.labels.get(position) is not None)
        self.labels[position] = code
        self._open.pop(position, None)
        self._reopened.pop(position, None)

    def _forget_records(self, position: int) -> None:
        """Drop the records of rounds that knew a label that has changed."""
        if self.round_of.get(position, 0) <= self.base:
            self.records.clear()

"""The state that a journal adds up to: rounds, who holds which row, who answered what, each row's label, and whether to stop.

A ledger is only ever made by following the journal's events in order, so it can be thrown away and made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from observal.errors import NotACampaign
from observal.journal.answers import lookup
from observal.journal.events import Event
from observal.types import Plan, Recorded

_OPEN = object()  # stands for the label of a row that has none yet


class Ledger:
    """The state of a session or campaign after some of its events.

    Attributes
    ----------
    settings : mapping
        What the session or campaign was made with: the payload of its first event, with the label budget of today.
    plans : list of Plan
        One per round, as recorded when it was opened.
    responses : dict
        Pool position → annotator → class code, or None for a skip.
    labels : dict
        Pool position → class code, or None for a skipped row; only rows that are no longer open.
    holders : dict
        Pool position → the annotators who hold the row and have not answered.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.settings, ledger.ids = {"overlap": 2}, {7: "L7"}
    >>> ledger.follow([Event(1, "", "ann", "answered", {"answers": [[7, 1]]})])
    >>> ledger.labels
    {}
    >>> ledger.follow([Event(2, "", "bob", "answered", {"answers": [[7, 1]]})])
    >>> ledger.labels
    {7: 1}
    """

    def __init__(self) -> None:
        self.sequence = 0
        self.digest = ""
        self.data_digest = ""
        self.settings: Mapping[str, Any] = {}
        self.plans: list[Plan] = []
        self.ids: dict[int, Any] = {}
        self._position_of: dict[Any, int] = {}  # by id, and by its text unless that is another row's id
        self.responses: dict[int, dict[str, int | None]] = {}
        self.labels: dict[int, int | None] = {}
        self.holders: dict[int, list[str]] = {}
        self.corrections = 0
        self.recorded_stop = ""
        self.to_gain: float | None = None  # when the last round was opened
        self.recorded: list[
            Recorded | None
        ] = []  # when each round was opened; None once labels that it knew were changed

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def overlap(self) -> int:
        """How many annotators label each row."""
        return int(self.settings["overlap"])

    @property
    def bought(self) -> int:
        """Rows that have a label."""
        return sum(code is not None for code in self.labels.values())

    @property
    def stopped(self) -> str:
        """Why nothing is left to ask: the method's reason or a spent budget; empty if there may be more to ask."""
        budget = self.settings["label_budget"]
        if self.recorded_stop or self.open_rows or budget is None or self.bought < budget:
            return self.recorded_stop
        return f"the label budget of {budget} is spent"

    @property
    def open_rows(self) -> list[int]:
        """Pool positions of the current round that still need an answer, in the order of the plan."""
        return [p for p in self.plans[-1].asked.tolist() if p not in self.labels] if self.plans else []

    def held_by(self, annotator: str) -> list[int]:
        """Return the open rows that an annotator holds and has not answered."""
        return [p for p in self.open_rows if annotator in self.holders.get(p, ())]

    def free_for(self, annotator: str) -> list[int]:
        """Return the open rows that can be handed to an annotator now."""
        return [p for p in self.open_rows if self._free(p, annotator)]

    def held(self) -> Counter[str]:
        """Return how many open rows each annotator holds."""
        return Counter(name for p in self.open_rows for name in self.holders.get(p, ()))

    def _free(self, position: int, annotator: str) -> bool:
        responses, holders = self.responses.get(position, {}), self.holders.get(position, [])
        if annotator in responses or annotator in holders:
            return False
        # If everyone who was asked has answered and there is a tie, one more person decides.
        wanted = self.overlap if len(responses) < self.overlap else len(responses) + 1
        return len(responses) + len(holders) < wanted

    def find(self, id_: Any) -> int | None:
        """Return the pool position of a row that was asked for, by its id or its text.

        17.0 is found as 17, because spreadsheets may write whole numbers that way.
        """
        text = str(id_)
        forms = (id_, text, text.strip(), text.strip().removesuffix(".0"))
        found = (lookup(self._position_of, form) for form in forms)
        return next((position for position in found if position is not None), None)

    def response(self, position: int, annotator: str) -> tuple[bool, int | None]:
        """Return whether a new answer would replace an earlier one, and the earlier one.

        With an overlap of 1 a row has a single answer, whoever gives it. Otherwise each annotator has their own.
        """
        responses = self.responses.get(position, {})
        if self.overlap == 1:
            return bool(responses), next(iter(responses.values()), None)
        return annotator in responses, responses.get(annotator)

    # -- going through the journal ------------------------------------------------------------------------------

    def follow(self, events: Iterable[Event]) -> None:
        """Follow further events, in order; one that observal cannot have written raises NotACampaign."""
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
        self.settings = event.payload
        self.data_digest = event.payload.get("data", "")

    def _on_upgraded(self, event: Event) -> None:
        self.data_digest = event.payload["data"]

    def _on_round(self, event: Event) -> None:
        plan: Plan = event.payload["plan"]
        self.plans.append(plan)
        self.to_gain = event.payload.get("to_gain")
        self.recorded.append(event.payload.get("recorded"))
        for position, id_ in zip(plan.asked.tolist(), event.payload["ids"], strict=True):
            if position in self.ids:
                raise ValueError(f"pool row {position} was asked about before")
            self.ids[position] = id_
            self._position_of[id_] = position
            self._position_of.setdefault(str(id_), position)

    def _on_extended(self, event: Event) -> None:
        self.settings = {**self.settings, "label_budget": event.payload["label_budget"], "extended": True}
        self.recorded_stop = ""

    def _on_finished(self, event: Event) -> None:
        self.recorded_stop = event.payload["reason"]

    def _on_asked(self, event: Event) -> None:
        for position in event.payload["rows"]:
            self.holders.setdefault(position, []).append(event.actor)

    def _on_released(self, event: Event) -> None:
        for position in event.payload["rows"]:
            self.holders[position].remove(event.payload["annotator"])

    def _on_answered(self, event: Event) -> None:
        for position, code in event.payload["answers"]:
            self._respond(position, event.actor, code)

    def _on_corrected(self, event: Event) -> None:
        for position, _, code in event.payload["answers"]:
            self._respond(position, event.actor, code)
            self.corrections += 1

    def _respond(self, position: int, annotator: str, code: int | None) -> None:
        if position not in self.ids:
            raise ValueError(f"pool row {position} was never asked about")
        responses = self.responses.setdefault(position, {})
        if self.overlap == 1:
            responses.clear()
        responses[annotator] = code
        holders = self.holders.get(position, [])
        if annotator in holders:
            holders.remove(annotator)
        self.recorded_stop = ""  # after another answer there may be more to ask
        if len(responses) < self.overlap:
            return
        before = self.labels.get(position, _OPEN)
        self._decide(position, responses)
        closed = bool(self.plans) and position not in self.plans[-1].asked
        if closed and before is not _OPEN and self.labels[position] != before:
            self.recorded = [None] * len(self.recorded)

    def _decide(self, position: int, responses: Mapping[str, int | None]) -> None:
        """Give a row the label that most annotators say."""
        ranked = Counter(c for c in responses.values() if c is not None).most_common(2)
        if not ranked:
            self.labels[position] = None
        elif len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
            self.labels[position] = ranked[0][0]
        # A tie leaves the row unchanged: open, or with its earlier label.

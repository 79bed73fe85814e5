"""Opening rounds: the method's next plan, or why there is none, as the journal's next event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from observal.journal.events import OBSERVAL, goals_of
from observal.journal.ledger import Ledger
from observal.journal.reading import JournalReader, Transaction
from observal.journal.settings import observal_version
from observal.problem.plan import Stop


class RoundOpener(JournalReader):
    """Chooses rows and appends what was chosen to the journal."""

    def open_round(self, annotator: str | None = None) -> bool:
        """Open the next round if none is open, and return whether there are rows to ask about.

        ``ask`` does this by itself, and nobody can write while it fits. Here others can: what was chosen is stored only if no answer
        that it depends on changed in the meantime, and if it is still needed.

        Parameters
        ----------
        annotator : str, optional
            Somebody who waits for rows: if others hold all of them, the next round is chosen ahead.
        """
        while True:
            with self._journal.reading() as reading:
                ledger = self._follow(reading)
                if ledger.recorded_stop or (ledger.open_rows and not self._may_plan_ahead(annotator)):
                    return not ledger.recorded_stop
                known = self._plan_depends_on()
                kind, payload = self._next_round(reading)
                if ledger.open_rows and kind != "round":
                    return True
            with self._writing() as writing:
                needed = not self._ledger.open_rows or self._may_plan_ahead(annotator)
                if needed and self._plan_depends_on() == known:
                    self._append(writing, OBSERVAL, kind, payload)

    def _may_plan_ahead(self, annotator: str | None) -> bool:
        """Return whether more rows can be chosen for somebody who has to wait for others.

        Not where an undone answer opened a round again that the last plan already knew: the model would be an older one.
        """
        ledger = self._ledger
        left = ledger.to_buy != 0 and len(ledger.round_of) < ledger.settings["pool_rows"]
        able = left and ledger.settings["method"].plans_ahead
        return bool(
            able and annotator is not None and ledger.waits_for_others(annotator) and ledger.closed >= ledger.base
        )

    def _plan_depends_on(self) -> Any:
        """Return what the next plan depends on: the models so far, and how many labels may still be bought."""
        return *self._models_depend_on(), self._ledger.to_buy

    def _models_depend_on(self) -> tuple[Any, ...]:
        """Return what the models of all rounds depend on: the pool, the plans, and the labels of closed rounds."""
        ledger, closed = self._ledger, self._ledger.closed
        known = {row: code for row, code in ledger.labels.items() if ledger.round_of[row] <= closed}
        return ledger.settings["pool_rows"], len(ledger.plans), closed, known

    def _open_round(self, transaction: Transaction) -> None:
        """Record the method's next plans, until one has rows to ask about or nothing is left to ask."""
        while not self._ledger.open_rows and not self._ledger.recorded_stop:
            self._append(transaction, OBSERVAL, *self._next_round(transaction))

    def _next_round(self, transaction: Transaction) -> tuple[str, dict[str, Any]]:
        """Return the kind and payload of the next event: the method's next plan, or why there is none.

        While a round is open, the plan is one ahead: by the model of the last closed round, from the rows that no plan has taken. Whether
        enough labels are bought is asked once after each closed round.
        """
        ledger = self._ledger
        reason, closed, to_gain = ledger.stopped, ledger.closed, None
        if not reason and closed > ledger.base:
            to_gain = self._still_to_gain(transaction)
            reason = self._enough(transaction, to_gain)
        plan = Stop(reason) if reason else self._replayed(transaction).next_plan(ledger.plans[closed:])
        if isinstance(plan, Stop):
            return "finished", {"reason": plan.reason}
        if ledger.to_buy is not None:
            plan = plan.cut(ledger.to_buy)
        if ahead := closed < len(ledger.plans):
            plan = replace(
                plan, reasons=tuple(f"{why} (chosen ahead by the model of round {closed})" for why in plan.reasons)
            )
        ids = transaction.pool_ids(plan.asked).tolist()
        payload = {"round": len(ledger.plans) + 1, "ids": ids, "plan": plan, "observal": observal_version()}
        payload |= {"base": closed} if ahead else {}
        if transaction.durable and closed not in ledger.recorded and (known := self._replayed(transaction).record()):
            payload["recorded"] = known
        return "round", payload if to_gain is None else {**payload, "to_gain": to_gain}

    def _still_to_gain(self, transaction: Transaction) -> float | None:
        """Return what the labels that are left may gain, if the run is to stop by that."""
        settings = self._ledger.settings
        if goals_of(settings).tolerance is None or not settings["method"].stops_early:
            return None
        return self._replayed(transaction).still_to_gain()

    def _enough(self, transaction: Transaction, to_gain: float | None) -> str:
        """Return why enough labels are bought; empty where they are not."""
        goals, before = goals_of(self._ledger.settings), self._ledger.to_gain
        forecasts = [share for share in (to_gain, before) if share is not None]
        if goals.tolerance is not None and len(forecasts) == 2 and max(forecasts) < goals.tolerance:
            return f"more labels are unlikely to gain more than {100 * goals.tolerance:g} points"
        if goals.width is not None:
            replay = self._replayed(transaction)
            error = replay.intervals(replay.closed)["error"]
            if error.high - error.low < goals.width:
                return f"the interval for the error is narrower than {100 * goals.width:g} points"
        return ""

    # -- appending ----------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        before = -1
        try:
            with self._journal.writing() as transaction:
                before = self._follow(transaction).sequence
                yield transaction
        except BaseException:
            if self._ledger.sequence != before:
                self._ledger = Ledger()  # it followed events that were then not stored
            raise

    def _append(self, transaction: Transaction, actor: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Write an event and follow it, without reading it back."""
        self._ledger.follow([transaction.append(actor, kind, payload)])

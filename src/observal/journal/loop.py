"""Ask, tell, undo, decide, release, extend: the verbs of a session and of a campaign that change something, over any journal.

State changes by appending to the journal, here and where rounds are opened (:mod:`observal.journal.rounds`). Every verb is one transaction: when it
returns, its changes are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from observal.checks import check_whole
from observal.errors import InvalidInput
from observal.journal.answers import WrittenAnswer, read_answers, written
from observal.journal.events import OBSERVAL
from observal.journal.reading import Transaction
from observal.journal.results import Receipt, Undone
from observal.journal.rounds import RoundOpener
from observal.journal.settings import ANYONE, check_annotator
from observal.journal.status import why_ahead, why_nothing
from observal.journal.telling import Changes, own_changes, read_one, validate_answers
from observal.tables.formats import Format


class Asked(NamedTuple):
    """The rows that an annotator holds now; if there are none, or if they were chosen ahead, `note` says why.

    `rounds` are the rounds that chose them, and `models` the closed rounds whose models did.
    """

    positions: list[int]
    ids: list[Any]
    rounds: list[int]
    models: list[int]
    query_probability: list[float]
    reason: list[str]
    note: str


class LabelLoop(RoundOpener):
    """Buying labels over a journal. The public classes are :class:`observal.Session` and :class:`observal.Campaign`."""

    def _ask(self, transaction: Transaction, n: int | None, annotator: str) -> Asked:
        """Hand out at most `n` open rows, first those the annotator already holds.

        If none is open, open a round; if others hold all of them, choose the next round ahead.
        """
        ledger = self._ledger
        check_annotator(annotator, ledger.overlap)
        if not ledger.open_rows and not ledger.recorded_stop:
            self._open_round(transaction)
        elif self._may_plan_ahead(annotator) and (ahead := self._next_round(transaction))[0] == "round":
            self._append(transaction, OBSERVAL, *ahead)
        self._hand_out(transaction, annotator, n)
        return self._shown(ledger.held_by(annotator)[:n], annotator)

    def _hand_out(self, transaction: Transaction, annotator: str, n: int | None) -> None:
        """Give an annotator free rows until they hold `n`, or all of them."""
        holds = len(self._ledger.held_by(annotator))
        if more := self._ledger.free_for(annotator, None if n is None else max(0, n - holds)):
            self._append(transaction, annotator, "asked", {"rows": more})

    def _release(self, transaction: Transaction, annotator: str) -> int:
        """Take back the open rows that an annotator holds; return how many."""
        rows = self._ledger.held_by(annotator)
        if rows:
            self._append(transaction, OBSERVAL, "released", {"annotator": annotator, "rows": rows})
        return len(rows)

    def _shown(self, positions: list[int], annotator: str) -> Asked:
        ledger = self._ledger
        if not positions:
            return Asked([], [], [], [], [], [], why_nothing(ledger, annotator))
        rounds, chances, reasons = [ledger.round_of[position] for position in positions], [], []
        for position, round_ in zip(positions, rounds, strict=True):
            plan = ledger.plans[round_ - 1]
            at = int(np.flatnonzero(plan.positions == position)[0])
            chances.append(float(plan.query_probability[at]))
            reasons.append(plan.reasons[plan.reason[at]])
        models = [ledger.bases[round_ - 1] for round_ in rounds]
        note = why_ahead(ledger, max(rounds))
        return Asked(positions, [ledger.ids[p] for p in positions], rounds, models, chances, reasons, note)

    def tell(
        self, ids: Iterable[Any], labels: Iterable[Any], annotator: str = ANYONE, correct: bool = False
    ) -> Receipt:
        """Store answers: all of them or, if one is wrong, none.

        Parameters
        ----------
        ids : iterable
            Ids of rows that were asked about, in any order and of any round.
        labels : iterable
            For each id a class, or its text; None, NaN or ``"skip"`` skips the row, and ``""`` means "not yet". A skip does not
            count towards the budget. A label told later replaces it, even if the budget is already spent.
        annotator : str
            Who answers.
        correct : bool
            Whether an answer may replace an earlier one. Closed rounds keep their decisions and are fitted again.
        """
        return self._tell(written(ids, labels), 0, annotator, correct)

    def tell_file(
        self,
        path: str | Path,
        annotator: str = ANYONE,
        correct: bool = False,
        text: str | bytes | None = None,
        *,
        sep: str | None = None,
        encoding: str | None = None,
        missing: Sequence[str] = (),
    ) -> Receipt:
        """Store the answers in a CSV, Excel or JSON file, as :meth:`tell` does; an empty label means "not yet".

        Ids that a spreadsheet changed (000820 to 820) are recognised where they can mean one row only.

        Parameters
        ----------
        path : path
            The file.
        annotator, correct
            As for :meth:`tell`.
        text : str or bytes, optional
            The content, if it has already been read.
        sep, encoding : str, optional
            What separates the columns of a CSV, and its encoding; detected by default.
        missing : sequence of str
            Words that mean "not yet", besides those that the campaign was made with.
        """
        settings = self._read().settings
        known = (settings.get("written") or {}).get("missing", ())
        given = Format(sep, None, encoding, (*known, *missing))
        answers, blank = read_answers(path, settings["id"], settings["label"], text, given)
        return self._tell(answers, blank, annotator, correct)

    def _tell(self, answers: list[WrittenAnswer], blank: int, annotator: str, correct: bool) -> Receipt:
        with self._writing() as transaction:
            check_annotator(annotator, self._ledger.overlap)

            def every_id() -> list[Any]:
                return list(transaction.pool_ids(np.arange(self._ledger.settings["pool_rows"])).tolist())

            changes = validate_answers(answers, self._ledger, annotator, correct, every_id)
            return self._store(transaction, changes, annotator, blank)

    def _store(self, transaction: Transaction, changes: Changes, annotator: str, blank: int = 0) -> Receipt:
        kinds = {"answered": changes.new, "late": changes.late, "corrected": changes.corrected}
        for kind, answers in kinds.items():
            if answers:
                self._append(transaction, annotator, kind, {"answers": answers})
        skips = sum(code is None for _, code in changes.new + changes.late)
        stored = len(changes.new) + len(changes.late) - skips
        return Receipt(stored, skips, len(changes.corrected), changes.unchanged, blank + changes.blank)

    def undo(self, annotator: str = ANYONE) -> Undone | None:
        """Take back an annotator's latest answer or skip that still stands; None if there is none.

        The row is open again, and the annotator holds it. What was told stays in the journal. Undoing again takes back the answer
        before. A row that :meth:`decide` settled is left alone.
        """
        with self._writing() as transaction:
            return self._undo(transaction, annotator)

    def _undo(self, transaction: Transaction, annotator: str) -> Undone | None:
        ledger = self._ledger
        position = ledger.latest_of(annotator)
        if position is None:
            return None
        code = ledger.responses[position][annotator]
        self._append(transaction, annotator, "undone", {"answers": [(position, code)]})
        return Undone(ledger.ids[position], None if code is None else ledger.settings["classes"][code])

    def decide(self, id_: Any, label: Any, annotator: str = ANYONE) -> None:
        """Settle a row's label, whatever others answered or will answer; None skips it."""
        with self._writing() as transaction:
            self._decide(transaction, id_, label, annotator)

    def _decide(self, transaction: Transaction, id_: Any, label: Any, annotator: str) -> None:
        check_annotator(annotator, 1)
        position, code = read_one(WrittenAnswer(id_, label, "the decision"), self._ledger)
        answer = (position, self._ledger.labels.get(position), code)
        self._append(transaction, annotator, "decided", {"answers": [answer]})

    def tell_people(self, told: Mapping[str, list[WrittenAnswer]]) -> Receipt:
        """Store the answers of several people, annotator → answers: all of them or, if one is wrong, none.

        People may change their own answers. With an overlap of 1, an answer to a row that somebody else answered first is kept beside
        theirs.
        """
        with self._writing() as transaction:
            receipts = []
            for annotator, answers in told.items():
                check_annotator(annotator, self._ledger.overlap)
                changes = own_changes(answers, self._ledger, annotator)
                receipts.append(self._store(transaction, changes, annotator))
        return (
            Receipt(*(sum(counts) for counts in zip(*map(astuple, receipts), strict=True)))
            if told
            else Receipt(0, 0, 0, 0)
        )

    def release(self, annotator: str) -> int:
        """Take back the open rows that an annotator holds, so others can label them; return how many."""
        with self._writing() as transaction:
            return self._release(transaction, annotator)

    def extend(self, label_budget: int, actor: str = ANYONE) -> None:
        """Raise the label budget.

        Intervals then hold at all rounds together, however many follow, because there are more rounds than the first budget allowed for.

        Parameters
        ----------
        label_budget : int
            How many labels may be bought in total.
        actor : str
            Who raises it.
        """
        check_annotator(actor, 1)
        with self._writing() as transaction:
            self._append(transaction, actor, "extended", self._raised(label_budget))

    def _raised(self, label_budget: int) -> dict[str, Any]:
        """Return a raised budget for the journal, or refuse it."""
        check_whole(label_budget, "label_budget", 0)
        before = self._ledger.settings["label_budget"]
        if before is None:
            raise InvalidInput("There is no label budget, so it cannot be raised; just go on asking.")
        if label_budget <= before:
            raise InvalidInput(
                f"The label budget is {before} and can only be raised, but {label_budget} was given; give the new total."
            )
        return {"label_budget": int(label_budget)}

"""The engine: buying labels over a journal, wherever it is stored.

An engine holds a journal, the ledger that its events add up to, and the method's states. Its operations run
inside a transaction opened by the caller, who can store something else in the same transaction:

    with engine.writing() as transaction:
        assignment = engine.ask(transaction, 5, "ann")

``observal.Session``, ``observal.Campaign``, the server's desk and the notebook widget each hold one. State
changes only by appending to the journal, and a block's events are stored when the block ends; if it raises,
none are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, Ints, check_number, check_whole
from observal.errors import (
    CampaignUnavailable,
    ConflictingAnswer,
    InvalidInput,
    InvalidLabel,
    ObservalError,
    UnknownRow,
)
from observal.intervals.measures import judged_by
from observal.intervals.stopping import Forecast, are_steadily_below
from observal.journal.answers import ChangedIds, LabelReader, WrittenAnswer, read_answers
from observal.journal.events import OBSERVAL, Event
from observal.journal.history import Entry, describe_events
from observal.journal.ledger import PRICE_TOLERANCE, Ledger, Sample
from observal.journal.receipts import Assignment, Receipt, Undone
from observal.journal.replay import Replay, start_replay
from observal.journal.settings import Settings, check_annotator, observal_version
from observal.journal.status import why_ahead, why_nothing
from observal.journal.stored_fit import LARGEST_FIT, StoredFit, fit_key, pack_fit
from observal.parquet.executors import ExecutorLike, executor_of
from observal.problem.interval import Interval
from observal.problem.plan import ACTION_NAMES, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Recorded, RunResult
from observal.problem.table import Table
from observal.problem.words import money
from observal.tables.table_format import TableFormat

MAX_COMMENT = 2000  # characters


class Transaction(Protocol):
    """What a journal offers inside a transaction; `durable` says whether another process may read it later."""

    durable: bool

    def events(self, ledger: Ledger) -> list[Event]:
        """Return the events that the ledger has not followed yet."""
        ...

    def append(self, actor: str, kind: str, payload: Mapping[str, Any]) -> Event:
        """Append an event and return it; it is stored once the block has ended."""
        ...

    def part(self) -> AbstractContextManager[None]:
        """Return a nested block: if it raises, what it wrote is rolled back, and the rest stays."""
        ...

    def problem(self, settings: Settings, with_ids: bool = True) -> Problem:
        """Return log and pool; without ids, rows may be numbered instead."""
        ...

    def pool_ids(self, positions: Ints) -> NDArray[Any]:
        """Return the ids of some pool rows."""
        ...

    def stored_fits(self, key_of: Callable[[int], str], closed: int) -> list[StoredFit]:
        """Return the fit of round 0 and the latest one, if their keys match those of closed rounds."""
        ...

    def store_fit(self, round_: int, key: str, content: bytes) -> None:
        """Store a fit in place of the previous one; that of round 0 is kept next to a later one."""
        ...


T = TypeVar("T", bound=Transaction)
T_co = TypeVar("T_co", bound=Transaction, covariant=True)


class Journal(Protocol[T_co]):
    """Where events are stored: in memory or in a database."""

    name: str

    def reading(self) -> AbstractContextManager[T_co]:
        """Yield a read-only transaction that sees one consistent state."""
        ...

    def writing(self) -> AbstractContextManager[T_co]:
        """Yield an exclusive write transaction; if the block raises, nothing is stored."""
        ...


class Engine(Generic[T]):
    """Buying labels over a journal.

    Parameters
    ----------
    journal : Journal
        Where events are stored.
    executor : optional
        What reads and computes on rows in Parquet; see ``observal.parquet.executor_of``.

    Attributes
    ----------
    ledger : Ledger
        What the journal's events add up to, as of the latest transaction.
    executor
        Can be set until the problem is first read.
    on_fit : callable, optional
        Called with the number of labels before a model is fitted to them, which may take a while.
    """

    def __init__(self, journal: Journal[T], executor: ExecutorLike = None) -> None:
        self.journal = journal
        self.ledger = Ledger()
        self._replay: Replay | None = None
        self._budgets: tuple[int | None, float | None] = (None, None)  # the budgets of the current replay
        self._keys: dict[int, str] = {}  # of round 0 and the replay's last round, if fits can be stored
        self.executor = executor
        self.on_fit: Callable[[int], None] | None = None

    # -- transactions -------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[T]:
        """Yield a read transaction that sees one state of the journal, after updating the ledger."""
        with self.journal.reading() as transaction:
            self._update_ledger(transaction)
            yield transaction
        self._store_fit()

    @contextmanager
    def writing(self) -> Iterator[T]:
        """Yield an exclusive write transaction, after updating the ledger."""
        before = -1
        try:
            with self.journal.writing() as transaction:
                before = self._update_ledger(transaction).sequence
                yield transaction
        except BaseException:
            if self.ledger.sequence != before:
                self.ledger = Ledger()  # it followed events that were rolled back
            raise
        self._store_fit()

    def _store_fit(self) -> None:
        """Store the fit of round 0 and the latest one, in a separate transaction: no answer depends on it."""
        fits = self._replay.to_store() if self._replay is not None and self._keys else []
        if not fits:
            return
        contents = {fit.round: pack_fit(fit) for fit in fits}
        # The database may be read-only; then the next command fits again.
        with suppress(CampaignUnavailable), self.journal.writing() as transaction:
            ledger = self._update_ledger(transaction)
            for k, content in contents.items():
                current = k in (0, ledger.closed) and fit_key(ledger, k) == self._keys.get(k)
                if current and len(content) <= LARGEST_FIT:
                    transaction.store_fit(k, self._keys[k], content)

    @contextmanager
    def part(self, transaction: T) -> Iterator[None]:
        """Nest a block in a transaction: if it raises, nothing of it is stored, but other blocks are."""
        if not self.ledger.started:  # an earlier block was rolled back
            self._update_ledger(transaction)
        before = self.ledger.sequence
        try:
            with transaction.part():
                yield
        except BaseException:
            if self.ledger.sequence != before:
                self.ledger = Ledger()  # it followed events that were rolled back
            raise

    def append(self, transaction: T, actor: str, kind: str, payload: Mapping[str, Any]) -> None:
        """Append an event; the ledger follows it without reading it back."""
        self.ledger.follow([transaction.append(actor, kind, payload)])

    def read(self) -> Ledger:
        """Return the updated ledger."""
        with self.reading():
            return self.ledger

    def _update_ledger(self, transaction: T) -> Ledger:
        try:
            self.ledger.follow(transaction.events(self.ledger))
        except BaseException:
            self.ledger = Ledger()  # it may have followed only some of the events
            raise
        return self.ledger

    # -- opening rounds -----------------------------------------------------------------------------------------

    def open_round(self, annotator: str | None = None, rounds: int = 0, most: int | None = None) -> bool:
        """Open the next round in its own transactions; see ``observal.Session.open_round``.

        Until there are `rounds` rounds, the next one is chosen ahead even if the last one has open rows. It
        may be cut to `most` rows.
        """
        while True:
            # Rows are chosen while others can write, and again if an answer they depend on has changed
            # meanwhile.
            with self.reading() as reading:
                ledger = self.ledger
                if annotator is not None:
                    check_annotator(annotator, ledger.overlap)
                if ledger.stop_reason or not self._needs_round(annotator, rounds):
                    return not ledger.stop_reason
                inputs = self._plan_inputs()
                kind, payload = self.next_event(reading, most)
                if ledger.open_rows and kind != "round":
                    return True
            with self.writing() as writing:
                if self._needs_round(annotator, rounds) and self._plan_inputs() == inputs:
                    self.append(writing, OBSERVAL, kind, payload)

    def _needs_round(self, annotator: str | None, rounds: int) -> bool:
        ledger = self.ledger
        ahead = self.may_plan_ahead(annotator) or (len(ledger.plans) < rounds and self.can_plan_ahead())
        return not ledger.open_rows or ahead

    def can_plan_ahead(self) -> bool:
        """Return whether more rows can be chosen while a round is open.

        Not if undoing an answer reopened a round that the last plan already used: the model would be an older one.
        """
        ledger = self.ledger
        rows_left = ledger.to_buy != 0 and ledger.money_left != 0.0 and len(ledger.round_of) < ledger.settings.pool_rows
        return bool(rows_left and ledger.settings.method.plans_ahead and ledger.closed >= ledger.base)

    def may_plan_ahead(self, annotator: str | None) -> bool:
        """Return whether more rows can be chosen for an annotator who would have to wait for others."""
        return annotator is not None and self.ledger.waits_for_others(annotator) and self.can_plan_ahead()

    def _model_inputs(self) -> tuple[int, int, int, dict[int, int | None]]:
        """Return what the models of all rounds depend on: the pool, the plans, and the labels of closed rounds."""
        ledger, closed = self.ledger, self.ledger.closed
        labels = {row: code for row, code in ledger.labels.items() if ledger.round_of[row] <= closed}
        return ledger.settings.pool_rows, len(ledger.plans), closed, labels

    def _plan_inputs(self) -> tuple[object, ...]:
        """Return what the next plan depends on: the models so far, and the remaining budgets."""
        return *self._model_inputs(), self.ledger.to_buy, self.ledger.money_left

    def next_event(self, transaction: T, most: int | None = None) -> tuple[str, dict[str, Any]]:
        """Return the kind and payload of the next event: the method's next plan, or why there is none.

        While a round is open, the plan is made ahead: by the model of the last closed round, from rows that
        no plan has taken. Whether to stop is checked once after each closed round, but not for a plan of at
        most `most` rows, which must be quick.
        """
        ledger = self.ledger
        reason, closed, to_gain = ledger.stopped, ledger.closed, None
        if not reason and closed > ledger.base and most is None:
            to_gain = self._forecast_gain(transaction)
            reason = self._reason_to_stop(transaction, to_gain)
        plan = Stop(reason) if reason else self.replay(transaction).next_plan(ledger.plans[closed:])
        if isinstance(plan, Stop):
            return "finished", {"reason": plan.reason}
        prices = self.replay(transaction).problem.pool.price
        payable = None
        if prices is not None and (left := ledger.money_left) is not None and plan.asked.size:
            payable = count_payable(prices[plan.asked], left + PRICE_TOLERANCE * left)
            if payable == 0:
                return "finished", {"reason": _explain_small_budget(left, float(prices[plan.asked].max()))}
        limits = [limit for limit in (ledger.to_buy, most, payable) if limit is not None]
        if limits:
            plan = plan.cut(min(limits))
        if ahead := closed < len(ledger.plans):
            plan = replace(
                plan, reasons=tuple(f"{why} (chosen ahead by the model of round {closed})" for why in plan.reasons)
            )
        ids = transaction.pool_ids(plan.asked).tolist()
        payload = {"round": len(ledger.plans) + 1, "ids": ids, "plan": plan, "observal": observal_version()}
        payload |= {"base": closed} if ahead else {}
        payload |= {} if prices is None else {"prices": prices[plan.asked].tolist()}
        if transaction.durable and closed not in ledger.records and (record := self.replay(transaction).record()):
            payload["recorded"] = record
        return "round", payload if to_gain is None else {**payload, "to_gain": to_gain}

    def _forecast_gain(self, transaction: T) -> float | None:
        """Return what the remaining labels may gain, if the stopping rule needs it."""
        settings = self.ledger.settings
        if settings.goals.tolerance is None or not settings.method.stops_early:
            return None
        return self.replay(transaction).still_to_gain()

    def _reason_to_stop(self, transaction: T, to_gain: float | None) -> str:
        """Return why to stop; empty to go on."""
        goals = self.ledger.settings.goals
        forecasts = [*self.ledger.forecasts, *([] if to_gain is None else [Forecast(self.ledger.bought, to_gain)])]
        if goals.tolerance is not None and are_steadily_below(goals.tolerance, forecasts):
            return f"more labels are unlikely to gain more than {100 * goals.tolerance:g} points"
        if goals.width is not None:
            replay = self.replay(transaction)
            error = replay.intervals(replay.closed)["error"]
            if error.high - error.low < goals.width:
                return f"the interval for the error is narrower than {100 * goals.width:g} points"
        return ""

    # -- handing out rows ---------------------------------------------------------------------------------------

    def ask(self, transaction: T, n: int | None, annotator: str) -> Assignment:
        """Hand out at most `n` open rows, first those the annotator already holds.

        If none is open, open a round; if others hold them all, choose the next round ahead.
        """
        ledger = self.ledger
        check_annotator(annotator, ledger.overlap)
        if ledger.open_rows and self.may_plan_ahead(annotator):
            kind, payload = self.next_event(transaction)
            if kind == "round":
                self.append(transaction, OBSERVAL, kind, payload)
        # A plan may ask about no row; then another is made.
        while not ledger.open_rows and not ledger.stop_reason:
            self.append(transaction, OBSERVAL, *self.next_event(transaction))
        self.hand_out(transaction, annotator, n)
        return self.describe_rows(ledger.held_by(annotator)[:n], annotator)

    def hand_out(self, transaction: T, annotator: str, n: int | None) -> None:
        """Give an annotator free rows until they hold `n`, or all of them."""
        n_held = len(self.ledger.held_by(annotator))
        if rows := self.ledger.free_for(annotator, None if n is None else max(0, n - n_held)):
            self.append(transaction, annotator, "asked", {"rows": rows})

    def release(self, transaction: T, annotator: str) -> int:
        """Take back the open rows that an annotator holds; return how many."""
        rows = self.ledger.held_by(annotator)
        if rows:
            self.append(transaction, OBSERVAL, "released", {"annotator": annotator, "rows": rows})
        return len(rows)

    def describe_rows(self, positions: list[int], annotator: str) -> Assignment:
        """Return asked pool rows with how they were chosen; if there are none, why the annotator has none."""
        ledger = self.ledger
        if not positions:
            return Assignment([], [], [], [], [], [], why_nothing(ledger, annotator))
        rounds, chances, reasons = [ledger.round_of[position] for position in positions], [], []
        for position, round_ in zip(positions, rounds, strict=True):
            plan = ledger.plans[round_ - 1]
            at = int(np.flatnonzero(plan.positions == position)[0])
            chances.append(float(plan.query_probability[at]))
            reasons.append(plan.reasons[plan.reason[at]])
        models = [ledger.bases[round_ - 1] for round_ in rounds]
        note = why_ahead(ledger, max(rounds))
        return Assignment(positions, [ledger.ids[p] for p in positions], rounds, models, chances, reasons, note)

    # -- answers ------------------------------------------------------------------------------------------------

    def tell(self, transaction: T, answers: Sequence[WrittenAnswer], annotator: str, correct: bool = False) -> Receipt:
        """Store answers; if one is invalid, reject all. With `correct`, an answer may replace an earlier one."""
        check_annotator(annotator, self.ledger.overlap)
        return self._store(transaction, annotator, self._find_changes(transaction, answers, annotator, correct))

    def _find_changes(
        self, transaction: T, answers: Sequence[WrittenAnswer], annotator: str, correct: bool
    ) -> _Changes:
        def pool_ids() -> Sequence[object]:
            ids: list[object] = transaction.pool_ids(np.arange(self.ledger.settings.pool_rows)).tolist()
            return ids

        return _find_changes(answers, self.ledger, annotator, correct, pool_ids)

    def tell_file(
        self,
        transaction: T,
        path: str | Path,
        annotator: str,
        correct: bool,
        text: str | bytes | None,
        format_: TableFormat,
    ) -> Receipt:
        """Store the answers in a file, or in its content `text`; an empty label means "not yet"."""
        answers, blank = self._read_answers(path, text, format_)
        receipt = self.tell(transaction, answers, annotator, correct)
        return replace(receipt, blank=receipt.blank + blank)

    def knows_file(self, transaction: T, path: str | Path, annotator: str) -> bool:
        """Return whether a file has answers and all are already stored; False if it cannot be read as answers."""
        try:
            answers, _ = self._read_answers(path, None, TableFormat())
            changes = self._find_changes(transaction, answers, annotator, correct=True)
        except (ObservalError, OSError):
            return False
        return changes.unchanged > 0 and not (changes.new or changes.corrected)

    def _read_answers(
        self, path: str | Path, text: str | bytes | None, format_: TableFormat
    ) -> tuple[list[WrittenAnswer], int]:
        settings = self.ledger.settings
        blank_words = () if settings.format is None else settings.format.missing
        format_ = replace(format_, missing=(*blank_words, *format_.missing))
        return read_answers(path, settings.id, settings.label, text, format_)

    def tell_own(self, transaction: T, answers: Sequence[WrittenAnswer], annotator: str) -> Receipt:
        """Store answers from the page or another tool: annotators may change their own answers, never another's.

        With an overlap of 1, another annotator may have answered first. The answer is then stored next to theirs.
        """
        check_annotator(annotator, self.ledger.overlap)
        return self._store(transaction, annotator, _find_own_changes(answers, self.ledger, annotator))

    def _store(self, transaction: T, annotator: str, changes: _Changes) -> Receipt:
        kinds = {"answered": changes.new, "late": changes.late, "corrected": changes.corrected}
        for kind, answers in kinds.items():
            if answers:
                self.append(transaction, annotator, kind, {"answers": answers})
        skips = sum(code is None for _, code in changes.new + changes.late)
        labels = len(changes.new) + len(changes.late) - skips
        return Receipt(labels, skips, len(changes.corrected), changes.unchanged, changes.blank)

    def undo(self, transaction: T, annotator: str, id_: object = None) -> Undone | None:
        """Take back an annotator's answer to a row, by default the latest; see ``observal.Session.undo``."""
        ledger = self.ledger
        position = ledger.latest_of(annotator) if id_ is None else ledger.find(id_)
        if position is None or not ledger.can_undo(position, annotator):
            return None
        code = ledger.responses[position][annotator]
        self.append(transaction, annotator, "undone", {"answers": [(position, code)]})
        return Undone(ledger.ids[position], None if code is None else ledger.settings.classes[code])

    def decide(self, transaction: T, id_: object, label: object, annotator: str) -> None:
        """Decide a row's label; see ``observal.Session.decide``."""
        check_annotator(annotator, 1)
        codes, blank = _read_codes([WrittenAnswer(id_, label, "the decision")], self.ledger)
        if blank:
            raise InvalidLabel(f"Row {str(id_)!r} needs a label, but none was given; name a class.")
        ((position, (_, code)),) = codes.items()
        answer = (position, self.ledger.labels.get(position), code)
        self.append(transaction, annotator, "decided", {"answers": [answer]})

    def flag(self, transaction: T, id_: object, text: str, annotator: str) -> None:
        """Flag a row for others to look at; see ``observal.Session.flag``."""
        check_annotator(annotator, 1)
        position = self.ledger.find(id_)
        if position is None:
            raise UnknownRow(f"Row {str(id_)!r} was never asked about, so it was not flagged; correct the id.")
        text = " ".join(text.split())
        if len(text) > MAX_COMMENT:
            raise InvalidInput(
                f"A comment may have at most {MAX_COMMENT} characters, but this one has {len(text)}; shorten it."
            )
        self.append(transaction, annotator, "flagged", {"rows": [position], "text": text})

    # -- checking the error on new rows -------------------------------------------------------------------------

    def sample(
        self, transaction: T, actor: str, table: str, n_rows: int, ids: Sequence[str], predicted: Sequence[int]
    ) -> Sample:
        """Record that rows of a new table were drawn at random to check the error, and the model's predictions."""
        payload = {"table": table, "rows": n_rows, "ids": list(ids), "predicted": list(predicted)}
        self.append(transaction, actor, "sampled", payload)
        return self.ledger.samples[-1]

    def verify_file(self, transaction: T, path: str | Path, actor: str) -> Sample:
        """Store a file's answers for the latest sample with its rows; they train nothing and replace earlier ones."""
        return self.verify(transaction, self._read_answers(path, None, TableFormat())[0], actor)

    def verify(self, transaction: T, answers: Sequence[WrittenAnswer], actor: str) -> Sample:
        """Store answers for the latest sample that has their rows; see ``verify_file``."""
        ledger = self.ledger
        if not ledger.samples:
            raise UnknownRow("No rows were drawn to check the error; draw some first (observal monitor … -o FILE).")
        number = len(ledger.samples)
        for earlier in range(number, 0, -1):
            known = {*ledger.samples[earlier - 1].ids}
            if answers and all(str(answer.id).strip() in known for answer in answers):
                number = earlier
                break
        sample = ledger.samples[number - 1]
        codes = _read_sample_codes(answers, sample, ledger.settings.classes)
        new = [(place, code) for place, (_, code) in codes.items() if sample.answers.get(sample.ids[place], -1) != code]
        if new:
            self.append(transaction, actor, "verified", {"sample": number, "answers": new})
        return sample

    # -- a higher budget and more rows --------------------------------------------------------------------------

    def raise_budget(
        self, transaction: T, label_budget: int | None, actor: str, budget_cost: float | None = None
    ) -> None:
        """Raise the label budget, the cost budget, or both to these totals."""
        self.append(transaction, actor, "extended", self._raise_budgets(label_budget, budget_cost))

    def add_rows(
        self,
        read_rows: Callable[[T], Callable[[T], dict[str, Any]]],
        label_budget: int | None,
        actor: str,
        budget_cost: float | None = None,
    ) -> None:
        """Add rows to the pool in its own transactions, and raise the budgets that are given.

        `read_rows` takes a read transaction and returns a function that stores the rows in a write
        transaction and returns the event's description of them.
        """
        while True:
            # Reading and fitting are slow, so others can write meanwhile; it is done again if the models have
            # changed.
            with self.reading() as reading:
                self._raise_budgets(label_budget, budget_cost)
                inputs = self._model_inputs()
                write_rows = read_rows(reading)
            with self.writing() as writing:
                if self._model_inputs() != inputs:
                    continue
                budgets = self._raise_budgets(label_budget, budget_cost)  # another writer may have raised them
                self.append(writing, actor, "extended", {**budgets, **write_rows(writing)})
                return

    def _raise_budgets(self, label_budget: int | None, budget_cost: float | None) -> dict[str, int | float]:
        """Return an event's entries for higher budgets; reject one that is not higher than the current one."""
        settings, raised = self.ledger.settings, dict[str, int | float]()
        if label_budget is not None:
            raised["label_budget"] = check_whole(label_budget, "label_budget", 0)
            none = "There is no label budget, so it cannot be raised; just keep asking."
            _require_higher(settings.label_budget, label_budget, none, "The label budget is {} and")
        if budget_cost is not None:
            raised["budget_cost"] = check_number(budget_cost, "budget_cost", 0.0)
            none = "Nothing limits what labels may cost, so it cannot be raised; just go on asking."
            _require_higher(settings.budget_cost, raised["budget_cost"], none, "Labels may cost {} and this", money)
        return raised

    # -- readings -----------------------------------------------------------------------------------------------

    def history(self, transaction: T) -> list[Entry]:
        """Return the journal in words, the first event first."""
        return describe_events(transaction.events(Ledger()), self.ledger)

    def problem(self, transaction: T, with_ids: bool = True) -> Problem:
        """Return log and pool, with the executor for rows in Parquet; a cluster is started once, if needed."""
        problem = transaction.problem(self.ledger.settings, with_ids)
        if self.executor is None or not problem.in_parts:
            return problem
        self.executor = executor_of(self.executor)
        return problem.using(self.executor)

    def replay(self, transaction: T) -> Replay:
        """Return the method's states up to the last closed round."""
        settings = self.ledger.settings
        if self._replay is None or len(self._replay.problem.pool) != settings.pool_rows:
            self._replay = start_replay(self.problem(transaction, with_ids=False), settings)
        elif self._budgets != (settings.label_budget, settings.budget_cost):  # a budget was raised
            self._replay = start_replay(self._replay.problem, settings)
        self._budgets = settings.label_budget, settings.budget_cost
        ledger, stored = self.ledger, list[StoredFit]()
        if transaction.durable:
            keys = {k: fit_key(ledger, k) for k in (0, ledger.closed)}
            if keys != self._keys:
                stored = transaction.stored_fits(partial(fit_key, ledger), ledger.closed)
            self._keys = keys
        self._replay.follow(ledger.plans, ledger.labels, ledger.bases, stored)
        if self.on_fit is not None and not self._replay.is_fitted:
            self.on_fit(self._replay.labels)
        return self._replay

    def result(self, transaction: T, fit_all: bool = True) -> RunResult:
        """Return the results so far; for `fit_all=False` see ``observal.Session.recorded_result``."""
        replay = self.replay(transaction)
        records = [None] * (replay.closed + 1) if fit_all else self._list_records(replay)
        rounds = tuple(
            replay.recorded_round(k, record) if record else replay.round(k) for k, record in enumerate(records)
        )
        decisions, codes = self._list_decisions(transaction, self.ledger.plans[: replay.closed])
        bought = np.array([code is not None for code in codes], dtype=bool)
        queries = {name: decisions[name][bought] for name in ("id", "round", "query_probability")}
        label = replay.problem.logged.classes[[code for code in codes if code is not None]]
        return RunResult(
            rounds[-1].estimator,
            rounds,
            Table(**queries, label=label, reason=decisions["reason"][bought]),
            decisions,
            replay.intervals(replay.closed),
            self.ledger.stopped or "not finished",
        )

    def error_history(self, transaction: T, points: int, name: str = "error") -> list[tuple[int, Interval]]:
        """Return the error after some of the rounds; see ``observal.Session.error_history``."""
        replay = self.replay(transaction)
        rounds = sorted({round(i * replay.closed / points) for i in range(points + 1)})
        return [(replay.bought(k), self.error_after(replay, k, name)) for k in rounds]

    def error_after(self, replay: Replay, k: int, name: str = "error") -> Interval:
        """Return the interval of a measure after a closed round: as recorded, or else computed."""
        record = self._list_records(replay)[k]
        known = {} if record is None else {"error": record.error, **dict(record.objective)}
        intervals = replay.stretch_intervals(k, {name: known[name]}) if name in known else replay.intervals(k)
        return intervals[name]

    def first_measures(self, transaction: T) -> dict[str, Interval]:
        """Return intervals with the log alone; see ``observal.Session.first_measures``."""
        replay = self.replay(transaction)
        record, names = self._list_records(replay)[0], judged_by(replay.problem.goals.objective)
        intervals = (
            {} if record is None else replay.stretch_intervals(0, {"error": record.error, **dict(record.objective)})
        )
        if not intervals.keys() >= set(names):
            intervals = dict(replay.intervals(0))
        return {name: intervals[name] for name in names if name in intervals}

    def _list_records(self, replay: Replay) -> list[Recorded | None]:
        """Return the record of each closed round; None for the last one, which is always fitted."""
        return [*(self.ledger.records.get(k) for k in range(replay.closed)), None]

    def _list_decisions(self, transaction: T, plans: list[Plan]) -> tuple[Table, list[int | None]]:
        """Return every decision of some rounds, and each row's class code, None without a label."""
        positions = _concatenate([plan.positions for plan in plans], np.int64)
        table = Table(
            id=transaction.pool_ids(positions),
            round=_concatenate([np.full(p.positions.size, k) for k, p in enumerate(plans, start=1)], np.int64),
            query_probability=_concatenate([plan.query_probability for plan in plans], np.float64),
            action=ACTION_NAMES[_concatenate([plan.action for plan in plans], np.int8)],
            reason=_concatenate([np.asarray(p.reasons, dtype=object)[p.reason] for p in plans], object),
        )
        return table, [self.ledger.labels.get(p) for p in positions.tolist()]


def count_payable(prices: Floats, left: float) -> int:
    """Return how many rows of a round the remaining money covers, even if they are its most expensive ones.

    The number depends on which rows were drawn, not on their random order, so each row is equally likely to
    be kept, and ``Plan.cut`` lowers all selection probabilities by the same factor. Asking in order until a
    row is too expensive would drop expensive rows more often than the recorded probabilities say. What is
    left pays for another round, until it does not cover the most expensive row of one.

    Examples
    --------
    >>> count_payable(np.array([1.0, 5.0, 1.0, 3.0]), 9.0), count_payable(np.array([1.0, 5.0]), 4.0)
    (3, 0)
    """
    return int(np.searchsorted(np.cumsum(np.sort(prices)[::-1]), left, side="right"))


def _require_higher(
    before: float | None, given: float, none: str, now: str, write: Callable[[float], str] = str
) -> None:
    """Reject a budget that is not higher than the current one; `none` is the message if there is none."""
    if before is None:
        raise InvalidInput(none)
    if given <= before:
        raise InvalidInput(
            f"{now.format(write(before))} can only be raised, but {write(given)} was given; give the new total."
        )


def _explain_small_budget(left: float, price: float) -> str:
    return f"the {money(left)} left do not pay for the dearest of the rows chosen next, which costs {money(price)}"


def _concatenate(parts: list[NDArray[Any]], dtype: type) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, dtype)])


# -- what answers would change, determined before anything is stored ----------------------------------------------


@dataclass(frozen=True)
class _Changes:
    """New answers, corrected answers, counts of unchanged and blank ones, and answers that came too late."""

    new: list[tuple[int, int | None]] = field(default_factory=list)
    corrected: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    unchanged: int = 0
    blank: int = 0
    late: list[tuple[int, int | None]] = field(default_factory=list)


def _find_changes(
    answers: Sequence[WrittenAnswer],
    ledger: Ledger,
    annotator: str,
    correct: bool,
    pool_ids: Callable[[], Sequence[object]],
) -> _Changes:
    """Return what an annotator's answers would change; if one is invalid, reject all and say where it is.

    `pool_ids` returns all ids of the pool. It is called only if an id as written was never asked about.
    """
    new: list[tuple[int, int | None]] = []
    corrected: list[tuple[int, int | None, int | None]] = []
    codes, blank = _read_codes(answers, ledger, pool_ids)
    for position, (answer, code) in codes.items():
        replaces, before = ledger.response(position, annotator)
        if replaces and before == code:
            continue
        if replaces and before is not None:
            if not correct:
                raise ConflictingAnswer(
                    f"{answer.where}: row {str(answer.id)!r} already has the label {ledger.settings.classes[before]!r}, but "
                    f"{'a skip' if code is None else answer.label!r} was told and nothing was stored; pass --correct (correct=True) "
                    "to correct it, or remove the row."
                )
            corrected.append((position, before, code))
        else:
            new.append((position, code))
    return _Changes(new, corrected, len(codes) - len(new) - len(corrected), blank)


def _find_own_changes(answers: Sequence[WrittenAnswer], ledger: Ledger, annotator: str) -> _Changes:
    """Return what an annotator's answers would change if they may replace only their own."""
    changes = _Changes()
    codes, _ = _read_codes(answers, ledger)
    unchanged = 0
    for position, (_, code) in codes.items():
        responses = ledger.responses.get(position, {})
        first = next(iter(responses), annotator)
        if annotator in responses and responses[annotator] == code:
            unchanged += 1
        elif ledger.overlap == 1 and first != annotator:
            changes.late.append((position, code))
        elif annotator in responses:
            changes.corrected.append((position, responses[annotator], code))
        else:
            changes.new.append((position, code))
    return replace(changes, unchanged=unchanged)


def _read_codes(
    answers: Sequence[WrittenAnswer], ledger: Ledger, pool_ids: Callable[[], Sequence[object]] | None = None
) -> tuple[dict[int, tuple[WrittenAnswer, int | None]], int]:
    """Return each row's answer and its class code by pool position, and the number of blank rows."""
    changed_ids: ChangedIds | None = None

    def find(answer: WrittenAnswer) -> int | None:
        nonlocal changed_ids
        position = ledger.find(answer.id)
        if position is None and answer.cell is not None:
            position = ledger.find(answer.cell)
        if position is None and pool_ids is not None:  # a page sends ids unchanged; a spreadsheet may not
            changed_ids = changed_ids or ChangedIds(pool_ids())
            position = _find_changed_id(answer, changed_ids, ledger.ids)
        return position

    return _code_answers(answers, ledger.settings.classes, find)


def _read_sample_codes(
    answers: Sequence[WrittenAnswer], sample: Sample, classes: Sequence[Any]
) -> dict[int, tuple[WrittenAnswer, int | None]]:
    """Return the class code of each answer by its row's position in a sample."""
    places = {id_: place for place, id_ in enumerate(sample.ids)}
    changed_ids = ChangedIds(sample.ids)

    def find(answer: WrittenAnswer) -> int | None:
        forms = (str(answer.id), str(answer.id).strip(), answer.cell or "")
        place = next((places[form] for form in forms if form in places), None)
        return _find_changed_id(answer, changed_ids, dict(enumerate(sample.ids))) if place is None else place

    return _code_answers(answers, classes, find)[0]


def _code_answers(
    answers: Sequence[WrittenAnswer], classes: Sequence[Any], find: Callable[[WrittenAnswer], int | None]
) -> tuple[dict[int, tuple[WrittenAnswer, int | None]], int]:
    """Return each row's answer and class code by where `find` locates the row, and the number of blank rows."""
    code_of = LabelReader(classes)
    codes: dict[int, tuple[WrittenAnswer, int | None]] = {}
    blank = 0
    for answer in answers:
        position = find(answer)
        if position is None:
            raise UnknownRow(
                f"{answer.where}: row {str(answer.id)!r} was never asked about and nothing was stored; correct the id or "
                "remove the row."
            )
        try:
            code = code_of(answer.label)
        except LookupError:
            if isinstance(answer.label, str) and not answer.label.strip():
                blank += 1
                continue
            raise InvalidLabel(
                f"{answer.where}: {answer.label!r} is not one of the classes {code_of.classes} and nothing was stored; "
                "correct it, write skip to skip the row, or leave it blank for now."
            ) from None
        first, first_code = codes.setdefault(position, (answer, code))
        if first_code != code:
            raise ConflictingAnswer(
                f"{answer.where}: row {str(answer.id)!r} has a different label in {first.where} and nothing was stored; keep "
                "one of the two."
            )
    return codes, blank


def _find_changed_id(answer: WrittenAnswer, changed_ids: ChangedIds, ids: Mapping[int, Any]) -> int | None:
    """Return the row whose id a spreadsheet changed to this one; reject ambiguous ids."""
    alike = changed_ids.find(str(answer.id))
    asked = [position for position in alike if position in ids]
    if not asked:
        return None
    if len(alike) > 1:
        raise UnknownRow(
            f"{answer.where}: row {str(answer.id)!r} may be one of {len(alike)} rows, {str(ids[asked[0]])!r} among them, and "
            "nothing was stored; write the id as ask wrote it."
        )
    return asked[0]

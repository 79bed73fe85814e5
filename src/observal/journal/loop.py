"""Ask, tell, release, status, history, rounds, result: the verbs of a session and of a campaign, over any journal.

This is the only place where state changes, and it changes by appending to the journal. Every verb that changes something is
one transaction: when it returns, its changes are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints, check_whole
from observal.errors import InvalidInput
from observal.journal.answers import WrittenAnswer, read_answers, written
from observal.journal.events import OBSERVAL, Event, goals_of
from observal.journal.history import entries
from observal.journal.ledger import Ledger
from observal.journal.replay import Replay
from observal.journal.results import Entry, Receipt, Status, Undone
from observal.journal.settings import ANYONE, check_annotator, observal_version
from observal.journal.status import status_of, why_ahead, why_nothing
from observal.journal.telling import Changes, own_changes, read_one, validate_answers
from observal.problem import Problem
from observal.tables.formats import Format
from observal.types import ACTION_NAMES, Interval, Plan, Recorded, Round, RunResult, Stop, Table


class Transaction(Protocol):
    """What a journal offers while it is read or written; `durable` says whether another process may read it later."""

    durable: bool

    def events(self, ledger: Ledger) -> list[Event]:
        """Return the events that a ledger has not followed yet."""
        ...

    def append(self, actor: str, kind: str, payload: Mapping[str, Any]) -> Event:
        """Add an event and return it; it counts once the block has ended."""
        ...

    def problem(self, settings: Mapping[str, Any], with_ids: bool = True) -> Problem:
        """Return log and pool; without ids, rows may be numbered instead."""
        ...

    def pool_ids(self, positions: Ints) -> NDArray[Any]:
        """Return the ids of some pool rows."""
        ...


class Journal(Protocol):
    """Where events are stored: in memory or in a database."""

    name: str

    def reading(self) -> AbstractContextManager[Any]:
        """Yield a :class:`Transaction` that sees one state and changes nothing."""
        ...

    def writing(self) -> AbstractContextManager[Any]:
        """Yield a :class:`Transaction` that no other writer overlaps; a block that raises stores nothing."""
        ...


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


class LabelLoop:
    """Buying labels over a journal. The public classes are :class:`observal.Session` and :class:`observal.Campaign`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ledger = Ledger()
        self._replay: Replay | None = None
        self._executor: Any = None  # who reads and computes on rows that stay in Parquet

    # -- changing -----------------------------------------------------------------------------------------------

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
        rows = ledger.held_by(annotator)
        more = ledger.free_for(annotator, None if n is None else max(0, n - len(rows)))
        if more:
            self._append(transaction, annotator, "asked", {"rows": more})
        return self._shown(ledger.held_by(annotator)[:n], annotator)

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
            every = np.arange(self._ledger.settings["pool_rows"])
            changes = validate_answers(
                answers, self._ledger, annotator, correct, lambda: transaction.pool_ids(every).tolist()
            )
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
            rows = self._ledger.held_by(annotator)
            if rows:
                self._append(transaction, OBSERVAL, "released", {"annotator": annotator, "rows": rows})
            return len(rows)

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
        check_whole("label_budget", label_budget, 0)
        before = self._ledger.settings["label_budget"]
        if before is None:
            raise InvalidInput("There is no label budget, so it cannot be raised; just go on asking.")
        if label_budget <= before:
            raise InvalidInput(
                f"The label budget is {before} and can only be raised, but {label_budget} was given; give the new total."
            )
        return {"label_budget": int(label_budget)}

    # -- reading ------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return the progress so far; nothing is fitted."""
        return status_of(self._read())

    def history(self) -> list[Entry]:
        """Return the journal in words, the first event first."""
        with self._journal.reading() as transaction:
            ledger = self._follow(transaction)
            return entries(transaction.events(Ledger()), ledger)

    @property
    def settings(self) -> dict[str, Any]:
        """What the session or campaign was made with: the payload of the journal's first event, with the current label budget."""
        return dict(self._read().settings)

    @property
    def problem(self) -> Problem:
        """Log and pool."""
        with self._journal.reading() as transaction:
            problem: Problem = transaction.problem(self._follow(transaction).settings)
            return problem.using(self._executor)

    @property
    def labels(self) -> int:
        """Labels bought so far, including those of the open round."""
        return self._read().bought

    @property
    def stopped(self) -> str:
        """Why nothing is left to ask; empty if there may be more to ask."""
        return self._read().stopped

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask: the budget is spent, or the last ``ask`` found nothing."""
        return bool(self.stopped)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each round."""
        return tuple(self._read().plans)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The closed rounds; round 0 is the log alone. A round is fitted when it is first read."""
        replay = self._replayed()
        return tuple(replay.round(k) for k in range(replay.closed + 1))

    @property
    def estimator(self) -> Any:
        """The classifier after the last closed round."""
        replay = self._replayed()
        return replay.estimator(replay.closed)

    @property
    def returned_round(self) -> int | None:
        """The earlier round that `estimator` is from, because it makes credibly fewer mistakes; None if it is from the last one."""
        replay = self._replayed()
        return replay.returned(replay.closed)

    def intervals(self, round_: int = -1) -> dict[str, Interval]:
        """Return intervals for the classifier of a closed round on the whole population, from the labels up to that round."""
        replay = self._replayed()
        return dict(replay.intervals(range(replay.closed + 1)[round_]))

    def may_gain(self, labels: int) -> float | None:
        """Return by how much so many more labels may lower the error; None before 100 labels were bought."""
        return self._replayed().still_to_gain(labels)

    def judged(self) -> Any:
        """Return the labelled rows (numbered as in a Problem), their classes, what fits that have not seen them say, and their weights.

        None where the method cannot tell.
        """
        return self._replayed().judged()

    def result(self) -> RunResult:
        """Return the results so far: the classifier of the last closed round, and every decision up to it."""
        replay = self._replayed()
        return self._result(tuple(replay.round(k) for k in range(replay.closed + 1)))

    def recorded_result(self) -> RunResult:
        """Return the results so far, as :meth:`result` does, but rounds that are on record have no classifier and are not fitted."""
        replay = self._replayed()
        known = enumerate(self._known(replay))
        return self._result(tuple(replay.recorded_round(k, one) if one else replay.round(k) for k, one in known))

    def error_history(self, points: int) -> list[tuple[int, Interval]]:
        """Return labels bought and the interval for the error after at most `points` + 1 rounds, the first and the last among them."""
        replay = self._replayed()
        known, last = self._known(replay), replay.closed
        history = []
        for k in sorted({round(i * last / points) for i in range(points + 1)}):
            found, one = replay.intervals(k), known[k]
            error = found["error"] if one is None else replay.stretched(k, {"error": one.error})["error"]
            history.append((replay.bought(k), error))
        return history

    def _known(self, replay: Replay) -> list[Recorded | None]:
        """Return what is on record of each closed round; of the last one nothing is, and nothing is needed."""
        known = self._ledger.recorded
        return [*(known.get(k) for k in range(replay.closed)), None]

    def _result(self, rounds: tuple[Round, ...]) -> RunResult:
        replay = self._replayed()
        decisions, codes = self._decisions(self._ledger.plans[: replay.closed])
        bought = np.array([code is not None for code in codes], dtype=bool)
        queries = {name: decisions[name][bought] for name in ("id", "round", "query_probability")}
        label = replay.problem.logged.classes[[code for code in codes if code is not None]]
        return RunResult(
            rounds[-1].estimator,
            rounds,
            Table(**queries, label=label, reason=decisions["reason"][bought]),
            decisions,
            replay.intervals(replay.closed),
            self._ledger.stopped or "not finished",
        )

    def _decisions(self, plans: list[Plan]) -> tuple[Table, list[int | None]]:
        """Return every decision of some rounds, and the class code of each row; None if it has no label."""
        positions = _joined([plan.positions for plan in plans], np.int64)
        with self._journal.reading() as transaction:
            ids = transaction.pool_ids(positions)
        table = Table(
            id=ids,
            round=_joined([np.full(p.positions.size, k) for k, p in enumerate(plans, start=1)], np.int64),
            query_probability=_joined([plan.query_probability for plan in plans], np.float64),
            action=ACTION_NAMES[_joined([plan.action for plan in plans], np.int8)],
            reason=_joined([np.asarray(p.reasons, dtype=object)[p.reason] for p in plans], object),
        )
        return table, [self._ledger.labels.get(p) for p in positions.tolist()]

    # -- machinery ----------------------------------------------------------------------------------------------

    def _read(self) -> Ledger:
        with self._journal.reading() as transaction:
            return self._follow(transaction)

    def _follow(self, transaction: Transaction) -> Ledger:
        """Read on in the journal."""
        try:
            self._ledger.follow(transaction.events(self._ledger))
        except BaseException:
            self._ledger = Ledger()  # it may have followed some of the events
            raise
        return self._ledger

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

    def _replayed(self, transaction: Transaction | None = None) -> Replay:
        """Return the method's states up to the last closed round."""
        if transaction is None:
            with self._journal.reading() as reading:
                self._follow(reading)
                return self._replayed(reading)
        settings = self._ledger.settings
        if self._replay is None or len(self._replay.problem.pool) != settings["pool_rows"]:
            problem = transaction.problem(settings, with_ids=False)
            self._replay = replay_of(problem.using(self._executor), settings)
        elif self._replay.label_budget != settings["label_budget"]:  # it was raised
            self._replay = replay_of(self._replay.problem, settings)
        self._replay.follow(self._ledger.plans, self._ledger.labels, self._ledger.bases)
        return self._replay

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
        able = getattr(ledger.settings["method"], "plans_ahead", False) and ledger.to_buy != 0
        return bool(
            able and annotator is not None and ledger.waits_for_others(annotator) and ledger.closed >= ledger.base
        )

    def _plan_depends_on(self) -> Any:
        """Return what the next plan depends on: the plans, the labels of closed rounds, and how many more may be bought."""
        ledger, closed = self._ledger, self._ledger.closed
        known = {row: code for row, code in ledger.labels.items() if ledger.round_of[row] <= closed}
        return len(ledger.plans), closed, known, ledger.to_buy

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
        if goals_of(settings).tolerance is None or not getattr(settings["method"], "stops_early", False):
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


def replay_of(problem: Problem, settings: Mapping[str, Any]) -> Replay:
    """Return the replay of a session or campaign with these settings."""
    return Replay(problem, settings["method"], settings["seed"], goals_of(settings), settings["label_budget"])


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, dtype)])

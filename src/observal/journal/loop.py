"""Ask, tell, release, status, history, rounds, result: the verbs of a session and of a campaign, over any journal.

This is the only place where state changes, and it changes by appending to the journal. Every verb that changes something is
one transaction: when it returns, its changes are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints
from observal.journal.answers import WrittenAnswer, read_answers, written
from observal.journal.events import OBSERVAL, Event, goals_of
from observal.journal.history import entries
from observal.journal.ledger import Ledger
from observal.journal.replay import Replay
from observal.journal.results import Entry, Receipt, Status
from observal.journal.settings import ANYONE, check_annotator, observal_version
from observal.journal.status import status_of, why_nothing
from observal.journal.telling import validate_answers
from observal.problem import Problem
from observal.types import ACTION_NAMES, Interval, Plan, Round, RunResult, Stop, Table


class Transaction(Protocol):
    """What a journal offers while it is read or written."""

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
    """The rows that an annotator holds now; if there are none, `note` says why."""

    positions: list[int]
    ids: list[Any]
    round: int
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
        """Hand out at most `n` open rows, first those the annotator already holds; open a round if none is open."""
        ledger = self._ledger
        check_annotator(annotator, ledger.overlap)
        if not ledger.open_rows and not ledger.recorded_stop:
            self._open_round(transaction)
        rows = ledger.held_by(annotator)
        more = ledger.free_for(annotator)[: None if n is None else max(0, n - len(rows))]
        if more:
            self._append(transaction, annotator, "asked", {"rows": more})
        return self._shown(ledger.held_by(annotator)[:n], annotator)

    def _shown(self, positions: list[int], annotator: str) -> Asked:
        ledger = self._ledger
        if not positions:
            return Asked([], [], len(ledger.plans), [], [], why_nothing(ledger, annotator))
        plan = ledger.plans[-1]
        place = {p: i for i, p in enumerate(plan.positions.tolist())}
        at = [place[p] for p in positions]
        reasons = [plan.reasons[code] for code in plan.reason[at]]
        ids = [ledger.ids[p] for p in positions]
        return Asked(positions, ids, len(ledger.plans), plan.query_probability[at].tolist(), reasons, "")

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
        self, path: str | Path, annotator: str = ANYONE, correct: bool = False, text: str | bytes | None = None
    ) -> Receipt:
        """Store the answers in a CSV or JSON file, as :meth:`tell` does; an empty label means "not yet".

        `text` is the content, if it has already been read.
        """
        settings = self._read().settings
        answers, blank = read_answers(path, settings["id"], settings["label"], text)
        return self._tell(answers, blank, annotator, correct)

    def _tell(self, answers: list[WrittenAnswer], blank: int, annotator: str, correct: bool) -> Receipt:
        with self._writing() as transaction:
            check_annotator(annotator, self._ledger.overlap)
            changes = validate_answers(answers, self._ledger, annotator, correct)
            if changes.new:
                self._append(transaction, annotator, "answered", {"answers": changes.new})
            if changes.corrected:
                self._append(transaction, annotator, "corrected", {"answers": changes.corrected})
        skips = sum(code is None for _, code in changes.new)
        stored = len(changes.new) - skips
        return Receipt(stored, skips, len(changes.corrected), changes.unchanged, blank + changes.blank)

    def release(self, annotator: str) -> int:
        """Take back the open rows that an annotator holds, so others can label them; return how many."""
        with self._writing() as transaction:
            rows = self._ledger.held_by(annotator)
            if rows:
                self._append(transaction, OBSERVAL, "released", {"annotator": annotator, "rows": rows})
            return len(rows)

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
        """What the session or campaign was made with: the payload of the journal's first event."""
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
        """The classifier of the last closed round."""
        replay = self._replayed()
        return replay.estimator(replay.closed)

    def intervals(self, round_: int = -1) -> dict[str, Interval]:
        """Return intervals for the classifier of a closed round on the whole population, from the labels up to that round."""
        replay = self._replayed()
        return dict(replay.intervals(range(replay.closed + 1)[round_]))

    def result(self) -> RunResult:
        """Return the results so far: the classifier of the last closed round, and every decision up to it."""
        replay = self._replayed()
        rounds = tuple(replay.round(k) for k in range(replay.closed + 1))
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
        try:
            with self._journal.writing() as transaction:
                self._follow(transaction)
                yield transaction
        except BaseException:
            self._ledger = Ledger()  # it may have followed events that were then not stored
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
        if self._replay is None:
            problem = transaction.problem(settings, with_ids=False)
            self._replay = replay_of(problem.using(self._executor), settings)
        self._replay.follow(self._ledger.plans, self._ledger.labels)
        return self._replay

    def _open_round(self, transaction: Transaction) -> None:
        """Record the method's next plans, until one has rows to ask about or nothing is left to ask."""
        ledger = self._ledger
        while not ledger.open_rows:
            reason, budget = ledger.stopped, ledger.settings["label_budget"]
            to_gain = None if reason else self._still_to_gain(transaction)
            reason = reason or self._enough(transaction, to_gain)
            plan = Stop(reason) if reason else self._replayed(transaction).next_plan()
            if isinstance(plan, Stop):
                self._append(transaction, OBSERVAL, "finished", {"reason": plan.reason})
                return
            if budget is not None:
                plan = plan.cut(budget - ledger.bought)
            ids = transaction.pool_ids(plan.asked).tolist()
            payload = {"round": len(ledger.plans) + 1, "ids": ids, "plan": plan, "observal": observal_version()}
            if to_gain is not None:
                payload["to_gain"] = to_gain
            self._append(transaction, OBSERVAL, "round", payload)

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

"""What a session or campaign is read through: status, history, rounds, intervals, result, over any journal. Reading changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints
from observal.intervals.measures import judged_by
from observal.journal.events import Event, goals_of
from observal.journal.history import entries
from observal.journal.ledger import Ledger
from observal.journal.replay import Replay
from observal.journal.results import Entry, Status
from observal.journal.status import status_of
from observal.parquet.executors import executor_of
from observal.problem.interval import Interval
from observal.problem.plan import ACTION_NAMES, Plan
from observal.problem.problem import Problem
from observal.problem.result import Recorded, Round, RunResult
from observal.problem.table import Table


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


class JournalReader:
    """Reads a journal as far as it has been written, and fits what is asked for."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ledger = Ledger()
        self._replay: Replay | None = None
        self._executor: Any = None  # what reads and computes on rows that stay in Parquet

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
            return self._computed(problem)

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
        """The earlier round that `estimator` is from, because it very likely makes fewer mistakes; None if it is from the last one."""
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

    def first_measures(self) -> dict[str, Interval]:
        """Return intervals for what the objective is about, with the log alone; they are computed if they are not on record."""
        replay = self._replayed()
        known, names = self._known(replay)[0], judged_by(replay.problem.objective)
        found = {} if known is None else replay.stretched(0, {"error": known.error, **dict(known.objective)})
        if not found.keys() >= set(names):
            found = dict(replay.intervals(0))
        return {name: found[name] for name in names if name in found}

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

    # -- following the journal ----------------------------------------------------------------------------------

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

    def _replayed(self, transaction: Transaction | None = None) -> Replay:
        """Return the method's states up to the last closed round."""
        if transaction is None:
            with self._journal.reading() as reading:
                self._follow(reading)
                return self._replayed(reading)
        settings = self._ledger.settings
        if self._replay is None or len(self._replay.problem.pool) != settings["pool_rows"]:
            problem = transaction.problem(settings, with_ids=False)
            self._replay = replay_of(self._computed(problem), settings)
        elif self._replay.label_budget != settings["label_budget"]:  # it was raised
            self._replay = replay_of(self._replay.problem, settings)
        self._replay.follow(self._ledger.plans, self._ledger.labels, self._ledger.bases)
        return self._replay

    def _computed(self, problem: Problem) -> Problem:
        """Return the problem with whoever reads and computes on rows that stay in Parquet; a cluster is started once, if it is needed."""
        if self._executor is None or not problem.in_parts:
            return problem
        self._executor = executor_of(self._executor)
        return problem.using(self._executor)


def replay_of(problem: Problem, settings: Mapping[str, Any]) -> Replay:
    """Return the replay of a session or campaign with these settings."""
    return Replay(problem, settings["method"], settings["seed"], goals_of(settings), settings["label_budget"])


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, dtype)])

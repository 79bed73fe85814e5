"""Buying labels in memory: ``Session``, and ``run``, a loop around it.

``Labelling`` has the verbs that a session and a campaign share: each call is one transaction of the engine that they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any, Generic, Self

import numpy as np
from numpy.typing import NDArray

from observal.checks import Ints, check_whole
from observal.errors import InvalidInput
from observal.journal.answers import WrittenAnswer, make_answers
from observal.journal.engine import Engine, T
from observal.journal.events import OBSERVAL
from observal.journal.history import Entry
from observal.journal.ledger import Ledger
from observal.journal.memory import MemoryJournal
from observal.journal.receipts import Receipt, Undone
from observal.journal.replay import Replay
from observal.journal.session_file import read_session, write_session
from observal.journal.settings import ANYONE, GivenGoals, Settings, check_annotator, make_settings
from observal.journal.status import Status, status_of
from observal.methods import Method, MethodLike, as_method
from observal.parquet import ExecutorLike
from observal.problem.data import LoggedData, Pool
from observal.problem.given import arrange
from observal.problem.goals import Looks
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.objectives import TOLERANCE
from observal.problem.plan import Plan, Query
from observal.problem.problem import Problem
from observal.problem.result import Round, RunResult
from observal.tables.table_format import TableFormat


class Labelling(Generic[T]):
    """Labels that are being bought. The public classes are ``observal.Session`` and ``observal.Campaign``.

    Attributes
    ----------
    engine : Engine
        Its verbs work inside a transaction that you open, so several of them can be stored together.
    """

    def __init__(self, engine: Engine[T]) -> None:
        self.engine = engine

    # -- answers ------------------------------------------------------------------------------------------------

    def open_round(self, annotator: str | None = None) -> bool:
        """Open the next round if none is open, and return whether there are rows to ask about.

        ``ask`` does this by itself. While rows are being chosen others can write: what was chosen is stored only if no answer that it depends on
        changed in the meantime, and if it is still needed.

        Parameters
        ----------
        annotator : str, optional
            An annotator who waits for rows: if others hold all of them, the next round is chosen ahead.
        """
        return self.engine.open_round(annotator)

    def tell(
        self, ids: Iterable[Any], labels: Iterable[Any] = (), annotator: str = ANYONE, correct: bool = False
    ) -> Receipt:
        """Store answers: all of them or, if one is wrong, none.

        Parameters
        ----------
        ids : iterable
            Ids of rows that were asked about, in any order and of any round; without `labels`, a mapping or pandas series from id to label.
        labels : iterable
            For each id a class, or its text; None, NaN or ``"skip"`` skips the row, and ``""`` means "not yet". A skip does not
            count towards the budget. A label told later replaces it, even if the budget is already spent. A mapping or pandas
            series goes by id, except that one with the default index (0, 1, …) goes by position if those are not the ids.
        annotator : str
            Who answers.
        correct : bool
            Whether an answer may replace an earlier one. Closed rounds keep their decisions and are fitted again.
        """
        answers = make_answers(ids, labels)
        with self.engine.writing() as transaction:
            return self.engine.tell(transaction, answers, annotator, correct)

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
        """Store the answers in a CSV, Excel or JSON file, as ``tell`` does; an empty label means "not yet".

        Ids that a spreadsheet changed (000820 to 820) are recognised where they can mean one row only.

        Parameters
        ----------
        path : path
            The file.
        annotator, correct
            As for ``tell``.
        text : str or bytes, optional
            The content, if it has already been read.
        sep, encoding : str, optional
            What separates the columns of a CSV, and its encoding; detected by default.
        missing : sequence of str
            Words that mean "not yet", besides those that the campaign was made with.
        """
        format_ = TableFormat(sep, None, encoding, tuple(missing))
        with self.engine.writing() as transaction:
            return self.engine.tell_file(transaction, path, annotator, correct, text, format_)

    def knows_file(self, path: str | Path, annotator: str = ANYONE) -> bool:
        """Return whether a file has answers and all of them were told already, so that it can be replaced."""
        with self.engine.reading() as transaction:
            return self.engine.knows_file(transaction, path, annotator)

    def tell_people(self, answers: Mapping[str, list[WrittenAnswer]]) -> Receipt:
        """Store the answers of several people, annotator → answers: all of them or, if one is wrong, none.

        People may change their own answers. With an overlap of 1, an answer to a row that another annotator answered first is kept beside
        theirs.
        """
        with self.engine.writing() as transaction:
            receipts = [self.engine.tell_own(transaction, own, name) for name, own in answers.items()]
        counts = zip(*map(astuple, receipts), strict=True)
        return Receipt(*map(sum, counts)) if receipts else Receipt(0, 0, 0, 0)

    def undo(self, annotator: str = ANYONE) -> Undone | None:
        """Take back an annotator's latest answer or skip that still stands; None if there is none.

        The row is open again, and the annotator holds it. What was told stays in the journal. Undoing again takes back the answer
        before. A row that ``decide`` settled is left alone.
        """
        with self.engine.writing() as transaction:
            return self.engine.undo(transaction, annotator)

    def decide(self, id_: object, label: object, annotator: str = ANYONE) -> None:
        """Settle a row's label, whatever others answered or will answer; None skips it."""
        with self.engine.writing() as transaction:
            self.engine.decide(transaction, id_, label, annotator)

    def flag(self, id_: object, text: str = "", annotator: str = ANYONE) -> None:
        """Flag a row for others to look at, with a comment; its label stays as it is. ``history`` and the page's Review show it."""
        with self.engine.writing() as transaction:
            self.engine.flag(transaction, id_, text, annotator)

    def release(self, annotator: str) -> int:
        """Take back the open rows that an annotator holds, so others can label them; return how many."""
        with self.engine.writing() as transaction:
            return self.engine.release(transaction, annotator)

    def extend(self, label_budget: int | None = None, actor: str = ANYONE, *, budget_cost: float | None = None) -> None:
        """Raise the label budget, or what labels may cost.

        Intervals then hold at all rounds together, however many follow, because there are more rounds than the first budget allowed for.

        Parameters
        ----------
        label_budget : int, optional
            How many labels may be bought in total.
        actor : str
            Who raises it.
        budget_cost : float, optional
            What all labels together may cost.
        """
        check_annotator(actor, 1)
        if label_budget is None and budget_cost is None:
            raise InvalidInput(
                "There is nothing to extend; give a label budget, or what labels may cost (budget_cost=)."
            )
        with self.engine.writing() as transaction:
            self.engine.raise_budget(transaction, label_budget, actor, budget_cost)

    # -- progress, without fitting ------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return the progress so far; nothing is fitted."""
        return status_of(self.engine.read())

    def history(self) -> list[Entry]:
        """Return the journal in words, the first event first."""
        with self.engine.reading() as transaction:
            return self.engine.history(transaction)

    @property
    def settings(self) -> Settings:
        """What the session or campaign was made with: the payload of the journal's first event, with the current label budget."""
        return self.engine.read().settings

    @property
    def problem(self) -> Problem:
        """Log and pool."""
        with self.engine.reading() as transaction:
            return self.engine.problem(transaction)

    @property
    def labels(self) -> int:
        """Labels bought so far, including those of the open round."""
        return self.engine.read().bought

    @property
    def stopped(self) -> str:
        """Why nothing is left to ask; empty if there may be more to ask."""
        return self.engine.read().stopped

    @property
    def finished(self) -> bool:
        """Whether nothing is left to ask: the budget is spent, or the last ``ask`` found nothing."""
        return bool(self.stopped)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plan of each round."""
        return tuple(self.engine.read().plans)

    # -- results, fitted when they are first read ---------------------------------------------------------------

    @contextmanager
    def _replaying(self) -> Iterator[Replay]:
        with self.engine.reading() as transaction:
            yield self.engine.replay(transaction)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The closed rounds; round 0 is the log alone. A round is fitted when it is first read."""
        with self._replaying() as replay:
            return tuple(replay.round(k) for k in range(replay.closed + 1))

    @property
    def estimator(self) -> Any:
        """The classifier after the last closed round."""
        with self._replaying() as replay:
            return replay.estimator(replay.closed)

    @property
    def returned_round(self) -> int | None:
        """The earlier round that `estimator` is from, because it very likely makes fewer mistakes; None if it is from the last one."""
        with self._replaying() as replay:
            return replay.returned_round(replay.closed)

    def intervals(self, round_: int = -1) -> dict[str, Interval]:
        """Return intervals for the classifier of a closed round on the whole population, from the labels up to that round."""
        with self._replaying() as replay:
            return dict(replay.intervals(range(replay.closed + 1)[round_]))

    def may_gain(self, labels: int) -> float | None:
        """Return how much `labels` more labels may lower the error; None before 100 labels were bought."""
        with self._replaying() as replay:
            return replay.still_to_gain(labels)

    def judged(self) -> JudgedRows | None:
        """Return the labelled rows as fits that have not seen them judge them; None where the method cannot tell."""
        with self._replaying() as replay:
            return replay.judged()

    def judged_by_first_model(self) -> Ints | None:
        """Return what the classifier of the log alone predicts for the rows of ``judged``; None where the method cannot tell."""
        with self._replaying() as replay:
            return replay.judged_by_first_model()

    def result(self) -> RunResult:
        """Return the results so far: the classifier of the last closed round, and every decision up to it."""
        with self.engine.reading() as transaction:
            return self.engine.result(transaction)

    def recorded_result(self) -> RunResult:
        """Return the results so far, as ``result`` does, but rounds that are on record have no classifier and are not fitted."""
        with self.engine.reading() as transaction:
            return self.engine.result(transaction, fit_all=False)

    def error_history(self, points: int, name: str = "error") -> list[tuple[int, Interval]]:
        """Return labels bought and the interval for the error after at most `points` + 1 rounds, the first and the last among them.

        `name` may also be a measure that the objective is about.
        """
        with self.engine.reading() as transaction:
            return self.engine.error_history(transaction, points, name)

    def first_measures(self) -> dict[str, Interval]:
        """Return intervals for what the objective is about, with the log alone; they are computed if they are not on record."""
        with self.engine.reading() as transaction:
            return self.engine.first_measures(transaction)


# A journal in memory is its own transaction, because nothing else can write to it; so it stands where a campaign has SqlTransaction.
class Session(Labelling[MemoryJournal]):
    """Labels bought in memory: ask for rows, tell their labels, stop at any time.

    It has the same verbs as ``observal.Campaign``, without a database.

    Parameters
    ----------
    logged : LoggedData
        The log.
    pool : Pool, optional
        The rows you can ask about; without it, those of the log that have no label (a log with propensities needs a pool).
    method : Method, "auto" or "newton", optional
        How rows are chosen; ``AutoVC`` by default.
    label_budget : int, optional
        How many labels may be bought; without it the method decides when to stop.
    random_state : int
        Seed of all random numbers.
    overlap : int
        How many annotators label each row; the majority decides.
    population : {"both", "pool", "log"}, optional
        Whose error the intervals are about: that of log and pool as one population, of the pool alone or of the log alone. With propensities
        it is by default that of both together, or of the pool alone if the two clearly differ; ``settings.notes`` then says so. Without, it
        is that of the pool, or of both, when the log's rows without a label are asked about, too; of one table it is that of all its rows.
    looks : {"planned", "always", "once"}
        At which rounds the intervals hold together: all up to the budget (or, without one, all); all, however many follow; or a
        single one that was chosen beforehand. See ``observal.intervals.looks``.
    tolerance : float, optional
        Stop when the labels that are left are unlikely to lower the error by more than this, 0.2 points by default; None always
        spends the budget. See ``observal.intervals.stopping``. The paper's methods follow the paper and never stop for this.
    width : float, optional
        Stop when the interval for the error is narrower than this.
    objective : str or mapping
        What the classifier is for: "error" (the fewest mistakes), "balanced error", "recall=0.8", "precision=0.8", or the cost of
        missing a row of a class, as in {"default": 10}; other mistakes cost 1. It decides the classifier's threshold, and rows near
        that threshold are asked about. Two classes only, except for "error".
    budget_cost : float, optional
        What all labels together may cost, if the pool has a price for each (`price` of ``Pool``). A round has as many rows as it pays for,
        even if they are the dearest of those that were chosen.
    executor : optional
        What reads and computes, if log or pool are in Parquet parts (``LoggedData.from_parquet``): "threads", "local" for a Dask cluster on this machine, a scheduler's address or client. The answer does not depend on it.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] > 0.1, "good", "bad"), propensity=1.0)
    >>> pool = ob.Pool(X + 0.01, propensity=0.0)
    >>> session = ob.Session(logged, pool, method=ob.ExactDBAL(ob.Thresholds(), gamma=0.02), label_budget=4)
    >>> while (query := session.ask(2)):
    ...     receipt = session.tell(query.ids, ["good" if X[i, 0] > 0.1 else "bad" for i in query.ids])
    >>> session.result().estimator.predict([[0.5], [-0.5]]).tolist()
    ['good', 'bad']
    """

    def __init__(
        self,
        logged: LoggedData,
        pool: Pool | None = None,
        method: MethodLike = None,
        label_budget: int | None = None,
        random_state: int = 0,
        overlap: int = 1,
        *,
        population: str | None = None,
        looks: Looks = "planned",
        tolerance: float | None = TOLERANCE,
        width: float | None = None,
        objective: str | Mapping[Any, float | str] = "error",
        budget_cost: float | None = None,
        executor: ExecutorLike = None,
    ) -> None:
        method = as_method(method)
        logged, pool, population, _ = arrange(logged, pool, population)
        problem = Problem(logged, pool).for_method(method).using(executor)
        journal = MemoryJournal(problem)
        goals = GivenGoals(population, looks, tolerance, width, objective)
        settings = make_settings(problem, method, goals, label_budget, random_state, overlap, budget_cost)
        journal.append(OBSERVAL, "created", {"settings": settings})
        super().__init__(Engine(journal))
        with self._replaying():  # raises now if the method does not accept the data
            pass

    @classmethod
    def over(cls, journal: MemoryJournal) -> Self:
        """Return a session over an existing journal."""
        session = cls.__new__(cls)
        Labelling.__init__(session, Engine(journal))
        with session._replaying():
            return session

    @property
    def method(self) -> Method:
        """How rows are chosen."""
        return self.engine.read().settings.method

    @property
    def label_budget(self) -> int | None:
        """How many labels may be bought."""
        return self.engine.read().settings.label_budget

    def ask(self, n: int | None = None, annotator: str = ANYONE) -> Query | None:
        """Return at most `n` open rows of the current round, or None if there is nothing left to ask.

        Asking again without telling returns the same rows. With `overlap` 1 a row goes to one annotator only.
        """
        if n is not None:
            check_whole(n, "n", 1)
        engine = self.engine
        with engine.writing() as transaction:
            assignment = engine.ask(transaction, n, annotator)
            if engine.ledger.stopped:
                return None
            positions = np.array(assignment.positions, dtype=np.int64)
            return Query(
                transaction.pool_ids(positions),
                positions,
                max(assignment.rounds, default=len(engine.ledger.plans)),
                np.array(assignment.query_probability, dtype=np.float64),
                tuple(assignment.reason),
            )

    def save(self, path: str | Path) -> None:
        """Write the session to a file; an older session at that path is replaced once the new file is complete."""
        with self.engine.reading() as transaction:
            write_session(path, transaction.problem(self.engine.ledger.settings), transaction.events(Ledger()))

    @classmethod
    def load(cls, path: str | Path, method: Method | None = None) -> Self:
        """Return a saved session; pass `method` only if it could not be saved, for example because it has callables."""
        try:
            return cls.over(read_session(path, method))
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(
                f"The session in {path} cannot be replayed ({type(error).__name__}); use an undamaged copy."
            ) from error


def run(
    logged: LoggedData,
    pool: Pool | None,
    oracle: Callable[[NDArray[Any]], Iterable[Any]],
    method: MethodLike = None,
    label_budget: int | None = None,
    random_state: int = 0,
    on_round: Callable[[Round], None] | None = None,
    *,
    population: str | None = None,
    looks: Looks = "planned",
    tolerance: float | None = TOLERANCE,
    width: float | None = None,
    objective: str | Mapping[Any, float | str] = "error",
    budget_cost: float | None = None,
    executor: ExecutorLike = None,
) -> RunResult:
    """Run a method until it stops, with labels from a function.

    Parameters
    ----------
    logged, pool, method, label_budget, random_state, population, looks, tolerance, width, objective, budget_cost, executor
        As for ``Session``.
    oracle : callable
        Takes an array of pool ids and returns their labels in this order or by id, as for ``Session.tell``; NaN or None skips a row.
    on_round : callable, optional
        Called with each ``Round`` when it closes, including round 0.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X, Xp = rng.uniform(-1, 1, (400, 1)), rng.uniform(-1, 1, (400, 1))
    >>> shown = rng.random(400) < 0.3
    >>> logged = ob.LoggedData(X, np.where(shown, X[:, 0] > 0.2, np.nan), propensity=0.3)
    >>> pool = ob.Pool(Xp, propensity=0.3)
    >>> result = ob.run(logged, pool, lambda ids: Xp[ids, 0] > 0.2, ob.ExactDBAL(ob.Thresholds(), gamma=0.05))
    >>> len(result.queries) < 200
    True
    >>> bool(result.estimator.predict([[0.9]])[0])
    True
    """
    session = Session(
        logged,
        pool,
        method,
        label_budget,
        random_state,
        population=population,
        looks=looks,
        tolerance=tolerance,
        width=width,
        objective=objective,
        budget_cost=budget_cost,
        executor=executor,
    )
    reported = 0
    while True:
        query = session.ask()
        if on_round:
            rounds = session.rounds
            for round_ in rounds[reported:]:
                on_round(round_)
            reported = len(rounds)
        if query is None:
            return session.result()
        labels = oracle(query.ids)
        if labels is None:
            raise InvalidInput(
                "The oracle must return one label per id, but returned None; return NaN for a row to skip."
            )
        session.tell(query.ids, labels)

"""Buying labels in memory: :class:`Session`, and :func:`run`, a loop around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from observal.checks import check_whole
from observal.errors import InvalidInput
from observal.intervals.stopping import TOLERANCE
from observal.journal.engine import Engine
from observal.journal.events import OBSERVAL
from observal.journal.labelling import Labelling
from observal.journal.ledger import Ledger
from observal.journal.memory import MemoryJournal
from observal.journal.session_file import read_session, write_session
from observal.journal.settings import ANYONE, make_settings
from observal.methods import AutoVC, Method
from observal.parquet import ExecutorLike
from observal.problem.data import LoggedData, Pool
from observal.problem.goals import Looks
from observal.problem.method import check_method
from observal.problem.plan import Query
from observal.problem.problem import Problem
from observal.problem.result import Round, RunResult


class Session(Labelling[MemoryJournal]):
    """Labels bought in memory: ask for rows, tell their labels, stop at any time.

    It has the same verbs as :class:`observal.Campaign`, without a database.

    Parameters
    ----------
    logged : LoggedData
        The log.
    pool : Pool
        The rows you can ask about.
    method : Method, optional
        How rows are chosen; :class:`AutoVC` by default.
    label_budget : int, optional
        How many labels may be bought; without it the method decides when to stop.
    random_state : int
        Seed of all random numbers.
    overlap : int
        How many annotators label each row; the majority decides.
    population : {"both", "pool", "log"}, optional
        Whose error the intervals are about: that of log and pool as one population, of the pool alone or of the log alone. By default
        that of both together, or of the pool alone if the two clearly differ; ``settings.notes`` then says so.
    looks : {"planned", "always", "once"}
        At which rounds the intervals hold together: all up to the budget (or, without one, all); all, however many follow; or a
        single one that was chosen beforehand. See :mod:`observal.intervals.looks`.
    tolerance : float, optional
        Stop when the labels that are left are unlikely to lower the error by more than this, 0.2 points by default; None always
        spends the budget. See :mod:`observal.intervals.stopping`. The paper's methods follow the paper and never stop for this.
    width : float, optional
        Stop when the interval for the error is narrower than this.
    objective : str or mapping
        What the classifier is for: "error" (the fewest mistakes), "balanced error", "recall=0.8", "precision=0.8", or the cost of
        missing a row of a class, as in {"default": 10}; other mistakes cost 1. It decides the classifier's threshold, and rows near
        that threshold are asked about. Two classes only, except for "error".
    executor : optional
        What reads and computes, if log or pool are in Parquet parts (:meth:`LoggedData.from_parquet`): "serial", "threads", "processes",
        "local" for a Dask cluster on this machine, a scheduler's address or client. The answer does not depend on it.

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
        pool: Pool,
        method: Method | None = None,
        label_budget: int | None = None,
        random_state: int = 0,
        overlap: int = 1,
        *,
        population: str | None = None,
        looks: Looks = "planned",
        tolerance: float | None = TOLERANCE,
        width: float | None = None,
        objective: str | Mapping[Any, float | str] = "error",
        executor: ExecutorLike = None,
    ) -> None:
        method = AutoVC() if method is None else check_method(method)
        problem = Problem(logged, pool).for_method(method).using(executor)
        journal = MemoryJournal(problem)
        settings = make_settings(
            problem,
            method,
            label_budget,
            random_state,
            overlap,
            population=population,
            looks=looks,
            tolerance=tolerance,
            width=width,
            objective=objective,
        )
        journal.append(OBSERVAL, "created", {"settings": settings})
        super().__init__(Engine(journal))
        self._replay()  # raises now if the method does not accept the data

    @classmethod
    def over(cls, journal: MemoryJournal) -> Self:
        """Return a session over an existing journal."""
        session = cls.__new__(cls)
        Labelling.__init__(session, Engine(journal))
        session._replay()
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
    pool: Pool,
    oracle: Callable[[NDArray[Any]], Iterable[Any]],
    method: Method | None = None,
    label_budget: int | None = None,
    random_state: int = 0,
    on_round: Callable[[Round], None] | None = None,
    *,
    population: str | None = None,
    looks: Looks = "planned",
    tolerance: float | None = TOLERANCE,
    width: float | None = None,
    objective: str | Mapping[Any, float | str] = "error",
    executor: ExecutorLike = None,
) -> RunResult:
    """Run a method until it stops, with labels from a function.

    Parameters
    ----------
    logged, pool, method, label_budget, random_state, population, looks, tolerance, width, objective, executor
        As for :class:`Session`.
    oracle : callable
        Takes an array of pool ids and returns their labels; NaN or None skips a row.
    on_round : callable, optional
        Called with each :class:`Round` when it closes, including round 0.

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

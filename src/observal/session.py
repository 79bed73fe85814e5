"""Buying labels: start, ask, tell, result; and ``run``, the loop around them.

This is the only place where state changes. What a session has decided and been told is a list of plans and answers;
everything else follows from it, so a session that is saved, loaded or corrected is rebuilt by going through that list.
Decisions are never made twice: a loaded session keeps the rows it had asked for, whatever machine it wakes up on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import check_history, encode_labels, is_missing
from observal.errors import ConflictingAnswer, InvalidInput, ObservalError, UnknownRow
from observal.methods import Method, NewtonVC
from observal.record_file import read_record, write_record
from observal.types import (
    ACTION_NAMES,
    ASKED,
    Answers,
    Interval,
    LoggedData,
    Plan,
    Pool,
    Problem,
    Query,
    Round,
    RunResult,
    Stop,
    Table,
)

_SAVED = ("logged", "pool", "method", "label_budget", "random_state", "plans", "answered", "codes")


class Session:
    """A run whose labels come from people: ask for rows, tell their labels, stop at any time.

    Parameters
    ----------
    logged : LoggedData
        What the old policy showed.
    pool : Pool
        The rows that can be asked about.
    method : Method, optional
        How rows are chosen; :class:`NewtonVC` by default.
    label_budget : int, optional
        The most labels to buy; without one the method decides.
    random_state : int
        Seed of everything random.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] > 0.1, "good", "bad"), propensity=1.0)
    >>> pool = ob.Pool(X + 0.01, propensity=0.0)
    >>> session = ob.Session(logged, pool, method=ob.ExactDBAL(ob.Thresholds(), gamma=0.02), label_budget=4)
    >>> while (query := session.ask(2)):
    ...     session.tell(query.ids, ["good" if X[i, 0] > 0.1 else "bad" for i in query.ids])
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
    ) -> None:
        method = NewtonVC() if method is None else method
        if label_budget is not None and (not isinstance(label_budget, int | np.integer) or label_budget < 0):
            raise InvalidInput(
                f"label_budget must be None or a whole number of at least 0, but is {label_budget!r}; None means no limit."
            )
        if not isinstance(random_state, int | np.integer) or random_state < 0:
            raise InvalidInput(f"random_state must be a whole number of at least 0, but is {random_state!r}.")
        if isinstance(method, type) or not hasattr(method, "begin"):
            raise InvalidInput(f"method must be one such as ActiveVC(), but is {method!r}; make one with its settings.")
        self.problem = Problem(logged, pool)
        self.method = method
        self.label_budget = label_budget
        self.random_state = random_state
        self._plans: list[Plan] = []
        self._answers: dict[int, int | None] = {}  # pool position → class code, None where skipped
        self._asked: dict[Any, int] = {}  # id → pool position
        self._code_of = {value: code for code, value in enumerate(logged.classes.tolist())}
        self._stopped = ""
        self._start()

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Closed rounds; round 0 is the log alone. A round is fitted when it is first read, not when it is replayed."""
        return tuple(self._round(k) for k in range(len(self._states)))

    @property
    def labels(self) -> int:
        """Labels bought so far, also in the round that is still open."""
        return sum(code is not None for code in self._answers.values())

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to ask."""
        self._open_next_round()
        return bool(self._stopped)

    def ask(self, n: int | None = None) -> Query | None:
        """Return at most `n` open rows of the current round, or None when the run has ended.

        Asking again without telling returns the same rows.
        """
        if n is not None and (not isinstance(n, int | np.integer) or n < 1):
            raise InvalidInput(
                f"ask needs a whole number of at least 1, but got {n!r}; leave it out to see all open rows."
            )
        if self.finished:
            return None
        plan = self._plans[-1]
        where = np.flatnonzero(plan.action == ASKED)
        open_ = [int(i) for i in where if int(plan.positions[i]) not in self._answers][:n]
        positions = plan.positions[open_]
        return Query(
            self.problem.pool.ids[positions],
            positions,
            len(self._plans),
            plan.query_probability[open_],
            tuple(plan.reasons[code] for code in plan.reason[open_]),
        )

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What was decided, a plan for each round that was opened."""
        return tuple(self._plans)

    @property
    def stopped(self) -> str:
        """Why nothing is left to ask; empty while something is, or may be."""
        return self._stopped

    @property
    def estimator(self) -> Any:
        """The classifier of the last closed round."""
        return self._round(len(self._states) - 1).estimator

    def intervals(self, round_: int = -1) -> dict[str, Interval]:
        """Return what the labels up to a closed round say of its classifier, on the whole population."""
        return self.method.intervals(self.problem, self._states[round_])

    def result(self) -> RunResult:
        """Return what is known now: the classifier of the last closed round, and every decision up to it."""
        closed = self._plans[: len(self._states) - 1]
        rounds = self.rounds
        return RunResult(
            rounds[-1].estimator,
            rounds,
            self._query_table(closed),
            self._decision_table(closed),
            self.intervals(),
            self._stopped or "not finished: there is more to ask",
        )

    # -- changing -----------------------------------------------------------------------------------------------

    def tell(self, ids: ArrayLike, labels: Iterable[Any], correct: bool = False) -> None:
        """Store labels for rows that were asked for; all of them or, if one is refused, none.

        Parameters
        ----------
        ids : array
            Ids from :meth:`ask`, in any order and from any round.
        labels : iterable
            One of the classes each; NaN or None says that the row was skipped. A skip buys no label, and a label
            told later takes its place: it is kept even where the budget is already spent, because it is already paid.
        correct : bool
            Let another label replace the one a row has. Closed rounds keep their decisions and are refitted.
        """
        rows = np.asarray(ids).ravel().tolist()
        values = list(labels)
        if len(rows) != len(values):
            raise InvalidInput(f"tell needs one label per id, but got {len(rows)} ids and {len(values)} labels.")
        told: dict[int, int | None] = {}
        for row, value in zip(rows, values, strict=True):
            if row not in self._asked:
                raise UnknownRow(
                    f"Row {row!r} was never asked for, so its label cannot be told; tell only ids that ask returned."
                )
            position = self._asked[row]
            code = None if is_missing(value) else self._encode(value)
            before = told.get(position, self._answers.get(position))
            if before not in (None, code) and (position in told or not correct):
                raise ConflictingAnswer(
                    f"Row {row!r} already has the label {self.problem.logged.classes[before]!r}, but {value!r} was "
                    "told; pass correct=True to replace it."
                )
            told[position] = code
        closed = {p for plan in self._plans[: len(self._states) - 1] for p in plan.asked.tolist()}
        rewritten = any(p in closed and self._answers[p] != code for p, code in told.items())
        self._answers.update(told)
        self._stopped = ""  # another answer may leave something to ask
        if rewritten:
            self._start()
        else:
            self._close_answered_rounds()

    def save(self, path: str | Path) -> None:
        """Write the whole session to one file, replacing it only when the new one is complete."""
        write_record(
            path,
            {
                "logged": self.problem.logged,
                "pool": self.problem.pool,
                "method": self.method,
                "label_budget": self.label_budget,
                "random_state": self.random_state,
                "plans": self._plans,
                "answered": np.array(list(self._answers), dtype=np.int64),
                "codes": list(self._answers.values()),
            },
            replaceable=("method",),
        )

    @classmethod
    def load(cls, path: str | Path, method: Method | None = None) -> Self:
        """Return a saved session; `method` is needed only where it could not be saved, such as one with callables."""
        record = read_record(path, _SAVED, {"method": method} if method is not None else {})
        rows, codes = record.pop("answered"), record.pop("codes")
        kinds = {"logged": LoggedData, "pool": Pool, "plans": list}
        fits = all(isinstance(record[name], kind) for name, kind in kinds.items())
        fits = fits and isinstance(rows, np.ndarray) and rows.ndim == 1 and isinstance(codes, list)
        if not fits or len(rows) != len(codes) or not all(isinstance(plan, Plan) for plan in record["plans"]):
            raise InvalidInput(f"{path} holds no session, or it is damaged; give a file that Session.save wrote.")
        try:
            return cls.restore(**record, answers=dict(zip(rows.tolist(), codes, strict=True)))
        except ObservalError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"The session in {path} cannot be gone through again ({type(error).__name__}); use an undamaged copy."
            ) from error

    @classmethod
    def restore(
        cls,
        logged: LoggedData,
        pool: Pool,
        method: Method | None,
        label_budget: int | None,
        random_state: int,
        plans: Iterable[Plan],
        answers: Mapping[int, int | None],
    ) -> Self:
        """Return the session that made these plans and was told these answers.

        Parameters
        ----------
        logged, pool, method, label_budget, random_state
            As for :class:`Session`.
        plans : iterable of Plan
            What was decided, a plan for each round, in order.
        answers : mapping
            Pool position → class code, or None where the row was skipped.
        """
        plans = list(plans)
        session = cls(logged, pool, method, label_budget, random_state)
        check_history(plans, answers, len(pool), len(logged.classes))
        for plan in plans:
            session._add_plan(plan)
        session._answers = dict(answers)
        session._close_answered_rounds()
        return session

    # -- machinery ----------------------------------------------------------------------------------------------

    def _encode(self, value: Any) -> int:
        try:
            return self._code_of[value]
        except (KeyError, TypeError):  # let the shared check write the sentence
            return int(encode_labels(np.array([value], dtype=object), self.problem.logged.classes, "A label")[0])

    def _rng(self, round_: int, purpose: int) -> np.random.Generator:
        # A stream of its own for each round and purpose: a loaded session draws what the first one would have drawn.
        return np.random.default_rng([self.random_state, round_, purpose])

    def _start(self) -> None:
        self._states: list[Any] = [self.method.begin(self.problem, self._rng(0, 0))]
        self._described: dict[int, Round] = {}
        self._close_answered_rounds()

    def _close_answered_rounds(self) -> None:
        while len(self._states) <= len(self._plans):
            plan = self._plans[len(self._states) - 1]
            asked = plan.asked.tolist()
            if any(p not in self._answers for p in asked):
                return  # a row is still open
            codes = [self._answers[p] for p in asked]
            answers = Answers(
                np.array([code or 0 for code in codes], dtype=np.int64),
                np.array([code is not None for code in codes], dtype=bool),
            )
            rng = self._rng(len(self._states), 1)
            self._states.append(self.method.advance(self.problem, self._states[-1], plan, answers, rng))

    def _round(self, k: int) -> Round:
        if k not in self._described:
            self._described[k] = self.method.describe(self.problem, self._states[k])
        return self._described[k]

    def _open_next_round(self) -> None:
        """Plan rounds until one has rows to ask for, or nothing is left."""
        while not self._stopped and len(self._plans) < len(self._states):
            if self.label_budget is not None and self.labels >= self.label_budget:
                self._stopped = f"the label budget of {self.label_budget} is spent"
                return
            plan = self.method.plan(self.problem, self._states[-1], self._rng(len(self._states), 0))
            if isinstance(plan, Stop):
                self._stopped = plan.reason
                return
            if self.label_budget is not None:
                plan = plan.cut(self.label_budget - self.labels)
            self._add_plan(plan)
            self._close_answered_rounds()

    def _add_plan(self, plan: Plan) -> None:
        self._plans.append(plan)
        ids = self.problem.pool.ids[plan.asked].tolist()
        self._asked.update(zip(ids, plan.asked.tolist(), strict=True))

    def _query_table(self, plans: list[Plan]) -> Table:
        decisions = self._decision_table(plans)
        positions = _joined([plan.positions for plan in plans], np.int64)
        codes = [self._answers.get(p) for p in positions.tolist()]
        bought = np.array([code is not None for code in codes], dtype=bool)
        labels = np.array([code for code in codes if code is not None], dtype=np.int64)
        return Table(
            id=decisions["id"][bought],
            round=decisions["round"][bought],
            query_probability=decisions["query_probability"][bought],
            label=self.problem.logged.classes[labels],
            reason=decisions["reason"][bought],
        )

    def _decision_table(self, plans: list[Plan]) -> Table:
        positions = _joined([plan.positions for plan in plans], np.int64)
        return Table(
            id=self.problem.pool.ids[positions],
            round=_joined([np.full(p.positions.size, k) for k, p in enumerate(plans, start=1)], np.int64),
            query_probability=_joined([plan.query_probability for plan in plans], np.float64),
            action=ACTION_NAMES[_joined([plan.action for plan in plans], np.int8)],
            reason=_joined([np.asarray(p.reasons, dtype=object)[p.reason] for p in plans], object),
        )


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, dtype)])


def run(
    logged: LoggedData,
    pool: Pool,
    oracle: Callable[[NDArray[Any]], Iterable[Any]],
    method: Method | None = None,
    label_budget: int | None = None,
    random_state: int = 0,
    on_round: Callable[[Round], None] | None = None,
) -> RunResult:
    """Run a method to its end with an oracle that answers at once.

    Parameters
    ----------
    logged, pool, method, label_budget, random_state
        As for :class:`Session`.
    oracle : callable
        From an array of pool ids to their labels; NaN or None skips a row.
    on_round : callable, optional
        Called with each :class:`Round` when it closes, round 0 included.

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
    session = Session(logged, pool, method, label_budget, random_state)
    reported = 0
    while True:
        query = session.ask()
        for round_ in session.rounds[reported:] if on_round else ():
            on_round(round_)  # type: ignore[misc]
        reported = len(session.rounds)
        if query is None:
            return session.result()
        labels = oracle(query.ids)
        if labels is None:
            raise InvalidInput(
                "The oracle must return one label per id, but returned None; return NaN for a row to skip."
            )
        session.tell(query.ids, labels)

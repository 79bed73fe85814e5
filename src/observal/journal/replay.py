"""A method's states, round by round, computed from recorded plans and answers.

Decisions are never made twice: the plans come from the journal. The same plans and answers give the same
states on every machine, up to floating-point rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from observal.checks import Floats, Ints
from observal.errors import InvalidInput, NotPredictable
from observal.intervals.contradiction import COMPARED
from observal.intervals.looks import stretch
from observal.intervals.measures import judged_by
from observal.intervals.state import PoolState
from observal.intervals.stopping import LEAST_BOUGHT, chances_of, estimate_gain, still_to_gain
from observal.journal.records import name_columns
from observal.journal.settings import Settings
from observal.journal.stored_fit import NamedInterval, RoundChances, StoredFit
from observal.methods import Method
from observal.problem.goals import Goals
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.method import check_classes
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Recorded, Round

Codes = tuple[int | None, ...]
JUDGED_ROWS = 4000
"""Rows of the population on which the classifiers of two rounds are compared."""


class LazyIntervals(Mapping[str, Interval]):
    """Intervals computed when first read: they can take many fits, and not every caller needs them.

    Examples
    --------
    >>> intervals = LazyIntervals(lambda: {"error": Interval(0.1, 0.0, 0.3, 0.95, "a guess")})
    >>> list(intervals), intervals["error"].high
    (['error'], 0.3)
    """

    def __init__(self, compute: Callable[[], dict[str, Interval]]) -> None:
        self._compute = compute

    @cached_property
    def _values(self) -> dict[str, Interval]:
        return self._compute()

    def __getitem__(self, name: str) -> Interval:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._values,)  # copies and other processes get a plain dict


class Replay:
    """A method's states after each closed round; state 0 is the log alone.

    Without a `label_budget`, the whole pool may be bought.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> problem = ob.Problem(ob.LoggedData(X, X[:, 0] > 0, 0.5), ob.Pool(X, 0.1))
    >>> replay = Replay(problem, ob.NewtonVC(batch=3), random_state=0)
    >>> plan = replay.next_plan()
    >>> replay.follow([plan], {int(row): 1 for row in plan.asked})
    >>> replay.round(1).labels
    3
    """

    def __init__(
        self,
        problem: Problem,
        method: Method,
        random_state: int,
        goals: Goals | None = None,
        label_budget: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.label_budget = label_budget
        self._names = names
        if not method.by_parts:
            problem = problem.in_memory()
        self.problem = replace(problem, goals=goals or Goals())
        self._method, self._random_state = method, random_state
        self.states = [method.begin(self.problem, self._rng(0, 0))]
        self._answers: list[Codes] = []  # the answers of each closed round
        self._rounds: dict[int, Round] = {}
        self._intervals: dict[int, LazyIntervals] = {}
        self._single_looks: dict[int, dict[str, Interval]] = {}
        self._chances: dict[int, Floats] = {}
        self._stored: dict[int, StoredFit] = {}

    @property
    def closed(self) -> int:
        """The number of closed rounds."""
        return len(self.states) - 1

    @property
    def is_fitted(self) -> bool:
        """Whether the last closed round's model is fitted; False only for methods that fit lazily."""
        state = self.states[-1]
        return not isinstance(state, PoolState) or state.is_fitted

    @property
    def labels(self) -> int:
        """All labels up to the last closed round, including the log's."""
        return self._labels(self.closed)

    def follow(
        self,
        plans: Sequence[Plan],
        labels: Mapping[int, int | None],
        bases: Sequence[int] | None = None,
        stored: Sequence[StoredFit] = (),
    ) -> None:
        """Close every round whose rows are all labelled or skipped; recompute from the first round with changed answers.

        `labels` maps pool positions to class codes, None for a skip. `bases` are the closed rounds that each plan
        is based on, by default the one before. Rounds still close in order, because each plan takes rows that the
        open plans before it left. `stored` are fits made after some of these rounds, with the same labels.
        """
        self._recall(stored)
        for k, plan in enumerate(plans):
            rows = plan.asked.tolist()
            codes = None if any(row not in labels for row in rows) else tuple(labels[row] for row in rows)
            if k < self.closed and self._answers[k] == codes:
                continue
            if k < self.closed:
                self._forget_after(k)
            if codes is None:
                return
            self._close(plan, codes, k if bases is None else bases[k])
            self._recall(stored)

    def _forget_after(self, k: int) -> None:
        """Forget everything after a round, because an answer of the next one was changed or undone."""
        del self.states[k + 1 :], self._answers[k:]
        known: tuple[dict[int, Any], ...] = (
            self._rounds,
            self._intervals,
            self._single_looks,
            self._chances,
            self._stored,
        )
        for by_round in known:
            for number in [number for number in by_round if number > k]:
                del by_round[number]

    def _close(self, plan: Plan, codes: Codes, base: int) -> None:
        answers = Answers(
            np.array([code or 0 for code in codes], dtype=np.int64),
            np.array([code is not None for code in codes], dtype=bool),
        )
        rng = self._rng(len(self.states), 1)
        state = self._method.advance(self.problem, self.states[-1], plan, answers, rng)
        self.states.append(state if base == self.closed else state.planned_ahead_in(self.states[base]))
        self._answers.append(codes)

    def _recall(self, fits: Sequence[StoredFit]) -> None:
        """Reuse the stored fit of the last closed round, unless it was fitted here or the stored fit is invalid."""
        state, k = self.states[-1], self.closed
        stored = next((fit for fit in fits if fit.round == k), None)
        if stored is None or k in self._stored or not isinstance(state, PoolState) or state.is_fitted:
            return
        n_classes = len(self.problem.logged.classes)
        chances = {past.round: past.chances for past in stored.chances}
        try:
            _check_chances(chances, (self._sample_rows.size, n_classes))
            _check_intervals(dict(stored.intervals))
            if stored.model is not None:
                state = self._method.recall(self.problem, state, stored.model)
        except Exception:  # whatever is wrong, the model can be fitted again
            return
        self.states[-1], self._stored[k] = state, stored
        self._chances.update({past: values for past, values in chances.items() if past <= k})
        if stored.intervals:
            self._single_looks[k] = dict(stored.intervals)

    def to_store(self) -> list[StoredFit]:
        """Return the fits of round 0 and of the last closed round that are not stored yet."""
        return [fit for k in sorted({0, self.closed}) if (fit := self._to_store(k)) is not None]

    def _to_store(self, k: int) -> StoredFit | None:
        state = self.states[k]
        if not isinstance(state, PoolState) or not state.is_fitted:
            return None
        self._chances_after(k)
        n_classes = len(self.problem.logged.classes)  # a committee may have fewer
        needed = self._halfway_round if self.bought(k) >= LEAST_BOUGHT else 0
        fit = StoredFit(
            k,
            self._method.stored_model(self.problem, state),
            tuple(NamedInterval(*pair) for pair in self._single_looks.get(k, {}).items()),
            tuple(
                RoundChances(past, chances)
                for past, chances in sorted(self._chances.items())
                if needed <= past <= k and chances.shape[1] == n_classes
            ),
        )
        if not fit.extends(self._stored.get(k)):
            return None
        self._stored[k] = fit
        return fit

    def next_plan(self, open_plans: Sequence[Plan] = ()) -> Plan | Stop:
        """Return the method's plan after the last closed round, excluding rows of later open rounds."""
        state = self.states[-1]
        if not self.closed:
            self.round(0)  # refuses a classifier with the wrong classes before any label is bought
        if open_plans:
            state = state.while_open(np.concatenate([plan.asked for plan in open_plans]))
        return self._method.plan(self.problem, state, self._rng(len(self.states) + len(open_plans), 0))

    def near(self, plan: Plan, base: int, first: int) -> list[int] | None:
        """Return the pool rows from `first` on that a plan would have recorded as near, had they been there.

        None if the plan records none, or if the method cannot tell.
        """
        if plan.near is None:
            return None
        rows = np.arange(first, len(self.problem.pool))
        near = self._method.near_of(self.problem, self.states[base], plan, rows)
        return None if near is None else near.tolist()

    def round(self, k: int) -> Round:
        """Return the summary of a closed round, fitted when first read."""
        if k not in self._rounds:
            round_ = self._method.describe(self.problem, self.states[k])
            self._checked(round_.estimator)
            self._rounds[k] = round_
        return self._rounds[k]

    def estimator(self, k: int) -> Any:
        """Return the classifier of a closed round, if possible without predicting the pool."""
        if k in self._rounds:
            return self._rounds[k].estimator
        return self._checked(self._method.estimator_of(self.problem, self.states[k]))

    def _checked(self, estimator: Any) -> Any:
        """Return a classifier that knows its columns; reject one that predicts other classes than the problem's, such as their codes."""
        name_columns(estimator, self._names)
        few = np.arange(min(20, self.problem.n_logged))  # rows in files are not read for this
        rows = None if self.problem.in_parts else self.problem.select(few).for_estimator()
        with suppress(NotPredictable):  # classifiers known by their predictions on given rows only
            check_classes(estimator, self.problem.logged.classes.tolist(), rows)
        return estimator

    def returned_round(self, k: int) -> int | None:
        """Return the earlier round whose classifier is returned if the run ends at round `k`; None for its own."""
        return self._method.returned_round(self.problem, self.states[k])

    def intervals(self, k: int) -> LazyIntervals:
        """Return intervals for the classifier of a closed round, from the labels up to it; computed when first read."""
        if k not in self._intervals:
            self._intervals[k] = LazyIntervals(lambda: self.stretch_intervals(k, self._single_look(k)))
        return self._intervals[k]

    def _single_look(self, k: int) -> dict[str, Interval]:
        """Return intervals that hold at this round alone."""
        if k not in self._single_looks:
            self._single_looks[k] = self._method.intervals(self.problem, self.states[k])
        return self._single_looks[k]

    def record(self) -> Recorded | None:
        """Return what is known after the last closed round if that needs no further fit; else None."""
        if not self._method.records_rounds:
            return None
        state, round_ = self.states[-1], self.round(self.closed)
        if any(plan.near is None for plan in state.plans()):
            return None
        intervals = self._single_look(self.closed)
        names = (name for name in judged_by(self.problem.goals.objective) if name != "error" and name in intervals)
        return Recorded(
            float(round_.clip),
            float(round_.disagreement),
            tuple(round_.details.items()),
            intervals["error"],
            tuple((name, intervals[name]) for name in names),
        )

    def recorded_round(self, k: int, record: Recorded) -> Round:
        """Return a closed round from its record, without a classifier: nothing is fitted."""
        round_: Round = self.states[k].as_round(
            estimator=None, clip=record.clip, disagreement=record.disagreement, **dict(record.details)
        )
        return round_

    def stretch_intervals(self, k: int, intervals: dict[str, Interval]) -> dict[str, Interval]:
        """Return intervals that hold at all rounds that people may have looked at."""
        looks = self.problem.goals.looks
        planned = None if self.label_budget is None else self._labels_at_end
        factor = stretch(looks, [self._labels(j) for j in range(k + 1)], planned)
        if factor == 1.0:
            return intervals
        until = (
            "all rounds up to the budget" if looks == "planned" and planned else "all rounds, however many there are,"
        )
        return {
            name: interval if name in COMPARED.values() else interval.stretched(factor, f"for {until} together")
            for name, interval in intervals.items()
        }

    def _labels(self, k: int) -> int:
        """Return the number of labels after a round, including the log's."""
        return int(self.problem.logged.revealed.sum()) + self.bought(k)

    def bought(self, k: int) -> int:
        """Return the number of labels bought up to a round."""
        return sum(code is not None for codes in self._answers[:k] for code in codes)

    @property
    def _labels_at_end(self) -> int:
        rows = len(self.problem.pool)
        return self._labels(0) + (rows if self.label_budget is None else min(rows, self.label_budget))

    def judged(self) -> JudgedRows | None:
        """Return the labelled rows with held-out predictions, if the method has them; else None.

        Intervals made from them hold at all rounds that people may have looked at.
        """
        judged = self._method.judged(self.problem, self.states[-1])
        if judged is None:
            return None

        def ratio(top: Floats, bottom: Floats) -> Interval:
            return self.stretch_intervals(self.closed, {"ratio": judged.ratio(top, bottom)})["ratio"]

        return judged._replace(ratio=ratio)

    def judged_by_first_model(self) -> Ints | None:
        """Return the log-only classifier's held-out predictions for the rows of ``judged``."""
        now, then = (self._method.judged(self.problem, self.states[k]) for k in (-1, 0))
        if now is None or then is None:
            return None
        classes = self.problem.logged.classes.tolist()
        place = dict(zip(then.rows.tolist(), then.predicted.tolist(), strict=True))
        new = np.array([row for row in now.rows.tolist() if row not in place], dtype=np.int64)
        if new.size:
            labels = self.estimator(0).predict(self.problem.select(new).for_estimator())
            place |= {row: classes.index(label) for row, label in zip(new.tolist(), labels.tolist(), strict=True)}
        return np.array([place[row] for row in now.rows.tolist()], dtype=np.int64)

    def still_to_gain(self, more: int | None = None) -> float | None:
        """Return by how much the remaining labels, or `more` labels, may lower the error; None if too early to tell."""
        if self.bought(self.closed) < LEAST_BOUGHT:
            return None
        halfway, now = self._halfway_round, self._labels(self.closed)
        gain = estimate_gain(self._chances_after(self.closed), self._chances_after(halfway), self._method.calibrated)
        end = self._labels_at_end if more is None else now + more
        return still_to_gain(gain, now, self._labels(halfway), end)

    @property
    def _halfway_round(self) -> int:
        """The last round by which at most half of the labels were bought."""
        bought = self.bought(self.closed)
        return max(k for k in range(self.closed + 1) if self.bought(k) <= bought / 2)

    def _chances_after(self, k: int) -> Floats:
        """Return the class probabilities of a round's classifier on a sample of the population."""
        if k not in self._chances:
            self._chances[k] = chances_of(self.estimator(k), self._sample)
        return self._chances[k]

    @cached_property
    def _sample(self) -> Any:
        return self.problem.select(self._sample_rows).for_estimator()

    @cached_property
    def _sample_rows(self) -> Ints:
        first, end = self.problem.counted
        if end - first > JUDGED_ROWS:
            sample = np.random.default_rng(0).choice(end - first, JUDGED_ROWS, replace=False)
            return np.asarray(first + np.sort(sample))
        return np.arange(first, end)

    def _rng(self, round_: int, purpose: int) -> np.random.Generator:
        # Each round and purpose has its own random stream, so a replay elsewhere draws the same numbers.
        return np.random.default_rng([self._random_state, round_, purpose])


def _check_chances(chances: Mapping[int, Floats], shape: tuple[int, int]) -> None:
    if not all(part.shape == shape and ((part >= 0.0) & (part <= 1.0)).all() for part in chances.values()):
        raise InvalidInput("The stored chances are not those of this population; use an undamaged copy.")


def _check_intervals(intervals: Mapping[str, Interval]) -> None:
    for interval in intervals.values():
        ends = interval.low, interval.high, interval.estimate
        if not (0.0 < interval.most <= 1e100 and 0.0 <= interval.unknown <= 1.0 and max(map(abs, ends)) <= 1e100):
            raise InvalidInput(f"The stored interval {interval} cannot be right; use an undamaged copy.")
    if intervals and "error" not in intervals:
        raise InvalidInput("The stored intervals do not include the error; use an undamaged copy.")


def start_replay(problem: Problem, settings: Settings) -> Replay:
    """Return the replay of a session or campaign with these settings, at round 0."""
    budgets = [budget for budget in (settings.label_budget, _most_labels(problem, settings)) if budget is not None]
    names = list(settings.features) if settings.named else None
    return Replay(problem, settings.method, settings.random_state, settings.goals, min(budgets, default=None), names)


def _most_labels(problem: Problem, settings: Settings) -> int | None:
    """Return the most labels that a cost budget can cover: those of the cheapest rows."""
    if settings.budget_cost is None or problem.pool.price is None:
        return None
    return int(np.searchsorted(np.cumsum(np.sort(problem.pool.price)), settings.budget_cost, side="right"))

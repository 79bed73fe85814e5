"""Test error against labels bought: curves of methods, and the area under them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, count, takewhile
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints, frozen
from observal.errors import InvalidInput
from observal.paper.linear_methods import LinearClassifier, growing_epochs
from observal.problem.data import Pool
from observal.problem.labels import encode_labels
from observal.problem.method import Method, StateT
from observal.problem.plan import Answers, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal_research.datasets import World


@dataclass(frozen=True, eq=False)
class Curve:
    """Test error against labels bought, in one run or, if a method needs it, in runs of growing size.

    Between points the error is interpolated linearly. If several points have the same number of labels, the latest is used. After
    the last point the error stays constant. The first point, at 0 labels, is the log alone.

    Parameters
    ----------
    labels, errors : arrays of equal length
        In the order in which they were measured.

    Examples
    --------
    >>> curve = Curve([0, 0, 10, 20], [0.4, 0.3, 0.2, 0.1])
    >>> curve.at([0, 5, 20, 99]).tolist()
    [0.3, 0.25, 0.1, 0.1]
    >>> round(curve.area(40), 3)
    0.15
    """

    labels: Any
    errors: Any

    def __post_init__(self) -> None:
        labels, errors = np.asarray(self.labels, dtype=np.int64), np.asarray(self.errors, dtype=np.float64)
        if labels.ndim != 1 or labels.shape != errors.shape or labels.min(initial=1) != 0:
            raise InvalidInput(
                f"A curve needs one error for each label count and a point at 0 labels, but has label counts "
                f"{labels.tolist()} and {errors.size} errors; start it with the log alone."
            )
        object.__setattr__(self, "labels", frozen(labels))
        object.__setattr__(self, "errors", frozen(errors))

    @cached_property
    def knots(self) -> tuple[Ints, Floats]:
        """The distinct label counts in increasing order, and the latest error at each."""
        order = np.argsort(self.labels, kind="stable")
        labels = self.labels[order]
        latest = np.append(labels[1:] != labels[:-1], True)
        return labels[latest], self.errors[order][latest]

    def at(self, labels: ArrayLike) -> Floats:
        """Return the error at each label count."""
        return np.interp(np.asarray(labels, dtype=np.float64), *self.knots)

    def area(self, end: int) -> float:
        """Return the mean error over 0…`end` labels: (1/end)·½·Σ_{l<end} (e(l) + e(l+1)), the paper's AUC/end."""
        if end < 1:
            raise InvalidInput(
                f"The area under a curve needs an end of at least 1 label, but got {end}; give a larger one."
            )
        inner = self.knots[0][(self.knots[0] > 0) & (self.knots[0] < end)]
        where = np.concatenate([[0], inner, [end]])
        return float(np.trapezoid(self.at(where), where) / end)


def labels_to_reach(labels: Ints, errors: Floats, target: float) -> float | None:
    """Return the number of labels at which a curve first reaches the target, or None; `labels` must be increasing.

    Examples
    --------
    >>> labels_to_reach(np.array([0, 10, 20]), np.array([0.3, 0.2, 0.1]), 0.15)
    15.0
    """
    reached = np.flatnonzero(errors <= target)
    if reached.size == 0:
        return None
    k = int(reached[0])
    if k == 0:
        return float(labels[0])
    share = (errors[k - 1] - target) / (errors[k - 1] - errors[k])
    return float(labels[k - 1] + share * (labels[k] - labels[k - 1]))


class Estimate(NamedTuple):
    """A mean over trials and its standard error."""

    mean: float
    se: float

    @classmethod
    def of(cls, values: Floats) -> Estimate:
        """Estimate from one value per trial."""
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size)))


@dataclass(frozen=True, eq=False)
class Best:
    """A method at its best setting under one policy.

    Parameters
    ----------
    params : dict
        The setting.
    areas : array of shape (trials,)
        The area under the curve of each trial.
    errors : array of shape (trials, max_labels + 1)
        The error of each trial after 0, 1, 2, … labels.
    bought : array of shape (trials,)
        The labels that each trial bought, at most `max_labels`; after them the error stays constant.
    grid : list of (dict, float)
        Every setting with its mean area.
    """

    params: dict[str, float]
    areas: Floats
    errors: Floats
    bought: Ints
    grid: list[tuple[dict[str, float], float]]

    @cached_property
    def mean(self) -> Floats:
        """The mean error after 0, 1, 2, … labels."""
        return np.asarray(self.errors.mean(axis=0))

    @cached_property
    def se(self) -> Floats:
        """The standard error of the mean."""
        return np.asarray(self.errors.std(axis=0, ddof=1) / np.sqrt(len(self.errors)))

    def labels_to_reach(self, target: float) -> float | None:
        """Return the number of labels at which the mean error first reaches the target, or None."""
        return labels_to_reach(np.arange(self.mean.size), self.mean, target)


def online_sizes(n_pool: int) -> tuple[int, ...]:
    """Return n_1 < n_2 < …, the number of rows seen after each epoch; the last is all rows.

    Examples
    --------
    >>> online_sizes(100)
    (10, 25, 47, 80, 100)
    """
    return (*takewhile(lambda total: total < n_pool, accumulate(growing_epochs())), n_pool)


class Streams:
    """The random numbers of a session, for many runs with one seed: each call resets a generator to its start.

    Making a generator takes as long as planning a small round; resetting one is faster.
    """

    def __init__(self, random_state: int) -> None:
        self.random_state = random_state
        self._generators: dict[tuple[int, int], tuple[np.random.Generator, Any]] = {}

    def __call__(self, round_: int, purpose: int) -> np.random.Generator:
        """Return the generator that a session uses in this round: purpose 0 to plan, 1 to advance."""
        key = (round_, purpose)
        if key not in self._generators:
            rng = np.random.default_rng([self.random_state, *key])
            self._generators[key] = rng, rng.bit_generator.state
        rng, start = self._generators[key]
        rng.bit_generator.state = start
        return rng


def replay(
    method: Method[StateT],
    problem: Problem,
    codes: Ints,
    streams: Streams,
    max_labels: float = inf,
    start: StateT | None = None,
) -> Iterator[StateT]:
    """Yield the method's state after round 0, 1, … when every answer is known in advance.

    Decisions, answers and random numbers are those of ``observal.run`` without a label budget, but nothing is recorded. This is
    for experiments with many thousand runs.

    Parameters
    ----------
    method, problem
        As for a session.
    codes : int array
        The class code of each pool row.
    streams : Streams
        Made with the session's `random_state`.
    max_labels : float
        Once this many labels are bought, stop before the next round that would buy more. No round is cut, and rounds that buy
        none are still run, so the curve up to `max_labels` is that of the whole run.
    start : state, optional
        What the method's `begin` returns, if it was computed before.
    """
    bought = 0
    state = method.begin(problem, streams(0, 0)) if start is None else start
    yield state
    for round_ in count(1):
        plan = method.plan(problem, state, streams(round_, 0))
        if isinstance(plan, Stop) or (bought >= max_labels and plan.asked.size):
            return
        bought += plan.asked.size
        answers = Answers(codes[plan.asked], np.ones(plan.asked.size, dtype=bool))
        state = method.advance(problem, state, plan, answers, streams(round_, 1))
        yield state


@dataclass(frozen=True, eq=False)
class Course:
    """A simulation prepared for many runs: its problem at every online size, and the pool's class codes.

    Parameters
    ----------
    world : World
        Log, pool, oracle and test rows.
    """

    world: World

    @cached_property
    def problem(self) -> Problem:
        """Log and pool."""
        return Problem(self.world.logged, self.world.pool)

    @cached_property
    def codes(self) -> Ints:
        """The class code of each pool row."""
        labels = self.world.oracle(self.world.pool.ids)
        return encode_labels(labels, self.world.logged.classes, "A label of the pool")

    @cached_property
    def starts(self) -> tuple[Problem, ...]:
        """The log with the first n rows of the pool, for each online size n."""
        pool = self.world.pool
        return tuple(
            Problem(self.world.logged, Pool(pool.X[:n], pool.propensity[:n], pool.ids[:n]))
            for n in online_sizes(len(pool))
        )

    @cached_property
    def test_positive(self) -> Bools:
        """Which test rows are of the positive class."""
        return np.asarray(encode_labels(self.world.y_test, self.world.logged.classes, "A label of the test") == 1)

    def rounds(
        self, method: Method, max_labels: int, streams: Streams, starts: dict[Any, Any] | None = None
    ) -> Iterator[Round]:
        """Yield the rounds of the method's curve that are needed up to `max_labels`.

        If one run does not give the whole curve, the method is run again for each online size, and the last round of each run is
        used. All sizes are run, because a larger one may buy fewer labels. `starts` holds the states that runs begin with, for
        methods that differ only in settings which `begin` does not use.
        """
        starts = {} if starts is None else starts
        if method.curve_from_one_run:
            for state in replay(method, self.problem, self.codes, streams, max_labels):
                yield method.describe(self.problem, state)
            return
        common: Any = replace(method, **dict.fromkeys(method.begins_without, 1.0))  # type: ignore[type-var]
        for number, problem in enumerate(self.starts):
            if (common, number) not in starts:
                starts[common, number] = method.begin(problem, streams(0, 0))
            first, *_, last = replay(method, problem, self.codes, streams, start=starts[common, number])
            if number == 0:
                yield method.describe(problem, first)
            yield method.describe(problem, last)

    def curves(self, methods: Iterable[Method], max_labels: int, random_state: int) -> list[Curve]:
        """Return each method's test error against labels bought; all linear classifiers are tested at once."""
        streams = Streams(random_state)
        starts: dict[Any, Any] = {}
        runs = [list(self.rounds(method, max_labels, streams, starts)) for method in methods]
        errors = self.test_errors([round_.estimator for run in runs for round_ in run])
        ends = np.cumsum([len(run) for run in runs])[:-1]
        return [
            Curve([round_.labels for round_ in run], part)
            for run, part in zip(runs, np.split(errors, ends), strict=True)
        ]

    def test_errors(self, estimators: Sequence[Any]) -> Floats:
        """Return the share of test rows that each classifier gets wrong, for linear ones from one matrix product."""
        if not all(isinstance(estimator, LinearClassifier) for estimator in estimators):
            return np.array([self.world.error(estimator) for estimator in estimators])
        coef = np.stack([estimator.coef_[0] for estimator in estimators], axis=1)
        intercept = np.array([estimator.intercept_[0] for estimator in estimators])
        positive: NDArray[Any] = self.world.X_test @ coef + intercept > 0.0
        return np.asarray((positive != self.test_positive[:, np.newaxis]).mean(axis=0))

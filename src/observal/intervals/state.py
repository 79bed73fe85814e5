"""What methods that choose from the whole pool know between rounds, and their importance weights.

**Weights.** Log and pool together are m + N rows from one population. Some have labels: those the old policy revealed, and
those that were bought. Rows are grouped into strata by propensity. In a stratum of T rows, t of them labelled, each labelled
row represents T/t rows. This is the multiple-importance weight with the rate of labelling estimated in the stratum, which
varies less than the planned rate. Weights are clipped at the paper's threshold, which grows when the pool is larger than the
log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints
from observal.paper.weights import practical_clip_threshold
from observal.parquet.vectors import pieces, pieces_of, quantiles
from observal.problem.method import Classifier
from observal.problem.plan import ASKED, Answers, Plan
from observal.problem.problem import Problem
from observal.problem.result import Round

N_STRATA = 8  # groups of rows by propensity: fewer mix unlike rows, more leave some without labels
GATED, FREE, RANDOM, BLIND = (np.int8(code) for code in range(4))
"""Why a row was taken: uncertain where the log has few labels, uncertain, at random, or at random where the log has hardly any labels."""
PICKED = (RANDOM, BLIND)
"""The reasons of rows that were picked at random."""
BLIND_LABELS = 30.0  # labels that measure the error if the log has none: with no mistake among them it is below 12 %
MOST_NEAR, MOST_NEAR_SHARE = 2000, 10  # rows that a plan notes, at most: in all, and for each row that it asks about


def stratum_cuts(propensity: Floats) -> Floats:
    """Return the distinct propensities that end all strata but the last: quantiles, so that strata are about equally large.

    Examples
    --------
    >>> import numpy as np
    >>> stratum_cuts(np.repeat([0.1, 0.5], 8)).tolist()
    [0.1, 0.3, 0.5]
    """
    shares = np.arange(1, N_STRATA) / N_STRATA
    if isinstance(propensity, np.ndarray):
        return np.unique(np.quantile(propensity, shares))
    # Those of log and pool in parts are not copied.
    return np.unique(quantiles(lambda: pieces_of(propensity), len(propensity), shares))


@dataclass(frozen=True, eq=False)
class Strata:
    """The rows of log and pool, grouped by propensity into strata of about equal size."""

    of_row: NDArray[np.int8]
    count: int

    @classmethod
    def of(cls, propensity: Floats, reference: Floats) -> Self:
        """Group `propensity` at the quantiles of `reference`; equal propensities stay together."""
        cuts = stratum_cuts(reference)
        of_row = [np.searchsorted(cuts, part, side="left").astype(np.int8) for part in pieces_of(propensity)]
        return cls(np.concatenate(of_row), cuts.size + 1)

    def importance(self, rows: Ints, n_seen: int) -> Floats:
        """Return T/t for each of the labelled `rows`, counted over the first `n_seen` rows.

        One is added to both T and t, so a weight is never infinite.
        """
        sizes = sum(np.bincount(self.of_row[part], minlength=self.count) for part in pieces(n_seen))
        n_labelled = np.bincount(self.of_row[rows], minlength=self.count)
        return np.asarray(((sizes + 1.0) / (n_labelled + 1.0))[self.of_row[rows]])


@dataclass(frozen=True, eq=False)
class PoolState:
    """What is known between rounds of a method that chooses from the whole pool.

    `fit` belongs to the method and runs only when `model` is first read, so replaying old rounds costs nothing.
    """

    fit: Any = field(repr=False)  # from a state to the model
    strata: Strata = field(repr=False)
    bought: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    codes: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    skipped: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rounds: int = 0
    looked: int = 0  # pool rows decided on so far
    last: tuple[int, int, int] = (0, 0, 0)  # labels bought, rows skipped and rows passed in the last round
    before: Self | None = field(default=None, repr=False)  # the state before the last round
    plan: Plan | None = field(default=None, repr=False)  # that round
    ahead_of: Self | None = field(
        default=None, repr=False
    )  # the state in which it was planned, if earlier than `before`
    waiting: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # rows of rounds that are still open

    @cached_property
    def model(self) -> Any:
        """The method's model of the labels so far."""
        return self.fit(self)

    @property
    def is_fitted(self) -> bool:
        """Whether the model is there."""
        return "model" in self.__dict__

    def with_model(self, fit: Any, model_of: Callable[[Self], Any]) -> Self:
        """Return the state with a model that need not be fitted, and what fits the states after it."""
        state = replace(self, fit=fit)
        state.__dict__["model"] = model_of(state)  # where the cached property keeps it
        return state

    @classmethod
    def start(cls, problem: Problem, fit: Callable[[Any], Any]) -> Self:
        """Return the initial state."""
        # Given labels never share a stratum with other rows, however few those are.
        reference = np.array([0.0, 1.0]) if problem.is_given else problem.propensity
        return cls(fit, Strata.of(problem.propensity, reference))

    def n_seen(self, problem: Problem) -> int:
        """Return how many rows of log and pool are known: all of them."""
        return problem.n_rows

    def after(self, plan: Plan, answers: Answers, fit: Callable[[Any], Any]) -> Self:
        """Return the state with a round's answers."""
        asked, answered = plan.asked, answers.answered
        return replace(
            self,
            fit=fit,
            before=self,
            plan=plan,
            ahead_of=None,
            bought=np.concatenate([self.bought, asked[answered]]),
            codes=np.concatenate([self.codes, answers.codes[answered]]),
            skipped=np.concatenate([self.skipped, asked[~answered]]),
            rounds=self.rounds + 1,
            looked=self.looked + plan.positions.size,
            last=(int(answered.sum()), int((~answered).sum()), plan.positions.size - asked.size),
        )

    def planned_ahead_in(self, earlier: Self) -> Self:
        """Return the state, whose last round was planned in an earlier state while the rounds between were open."""
        return replace(self, ahead_of=earlier)

    @property
    def planned_in(self) -> PoolState | None:
        """The state in which the last round was planned."""
        return self.before if self.ahead_of is None else self.ahead_of

    def while_open(self, waiting: Ints) -> Self:
        """Return the state for planning ahead: the model is the same, and rows of open rounds cannot be chosen again."""
        return replace(self, fit=lambda _: self.model, waiting=waiting)

    @property
    def n_taken(self) -> int:
        """The labels bought, and rows whose labels are still to come."""
        return int(self.bought.size + self.waiting.size)

    def plans(self) -> Iterator[Plan]:
        """Yield the plans of the rounds so far, the last one first."""
        state: PoolState | None = self
        while state is not None and state.plan is not None:
            yield state.plan
            state = state.before

    def any_left(self, problem: Problem) -> bool:
        """Return whether any pool row is still undecided."""
        return self.looked + self.waiting.size < len(problem.pool)

    def open_rows(self, problem: Problem) -> Bools:
        """Return the pool rows that were neither bought nor skipped, and are not waiting for an answer."""
        open_ = np.ones(len(problem.pool), dtype=bool)
        for rows in (self.bought, self.skipped, self.waiting):
            open_[rows] = False
        return open_

    def labelled(self, problem: Problem) -> tuple[Ints, Ints]:
        """Return the rows of log and pool that have a label, and their class codes."""
        return problem.labelled(self.bought, self.codes)

    def importance(self, problem: Problem, rows: Ints, clip_constant: float | None) -> tuple[Floats, float]:
        """Return the clipped weight of each of the labelled `rows`, and the clip threshold.

        A weight above the threshold is lowered to it, not dropped, so a label that was paid for always counts. The threshold
        is the paper's while the pool is no larger than the log. The paper's weights count the log and the labels bought; these
        count all rows seen, so with a larger pool the threshold grows too. Otherwise it would remove the whole correction.

        Parameters
        ----------
        problem : Problem
            Log and pool.
        rows : int array
            The labelled rows.
        clip_constant : float, optional
            Takes the place of the log term in the paper's threshold; None clips nothing.
        """
        n_seen = self.n_seen(problem)
        weights = self.strata.importance(rows, n_seen)
        if clip_constant is None:
            return weights, float(np.inf)
        n_logged, n_bought = problem.n_logged, int(self.bought.size)
        threshold = practical_clip_threshold(problem.logged.propensity, n_logged, n_bought, clip_constant)
        threshold *= max(1.0, n_seen / (2.0 * n_logged))
        return np.minimum(weights, threshold), threshold

    def as_round(self, *, estimator: Classifier | None, clip: float, disagreement: float, **details: Any) -> Round:
        """Return the round as people see it."""
        asked, skipped, passed = self.last
        return Round(
            index=self.rounds,
            labels=int(self.bought.size),
            seen=self.looked,
            asked=asked,
            inferred=0,
            passed=passed,
            skipped=skipped,
            clip=clip,
            disagreement=disagreement,
            estimator=estimator,
            details=details,
        )


def taken_rows(state: PoolState) -> Ints:
    """Return the pool rows that rounds took for their gap."""
    parts = [np.empty(0, dtype=np.int64), *(taken_for_gap(plan) for plan in state.plans())]
    return np.concatenate(parts)


def taken_for_gap(plan: Plan) -> Ints:
    """Return the rows that a plan asks about for their gap, not picked at random."""
    return np.asarray(plan.positions[(plan.action == ASKED) & ~np.isin(plan.reason, PICKED)])


def as_near(plan: Plan, gaps: Floats, n_logged: int) -> tuple[Ints | None, Floats | None]:
    """Return the rows with gaps as small as those that a plan takes for their gap, as ``Plan`` records them.

    Nothing is recorded where very many rows have equal gaps.

    Parameters
    ----------
    plan : Plan
        What was drawn.
    gaps : array
        Of the stack of log and pool, labelled rows judged as if their labels were unknown.
    n_logged : int
        Rows of the log.
    """
    near = np.flatnonzero(gaps <= gaps[n_logged + taken_for_gap(plan)].max(initial=-np.inf))
    if near.size > max(MOST_NEAR, MOST_NEAR_SHARE * plan.positions.size):
        return None, None
    return near, gaps[near]


def rows_for_cells(state: PoolState, rows: Ints, n_logged: int, n_rows: int, most: int) -> tuple[Ints, Ints, Bools]:
    """Return the rows to sort into cells, the places of the labelled rows among them, and which rows represent the population.

    Of a large pool and log a random part is enough to tell how large the cells are; labelled and skipped rows are always
    sorted, but count only if they are in that part.

    Parameters
    ----------
    state : PoolState
        What was bought and skipped.
    rows : int array
        The labelled rows.
    n_logged, n_rows : int
        Rows of the log, and of log and pool together.
    most : int
        Rows of the random part.
    """
    every = np.random.default_rng(0).choice(n_rows, most, replace=False) if n_rows > most else np.arange(n_rows)
    frame = np.unique(np.concatenate([every, rows, n_logged + state.skipped]))
    return frame, np.searchsorted(frame, rows), np.isin(frame, every)

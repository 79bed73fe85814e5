"""What methods that choose from the whole pool share: importance weights, the gate, and a choice with recorded chances.

**Weights.** Log and pool together are m + N rows of one population, of which some have labels: rows that the old policy
revealed, and rows that were bought. Rows are sorted into strata by propensity. In a stratum of T rows, t of them labelled,
each labelled row stands for T/t rows: this is the multiple-importance weight with the mixture's rate of labelling
estimated in the stratum, which varies less than the rate that was planned. Weights are clipped at the paper's threshold,
which grows with a pool that is larger than the log.

**Gate.** The bias-correcting policy asks about a row when 2·n > m·Q0(x), n being the position in a stream. A pool has no
position; `rows_per_label` rows of a virtual stream go by for each label bought, so that the gate opens first for rows that
the log hardly shows, and later for all. One row a label keeps it where labels are missing for long: intervals gain most
from that. While fewer rows than a batch would pass, there is no gate and all do.

**Choice.** Each round takes `batch` rows: a share of them the least settled rows that pass the gate and are in doubt at all
(as in the paper, which asks in the disagreement region alone), the others the least settled rows of all. Then every row's
chance is mixed with a floor: ``π(x) = (1 − f)·1{taken} + f·batch/G·1{passes the gate}`` with f the `floor` and G the rows
that pass. Rows are drawn with exactly these chances (systematic sampling in random order), so no row that passes the gate
is ever out of reach, and every chance is on record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.errors import InvalidInput
from observal.types import ASKED, Answers, Plan, Problem, Round
from observal.weights import practical_clip_threshold, query_policy

REASONS = (
    "among the least settled rows that the log hardly shows",
    "among the least settled rows",
    "drawn by lot, so that every row keeps a chance",
)
GATED, FREE, BY_LOT = (np.int8(code) for code in range(3))
N_STRATA = 8


@dataclass(frozen=True)
class Choice:
    """How a round chooses: settings that all pool methods share.

    Parameters
    ----------
    batch : int
        Labels per round.
    floor : float
        f: the share of each batch that is spread evenly over the rows that pass the gate.
    gate_share : float
        The share of each batch that goes to rows that pass the gate, as long as such rows are in doubt; 0 switches the gate
        off.
    rows_per_label : float
        Rows of the virtual stream per label.
    """

    batch: int = 10
    floor: float = 0.1
    gate_share: float = 0.5
    rows_per_label: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(self, "floor", "gate_share", "rows_per_label")
        shares = {"floor": self.floor, "gate_share": self.gate_share}
        for name, value in shares.items():
            if not 0.0 <= value <= 1.0:
                raise InvalidInput(f"{name} must be between 0 and 1, but is {value}; it is a share of each batch.")
        if not (isinstance(self.batch, int) and self.batch >= 1 and 0.0 < self.rows_per_label < np.inf):
            raise InvalidInput(
                "A round needs a batch of at least 1, a Python int, and a finite rows_per_label above 0, but got "
                f"{self.batch!r} and {self.rows_per_label}."
            )


def check_numbers(settings: Any, *names: str) -> None:
    """Refuse settings that are no numbers."""
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidInput(f"{name} must be a number, but is {value!r}; give one.")


@dataclass(frozen=True, eq=False)
class Strata:
    """Rows of log and pool, in that order, sorted by propensity into strata of about equal size."""

    of_row: Ints
    count: int

    @classmethod
    def of(cls, problem: Problem, log_only: bool = False) -> Self:
        """Cut at quantiles of all propensities, or of the log's; equal propensities stay together."""
        everyone = np.concatenate([problem.logged.propensity, problem.pool.propensity])
        known = problem.logged.propensity if log_only else everyone
        cuts = np.unique(np.quantile(known, np.arange(1, N_STRATA) / N_STRATA))
        return cls(np.searchsorted(cuts, everyone, side="left"), cuts.size + 1)

    def importance(self, rows: Ints, n_seen: int) -> Floats:
        """Return T/t for each of the labelled `rows`, from the first `n_seen` rows.

        One is added to both, so that a weight is never infinite.
        """
        sizes = np.bincount(self.of_row[:n_seen], minlength=self.count)
        known = np.bincount(self.of_row[rows], minlength=self.count)
        return np.asarray(((sizes + 1.0) / (known + 1.0))[self.of_row[rows]])


@dataclass(frozen=True, eq=False)
class PoolState:
    """What was bought. `fit` is the method's own and runs when `model` is first read: a replayed round costs nothing."""

    fit: Any = field(repr=False)  # from a state to the model
    strata: Strata = field(repr=False)
    bought: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    codes: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    skipped: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rounds: int = 0
    looked: int = 0  # pool rows that were decided on
    last: tuple[int, int, int] = (0, 0, 0)  # labels bought, rows skipped and rows passed in the last round
    is_stream: bool = False
    before: Self | None = field(default=None, repr=False)  # the state in which the last round was planned
    plan: Plan | None = field(default=None, repr=False)  # that round

    @cached_property
    def model(self) -> Any:
        """What the method makes of the labels."""
        return self.fit(self)

    @classmethod
    def start(cls, problem: Problem, fit: Callable[[Any], Any], is_stream: bool = False) -> Self:
        """Return the state before anything was bought."""
        return cls(fit, Strata.of(problem, log_only=is_stream), is_stream=is_stream)

    def after(self, plan: Plan, answers: Answers, fit: Callable[[Any], Any]) -> Self:
        """Return the state with a round's answers."""
        asked, answered = plan.asked, answers.answered
        return replace(
            self,
            fit=fit,
            before=self,
            plan=plan,
            bought=np.concatenate([self.bought, asked[answered]]),
            codes=np.concatenate([self.codes, answers.codes[answered]]),
            skipped=np.concatenate([self.skipped, asked[~answered]]),
            rounds=self.rounds + 1,
            looked=self.looked + plan.positions.size,
            last=(int(answered.sum()), int((~answered).sum()), plan.positions.size - asked.size),
        )

    def any_left(self, problem: Problem) -> bool:
        """Tell whether a pool row has not been decided on."""
        return self.looked < len(problem.pool)

    def open_rows(self, problem: Problem) -> Bools:
        """Return the pool rows that were neither bought nor skipped."""
        open_ = np.ones(len(problem.pool), dtype=bool)
        open_[self.bought] = False
        open_[self.skipped] = False
        return open_

    def labelled(self, problem: Problem) -> tuple[Ints, Ints]:
        """Return the rows of the stack, log then pool, that have a label, and their class codes."""
        shown = np.flatnonzero(problem.logged.revealed)
        rows = np.concatenate([shown, len(problem.logged) + self.bought])
        return rows, np.concatenate([problem.logged.codes[shown], self.codes])

    def importance(self, problem: Problem, rows: Ints, clip: bool, capacity: float) -> tuple[Floats, float]:
        """Return the clipped weight of each of the labelled `rows`, and the clip.

        A weight above the clip is cut down to it and not dropped: a row that was paid for is never thrown away. The clip is
        the paper's up to a pool as large as the log. The paper's weights count the log and the labels bought; these count all
        rows seen, so that beyond it the clip grows with them: else a large pool would leave nothing of the correction.
        """
        n_seen = len(problem.logged) + (self.looked if self.is_stream else len(problem.pool))
        weights = self.strata.importance(rows, n_seen)
        if not clip:
            return weights, float(np.inf)
        n_logged, n_bought = len(problem.logged), int(self.bought.size)
        threshold = practical_clip_threshold(problem.logged.propensity, n_logged, n_bought, capacity)
        threshold *= max(1.0, n_seen / (2.0 * n_logged))
        return np.minimum(weights, threshold), threshold

    def as_round(self, *, estimator: Any, clip: float, disagreement: float, **details: Any) -> Round:
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


@dataclass(frozen=True, eq=False)
class Draw:
    """The chance of each pool row in a round, and which rows were taken for which share of it."""

    chance: Floats
    taken_gate: Bools
    taken_free: Bools


def draw(problem: Problem, state: PoolState, choice: Choice, gaps: Floats, in_doubt: Bools | None = None) -> Draw:
    """Return the chances of the next round.

    Parameters
    ----------
    problem, state, choice
        What there is to choose from, and how.
    gaps : array
        How settled each pool row is; the smallest are taken.
    in_doubt : bool array, optional
        The rows that the gate's share may go to; what it finds no such rows for is taken from all. Every row by default.
    """
    open_, passing = open_and_passing(problem, state, choice)
    size = min(choice.batch, int(open_.sum()))
    for_gate = round(choice.gate_share * size)
    taken_gate = _smallest(gaps, passing if in_doubt is None else passing & in_doubt, for_gate)
    for_gate = int(taken_gate.sum())
    taken_free = _smallest(gaps, open_ & ~taken_gate, size - for_gate)
    floor = choice.floor * size / max(1, int(passing.sum()))
    chance = (1.0 - choice.floor) * (taken_gate | taken_free) + floor * passing
    if passing[open_].all():  # a gate that lets everybody through is no reason to be asked about
        taken_gate, taken_free = np.zeros_like(taken_gate), taken_gate | taken_free
    return Draw(np.minimum(chance, 1.0), taken_gate, taken_free)


def open_and_passing(problem: Problem, state: PoolState, choice: Choice) -> tuple[Bools, Bools]:
    """Return the pool rows that are open, and those of them that pass the gate in the next round."""
    open_ = state.open_rows(problem)
    passing = open_.copy()
    passing[open_] = passes_gate(problem.pool.propensity[open_], len(problem.logged), state.bought.size, choice)
    return open_, passing


def passes_gate(propensity: Floats, n_logged: int, n_bought: int, choice: Choice) -> Bools:
    """Return which of the rows on offer pass the gate in the next round; all of them where fewer than a batch would."""
    passing = query_policy(propensity, n_logged, int(choice.rows_per_label * (n_bought + choice.batch)))
    enough = int(passing.sum()) >= min(choice.batch, passing.size)
    return passing if enough and choice.gate_share > 0.0 else np.ones(passing.size, dtype=bool)


def least_chance(problem: Problem, state: PoolState, choice: Choice) -> float:
    """Return the chance that every row that passes the gate has at least of being asked about in the next round."""
    open_, passing = open_and_passing(problem, state, choice)
    return min(1.0, choice.floor * min(choice.batch, int(open_.sum())) / max(1, int(passing.sum())))


def _smallest(values: Floats, among: Bools, count: int) -> Bools:
    """Return the `count` smallest; of equal ones the first."""
    chosen = np.zeros(values.size, dtype=bool)
    rows = np.flatnonzero(among)
    if 0 < count < rows.size:
        largest = np.partition(values[rows], count - 1)[count - 1]
        rows = rows[values[rows] <= largest]
        rows = rows[np.argsort(values[rows], kind="stable")[:count]]
    chosen[rows[:count]] = True
    return chosen


def draw_plan(drawn: Draw, rng: np.random.Generator) -> Plan:
    """Draw the rows of a round, each with its chance, and in random order."""
    chance = drawn.chance
    rows = np.flatnonzero(chance > 0.0)
    positions = rng.permutation(rows[systematic(chance[rows], rng)])
    reason = np.full(positions.size, BY_LOT)
    reason[drawn.taken_free[positions]] = FREE
    reason[drawn.taken_gate[positions]] = GATED
    return Plan(
        positions,
        chance[positions],
        np.full(positions.size, ASKED),
        np.zeros(positions.size, dtype=np.int64),
        reason,
        REASONS,
        shuffled=True,
    )


def systematic(chance: Floats, rng: np.random.Generator) -> Ints:
    """Draw rows, each with exactly its own chance, and as many as the chances add up to (up to rounding).

    The rows stand in random order on a line, each as long as its chance; one random start and then every whole step
    picks the row it falls on.

    Examples
    --------
    >>> import numpy as np
    >>> systematic(np.array([1.0, 0.5, 0.5, 0.0]), np.random.default_rng(0)).size
    2
    """
    order = rng.permutation(chance.size)
    ends = np.cumsum(chance[order])
    total = round(float(ends[-1]))
    points = np.arange(total) + rng.random()
    picked = np.minimum(np.searchsorted(ends, points, side="right"), chance.size - 1)
    return np.asarray(order[np.unique(picked)])

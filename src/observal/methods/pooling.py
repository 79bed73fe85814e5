"""What methods that choose from the whole pool share: importance weights, the gate, and a choice with recorded chances.

**Weights.** Log and pool together are m + N rows of one population, of which some have labels: rows that the old policy
revealed, and rows that were bought. Rows are sorted into strata by propensity. In a stratum of T rows, t of them labelled,
each labelled row stands for T/t rows: this is the multiple-importance weight with the mixture's rate of labelling
estimated in the stratum, which varies less than the rate that was planned. Weights are clipped at the paper's threshold.

**Gate.** The bias-correcting policy asks about a row when 2·n > m·Q0(x), n being the position in a stream. A pool has no
position; `rows_per_label` rows of a virtual stream go by for each label bought, so that the gate opens first for rows that
the log hardly shows, and later for all.

**Choice.** Each round takes `batch` rows: a share of them the least settled rows that pass the gate, the others the least
settled rows of all. Then every row's chance is mixed with a floor: ``π(x) = (1 − f)·1{taken} + f·batch/G·1{passes the gate}``
with f the `floor` and G the rows that pass. Rows are drawn with exactly these chances (systematic sampling in random
order), so no row that passes the gate is ever out of reach, and every chance is on record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
        The share of each batch that goes to rows that pass the gate; 0 switches the gate off.
    rows_per_label : float
        Rows of the virtual stream per label.
    """

    batch: int = 10
    floor: float = 0.05
    gate_share: float = 0.5
    rows_per_label: float = 4.0

    def __post_init__(self) -> None:
        shares = {"floor": self.floor, "gate_share": self.gate_share}
        for name, value in shares.items():
            if not 0.0 <= value <= 1.0:
                raise InvalidInput(f"{name} must be between 0 and 1, but is {value}; it is a share of each batch.")
        if not (isinstance(self.batch, int) and self.batch >= 1 and 0.0 < self.rows_per_label < np.inf):
            raise InvalidInput(
                "A round needs a batch of at least 1, in whole rows, and a finite rows_per_label above 0, but got "
                f"{self.batch} and {self.rows_per_label}."
            )


@dataclass(frozen=True, eq=False)
class Strata:
    """Rows of log and pool, in that order, sorted by propensity into strata of about equal size."""

    of_row: Ints
    sizes: Ints

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Cut at quantiles of the propensities; equal propensities stay together."""
        propensity = np.concatenate([problem.logged.propensity, problem.pool.propensity])
        cuts = np.unique(np.quantile(propensity, np.arange(1, N_STRATA) / N_STRATA))
        of_row = np.searchsorted(cuts, propensity, side="left")
        return cls(of_row, np.bincount(of_row, minlength=cuts.size + 1))

    def importance(self, labelled: Bools) -> Floats:
        """Return for each row T/t of its stratum; one is added to both, so that an empty stratum has a weight too."""
        known = np.bincount(self.of_row[labelled], minlength=self.sizes.size)
        return np.asarray(((self.sizes + 1.0) / (known + 1.0))[self.of_row])


@dataclass(frozen=True, eq=False)
class PoolState:
    """What was bought, and with which chances; `model` is the method's own."""

    strata: Strata = field(repr=False)
    model: Any = field(default=None, repr=False)
    bought: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    codes: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    skipped: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rounds: int = 0
    last: tuple[int, int] = (0, 0)  # labels bought and rows skipped in the last round

    @classmethod
    def start(cls, problem: Problem) -> Self:
        """Return the state before anything was bought."""
        return cls(Strata.of(problem))

    def after(self, plan: Plan, answers: Answers) -> Self:
        """Return the state with a round's answers."""
        asked, answered = plan.asked, answers.answered
        return replace(
            self,
            bought=np.concatenate([self.bought, asked[answered]]),
            codes=np.concatenate([self.codes, answers.codes[answered]]),
            skipped=np.concatenate([self.skipped, asked[~answered]]),
            rounds=self.rounds + 1,
            last=(int(answered.sum()), int((~answered).sum())),
        )

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

        A weight above the clip is cut down to it and not dropped: a row that was paid for is never thrown away.
        """
        labelled = np.zeros(self.strata.of_row.size, dtype=bool)
        labelled[rows] = True
        weights = self.strata.importance(labelled)[rows]
        if not clip:
            return weights, float(np.inf)
        threshold = practical_clip_threshold(
            problem.logged.propensity, len(problem.logged), int(self.bought.size), capacity
        )
        return np.minimum(weights, threshold), threshold

    def as_round(self, *, estimator: Any, clip: float, disagreement: float, **details: Any) -> Round:
        """Return the round as people see it."""
        asked, skipped = self.last
        return Round(
            index=self.rounds,
            labels=int(self.bought.size),
            seen=int(self.bought.size + self.skipped.size),
            asked=asked,
            inferred=0,
            passed=0,
            skipped=skipped,
            clip=clip,
            disagreement=disagreement,
            estimator=estimator,
            details=details,
        )


@dataclass(frozen=True, eq=False)
class Draw:
    """The chances of a round: of every row of log and pool, and which pool rows were taken for which share."""

    chance: Floats
    taken_gate: Bools
    taken_free: Bools
    floor: float


def draw(problem: Problem, state: PoolState, choice: Choice, gaps: Floats) -> Draw:
    """Return the chances of the next round.

    `gaps`, of log and pool, says how settled each row is; the smallest are taken. A logged row gets the chance that it
    would have had in the pool, which an estimate from recorded chances needs; the weights, by strata, do not.
    """
    n_logged = len(problem.logged)
    open_ = state.open_rows(problem)
    n_open = int(open_.sum())
    size = min(choice.batch, n_open)
    position = int(choice.rows_per_label * (state.bought.size + choice.batch))
    propensity = np.concatenate([problem.logged.propensity, problem.pool.propensity])
    gate = query_policy(propensity, n_logged, position)
    if choice.gate_share == 0.0 or int((gate[n_logged:] & open_).sum()) < size:
        gate = np.ones(propensity.size, dtype=bool)  # too few rows pass: all do
    passing = gate[n_logged:] & open_
    pool_gaps = gaps[n_logged:]
    for_gate = round(choice.gate_share * size)
    taken_gate = _smallest(pool_gaps, passing, for_gate)
    taken_free = _smallest(pool_gaps, open_ & ~taken_gate, size - for_gate)
    floor = choice.floor * size / max(1, int(passing.sum()))
    would_take = gate & (gaps <= pool_gaps[taken_gate].max(initial=-np.inf))
    would_take |= gaps <= pool_gaps[taken_free].max(initial=-np.inf)
    would_take[n_logged:] = taken_gate | taken_free
    chance = (1.0 - choice.floor) * would_take + floor * gate
    chance[n_logged:] *= open_
    return Draw(np.minimum(chance, 1.0), taken_gate, taken_free, floor)


def _smallest(values: Floats, among: Bools, count: int) -> Bools:
    chosen = np.zeros(values.size, dtype=bool)
    rows = np.flatnonzero(among)
    if count > 0:
        chosen[rows[np.argsort(values[rows], kind="stable")[:count]]] = True
    return chosen


def draw_plan(problem: Problem, drawn: Draw, rng: np.random.Generator) -> Plan:
    """Draw the rows of a round, each with its chance, and in random order."""
    chance = drawn.chance[len(problem.logged) :]
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

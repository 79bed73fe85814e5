"""How methods that choose from the whole pool choose: the gate, and a random choice with known chances.

**Gate.** The bias-correcting policy asks about a row when 2·n > m·Q0(x), where n is the row's place in a stream. Rows in a
pool have no place, so n is the number of labels bought once the batch is in. The gate therefore opens first for rows that
the log rarely shows, and later for all rows. While fewer rows than a batch would pass, all rows pass.

**Choice.** Each round takes `batch` rows. A share of them are the most uncertain rows that pass the gate (only rows that are
uncertain at all, as in the paper, which asks in the disagreement region alone); the others are the most uncertain rows of all.
Part of each row's chance is then spread evenly: ``π(x) = (1 − f)·1{taken} + f·batch/G·1{passes the gate}``, where f is
`explore_share` and G the number of rows that pass. Rows are drawn with exactly these chances (systematic sampling in random
order), so every row that passes the gate can be chosen, and every chance is on record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from observal.checks import Bools, Floats, Ints, check_share, check_whole, keep
from observal.intervals.state import BLIND, BLIND_LABELS, FREE, GATED, PICKED, RANDOM, PoolState
from observal.paper.weights import query_policy
from observal.parquet.vectors import pieces
from observal.problem.plan import ASKED, Plan
from observal.problem.problem import Problem

REASONS = (
    "uncertain, and the log has few labels here",
    "uncertain",
    "picked at random, so every row can be chosen",
    "picked at random where the log has hardly any labels",
)
LEAST_LIKELY = 0.02  # floor for a row's chance of a class when sampling to measure how much of it is found; classifiers may be overconfident
EVENLY = 0.2  # share of these random picks that is spread evenly over all rows


@dataclass(frozen=True)
class Choice:
    """How a round chooses rows: the settings that all pool methods share."""

    batch: int = 10  # labels per round
    explore_share: float = 0.1  # f: the share of each batch that is picked at random from the rows that pass the gate
    # The share of each batch that goes to uncertain rows that pass the gate, as long as there are any; 0 switches the gate off.
    gate_share: float = 0.5
    # The largest share of a batch that is picked at random where the log is blind: see ``find_blind_rows``.
    most_blind: float = 0.5

    def __post_init__(self) -> None:
        keep(
            self,
            batch=check_whole(self.batch, "batch", 1),
            explore_share=check_share(self.explore_share, "explore_share", fix="it is a share of each batch"),
            gate_share=check_share(self.gate_share, "gate_share", fix="it is a share of each batch"),
            most_blind=check_share(self.most_blind, "most_blind", fix="it is a share of each batch"),
        )


@dataclass(frozen=True, eq=False)
class Chances:
    """A chance for each row, of which there are only a few different ones: a byte for each row.

    Examples
    --------
    >>> import numpy as np
    >>> Chances(np.array([1, 0, 1], dtype=np.uint8), np.array([0.0, 0.2]))[np.array([0, 1])].tolist()
    [0.2, 0.0]
    """

    of_row: NDArray[np.uint8]
    values: Floats

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.of_row.size

    def __getitem__(self, rows: Ints | Bools | slice) -> Floats:
        return np.asarray(self.values[self.of_row[rows]])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        return np.asarray(self[:], dtype=dtype)


@dataclass(frozen=True, eq=False)
class Draw:
    """The chance of each pool row in a round, the rows that were taken through the gate or without it, and those the log is blind to."""

    chance: Floats | Chances
    taken_gate: Ints
    taken_free: Ints
    blind: Bools | None = None


def draw(
    problem: Problem,
    state: PoolState,
    choice: Choice,
    gaps: Floats,
    uncertain: Bools | None = None,
    chances: Floats | None = None,
) -> Draw:
    """Return each pool row's chance in the next round.

    Rows with the smallest `gaps` are taken: those whose predictions are least certain. The gate's share goes to `uncertain` rows, by
    default to any; if there are too few, the rest goes to any row. `chances` are those of being of the class that an objective is about:
    rows picked at random are then rather picked where it is likely and the log has few labels, instead of being spread evenly
    (``measuring_weights``).
    """
    open_, passing = open_and_passing(problem, state, choice)
    n_open, n_passing = int(open_.sum()), int(passing.sum())
    blind, n_blind = draw_from_blind_rows(problem, state, choice, open_)
    size = min(choice.batch, n_open) - n_blind
    taken_gate = _smallest(gaps, round(choice.gate_share * size), passing, uncertain)
    open_[taken_gate] = False
    taken_free = _smallest(gaps, size - taken_gate.size, open_)
    open_[taken_gate] = True
    asked = np.concatenate([taken_gate, taken_free])
    blind[asked] = False
    if chances is not None and size > 0:
        n_random = choice.explore_share * (state.n_taken + size)
        log_rate = problem.pool.propensity[open_] * problem.n_logged / len(problem.pool)
        measuring = np.zeros(open_.size)
        measuring[open_] = choice.explore_share * size * measuring_weights(chances[open_], log_rate, n_random)
        measuring[asked] += 1.0 - choice.explore_share
        measuring[blind] += n_blind / max(1, int(blind.sum()))
        chance: Floats | Chances = np.minimum(measuring, 1.0, out=measuring)
    else:
        at_random = choice.explore_share * size / max(1, n_passing)
        chance = _chances(passing, at_random, asked, choice, blind, n_blind)
    if n_passing == n_open:  # if every row passes, the gate is no reason to choose a row
        taken_gate, taken_free = asked[:0], asked
    return Draw(chance, taken_gate, taken_free, blind if n_blind else None)


def _chances(passing: Bools, at_random: float, asked: Ints, choice: Choice, blind: Bools, n_blind: int) -> Chances:
    """Return the chances of rows that pass the gate, that are taken, that the log is blind to, and of all others; `passing` is used up."""
    of_row = passing.view(np.uint8)
    of_row[asked] += 2
    of_row[blind] += 4
    by_gap, to_see = 1.0 - choice.explore_share, n_blind / max(1, int(blind.sum()))
    first = np.array([0.0, at_random, by_gap, at_random + by_gap])
    return Chances(of_row, np.minimum(np.concatenate([first, first + to_see]), 1.0))


def find_blind_rows(propensity: Floats, n_logged: int) -> tuple[Bools, float]:
    """Return which pool rows the log is blind to, and how many labels are missing there.

    If all rows had a row's propensity, the log would have m·Q0 labels. It is blind to the row if that is less than half of `BLIND_LABELS`,
    and ``mean over the pool of max(BLIND_LABELS − m·Q0, 0)·1{blind}`` labels are missing.

    Examples
    --------
    >>> import numpy as np
    >>> blind, missing = find_blind_rows(np.array([0.001, 0.001, 0.001, 0.5]), n_logged=1000)
    >>> blind.tolist(), round(missing, 1)
    ([True, True, True, False], 21.8)
    """
    blind, missing = np.empty(propensity.size, dtype=bool), 0.0
    for part in pieces(propensity.size):
        labels = n_logged * propensity[part]
        blind[part] = labels < BLIND_LABELS / 2.0
        missing += float((BLIND_LABELS - labels[blind[part]]).sum())
    return blind, missing / max(1, propensity.size)


def draw_from_blind_rows(problem: Problem, state: PoolState, choice: Choice, open_: Bools) -> tuple[Bools, int]:
    """Return the open rows that the log is blind to, and how many of them to pick at random in the next round."""
    most = int(choice.most_blind * choice.batch) if choice.batch < int(open_.sum()) else 0
    if most == 0:
        return np.zeros(open_.size, dtype=bool), 0
    blind, missing = find_blind_rows(problem.pool.propensity, problem.n_logged)
    missing -= int(blind[picked_rows(state)].sum())
    blind &= open_
    return blind, max(0, min(int(np.ceil(missing)), most, int(blind.sum()) - choice.batch))


def picked_rows(state: PoolState) -> Ints:
    """Return the pool rows that have a label because they were picked at random, and those that wait for an answer."""
    parts = [plan.positions[(plan.action == ASKED) & np.isin(plan.reason, PICKED)] for plan in state.plans()]
    picked = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return np.concatenate([picked[np.isin(picked, state.bought)], state.waiting])


def measuring_weights(chance: Floats, log_rate: Floats, n_random: float) -> Floats:
    """Return weights, which add up to 1, by which rows are picked at random so that it is measured well how much of a class is found.

    Labels measure the share of a class best where their density is in proportion to √(p·(1 − p)), p being the chance of the class. The log
    already has labels, at a rate λ for each pool row, so ``max(c·√(p·(1 − p)) − λ, 0)`` are wanted from the pool, with c such that
    their sum is what the campaign picks at random up to now. A fifth of the weight is spread evenly, because p may be wrong.

    `log_rate` is λ = m·Q0/N of each row, and `n_random` counts the labels picked at random so far, with this round's.

    Examples
    --------
    >>> import numpy as np
    >>> measuring_weights(np.array([0.5, 0.5, 0.5, 0.01]), np.array([0.0, 0.5, 2.0, 0.0]), 1.0).round(2).tolist()
    [0.58, 0.18, 0.05, 0.2]
    """
    spread = np.sqrt(np.maximum(chance * (1.0 - chance), LEAST_LIKELY * (1.0 - LEAST_LIKELY)))
    # Rows ordered by the c at which each begins to get labels: the sum is a broken line in c, so c is found exactly.
    begins = log_rate / spread
    order = np.argsort(begins, kind="stable")
    slope, log_sum = np.cumsum(spread[order]), np.cumsum(log_rate[order])
    enough = slope * begins[order] - log_sum <= n_random
    last = int(np.flatnonzero(enough)[-1])
    c = (n_random + log_sum[last]) / slope[last]
    pool_rate = np.maximum(c * spread - log_rate, 0.0)
    return np.asarray((1.0 - EVENLY) * pool_rate / pool_rate.sum() + EVENLY / chance.size)


def open_and_passing(problem: Problem, state: PoolState, choice: Choice) -> tuple[Bools, Bools]:
    """Return the pool rows that are open, and those of them that pass the gate in the next round."""
    open_ = state.open_rows(problem)
    return open_, passes_gate(problem.pool.propensity, problem.n_logged, state.n_taken, choice, open_)


def passes_gate(propensity: Floats, n_logged: int, n_bought: int, choice: Choice, open_: Bools | None = None) -> Bools:
    """Return which of the open rows, all by default, pass the gate in the next round; all of them if fewer than a batch would."""
    open_ = np.ones(propensity.size, dtype=bool) if open_ is None else open_
    if choice.gate_share == 0.0 or not open_.any():
        return open_.copy()
    n_labels = n_bought + choice.batch
    passing = np.concatenate(
        [open_[part] & query_policy(propensity[part], n_logged, n_labels) for part in pieces(open_.size)]
    )
    enough = int(passing.sum()) >= min(choice.batch, int(open_.sum()))
    return passing if enough else open_.copy()


def least_chance(problem: Problem, state: PoolState, choice: Choice) -> float:
    """Return the smallest chance of being asked that any row which passes the gate has in the next round."""
    open_, passing = open_and_passing(problem, state, choice)
    return min(1.0, choice.explore_share * min(choice.batch, int(open_.sum())) / max(1, int(passing.sum())))


def _smallest(values: Floats, count: int, among: Bools, also: Bools | None = None) -> Ints:
    """Return where the `count` smallest values are, of rows that are `among` some and `also` among others; of equal ones, the first."""
    best = [np.empty(0, dtype=np.int64)]
    for part in pieces(values.size if count > 0 else 0):  # the smallest of all are among the smallest of each piece
        rows = part.start + np.flatnonzero(among[part] if also is None else among[part] & also[part])
        if count < rows.size:
            rows = rows[values[rows] <= np.partition(values[rows], count - 1)[count - 1]]
            rows = np.sort(rows[np.argsort(values[rows], kind="stable")[:count]])
        best.append(rows)
    rows = np.concatenate(best)
    return np.asarray(rows[np.argsort(values[rows], kind="stable")[:count]])


def draw_plan(draw: Draw, rng: np.random.Generator) -> Plan:
    """Draw the rows of a round with their chances, in random order."""
    chance, end = draw.chance, 0
    count = sum(np.count_nonzero(chance[part]) for part in pieces(chance.size))
    rows = np.empty(count, dtype=_small_int(chance.size))  # filled in place: a pool may have many rows
    for part in pieces(chance.size):
        places = part.start + np.flatnonzero(chance[part])
        rows[end : end + places.size] = places
        end += places.size
    positions = rng.permutation(systematic(chance, rng, rows))
    reason = np.full(positions.size, RANDOM) if draw.blind is None else np.where(draw.blind[positions], BLIND, RANDOM)
    reason[np.isin(positions, draw.taken_free)] = FREE
    reason[np.isin(positions, draw.taken_gate)] = GATED
    return Plan(
        positions,
        chance[positions],
        np.full(positions.size, ASKED),
        np.zeros(positions.size, dtype=np.int64),
        reason,
        REASONS,
        shuffled=True,
    )


def _small_int(size: int) -> type[np.signedinteger[Any]]:
    """Return a type that holds every place among so many rows: half the memory matters with many of them."""
    return np.int32 if size < 2**31 else np.int64


def systematic(chance: Floats | Chances, rng: np.random.Generator, rows: NDArray[Any] | None = None) -> Ints:
    """Draw rows, each with exactly its own chance; their number is the sum of the chances (up to rounding).

    The rows are laid out in random order on a line, each as long as its chance. A random starting point and every whole step
    after it pick the rows they fall on. The line is gone through in pieces, because a pool may have many rows.

    `rows` are those to draw from, all by default.

    Examples
    --------
    >>> import numpy as np
    >>> systematic(np.array([1.0, 0.5, 0.5, 0.0]), np.random.default_rng(0)).size
    2
    """
    order = np.arange(chance.size, dtype=_small_int(chance.size)) if rows is None else rows
    rng.shuffle(order)

    def ends() -> Iterator[tuple[int, float, Floats]]:
        """Yield where each piece of the line begins, as a place and as a length, and where its rows end."""
        begin = 0.0
        for part in pieces(order.size):
            lengths = chance[order[part]]
            lengths[0] += begin
            ended = np.cumsum(lengths, out=lengths)
            yield part.start, begin, ended
            begin = float(ended[-1])

    length = 0.0
    for _, _, last in ends():
        length = float(last[-1])
    points = np.arange(round(length)) + rng.random()
    places = []
    for first, begin, ended in ends():
        stops = points[(points >= begin) & (points < ended[-1])]
        places.append(first + np.searchsorted(ended, stops, side="right"))
    beyond = np.full(int((points >= length).sum()), order.size - 1)  # rounding may leave a point beyond the end
    return np.asarray(order[np.unique(np.concatenate([*places, beyond]))], dtype=np.int64)

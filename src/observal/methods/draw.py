"""How pool methods choose a round: the gate, and sampling with known selection probabilities.

**Gate.** The paper's bias-correcting policy asks about a row when 2·n > m·Q0(x), n being the row's position
in a stream. A pool has no positions, so n is the number of labels bought after this round. The gate therefore
opens first for rows that the log rarely reveals, and later for all. If fewer rows than a batch would pass,
all rows pass.

**Choice.** Each round takes `batch` rows: the gate's share are the most uncertain rows that pass it (only rows
that count as uncertain, as the paper asks in the disagreement region alone), the rest the most uncertain rows
overall. Then f = `explore_share` of the batch is spread evenly over the G rows that pass the gate:
``π(x) = (1 − f)·1{taken} + f·batch/G·1{passes the gate}``. Systematic sampling in random order draws rows with
exactly these probabilities, so every row that passes the gate can be chosen and every probability is known.
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
# Floor for a row's class probability when sampling to measure recall: classifiers may be overconfident.
MIN_CLASS_PROBABILITY = 0.02
# As few labels as a stratum has would be that unlikely if its propensities were right.
BROKEN = 1e-3
UNIFORM_SHARE = 0.2  # share of those random picks that is spread evenly over all rows


@dataclass(frozen=True)
class Choice:
    """How a round chooses rows: the settings shared by all pool methods."""

    batch: int = 10  # labels per round
    explore_share: float = 0.1  # f: the share of each batch picked at random from the rows that pass the gate
    # The share of each batch for uncertain rows that pass the gate; 0 turns the gate off.
    gate_share: float = 0.5
    # The largest share of a batch picked at random in the log's blind spots; see ``find_blind_rows``.
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
class CodedChances:
    """Selection probabilities that take few distinct values, stored as one byte per row.

    Examples
    --------
    >>> import numpy as np
    >>> CodedChances(np.array([1, 0, 1], dtype=np.uint8), np.array([0.0, 0.2]))[np.array([0, 1])].tolist()
    [0.2, 0.0]
    """

    index: NDArray[np.uint8]
    values: Floats

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.index.size

    def __getitem__(self, rows: Ints | Bools | slice) -> Floats:
        return np.asarray(self.values[self.index[rows]])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        return np.asarray(self[:], dtype=dtype)


@dataclass(frozen=True, eq=False)
class Draw:
    """A round's selection probabilities, the uncertain rows taken with and without the gate, and the blind rows."""

    chance: Floats | CodedChances
    taken_gate: Ints
    taken_free: Ints
    blind: Bools | None = None


def prepare_draw(
    problem: Problem,
    state: PoolState,
    choice: Choice,
    gaps: Floats,
    uncertain: Bools | None = None,
    chances: Floats | None = None,
) -> Draw:
    """Return each pool row's selection probability in the next round.

    Rows with the smallest `gaps`, those with the least certain predictions, are taken. The gate's share goes
    to `uncertain` rows (by default all); if there are too few, the rest goes to any row. `chances` are the
    probabilities of the class that an objective is about; if given, random picks favour rows where that class
    is likely and the log has few labels (``neyman_weights``) instead of being spread evenly.
    """
    open_, passing = find_open_and_passing(problem, state, choice)
    n_open, n_passing = int(open_.sum()), int(passing.sum())
    blind, n_blind = plan_blind_picks(problem, state, choice, open_)
    size = min(choice.batch, n_open) - n_blind
    taken_gate = _find_smallest(gaps, round(choice.gate_share * size), passing, uncertain)
    open_[taken_gate] = False
    taken_free = _find_smallest(gaps, size - taken_gate.size, open_)
    open_[taken_gate] = True
    taken = np.concatenate([taken_gate, taken_free])
    blind[taken] = False
    if chances is not None and size > 0:
        n_random = choice.explore_share * (state.n_taken + size)
        log_rate = problem.pool.propensity[open_] * problem.n_logged / len(problem.pool)
        weighted = np.zeros(open_.size)
        weighted[open_] = choice.explore_share * size * neyman_weights(chances[open_], log_rate, n_random)
        weighted[taken] += 1.0 - choice.explore_share
        weighted[blind] += n_blind / max(1, int(blind.sum()))
        chance: Floats | CodedChances = np.minimum(weighted, 1.0, out=weighted)
    else:
        random_chance = choice.explore_share * size / max(1, n_passing)
        chance = _chances(passing, random_chance, taken, choice, blind, n_blind)
    if n_passing == n_open:  # if every row passes, the gate explains no choice
        taken_gate, taken_free = taken[:0], taken
    return Draw(chance, taken_gate, taken_free, blind if n_blind else None)


def _chances(
    passing: Bools, random_chance: float, taken: Ints, choice: Choice, blind: Bools, n_blind: int
) -> CodedChances:
    """Return the probabilities by combination of passing, taken and blind; overwrites `passing`."""
    index = passing.view(np.uint8)
    index[taken] += 2
    index[blind] += 4
    taken_chance, blind_chance = 1.0 - choice.explore_share, n_blind / max(1, int(blind.sum()))
    base = np.array([0.0, random_chance, taken_chance, random_chance + taken_chance])
    return CodedChances(index, np.minimum(np.concatenate([base, base + blind_chance]), 1.0))


def find_blind_rows(
    propensity: Floats, n_logged: int, kept: Floats | None = None, strata: NDArray[np.int8] | None = None
) -> tuple[Bools, float]:
    """Return which pool rows are in the log's blind spots, and how many labels are missing there.

    If all rows had a given row's propensity, the log would hold m·Q0 labels, or the share of them that is `kept` in its stratum. The
    row is blind if that is less than half of `BLIND_LABELS`; the missing labels are
    ``mean over the pool of max(BLIND_LABELS − labels, 0)·1{blind}``.

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
        if kept is not None and strata is not None:
            labels *= kept[strata[part]]
        blind[part] = labels < BLIND_LABELS / 2.0
        missing += float((BLIND_LABELS - labels[blind[part]]).sum())
    return blind, missing / max(1, propensity.size)


def find_kept(problem: Problem, state: PoolState) -> Floats:
    """Return for each stratum the share of the labels promised by its propensities that the log has, 1 where chance explains the rest.

    Where somebody wrote 0.01 for "never", it is 0.
    """
    from scipy.special import pdtr

    of_log = state.strata.of_row[: problem.n_logged]
    there, promised = (
        np.bincount(of_log, weights=values, minlength=state.strata.count)
        for values in (problem.logged.revealed, problem.logged.propensity)
    )
    return np.where(pdtr(there, promised) < BROKEN, there / np.maximum(promised, 1e-300), 1.0)


def find_never_seen(problem: Problem, state: PoolState) -> float:
    """Return the share of the pool where the log never looked: its propensities are 0, or all of their promises are broken."""
    never = find_kept(problem, state) == 0.0
    propensity, strata = problem.pool.propensity, state.strata.of_row[problem.n_logged :]
    count = sum(int(((propensity[part] == 0.0) | never[strata[part]]).sum()) for part in pieces(propensity.size))
    return float(count / propensity.size)


def plan_blind_picks(problem: Problem, state: PoolState, choice: Choice, open_: Bools) -> tuple[Bools, int]:
    """Return the open blind rows, and how many of them to pick at random in the next round."""
    most = int(choice.most_blind * choice.batch) if choice.batch < int(open_.sum()) else 0
    if most == 0:
        return np.zeros(open_.size, dtype=bool), 0
    blind, missing = find_blind_rows(
        problem.pool.propensity, problem.n_logged, find_kept(problem, state), state.strata.of_row[problem.n_logged :]
    )
    missing -= int(blind[find_random_picks(state)].sum())
    blind &= open_
    return blind, max(0, min(int(np.ceil(missing)), most, int(blind.sum()) - choice.batch))


def find_random_picks(state: PoolState) -> Ints:
    """Return the pool rows that were picked at random and labelled, and those that wait for an answer."""
    parts = [plan.positions[(plan.action == ASKED) & np.isin(plan.reason, PICKED)] for plan in state.plans()]
    picked = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return np.concatenate([picked[np.isin(picked, state.bought)], state.waiting])


def neyman_weights(chance: Floats, log_rate: Floats, n_random: float) -> Floats:
    """Return weights, summing to 1, for random picks that best measure how much of a class is found.

    Labels measure a class's prevalence best at a density proportional to √(p·(1 − p)), p being the class
    probability (Neyman allocation). The log already supplies labels at a rate λ per pool row, so the pool
    should supply ``max(c·√(p·(1 − p)) − λ, 0)``, with c such that these sum to `n_random`. A fifth of the
    weight is spread evenly, because p may be wrong.

    `log_rate` is λ = m·Q0/N of each row; `n_random` counts the random picks so far, including this round's.

    Examples
    --------
    >>> import numpy as np
    >>> neyman_weights(np.array([0.5, 0.5, 0.5, 0.01]), np.array([0.0, 0.5, 2.0, 0.0]), 1.0).round(2).tolist()
    [0.58, 0.18, 0.05, 0.2]
    """
    deviation = np.sqrt(np.maximum(chance * (1.0 - chance), MIN_CLASS_PROBABILITY * (1.0 - MIN_CLASS_PROBABILITY)))
    # Sorted by the c at which each row starts to get labels, the sum is piecewise linear in c, so c is exact.
    kinks = log_rate / deviation
    order = np.argsort(kinks, kind="stable")
    slope, log_sum = np.cumsum(deviation[order]), np.cumsum(log_rate[order])
    enough = slope * kinks[order] - log_sum <= n_random
    last = int(np.flatnonzero(enough)[-1])
    c = (n_random + log_sum[last]) / slope[last]
    pool_rate = np.maximum(c * deviation - log_rate, 0.0)
    return np.asarray((1.0 - UNIFORM_SHARE) * pool_rate / pool_rate.sum() + UNIFORM_SHARE / chance.size)


def find_open_and_passing(problem: Problem, state: PoolState, choice: Choice) -> tuple[Bools, Bools]:
    """Return the open pool rows, and which of them pass the gate in the next round."""
    open_ = state.open_rows(problem)
    return open_, passes_gate(problem.pool.propensity, problem.n_logged, state.n_taken, choice, open_)


def passes_gate(propensity: Floats, n_logged: int, n_bought: int, choice: Choice, open_: Bools) -> Bools:
    """Return which open rows pass the gate next round; all do if fewer than a batch would."""
    if choice.gate_share == 0.0 or not open_.any():
        return open_.copy()
    n_labels = n_bought + choice.batch
    passing = np.concatenate(
        [open_[part] & query_policy(propensity[part], n_logged, n_labels) for part in pieces(open_.size)]
    )
    enough = int(passing.sum()) >= min(choice.batch, int(open_.sum()))
    return passing if enough else open_.copy()


def least_chance(problem: Problem, state: PoolState, choice: Choice) -> float:
    """Return the smallest selection probability in the next round among rows that pass the gate."""
    open_, passing = find_open_and_passing(problem, state, choice)
    return min(1.0, choice.explore_share * min(choice.batch, int(open_.sum())) / max(1, int(passing.sum())))


def _find_smallest(values: Floats, count: int, mask: Bools, and_mask: Bools | None = None) -> Ints:
    """Return the positions of the `count` smallest values within both masks; ties go to the first."""
    best = [np.empty(0, dtype=np.int64)]
    for part in pieces(values.size if count > 0 else 0):  # the overall smallest are among each piece's smallest
        rows = part.start + np.flatnonzero(mask[part] if and_mask is None else mask[part] & and_mask[part])
        if count < rows.size:
            rows = rows[values[rows] <= np.partition(values[rows], count - 1)[count - 1]]
            rows = np.sort(rows[np.argsort(values[rows], kind="stable")[:count]])
        best.append(rows)
    rows = np.concatenate(best)
    return np.asarray(rows[np.argsort(values[rows], kind="stable")[:count]])


def draw_plan(draw: Draw, rng: np.random.Generator) -> Plan:
    """Draw the rows of a round with their selection probabilities, in random order."""
    chance, end = draw.chance, 0
    count = sum(np.count_nonzero(chance[part]) for part in pieces(chance.size))
    rows = np.empty(count, dtype=_index_dtype(chance.size))  # filled in place: a pool may have many rows
    for part in pieces(chance.size):
        places = part.start + np.flatnonzero(chance[part])
        rows[end : end + places.size] = places
        end += places.size
    positions = rng.permutation(sample_systematically(chance, rng, rows))
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


def _index_dtype(size: int) -> type[np.signedinteger[Any]]:
    """Return the smallest integer type that can index `size` rows, to save memory."""
    return np.int32 if size < 2**31 else np.int64


def sample_systematically(
    chance: Floats | CodedChances, rng: np.random.Generator, rows: NDArray[Any] | None = None
) -> Ints:
    """Sample rows, each with exactly its own probability; the sample size is their sum, up to rounding.

    Rows are laid out in random order on a line, each as long as its probability. A random starting point and
    every whole step after it pick the rows they land on. The line is processed in pieces to save memory.

    `rows` are the rows to sample from, all by default.

    Examples
    --------
    >>> import numpy as np
    >>> sample_systematically(np.array([1.0, 0.5, 0.5, 0.0]), np.random.default_rng(0)).size
    2
    """
    order = np.arange(chance.size, dtype=_index_dtype(chance.size)) if rows is None else rows
    rng.shuffle(order)

    def ends() -> Iterator[tuple[int, float, Floats]]:
        """Yield each piece's first index, its starting point on the line, and where each of its rows ends."""
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
    past_end = np.full(int((points >= length).sum()), order.size - 1)  # rounding may put a point past the end
    return np.asarray(order[np.unique(np.concatenate([*places, past_end]))], dtype=np.int64)

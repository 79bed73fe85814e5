"""Methods on a stream: each row is decided on when it arrives, using only the rows before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from observal.checks import Bools, Floats
from observal.intervals.state import FREE, GATED, RANDOM, PoolState, Strata
from observal.methods.draw import REASONS
from observal.paper.weights import query_policy
from observal.problem.plan import ASKED, PASSED, Plan
from observal.problem.problem import Problem

STREAM_REASONS = (*REASONS, "the prediction is certain enough", "uncertain, but the log has enough labels here")
CERTAIN, SHOWN = np.int8(len(REASONS)), np.int8(len(REASONS) + 1)
STREAM_ROWS = 4096  # rows that are judged at once; a round may end within them


@dataclass(frozen=True)
class StreamRule:
    """How rows of a stream are decided on."""

    uncertain_gap: float  # a row with a smaller gap is uncertain
    batch: int  # as in ``Choice``; the shares as in ``stream_chances``
    explore_share: float
    gate_share: float


class StreamState(PoolState):
    """What is known between rounds on a stream: only the log, and the pool rows that have arrived."""

    @classmethod
    def start(cls, problem: Problem, fit: Callable[[Any], Any]) -> Self:
        """Return the initial state; strata are cut by the log's propensities alone."""
        return cls(fit, Strata.of(problem.propensity, reference=problem.logged.propensity))

    def n_seen(self, problem: Problem) -> int:
        """Return how many rows of log and pool are known: the log, and the rows that have arrived."""
        return problem.n_logged + self.looked


def stream_chances(
    rule: StreamRule, gaps: Floats, propensity: Floats, n_logged: int, first: int
) -> tuple[Floats, Bools, Bools]:
    """Return each row's chance of being asked, whether it is uncertain, and whether it passes the gate.

    A row is uncertain if its gap is below ``rule.uncertain_gap``; the row at place n passes the gate if ``2·n > m·Q0``. An
    uncertain row that passes is always asked about; an uncertain row that does not, with chance 1 − `gate_share`; a certain
    row that passes, with chance `explore_share`. `first` is the place of the first row.
    """
    uncertain = gaps < rule.uncertain_gap
    gate = query_policy(propensity, n_logged, first + np.arange(gaps.size))
    chance = np.where(uncertain, np.where(gate, 1.0, 1.0 - rule.gate_share), rule.explore_share * gate)
    return chance, uncertain, gate


def stream_plan(rule: StreamRule, problem: Problem, state: StreamState, rng: np.random.Generator) -> Plan:
    """Look at the next rows until a batch of them is asked about or none is left; see ``stream_chances``.

    The state's model says how large the gaps of rows are.
    """
    parts, asked = [], 0
    for begin in range(state.looked, len(problem.pool), STREAM_ROWS):
        rows = np.arange(begin, min(begin + STREAM_ROWS, len(problem.pool)))
        gaps, propensity = state.model.gaps(problem.pool.rows.take(rows)), problem.pool.propensity[rows]
        chance, uncertain, gate = stream_chances(rule, gaps, propensity, problem.n_logged, begin + 1)
        action = np.where(rng.random(rows.size) < chance, ASKED, PASSED)
        reason = np.where(uncertain, np.where(gate, GATED, FREE), RANDOM)
        reason[action == PASSED] = np.where(uncertain, SHOWN, CERTAIN)[action == PASSED]
        beyond = np.flatnonzero(action == ASKED)[rule.batch - asked - 1 :]
        end = int(beyond[0]) + 1 if beyond.size else rows.size
        parts.append((rows[:end], chance[:end], action[:end], reason[:end]))
        asked += int((action[:end] == ASKED).sum())
        if beyond.size:
            break
    rows, chance, action, reason = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Plan(rows, chance, action, np.zeros(rows.size, dtype=np.int64), reason, STREAM_REASONS)

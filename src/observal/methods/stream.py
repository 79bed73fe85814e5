"""Choosing from a stream: each row is decided on as it arrives, knowing only the rows before it."""

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
CERTAIN, COVERED = np.int8(len(REASONS)), np.int8(len(REASONS) + 1)
STREAM_ROWS = 4096  # rows predicted at once; a round may end among them


@dataclass(frozen=True)
class StreamRule:
    """How each row of a stream is decided on."""

    uncertain_gap: float  # a row with a smaller gap is uncertain
    batch: int  # as in ``Choice``; for the two shares see ``stream_chances``
    explore_share: float
    gate_share: float


class StreamState(PoolState):
    """What is known between rounds on a stream: the log, and the pool rows that have arrived."""

    @classmethod
    def start(cls, problem: Problem, fit: Callable[[Any], Any]) -> Self:
        """Return the initial state, with strata cut from the log's propensities alone."""
        return cls(fit, Strata.of(problem.propensity, reference=problem.logged.propensity))

    def n_seen(self, problem: Problem) -> int:
        """Return the number of known rows: the log and the pool rows that have arrived."""
        return problem.n_logged + self.looked


def stream_chances(
    rule: StreamRule, gaps: Floats, propensity: Floats, n_logged: int, first: int
) -> tuple[Floats, Bools, Bools]:
    """Return each row's selection probability, whether it is uncertain, and whether it passes the gate.

    A row is uncertain if its gap is below ``rule.uncertain_gap``; the n-th row passes the gate if
    ``2·n > m·Q0``. An uncertain row is always asked about if it passes, otherwise with probability 1 −
    `gate_share`. A certain row is asked about with probability `explore_share` if it passes. `first` is the
    position of the first row.
    """
    uncertain = gaps < rule.uncertain_gap
    gate = query_policy(propensity, n_logged, first + np.arange(gaps.size))
    chance = np.where(uncertain, np.where(gate, 1.0, 1.0 - rule.gate_share), rule.explore_share * gate)
    return chance, uncertain, gate


def stream_plan(rule: StreamRule, problem: Problem, state: StreamState, rng: np.random.Generator) -> Plan:
    """Go through the next rows until a batch of them is asked about or none is left; see ``stream_chances``."""
    parts, asked = [], 0
    for begin in range(state.looked, len(problem.pool), STREAM_ROWS):
        rows = np.arange(begin, min(begin + STREAM_ROWS, len(problem.pool)))
        gaps, propensity = state.model.gaps(problem.pool.rows.take(rows)), problem.pool.propensity[rows]
        chance, uncertain, gate = stream_chances(rule, gaps, propensity, problem.n_logged, begin + 1)
        action = np.where(rng.random(rows.size) < chance, ASKED, PASSED)
        reason = np.where(uncertain, np.where(gate, GATED, FREE), RANDOM)
        reason[action == PASSED] = np.where(uncertain, COVERED, CERTAIN)[action == PASSED]
        last_asked = np.flatnonzero(action == ASKED)[rule.batch - asked - 1 :]
        end = int(last_asked[0]) + 1 if last_asked.size else rows.size
        parts.append((rows[:end], chance[:end], action[:end], reason[:end]))
        asked += int((action[:end] == ASKED).sum())
        if last_asked.size:
            break
    rows, chance, action, reason = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Plan(rows, chance, action, np.zeros(rows.size, dtype=np.int64), reason, STREAM_REASONS)

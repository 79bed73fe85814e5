"""NewtonVC on a stream: each row is decided on when it comes by, from the rows before it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observal.methods.pooling import BY_LOT, FREE, GATED, REASONS, PoolState
from observal.types import ASKED, PASSED, Plan, Problem

if TYPE_CHECKING:
    from observal.methods.newton_vc import NewtonVC

STREAM_REASONS = (*REASONS, "settled", "in doubt, but the log shows such rows often enough")
SETTLED, SHOWN = np.int8(len(REASONS)), np.int8(len(REASONS) + 1)
ROWS_AT_ONCE = 4096


def stream_plan(method: NewtonVC, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan:
    """Look at the rows that come next until a batch of them is asked about, or none is left.

    A row is in doubt where its chance of a flip, Φ(−sqrt(2·gap)), exceeds `method.doubt`. A row in doubt that passes the gate
    at its own place in the stream, ``2·n > m·Q0``, is asked about; one that does not pass, with the chance
    1 − `gate_share`. A settled row that passes the gate is asked about with the chance `floor`.
    """
    parts, asked = [], 0
    for begin in range(state.looked, len(problem.pool), ROWS_AT_ONCE):
        rows = np.arange(begin, min(begin + ROWS_AT_ONCE, len(problem.pool)))
        in_doubt = state.model.gaps(problem.pool.X[rows]) < method.doubtful_gap
        gate = problem.pool.propensity[rows] * len(problem.logged) < 2.0 * (rows + 1)
        chance = np.where(in_doubt, np.where(gate, 1.0, 1.0 - method.gate_share), method.floor * gate)
        action = np.where(rng.random(rows.size) < chance, ASKED, PASSED)
        reason = np.where(in_doubt, np.where(gate, GATED, FREE), BY_LOT)
        reason[action == PASSED] = np.where(in_doubt, SHOWN, SETTLED)[action == PASSED]
        beyond = np.flatnonzero(action == ASKED)[method.batch - asked - 1 :]
        end = int(beyond[0]) + 1 if beyond.size else rows.size
        parts.append((rows[:end], chance[:end], action[:end], reason[:end]))
        asked += int((action[:end] == ASKED).sum())
        if beyond.size:
            break
    rows, chance, action, reason = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Plan(rows, chance, action, np.zeros(rows.size, dtype=np.int64), reason, STREAM_REASONS)

"""NewtonVC on a stream: each row is decided on when it comes by, from the rows before it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observal.checks import Bools, Floats
from observal.methods.pool import BY_LOT, FREE, GATED, REASONS, PoolState
from observal.types import ASKED, PASSED, Plan, Problem

if TYPE_CHECKING:
    from observal.methods.newton.method import NewtonVC

STREAM_REASONS = (*REASONS, "settled", "in doubt, but the log shows such rows often enough")
SETTLED, SHOWN = np.int8(len(REASONS)), np.int8(len(REASONS) + 1)
ROWS_AT_ONCE = 4096


def stream_chances(
    method: NewtonVC, gaps: Floats, propensity: Floats, n_logged: int, first: int
) -> tuple[Floats, Bools, Bools]:
    """Return each row's chance of being asked about, whether it is in doubt, and whether it passes the gate.

    A row is in doubt where its chance of a flip, Φ(−sqrt(2·gap)), exceeds `method.doubt`; the row at place n passes the gate
    where ``2·n > m·Q0``. One in doubt that passes is asked about; one in doubt that does not, with the chance
    1 − `gate_share`; a settled one that passes, with the chance `floor`. `first` is the place of the first row.
    """
    in_doubt = gaps < method.doubtful_gap
    gate = propensity * n_logged < 2.0 * (first + np.arange(gaps.size))
    chance = np.where(in_doubt, np.where(gate, 1.0, 1.0 - method.gate_share), method.floor * gate)
    return chance, in_doubt, gate


def stream_plan(method: NewtonVC, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan:
    """Look at the rows that come next until a batch of them is asked about, or none is left; see `stream_chances`."""
    parts, asked = [], 0
    for begin in range(state.looked, len(problem.pool), ROWS_AT_ONCE):
        rows = np.arange(begin, min(begin + ROWS_AT_ONCE, len(problem.pool)))
        gaps, propensity = state.model.gaps(problem.pool.X[rows]), problem.pool.propensity[rows]
        chance, in_doubt, gate = stream_chances(method, gaps, propensity, len(problem.logged), begin + 1)
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

"""What the fits of AutoVC, NewtonVC and CommitteeVC share: the weighted labels of a state, and when settings are chosen again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from observal.checks import Floats, Ints
from observal.intervals.state import PoolState
from observal.problem.problem import Problem

AGAIN = 1.5  # settings are chosen again when this many times the labels were bought


@dataclass(frozen=True, eq=False)
class Labels:
    """The labelled rows of a state, numbered as in :class:`Problem`, with their class codes and importance weights.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> problem = ob.Problem(ob.LoggedData([[0.0], [1.0]], [0, 1], 1.0), ob.Pool([[2.0], [3.0]], 1.0))
    >>> labels = Labels.of(problem, PoolState.start(problem, lambda state: None), clip_constant=None)
    >>> labels.rows.tolist(), labels.signs.tolist(), labels.weights(tempering=0.5).round(2).tolist()
    ([0, 1], [-1, 1], [1.29, 1.29])
    """

    problem: Problem = field(repr=False)
    rows: Ints
    codes: Ints
    importance: Floats
    clip: float  # the largest importance weight

    @classmethod
    def of(cls, problem: Problem, state: PoolState, clip_constant: float | None) -> Self:
        """Return the labels of a state; weights are clipped as :meth:`PoolState.importance` says."""
        rows, codes = state.labelled(problem)
        return cls(problem, rows, codes, *state.importance(problem, rows, clip_constant))

    @property
    def signs(self) -> Ints:
        """−1 for the first of two classes and 1 for the second."""
        return 2 * self.codes - 1

    def weights(self, tempering: float) -> Floats:
        """Return the weight of each row: its importance to the power of `tempering`, times its cost."""
        weights = self.importance**tempering
        return weights if self.problem.cost is None else weights * self.problem.cost[self.rows]


def anchor_after(anchor: PoolState | None, before: PoolState, n_bought: int, first: int = 1) -> PoolState | None:
    """Return the state whose choice of settings still holds after a round; None if they are to be chosen again.

    That is when at least `first` labels were bought, and half as many again as when the settings were last chosen.

    Parameters
    ----------
    anchor : PoolState, optional
        The state whose choice held before the round; None if that was `before` itself.
    before : PoolState
        The state before the round.
    n_bought : int
        Labels bought with those of the round.
    first : int
        Labels before the first new choice.
    """
    anchor = before if anchor is None else anchor
    return None if n_bought >= max(AGAIN * anchor.bought.size, first) else anchor

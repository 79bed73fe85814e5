"""What the fits of AutoVC, NewtonVC and CommitteeVC share: the weighted labels of a state, and when settings are chosen again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Generic, Self, TypeVar

from observal.checks import Floats, Ints
from observal.intervals.state import PoolState
from observal.problem.problem import Problem

MethodT = TypeVar("MethodT")
ModelT = TypeVar("ModelT")
PoolT = TypeVar("PoolT")  # a model's predictions for the pool

AGAIN = 1.5  # settings are chosen again when this many times the labels were bought


@dataclass(frozen=True, eq=False)
class WeightedLabels:
    """The labelled rows of a state, numbered as in ``Problem``, with their class codes and importance weights.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> problem = ob.Problem(ob.LoggedData([[0.0], [1.0]], [0, 1], 1.0), ob.Pool([[2.0], [3.0]], 1.0))
    >>> labels = WeightedLabels.of(problem, PoolState.start(problem, lambda state: None), clip_constant=None)
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
        """Return the labels of a state; weights are clipped as ``PoolState.importance`` says."""
        rows, codes = state.labelled(problem)
        return cls(problem, rows, codes, *state.importance(problem, rows, clip_constant))

    @cached_property
    def groups(self) -> Ints | None:
        """The group of each row, where rows are related."""
        return self.problem.groups_of(self.rows)

    @property
    def signs(self) -> Ints:
        """−1 for the first of two classes and 1 for the second."""
        return 2 * self.codes - 1

    def weights(self, tempering: float) -> Floats:
        """Return the weight of each row: its importance to the power of `tempering`, times its cost."""
        weights = self.importance**tempering
        return weights if self.problem.cost is None else weights * self.problem.cost[self.rows]


def remember_latest(judge_pool: Callable[[ModelT], PoolT]) -> Callable[[ModelT], PoolT]:
    """Return a function from a model to its predictions for the pool that remembers its last answer."""
    # Planning and describing a round ask the same model several times. A cache on the model itself would keep the predictions of every round
    # for as long as the states live, too much for a large pool; so all fitters of a run share this one, and only the latest model is in it.
    return lru_cache(maxsize=1)(judge_pool)


@dataclass(frozen=True, eq=False)
class Fitter(ABC, Generic[MethodT, ModelT, PoolT]):
    """Fits a method's model; the same labels, bought in the same rounds, always give the same model."""

    method: MethodT
    problem: Problem
    # From a model to its predictions for the pool; see ``remember_latest``.
    judge_pool: Callable[[ModelT], PoolT] = field(repr=False)
    # The earlier state whose choice of settings still holds; without one they are chosen again.
    anchor: PoolState | None = field(default=None, kw_only=True)
    # What the anchor chose, where that is known without fitting it.
    kept: Any = field(default=None, kw_only=True, repr=False)

    @abstractmethod
    def __call__(self, state: PoolState) -> ModelT:
        """Fit on all labels."""

    @property
    def first_choice(self) -> int:
        """Labels bought before settings are chosen again for the first time."""
        return 1

    def after(self, before: PoolState, n_bought: int) -> Self:
        """Return the fitter of the state that follows `before`; it chooses again once the labels bought have grown by half."""
        anchor = before if self.anchor is None else self.anchor
        again = n_bought >= max(AGAIN * anchor.bought.size, self.first_choice)
        return replace(self, anchor=None if again else anchor, kept=None if again else self.kept)

    @property
    def choices(self) -> Any:
        """What the anchor chose; None if settings are chosen again."""
        return self.kept if self.kept is not None or self.anchor is None else self.anchor.model.choices

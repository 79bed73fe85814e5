"""What the fits of AutoVC, NewtonVC and CommitteeVC share: weighted labels, and when to retune settings."""

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

RETUNE_GROWTH = 1.5  # settings are retuned once the number of bought labels has grown by this factor


@dataclass(frozen=True, eq=False)
class WeightedLabels:
    """The labelled rows of a state (row numbers as in ``Problem``), with class codes and importance weights.

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
        """Return the labels of a state, with weights clipped by ``PoolState.importance``."""
        rows, codes = state.labelled(problem)
        return cls(problem, rows, codes, *state.importance(problem, rows, clip_constant))

    @cached_property
    def groups(self) -> Ints | None:
        """The group of each row, if rows are grouped."""
        return self.problem.groups_of(self.rows)

    @property
    def signs(self) -> Ints:
        """−1 for the first of two classes, 1 for the second."""
        return 2 * self.codes - 1

    def weights(self, tempering: float) -> Floats:
        """Return each row's weight: its importance weight to the power of `tempering`, times its cost."""
        weights = self.importance**tempering
        return weights if self.problem.cost is None else weights * self.problem.cost[self.rows]


def cache_latest(predict_pool: Callable[[ModelT], PoolT]) -> Callable[[ModelT], PoolT]:
    """Return `predict_pool` with its latest result cached."""
    # Planning and describing a round need the same model's predictions several times. A cache on the model
    # would keep every round's predictions alive, too much for a large pool. All fitters of a run share this
    # one.
    return lru_cache(maxsize=1)(predict_pool)


@dataclass(frozen=True, eq=False)
class Fitter(ABC, Generic[MethodT, ModelT, PoolT]):
    """Fits a method's model; the same labels, bought in the same rounds, always give the same model."""

    method: MethodT
    problem: Problem
    # From a model to its pool predictions; see ``cache_latest``.
    predict_pool: Callable[[ModelT], PoolT] = field(repr=False)
    # The earlier state whose tuned settings are still in use; None to tune again.
    anchor: PoolState | None = field(default=None, kw_only=True)
    # The anchor's tuned settings, if known without refitting it.
    kept: Any = field(default=None, kw_only=True, repr=False)

    @abstractmethod
    def __call__(self, state: PoolState) -> ModelT:
        """Fit on all labels."""

    @property
    def first_retune(self) -> int:
        """Labels to buy before settings are retuned for the first time."""
        return 1

    def after(self, before: PoolState, n_bought: int) -> Self:
        """Return the fitter for the state after `before`; it retunes once the bought labels have grown by half."""
        anchor = before if self.anchor is None else self.anchor
        retune = n_bought >= max(RETUNE_GROWTH * anchor.bought.size, self.first_retune)
        return replace(self, anchor=None if retune else anchor, kept=None if retune else self.kept)

    @property
    def choices(self) -> Any:
        """The anchor's tuned settings; None if they are to be tuned again."""
        return self.kept if self.kept is not None or self.anchor is None else self.anchor.model.choices

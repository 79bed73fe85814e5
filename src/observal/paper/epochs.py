"""What the paper's methods share: they take the pool in its order, in epochs of growing size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from observal.checks import Ints
from observal.errors import InvalidInput
from observal.problem.plan import INFERRED, PASSED, Answers, Plan
from observal.problem.result import Round


@dataclass(frozen=True, eq=False, kw_only=True)
class EpochState:
    """Which pool rows were taken so far, in which epochs, and what happened to them."""

    schedule: tuple[int, ...]  # epochs still to come
    looked: int = 0  # pool rows taken so far
    epochs: tuple[int, ...] = ()  # rows that count in each epoch: all but the skipped ones
    gates: tuple[int, ...] = ()  # the n_{k+1} that each epoch's query policy was fixed with
    labels: int = 0
    last: tuple[int, int, int, int] = (0, 0, 0, 0)  # asked, inferred, passed, skipped in the last epoch
    cut: bool = False  # whether the label budget ended an epoch early

    @property
    def counted(self) -> int:
        """n_k: pool rows looked at and not skipped; a skipped row counts as never drawn."""
        return sum(self.epochs)

    @property
    def next_gate(self) -> int:
        """n_{k+1} for the coming epoch's query policy; it never shrinks, even if rows were skipped."""
        return max(self.counted + self.schedule[0], *self.gates, 0)

    @property
    def next_positions(self) -> Ints:
        """The pool rows of the coming epoch."""
        return np.arange(self.looked, self.looked + self.schedule[0])

    def copy_with(self, **fields: Any) -> Self:
        """Return a copy with other values in some fields; `dataclasses.replace` takes as long as a small round's arithmetic."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, **fields)
        return new

    def fields_after(self, plan: Plan, answers: Answers) -> dict[str, Any]:
        """Return the fields of this class after a round."""
        labels = int(np.count_nonzero(answers.answered))
        skipped = answers.answered.size - labels
        # A round cut short by the label budget leaves rows for one more round, because skipped rows free up budget.
        unseen = self.schedule[0] - plan.positions.size
        return {
            "schedule": (unseen, *self.schedule[1:]) if unseen else self.schedule[1:],
            "looked": self.looked + plan.positions.size,
            "epochs": (*self.epochs, plan.positions.size - skipped),
            "gates": (*self.gates, self.next_gate),
            "cut": self.cut or unseen > 0,
            "labels": self.labels + labels,
            "last": (
                plan.asked.size - skipped,
                int(np.count_nonzero(plan.action == INFERRED)),
                int(np.count_nonzero(plan.action == PASSED)),
                skipped,
            ),
        }

    def as_round(self, **fields: Any) -> Round:
        """Return the round for users; `fields` are those that only the method knows."""
        asked, inferred, passed, skipped = self.last
        return Round(
            index=len(self.epochs),
            labels=self.labels,
            seen=self.looked,
            asked=asked,
            inferred=inferred,
            passed=passed,
            skipped=skipped,
            **fields,
        )


def fit_epochs(requested: Iterable[int], n_pool: int) -> tuple[int, ...]:
    """Return as many of the requested epochs as the pool has rows for; leftover rows join the last one.

    A shorter last epoch would break the closed form of the query policy, which needs epochs that never shrink.

    Examples
    --------
    >>> fit_epochs((2, 4, 8, 16), 20), fit_epochs((30,), 20)
    ((2, 4, 14), (20,))
    """
    sizes: list[int] = []
    for size in requested:
        if sum(sizes) + size > n_pool:
            break
        sizes.append(size)
    if not sizes:
        return (n_pool,)
    sizes[-1] += n_pool - sum(sizes)
    return tuple(sizes)


def check_epochs(epochs: tuple[int, ...] | None) -> None:
    """Raise an error if epochs shrink."""
    if epochs is not None and not (
        isinstance(epochs, tuple)
        and epochs
        and all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in epochs)
        and all(a <= b for a, b in pairwise(epochs))
    ):
        raise InvalidInput(
            f"epochs must be a tuple of row counts of at least 1 that never shrink, but are {epochs!r}; "
            "the query policy is exact only for such a schedule."
        )


def check_importance(bias_correction: bool, multiple_importance: bool) -> None:
    """Raise an error for plain importance sampling together with bias correction."""
    if bias_correction and not multiple_importance:
        raise InvalidInput(
            "multiple_importance=False needs bias_correction=False too, because a row that its epoch would never "
            "ask about has no importance weight of its own; switch both off."
        )

"""A round before and after its answers: ``Plan`` (the decision), ``Query`` (what people see), ``Answers``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, Signs
from observal.errors import InvalidInput

ASKED, INFERRED, PASSED = np.int8(0), np.int8(1), np.int8(2)
ACTION_NAMES = np.array(["asked", "inferred", "passed"])


@dataclass(frozen=True, eq=False)
class Plan:
    """What a method decides about a round before any answer is known.

    Parameters
    ----------
    positions : int array
        The pool rows considered, in order.
    query_probability : float array
        Each row's selection probability.
    action : int8 array
        ``ASKED``, ``INFERRED`` or ``PASSED``.
    inferred : int array
        The class code given without asking, where ``action == INFERRED``. For asked rows, the method's own
        prediction if there is a `doubt`; otherwise meaningless.
    reason : int8 array
        For each row, which of `reasons` applies.
    reasons : tuple of str
        The sentences that `reason` points to.
    shuffled : bool
        Whether the rows are in random order. If so, taking only the first ones lowers every selection
        probability by the same factor.
    doubt : float array, optional
        The method's own probability, before any answer, that the prediction in `inferred` is wrong.
    near, near_gaps : arrays, optional
        The rows of log and pool, as numbered in ``Problem``, that are as uncertain as those the plan takes
        for being uncertain, and how uncertain each is, labelled rows as if their labels were unknown. Without
        them, intervals refit the round.
    """

    positions: Ints
    query_probability: Floats
    action: Signs
    inferred: Ints
    reason: Signs
    reasons: tuple[str, ...]
    shuffled: bool = False
    doubt: Floats | None = None
    near: Ints | None = None
    near_gaps: Floats | None = None

    def __post_init__(self) -> None:
        self._check_shapes()
        if self.positions.size:
            self._check_values()
        self._check_near()

    def _check_shapes(self) -> None:
        columns: list[NDArray[Any]] = [self.positions, self.query_probability, self.action, self.inferred, self.reason]
        shapes = [np.shape(column) for column in [*columns, *([] if self.doubt is None else [self.doubt])]]
        if len(set(shapes)) > 1 or len(shapes[0]) != 1:
            raise InvalidInput(
                f"A plan needs one value of each kind for each row, but has shapes {shapes}; give arrays of one length."
            )

    def _check_values(self) -> None:
        limits: tuple[tuple[str, NDArray[Any], float], ...] = (
            ("a position", self.positions, np.inf),
            ("an action", self.action, len(ACTION_NAMES)),
            ("a class", self.inferred, np.inf),
            ("a reason", self.reason, len(self.reasons)),
        )
        for what, values, end in limits:
            if not (values.dtype.kind in "iu" and values.min() >= 0 and values.max() < end):
                raise InvalidInput(
                    f"A plan needs {what} from 0 on for each row, and below {end}, but has {values.dtype} from {values.min()} "
                    f"to {values.max()}; correct it."
                )
        for what, chances in (("being asked", self.query_probability), ("a wrong guess", self.doubt)):
            # Also rejects NaN, for which comparisons are false.
            if chances is not None and not (chances.min() >= 0.0 and chances.max() <= 1.0):
                raise InvalidInput(f"A plan needs chances of {what} in [0, 1], but has others; correct them.")

    def _check_near(self) -> None:
        rows, gaps = self.near, self.near_gaps
        if rows is None and gaps is None:
            return
        sound = (
            rows is not None
            and gaps is not None
            and rows.ndim == gaps.ndim == 1
            and rows.size == gaps.size
            and (rows.size == 0 or (rows.dtype.kind in "iu" and gaps.dtype.kind == "f" and rows.min() >= 0))
        )
        if not sound:
            raise InvalidInput(
                "A plan needs a gap for each row that it notes as near, but they do not match; correct it."
            )

    @cached_property
    def asked(self) -> Ints:
        """Pool positions of the rows to ask about, in order."""
        return np.asarray(self.positions[self.action == ASKED])

    def with_near(self, rows: Ints | None) -> Plan:
        """Return the plan with more near rows: it would have taken them, had they been in the pool.

        None means unknown; the plan then records no near rows at all.
        """
        if self.near is None or self.near_gaps is None:
            return self
        if rows is None:
            return replace(self, near=None, near_gaps=None)
        gaps = np.append(self.near_gaps, np.zeros(rows.size))
        return replace(self, near=np.append(self.near, rows), near_gaps=gaps)

    def cut(self, label_budget: int) -> Plan:
        """Return the plan cut right after the last label that the budget covers."""
        beyond = np.flatnonzero(self.action == ASKED)[label_budget:]
        if beyond.size == 0:
            return self
        end = int(beyond[0])
        return Plan(
            self.positions[:end],
            self.query_probability[:end] * (end / self.positions.size if self.shuffled else 1.0),
            self.action[:end],
            self.inferred[:end],
            self.reason[:end],
            self.reasons,
            self.shuffled,
            None if self.doubt is None else self.doubt[:end],
            self.near,
            self.near_gaps,
        )


@dataclass(frozen=True)
class Stop:
    """Why a method plans no more rounds."""

    reason: str = "every pool row has been looked at"


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers to a plan, one for each row of ``plan.asked``."""

    codes: Ints
    answered: Bools


@dataclass(frozen=True, eq=False)
class Query:
    """The rows to label now."""

    ids: NDArray[Any]
    positions: Ints
    round: int
    query_probability: Floats
    reason: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.positions)

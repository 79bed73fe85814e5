"""What a run returns: its rounds, its classifier, every decision, and intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from observal.errors import InvalidInput
from observal.problem.interval import Interval
from observal.problem.table import Table

RETURNED = "returned_round"
"""Key in a round's details: the earlier round whose classifier is returned."""


@dataclass(frozen=True, eq=False)
class Round:
    """The state of a run after a round; round 0 is the log alone.

    Parameters
    ----------
    index : int
        0, 1, 2, …
    labels, seen : int
        Labels bought, and pool rows considered, up to and including this round.
    asked, inferred, passed, skipped : int
        What happened to the rows considered in this round. A skipped row was asked about but not answered.
    clip : float
        The largest importance weight: heavier rows are dropped (pool methods lower their weight to it);
        infinity if nothing is clipped.
    disagreement : float
        The share of the pool (of the log, for NewtonVC on a stream) whose predictions may still change.
    estimator : classifier
        The classifier that a run stopped here would return.
    candidates : int, optional
        Classifiers still in the candidate set, for methods that keep one.
    details : mapping
        More numbers from the method.
    """

    index: int
    labels: int
    seen: int
    asked: int
    inferred: int
    passed: int
    skipped: int
    clip: float
    disagreement: float
    estimator: Any = field(repr=False)
    candidates: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """What was known when a round was opened, recorded so that reports need not refit earlier rounds."""

    clip: float  # clip, disagreement and details as in ``Round``, of the round before
    disagreement: float
    details: tuple[tuple[str, Any], ...]
    error: Interval  # for a single look
    # Intervals of the objective's measures, by name, if it is not the error.
    objective: tuple[tuple[str, Interval], ...] = ()


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run returns.

    Parameters
    ----------
    estimator : classifier
        The final classifier.
    rounds : tuple of Round
        In order; round 0 is the log alone.
    queries : Table
        One row per label bought: id, round, query_probability, label, reason.
    decisions : Table
        One row per pool row considered: id, round, query_probability, action (asked, inferred or passed), reason.
    intervals : mapping
        For `estimator` on the whole population: always "error"; "precision", "recall" and "prevalence" of the
        last class if the method has them, and "confounded error": the error if the log's odds of revealing a
        label are off by a factor of up to 1.5. "random rows minus log, …" are differences between random
        picks and similar rows of the log, if there are enough: one that excludes 0 contradicts the log.
        Computed when first read.
    stopped : str
        Why the run ended.
    """

    estimator: Any
    rounds: tuple[Round, ...] = field(repr=False)
    queries: Table
    decisions: Table
    intervals: Mapping[str, Interval]
    stopped: str

    @property
    def error_interval(self) -> Interval:
        """The population error of `estimator`."""
        return self.intervals["error"]

    @property
    def returned_round(self) -> int | None:
        """The earlier round that `estimator` is from, if it very likely makes fewer mistakes; None for the last round."""
        return self.rounds[-1].details.get(RETURNED)

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InvalidInput("A result needs at least round 0, but has no rounds.")
        if len(self.queries) != self.rounds[-1].labels:
            raise InvalidInput(
                f"A result needs one query per label bought, but has {len(self.queries)} queries and "
                f"{self.rounds[-1].labels} labels."
            )

"""What the intervals are about, and when enough labels are bought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from observal.checks import check_share, keep
from observal.errors import InvalidInput
from observal.problem.objectives import check_objective
from observal.problem.words import count

Looks = Literal["planned", "always", "once"]
LOOKS: tuple[Looks, ...] = ("planned", "always", "once")


def check_looks(looks: str) -> None:
    """Raise InvalidInput unless `looks` is one of LOOKS.

    Examples
    --------
    >>> check_looks("planned")
    """
    if looks not in LOOKS:
        raise InvalidInput(f"looks must be one of {', '.join(LOOKS)}, but is {looks!r}; choose one of them.")


POPULATIONS = {
    "both": "log and pool together",
    "pool": "the pool",
    "log": "the log",
    "table": "all rows of the table",
}
WHEN = {
    "planned": "hold at all rounds up to the budget together",
    "always": "hold at all rounds together, however many follow",
    "once": "hold at a single round that was settled beforehand",
}


@dataclass(frozen=True)
class Goals:
    """What the intervals are about, and when enough labels are bought.

    Parameters
    ----------
    population : {"both", "pool", "log", "table"}
        Whose error is measured: log and pool as one population, the pool alone, the log alone, or all rows of one table.
    looks : {"planned", "always", "once"}
        The rounds at which intervals hold simultaneously: all up to the budget; all, however many follow; or
        a single one. See ``observal.intervals.looks``.
    tolerance : float, optional
        Stop when the remaining labels are unlikely to lower the error by more than this; None turns this rule off.
    width : float, optional
        Stop when the interval for the error is narrower than this.
    objective : str
        What the classifier should optimise, which sets its threshold; see ``observal.problem.objectives``.
    """

    population: str = "both"
    looks: Looks = "planned"
    tolerance: float | None = None
    width: float | None = None
    objective: str = "error"

    def __post_init__(self) -> None:
        if self.population not in POPULATIONS:
            raise InvalidInput(f"population must be one of both, pool, log, but is {self.population!r}.")
        check_looks(self.looks)
        check_objective(self.objective)
        for name in ("tolerance", "width"):
            if (value := getattr(self, name)) is not None:
                keep(
                    self, **{name: check_share(value, name, inner=True, fix="write 0.2 points as 0.002, or give None")}
                )

    def for_all_rounds(self) -> Goals:
        """Return the goals for an unplanned number of rounds: intervals hold at all of them."""
        return replace(self, looks="always") if self.looks == "planned" else self

    def count_rows(self, n_logged: int, n_pool: int) -> int:
        """Return how many rows the intervals are about.

        Examples
        --------
        >>> Goals("pool").count_rows(1000, 500), Goals("both").count_rows(1000, 500)
        (500, 1500)
        """
        counts = {"pool": n_pool, "log": n_logged}
        return counts.get(self.population, n_logged + n_pool)

    def words(self) -> str:
        """Return what the intervals are about.

        Examples
        --------
        >>> Goals("pool").words()
        'about the pool; they hold at all rounds up to the budget together'
        """
        return f"about {POPULATIONS[self.population]}; they {WHEN[self.looks]}"

    def uncounted_words(self, given: int) -> str:
        """Return what happens to so many given labels of the log if they are not counted; empty if they are."""
        rows = count(given, "labelled row of the log trains but is", "labelled rows of the log train but are")
        sentence = (
            f"{rows} not counted; with --population both the error is about {'it' if given == 1 else 'them'}, too."
        )
        return sentence if given and self.population == "pool" else ""

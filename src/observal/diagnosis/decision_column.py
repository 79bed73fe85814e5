"""The old policy's decision among the features: a column that tells which labels were revealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.feature_values import sample_positions
from observal.problem.data import LoggedData
from observal.problem.rows import column_of
from observal.problem.words import exact, listed, option_words, percent

MAX_ROWS = 5000  # logged rows to check
MIN_OF_KIND = 10  # rows with a label, and without one; with fewer, a column may match by chance
MAX_MISTAKES = 0.05  # share of the rarer kind (with or without a label) that a decision column may get wrong
MAX_VALUES = 3  # values of a numeric column to try, the most frequent ones
MIN_SHARE = 0.02  # share of the rows that such a value must have
# Propensities whose mean distance from the decision (0 or 1) is smaller merely repeat it.
REPEAT_DISTANCE = 0.05


@dataclass(frozen=True)
class Decision:
    """A column that tells which labels were revealed.

    Parameters
    ----------
    column : str
        The column of the table.
    rows : str
        The rows whose labels were revealed, as a condition on the column.
    labelled, labelled_others : float
        The share of these rows that have a label, and of all others.

    Examples
    --------
    >>> Decision("treated", "treated=yes", 1.0, 0.0).evidence
    '100% of the rows with treated=yes have a label, and 0% of the others'
    """

    column: str
    rows: str
    labelled: float
    labelled_others: float

    @property
    def evidence(self) -> str:
        """What shows that the column is the decision."""
        return f"{percent(self.labelled)} of the rows with {self.rows} have a label, and {percent(self.labelled_others)} of the others"


def decision_sentence(decisions: Sequence[Decision]) -> str:
    """Return a sentence on what to do about decision columns.

    Examples
    --------
    >>> decision_sentence([Decision("treated", "treated=yes", 1.0, 0.0)])
    "Column 'treated' is the decision that revealed the label (100% of the rows with treated=yes have a label, and 0% of the others); leave it out with --exclude treated."
    """
    names = listed([repr(decision.column) for decision in decisions])
    are, them = ("Column {} is", "it") if len(decisions) == 1 else ("Columns {} are", "them")
    return (
        f"{are.format(names)} the decision that revealed the label ({decisions[0].evidence}); leave {them} out with "
        f"{option_words('--exclude', [decision.column for decision in decisions])}."
    )


def find_decisions(logged: LoggedData, names: Sequence[str], sources: Sequence[str]) -> tuple[Decision, ...]:
    """Return the columns that tell which labels were revealed: by one value, or by whether a value is missing.

    Numeric thresholds are not searched: a policy may well follow a score, which must then stay among the features.

    `sources` are the table columns that the features `names` come from.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=400), rng.random(400) < 0.4])
    >>> logged = ob.LoggedData(X, np.where(X[:, 1] == 1, X[:, 0] > 0, np.nan), propensity=0.4)
    >>> find_decisions(logged, ["age", "treated"], ["age", "treated"])[0].evidence
    '100% of the rows with treated=1 have a label, and 0% of the others'
    """
    positions = sample_positions(logged.rows, MAX_ROWS)
    revealed = logged.revealed[positions]
    least = min(int(revealed.sum()), int((~revealed).sum()))
    if least < MIN_OF_KIND:
        return ()
    X = logged.rows.take(positions)
    found: dict[str, tuple[tuple[int, bool], Decision]] = {}  # fewest mistakes first, then "is" before "is not"
    for k, (name, source) in enumerate(zip(names, sources, strict=True)):
        for value, has_value in _splits(column_of(X, k)):
            holds = bool(2 * np.count_nonzero(has_value == revealed) >= revealed.size)
            inside = has_value if holds else ~has_value
            wrong = int(np.count_nonzero(inside != revealed))
            order = wrong, not holds
            if wrong <= MAX_MISTAKES * least and (source not in found or order < found[source][0]):
                shares = float(revealed[inside].mean()), float(revealed[~inside].mean())
                found[source] = order, Decision(source, _condition(name, value, holds), *shares)
    return tuple(decision for _, decision in found.values())


def repeats_decision(propensity: Floats, revealed: Bools) -> bool:
    """Return whether propensities are close to 1 where the label was revealed and close to 0 elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> shown = np.array([True, False, False])
    >>> repeats_decision(np.array([0.99, 0.02, 0.0]), shown), repeats_decision(np.array([0.5, 0.2, 0.0]), shown)
    (True, False)
    """
    return bool(np.abs(propensity - revealed).mean() < REPEAT_DISTANCE)


def _splits(values: Floats) -> list[tuple[float, Bools]]:
    """Return candidate values of a column, each with its rows: 1 for a 0/1 column, else the most frequent ones."""
    distinct, counts = np.unique(values, return_counts=True)
    if np.isin(distinct, (0.0, 1.0)).all():
        return [(1.0, values == 1.0)] if distinct.size == 2 else []
    order: Ints = np.argsort(-counts, kind="stable")[:MAX_VALUES]
    return [(float(distinct[k]), values == distinct[k]) for k in order if counts[k] >= MIN_SHARE * values.size]


def _condition(name: str, value: float, holds: bool) -> str:
    """Describe the rows of a table that have a value, or do not have it."""
    if name.endswith(" is missing"):
        return f"a {'missing' if holds else 'known'} {name.removesuffix(' is missing')!r}"
    column, equals, category = name.partition("=")
    shown = category if equals else exact(value)
    return f"{column}{'=' if holds else ' ≠ '}{shown}"

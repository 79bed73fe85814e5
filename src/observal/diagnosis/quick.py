"""Warnings that cost next to nothing, for when a campaign is made: wrong propensities, columns that give the label away, and ids."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

import numpy as np

from observal.checks import Floats, Ints
from observal.data import LoggedData, Pool
from observal.diagnosis.calibration import check_calibration
from observal.diagnosis.rows import column_of, sample_rows
from observal.diagnosis.words import count
from observal.methods.measures import right_side
from observal.parts import Parts
from observal.problem import Problem

LEAKY = 0.99  # AUC of one column alone; honest features are hardly ever that good
LEAST_OF_CLASS = 5
MOST_ROWS = 20_000
MOST_PARTS = 8  # of tables that stay in their files
LEAST_DISTINCT = 50  # rows, each with a different whole number, that look like ids
MOST_NAMED = 5


def quick_warnings(
    logged: LoggedData, pool: Pool, names: Sequence[str], sources: Sequence[str] | None = None
) -> list[str]:
    """Return sentences on what is likely to be wrong with the data, most serious first.

    Parameters
    ----------
    logged, pool : LoggedData, Pool
        What the old policy showed, and the rows that can be asked about.
    names : sequence of str
        Of the features.
    sources : sequence of str, optional
        The column of the table that each comes from; by default its name.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.arange(60.0)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] % 3 > 0, X[:, 0] % 2, np.nan), propensity=1.0)
    >>> for warning in quick_warnings(logged, ob.Pool(X + 60, 1.0), ["number"]): print(warning)
    Warning: 20 rows of the log have propensity 1 and no label: propensity is the chance that the label was revealed, so it cannot be 1 there; correct it, or use --estimate-propensity.
    Warning: Column 'number' looks like an id: it has a different whole number in every row; leave it out with --exclude number.
    """
    leaks = _leaks(logged, names, names if sources is None else sources)
    return [f"Warning: {text}" for text in (*_propensities(logged), *leaks, *_ids(Problem(logged, pool), names))]


def _propensities(logged: LoggedData) -> list[str]:
    certain = int(np.sum((logged.propensity >= 1.0) & ~logged.revealed))
    if certain:
        return [
            f"{count(certain, 'row')} of the log {'has' if certain == 1 else 'have'} propensity 1 and no label: propensity is the "
            "chance that the label was revealed, so it cannot be 1 there; correct it, or use --estimate-propensity."
        ]
    found = check_calibration(logged.propensity, logged.revealed, bool(logged.revealed.all()))
    return [" ".join(found.sentences())] if found.cannot_be_right else []


def _leaks(logged: LoggedData, names: Sequence[str], sources: Sequence[str]) -> list[str]:
    rows = _some(logged.X, np.flatnonzero(logged.revealed))
    codes = logged.codes[rows]
    if len(logged.classes) != 2 or np.bincount(codes, minlength=2).min() < LEAST_OF_CLASS:
        return []
    X, found = logged.X[rows], []
    for column, (name, source) in enumerate(zip(names, sources, strict=True)):
        auc = alone(column_of(X, column), codes)
        if auc >= LEAKY:
            found.append(
                f"Column {name!r} alone tells the classes apart (AUC {auc:.3f}); if it is only known once the label is, leave it "
                f"out with --exclude {quote(source)}."
            )
    return _few(found)


def alone(values: Floats, codes: Any) -> float:
    """Return the AUC of one column as a score, in whichever direction is better.

    Examples
    --------
    >>> import numpy as np
    >>> alone(np.array([3.0, 2.0, 1.0]), np.array([0, 0, 1]))
    1.0
    """
    sides = right_side(values, codes, np.ones(codes.size))
    auc = float(sides[codes == 1].mean())
    return max(auc, 1.0 - auc)


def _ids(problem: Problem, names: Sequence[str]) -> list[str]:
    if hasattr(problem.logged.X, "tocsr") or problem.n_rows < LEAST_DISTINCT:
        return []
    X = problem.take(problem.rows(*(_some(of, np.arange(of.shape[0])) for of in problem.blocks())))
    found = []
    for column, name in enumerate(names):
        values = X[:, column]
        if np.array_equal(values, np.floor(values)) and np.unique(values).size == values.size:
            found.append(
                f"Column {name!r} looks like an id: it has a different whole number in every row; leave it out with --exclude {quote(name)}."
            )
    return _few(found)


def _some(X: Any, rows: Ints) -> Ints:
    """Return a sample of these rows; those of a few parts, where rows are in files."""
    if isinstance(X, Parts) and len(X.parts) > MOST_PARTS:
        part = np.searchsorted(X.ends, rows, side="right") - 1
        rows = rows[np.isin(part, np.linspace(0, len(X.parts) - 1, MOST_PARTS).astype(np.int64))]
    return rows[sample_rows(rows.size, MOST_ROWS, np.random.default_rng(0))]


def _few(found: list[str]) -> list[str]:
    left = len(found) - MOST_NAMED
    return (
        found if left <= 0 else [*found[:MOST_NAMED], f"{count(left, 'more column does', 'more columns do')} the same."]
    )

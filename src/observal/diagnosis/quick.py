"""Warnings that cost next to nothing, for when a campaign is made: wrong propensities, columns that give the label away, and ids."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

import numpy as np

from observal.checks import Floats, Ints
from observal.diagnosis.calibration import check_calibration
from observal.diagnosis.rows import column_of, sample_rows
from observal.diagnosis.words import count
from observal.intervals.measures import right_side
from observal.parquet import Parts
from observal.problem.data import LoggedData, Pool
from observal.problem.problem import Problem

LEAKY = 0.99  # AUC of one column alone; honest features are hardly ever that good
LEAST_OF_CLASS = 5
MOST_ROWS = 20_000
MOST_PARTS = 8  # of tables that stay in their files
LEAST_DISTINCT = 50  # rows, each with a different whole number, that look like ids
MOST_NAMED = 5


def quick_warnings(
    logged: LoggedData,
    pool: Pool,
    names: Sequence[str],
    sources: Sequence[str] | None = None,
    dates: Sequence[str] = (),
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
    dates : sequence of str
        Those of them that are dates: one for each row is nothing unusual.

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
    found = (*_propensities(logged), *leaks, *_ids(Problem(logged, pool), names, dates))
    return [f"Warning: {text}" for text in found]


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
    if len(rows) < 2 or np.sort(np.bincount(codes, minlength=2))[-2] < LEAST_OF_CLASS:
        return []
    X, found = logged.X[rows], []
    for source in dict.fromkeys(sources):
        columns = [k for k, one in enumerate(sources) if one == source]
        values = [column_of(X, column) for column in columns]
        if len(values) > 1 and all(
            np.isin(one, (0.0, 1.0)).all() for one in values
        ):  # a category: one column for each value
            values = [np.unique(np.stack(values), axis=1, return_inverse=True)[1].astype(np.float64)]
            told = [_told_by_groups(values[0], codes)]
        else:
            told = [_told(one, codes, len(logged.classes)) for one in values]
        if max(told) >= LEAKY:
            how = (
                f"AUC {max(told):.3f}"
                if len(logged.classes) == 2 and len(values) == len(columns)
                else f"{max(told):.1%} right"
            )
            name = source if len(values) < len(columns) else names[columns[int(np.argmax(told))]]
            found.append(
                f"Column {name!r} alone tells the classes apart ({how}); if it is only known once the label is, leave it "
                f"out with --exclude {quote(source)}."
            )
    return _few(found)


def _told(values: Floats, codes: Ints, n_classes: int) -> float:
    """Return how well one column of numbers tells the classes apart, 1 being perfectly."""
    if n_classes == 2:
        return alone(values, codes)
    if np.unique(values).size <= values.size / 2:
        return _told_by_groups(values, codes)
    order = np.argsort(values, kind="stable")
    ordered = np.concatenate([[-np.inf], values[order], [np.inf]])
    before, after = ordered[1:-1] - ordered[:-2], ordered[2:] - ordered[1:-1]
    nearest = np.where(before <= after, np.roll(codes[order], 1), np.roll(codes[order], -1))
    return _share_right(nearest, codes[order])


def _told_by_groups(values: Floats, codes: Ints) -> float:
    """Return how often the commonest class among the other rows with the same value is right, the mean over classes."""
    group = np.unique(values, return_inverse=True)[1]
    counts = np.zeros((group.max() + 1, codes.max() + 1))
    np.add.at(counts, (group, codes), 1.0)
    others = counts[group]
    others[np.arange(codes.size), codes] -= 1.0
    guess = np.where(others.max(axis=1) > 0.0, others.argmax(axis=1), -1)  # nobody else has this value
    return _share_right(guess, codes)


def _share_right(guess: Ints, codes: Ints) -> float:
    """Return the share of right guesses, the mean over the classes that have enough rows."""
    counts = np.bincount(codes)
    return float(np.mean([(guess[codes == k] == k).mean() for k in np.flatnonzero(counts >= LEAST_OF_CLASS)]))


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


def _ids(problem: Problem, names: Sequence[str], dates: Sequence[str]) -> list[str]:
    if hasattr(problem.logged.X, "tocsr") or problem.n_rows < LEAST_DISTINCT:
        return []
    X = problem.take(problem.rows(*(_some(of) for of in problem.blocks())))
    found = []
    for column, name in enumerate(names):
        values = X[:, column]
        if name not in dates and np.array_equal(values, np.floor(values)) and np.unique(values).size == values.size:
            found.append(
                f"Column {name!r} looks like an id: it has a different whole number in every row; leave it out with --exclude {quote(name)}."
            )
    return _few(found)


def _some(X: Any, rows: Ints | None = None) -> Ints:
    """Return a sample of these rows, by default of all; those of a few parts, where rows are in files."""
    if isinstance(X, Parts) and len(X.parts) > MOST_PARTS:
        parts = np.linspace(0, len(X.parts) - 1, MOST_PARTS).astype(np.int64)
        if rows is None:
            rows = np.concatenate([np.arange(X.edges[k], X.edges[k + 1]) for k in parts])
        else:
            rows = rows[np.isin(np.searchsorted(X.edges, rows, side="right") - 1, parts)]
    elif rows is None:
        rows = np.arange(X.shape[0])
    return rows[sample_rows(rows.size, MOST_ROWS, np.random.default_rng(0))]


def _few(found: list[str]) -> list[str]:
    left = len(found) - MOST_NAMED
    return (
        found if left <= 0 else [*found[:MOST_NAMED], f"{count(left, 'more column does', 'more columns do')} the same."]
    )

"""Cheap warnings for a new campaign: wrong propensities, columns that give the label away, and columns of ids."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import numpy as np

from observal.checks import Floats, Ints
from observal.diagnosis.calibration_check import check_calibration
from observal.diagnosis.decision import decision_sentence, find_decisions
from observal.diagnosis.feature_values import MOST_ROWS, sample_positions
from observal.intervals.measures import right_side
from observal.problem.data import LoggedData, Pool
from observal.problem.problem import Problem
from observal.problem.rows import column_of, to_dense
from observal.problem.words import count

LEAKY = 0.99  # AUC of one column alone; honest features are hardly ever that good
LEAST_OF_CLASS = 5
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
        Those of them that are dates: a different one in every row is not unusual.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.arange(60.0)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] % 3 > 0, X[:, 0] % 2, np.nan), propensity=1.0)
    >>> for warning in quick_warnings(logged, ob.Pool(X + 60, 1.0), ["number"]): print(warning)
    Warning: 20 rows of the log have propensity 1 and no label: propensity is the chance that the label was revealed, so it cannot be 1 there; correct it, or use --estimate-propensity.
    Warning: Column 'number' looks like an id: it has a different whole number in every row; leave it out with --exclude number.
    """
    decisions = find_decisions(logged, names, names if sources is None else sources)
    sentences = (
        *([decision_sentence(decisions)] if decisions else []),
        *_check_propensities(logged),
        *_find_leaks(logged, names, names if sources is None else sources),
        *_find_ids(Problem(logged, pool), names, dates),
    )
    return [f"Warning: {sentence}" for sentence in sentences]


def _check_propensities(logged: LoggedData) -> list[str]:
    calibration = check_calibration(logged.propensity, logged.revealed, bool(logged.revealed.all()))
    if calibration.broken_promises:
        rows = count(calibration.broken_promises, "row of the log has", "rows of the log have")
        return [
            f"{rows} propensity 1 and no label: propensity is the chance that the label was revealed, so it cannot be 1 "
            "there; correct it, or use --estimate-propensity."
        ]
    return [" ".join(calibration.sentences())] if calibration.cannot_be_right else []


def _find_leaks(logged: LoggedData, names: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Return a warning for each column of the table that tells the classes apart on its own."""
    rows = sample_positions(logged.rows, MOST_ROWS, np.flatnonzero(logged.revealed))
    codes, n_classes = logged.codes[rows], len(logged.classes)
    if len(rows) < 2 or np.sort(np.bincount(codes, minlength=2))[-2] < LEAST_OF_CLASS:
        return []
    X, sentences = logged.rows.take(rows), []
    for source in dict.fromkeys(sources):
        columns = [k for k, name in enumerate(sources) if name == source]
        values = [column_of(X, column) for column in columns]
        is_category = len(columns) > 1 and all(np.isin(column, (0.0, 1.0)).all() for column in values)
        if is_category:  # one column for each value: together they are one number
            groups = np.unique(np.stack(values), axis=1, return_inverse=True)[1].astype(np.float64)
            accuracies = [_accuracy_of_groups(groups, codes)]
        else:
            accuracies = [_separation(column, codes, n_classes) for column in values]
        best = max(accuracies)
        if best >= LEAKY:
            name = source if is_category else names[columns[int(np.argmax(accuracies))]]
            how = f"AUC {best:.3f}" if n_classes == 2 and not is_category else f"{best:.1%} right"
            sentences.append(
                f"Column {name!r} alone tells the classes apart ({how}); if it is only known once the label is, leave it "
                f"out with --exclude {quote(source)}."
            )
    return _shorten(sentences)


def _separation(values: Floats, codes: Ints, n_classes: int) -> float:
    """Return how well one column of numbers tells the classes apart, 1 being perfectly."""
    if n_classes == 2:
        return column_auc(values, codes)
    if np.unique(values).size <= values.size / 2:
        return _accuracy_of_groups(values, codes)
    order = np.argsort(values, kind="stable")
    ordered = np.concatenate([[-np.inf], values[order], [np.inf]])
    before, after = ordered[1:-1] - ordered[:-2], ordered[2:] - ordered[1:-1]
    nearest = np.where(before <= after, np.roll(codes[order], 1), np.roll(codes[order], -1))
    return _mean_accuracy(nearest, codes[order])


def column_auc(values: Floats, codes: Ints) -> float:
    """Return the AUC of one column as a score, in whichever direction is better.

    Examples
    --------
    >>> import numpy as np
    >>> column_auc(np.array([3.0, 2.0, 1.0]), np.array([0, 0, 1]))
    1.0
    """
    sides = right_side(values, codes, np.ones(codes.size))
    auc = float(sides[codes == 1].mean())
    return max(auc, 1.0 - auc)


def _accuracy_of_groups(values: Floats, codes: Ints) -> float:
    """Return how often the commonest class among the other rows with the same value is right, the mean over classes."""
    group = np.unique(values, return_inverse=True)[1]
    counts = np.zeros((group.max() + 1, codes.max() + 1))
    np.add.at(counts, (group, codes), 1.0)
    others = counts[group]
    others[np.arange(codes.size), codes] -= 1.0
    guess = np.where(others.max(axis=1) > 0.0, others.argmax(axis=1), -1)  # -1: no other row has this value
    return _mean_accuracy(guess, codes)


def _mean_accuracy(guess: Ints, codes: Ints) -> float:
    """Return the share of right guesses, the mean over the classes that have enough rows."""
    counts = np.bincount(codes)
    return float(np.mean([(guess[codes == k] == k).mean() for k in np.flatnonzero(counts >= LEAST_OF_CLASS)]))


def _find_ids(problem: Problem, names: Sequence[str], dates: Sequence[str]) -> list[str]:
    """Return a warning for each feature with a different whole number in every row."""
    if problem.logged.rows.is_sparse or problem.n_rows < LEAST_DISTINCT:
        return []
    X = to_dense(problem.take(problem.positions(*(sample_positions(rows, MOST_ROWS) for rows in problem.blocks()))))
    sentences = []
    for column, name in enumerate(names):
        values = X[:, column]
        if name not in dates and np.array_equal(values, np.floor(values)) and np.unique(values).size == values.size:
            sentences.append(
                f"Column {name!r} looks like an id: it has a different whole number in every row; leave it out with --exclude {quote(name)}."
            )
    return _shorten(sentences)


def _shorten(sentences: list[str]) -> list[str]:
    n_more = len(sentences) - MOST_NAMED
    if n_more <= 0:
        return sentences
    return [*sentences[:MOST_NAMED], f"{count(n_more, 'more column does', 'more columns do')} the same."]

"""Cheap warnings for a new campaign: wrong propensities, leaks, related rows, and id columns."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import numpy as np

from observal.diagnosis.calibration_check import check_calibration
from observal.diagnosis.decision_column import decision_sentence, find_decisions
from observal.diagnosis.feature_values import MAX_ROWS, sample_positions
from observal.diagnosis.leaks import find_leaks, leak_sentence
from observal.diagnosis.near_copies import NearCopies, find_near_copies
from observal.problem.data import LoggedData
from observal.problem.problem import Problem
from observal.problem.rows import to_dense
from observal.problem.words import WARNING, count

MIN_DISTINCT = 50  # rows, each with a different integer, that look like ids
MAX_NAMED = 5


def quick_warnings(
    logged: LoggedData,
    problem: Problem,
    names: Sequence[str],
    sources: Sequence[str] | None = None,
    dates: Sequence[str] = (),
    label: str = "",
    known_before: Sequence[str] = (),
) -> list[str]:
    """Return sentences on what is likely wrong with the data, most serious first.

    `logged` is the log as it was given, `problem` what methods get (``observal.problem.given.arrange``); `sources` are the table columns that the features `names` come from, by default the same, and `dates`
    those features that are dates, which may differ in every row. `known_before` are columns known before the
    label is.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.arange(60.0)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] % 3 > 0, X[:, 0] % 2, np.nan), propensity=1.0)
    >>> for warning in quick_warnings(logged, ob.Problem(logged, ob.Pool(X + 60, 1.0)), ["number"]): print(warning)
    Warning: 20 rows of the log have propensity 1 and no label: propensity is the chance that the label was revealed, so it cannot be 1 there; correct it, or leave it out.
    Warning: Column 'number' looks like an id: it has a different whole number in every row; leave it out with --exclude number.
    """
    sources = names if sources is None else sources
    decisions = find_decisions(logged, names, sources)
    leaks = find_leaks(logged, names, sources, dates, label, known_before)
    # Skipped for rows in Parquet, which would have to be read and may be very many.
    copies = NearCopies() if logged.rows.in_files else find_near_copies(logged, np.random.default_rng(0))
    sentences = (
        *([decision_sentence(decisions)] if decisions else []),
        *([] if logged.is_given else _check_propensities(logged)),
        *([leak_sentence(leaks, label)] if leaks else []),
        *copies.sentences(),
        *_find_ids(problem, names, dates),
    )
    return [f"{WARNING}{sentence}" for sentence in sentences]


def _check_propensities(logged: LoggedData) -> list[str]:
    calibration = check_calibration(logged.propensity, logged.revealed, bool(logged.revealed.all()))
    if calibration.broken_promises:
        rows = count(calibration.broken_promises, "row of the log has", "rows of the log have")
        return [
            f"{rows} propensity 1 and no label: propensity is the chance that the label was revealed, so it cannot be 1 "
            "there; correct it, or leave it out."
        ]
    return [" ".join(calibration.sentences())] if calibration.cannot_be_right else []


def _find_ids(problem: Problem, names: Sequence[str], dates: Sequence[str]) -> list[str]:
    """Return a warning for each feature with a different integer in every row."""
    if problem.logged.rows.is_sparse or problem.n_rows < MIN_DISTINCT:
        return []
    X = to_dense(problem.take(problem.positions(*(sample_positions(rows, MAX_ROWS) for rows in problem.blocks()))))
    sentences = []
    for column, name in enumerate(names):
        values = X[:, column]
        if name not in dates and np.array_equal(values, np.floor(values)) and np.unique(values).size == values.size:
            sentences.append(
                f"Column {name!r} looks like an id: it has a different whole number in every row; leave it out with --exclude {quote(name)}."
            )
    return _shorten(sentences)


def _shorten(sentences: list[str]) -> list[str]:
    n_more = len(sentences) - MAX_NAMED
    if n_more <= 0:
        return sentences
    return [*sentences[:MAX_NAMED], f"{count(n_more, 'more column does', 'more columns do')} the same."]

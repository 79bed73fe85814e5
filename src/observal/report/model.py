"""What a report says of the model: whether the labels were worth it, what it uses, and where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Floats, Ints
from observal.diagnosis.rows import column_of, sample_rows
from observal.diagnosis.words import number, percent
from observal.interval import Interval
from observal.methods.cells import wilson
from observal.problem import Problem
from observal.report.measures import is_known
from observal.stopping import LEAST_BOUGHT, chances_of
from observal.tables.written import day_words

MORE_LABELS = 50
ROWS_TO_SHUFFLE, MOST_COLUMNS, MOST_SHOWN = 300, 60, 8
LEAST_OF_GROUP = 5


class Judged(NamedTuple):
    """Labelled rows of log and pool: their classes, what fits that have not seen them say, and what each stands for."""

    rows: Ints
    codes: Ints
    predicted: Ints
    weight: Floats


def title_of(level: str, objective: str) -> str:
    """Return the verdict on the model in a few words: against the baseline, or with an objective of its own by the AUC.

    Examples
    --------
    >>> title_of("good", "error"), title_of("good", "recall=0.8")
    ('The model beats guessing.', 'The model tells the classes apart.')
    """
    if objective != "error":  # finding rare rows costs mistakes, so such a model need not make fewer than the baseline
        return f"The model {'tells' if level == 'good' else 'is not shown to tell'} the classes apart."
    said = {"good": "beats", "care": "is not shown to beat", "buy": "does not beat"}[level]
    return f"The model {said} guessing."


def worth(before: Interval, now: Interval, bought: int, to_gain: float | None) -> str:
    """Return whether the labels were worth it, in words.

    Parameters
    ----------
    before, now : Interval
        The error with the log alone, and now.
    bought : int
        Labels bought.
    to_gain : float, optional
        By how much `MORE_LABELS` more may lower the error.

    Examples
    --------
    >>> ends = Interval(0.2, 0.1, 0.4, 0.95, "cells"), Interval(0.05, 0.03, 0.08, 0.95, "cells")
    >>> worth(*ends, 120, 0.004)
    'With the log alone the error was between 10% and 40%; with 120 more labels it is between 3% and 8%. The next 50 labels may lower it by at most about 0.4 points.'
    """

    def between(one: Interval) -> str:
        return f"between {percent(one.low)} and {percent(one.high)}" if is_known(one) else "not known"

    if not bought:
        return f"With the log alone the error is {between(now)}. No label was bought yet."
    more = (
        f"It is too early to say what {MORE_LABELS} more labels may bring; that can be said from {LEAST_BOUGHT} bought labels on."
        if to_gain is None
        else f"The next {MORE_LABELS} labels may lower it by at most about {100 * to_gain:.2g} points."
    )
    return (
        f"With the log alone the error was {between(before)}; with {bought:,} more label{'s' * (bought != 1)} it is "
        f"{between(now)}. {more}"
    )


def what_it_uses(estimator: Any, X: Any, names: Sequence[str], sources: Sequence[str]) -> list[tuple[str, float]]:
    """Return how far the model's probabilities move, on average, when a column is shuffled; the largest first.

    Parameters
    ----------
    estimator : classifier
        The model.
    X : array
        Rows of the population.
    names, sources : sequences of str
        The features, and the column of the table that each comes from: those of one column are shuffled together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = what_it_uses(LogisticRegression().fit(X, X[:, 1] > 0), X, ["a", "b"], ["a", "b"])
    >>> found[0][0], found[0][1] > 10 * found[1][1]
    ('b', True)
    """
    rng = np.random.default_rng(0)
    rows = X[sample_rows(X.shape[0], ROWS_TO_SHUFFLE, rng)]
    groups: dict[str, list[int]] = {}
    for column, source in enumerate(sources):
        groups.setdefault(source, []).append(column)
    if hasattr(rows, "tocsr") or len(groups) > MOST_COLUMNS or not names:
        return []
    now = chances_of(estimator, rows)
    found = []
    for source, columns in groups.items():
        other = np.array(rows, copy=True)
        other[:, columns] = other[rng.permutation(len(other))][:, columns]
        found.append((source, float(np.abs(chances_of(estimator, other) - now).sum(axis=1).mean() / 2.0)))
    return sorted(found, key=lambda pair: -pair[1])


def errors_by_group(
    problem: Problem, judged: Judged, names: Sequence[str], first: Sequence[str], dates: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the error in groups of rows, by the features named first: values of a category, thirds of a number or date.

    The intervals are rough: they treat the labels of a group as independent.
    """
    found: list[dict[str, Any]] = []
    X = problem.take(judged.rows)
    order = sorted(range(len(names)), key=lambda k: (_rank(names[k], first), k))
    for column in order:
        values = column_of(X, column)
        said = day_words if names[column] in dates else number
        for words, inside in _groups(names[column], values, column_of(problem.pool.X, column), said):
            here = inside & (judged.weight > 0.0)
            if here.sum() >= LEAST_OF_GROUP:
                found.append({"group": words, "labels": int(here.sum()), **_error(judged, here)})
        if len(found) >= MOST_SHOWN:
            break
    return found


def _rank(name: str, first: Sequence[str]) -> int:
    source = name.split("=", maxsplit=1)[0].removesuffix(" is missing")
    return next((k for k, one in enumerate(first) if one in (name, source)), len(first))


def _groups(name: str, values: Floats, pool: Floats, said: Callable[[float], str]) -> list[tuple[str, Any]]:
    if set(np.unique(pool)) <= {0.0, 1.0}:
        return [(name, values == 1.0)]
    low, high = (float(end) for end in np.quantile(pool, [1 / 3, 2 / 3], method="lower"))  # values that occur
    if low == high:
        return [(f"{name} ≤ {said(low)}", values <= low), (f"{name} > {said(low)}", values > low)]
    return [
        (f"{name} ≤ {said(low)}", values <= low),
        (f"{name} from {said(low)} to {said(high)}", (values > low) & (values <= high)),
        (f"{name} > {said(high)}", values > high),
    ]


def _error(judged: Judged, here: Any) -> dict[str, float]:
    weight, wrong = judged.weight[here], judged.predicted[here] != judged.codes[here]
    share = float(weight @ wrong / weight.sum())
    effective = float(weight.sum() ** 2 / (weight @ weight))
    low, high = wilson(share, share * (1.0 - share) / effective, effective)
    return {"error": share, "low": low, "high": high}

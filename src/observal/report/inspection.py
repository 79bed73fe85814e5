"""What a model uses, and where it is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.feature_values import columns_by_source, sample_rows, source_of
from observal.errors import InvalidInput
from observal.intervals.stopping import chances_of
from observal.problem.data import Pool
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.labels import is_missing
from observal.problem.problem import Problem
from observal.problem.result import RunResult
from observal.problem.rows import Matrix, Rows, as_rows, column_of
from observal.problem.words import number

MISSING = " is missing"  # ends the name of the feature that says where a column has no value
ROWS_TO_SHUFFLE, MOST_COLUMNS, MOST_SHOWN = 300, 60, 8
LEAST_OF_GROUP, MOST_OF_COLUMN = 5, 12


def column_use(estimator: Any, X: Matrix | Rows, sources: Sequence[str]) -> list[tuple[str, float]]:
    """Return how far the model's probabilities move, on average, when a column is shuffled; the largest first.

    `X` are rows of the population, and `sources` the column of the table that each feature comes from: those of one column are shuffled
    together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> (first, far), (second, near) = column_use(LogisticRegression().fit(X, X[:, 1] > 0), X, ["a", "b"])
    >>> first, far > 10 * near
    ('b', True)
    """
    rng = np.random.default_rng(0)
    population = as_rows(X)
    rows = population.take(sample_rows(len(population), ROWS_TO_SHUFFLE, rng))
    columns = columns_by_source(sources)
    if population.is_sparse or not 0 < len(columns) <= MOST_COLUMNS:
        return []
    chances = chances_of(estimator, rows)
    moves = []
    for source, features in columns.items():
        shuffled = np.array(rows, copy=True)
        shuffled[:, features] = shuffled[rng.permutation(len(shuffled))][:, features]
        moves.append((source, float(np.abs(chances_of(estimator, shuffled) - chances).sum(axis=1).mean() / 2.0)))
    return sorted(moves, key=lambda pair: -pair[1])


class GroupError(NamedTuple):
    """A group of rows in words, how many labels it has, its share of all rows, and its error; None with too few labels.

    Of its labels of the class that is looked for: how many there are, how many the model finds, and the recall; None with too few of them.
    """

    group: str
    labels: int
    share: float
    error: Interval | None
    positives: int = 0
    found: int = 0
    recall: Interval | None = None


Group = tuple[str, Bools]
"""A group of rows in words, and which of the labelled rows are inside."""


def error_of_group(group: Group, judged: JudgedRows, positive: int | None = None) -> GroupError:
    """Return the error of a group, with the weights and cells of the error of all rows; and the recall of the class `positive`."""
    words, inside = group
    counted = inside & (judged.weight > 0.0)
    n_labels, share = int(counted.sum()), float(judged.weight[counted].sum())
    if n_labels < LEAST_OF_GROUP:
        return GroupError(words, n_labels, share, None)
    wrong = (judged.predicted != judged.codes) & inside
    error = GroupError(words, n_labels, share, judged.ratio(wrong.astype(np.float64), inside.astype(np.float64)))
    if positive is None:
        return error
    looked_for = (judged.codes == positive) & inside
    found = looked_for & (judged.predicted == positive)
    positives = int((looked_for & counted).sum())
    recall = (
        judged.ratio(found.astype(np.float64), looked_for.astype(np.float64)) if positives >= LEAST_OF_GROUP else None
    )
    return error._replace(positives=positives, found=int((found & counted).sum()), recall=recall)


def errors_by_group(
    problem: Problem,
    judged: JudgedRows,
    names: Sequence[str],
    sources: Sequence[str],
    first: Sequence[str],
    words: Callable[[str, float], str],
    positive: int | None = None,
) -> list[GroupError]:
    """Return the error in groups of rows: values of a category, thirds of a number or date, and missing values.

    A column is shown with all its groups that have labels enough, or those with most labels if it has very many.

    `judged` are the labelled rows as fits that have not seen them judge them. `sources` has the column of the table that each feature comes
    from, and `first` the columns to show first. `words` takes a feature's name and a value of it. `positive` is the class whose recall is
    shown as well.
    """
    out: list[GroupError] = []
    columns = columns_by_source(sources)
    ranks = {source: rank for rank, source in reversed(list(enumerate(first)))}
    for source in sorted(columns, key=lambda name: ranks.get(name, len(first))):
        groups = groups_of_features(problem, judged.rows, columns[source], names, words)
        errors = [error for group in groups if (error := error_of_group(group, judged, positive)).error is not None]
        largest = sorted(range(len(errors)), key=lambda k: -errors[k].labels)[:MOST_OF_COLUMN]
        out += [errors[k] for k in sorted(largest)]
        if len(out) >= MOST_SHOWN:
            break
    return out


def groups_of_features(
    problem: Problem, rows: Ints, features: Sequence[int], names: Sequence[str], words: Callable[[str, float], str]
) -> list[Group]:
    """Return the groups that the features of one column make of some rows of log and pool.

    Missing values are a group of their own: the numbers that stand in for them are in no other.
    """
    X = problem.take(rows)
    flag = next((k for k in features if names[k].endswith(MISSING)), None)
    missing = np.zeros(rows.size, dtype=bool) if flag is None else column_of(X, flag) == 1.0
    present = None if flag is None else problem.pool.rows.column(flag) != 1.0
    groups: list[Group] = []
    for k in features:
        if k == flag:
            continue
        pool = problem.pool.rows.column(k)
        if set(np.unique(pool)) <= {0.0, 1.0}:
            groups.append((names[k], column_of(X, k) == 1.0))
        else:
            thirds = thirds_of(pool if present is None else pool[present], partial(words, names[k]))
            groups += [(f"{names[k]} {text}", inside(column_of(X, k)) & ~missing) for text, inside in thirds]
    levels = [inside for group, inside in groups if "=" in group]
    if levels and (others := ~np.any(levels, axis=0) & ~missing).any():
        groups.append((f"{source_of(names[features[0]])}: other values", others))
    return groups if flag is None else [*groups, (f"{names[flag].removesuffix(MISSING)}: missing", missing)]


def groups_of_values(name: str, values: Sequence[object], population: Sequence[object]) -> list[Group]:
    """Return the groups that a column of a table makes of rows: each value, thirds of numbers with many values, and missing ones.

    Of `values`, None and NaN are missing. The thirds are those of `population`, its values in the pool.

    Examples
    --------
    >>> [(group, inside.tolist()) for group, inside in groups_of_values("sex", ["f", None, "m"], ["m", "f"])]
    [('sex=f', [True, False, False]), ('sex=m', [False, False, True]), ('sex: missing', [False, True, False])]
    """
    missing = np.array([is_missing(value) for value in values], dtype=bool)
    known = [value for value in population if not is_missing(value)]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)
    if known and numbers and len(set(known)) > MOST_OF_COLUMN:
        floats = np.array([np.nan if lost else value for value, lost in zip(values, missing, strict=True)], dtype=float)
        thirds = thirds_of(np.array(known, dtype=float), number)
        groups = [(f"{name} {text}", inside(floats) & ~missing) for text, inside in thirds]
    else:
        texts = np.array([str(value) for value in values], dtype=object)
        counts = Counter(texts[~missing].tolist())
        common = sorted(value for value, _ in counts.most_common(MOST_OF_COLUMN))
        groups = [(f"{name}={value}", (texts == value) & ~missing) for value in common]
        if len(counts) > len(common):
            groups.append((f"{name}: other values", ~np.isin(texts, common) & ~missing))
    return [*groups, (f"{name}: missing", missing)] if missing.any() else groups


def thirds_of(pool: Floats, words: Callable[[float], str]) -> list[tuple[str, Callable[[Floats], Bools]]]:
    """Return the thirds of a column in words, and which values are inside each."""
    if not pool.size:
        return []
    low, high = (float(end) for end in np.quantile(pool, [1 / 3, 2 / 3], method="lower"))  # values that occur
    bottom, top = words(low), words(high)
    if low == high:
        return [(f"≤ {bottom}", lambda values: values <= low), (f"> {bottom}", lambda values: values > low)]
    return [
        (f"≤ {bottom}", lambda values: values <= low),
        (f"from {bottom} to {top}", lambda values: (values > low) & (values <= high)),
        (f"> {top}", lambda values: values > high),
    ]


def asked_positions(pool: Pool, result: RunResult) -> Ints:
    """Return the pool position of each query of a result, in the order they were asked.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> X = np.arange(20.0)[:, None]
    >>> pool = ob.Pool(X, 0.5, ids=[f"row {i}" for i in range(20)])
    >>> answer = {name: int(i > 9) for i, name in enumerate(pool.ids.tolist())}
    >>> logged = ob.LoggedData(X, [0] * 10 + [1] * 10, 1.0)
    >>> result = ob.run(logged, pool, lambda ids: [answer[i] for i in ids], label_budget=3)
    >>> pool.ids[asked_positions(pool, result)].tolist() == result.queries["id"].tolist()
    True
    """
    ids = result.queries["id"].tolist()
    distinct = set(ids)
    position = {name: i for i, name in enumerate(pool.ids.tolist()) if name in distinct}
    stranger = next((name for name in ids if name not in position), None)
    if stranger is not None:
        raise InvalidInput(
            f"The result must belong to the pool, but the pool has no row {stranger!r}; give the pool of that run."
        )
    return np.array([position[name] for name in ids], dtype=np.int64)

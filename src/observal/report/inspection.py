"""What a model uses, where it is wrong, and in which features the rows asked about differ from the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.feature_values import choose_columns, columns_by_source, dense, rank_columns, sample_rows
from observal.errors import InvalidInput
from observal.intervals.cells import wilson
from observal.intervals.stopping import chances_of
from observal.problem.data import Pool
from observal.problem.problem import Problem
from observal.problem.result import RunResult
from observal.problem.rows import Matrix, Rows, as_rows, column_of

ROWS_TO_SHUFFLE, MOST_COLUMNS, MOST_SHOWN = 300, 60, 8
LEAST_OF_GROUP, MOST_OF_COLUMN = 5, 12
MOST_PER_SIDE = 4000  # rows asked about, and other rows, that trees look at
CANDIDATES = 8
PAIR_TREE_DEPTH = 4


def column_use(estimator: Any, X: Matrix | Rows, sources: Sequence[str]) -> list[tuple[str, float]]:
    """Return how far the model's probabilities move, on average, when a column is shuffled; the largest first.

    Parameters
    ----------
    estimator : classifier
        The model.
    X : array
        Rows of the population.
    sources : sequence of str
        The column of the table that each feature comes from: those of one column are shuffled together.

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


class JudgedRows(NamedTuple):
    """Labelled rows of log and pool: their classes, what fits that have not seen them predict, and what each stands for."""

    rows: Ints
    codes: Ints
    predicted: Ints
    weight: Floats


class GroupError(NamedTuple):
    """A group of rows in words, how many labels it has, and its error with a rough interval."""

    group: str
    labels: int
    error: float
    low: float
    high: float


def errors_by_group(
    problem: Problem,
    judged: JudgedRows,
    names: Sequence[str],
    sources: Sequence[str],
    first: Sequence[str],
    words: Callable[[str, float], str],
) -> list[GroupError]:
    """Return the error in groups of rows: values of a category, thirds of a number or date.

    A column is shown with all its groups, or those with most labels if it has very many. The intervals are rough: they treat
    the labels of a group as independent.

    Parameters
    ----------
    problem : Problem
        Log and pool.
    judged : JudgedRows
        Labelled rows as fits that have not seen them judge them.
    names, sources : sequences of str
        The features, and the column of the table that each comes from.
    first : sequence of str
        The columns to show first.
    words : callable
        From a feature's name and a value of it to the value in words.
    """
    out: list[GroupError] = []
    X, counted = problem.take(judged.rows), judged.weight > 0.0
    columns = columns_by_source(sources)
    ranks = {source: rank for rank, source in reversed(list(enumerate(first)))}
    for source in sorted(columns, key=lambda name: ranks.get(name, len(first))):
        errors = [
            _group_error(group, judged, inside & counted)
            for k in columns[source]
            for group, inside in _groups(names[k], column_of(X, k), problem.pool.rows.column(k), words)
            if (inside & counted).sum() >= LEAST_OF_GROUP
        ]
        largest = sorted(range(len(errors)), key=lambda k: -errors[k].labels)[:MOST_OF_COLUMN]
        out += [errors[k] for k in sorted(largest)]
        if len(out) >= MOST_SHOWN:
            break
    return out


def _groups(name: str, values: Floats, pool: Floats, words: Callable[[str, float], str]) -> list[tuple[str, Bools]]:
    """Return the groups that a feature makes: their descriptions, and which values are inside."""
    if set(np.unique(pool)) <= {0.0, 1.0}:
        return [(name, values == 1.0)]
    low, high = (float(end) for end in np.quantile(pool, [1 / 3, 2 / 3], method="lower"))  # values that occur
    bottom, top = words(name, low), words(name, high)
    if low == high:
        return [(f"{name} ≤ {bottom}", values <= low), (f"{name} > {bottom}", values > low)]
    return [
        (f"{name} ≤ {bottom}", values <= low),
        (f"{name} from {bottom} to {top}", (values > low) & (values <= high)),
        (f"{name} > {top}", values > high),
    ]


def _group_error(group: str, judged: JudgedRows, inside: Bools) -> GroupError:
    weight, wrong = judged.weight[inside], judged.predicted[inside] != judged.codes[inside]
    share = float(weight @ wrong / weight.sum())
    effective = float(weight.sum() ** 2 / (weight @ weight))
    low, high = wilson(share, share * (1.0 - share) / effective, effective)
    return GroupError(group, int(inside.sum()), share, low, high)


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


def telling_pair(X: Matrix | Rows, group: Bools) -> tuple[int, ...]:
    """Return the two features that best separate a group of rows from the others, or fewer if there are fewer features.

    For each pair of the best single features a small decision tree is fitted, both groups with equal weight, and the pair with the
    lowest impurity is returned. Features with only two values are avoided, because they make poor axes.

    Parameters
    ----------
    X : array or sparse matrix
        The rows.
    group : bool array
        Which rows are in the group; if none or all are, the features that vary most are returned.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 5))
    >>> telling_pair(X, (np.abs(X[:, 1]) < 0.3) & (X[:, 3] > 0))
    (1, 3)
    """
    if X.shape[1] == 0:
        return ()
    rng = np.random.default_rng(0)
    inside, outside = np.flatnonzero(group), np.flatnonzero(~group)
    inside = inside[sample_rows(inside.size, MOST_PER_SIDE, rng)]
    rows = np.concatenate([inside, outside[sample_rows(outside.size, MOST_PER_SIDE, rng)]])
    target = group[rows]
    separable = bool(target.any()) and not bool(target.all())
    some = as_rows(X).take(rows)
    columns = choose_columns(some, target) if separable else np.arange(min(X.shape[1], 200))
    ranks, distinct = rank_columns(dense(some, columns))
    n_values = np.array([values.size for values in distinct])
    eligible = np.flatnonzero(n_values > 2) if (n_values > 2).sum() >= 2 else np.arange(columns.size)
    if not separable or eligible.size < 2:
        best = eligible[np.argsort(-n_values[eligible], kind="stable")[:2]]
        return tuple(int(columns[i]) for i in np.sort(best))
    impurity = np.array([_impurity(ranks[:, [i]], target) for i in eligible])
    candidates = np.sort(eligible[np.argsort(impurity, kind="stable")[:CANDIDATES]]).tolist()
    pair = min(combinations(candidates, 2), key=lambda p: _impurity(ranks[:, list(p)], target))
    return tuple(int(columns[i]) for i in pair)


def _impurity(ranks: Floats, target: Bools) -> float:
    """Return the impurity of a small tree, both groups with equal weight."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(
        max_depth=PAIR_TREE_DEPTH, min_samples_leaf=5, class_weight="balanced", random_state=0
    )
    nodes = tree.fit(ranks, target).tree_
    leaves = nodes.children_left < 0
    share = nodes.weighted_n_node_samples[leaves] / nodes.weighted_n_node_samples[0]
    return float(share @ nodes.impurity[leaves])

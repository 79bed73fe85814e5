"""The two features in which asked rows differ most from the others."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.diagnosis.feature_values import choose_columns, dense, rank_columns, sample_rows
from observal.errors import InvalidInput
from observal.problem.data import Pool
from observal.problem.result import RunResult

MOST_UNASKED = 4000
CANDIDATES = 8
DEPTH = 4


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
    wanted = result.queries["id"].tolist()
    names = set(wanted)
    position = {name: i for i, name in enumerate(pool.ids.tolist()) if name in names}
    strange = next((name for name in wanted if name not in position), None)
    if strange is not None:
        raise InvalidInput(
            f"The result must belong to the pool, but the pool has no row {strange!r}; give the pool of that run."
        )
    return np.array([position[name] for name in wanted], dtype=np.int64)


def telling_pair(X: Any, group: Bools, random_state: int = 0) -> tuple[int, ...]:
    """Return the two features that best separate a group of rows from the others, or fewer if there are fewer features.

    For each pair of the best single features a small decision tree is fitted, both groups with equal weight, and the pair with the
    lowest impurity is returned. Features with only two values are avoided, because they make poor axes.

    Parameters
    ----------
    X : array or sparse matrix
        The rows.
    group : bool array
        Which rows are in the group; if none or all are, the features that vary most are returned.
    random_state : int
        Seed for the sample of rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 5))
    >>> telling_pair(X, (np.abs(X[:, 1]) < 0.3) & (X[:, 3] > 0))
    (1, 3)
    """
    if X.shape[1] == 0:
        return ()
    rng = np.random.default_rng(random_state)
    others = np.flatnonzero(~group)
    chosen = np.flatnonzero(group)[sample_rows(int(group.sum()), MOST_UNASKED, rng)]
    rows = np.concatenate([chosen, others[sample_rows(others.size, MOST_UNASKED, rng)]])
    target = group[rows]
    told = bool(target.any()) and not bool(target.all())
    columns = choose_columns(X[rows], target) if told else np.arange(min(X.shape[1], 200))
    ranks, distinct = rank_columns(dense(X[rows], columns))
    many = np.array([values.size > 2 for values in distinct])
    eligible = np.flatnonzero(many) if many.sum() >= 2 else np.arange(columns.size)
    if not told or eligible.size < 2:
        vary = np.array([distinct[i].size for i in eligible])
        best = eligible[np.argsort(-vary, kind="stable")[:2]]
        return tuple(int(columns[i]) for i in np.sort(best))
    alone = np.array([_impurity(ranks[:, [i]], target) for i in eligible])
    first = eligible[np.argsort(alone, kind="stable")[:CANDIDATES]]
    pair = min(combinations(np.sort(first).tolist(), 2), key=lambda p: _impurity(ranks[:, list(p)], target))
    return tuple(int(columns[i]) for i in pair)


def _impurity(ranks: Floats, target: Bools) -> float:
    """Return the impurity of a small tree, both groups with equal weight."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=5, class_weight="balanced", random_state=0)
    inside = tree.fit(ranks, target).tree_
    leaves = inside.children_left < 0
    share = inside.weighted_n_node_samples[leaves] / inside.weighted_n_node_samples[0]
    return float(share @ inside.impurity[leaves])

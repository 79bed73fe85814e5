"""The members of a committee: a forest's own trees, or bootstrap fits of any classifier; and what they say of rows together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints
from observal.problem.rows import Features, Rows, single_precision

COMMITTEE_ROWS = 4096  # of which all members are asked at once
MARGIN_VARIANCE = 1e-12  # of a margin in [−1, 1]; if all members agree, rows are ordered by their margin

Shares = Callable[[Features], Floats]
"""From rows to what each member of a committee says of them: members × rows × classes."""


def resampled(weights: Floats, y: NDArray[Any], rng: np.random.Generator) -> Ints:
    """Return a bootstrap sample of positions, drawn in proportion to the weights, that keeps every class of `y`.

    A class of which no row was drawn keeps its heaviest row. Rows of weight 0 are never drawn.

    Examples
    --------
    >>> import numpy as np
    >>> drawn = resampled(np.array([1.0, 1.0, 0.0, 1e-9]), np.array([0, 0, 0, 1]), np.random.default_rng(0))
    >>> set(drawn.tolist()) <= {0, 1, 3}, 3 in drawn
    (True, True)
    """
    counts = rng.multinomial(weights.size, weights / weights.sum())
    for one in np.unique(y[weights > 0.0]):
        of_class = np.flatnonzero(y == one)
        if not counts[of_class].any():
            counts[of_class[np.argmax(weights[of_class])]] = 1
    return np.repeat(np.arange(weights.size), counts)


def shares_of_trees(fit: Any, least: int) -> Shares | None:
    """Return what each tree of a forest says of rows; None for what is no forest, or has fewer trees than `least`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(10, random_state=0).fit([[0.0], [1.0]], ["a", "b"])
    >>> shares_of_trees(forest, 8)(np.array([[0.2], [0.9], [0.3]])).shape
    (10, 3, 2)
    >>> shares_of_trees(forest, 50) is None
    True
    """
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.pipeline import Pipeline

    prepare = fit[:-1].transform if isinstance(fit, Pipeline) and len(fit) > 1 else None
    forest = fit[-1] if isinstance(fit, Pipeline) else fit
    if not isinstance(forest, ExtraTreesClassifier | RandomForestClassifier) or len(forest.estimators_) < least:
        return None

    def shares(rows: Features) -> Floats:
        made = single_precision(rows if prepare is None else prepare(rows))
        return np.stack([tree.predict_proba(made, check_input=False) for tree in forest.estimators_])

    return shares


def unseen_by_trees(fit: Any, n_rows: int) -> Bools | None:
    """Return which of the rows that a forest was fitted on each of its trees has not seen: trees × rows.

    None where a row has fewer than two such trees: no forest, or one whose trees see every row.
    """
    from sklearn.pipeline import Pipeline

    forest = fit[-1] if isinstance(fit, Pipeline) else fit
    if not getattr(forest, "bootstrap", False) or not hasattr(forest, "estimators_samples_"):
        return None
    unseen = np.ones((len(forest.estimators_), n_rows), dtype=bool)
    for of_tree, seen in zip(unseen, forest.estimators_samples_, strict=True):
        of_tree[seen] = False
    return unseen if unseen.sum(axis=0).min() >= 2 else None


def gaps_of(shares: Shares, X: Rows, unseen: Bools | None = None) -> Floats:
    """Return M²/(2·V) of all rows, a block at a time: what the members say of all of them may not fit into memory.

    With `unseen` (members × rows) each row is judged by the members that it marks.
    """
    blocks = [np.arange(a, min(a + COMMITTEE_ROWS, len(X))) for a in range(0, len(X), COMMITTEE_ROWS)]
    margins = [
        margins_of(shares(X.select(block).for_estimator()), True if unseen is None else unseen[:, block])
        for block in blocks
    ]
    return certainty(np.concatenate(margins, axis=1), True if unseen is None else unseen)


def averaged(own: Any, members: list[Any], X: Rows) -> Any:
    """Return a classifier whose probabilities are half `own`'s and half the mean of the members'.

    `own` saw every row but follows each of them closely; the members' mean is smoother, but each member saw only two thirds of
    the rows. If `own` has no probabilities, it is returned as it is. `X` holds at least one row per class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from observal.problem.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> own, low, high = (DecisionTreeClassifier().fit(X, y) for y in ([0, 0, 1], [0, 1, 1], [0, 1, 1]))
    >>> averaged(own, [low, high], as_rows(X)).predict_proba(X)[:, 1].tolist()
    [0.0, 0.5, 1.0]
    """
    from sklearn.ensemble import VotingClassifier
    from sklearn.frozen import FrozenEstimator

    if not hasattr(own, "predict_proba"):
        return own
    names = ["own", *(f"member {1 + k}" for k in range(len(members)))]
    voters = [(name, FrozenEstimator(fit)) for name, fit in zip(names, [own, *members], strict=True)]
    vote = VotingClassifier(voters, voting="soft", weights=[len(members), *(1 for _ in members)])
    vote.fit(
        X.select(np.arange(own.classes_.size)).for_estimator(), own.classes_
    )  # the voters are fitted: this only tells it the classes
    if hasattr(own, "feature_names_in_"):
        vote.feature_names_in_ = own.feature_names_in_
    return vote


def margins_of(shares: Floats, judges: Bools | bool = True) -> Floats:
    """Return, for each member and row, the chance of the committee's class minus that of its strongest rival.

    Parameters
    ----------
    shares : array of shape (members, rows, classes)
        The chance that each member gives each class.
    judges : bool array of shape (members, rows), optional
        The members that make up each row's committee; all by default.
    """
    _, n_rows, n_classes = shares.shape
    best = shares.mean(axis=0, where=np.asarray(judges)[..., None]).argmax(axis=1)
    of_best = shares[:, np.arange(n_rows), best]
    return np.asarray(of_best - np.where(np.arange(n_classes) == best[:, None], -np.inf, shares).max(axis=2))


def certainty(margins: Floats, judges: Bools | bool = True) -> Floats:
    """Return M²/(2·V) of each row, M being the mean and V the variance of its margin over the members, or over its `judges`.

    Examples
    --------
    >>> import numpy as np
    >>> agreed, split = [[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]]
    >>> certainty(margins_of(np.stack([agreed, split], axis=1))).round(2).tolist()
    [2.72, 0.01]
    """
    n_members = np.broadcast_to(judges, margins.shape).sum(axis=0)
    mean, variance = margins.mean(axis=0, where=judges), margins.var(axis=0, where=judges)
    variance = (n_members * variance + variance.mean()) / (n_members + 1)
    return np.asarray(np.maximum(mean, 0.0) ** 2 / (2.0 * np.maximum(variance, MARGIN_VARIANCE)))


def class_shares(fit: Any, X: Features) -> Floats:
    """Return the probability of each class, or 1 for the class that is predicted."""
    if hasattr(fit, "predict_proba"):
        return np.asarray(fit.predict_proba(X), dtype=np.float64)
    return np.asarray(fit.predict(X)[:, None] == fit.classes_, dtype=np.float64)

"""A world as the peers want it, and the models that several of them share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.checks import Floats, Ints
from observal.problem.labels import encode_labels
from observal.problem.problem import Problem
from observal_research.datasets import World

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

STRENGTHS = tuple(float(c) for c in np.logspace(-3, 3, 7))
"""The grid of scikit-learn's C, the inverse of the ridge."""
REFRESH = 50
"""C is chosen anew whenever so many more labels are bought."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class PeerData:
    """A world as the peers want it: log and pool stacked, the log first; labels 0, 1, and so on."""

    world: World

    @cached_property
    def X(self) -> Floats:
        """Features of log and pool."""
        return np.asarray(Problem(self.world.logged, self.world.pool).stack().to_matrix())

    @cached_property
    def known(self) -> Floats:
        """Labels, NaN where the log does not reveal them."""
        logged = self.world.logged
        return np.concatenate([np.where(logged.revealed, logged.codes, np.nan), np.full(len(self.world.pool), np.nan)])

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.world.logged.classes)

    @cached_property
    def pool(self) -> Ints:
        """Positions of the pool's rows in the stack."""
        return np.arange(len(self.world.logged), len(self.X))

    @cached_property
    def answers(self) -> Ints:
        """The label of each pool row."""
        return encode_labels(self.world.oracle(self.world.pool.ids), self.world.logged.classes, "A label of the pool")

    @cached_property
    def test(self) -> Ints:
        """The label of each test row."""
        return encode_labels(self.world.y_test, self.world.logged.classes, "A label of the test")

    def error(self, model: BaseEstimator) -> float:
        """Return the share of test rows that a fitted model gets wrong."""
        return float(np.mean(np.asarray(model.predict(self.world.X_test)).ravel() != self.test))


def logistic(C: float) -> Any:
    """Return the logistic regression of all peers: ridge 1/C, an intercept."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C, max_iter=1000)


def boosted_trees(random_state: int) -> Any:
    """Return scikit-learn's boosted trees with its defaults, but never stopped early."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=100, early_stopping=False, random_state=random_state)


def choose_strength(X: Floats, y: Ints, seed: int) -> float:
    """Return the C of `STRENGTHS` with the least cross-validated log loss.

    Classes with fewer labels than folds are left out of the choice; where fewer than two classes are left, C is 1.
    """
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold

    counts = np.bincount(y.astype(np.int64), minlength=2)
    if int((counts >= FOLDS).sum()) < 2:
        return 1.0
    frequent = counts[y.astype(np.int64)] >= FOLDS
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    X, y, losses = X[frequent], y[frequent], np.zeros(len(STRENGTHS))
    for train, left_out in folds.split(X, y):
        model = logistic(1.0).set_params(warm_start=True)  # each C starts from the last one's coefficients
        for i, strength in enumerate(STRENGTHS):
            model.set_params(C=strength).fit(X[train], y[train])
            losses[i] += log_loss(y[left_out], model.predict_proba(X[left_out]), labels=model.classes_)
    return STRENGTHS[int(losses.argmin())]

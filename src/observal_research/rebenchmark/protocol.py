"""The protocol of a public re-benchmark of pool-based active learning (Lu et al.), table by table and seed by seed.

A table's rows are shuffled and split 60/40 into training and test rows. Twenty training rows have labels; the others are
bought one at a time until none is left, and the model is scored on the test rows after each. The score, AUBC, is the
trapezoid sum of these accuracies over the number of purchases.

Published runs fit on labelled rows *in the order of the training rows*, not in the order of purchase; solvers that stop early
depend on it, so the same is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.methods.draw import sample_systematically
from observal.problem.data import LoggedData, Pool
from observal.problem.method import Method
from observal_research.datasets.fitting import moments

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

FIRST = 20
"""Labels at the start."""
TRAIN_SHARE = 0.6
STEEPNESS, SEEN, FLOOR = 4.0, 0.3, 0.005
"""Of the old scorecard, as in ``observal_research.datasets.Scorecard``."""


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of one seed.

    Parameters
    ----------
    X, X_test : arrays
        Features, standardised by the training rows.
    y, y_test : int arrays
        Classes 0 and 1.
    first : bool array
        Which training rows have a label at the start.
    propensity : array
        The chance of each training row to be one of those.
    """

    X: Floats
    y: Ints
    X_test: Floats
    y_test: Ints
    first: Bools
    propensity: Floats


@lru_cache(maxsize=8)
def load(folder: str | Path, table: str) -> tuple[Floats, Ints]:
    """Return features and classes 0 and 1 of a table, rows in their original order."""
    from observal_research.datasets import load_npz

    data = load_npz(table, folder)
    return np.asarray(data.X, dtype=np.float64), np.asarray(data.y == data.classes[1], dtype=np.int64)


def split_rows(X: Floats, y: Ints, seed: int) -> Split:
    """Return the protocol's split: the first twenty of the shuffled training rows have labels.

    Examples
    --------
    >>> split = split_rows(np.arange(100.0)[:, None], np.arange(100) % 2, seed=0)
    >>> len(split.y), len(split.y_test), int(split.first.sum())
    (60, 40, 20)
    """
    from sklearn.preprocessing import StandardScaler

    order = np.arange(len(y))
    np.random.default_rng(seed).shuffle(order)
    train, test = order[: int(TRAIN_SHARE * len(y))].copy(), order[int(TRAIN_SHARE * len(y)) :]
    np.random.default_rng(seed).shuffle(train)  # a fresh generator with the same seed, as published
    scaler = StandardScaler().fit(X[train])
    first = np.arange(train.size) < FIRST
    chance = np.full(train.size, FIRST / train.size)
    return Split(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test], first, chance)


def by_scorecard(split: Split, seed: int) -> Split:
    """Return the split with the twenty first labels drawn by an old scorecard in place of at random.

    The scorecard reads a random half of the features. It adds them up, each with the sign of its correlation with the class
    in a random tenth of the training rows (twenty at least), a history that no contestant is given. With z the sum, standardised
    over the training rows, and q the value that 30 % of them exceed, a row's chance is in proportion to
    max(0.005, 1 / (1 + exp(−4·(z − q)))); all chances add up to twenty. Exactly these chances are used to draw, and are known.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> split = by_scorecard(split_rows(X, (X[:, 0] > 0).astype(int), 1), seed=1)
    >>> int(split.first.sum()), round(float(split.propensity.sum()), 6)
    (20, 20.0)
    """
    rng = np.random.default_rng([seed, FIRST])
    n_rows, n_features = split.X.shape
    half = rng.choice(n_features, size=max(1, n_features // 2), replace=False)
    history = rng.choice(n_rows, size=min(n_rows, max(FIRST, n_rows // 10)), replace=False)
    about = split.y[history] - split.y[history].mean()
    signs = np.where(about @ split.X[np.ix_(history, half)] < 0.0, -1.0, 1.0)
    total = split.X[:, half] @ signs
    centre, spread = moments(total[:, np.newaxis])
    z = (total - centre) / spread
    relative = np.maximum(FLOOR, 1.0 / (1.0 + np.exp(-STEEPNESS * (z - np.quantile(z, 1.0 - SEEN)))))
    chance = in_proportion(relative, FIRST)
    first = np.zeros(n_rows, dtype=bool)
    first[sample_systematically(chance, rng)] = True
    return replace(split, first=first, propensity=chance)


def in_proportion(relative: Floats, total: int) -> Floats:
    """Return chances in proportion to `relative` that add up to `total`; what would be above 1 is 1.

    Examples
    --------
    >>> in_proportion(np.array([8.0, 1.0, 1.0]), 2).tolist()
    [1.0, 0.5, 0.5]
    """
    sure = np.zeros(relative.size, dtype=bool)
    while True:
        chance = np.where(sure, 1.0, relative * (total - sure.sum()) / relative[~sure].sum())
        if (chance <= 1.0).all():
            return chance
        sure |= chance > 1.0


def aubc(accuracies: Sequence[float] | Floats) -> float:
    """Return the trapezoid sum of the accuracies after each purchase, over the number of purchases.

    Examples
    --------
    >>> aubc([0.5, 1.0])
    0.375
    """
    return float(np.trapezoid(accuracies) / len(accuracies))


# -- models that choose and score -------------------------------------------------------------------------------------


def _svm(seed: int) -> Any:
    from sklearn.svm import SVC

    return SVC(kernel="rbf", gamma="auto", C=1)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=seed, n_jobs=1)


def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(tol=1e-8, max_iter=5000)  # scikit-learn's default, solved to the end


MODELS: dict[str, Callable[[int], Any]] = {"rbf_svm": _svm, "forest": _forest, "logistic": _logistic}
"""The published scorers; the forest's seed was not published."""


def fit(model: str, split: Split, have: Bools, seed: int) -> BaseEstimator | None:
    """Return the model fitted on the labelled rows, in the order of the training rows; None where they show one class."""
    if np.unique(split.y[have]).size < 2:
        return None
    return MODELS[model](seed).fit(split.X[have], split.y[have])


def accuracy(model: BaseEstimator | None, split: Split, have: Bools) -> float:
    """Return the share of test rows that are right; of a model that is not there, the labelled rows' one class."""
    predictions = split.y[have][0] if model is None else model.predict(split.X_test)
    return float(np.mean(predictions == split.y_test))


def margin_run(split: Split, model: str, seed: int) -> list[float]:
    """Return the accuracies of margin sampling, one model both choosing and scoring.

    The row with the smallest |decision function| (for a forest |p − ½|) is bought, the first in training order where equal.
    While all labels are of one class, rows are bought in training order.
    """
    have, out = split.first.copy(), []
    fitted = fit(model, split, have, seed)
    while not have.all():
        pool = np.flatnonzero(~have)
        have[pool[int(np.argmin(_distance(fitted, split.X[pool])))]] = True
        fitted = fit(model, split, have, seed)
        out.append(accuracy(fitted, split, have))
    return out


def _distance(model: BaseEstimator | None, X: Floats) -> Floats:
    from sklearn.ensemble import RandomForestClassifier

    if model is None:
        return np.zeros(len(X))
    is_forest = isinstance(model, RandomForestClassifier)
    signed = model.predict_proba(X)[:, 1] - 0.5 if is_forest else model.decision_function(X)
    return np.abs(np.asarray(signed, dtype=np.float64))


# -- ours -------------------------------------------------------------------------------------------------------------


class OurRun(NamedTuple):
    """The order in which a method of ours bought the pool, and the accuracy of its own model after each purchase."""

    order: Ints
    accuracies: list[float]


def our_run(split: Split, method: Method, seed: int) -> OurRun:
    """Run a method of ours on the split until the pool is used up or it stops.

    All training rows are the log, of which it sees twenty labels, with the chance that each row had; the pool is the others.
    After each purchase the model of the latest finished round is scored: while a round is under way that is the model before
    it. When the method stops early its last model is held, and the rest of the pool comes last, in training order.
    """
    from observal.session import Session

    labels = np.where(split.first, split.y.astype(np.float64), np.nan)
    pool = np.flatnonzero(~split.first)
    session = Session(
        LoggedData(split.X, labels, split.propensity, classes=(0.0, 1.0)),
        Pool(split.X[pool], split.propensity[pool], ids=pool),
        method,
        pool.size,
        random_state=seed,
        tolerance=None,
    )
    order: list[int] = []
    while (query := session.ask()) is not None:
        ids = np.asarray(query.ids).astype(np.int64)
        session.tell(query.ids, split.y[ids].astype(np.float64))
        order += ids.tolist()
    scored = {round_.labels: round_.estimator.score(split.X_test, split.y_test) for round_ in session.rounds}
    accuracies, now = [], scored[0]
    for bought in range(1, pool.size + 1):
        now = scored.get(bought, now)
        accuracies.append(float(now))
    rest = np.setdiff1d(pool, order)
    return OurRun(np.concatenate([np.array(order, dtype=np.int64), rest]), accuracies)


def score_order(split: Split, order: Ints, model: str, seed: int) -> list[float]:
    """Return the accuracies of a published scorer on rows that another model chose, after each purchase."""
    have, out = split.first.copy(), []
    for row in order:
        have[row] = True
        out.append(accuracy(fit(model, split, have, seed), split, have))
    return out

"""Active learning of other libraries on the same data, through their public interfaces, and the error with all labels.

Every peer trains on the log's revealed labels and on those it has bought, without weights, and can ask only about pool rows.
No peer sees a test label: the ridge of a logistic regression, and the number of passes of Vowpal Wabbit, are chosen by
cross-validation on labels that the peer has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.checks import Floats, Ints, encode_labels
from observal.datasets import Simulation
from observal.experiments.curves import Curve

STRENGTHS = tuple(float(c) for c in np.logspace(-3, 3, 7))
"""The grid of scikit-learn's C, the inverse of the ridge."""
REFRESH = 50
"""C is chosen again after this many more labels."""
FOLDS = 5
VW_PASSES = (1, 3, 10)
"""Numbers of passes over the log's labels, to choose from on a hold-out part of the log."""
VW_CURVE_STEP = 10
"""Labels from one point of Vowpal Wabbit's curve to the next."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The data as the peers need them: log and pool stacked, the log first; labels 0 and 1."""

    world: Simulation

    @cached_property
    def X(self) -> Floats:
        """Features of log and pool."""
        return np.vstack([self.world.logged.X, self.world.pool.X])

    @cached_property
    def known(self) -> Floats:
        """Labels, NaN where the log does not reveal them."""
        logged = self.world.logged
        return np.concatenate([np.where(logged.revealed, logged.codes, np.nan), np.full(len(self.world.pool), np.nan)])

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

    def error(self, model: Any) -> float:
        """Return the share of test rows that a fitted model gets wrong."""
        return float(np.mean(np.asarray(model.predict(self.world.X_test)) != self.test))


def logistic(C: float) -> Any:
    """Return the logistic regression of all peers: ridge 1/C, an intercept."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C, max_iter=1000)


def boosted_trees(random_state: int) -> Any:
    """Return the boosted trees of all contestants: scikit-learn's defaults, without early stopping."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=100, early_stopping=False, random_state=random_state)


def choose_strength(X: Floats, y: Ints, seed: int) -> float:
    """Return the C of `STRENGTHS` with the smallest cross-validated log loss; 1 if a class has too few labels."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    if y.size == 0 or np.bincount(y.astype(np.int64), minlength=2).min() < FOLDS:
        return 1.0
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    search = GridSearchCV(logistic(1.0), {"C": STRENGTHS}, scoring="neg_log_loss", cv=folds, refit=False)
    return float(search.fit(X, y).best_params_["C"])


def all_labels_error(world: Simulation, log_labels: NDArray[Any], seed: int, trees: bool = False) -> float:
    """Return the test error of the model family when it is given every label of log and pool.

    Parameters
    ----------
    world : Simulation
        Log, pool and test.
    log_labels : array
        All labels of the log, hidden ones included.
    seed : int
        Seed of the folds and the trees.
    trees : bool
        Boosted trees instead of logistic regression.
    """
    rows = Rows(world)
    logged = encode_labels(log_labels, world.logged.classes, "A label of the log")
    y = np.concatenate([logged, rows.answers])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = boosted_trees(seed) if trees else logistic(choose_strength(rows.X, y, seed))
        return rows.error(model.fit(rows.X, y))


# -- scikit-activeml --------------------------------------------------------------------------------------------------

Ask = Callable[[Rows, Floats, Ints, int, Any], Ints]
"""From rows, labels, candidates, batch size and the fitted classifier to the positions of the rows to ask about."""


def _margin(seed: int) -> Ask:
    from skactiveml.pool import UncertaintySampling

    strategy = UncertaintySampling(method="margin_sampling", random_state=seed)

    def ask(rows: Rows, y: Floats, candidates: Ints, batch: int, model: Any) -> Ints:
        chosen: Ints = strategy.query(rows.X, y, model, fit_clf=False, candidates=candidates, batch_size=batch)
        return chosen

    return ask


def _discriminative(seed: int) -> Ask:
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import DiscriminativeAL

    strategy, judge = DiscriminativeAL(random_state=seed), SklearnClassifier(logistic(1.0), random_state=seed)

    def ask(rows: Rows, y: Floats, candidates: Ints, batch: int, model: Any) -> Ints:
        chosen: Ints = strategy.query(rows.X, y, judge, candidates=candidates, batch_size=batch)
        return chosen

    return ask


def _by_name(name: str) -> Callable[[int], Ask]:
    def make(seed: int) -> Ask:
        from skactiveml import pool

        strategy = getattr(pool, name)(random_state=seed)

        def ask(rows: Rows, y: Floats, candidates: Ints, batch: int, model: Any) -> Ints:
            chosen: Ints = strategy.query(rows.X, y, candidates=candidates, batch_size=batch)
            return chosen

        return ask

    return make


@dataclass(frozen=True)
class ActiveML:
    """A strategy of scikit-activeml around a scikit-learn classifier.

    Parameters
    ----------
    strategy : callable
        From a seed to the function that asks.
    trees : bool
        Boosted trees instead of logistic regression.
    """

    strategy: Callable[[int], Ask]
    trees: bool = False
    package: str = "skactiveml"

    def run(self, world: Simulation, label_budget: int, batch: int, seed: int) -> Curve:
        """Buy labels in batches and return the test error after each."""
        from skactiveml.classifier import SklearnClassifier

        rows, ask = Rows(world), self.strategy(seed % 2**31)
        y, labels, errors = rows.known.copy(), [0], []
        model: Any = boosted_trees(seed) if self.trees else logistic(1.0)
        while True:
            have = ~np.isnan(y)
            if not self.trees and labels[-1] % REFRESH < batch:
                model = logistic(choose_strength(rows.X[have], y[have].astype(np.int64), seed))
            fitted = SklearnClassifier(model, classes=[0, 1], random_state=seed % 2**31).fit(rows.X, y)
            errors.append(rows.error(fitted))
            candidates = rows.pool[np.isnan(y[rows.pool])]
            size = min(batch, label_budget - labels[-1], candidates.size)
            if size <= 0:
                return Curve(labels, errors)
            chosen = ask(rows, y, candidates, size, fitted)
            y[chosen] = rows.answers[chosen - rows.pool[0]]
            labels.append(labels[-1] + len(chosen))


# -- Vowpal Wabbit ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VowpalWabbit:
    """Vowpal Wabbit's importance-weighted active learning: for each row it says whether to ask, and with which weight to learn.

    The pool is read once, in order, as a stream. Mellowness keeps its default, which asks about nearly every row: a smaller value
    could be chosen only by buying labels.
    """

    trees: bool = False
    package: str = "vowpalwabbit"

    def run(self, world: Simulation, label_budget: int, batch: int, seed: int) -> Curve:
        """Learn from the log, go through the pool row by row, and return the test error every few labels."""
        del batch  # a stream has none
        rows, rng = Rows(world), np.random.default_rng(seed)
        lines, test = [_features(x) for x in rows.X], [_features(x) for x in world.X_test]
        revealed = np.flatnonzero(~np.isnan(rows.known))
        log = [_example(int(rows.known[i]), 1.0, lines[i]) for i in revealed]
        signs = rows.known[revealed] == 1
        vw = self._trained(log, self._passes(log, signs, rng, seed), rng, seed)

        def error() -> float:
            return float(np.mean(_positive(vw, test) != (rows.test == 1)))

        labels, errors = [0], [error()]
        bought = 0
        for k, position in enumerate(rows.pool):
            if bought == label_budget:
                break
            weight = vw.predict(f"query?{lines[position]}")
            if weight > 0.0:
                vw.learn(_example(int(rows.answers[k]), weight, lines[position]))
                bought += 1
                if bought % VW_CURVE_STEP == 0:
                    labels.append(bought)
                    errors.append(error())
        vw.finish()
        return Curve(labels, errors)

    def _passes(self, log: list[str], signs: Any, rng: np.random.Generator, seed: int) -> int:
        """Return the number of passes that is best on a fifth of the log's labels, held out."""
        if len(log) < 2 * FOLDS:
            return VW_PASSES[0]
        order = rng.permutation(len(log))
        held, kept = order[: len(log) // FOLDS], [log[i] for i in order[len(log) // FOLDS :]]
        bare = [log[i][log[i].index("row|") + len("row") :] for i in held]
        errors = []
        for passes in VW_PASSES:
            vw = self._trained(kept, passes, rng, seed)
            errors.append(float(np.mean(_positive(vw, bare) != signs[held])))
            vw.finish()
        return VW_PASSES[int(np.argmin(errors))]

    def _trained(self, log: list[str], passes: int, rng: np.random.Generator, seed: int) -> Any:
        from vowpalwabbit import Workspace

        vw = Workspace(f"--active --direct --no_daemon --loss_function logistic --quiet --random_seed {seed % 2**31}")
        for _ in range(passes):
            for i in rng.permutation(len(log)):
                vw.learn(log[i])
        return vw


def _features(x: Floats) -> str:
    return "|x " + " ".join(f"{j}:{value:.7g}" for j, value in enumerate(x) if value != 0.0)


def _example(code: int, weight: float, features: str) -> str:
    # Every example has a tag: with --direct, version 9.11 reads past the end of an empty tag and crashes.
    return f"{2 * code - 1} {weight:.7g} row{features}"


def _positive(vw: Any, features: list[str]) -> Any:
    return np.array([vw.predict(f"row{line}") > 0.0 for line in features])


PEERS: dict[str, Any] = {
    "margin": ActiveML(_margin),
    "DiscriminativeAL": ActiveML(_discriminative),
    "CoreSet": ActiveML(_by_name("CoreSet")),
    "random": ActiveML(_by_name("RandomSampling")),
    "VW": VowpalWabbit(),
    "margin, trees": ActiveML(_margin, trees=True),
    "random, trees": ActiveML(_by_name("RandomSampling"), trees=True),
}
"""Every peer by name: strategies of scikit-activeml, and Vowpal Wabbit with its defaults."""


def installed_peers() -> Iterator[str]:
    """Yield the names of the peers whose library is installed (``pip install observal[bench]``)."""
    return (name for name, peer in PEERS.items() if find_spec(peer.package) is not None)


def run_peer(name: str, world: Simulation, label_budget: int, batch: int, seed: int) -> Curve:
    """Return the curve of the peer of that name in `PEERS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn about solvers that did not converge and folds with one class
        curve: Curve = PEERS[name].run(world, label_budget, batch, seed)
    return curve

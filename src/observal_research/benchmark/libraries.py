"""Active learning of other libraries on the same worlds, through their public interfaces.

Every peer trains on the log's revealed labels and on those it has bought, without weights, and may ask about pool rows
only. No peer sees a test label: the ridge of a logistic regression, and Vowpal Wabbit's passes over the log, are chosen
by cross-validation on labels that the peer has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.problem.rows import to_dense
from observal_research.benchmark.peer_data import FOLDS, REFRESH, PeerData, boosted_trees, choose_strength, logistic
from observal_research.curves import Curve
from observal_research.datasets import World

if TYPE_CHECKING:
    from skactiveml.classifier import SklearnClassifier
    from vowpalwabbit import Workspace

VW_PASSES = (1, 3, 10)
"""Passes over the log's labels, of which Vowpal Wabbit's own hold-out chooses."""
VW_CURVE_STEP = 10
"""Labels from one point of Vowpal Wabbit's curve to the next."""

# -- scikit-activeml --------------------------------------------------------------------------------------------------

Ask: TypeAlias = "Callable[[PeerData, Floats, Ints, int, SklearnClassifier], Ints]"
"""From rows, labels, candidates, batch size and the fitted classifier to the positions of the rows to ask about."""


def _margin(seed: int) -> Ask:
    from skactiveml.pool import UncertaintySampling

    strategy = UncertaintySampling(method="margin_sampling", random_state=seed)

    def ask(rows: PeerData, y: Floats, candidates: Ints, batch: int, model: SklearnClassifier) -> Ints:
        positions: Ints = strategy.query(rows.X, y, model, fit_clf=False, candidates=candidates, batch_size=batch)
        return positions

    return ask


def _discriminative(seed: int) -> Ask:
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import DiscriminativeAL

    strategy, judge = DiscriminativeAL(random_state=seed), SklearnClassifier(logistic(1.0), random_state=seed)

    def ask(rows: PeerData, y: Floats, candidates: Ints, batch: int, model: SklearnClassifier) -> Ints:
        positions: Ints = strategy.query(rows.X, y, judge, candidates=candidates, batch_size=batch)
        return positions

    return ask


def _by_name(name: str) -> Callable[[int], Ask]:
    def make(seed: int) -> Ask:
        from skactiveml import pool

        strategy = getattr(pool, name)(random_state=seed)

        def ask(rows: PeerData, y: Floats, candidates: Ints, batch: int, model: SklearnClassifier) -> Ints:
            positions: Ints = strategy.query(rows.X, y, candidates=candidates, batch_size=batch)
            return positions

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
        Boosted trees in place of logistic regression.
    """

    strategy: Callable[[int], Ask]
    trees: bool = False
    package: str = "skactiveml"
    two_classes: bool = False

    def run(self, world: World, label_budget: int, batch: int, seed: int) -> Curve:
        """Buy labels in batches and return the test error after each."""
        from skactiveml.classifier import SklearnClassifier

        rows, ask = PeerData(world), self.strategy(seed % 2**31)
        y, labels, errors = rows.known.copy(), [0], []
        model: Any = boosted_trees(seed) if self.trees else logistic(1.0)
        while True:
            have = ~np.isnan(y)
            if not self.trees and labels[-1] % REFRESH < batch:
                model = logistic(choose_strength(rows.X[have], y[have].astype(np.int64), seed))
            fitted = SklearnClassifier(model, classes=range(rows.classes), random_state=seed % 2**31).fit(rows.X, y)
            errors.append(rows.error(fitted))
            candidates = rows.pool[np.isnan(y[rows.pool])]
            size = min(batch, label_budget - labels[-1], candidates.size)
            if size <= 0:
                return Curve(labels, errors)
            positions = ask(rows, y, candidates, size, fitted)
            y[positions] = rows.answers[positions - rows.pool[0]]
            labels.append(labels[-1] + len(positions))


# -- Vowpal Wabbit ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VowpalWabbit:
    """Vowpal Wabbit's importance-weighted active learning, live: it says whether to ask, with which weight to learn.

    The pool is a stream, taken once in its order. Mellowness is left at its default, which asks about nearly every row:
    a smaller one would have to be chosen, and there is no way to choose it without buying labels.
    """

    trees: bool = False
    package: str = "vowpalwabbit"
    two_classes: bool = True

    def run(self, world: World, label_budget: int, batch: int, seed: int) -> Curve:
        """Learn the log, take the pool row by row, and return the test error every few labels."""
        del batch  # a stream has none
        rows, rng = PeerData(world), np.random.default_rng(seed)
        lines, test = [_features(x) for x in rows.X], [_features(x) for x in to_dense(world.X_test)]
        revealed = np.flatnonzero(~np.isnan(rows.known))
        log = [_example(int(rows.known[i]), 1.0, lines[i]) for i in revealed]
        signs = rows.known[revealed] == 1
        vw = self._train(log, self._passes(log, signs, rng, seed), rng, seed)

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

    def _passes(self, log: list[str], signs: Bools, rng: np.random.Generator, seed: int) -> int:
        """Return the number of passes that is best on a fifth of the log's labels, held out."""
        if len(log) < 2 * FOLDS:
            return VW_PASSES[0]
        order = rng.permutation(len(log))
        held_out, train = order[: len(log) // FOLDS], [log[i] for i in order[len(log) // FOLDS :]]
        features = [log[i][log[i].index("row|") + len("row") :] for i in held_out]
        errors = []
        for passes in VW_PASSES:
            vw = self._train(train, passes, rng, seed)
            errors.append(float(np.mean(_positive(vw, features) != signs[held_out])))
            vw.finish()
        return VW_PASSES[int(np.argmin(errors))]

    def _train(self, log: list[str], passes: int, rng: np.random.Generator, seed: int) -> Workspace:
        from vowpalwabbit import Workspace

        vw = Workspace(f"--active --direct --no_daemon --loss_function logistic --quiet --random_seed {seed % 2**31}")
        for _ in range(passes):
            for i in rng.permutation(len(log)):
                vw.learn(log[i])
        return vw


def _features(x: Floats) -> str:
    return "|x " + " ".join(f"{j}:{value:.7g}" for j, value in enumerate(x) if value != 0.0)


def _example(code: int, weight: float, features: str) -> str:
    # Every example has a tag: with --direct, version 9.11 reads beyond the end of an empty one and crashes.
    return f"{2 * code - 1} {weight:.7g} row{features}"


def _positive(vw: Workspace, features: list[str]) -> Bools:
    return np.array([vw.predict(f"row{line}") > 0.0 for line in features])


LIBRARY_PEERS: dict[str, Any] = {
    "scikit-activeml/margin": ActiveML(_margin),
    "scikit-activeml/DiscriminativeAL": ActiveML(_discriminative),
    "scikit-activeml/CoreSet": ActiveML(_by_name("CoreSet")),
    "scikit-activeml/random": ActiveML(_by_name("RandomSampling")),
    "scikit-activeml/margin-trees": ActiveML(_margin, trees=True),
    "scikit-activeml/random-trees": ActiveML(_by_name("RandomSampling"), trees=True),
    "VW": VowpalWabbit(),
}
"""scikit-activeml's strategies, and Vowpal Wabbit as it comes."""

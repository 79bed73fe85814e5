"""The peers: margin and random sampling with four model families, a few lines each, and those of other libraries by name.

Every peer trains on the log's revealed labels and on those it has bought, without weights, on one thread, and may ask
about pool rows only. No peer sees a test label.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.checks import Floats, Ints
from observal.problem.labels import encode_labels
from observal_research.benchmark.libraries import LIBRARY_PEERS
from observal_research.benchmark.peer_data import REFRESH, PeerData, choose_strength, logistic
from observal_research.curves import Curve
from observal_research.datasets import World

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def _forest(seed: int, strength: float) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(100, n_jobs=1, random_state=seed)


def _lightgbm(seed: int, strength: float) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=100, learning_rate=0.05, num_leaves=15, n_jobs=1, random_state=seed, deterministic=True, verbose=-1
    )


def _catboost(seed: int, strength: float) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=300, thread_count=1, random_seed=seed, verbose=False, allow_writing_files=False
    )


@dataclass(frozen=True)
class Family:
    """A model that peers are built around.

    Parameters
    ----------
    make : callable
        From a seed and a C to the model, not fitted.
    package : str
        What it needs.
    trees : bool
        Whether it is made of trees.
    tuned : bool
        Whether C is chosen by cross-validation.
    """

    make: Callable[[int, float], Any]
    package: str
    trees: bool = True
    tuned: bool = False


FAMILIES = {
    "logistic": Family(lambda _, strength: logistic(strength), "sklearn", trees=False, tuned=True),
    "forest": Family(_forest, "sklearn"),
    "LightGBM": Family(_lightgbm, "lightgbm"),
    "CatBoost": Family(_catboost, "catboost"),
}
"""Model families by name."""


def fit(family: Family, X: Floats, y: Ints, seed: int, strength: float) -> Any:
    """Return the family's model fitted on the labels; where they show one class or none, a model that always predicts one class."""
    from sklearn.dummy import DummyClassifier

    if np.unique(y).size < 2:
        only_class = y[:1] if y.size else np.zeros(1, dtype=np.int64)
        return DummyClassifier(strategy="most_frequent").fit(np.zeros((1, X.shape[1])), only_class)
    return family.make(seed % 2**31, strength).fit(X, y)


def margins(model: BaseEstimator, X: Floats) -> Floats:
    """Return how much likelier the likeliest class of each row is than the next; 0 for a model that knows one class."""
    chances = np.sort(np.asarray(model.predict_proba(X)), axis=1)
    return np.asarray(chances[:, -1] - chances[:, -2]) if chances.shape[1] > 1 else np.zeros(len(chances))


@dataclass(frozen=True)
class ByHand:
    """Margin or random sampling around a model family.

    Parameters
    ----------
    family : str
        A name in `FAMILIES`.
    margin : bool
        Ask about the rows with the smallest margins, the first in pool order where equal; else about random rows.
    """

    family: str
    margin: bool
    two_classes: bool = False

    @property
    def package(self) -> str:
        """What it needs."""
        return FAMILIES[self.family].package

    @property
    def trees(self) -> bool:
        """Whether the model is made of trees."""
        return FAMILIES[self.family].trees

    def run(self, world: World, label_budget: int, batch: int, seed: int) -> Curve:
        """Buy labels in batches and return the test error after each."""
        rows, family = PeerData(world), FAMILIES[self.family]
        shuffled = np.random.default_rng(seed).permutation(rows.pool)
        y, labels, errors, strength = rows.known.copy(), [0], [], 1.0
        while True:
            have = ~np.isnan(y)
            codes = y[have].astype(np.int64)
            if family.tuned and labels[-1] % REFRESH < batch:
                strength = choose_strength(rows.X[have], codes, seed)
            model = fit(family, rows.X[have], codes, seed, strength)
            errors.append(rows.error(model))
            order = rows.pool if self.margin else shuffled
            candidates = order[np.isnan(y[order])]
            size = min(batch, label_budget - labels[-1], candidates.size)
            if size <= 0:
                return Curve(labels, errors)
            if self.margin:
                candidates = candidates[np.argsort(margins(model, rows.X[candidates]), kind="stable")]
            batch_rows = candidates[:size]
            y[batch_rows] = rows.answers[batch_rows - rows.pool[0]]
            labels.append(labels[-1] + size)


DEFAULT_PEERS = tuple(f"{rule}/{family}" for family in FAMILIES for rule in ("margin", "random"))
PEERS: dict[str, Any] = {
    **{name: ByHand(name.split("/")[1], name.startswith("margin")) for name in DEFAULT_PEERS},
    **LIBRARY_PEERS,
}
"""Every peer by name."""


def installed_peers() -> Iterator[str]:
    """Yield the names of the peers whose library is installed (``pip install observal[bench]``)."""
    return (name for name, peer in PEERS.items() if find_spec(peer.package) is not None)


def run_peer(name: str, world: World, label_budget: int, batch: int, seed: int) -> Curve:
    """Return the curve of the peer of that name in `PEERS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # solvers that stop at their last step, folds of one class: theirs to say
        curve: Curve = PEERS[name].run(world, label_budget, batch, seed)
    return curve


def all_labels_error(world: World, family: str = "logistic") -> float:
    """Return the test error of a model family that is given every label of log and pool.

    Parameters
    ----------
    world : World
        Log, pool and test; its seed is that of the folds and the trees.
    family : str
        A name in `FAMILIES`.
    """
    rows = PeerData(world)
    logged = encode_labels(world.log_labels, world.logged.classes, "A label of the log")
    y = np.concatenate([logged, rows.answers])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strength = choose_strength(rows.X, y, world.seed) if FAMILIES[family].tuned else 1.0
        return rows.error(fit(FAMILIES[family], rows.X, y, world.seed, strength))

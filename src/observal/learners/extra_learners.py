"""Optional learners, each from a package of its own: CatBoost and TabICL."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.learners.blend_settings import CATBOOST, EXTRA_LEARNERS, TABICL
from observal.learners.labelled import LabelledRows, LearnerFit
from observal.learners.tree_learners import NEVER, TreeChances, fit_estimator, join_folds, select_weights

if TYPE_CHECKING:
    from observal.learners.population import Population

WEIGHTS_VARIABLE = "OBSERVAL_TABICL"
"""The environment variable with the path of TabICL's weights. Loading such a file may run code from it, so the path
is never read from a file, only from the person at this machine."""


def require_learners(learners: Sequence[Any]) -> None:
    """Reject named learners whose package or weights are not installed.

    Examples
    --------
    >>> require_learners(("linear", "boosted"))
    """
    for name in EXTRA_LEARNERS:
        if name in learners and find_spec(name) is None:
            raise InvalidInput(
                f"The learner {name!r} needs the package {name}; install it with pip install 'observal[{name}]'."
            )
    if "tabicl" in learners:
        _weights_path()


# -- CatBoost --------------------------------------------------------------------------------------------------------


def fit_catboost(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit | None:
    """Fit CatBoost and convert its trees to plain arrays; None if no fold leaves two classes."""
    require_learners(("catboost",))
    from catboost import CatBoostClassifier

    rows, parts = np.asarray(labelled.rows, dtype=np.float32), {}
    for fold, train, _ in labelled.splits():
        if not np.ptp(rows[train], axis=0).any():  # CatBoost rejects constant features
            continue
        classes, own = np.unique(labelled.codes[train], return_inverse=True)
        loss = "MultiClass" if classes.size > 2 else "Logloss"
        model = CatBoostClassifier(**CATBOOST, loss_function=loss, random_seed=fold)
        model.fit(rows[train], own, sample_weight=select_weights(labelled, train))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.json")
            model.save_model(path, format="json")
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        parts[fold] = from_catboost(content, classes, labelled.n_classes, rows.shape[1])
    return join_folds(parts, labelled)


def from_catboost(content: dict[str, Any], classes: Ints, n_classes: int, n_features: int) -> TreeChances:
    """Convert CatBoost's JSON model to arrays.

    All nodes of a level test the same split, and the outcomes are the bits of the leaf index, the first split
    being the lowest bit. Testing the last split first puts the leaves in order.

    `content` is the model as JSON, with numeric features. `classes` are the codes it was trained on; a binary
    model has one value per leaf.
    """
    trees = content["oblivious_trees"]
    width = 1 if classes.size == 2 else n_classes
    places = np.zeros(1, dtype=np.int64) if width == 1 else classes
    parts: list[tuple[Any, ...]] = []
    begin = 0
    for depth in sorted({len(tree["splits"]) for tree in trees}):
        some = [tree for tree in trees if len(tree["splits"]) == depth]
        n_inner, n_nodes = 2**depth - 1, 2 ** (depth + 1) - 1
        question = depth - 1 - np.floor(np.log2(np.arange(1, n_inner + 1))).astype(np.int64)
        feature, threshold = np.full((len(some), n_nodes), -1), np.zeros((len(some), n_nodes))
        value = np.zeros((len(some), n_nodes, width))
        if depth:
            asked = [tree["splits"] for tree in some]
            feature[:, :n_inner] = np.array([[s["float_feature_index"] for s in splits] for splits in asked])[
                :, question
            ]
            borders = np.array([[s["border"] for s in splits] for splits in asked], dtype=np.float32)
            threshold[:, :n_inner] = borders[:, question]
        leaves = np.array([tree["leaf_values"] for tree in some]).reshape(len(some), 2**depth, -1)
        value[:, n_inner:, places] = leaves
        roots = begin + n_nodes * np.arange(len(some))
        left = roots[:, None] + np.minimum(2 * np.arange(n_nodes) + 1, n_nodes - 1)
        right = roots[:, None] + np.minimum(2 * np.arange(n_nodes) + 2, n_nodes - 1)
        parts.append((roots, feature.ravel(), threshold.ravel(), left.ravel(), right.ravel(), value.reshape(-1, width)))
        begin += n_nodes * len(some)
    roots, feature, threshold, left, right, value = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    scale, bias = content["scale_and_bias"]
    start: Floats = np.full((1, n_classes), NEVER)
    start[0, classes] = 0.0
    start[0, classes[1:] if width == 1 else classes] += np.asarray(bias, dtype=np.float64).ravel()
    column = np.full(roots.size, classes[1] if width == 1 else 0)
    return TreeChances(roots, column, feature, threshold, left, right, scale * value, start, True, n_features)


# -- TabICL ----------------------------------------------------------------------------------------------------------


def fit_tabicl(population: Population, labelled: LabelledRows, tuned: tuple[float, ...] = ()) -> LearnerFit | None:
    """Give the labels, unweighted, to TabICL, which predicts from them without a fit and never downloads its model."""
    require_learners(("tabicl",))
    from tabicl import TabICLClassifier

    classifier = TabICLClassifier(**TABICL, model_path=_weights_path(), allow_auto_download=False)
    return fit_estimator(classifier, labelled._replace(weights=np.ones(labelled.codes.size)), slow=True)


def _weights_path() -> str:
    path = os.environ.get(WEIGHTS_VARIABLE, "")
    if not path or not Path(path).is_file():
        seen = f"it names {path!r}, which is no file" if path else "it is not set"
        raise InvalidInput(
            f"The learner 'tabicl' needs its weights in a local file that the environment variable {WEIGHTS_VARIABLE} names, but {seen}; download the "
            "weights yourself (docs/methods.md says how) and name them."
        )
    return path

"""Checks of a model from a file. scikit-learn follows a tree's node numbers without checking that they are inside the tree."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from observal.errors import NotPredictable
from observal.exchange.model_files.listed import own_classes
from observal.intervals.thresholds import ThresholdClassifier
from observal.journal.archive import Damaged

_MOST_FEATURES = 1 << 20


def make_tree(arguments: Any, state: Any) -> Any:
    """Return a tree with these numbers of features, classes and outputs, and these nodes, after checking them."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    n_features, n_classes, n_outputs = arguments
    nodes, values = state["nodes"], state["values"]
    sound = (
        isinstance(n_features, int | np.integer)
        and isinstance(n_outputs, int | np.integer)
        and n_classes.shape == (n_outputs,)
        and n_classes.dtype.kind == "i"
        and n_outputs >= 1
        and n_classes.min() >= 1
        and nodes.dtype == NODE_DTYPE
        and nodes.ndim == 1
        and values.shape == (len(nodes), n_outputs, n_classes.max())
        and state["node_count"] == len(nodes)
    )
    if not sound:
        raise Damaged("the parts of a tree do not match")
    inner = nodes["left_child"] != -1
    _check_links(inner, nodes["left_child"], nodes["right_child"], nodes["feature"], n_features)
    tree = Tree(n_features, n_classes, n_outputs)
    tree.__setstate__(state)
    return tree


def _check_links(inner: NDArray[Any], left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], n: int) -> None:
    """Refuse links that lead back or out of the tree, and features that do not exist."""
    here = np.flatnonzero(inner)
    for link in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if inner.size == 0 or (link <= here).any() or (link >= inner.size).any():
            raise Damaged("a tree has a link to a node that is not below it")
    if here.size and not (feature[inner].min() >= 0 and feature[inner].max() < n):
        raise Damaged("a tree reads a feature that does not exist")


def check_estimator(estimator: Any) -> None:
    """Refuse an estimator of scikit-learn whose trees do not match it."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.ensemble._gb import BaseGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.tree import BaseDecisionTree

    if not isinstance(estimator, BaseDecisionTree | BaseForest | BaseGradientBoosting | BaseHistGradientBoosting):
        return
    state = vars(estimator)
    n_features = state.get("n_features_in_")
    if not state.keys() & {"tree_", "estimators_", "_predictors"}:
        return  # not fitted: the template of an ensemble
    if isinstance(estimator, BaseDecisionTree):
        fits = state["tree_"].n_features == n_features
    elif isinstance(estimator, BaseHistGradientBoosting):
        fits = _boosted_fits(state, n_features)
    else:
        members = np.asarray(state["estimators_"], dtype=object)
        fits = all(isinstance(m, BaseDecisionTree) and vars(m)["n_features_in_"] == n_features for m in members.flat)
        if isinstance(estimator, BaseGradientBoosting):
            fits = fits and members.ndim == 2 and _starts_right(state, members.shape[1])
    if not fits:
        raise Damaged("the trees of an estimator do not match it")


def _starts_right(state: dict[str, Any], n_trees: int) -> bool:
    """Return whether boosting starts from as many numbers for each row as it has trees in an iteration."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    first = state["init_"]
    if n_trees != state["n_trees_per_iteration_"]:
        return False
    if isinstance(first, str):
        return first == "zero"
    if n_trees == 1:
        return isinstance(first, DummyClassifier | DummyRegressor)
    return isinstance(first, DummyClassifier) and first.n_classes_ == n_trees == len(first.class_prior_)


def _boosted_fits(state: dict[str, Any], n_features: Any) -> bool:
    """Return whether the trees of histogram boosting are valid; categories are refused, because their tables are not checked."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    categorical = vars(state["_bin_mapper"])["is_categorical_"]
    if state["_preprocessor"] is not None or categorical.shape != (n_features,) or categorical.any():
        raise Damaged("boosted trees with categorical features cannot be checked")
    for predictor in (one for iteration in state["_predictors"] for one in iteration):
        nodes = predictor.nodes
        if nodes.dtype != PREDICTOR_RECORD_DTYPE or nodes.ndim != 1 or nodes["is_categorical"].any():
            return False
        inner = nodes["is_leaf"] == 0
        _check_links(inner, nodes["left"], nodes["right"], nodes["feature_idx"], n_features)
    return True


def check_model(model: Any) -> None:
    """Refuse anything that is not a pipeline ending in a campaign's classifier, or that cannot predict.

    A classifier of observal must predict a row. A classifier of scikit-learn checks its own parts when it predicts.
    """
    from sklearn.pipeline import Pipeline

    from observal.exchange.model_files.estimator import CampaignClassifier
    from observal.tables import TableEncoder, TableTransformer

    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    if not steps or not isinstance(steps[-1], CampaignClassifier) or len(steps) > 2:
        raise Damaged("it does not contain a campaign's classifier")
    classifier = steps[-1].classifier
    for step in steps[:-1]:
        if not (isinstance(step, TableTransformer) and isinstance(step.encoder, TableEncoder)):
            raise Damaged("it has a step that observal never writes")
        _ = step.encoder.names
    if isinstance(classifier, ThresholdClassifier):
        inner = classifier.estimator
        sound = type(inner) in own_classes().values() and callable(getattr(inner, "predict_proba", None))
        if not sound or isinstance(inner, ThresholdClassifier) or not isinstance(classifier.threshold, float):
            raise Damaged("its threshold belongs to no classifier")
    classes = classifier.classes_
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or not callable(classifier.predict):
        raise Damaged("its classifier has no classes")
    if type(classifier) in own_classes().values():
        with suppress(NotPredictable):  # a classifier given by its predictions knows only its own rows
            predicted = classifier.predict(np.ones((1, _n_features(classifier))))
            if predicted.shape != (1,) or predicted[0] not in classes.tolist():
                raise Damaged("its classifier predicts a value that is not one of its classes")


def _n_features(classifier: Any) -> int:
    """Return how many features a classifier of observal takes; one of a finite class takes any larger number too."""
    if isinstance(classifier, ThresholdClassifier):
        return _n_features(classifier.estimator)
    if hasattr(classifier, "members"):  # a blend, which has checked its parts itself
        return int(classifier.n_features)
    if hasattr(classifier, "feature_map"):
        _check_features(classifier)
        return int(classifier.feature_map.mean.size)
    if hasattr(classifier, "coef_"):
        return int(classifier.coef_.shape[1])
    feature = getattr(getattr(classifier, "member", None), "feature", 1)
    if not 0 <= feature < _MOST_FEATURES:
        raise Damaged(f"its classifier reads feature {feature}")
    return max(2, feature + 1)


def _check_features(classifier: Any) -> None:
    """Refuse features that do not match each other or the weights, before memory is allocated for them."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.preprocessing import SplineTransformer

    features = classifier.feature_map
    columns = (features.mean, features.scale, features.low, features.high)
    n = features.mean.size
    for made in features.transformers:
        if not isinstance(made, RBFSampler | SplineTransformer):
            raise Damaged(f"its features come from a {type(made).__name__}")
        n += made.random_weights_.shape[1] if isinstance(made, RBFSampler) else made.n_features_out_
    if any(column.shape != features.mean.shape for column in columns) or classifier.coef_.shape != (1, n):
        raise Damaged("its features and weights do not match")

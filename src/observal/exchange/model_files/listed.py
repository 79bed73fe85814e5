"""The classes that a model file may name. A name is looked up here and never imported."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

SCALARS = {
    name: getattr(np, name)
    for name in (
        *("bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "longlong"),
        *("ulonglong", "float16", "float32", "float64", "longdouble", "str_", "bytes_"),
    )
}
PLAIN_TYPES: dict[str, Any] = {
    **{f"builtins.{kind.__name__}": kind for kind in (int, float, str, bool)},
    **{f"numpy.{name}": kind for name, kind in SCALARS.items()},
}


def full_name(kind: type[Any]) -> str:
    """Return a class's module and name.

    Examples
    --------
    >>> full_name(int)
    'builtins.int'
    """
    return f"{kind.__module__}.{kind.__name__}"


@cache
def own_classes() -> dict[str, type[Any]]:
    """Return the classes of observal that a model may contain, by full name."""
    from observal.exchange.model_files.estimator import CampaignClassifier
    from observal.intervals.thresholds import ThresholdClassifier
    from observal.learners.additive import AdditiveChances
    from observal.learners.bagged import FoldMean
    from observal.learners.blend import Blend
    from observal.learners.features import FeatureMap
    from observal.learners.kernel import KernelChances, LinearChances
    from observal.learners.population import Space
    from observal.learners.trees import TreeChances
    from observal.methods.committee import ConstantClassifier
    from observal.methods.newton import NewtonClassifier
    from observal.paper import hypotheses as h
    from observal.paper.exact import FiniteClassifier
    from observal.paper.linear import LinearClassifier
    from observal.tables import ColumnRule, TableEncoder, TableTransformer

    members = (h.Constant, h.HalfPlane, h.KnownPredictions, h.Rectangle, h.TangentHalfPlane, h.Threshold)
    classifiers = (CampaignClassifier, ConstantClassifier, FiniteClassifier, LinearClassifier, NewtonClassifier)
    chosen = (ThresholdClassifier,)
    blended = (AdditiveChances, Blend, FoldMean, KernelChances, LinearChances, Space, TreeChances)
    kinds: tuple[type[Any], ...] = (
        *members,
        *classifiers,
        *blended,
        *chosen,
        FeatureMap,
        ColumnRule,
        TableEncoder,
        TableTransformer,
    )
    return {full_name(kind): kind for kind in kinds}


@cache
def sklearn_classes() -> dict[str, type[Any]]:
    """Return the classes of scikit-learn that a fitted classifier may contain, by full name.

    Support vector machines are left out, because their C code uses numbers from the file to address memory. Outlier detectors and
    clusterings are left out, because they are not classifiers.
    """
    import sklearn._loss.link as links
    import sklearn._loss.loss as losses
    from sklearn.calibration import _CalibratedClassifier, _SigmoidCalibration
    from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.neural_network import _stochastic_optimizers as optimizers
    from sklearn.svm._base import BaseLibSVM
    from sklearn.utils import all_estimators

    found = [kind for _, kind in all_estimators(["classifier", "regressor", "transformer"])]
    found = [kind for kind in found if kind.__module__.startswith("sklearn.") and not issubclass(kind, BaseLibSVM)]
    for module in (links, losses):
        found += [k for k in vars(module).values() if isinstance(k, type) and k.__module__ == module.__name__]
    found += [_CalibratedClassifier, _SigmoidCalibration, _BinMapper, TreePredictor]
    found += [optimizers.AdamOptimizer, optimizers.SGDOptimizer, *_pipelines()]
    return {full_name(kind): kind for kind in found}


def _pipelines() -> list[type[Any]]:
    """Return the classes that only combine or wrap other estimators."""
    from sklearn.compose import ColumnTransformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import FeatureUnion, Pipeline

    return [ColumnTransformer, FeatureUnion, FrozenEstimator, Pipeline]


@cache
def loss_classes() -> dict[str, type[Any]]:
    """Return scikit-learn's compiled losses, by full name; boosting and stochastic gradient descent store one."""
    import sklearn._loss._loss as compiled
    import sklearn.linear_model._sgd_fast as stochastic

    names = {
        compiled: [name for name in vars(compiled) if name.startswith("Cy")],
        stochastic: ["EpsilonInsensitive", "Hinge", "ModifiedHuber", "SquaredEpsilonInsensitive", "SquaredHinge"],
    }
    return {f"{module.__name__}.{name}": getattr(module, name) for module, some in names.items() for name in some}

"""One fit for each fold left out: their mean predicts, and every labelled row has a fit that has not seen it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.learners.blend_settings import BOOSTED, BOOSTED_ROUNDS, CATEGORIES, TREES_PER_FOLD
from observal.learners.calibration import best_sharpness, sharpen
from observal.learners.labelled import Fitted, Labelled
from observal.learners.population import Population
from observal.learners.trees import TreeChances, from_lightgbm

FITTED_BY_LIGHTGBM = {"verbose": -1, "deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 0}


# -- the learners -----------------------------------------------------------------------------------------------


def fit_forest(population: Population, labelled: Labelled, tuned: tuple[float, ...] = ()) -> Fitted | None:
    """Fit extremely randomised trees; None where no fold leaves two classes."""
    rows = np.asarray(labelled.rows, dtype=np.float32)
    parts = {
        fold: grow_forest(rows[kept], labelled.codes[kept], labelled.weights[kept], labelled.n_classes, fold)
        for fold, kept, _ in labelled.splits()
    }
    return _joined(parts, labelled)


def grow_forest(rows: Any, codes: Ints, weights: Floats, n_classes: int, seed: int) -> TreeChances:
    """Return extremely randomised trees, each of which tries the root of the number of features at a node.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(200, 2)).astype(np.float32)
    >>> y = (X[:, 0] > X[:, 1]).astype(np.int64)
    >>> chances = grow_forest(X[:150], y[:150], np.ones(150), 2, seed=0)(X[150:])
    >>> bool((chances.argmax(axis=1) == y[150:]).mean() > 0.9)
    True
    """
    from observal.learners.kernels.forest import grow_trees  # lazy: numba is slow to import

    n_tried = max(1, int(np.sqrt(rows.shape[1])))
    grown = grow_trees(rows, codes, weights, n_classes, TREES_PER_FOLD, n_tried, seed)
    roots, feature, threshold, left, right, value = grown
    first, start = np.zeros(roots.size, dtype=np.int32), np.zeros((1, n_classes))
    return TreeChances(roots, first, feature, threshold, left, right, value, start, False, rows.shape[1])


def fit_boosted(population: Population, labelled: Labelled, tuned: tuple[float, ...] = ()) -> Fitted | None:
    """Fit LightGBM; None where no fold leaves two classes."""
    import lightgbm

    view, parts = population.view, {}
    rows = np.asarray(labelled.rows, dtype=np.float32) if view is None else view(labelled.dense)
    native = {} if view is None else CATEGORIES
    for fold, kept, _ in labelled.splits():
        classes, own = np.unique(labelled.codes[kept], return_inverse=True)
        several = (
            {"objective": "multiclass", "num_class": classes.size} if classes.size > 2 else {"objective": "binary"}
        )
        named: Any = "auto" if view is None else view.categories
        data = lightgbm.Dataset(rows[kept], own, weight=_weights(labelled, kept), categorical_feature=named)
        booster = lightgbm.train(
            {**BOOSTED, **FITTED_BY_LIGHTGBM, **native, **several}, data, BOOSTED_ROUNDS, keep_training_booster=True
        )
        parts[fold] = from_lightgbm(
            booster.model_to_string(), classes, labelled.n_classes, labelled.rows.shape[1], view
        )
    return _joined(parts, labelled)


def _weights(labelled: Labelled, which: Bools) -> Floats | None:
    return None if np.ptp(labelled.weights) == 0.0 else labelled.weights[which]


def _joined(parts: Mapping[int, TreeChances], labelled: Labelled) -> Fitted | None:
    """Return the mean of each fold's trees, as sure as the rows that they have not seen say."""
    if not parts:
        return None
    rows, out_of_fold = np.asarray(labelled.rows, dtype=np.float32), labelled.undecided()
    for fold, part in parts.items():
        held = labelled.folds == fold
        out_of_fold[held] = part(rows[held])
    sharpness = best_sharpness(out_of_fold, labelled.codes, labelled.weights)
    return Fitted(
        replace(TreeChances.joined(list(parts.values())), sharpness=sharpness), sharpen(out_of_fold, sharpness)
    )


# -- estimators of the user -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FoldMean:
    """The mean of scikit-learn classifiers that were fitted on class codes, each without a fold.

    Parameters
    ----------
    fits : tuple
        The classifiers.
    n_features, n_classes : int
        How many there are.
    """

    fits: tuple[Any, ...]
    n_features: int
    n_classes: int

    @property
    def shape(self) -> tuple[int, int]:
        """Features and classes."""
        return self.n_features, self.n_classes

    def __call__(self, Z: Any) -> Floats:
        """Return the chance of each class for standardised rows."""
        out = np.zeros((Z.shape[0], self.n_classes))
        for fit in self.fits:
            out[:, np.asarray(fit.classes_).astype(np.int64)] += fit.predict_proba(Z)
        return out / len(self.fits)


def fit_estimator(estimator: Any, labelled: Labelled) -> Fitted | None:
    """Fit clones of a scikit-learn classifier on standardised rows; None where no fold leaves two classes."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    out_of_fold = labelled.undecided()
    shape = labelled.rows.shape[1], labelled.n_classes
    fits = []
    for fold, kept, held in labelled.splits():
        fit = clone(estimator)
        unseeded = [name for name, value in fit.get_params().items() if name.endswith("random_state") and value is None]
        fit.set_params(**dict.fromkeys(unseeded, fold))
        weighted = np.ptp(labelled.weights) > 0.0 and has_fit_parameter(fit, "sample_weight")
        fit.fit(
            labelled.rows[kept],
            labelled.codes[kept],
            **({"sample_weight": labelled.weights[kept]} if weighted else {}),
        )
        fits.append(fit)
        out_of_fold[held] = FoldMean((fit,), *shape)(labelled.rows[held])
    return Fitted(FoldMean(tuple(fits), *shape), out_of_fold) if fits else None

"""The blend as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from observal.checks import Floats
from observal.learners.blend import check_learners, fit_blend
from observal.learners.blend_settings import LEARNERS
from observal.learners.population import Population
from observal.problem.rows import Features


class BlendClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A blend of a linear, an additive and a kernel model, a forest and boosted trees.

    Learners are weighted by their out-of-fold performance and tune themselves. Meant for tens to thousands of
    labels.

    Parameters
    ----------
    learners : sequence
        Any of "linear", "additive", "kernel", "forest" and "boosted", or pairs of another name and a
        scikit-learn classifier with ``predict_proba``, which gets standardised rows. Sparse rows always use
        the linear learner alone.

    Attributes
    ----------
    classes_ : array
        The label values.
    blend_ : Blend
        The fitted blend.
    weights_ : dict
        Each learner's weight, by name; they sum to 1. Learners with hardly any weight are dropped.
    out_of_fold_ : array of shape (rows, classes)
        Out-of-fold probabilities of the training rows. Only the blend's weights have seen their labels.
    n_features_in_ : int
        Features seen in `fit`.

    Notes
    -----
    The linear learner is logistic regression, refitted near its boundary, or ridge regression for three
    classes or more. The additive learner is piecewise linear in each feature. The kernel learner is ridge
    regression on a Gaussian kernel with 200 landmarks. The forest has 100 extremely randomised trees. The
    boosted trees are LightGBM's. Learners are fitted in parallel, each with a fixed seed and one thread, so
    the same rows give the same model.

    Examples
    --------
    >>> import observal as ob
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ob.BlendClassifier().fit(X[::3], y[::3], population=X)
    >>> model.score(X, y) > 0.93
    True
    >>> round(sum(model.weights_.values()), 6)
    1.0
    """

    def __init__(self, learners: Sequence[Any] = LEARNERS) -> None:
        self.learners = learners

    def fit(
        self,
        X: Features,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        population: Features | None = None,
    ) -> Self:
        """Fit on labelled rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, features)
            Finite.
        y : array of shape (rows,)
            Two classes or more of any type; with one, that one is always predicted.
        sample_weight : array of shape (rows,), optional
            The weight of each row; equal by default. Rows of weight 0 are dropped.
        population : array or sparse matrix of shape (any, features), optional
            Rows, labelled or not, from which scales, ranks and landmarks are computed; `X` by default.
        """
        check_learners(self.learners)
        rows, labels = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(labels)
        weights = np.asarray(_check_sample_weight(sample_weight, rows, ensure_non_negative=True), dtype=np.float64)
        all_rows = rows
        if population is not None:
            all_rows = validate_data(self, population, accept_sparse="csr", dtype=np.float64, reset=False)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.blend_, self.out_of_fold_, _ = fit_blend(
            Population.of(all_rows), rows, codes, weights, self.classes_, self.learners
        )
        self.weights_ = dict(zip(self.blend_.names, self.blend_.theta.tolist(), strict=True))
        return self

    def predict_proba(self, X: Features) -> Floats:
        """Return class probabilities."""
        check_is_fitted(self)
        return self.blend_.predict_proba(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

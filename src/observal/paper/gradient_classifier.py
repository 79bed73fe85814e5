"""A linear classifier trained by importance-aware online gradient descent, for scikit-learn."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from observal.checks import Floats, check_number, check_whole
from observal.errors import InvalidLabel
from observal.problem.labels import encode_labels
from observal.problem.rows import Features, Matrix, is_sparse, with_constant

RandomState = int | np.random.RandomState | np.random.Generator | None


class GradientClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear classifier under squared loss, trained by importance-aware online gradient descent.

    With p = clamp(w·x, −1, 1), a row x with label y = ±1 and weight v moves the weights by

    ``w ← w − (1 − exp(−v·s_t·x·x))/(x·x) · 2(p − y)·x`` with s_t = sqrt(η/(η + t)),

    where the time t grows by v just before the step (the practical algorithms in the appendix "Experiments" of the
    paper). A large weight therefore moves the prediction far, but never without bound, as v plain steps would.

    Parameters
    ----------
    learning_rate : float, default=1.0
        η: the larger, the slower the steps shrink.
    passes : int, default=3
        Passes over one random order of the rows, in `fit` and in each call of `partial_fit`.
    clip : float, default=inf
        Rows whose sample weight is above it are skipped.
    second_moment : float, default=0.0
        c of the second-moment regulariser: s_t is multiplied by 1 + √c·v·loss/√Σ(v·loss)². 0 leaves it out.
    exact_invariance : bool, default=False
        Take the step (1 − exp(−2v·s_t·x·x)) / (2x·x) instead, with which one row of weight 2 and two steps of
        weight 1 agree at a fixed s_t.
    fit_intercept : bool, default=True
        Append a constant column to the features.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the orders. An int gives the same weights, bit for bit, in every run.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        The weights w.
    intercept_ : array of shape (1,)
        The weight of the constant column; 0 without one.
    classes_ : array of shape (2,)
        The class labels; the second is the positive one.
    time_ : float
        T: passes × rows, summed over all calls so far.
    n_features_in_ : int
        Number of features seen in `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from observal import GradientClassifier
    >>> X = np.array([[-2.0, 0.5], [-1.0, -0.5], [1.0, 0.5], [2.0, -0.5]])
    >>> model = GradientClassifier(random_state=0).fit(X, ["no", "no", "yes", "yes"], sample_weight=[1, 2, 2, 1])
    >>> model.predict([[-3.0, 0.0], [3.0, 0.0]]).tolist()
    ['no', 'yes']
    """

    coef_: Floats
    intercept_: Floats
    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        learning_rate: float = 1.0,
        passes: int = 3,
        clip: float = inf,
        second_moment: float = 0.0,
        exact_invariance: bool = False,
        fit_intercept: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.passes = passes
        self.clip = clip
        self.second_moment = second_moment
        self.exact_invariance = exact_invariance
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Features, y: ArrayLike, sample_weight: ArrayLike | None = None) -> GradientClassifier:
        """Train from zero weights on the rows, `passes` times over one random order."""
        return self._train(X, y, sample_weight, classes=None, fresh=True)

    def partial_fit(
        self, X: Features, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> GradientClassifier:
        """Train one more epoch, on these rows, from the last weights and at the time reached so far.

        `classes` names both classes, and is needed in the first call only, where `y` does not show both.
        """
        return self._train(X, y, sample_weight, classes, fresh="coef_" not in vars(self))

    def decision_function(self, X: Features) -> Floats:
        """Return w·x plus the intercept for each row; positive values mean the second class."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores: Floats = np.asarray(X @ self.coef_[0]).ravel() + self.intercept_[0]
        return scores

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class label for each row."""
        positive = self.decision_function(X) > 0.0
        labels: NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def _train(
        self, X: Features, y: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None, *, fresh: bool
    ) -> GradientClassifier:
        from observal.paper.kernels.gradient import descend  # lazy: numba is slow to import

        self._check_parameters()
        rows, labels = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=fresh
        )
        check_classification_targets(labels)
        weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        if fresh:
            self.classes_ = _two_classes(labels, classes)
            self.time_ = 0.0
            self._rng = _generator(self.random_state)
            start = np.zeros(rows.shape[1] + bool(self.fit_intercept))
        else:
            _check_same_classes(self.classes_, classes)
            start = np.append(self.coef_[0], self.intercept_) if self.fit_intercept else self.coef_[0]
        signs = 2.0 * encode_labels(labels, self.classes_, "A label") - 1.0
        n_rows = rows.shape[0]
        coef = descend(
            _canonical(with_constant(rows) if self.fit_intercept else rows),
            signs,
            weights,
            self._rng.permutation(n_rows),
            start,
            learning_rate=self.learning_rate,
            time=self.time_,
            passes=self.passes,
            clip=self.clip,
            second_moment=self.second_moment,
            exact_invariance=self.exact_invariance,
        )
        self.time_ += float(self.passes * n_rows)
        self.coef_ = coef[np.newaxis, : rows.shape[1]].copy()
        self.intercept_ = coef[-1:].copy() if self.fit_intercept else np.zeros(1)
        return self

    def _check_parameters(self) -> None:
        check_number(self.learning_rate, "learning_rate", 0.0, open_low=True)
        check_whole(self.passes, "passes", 1)
        check_number(self.clip, "clip", 0.0, open_low=True, infinite=True, fix="infinity clips nothing")
        check_number(self.second_moment, "second_moment", 0.0, fix="0 leaves the regulariser out")


def _two_classes(y: NDArray[Any], classes: ArrayLike | None) -> NDArray[Any]:
    """Return the two class labels in order, from `classes` or from what `y` shows."""
    values = np.unique(y if classes is None else np.asarray(classes))
    if len(values) > 2:  # the first sentence is the one that scikit-learn's checks look for
        kind = type_of_target(values)
        raise InvalidLabel(
            f"Only binary classification is supported. The type of the target is {kind}. "
            f"There are {len(values)} classes; merge them into two."
        )
    if len(values) < 2:
        raise InvalidLabel(
            f"A classifier needs two classes, but the labels show one class only, {values.tolist()}; "
            "give rows of both, or name both classes in partial_fit with classes=."
        )
    return values


def _check_same_classes(fitted: NDArray[Any], classes: ArrayLike | None) -> None:
    if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), fitted):
        raise InvalidLabel(
            f"classes must stay the same in every call of partial_fit, but were {fitted.tolist()} and are now "
            f"{np.asarray(classes).tolist()}; leave them out after the first call."
        )


def _generator(random_state: RandomState) -> np.random.Generator:
    """Return a Generator for any kind of seed that scikit-learn accepts."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def _canonical(X: Matrix) -> Matrix:
    """Return X; if it is sparse, with each column at most once in a row, as the kernel needs it."""
    if is_sparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X

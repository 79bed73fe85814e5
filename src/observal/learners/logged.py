"""A linear classifier fitted on the log alone: clipped importance weights and a regulariser (the paper's section 4)."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from observal.checks import Bools, Floats, check_number, check_possible, check_propensity
from observal.errors import InvalidInput, InvalidLabel
from observal.learners.newton_fit import Loss, Regulariser, make_objective, solve
from observal.paper.risk import clipped
from observal.paper.weights import passive_clip_threshold, plain_importance
from observal.problem.labels import distinct_labels, encode_labels, missing_mask
from observal.problem.rows import Features, Matrix

_CONFIDENCE_LOST = 0.05  # δ of the automatic log term
_PENALTY_SHARE = 0.1  # automatic λ divided by the log term; the class's Notes say why it is not 4


def _is_logistic(estimator: LoggedClassifier) -> bool:
    if estimator.loss != "logistic":
        raise AttributeError("predict_proba needs loss='logistic'; other losses do not estimate probabilities.")
    return True


class LoggedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""A linear classifier fitted on selectively revealed labels, corrected by importance weights.

    With m rows in the log, revealed or not, the fit minimises

    ``(1/m)·Σ a_i·φ(y_i·(x_i·w + b)) + sqrt(λ/m · V̂) + ridge/2·|w|²``,  a_i = Z_i·1{1/Q0(x_i) ≤ M}/Q0(x_i),

    where Z_i says whether the label was revealed, M is the clip, and V̂ is the second moment (1/m)·Σ (a_i·φ_i)²
    of the weighted losses, or their variance, or 0. Rows without a label enter through m and the clip.

    Parameters
    ----------
    loss : {"logistic", "squared"}
        φ(z) = log(1 + exp(−z)) or (1 − z)².
    regulariser : {"second_moment", "variance", None}
        The second moment is the paper's and keeps the problem convex. The variance gives counterfactual risk
        minimisation (sample variance penalisation): the descent then starts from the second moment's solution
        and ends in a stationary point.
    penalty : "auto" or float
        λ. "auto" is 0.1·`log_term`, a practical value. The paper's 4·log(\|H\|/δ) is for losses within [0,
        1]; a surrogate loss is unbounded, so a few heavy misclassified rows can dominate the fit (see Notes).
    clip : "auto", None or float
        M. "auto" is the paper's M0 = inf{M ≥ 1 : 2·M·log(\|H\|/δ)/m ≥ P(1/Q0 > M)}, over the propensities of
        all rows. None turns clipping off.
    log_term : "auto" or float
        Replaces log(\|H\|/δ), which is infinite for linear classifiers: a capacity to choose, like C in the
        paper's own experiments. "auto" is log((features + 1)/0.05).
    ridge : float
        Shrinks w, not the intercept, to 0. It depends on the features' units: standardise them first.
    fit_intercept : bool
        Whether to fit b.
    max_iter, tol
        See ``observal.learners.newton_fit.solve``.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The second is the positive class.
    coef_ : array of shape (1, features)
        w.
    intercept_ : array of shape (1,)
        b.
    n_features_in_ : int
        Features seen in `fit`.
    clip_, log_term_, penalty_ : float
        The values used.
    n_clipped_ : int
        Revealed rows that are clipped.
    effective_sample_size_ : float
        (Σ a)² / Σ a²: how many equally weighted labels would be as informative.
    objective_ : float
        The minimum found.
    hessian_ : array
        The Hessian there, the intercept last.
    n_iter_ : int
        Newton steps.

    Notes
    -----
    If M0 is below all weights of a class, say because every propensity is tiny, no classifier can be
    fitted on what is left. The clip is then raised, with a warning, to the value that keeps both classes and
    has the largest effective sample size. A clip given as a number is not raised: that is an error.

    The automatic penalty and the ridge were chosen by importance-weighted cross-validation on revealed labels
    (weights clipped at M0, so blind to what is clipped): ten real sets under certainty, uncertainty and
    scorecard logging, 1,000 to 4,000 standardised rows, five values of λ and four ridges, not in all
    combinations. Against no regulariser at this ridge, the paper's λ = 4·log_term raised the error by 0.22,
    0.77 and 0.31 points in three runs on different rows, and λ = 0.1·log_term by 0.03 and 0.11 in the two
    that had it (standard errors 0.05 to 0.15). No λ was better than none: the default is small so as to cost
    little, and the paper's guarantee, which needs its own λ, does not cover it.

    A sample weight of k counts a row k times, so m is the sum of the weights.

    Examples
    --------
    The log shows mostly rows with a large first feature; labels follow the second.

    >>> import numpy as np
    >>> from observal.learners.logged import LoggedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> propensity = np.clip(X[:, 0] ** 2 / 4, 0.01, 1.0)
    >>> y = np.where(rng.random(2000) < propensity, X[:, 1] > 0, np.nan)
    >>> model = LoggedClassifier().fit(X, y, propensity=propensity)
    >>> model.score(X, X[:, 1] > 0) > 0.95
    True
    >>> model.clip_ < 100, model.n_clipped_ > 0
    (True, True)
    """

    def __init__(
        self,
        loss: Loss = "logistic",
        regulariser: Regulariser | None = "second_moment",
        *,
        penalty: float | Literal["auto"] = "auto",
        clip: float | Literal["auto"] | None = "auto",
        log_term: float | Literal["auto"] = "auto",
        ridge: float = 1e-2,
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-10,
    ) -> None:
        self.loss = loss
        self.regulariser = regulariser
        self.penalty = penalty
        self.clip = clip
        self.log_term = log_term
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def fit(
        self, X: Features, y: ArrayLike, propensity: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit on a log.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, features)
            All logged rows, revealed or not; finite.
        y : array of shape (rows,)
            Two classes of any type; NaN or None where the label was not revealed.
        propensity : array of shape (rows,) or one number, optional
            Q0(x), the probability that the old policy revealed each row's label; 1 by default.
        sample_weight : array of shape (rows,), optional
            How often each row counts; once by default.
        """
        if y is None:
            raise InvalidInput(
                f"{type(self).__name__} requires y to be passed, but the target y is None; "
                "give the labels, with NaN where one was not revealed."
            )
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        labels = column_or_1d(y, warn=True)
        n_rows = rows.shape[0]
        if labels.shape != (n_rows,):
            raise InvalidInput(
                f"The log needs one label for each of its {n_rows} rows (NaN where not revealed), but got {labels.size}."
            )
        chance = check_propensity(1.0 if propensity is None else propensity, n_rows, "The log")
        counts = _check_counts(sample_weight, n_rows)
        present = counts > 0.0
        if not present.all():  # rows of sample weight 0 are not in the log
            rows, labels, chance, counts = rows[present], labels[present], chance[present], counts[present]
        revealed = ~missing_mask(labels)
        check_possible(revealed, chance)
        revealed_labels = _check_labels(labels[revealed])
        self.classes_ = distinct_labels(revealed_labels)
        signs = np.zeros(labels.size)
        signs[revealed] = 2.0 * encode_labels(revealed_labels, self.classes_, "A label of the log") - 1.0
        self._weigh_and_solve(rows, signs, chance, counts)
        return self

    def _weigh_and_solve(self, X: Matrix, signs: Floats, chance: Floats, counts: Floats) -> None:
        total = float(counts.sum())
        automatic = float(np.log((X.shape[1] + 1) / _CONFIDENCE_LOST))
        log_term = check_number(self.log_term, "log_term", 0.0, open_low=True, word="auto")
        penalty = check_number(self.penalty, "penalty", 0.0, word="auto")
        self.log_term_ = automatic if log_term == "auto" else float(log_term)
        self.penalty_ = _PENALTY_SHARE * self.log_term_ if penalty == "auto" else float(penalty)
        importance = plain_importance(chance)
        self.clip_ = self._choose_clip(importance, signs, chance, counts)
        weights = clipped(importance, self.clip_, signs != 0.0)
        self.n_clipped_ = int(np.count_nonzero(signs) - np.count_nonzero(weights))
        self.effective_sample_size_ = float(counts @ weights) ** 2 / float(counts @ weights**2)
        objective = make_objective(
            X,
            signs,
            weights,
            counts=counts,
            n_rows=total,
            loss=self.loss,
            regulariser=self.regulariser,
            penalty=self.penalty_,
            ridge=self.ridge,
            fit_intercept=self.fit_intercept,
        )
        fit = solve(objective, max_iter=self.max_iter, tol=self.tol)
        if not fit.converged:
            warnings.warn(
                f"LoggedClassifier stopped after {fit.n_iter} steps without reaching tol={self.tol}; "
                "standardise the features, or raise ridge or max_iter.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.coef_ = fit.coef[None, :]
        self.intercept_ = np.array([fit.intercept])
        self.objective_ = fit.objective
        self.hessian_ = fit.hessian
        self.n_iter_ = fit.n_iter

    def _choose_clip(self, importance: Floats, signs: Floats, chance: Floats, counts: Floats) -> float:
        if self.clip is None:
            return float(np.inf)
        lightest = max(float(importance[signs == sign].min()) for sign in (-1.0, 1.0))
        clip = check_number(self.clip, "clip", 0.0, open_low=True, infinite=True, word="auto")
        if clip != "auto":
            clip = float(clip)
            if clip < lightest:
                raise InvalidInput(
                    f"The clip of {clip:g} leaves one class only, because a class has no weight below {lightest:g}; "
                    "raise it, or use clip='auto'."
                )
            return clip
        # Only the log term divided by m matters: m, a sum of sample weights, need not be whole.
        total = float(counts.sum())
        clip = passive_clip_threshold(chance, n_logged=1, log_term=self.log_term_ / total, mass=counts / total)
        if clip >= lightest:
            return clip
        raised = _most_effective_clip(importance, counts, signs != 0.0, lightest)
        warnings.warn(
            f"The log is too small for its propensities: M0 = {clip:.4g} would leave one class only, so the clip is "
            f"raised to {raised:.4g}; treat the classifier with care, or buy labels.",
            UserWarning,
            stacklevel=4,
        )
        return raised

    def decision_function(self, X: Features) -> Floats:
        """Return x·w + b for each row."""
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(rows @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        positive = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    @available_if(_is_logistic)  # type: ignore[untyped-decorator,unused-ignore]
    def predict_proba(self, X: Features) -> Floats:
        """Return class probabilities; only with the logistic loss."""
        scores = self.decision_function(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def _check_counts(sample_weight: ArrayLike | None, n_rows: int) -> Floats:
    if sample_weight is None:
        return np.ones(n_rows)
    counts = np.asarray(sample_weight, dtype=np.float64)
    if counts.ndim == 0:
        counts = np.full(n_rows, float(counts))
    if counts.shape != (n_rows,) or not np.isfinite(counts).all() or (counts < 0.0).any():
        raise InvalidInput(
            f"sample_weight must be one finite number ≥ 0 for each of the {n_rows} rows, but has shape {counts.shape} "
            f"and values from {counts.min(initial=np.inf):g} to {counts.max(initial=-np.inf):g}."
        )
    if not counts.any():
        raise InvalidInput("A log needs rows, but every sample_weight is zero; give some a weight above 0.")
    return counts


def _check_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the revealed labels, as numbers if all are; raise unless they have two classes."""
    if labels.size == 0:
        raise InvalidLabel("The log must reveal labels of two classes, but every label is NaN or None; buy some first.")
    if labels.dtype.kind == "O":
        tight = np.array(labels.tolist())
        labels = tight if tight.ndim == 1 and tight.dtype.kind in "biuf" else labels
    check_classification_targets(labels)
    classes = distinct_labels(labels).tolist()
    if len(classes) > 2:
        raise InvalidLabel(
            f"Only binary classification is supported. The log shows {len(classes)} classes; merge them into two."
        )
    if len(classes) < 2:
        raise InvalidLabel(
            f"A classifier needs two classes, but the log reveals one class, {classes[0]!r}; "
            "buy labels of the other one first."
        )
    return labels


def _most_effective_clip(importance: Floats, counts: Floats, revealed: Bools, lightest: float) -> float:
    """Return the clip ≥ `lightest` with the largest effective sample size (Σ a)²/Σ a² of the rows it keeps."""
    order = np.argsort(importance[revealed], kind="stable")
    weights, times = importance[revealed][order], counts[revealed][order]
    effective = np.cumsum(times * weights) ** 2 / np.cumsum(times * weights**2)
    # Rows of equal weight are kept or clipped together, so only the last of each matters.
    last = np.append(weights[1:] > weights[:-1], True)
    eligible = np.where(last & (weights >= lightest), effective, -np.inf)
    return float(weights[np.argmax(eligible)])

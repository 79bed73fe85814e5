"""Propensities: the probability that a row's label was revealed, Q0(x) in the paper.

Given by column (``known``), by the policy itself (``from_policy``), or estimated from which rows were revealed
(``estimate``); combined for several logs (``mixture_propensity``); raised to a floor, with a warning
(``apply_floor``). Logs that kept only their labelled rows are completed by ``observal.diagnosis.complete_log``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import (
    Bools,
    Floats,
    Ints,
    check_number,
    check_propensity,
    check_range,
    check_whole,
    frozen,
    sealed,
)
from observal.diagnosis.complete_log import CompletedLog, LoggedRows, complete_log, count_logged_rows
from observal.errors import InvalidInput, InvalidPropensity, ObservalWarning
from observal.learners.folds import sklearn_folds
from observal.problem.data import LoggedData
from observal.problem.rows import Features, Matrix, Rows, count_rows, is_sparse, read_rows
from observal.threads import one_thread

__all__ = [
    "CompletedLog",
    "EstimatedPropensity",
    "FlooredPropensities",
    "LoggedRows",
    "apply_floor",
    "calibration_error",
    "complete_log",
    "count_logged_rows",
    "estimate",
    "from_policy",
    "known",
    "mixture_propensity",
]

_MODELS = {"logistic": "logistic regression", "boosting": "boosted trees"}
# Policies are mostly simple: trees of 4 leaves had a mean error of 0.05, trees of 15 leaves 0.06 (32 logs of
# 1,500 rows, development tables).
_BOOSTING = {"max_iter": 100, "learning_rate": 0.05, "max_leaf_nodes": 4, "min_samples_leaf": 40}
_CONSTANT = "one chance for all rows"
_MAX_TRAINING_ROWS = 50_000  # more rows hardly improve a propensity and take minutes
_INNER_FOLDS = 3
_BY_CHANCE = 0.001  # a log is taken to hold labelled rows only if chance explains that less often than this

Predictor = Callable[[Any], Floats]


# -- propensities that are known ------------------------------------------------------------------------------------


def known(values: ArrayLike, n_rows: int | None = None) -> Floats:
    """Validate recorded propensities and return them: one number in [0, 1] per row.

    A propensity is the probability that a row's label was revealed.

    Parameters
    ----------
    values : array of shape (rows,) or one number
        A single number applies to every row, and then `n_rows` must be given.
    n_rows : int, optional
        The number of rows.

    Examples
    --------
    >>> from observal.diagnosis.propensity import known
    >>> known([0.2, 1.0]).tolist(), known(0.5, n_rows=2).tolist()
    ([0.2, 1.0], [0.5, 0.5])
    """
    if n_rows is None:
        if np.ndim(values) != 1:
            raise InvalidPropensity(
                f"Propensities must be one number per row, but got shape {np.shape(values)}; give `n_rows` if one "
                "number counts for every row."
            )
        n_rows = len(np.asarray(values))
    return check_propensity(values, n_rows, "The table")


@runtime_checkable
class PolicyModel(Protocol):
    """A fitted classifier of whether a row's label was revealed."""

    def predict_proba(self, X: Any, /) -> ArrayLike:
        """Return class probabilities."""


Policy = Callable[[Any], ArrayLike] | PolicyModel
"""What revealed a log's labels: a function from rows to probabilities, or a classifier."""


def from_policy(policy: Policy, X: Features, revealed: object = None) -> Floats:
    """Return the propensity of each row from the policy that revealed the labels.

    Parameters
    ----------
    policy : callable or scikit-learn classifier
        A function from rows to the probability that each row's label was revealed, or a fitted classifier of
        that with ``predict_proba``.
    X : array or sparse matrix of shape (rows, features)
        The rows.
    revealed : object, optional
        The class of the classifier that means "revealed"; True or 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.diagnosis.propensity import from_policy
    >>> from_policy(lambda X: np.where(X[:, 0] > 0, 0.9, 0.1), np.array([[1.0], [-1.0]])).tolist()
    [0.9, 0.1]
    """
    n_rows = count_rows(X)
    if isinstance(policy, PolicyModel):
        column = _revealed_column(policy, True if revealed is None else revealed)
        return check_propensity(np.asarray(policy.predict_proba(X))[:, column], n_rows, "The policy's answer")
    if not callable(policy):
        raise InvalidInput(
            f"A policy must be a function of the rows or a classifier with predict_proba, but got {type(policy).__name__}; "
            "give one that returns the chance that a row's label was revealed."
        )
    return check_propensity(policy(X), n_rows, "The policy's answer")


def _revealed_column(classifier: PolicyModel, revealed: object) -> int:
    classes = getattr(classifier, "classes_", None)
    if classes is None:
        raise InvalidInput(f"The policy {type(classifier).__name__} has no classes_, as if not fitted; fit it first.")
    values = np.asarray(classes).tolist()
    if revealed not in values:
        raise InvalidInput(
            f"The policy's classes must include {revealed!r} for a revealed label, but are {values}; "
            "name the class that means it with revealed=."
        )
    return int(values.index(revealed))


def mixture_propensity(propensities: Sequence[ArrayLike], log_sizes: Sequence[float]) -> Floats:
    """Return the propensity of rows under several logs combined: Σ_j m_j·Q0_j(x) / Σ_j m_j.

    In a log of m = Σ m_j rows, each seen by one of several policies, this is the probability of a revealed
    label at x. The weights 1/Q0 are then the balance heuristic of multiple importance sampling: a policy that
    rarely reveals x no longer gives a large weight if another often does.

    Parameters
    ----------
    propensities : sequence of arrays of shape (rows,)
        For each log, its policy's probability of revealing each row's label; every policy at every row.
    log_sizes : sequence of numbers
        m_j, the rows of each log, revealed or not.

    Examples
    --------
    >>> from observal.diagnosis.propensity import mixture_propensity
    >>> mixture_propensity([[0.25, 0.5], [0.75, 0.5]], log_sizes=[100, 100]).tolist()
    [0.5, 0.5]
    """
    sizes = check_range(log_sizes, "The sizes of logs", 0.0, fix="give how many rows each log has")
    if len(propensities) == 0 or sizes.shape != (len(propensities),):
        raise InvalidInput(
            f"A mixture needs one size per log, but got {len(propensities)} propensities and {sizes.size} sizes; "
            "give both for every log."
        )
    check_number(sizes.sum(), "The sum of the sizes of logs", 0.0, open_low=True, fix="give how many rows each log has")
    n_rows = np.asarray(propensities[0]).shape[0] if np.ndim(propensities[0]) else 1
    chances = [check_propensity(p, n_rows, f"Log {j + 1} of the mixture") for j, p in enumerate(propensities)]
    shares = sizes / sizes.sum()
    mixed = sum((share * chance for share, chance in zip(shares, chances, strict=True)), np.zeros(n_rows))
    return np.minimum(mixed, 1.0)  # shares may sum to slightly more than 1


@dataclass(frozen=True, eq=False)
class FlooredPropensities:
    """Propensities with none below a floor, and how many were raised."""

    propensity: Floats
    propensity_floor: float
    n_raised: int
    warning: str | None


def apply_floor(propensity: ArrayLike, propensity_floor: float, what: str = "The log") -> FlooredPropensities:
    """Raise propensities below `propensity_floor` to it, count them, and warn.

    A floor trades variance for bias: a raised row counts less than it should. Its propensity is no longer the
    true one, so the floor is applied only if you ask for it, and a warning says how many rows it changed.

    Parameters
    ----------
    propensity : array of shape (rows,)
        The probability that each row's label was revealed.
    propensity_floor : float
        In (0, 1].
    what : str
        What the rows are called in the warning.

    Examples
    --------
    >>> import warnings
    >>> from observal.diagnosis.propensity import apply_floor
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     floored = apply_floor([0.001, 0.5], propensity_floor=0.01)
    >>> floored.propensity.tolist(), floored.n_raised
    ([0.01, 0.5], 1)
    """
    check_number(
        propensity_floor,
        "propensity_floor",
        0.0,
        1.0,
        open_low=True,
        fix="0.01 is a common one",
        error=InvalidPropensity,
    )
    values = known(propensity)
    n_raised = int((values < propensity_floor).sum())
    if n_raised == 0:
        return FlooredPropensities(values, float(propensity_floor), 0, None)
    sentence = (
        f"{what} had {n_raised} of {values.size} propensities below the floor {propensity_floor:g} (the smallest {values.min():.3g}); "
        "they were raised to it, so estimates are biased where labels were that rarely revealed."
    )
    warnings.warn(sentence, ObservalWarning, stacklevel=2)
    return FlooredPropensities(
        sealed(np.maximum(values, propensity_floor)), float(propensity_floor), n_raised, sentence
    )


# -- propensities estimated from which rows were revealed ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EstimatedPropensity:
    """Estimated propensities, and how good they are.

    Parameters
    ----------
    logged : float array
        One per logged row, out of fold.
    pool : float array, optional
        One per pool row: the mean over the fits.
    method : str
        The model and how it was calibrated.
    calibration_error : float
        The mean out-of-fold distance between propensities and revealed shares, over ten groups of similar
        propensity.
    log_loss, constant_log_loss : float
        The mean out-of-fold log loss, and that of one probability for all rows.
    folds : int
        The number of fits.
    notes : tuple of str
        What a user should know, in sentences.
    """

    logged: Floats
    pool: Floats | None
    method: str
    calibration_error: float
    log_loss: float
    constant_log_loss: float
    folds: int
    notes: tuple[str, ...]


def estimate(
    X: Features,
    revealed: ArrayLike,
    X_pool: Features | None = None,
    *,
    method: str = "auto",
    folds: int = 5,
    random_state: int = 0,
) -> EstimatedPropensity:
    """Estimate each row's propensity from which rows were revealed.

    The log is split into `folds` folds. Each gets its propensities from a model fitted and calibrated on the
    other folds only. Of logistic regression and boosted trees, each with sigmoid and with isotonic
    calibration, the one with the smallest out-of-fold log loss is used. This assumes that the policy used
    nothing that is not in X.

    Parameters
    ----------
    X : array or sparse matrix of shape (rows, features)
        All logged rows, revealed or not.
    revealed : array of bool of shape (rows,)
        Where the label was revealed.
    X_pool : array or sparse matrix, optional
        The pool's rows.
    method : {"auto", "logistic", "boosting", "constant"}
        The model; "auto" chooses.
    folds : int
        At least 2.
    random_state : int
        Seed of the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.diagnosis.propensity import estimate
    >>> rng = np.random.default_rng(0)
    >>> estimated = estimate(rng.normal(size=(300, 2)), rng.random(300) < 0.3, method="constant")
    >>> bool(abs(estimated.logged.mean() - 0.3) < 0.1)
    True
    """
    rows = read_rows(X, "The log's features")
    pool_rows = None if X_pool is None else read_rows(X_pool, "The pool's features")
    check_whole(random_state, "random_state", 0)
    is_revealed = _check_revealed(revealed, len(rows), folds)
    if method not in ("auto", "constant", *_MODELS):
        raise InvalidInput(
            f"`method` must be auto, logistic, boosting or constant, but is {method!r}; choose one of them."
        )
    if method == "boosting" and rows.is_sparse:
        raise InvalidInput("Boosted trees need dense features, but the log's are sparse; use method='logistic'.")
    parts = list(sklearn_folds(folds, random_state).split(np.zeros(is_revealed.size), is_revealed))
    models = [name for name in _MODELS if method in ("auto", name) and not (name == "boosting" and rows.is_sparse)]
    import sklearn.ensemble  # noqa: F401  (only loaded libraries can be limited)

    with one_thread():  # on a busy machine, threads that wait for each other are 100 times slower
        logged, pool = _cross_fit(rows, is_revealed, parts, pool_rows, models, random_state)
    losses = {name: _log_losses(chances, is_revealed) for name, chances in logged.items()}
    eligible = [name for name in losses if name != _CONSTANT or method in ("auto", "constant")]
    best = min(eligible, key=lambda name: float(losses[name].mean()))
    error = calibration_error(logged[best], is_revealed)
    return EstimatedPropensity(
        frozen(logged[best]),
        frozen(pool[best]) if X_pool is not None else None,
        best,
        error,
        float(losses[best].mean()),
        float(losses[_CONSTANT].mean()),
        folds,
        _notes(best, error, losses, folds, len(parts[0][0])),
    )


def calibration_error(propensity: ArrayLike, revealed: ArrayLike, groups: int = 10) -> float:
    """Return the mean distance between propensities and revealed shares, over groups of similar propensity.

    With groups b of n_b rows, of sizes as equal as possible: Σ_b (n_b/n)·|mean Q0 in b − share revealed in
    b|. Even true propensities have an error of about 0.8·sqrt(groups·Q0·(1 − Q0)/n) by chance.

    Examples
    --------
    >>> from observal.diagnosis.propensity import calibration_error
    >>> calibration_error([0.2, 0.2, 0.8, 0.8], [False, False, True, True], groups=2)
    0.2
    """
    chances, is_revealed = np.asarray(propensity, dtype=np.float64), np.asarray(revealed, dtype=np.float64)
    order = np.argsort(chances, kind="stable")
    gaps = [
        abs(float((chances[part] - is_revealed[part]).sum())) for part in np.array_split(order, groups) if part.size
    ]
    return round(sum(gaps) / chances.size, 15)


def _check_revealed(revealed: ArrayLike, n_rows: int, folds: int) -> Bools:
    is_revealed = np.asarray(revealed)
    if is_revealed.shape != (n_rows,):
        raise InvalidInput(
            f"`revealed` must have one value for each of the {n_rows} rows, but has shape {is_revealed.shape}."
        )
    is_revealed = is_revealed.astype(bool)
    check_whole(folds, "folds", 2, "5 is usual")
    fewest = min(int(is_revealed.sum()), int((~is_revealed).sum()))
    if fewest < 2 * folds:
        raise InvalidInput(
            f"To estimate propensities, at least {2 * folds} rows must be revealed and {2 * folds} not, but {int(is_revealed.sum())} "
            f"of {n_rows} are revealed; give the propensities, each the chance that a row's label was revealed."
        )
    return is_revealed


def _cross_fit(
    rows: Rows,
    is_revealed: Bools,
    parts: list[tuple[Ints, Ints]],
    pool_rows: Rows | None,
    models: list[str],
    random_state: int,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return each candidate's out-of-fold propensities of the logged rows, and mean propensities of the pool rows."""
    rng = np.random.default_rng(random_state)
    logged: dict[str, Floats] = {}
    pool: dict[str, Floats] = {}
    X_pool = None if pool_rows is None else pool_rows.to_matrix()
    for train, held_out in parts:
        fit_rows = np.sort(rng.permutation(train)[:_MAX_TRAINING_ROWS])
        predictors: dict[str, Predictor] = {_CONSTANT: _constant(float(is_revealed[train].mean()))}
        for model in models:
            predictors |= _fit_calibrated(model, rows.take(fit_rows), is_revealed[fit_rows], random_state)
        for name, predict in predictors.items():
            logged.setdefault(name, np.empty(is_revealed.size))[held_out] = predict(rows.take(held_out))
            if X_pool is not None:
                pool[name] = pool.get(name, 0.0) + predict(X_pool) / len(parts)
    return logged, pool


def _constant(chance: float) -> Predictor:
    return lambda X: np.full(X.shape[0], chance)


def _fit_calibrated(model: str, X: Matrix, is_revealed: Bools, random_state: int) -> dict[str, Predictor]:
    """Fit a model, and both calibrations on out-of-fold scores."""
    from sklearn.base import clone
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    estimator = _model(model, is_sparse(X), random_state)
    inner = sklearn_folds(_INNER_FOLDS, random_state)
    scores = cross_val_predict(estimator, X, is_revealed, cv=inner, method="decision_function")
    fitted = clone(estimator).fit(X, is_revealed)
    # n rows cannot distinguish a propensity below about 1/n from 0, which would give an infinite weight.
    least = 1.0 / (is_revealed.size + 2.0)
    isotonic = IsotonicRegression(y_min=least, y_max=1.0 - least, out_of_bounds="clip").fit(scores, is_revealed)
    sigmoid = LogisticRegression(C=1e6).fit(scores[:, None], is_revealed)
    return {
        f"{_MODELS[model]}, sigmoid calibration": lambda X: np.clip(
            sigmoid.predict_proba(fitted.decision_function(X)[:, None])[:, 1], least, 1.0 - least
        ),
        f"{_MODELS[model]}, isotonic calibration": lambda X: np.asarray(isotonic.predict(fitted.decision_function(X))),
    }


def _model(model: str, sparse: bool, random_state: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    if model == "logistic":
        return make_pipeline(MaxAbsScaler() if sparse else StandardScaler(), LogisticRegression(max_iter=500))
    return HistGradientBoostingClassifier(**_BOOSTING, random_state=random_state)


def _log_losses(chances: Floats, is_revealed: Bools) -> Floats:
    return -np.log(np.where(is_revealed, chances, 1.0 - chances))


def _notes(best: str, error: float, losses: dict[str, Floats], folds: int, n_train: int) -> tuple[str, ...]:
    notes = [
        f"Propensities were estimated by {best} in {folds} folds; out of fold, the calibration error is {error:.3f} and the "
        f"log loss {losses[best].mean():.4f}, against {losses[_CONSTANT].mean():.4f} for {_CONSTANT}.",
        "An estimated propensity is right only if what decided which labels were revealed is among the features.",
    ]
    gains = losses[_CONSTANT] - losses[best]
    if best == _CONSTANT or gains.mean() < 2.0 * gains.std() / np.sqrt(gains.size):
        notes.append("The features do not predict which labels were revealed better than one chance for all rows does.")
    if n_train > _MAX_TRAINING_ROWS:
        notes.append(f"Each fit used {_MAX_TRAINING_ROWS} of its {n_train} rows, drawn at random.")
    return tuple(notes)


def keeps_labelled_only(logged: LoggedData) -> bool:
    """Return whether every label is present although the propensities make that all but impossible."""
    return bool(logged.revealed.all()) and float(np.log(logged.propensity).sum()) < log(_BY_CHANCE)

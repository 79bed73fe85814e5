"""Propensities estimated from which rows were revealed: cross-fitted, calibrated, and measured out of fold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from observal.checks import Bools, Floats, Ints, check_features, check_whole, frozen
from observal.errors import InvalidInput
from observal.learners.folds import sklearn_folds
from observal.threads import one_thread

_MODELS = ("logistic", "boosting")
_MOST_TRAINING_ROWS = 50_000  # more rows hardly improve a propensity and take minutes
_INNER_FOLDS = 3
_CONSTANT = "one chance for all rows"
_WORDS = {"logistic": "logistic regression", "boosting": "boosted trees"}

Predictor = Callable[[Any], Floats]


@dataclass(frozen=True, eq=False)
class EstimatedPropensity:
    """Estimated chances that each row's label was revealed, and how good they are.

    Parameters
    ----------
    logged : float array
        One for each logged row, from a fit that has not seen the row.
    pool : float array, optional
        One for each pool row: the average over the fits.
    method : str
        The model and how it was calibrated.
    calibration_error : float
        The mean distance, out of fold, between chances and revealed shares over ten groups of like chances.
    log_loss, constant_log_loss : float
        The mean log loss out of fold, and that of one chance for all rows.
    folds : int
        The number of fits.
    notes : tuple of str
        What a user should know, in sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.diagnosis.propensity import estimate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> estimated = estimate(X, rng.random(400) < 1 / (1 + np.exp(-2 * X[:, 0])), X_pool=X[:5])
    >>> estimated.logged.shape, estimated.pool.shape, estimated.method
    ((400,), (5,), 'logistic regression, sigmoid calibration')
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
    X: Any, revealed: ArrayLike, X_pool: Any = None, *, method: str = "auto", folds: int = 5, random_state: int = 0
) -> EstimatedPropensity:
    """Estimate the chance that each row's label was revealed, from the rows where it was and was not.

    The log is cut into `folds` parts. Each part gets its chances from a model that was fitted and calibrated on the other
    parts only. Of logistic regression and boosted trees, each with sigmoid and with isotonic calibration, the one with the
    least log loss out of fold is used. This assumes that the policy looked at nothing that is not in X.

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
    X = check_features(X, "The log's features")
    X_pool = None if X_pool is None else check_features(X_pool, "The pool's features")
    check_whole(random_state, "random_state", 0)
    shown = _check_revealed(revealed, X.shape[0], folds)
    if method not in ("auto", "constant", *_MODELS):
        raise InvalidInput(
            f"`method` must be auto, logistic, boosting or constant, but is {method!r}; choose one of them."
        )
    if method == "boosting" and hasattr(X, "tocsr"):
        raise InvalidInput("Boosted trees need dense features, but the log's are sparse; use method='logistic'.")
    parts = list(sklearn_folds(folds, random_state).split(np.zeros(shown.size), shown))
    models = [m for m in _MODELS if method in ("auto", m) and not (m == "boosting" and hasattr(X, "tocsr"))]
    with _one_thread():
        logged, pool = _cross_fit(X, shown, parts, X_pool, models, random_state)
    losses = {name: _log_losses(chances, shown) for name, chances in logged.items()}
    eligible = [name for name in losses if name != _CONSTANT or method in ("auto", "constant")]
    best = min(eligible, key=lambda name: float(losses[name].mean()))
    error = calibration_error(logged[best], shown)
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
    """Return the mean distance between propensities and revealed shares, over groups of like propensities.

    With groups b of n_b rows, as equal in size as can be: Σ_b (n_b/n)·|mean Q0 in b − share revealed in b|. Even true
    chances have an error of about 0.8·sqrt(groups·Q0·(1 − Q0)/n), from chance alone.

    Examples
    --------
    >>> from observal.diagnosis.propensity import calibration_error
    >>> calibration_error([0.2, 0.2, 0.8, 0.8], [False, False, True, True], groups=2)
    0.2
    """
    chances, shown = np.asarray(propensity, dtype=np.float64), np.asarray(revealed, dtype=np.float64)
    order = np.argsort(chances, kind="stable")
    gaps = [abs(float((chances[part] - shown[part]).sum())) for part in np.array_split(order, groups) if part.size]
    return round(sum(gaps) / chances.size, 15)


def _check_revealed(revealed: ArrayLike, n_rows: int, folds: int) -> Bools:
    shown = np.asarray(revealed)
    if shown.shape != (n_rows,):
        raise InvalidInput(
            f"`revealed` must have one value for each of the {n_rows} rows, but has shape {shown.shape}."
        )
    shown = shown.astype(bool)
    check_whole(folds, "folds", 2, "5 is usual")
    fewest = min(int(shown.sum()), int((~shown).sum()))
    if fewest < 2 * folds:
        raise InvalidInput(
            f"To estimate propensities, at least {2 * folds} rows must be revealed and {2 * folds} not, but {int(shown.sum())} "
            f"of {n_rows} are revealed; give the propensities, each the chance that a row's label was revealed."
        )
    return shown


def _one_thread() -> Any:
    """Return a context in which trees are grown on one thread: on a busy machine, threads that wait for each other are slower by a factor of 100."""
    import sklearn.ensemble  # noqa: F401  (only libraries that are loaded can be limited)

    return one_thread()


def _cross_fit(
    X: Any, shown: Bools, parts: list[tuple[Ints, Ints]], X_pool: Any, models: list[str], random_state: int
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return, for each candidate, chances of the logged rows out of fold and of the pool rows on average."""
    rng = np.random.default_rng(random_state)
    logged: dict[str, Floats] = {}
    pool: dict[str, Floats] = {}
    for train, held_out in parts:
        fit_rows = np.sort(rng.permutation(train)[:_MOST_TRAINING_ROWS])
        predictors: dict[str, Predictor] = {_CONSTANT: _constant(float(shown[train].mean()))}
        for model in models:
            predictors |= _fit_calibrated(model, X[fit_rows], shown[fit_rows], random_state)
        for name, predict in predictors.items():
            logged.setdefault(name, np.empty(shown.size))[held_out] = predict(X[held_out])
            if X_pool is not None:
                pool[name] = pool.get(name, 0.0) + predict(X_pool) / len(parts)
    return logged, pool


def _constant(chance: float) -> Predictor:
    return lambda X: np.full(X.shape[0], chance)


def _fit_calibrated(model: str, X: Any, shown: Bools, random_state: int) -> dict[str, Predictor]:
    """Fit a model, and both calibrations on scores that come from fits which had not seen their rows."""
    from sklearn.base import clone
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    estimator = _model(model, hasattr(X, "tocsr"), random_state)
    inner = sklearn_folds(_INNER_FOLDS, random_state)
    scores = cross_val_predict(estimator, X, shown, cv=inner, method="decision_function")
    fitted = clone(estimator).fit(X, shown)
    # From n rows no chance below about 1/n can be told from 0, and a chance of 0 would be an infinite weight.
    least = 1.0 / (shown.size + 2.0)
    isotonic = IsotonicRegression(y_min=least, y_max=1.0 - least, out_of_bounds="clip").fit(scores, shown)
    sigmoid = LogisticRegression(C=1e6).fit(scores[:, None], shown)
    return {
        f"{_WORDS[model]}, sigmoid calibration": lambda X: np.clip(
            sigmoid.predict_proba(fitted.decision_function(X)[:, None])[:, 1], least, 1.0 - least
        ),
        f"{_WORDS[model]}, isotonic calibration": lambda X: np.asarray(isotonic.predict(fitted.decision_function(X))),
    }


def _model(model: str, sparse: bool, random_state: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    if model == "logistic":
        return make_pipeline(MaxAbsScaler() if sparse else StandardScaler(), LogisticRegression(max_iter=500))
    return HistGradientBoostingClassifier(max_iter=100, learning_rate=0.1, max_leaf_nodes=15, random_state=random_state)


def _log_losses(chances: Floats, shown: Bools) -> Floats:
    return -np.log(np.where(shown, chances, 1.0 - chances))


def _notes(best: str, error: float, losses: dict[str, Floats], folds: int, n_train: int) -> tuple[str, ...]:
    notes = [
        f"Propensities were estimated by {best} in {folds} folds; out of fold, the calibration error is {error:.3f} and the "
        f"log loss {losses[best].mean():.4f}, against {losses[_CONSTANT].mean():.4f} for {_CONSTANT}.",
        "An estimated propensity is right only if what decided which labels were revealed is among the features.",
    ]
    gains = losses[_CONSTANT] - losses[best]
    if best == _CONSTANT or gains.mean() < 2.0 * gains.std() / np.sqrt(gains.size):
        notes.append("The features do not predict which labels were revealed better than one chance for all rows does.")
    if n_train > _MOST_TRAINING_ROWS:
        notes.append(f"Each fit used {_MOST_TRAINING_ROWS} of its {n_train} rows, drawn at random.")
    return tuple(notes)

"""The out-of-fold error of a weighted logistic regression, and how many labels a target error needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.learners.folds import keep_together, random_ranks
from observal.problem.rows import Matrix
from observal.problem.words import count, number, percent

FOLDS = 5
MIN_LABELS = 10  # for an error estimate
MIN_FOR_CURVE, MIN_OF_CLASS = 40, 8
SHARES = np.array([0.125, 0.25, 0.5, 0.75, 1.0])
REPEATS = 2
RESAMPLES = 200
POWERS = np.linspace(0.25, 1.0, 16)  # candidate exponents c of the learning curve a + b·n^(−c)
MAX_FOR_NEWTON = 200  # features; with more, a Hessian costs more than it saves
MAX_EXTRAPOLATION = 100.0  # times the labels at hand: extrapolating further is worthless

CurveStatus = Literal["estimated", "cannot tell", "no target"]


def out_of_fold_mistakes(
    X: Matrix,
    codes: Ints,
    weights: Floats,
    rng: np.random.Generator,
    train_share: float = 1.0,
    groups: Ints | None = None,
) -> tuple[Bools, int]:
    """Return the out-of-fold mistakes of a weighted logistic regression, and how many rows it was fitted on.

    `X` is standardised, and `weights` are positive. Of the rows outside a fold, `train_share` is used for
    training. Rows of a group share a fold.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> wrong, fitted_on = out_of_fold_mistakes(X, (X[:, 0] > 0) * 1, np.ones(100), np.random.default_rng(0))
    >>> int(wrong.sum()) < 10, fitted_on
    (True, 80)
    """
    ranks = (
        random_ranks(codes, rng) if groups is None else keep_together(codes, groups, lambda of: random_ranks(of, rng))
    )
    folds = ranks % FOLDS
    _, of_row, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    # Relative rank within the class: any prefix in this order is stratified.
    place = (ranks + 0.5) / sizes[of_row]
    wrong, fitted_on = np.zeros(codes.size, dtype=bool), 0
    for fold in range(FOLDS):
        test, train = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if test.size == 0 or train.size == 0:
            continue
        train = train[np.argsort(place[train], kind="stable")][: max(2, round(train_share * train.size))]
        fitted_on = max(fitted_on, train.size)
        wrong[test] = _predict(X, codes, weights, train, test) != codes[test]
    return wrong, fitted_on


def _predict(X: Matrix, codes: Ints, weights: Floats, train: Ints, test: Ints) -> Ints:
    """Return the predicted classes of the test rows by a fit on the training rows."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if np.unique(codes[train]).size < 2 or X.shape[1] == 0:
        return np.full(test.size, np.argmax(np.bincount(codes[train], weights[train])))
    share = weights[train] / weights[train].max()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a diagnosis need not be exact
        solver = "newton-cholesky" if X.shape[1] <= MAX_FOR_NEWTON else "lbfgs"
        model = LogisticRegression(C=1.0, solver=solver, max_iter=200).fit(X[train], codes[train], share / share.mean())
    return np.asarray(model.predict(X[test]))


@dataclass(frozen=True)
class LabelsNeeded:
    """How many labels a target error needs: an extrapolation of a learning curve.

    Parameters
    ----------
    status : str
        "estimated", "cannot tell" or "no target".
    target : float or None
        The target error.
    labels, low, high : float or None
        Labels needed in total, and an 80% bootstrap range; `high` is None if unbounded.
    why : str
        Why it could not be estimated.
    curve : tuple of (labels, error)
        The measured learning curve.
    at_best : float or None
        The asymptote of the fitted curve.
    """

    status: CurveStatus
    target: float | None = None
    labels: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""
    curve: tuple[tuple[int, float], ...] = ()
    at_best: float | None = None

    def sentences(self) -> tuple[str, ...]:
        """Return the finding in words."""
        if self.status == "no target" or self.target is None:
            return ()
        goal = f"an error of {percent(self.target)}"
        if self.status == "cannot tell" or self.labels is None or self.low is None:
            return (f"The number of labels needed for {goal} could not be estimated: {self.why}.",)
        upper = _format_labels(self.high) if self.high is not None else "any number"
        now = self.curve[-1]
        if self.labels <= now[0]:
            end = "" if self.high is not None and self.high <= now[0] else f"; it may also take {upper}"
            return (
                f"The labels you have may be enough for {goal}: with {count(now[0], 'label')}, the error on rows that the "
                f"log covers was measured as {percent(now[1])}{end}.",
            )
        return (
            f"For {goal}, about {_format_labels(self.labels)} labels are needed in total, including those you have "
            f"(likely between {_format_labels(self.low)} and {upper}).",
            f"This is an extrapolation: the error of a linear classifier was measured with {count(self.curve[0][0], 'label')} "
            f"to {count(now[0], 'label')} (now {percent(now[1])}), and a flattening learning curve was "
            "extended. It holds for labels drawn like the log's; with chosen rows, fewer are usually enough.",
        )


def _format_labels(labels: float) -> str:
    """Return a number of labels with two significant digits."""
    return number(float(f"{labels:.1e}"))


def labels_needed(
    X: Matrix,
    codes: Ints,
    weights: Floats,
    target: float | None,
    rng: np.random.Generator,
    groups: Ints | None = None,
) -> LabelsNeeded:
    """Extrapolate the learning curve of a weighted logistic regression to a target error.

    The out-of-fold error is measured with an eighth to all of the labels, and ``a + b·n^(−c)`` with a, b ≥ 0
    and c in [¼, 1] is fitted by least squares. The range comes from bootstrapping the test labels.

    `X` is standardised, and `weights` are clipped.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 20))
    >>> codes = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    >>> labels_needed(X, codes, np.ones(300), 0.001, rng).status
    'cannot tell'
    >>> needed = labels_needed(X, codes, np.ones(300), 0.2, rng)
    >>> needed.status, needed.low <= needed.labels <= needed.high
    ('estimated', True)
    """
    if target is None:
        return LabelsNeeded("no target")
    if np.unique(codes).size > 2:
        return LabelsNeeded("cannot tell", target, why="the log has more than two classes")
    counts = np.bincount(codes, minlength=2)
    if codes.size < MIN_FOR_CURVE or counts.min() < MIN_OF_CLASS:
        why = (
            f"the log has {count(codes.size, 'usable label')}, {counts.min()} of the rarer class, and a learning curve "
            f"needs {MIN_FOR_CURVE} and {MIN_OF_CLASS}"
        )
        return LabelsNeeded("cannot tell", target, why=why)
    sizes, mistakes = _measure_curve(X, codes, weights, rng, groups)
    share = weights / weights.max()
    errors = mistakes @ share / share.sum()
    curve = tuple((int(n), float(e)) for n, e in zip(sizes, errors, strict=True))
    (best,), (needed,) = fit_curve(sizes, errors[None, :], target)
    resampled_weights = rng.multinomial(codes.size, np.full(codes.size, 1.0 / codes.size), size=RESAMPLES) * share
    resampled_errors = resampled_weights @ mistakes.T / resampled_weights.sum(axis=1, keepdims=True)
    low, high = np.quantile(fit_curve(sizes, resampled_errors, target)[1], [0.1, 0.9], method="inverted_cdf")
    if not needed <= MAX_EXTRAPOLATION * codes.size:
        why = (
            f"the learning curve so far levels off at about {percent(float(best))}, above the target; "
            "more labels of this kind, or a richer model, may change that"
            if not np.isfinite(needed)
            else f"it would be more than {MAX_EXTRAPOLATION:.0f} times the labels you have, too far to extrapolate"
        )
        return LabelsNeeded("cannot tell", target, why=why, curve=curve, at_best=float(best))
    top = None if high > MAX_EXTRAPOLATION * codes.size else float(max(high, needed))
    return LabelsNeeded("estimated", target, float(needed), float(min(low, needed)), top, "", curve, float(best))


def _measure_curve(
    X: Matrix, codes: Ints, weights: Floats, rng: np.random.Generator, groups: Ints | None
) -> tuple[Floats, Floats]:
    """Return the training sizes, and how often each row was mispredicted at each: sizes × rows."""
    sizes, mistakes = np.zeros(SHARES.size), np.zeros((SHARES.size, codes.size))
    for i, share in enumerate(SHARES):
        for _ in range(REPEATS):
            wrong, sizes[i] = out_of_fold_mistakes(X, codes, weights, rng, float(share), groups)
            mistakes[i] += wrong / REPEATS
    return sizes, mistakes


def fit_curve(sizes: Floats, errors: Floats, target: float) -> tuple[Floats, Floats]:
    """Fit ``a + b·n^(−c)`` to each row of errors; return a, and the n at which the curve reaches the target.

    Larger sizes weigh more, in proportion, as they are closer to the extrapolation. n is infinite if a ≥ target.

    Examples
    --------
    >>> import numpy as np
    >>> sizes = np.array([10.0, 20.0, 40.0, 80.0])
    >>> best, needed = fit_curve(sizes, (0.1 + 2.0 / sizes)[None, :], target=0.12)
    >>> best.round(3).tolist(), needed.round(1).tolist()
    ([0.1], [100.0])
    """
    weight = sizes / sizes.sum()
    least = np.full(len(errors), np.inf)
    best, slope, power = np.zeros(len(errors)), np.zeros(len(errors)), np.ones(len(errors))
    for c in POWERS:
        u = sizes ** (-c)
        mean_u, mean_e = weight @ u, errors @ weight
        b = np.maximum((errors - mean_e[:, None]) @ (weight * (u - mean_u)) / (weight @ (u - mean_u) ** 2), 0.0)
        a = mean_e - b * mean_u
        through_zero = errors @ (weight * u) / (weight @ u**2)
        a, b = np.where(a < 0.0, 0.0, a), np.where(a < 0.0, through_zero, b)
        residual = (errors - a[:, None] - b[:, None] * u) ** 2 @ weight
        better = residual < least
        least[better], best[better], slope[better], power[better] = residual[better], a[better], b[better], c
    with np.errstate(divide="ignore"):
        above = np.maximum(target - best, 0.0)
        flat = slope <= 1e-15
        needed = np.where(flat, np.inf, np.divide(slope, np.where(above > 0.0, above, np.nan)))
    needed = np.where(np.isnan(needed), np.inf, needed)
    finite = np.isfinite(needed)
    needed[finite] = np.maximum(1.0, needed[finite]) ** (1.0 / power[finite])
    needed[flat & (best <= target)] = 1.0
    return best, needed

"""Ordinary models on the same labels: whether the bought labels and this model were needed.

Logistic regression and boosted trees are fitted as people would fit them: on the labels as they are, without weights. They are judged as the
campaign's own model is, by fits that have not seen the row and with the same weights. So the only difference is the model, or the labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from time import process_time
from typing import Literal, NamedTuple

import numpy as np

from observal.checks import Bools, Ints
from observal.intervals.measures import WINS, beats_baseline, half_won
from observal.learners.blend_settings import BOOSTED, BOOSTED_ROUNDS
from observal.learners.folds import INTERVAL_FOLDS, dealt_folds
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.problem import Problem
from observal.problem.rows import Matrix
from observal.problem.words import listed
from observal.threads import one_thread

MANY_ROWS, FEW_FOLDS = 5000, 3  # from so many labels on, three folds: they leave enough labels, and ten would take long
MOST_FITTED = 50_000  # labels that a model is fitted on
ABOUT = 0.01  # errors that differ by a point or less are called about equal, unless the labels show a difference
OURS, LOGISTIC, TREES = "this model", "logistic regression", "boosted trees"

Fit = Callable[[Matrix, Ints], Callable[[Matrix], Ints]]
"""From labelled rows to a function that predicts classes."""


Mistakes = Literal["fewer", "more", "as many", "not shown"]
"""Whether one model makes fewer mistakes than another, more, about as many, or whether the labels do not show it."""


class ComparedModel(NamedTuple):
    """A model, and its error with the log alone and with all labels.

    `than_ours` says whether, with all labels, it makes fewer mistakes than this model; `with_log` whether it makes fewer with the log alone
    than with all labels. What is about the log alone is None where no label was bought, or where it is unknown.
    """

    name: str
    log_alone: Interval | None
    all_labels: Interval
    than_ours: Mistakes = "as many"
    with_log: Mistakes | None = None


class Comparison(NamedTuple):
    """Models, the campaign's own first; and the processor time that fitting the others took, in seconds."""

    models: Sequence[ComparedModel]
    seconds: float


def compare_models(problem: Problem, judged: JudgedRows, error: Interval, by_first_model: Ints | None) -> Comparison:
    """Return the errors of this model and of ordinary ones on the same labels.

    `judged` are the labelled rows as fits that have not seen them judge them, `error` is that of this model, and `by_first_model` is what
    it predicts for these rows with the log alone.
    """
    begin = process_time()
    from_log = judged.rows < problem.n_logged
    any_bought = not bool(from_log.all())
    X, fold_of = _finite(problem.take(judged.rows)), folds_for(judged.codes)

    def describe(name: str, by_all: Ints, by_log: Ints | None) -> ComparedModel:
        is_ours = by_all is judged.predicted
        return ComparedModel(
            name,
            None if by_log is None else error_of(judged, by_log),
            error if is_ours else error_of(judged, by_all),
            "as many" if is_ours else compare_mistakes(judged, by_all, judged.predicted),
            None if by_log is None else compare_mistakes(judged, by_log, by_all),
        )

    models = [describe(OURS, judged.predicted, by_first_model if any_bought else None)]
    for name, fit in ((LOGISTIC, fit_logistic), (TREES, fit_trees)):
        with one_thread():
            by_log = predict_unseen(X, judged.codes, fold_of, from_log, fit) if any_bought else None
            by_all = predict_unseen(X, judged.codes, fold_of, np.ones(judged.codes.size, dtype=bool), fit)
        models.append(describe(name, by_all, by_log))
    return Comparison(models, process_time() - begin)


def error_of(judged: JudgedRows, predicted: Ints) -> Interval:
    """Return the error of other predictions for the same rows."""
    return judged.ratio((predicted != judged.codes).astype(np.float64), np.ones(judged.codes.size))


def compare_mistakes(judged: JudgedRows, one: Ints, other: Ints) -> Mistakes:
    """Return whether one model makes fewer mistakes than another, by the rows on which exactly one of them is right."""
    one_wrong, other_wrong = one != judged.codes, other != judged.codes
    won, lost = (other_wrong & ~one_wrong).astype(np.float64), (one_wrong & ~other_wrong).astype(np.float64)
    if not (won + lost).any():
        return "as many"
    better = beats_baseline({WINS: judged.ratio(half_won(won, lost), np.ones(won.size))})
    if better is None:
        return "as many" if abs(float(judged.weight @ (won - lost))) <= ABOUT else "not shown"
    return "fewer" if better else "more"


def folds_for(codes: Ints) -> Ints:
    """Return the folds of the model's own intervals; fewer of them where there are very many labels."""
    return dealt_folds(codes, INTERVAL_FOLDS if codes.size <= MANY_ROWS else FEW_FOLDS)


def predict_unseen(X: Matrix, codes: Ints, fold_of: Ints, usable: Bools, fit: Fit) -> Ints:
    """Return what fits on the usable rows predict for each row that is in a fold which they have not seen.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> codes = (X[:, 0] > 0).astype(np.int64)
    >>> predicted = predict_unseen(X, codes, np.arange(40) % 4, np.ones(40, dtype=bool), fit_logistic)
    >>> int((predicted != codes).sum()) <= 2
    True
    """
    predicted = np.empty(codes.size, dtype=np.int64)
    for fold in np.unique(fold_of):
        train, test = np.flatnonzero(usable & (fold_of != fold)), fold_of == fold
        if train.size > MOST_FITTED:
            train = np.sort(np.random.default_rng(0).choice(train, MOST_FITTED, replace=False))
        known = np.unique(codes[train])
        # With one class there is nothing to fit; without any, the first class is as good as another.
        predicted[test] = fit(X[train], codes[train])(X[test]) if known.size > 1 else known[0] if known.size else 0
    return predicted


def fit_logistic(X: Matrix, codes: Ints) -> Callable[[Matrix], Ints]:
    """Fit scikit-learn's logistic regression on standardised features, with its own settings."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(with_mean=isinstance(X, np.ndarray)), LogisticRegression(max_iter=500))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a comparison needs no last digit
        model.fit(X, codes)
    return lambda rows: np.asarray(model.predict(rows), dtype=np.int64)


def fit_trees(X: Matrix, codes: Ints) -> Callable[[Matrix], Ints]:
    """Fit LightGBM, with settings for few labels."""
    import lightgbm

    classes, own = np.unique(codes, return_inverse=True)
    several = {"objective": "multiclass", "num_class": classes.size} if classes.size > 2 else {"objective": "binary"}
    quiet = {"verbosity": -1, "num_threads": 1, "seed": 0, "deterministic": True}
    booster = lightgbm.train({**BOOSTED, **quiet, **several}, lightgbm.Dataset(X, own), BOOSTED_ROUNDS)

    def predict(rows: Matrix) -> Ints:
        chances = np.asarray(booster.predict(rows, num_threads=1))
        place = chances.argmax(axis=1) if classes.size > 2 else (chances > 0.5).astype(np.int64)
        return np.asarray(classes[place], dtype=np.int64)

    return predict


def _finite(X: Matrix) -> Matrix:
    """Return finite features, cut where scaling them would overflow."""
    return np.clip(X, -1e100, 1e100) if isinstance(X, np.ndarray) else X


def comparison_sentences(models: Sequence[ComparedModel], bought: int) -> list[str]:
    r"""Return what the comparison says: whether the model was needed, and whether the labels were.

    Examples
    --------
    >>> def error(low, high):
    ...     return Interval((low + high) / 2, low, high, 0.95, "cells")
    >>> ours = ComparedModel(OURS, error(0.2, 0.3), error(0.02, 0.06), with_log="more")
    >>> other = ComparedModel(LOGISTIC, error(0.1, 0.2), error(0.03, 0.07), "as many", "more")
    >>> print(*comparison_sentences([ours, other], 120), sep="\n")
    Logistic regression on the same labels makes about as many mistakes as this model.
    The 120 bought labels were needed: with the log alone, this model and logistic regression make more mistakes.
    """
    words = {
        "fewer": "{make} fewer mistakes than this model: use {them} instead",
        "more": "{make} more mistakes than this model",
        "as many": "{make} about as many mistakes as this model",
        "not shown": "may make more or fewer mistakes than this model: too few labels to tell",
    }
    sentences = []
    for kind, text in words.items():
        names = [model.name for model in models[1:] if model.than_ours == kind]
        if names:
            single = names == [LOGISTIC]
            filled = text.format(make="makes" if single else "make", them="it" if single else "them")
            sentences.append(f"{' and '.join(names).capitalize()} on the same labels {filled}.")
    return [*sentences, *_labels_needed([model for model in models if model.with_log], bought)]


def _labels_needed(models: Sequence[ComparedModel], bought: int) -> list[str]:
    """Return whether the bought labels were needed, by how models do with the log alone."""
    if not models or not bought:
        return []
    which = f"The {bought:,} bought labels were" if bought > 1 else "The bought label was"
    worse = [model.name for model in models if model.with_log == "more"]
    if worse:
        make = "makes" if len(worse) == 1 and worse != [TREES] else "make"
        return [f"{which} needed: with the log alone, {listed(worse)} {make} more mistakes."]
    if all(model.with_log in ("as many", "fewer") for model in models):
        return [f"{which} hardly needed: with the log alone, these models make no more mistakes."]
    return ["There are too few labels to tell whether these models make more mistakes with the log alone."]

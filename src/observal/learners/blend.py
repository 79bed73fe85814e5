"""A blend of learners of different kinds, weighted by their out-of-fold performance.

The same population, labels and weights always give the same model, in whatever order the labels arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.learners.blend_settings import (
    EM_STEPS,
    KERNEL_RIDGES,
    LEARNERS,
    LINEAR_RIDGES,
    LOGISTIC_RIDGES,
    MIN_WEIGHT,
    PRIOR_LABELS,
    WIDTHS,
)
from observal.learners.features import FeatureMap
from observal.learners.folds import COARSE_FOLDS, spread_folds
from observal.learners.labelled import LabelledRows, LearnerFit, clip_chances
from observal.learners.population import Population
from observal.learners.smooth_learners import (
    AdditiveChances,
    KernelChances,
    LinearChances,
    fit_additive,
    fit_kernel,
    fit_linear,
)
from observal.learners.tree_learners import FoldMean, TreeChances, fit_boosted, fit_estimator, fit_forest, weight_name
from observal.problem.rows import Features, Matrix, rows_to_predict
from observal.problem.words import listed
from observal.threads import cores, one_thread

FITTERS: dict[str, Callable[..., LearnerFit | None]] = {
    "linear": fit_linear,
    "additive": fit_additive,
    "kernel": fit_kernel,
    "forest": fit_forest,
    "boosted": fit_boosted,
}
MEMBERS = (LinearChances, AdditiveChances, KernelChances, TreeChances, FoldMean)
ONE_CLASS = "constant"


class BlendPredictions(NamedTuple):
    """A blend's predictions for rows.

    The class code, its margin over the runner-up, the probability that it is wrong, the weight of the
    learners that predict another class, and the probability of each class.
    """

    codes: Ints
    margins: Floats
    doubt: Floats
    disagreement: Floats
    chances: Floats


@dataclass(frozen=True, eq=False)
class Blend:
    """A fitted blend: class probabilities are the weighted mean of its learners'."""

    feature_map: FeatureMap = field(repr=False)
    names: tuple[str, ...]
    members: tuple[Any, ...] = field(repr=False)  # the learners: functions from standardised rows to probabilities
    theta: Floats  # their weights, which sum to 1
    classes_: NDArray[Any] = field(repr=False)

    def __post_init__(self) -> None:
        shape, columns = (self.n_features, self.classes_.size), self.feature_map
        fits = all(isinstance(member, MEMBERS) and tuple(member.shape) == shape for member in self.members)
        sound = all(part.shape == shape[:1] for part in (columns.mean, columns.scale, columns.low, columns.high))
        counts = {len(self.members), len(self.names), self.theta.size}
        if not (fits and sound) or counts == {0} or len(counts) > 1 or columns.transformers:
            raise InvalidInput("The learners of a blend do not match; use an undamaged copy.")

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.feature_map.mean.size)

    @property
    def is_constant(self) -> bool:
        """Whether all labels were the same, so that every prediction is."""
        return self.names == (ONE_CLASS,)

    def predict_proba(self, X: Features) -> Floats:
        """Return class probabilities."""
        return self._in_blocks(X, self._chances)[0]

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the accuracy."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def predict_details(self, X: Features, odds: Odds = 1.0) -> BlendPredictions:
        """Return each row's prediction, and how much the learners disagree; see ``predict_block``."""
        return BlendPredictions(*self._in_blocks(X, partial(self.predict_block, odds=odds)))

    def predict_block(self, block: Matrix, odds: Odds = 1.0) -> BlendPredictions:
        """Return the predictions for a block of checked rows.

        `odds` (see ``shift_odds``) moves a threshold other than ½ to ½; the probability of being wrong
        ignores it.
        """
        Z = self.feature_map(block)
        parts = [clip_chances(member(Z)) for member in self.members]
        chances = np.tensordot(self.theta, parts, axes=1)
        codes, margins = top_margin(shift_odds(chances, odds))
        dissent = np.array([shift_odds(part, odds).argmax(axis=1) != codes for part in parts], dtype=np.float64)
        right = chances.max(axis=1) if np.ndim(odds) == 0 and odds == 1.0 else chances[np.arange(codes.size), codes]
        return BlendPredictions(codes, margins, 1.0 - right, self.theta @ dissent, chances)

    def _chances(self, block: Matrix) -> tuple[NDArray[Any], ...]:
        Z = self.feature_map(block)
        mixed = sum(weight * clip_chances(member(Z)) for weight, member in zip(self.theta, self.members, strict=True))
        return (np.asarray(mixed),)

    def _in_blocks(self, X: Features, function: Callable[[Matrix], tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
        """Apply a function to blocks of rows, in parallel, and return the concatenated columns."""
        return rows_to_predict(X, self.n_features, self).collect(function)


def map_in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Apply a function to each item in parallel; results keep the order of the items."""
    tasks = list(items)
    workers = min(len(tasks), cores())
    if workers < 2:
        return [function(item) for item in tasks]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, tasks))


Odds = float | Floats
"""A factor for the odds of the second of two classes, or one factor per class."""


def shift_odds(chances: Floats, odds: Odds) -> Floats:
    """Return probabilities with the odds of the second of two classes, or each class, multiplied by a factor.

    Examples
    --------
    >>> import numpy as np
    >>> shift_odds(np.array([[0.9, 0.1]]), 9.0).tolist()
    [[0.5, 0.5]]
    >>> shift_odds(np.array([[0.6, 0.3, 0.1]]), np.array([1.0, 1.0, 9.0])).round(2).tolist()
    [[0.33, 0.17, 0.5]]
    """
    if isinstance(odds, np.ndarray):
        return np.asarray(chances * odds / (chances @ odds)[:, None])
    if odds == 1.0:
        return chances
    second = odds * chances[:, 1]
    return np.asarray(np.column_stack([chances[:, 0], second]) / (chances[:, 0] + second)[:, None])


def top_margin(chances: Floats) -> tuple[Ints, Floats]:
    """Return the likeliest class of each row, and its margin over the runner-up.

    Examples
    --------
    >>> import numpy as np
    >>> [part.round(2).tolist() for part in top_margin(np.array([[0.2, 0.7, 0.1]]))]
    [[1], [0.5]]
    """
    best = chances.argmax(axis=1)
    if chances.shape[1] < 2:
        return best, np.ones(best.size)
    ordered = np.partition(chances, -2, axis=1)
    return best, np.asarray(ordered[:, -1] - ordered[:, -2])


def fit_mixture(likelihoods: Floats, weights: Floats) -> Floats:
    """Return the convex weights θ of learners that maximise Σ w·log(Σ θ·p) + (a/K)·Σ log θ, by EM.

    K is the number of learners. The second term is a prior worth `a` labels towards equal weights: with few
    labels no learner is dropped by chance.

    `likelihoods` are p, each learner's out-of-fold probability of each row's label; `weights` are those of
    the rows.

    Examples
    --------
    >>> import numpy as np
    >>> few = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.6]])
    >>> fit_mixture(few, np.ones(3)).round(2).tolist(), fit_mixture(np.tile(few, (100, 1)), np.ones(300)).round(2).tolist()
    ([0.56, 0.44], [0.88, 0.12])
    """
    n_learners = likelihoods.shape[1]
    theta, total = np.full(n_learners, 1.0 / n_learners), weights.sum() + PRIOR_LABELS
    for _ in range(EM_STEPS):
        responsibilities = likelihoods * theta
        theta = (
            weights @ (responsibilities / responsibilities.sum(axis=1, keepdims=True)) + PRIOR_LABELS / n_learners
        ) / total
    return np.asarray(theta)


class BlendChoices(NamedTuple):
    """What was tuned, to be reused until there are many more labels: each learner's weight and settings, by name."""

    theta: Mapping[str, float]
    tuned: Mapping[str, tuple[float, ...]]


def check_choices(choices: BlendChoices, n_classes: int) -> None:
    """Reject choices that ``fit_blend`` cannot have made: fitting with them might never end.

    Examples
    --------
    >>> check_choices(BlendChoices({"linear": 1.0}, {"linear": (0.01,)}), 2)
    >>> check_choices(BlendChoices({"linear": 1.0}, {"linear": (-1.0,)}), 2)
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: The settings of a blend's learners are not among those that it chooses from; use an undamaged copy.
    """
    ridges = LOGISTIC_RIDGES if n_classes == 2 else LINEAR_RIDGES
    allowed: dict[str, set[tuple[float, ...]]] = {
        "linear": {(ridge,) for ridge in ridges},
        "additive": {(ridge,) for ridge in LINEAR_RIDGES},
        "kernel": {(number, ridge) for number in range(2 * len(WIDTHS)) for ridge in KERNEL_RIDGES},
    }
    known = all(tuned in allowed.get(name, {()}) for name, tuned in choices.tuned.items())
    member_weights = choices.theta.values()
    if (
        not known
        or choices.theta.keys() != choices.tuned.keys()
        or not all(0.0 < weight <= 1.0 + 1e-9 for weight in member_weights)
    ):
        raise InvalidInput(
            "The settings of a blend's learners are not among those that it chooses from; use an undamaged copy."
        )


class BlendFit(NamedTuple):
    """A blend, its out-of-fold probabilities, and what was tuned; None while all labels are the same."""

    blend: Blend
    out_of_fold: Floats
    choices: BlendChoices | None


def check_learners(learners: object, weighted: bool = False) -> None:
    """Reject anything but known learners and pairs of a new name and a classifier.

    Examples
    --------
    >>> check_learners(("linear", "tree"))
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: learners must be some of linear, additive, kernel, forest and boosted, or pairs of another name and a scikit-learn classifier with predict_proba, but one of them is 'tree'.
    """
    items = list(learners) if isinstance(learners, tuple | list) else []
    wrong = [item for item in items if not (item in FITTERS if isinstance(item, str) else _is_named_classifier(item))]
    if wrong or not items:
        raise InvalidInput(
            f"learners must be some of {listed(list(FITTERS))}, or pairs of another name and a scikit-learn "
            f"classifier with predict_proba, but one of them is {(wrong or [learners])[0]!r:.80}."
        )
    names = [item if isinstance(item, str) else item[0] for item in items]
    if len(set(names)) < len(names):
        raise InvalidInput(f"learners must have distinct names, but they are {names}; rename one.")
    for own in (item for item in items if weighted and not isinstance(item, str)):
        weight_name(own[1])


def _is_named_classifier(item: object) -> bool:
    """Return whether an item is a new name with a scikit-learn-compatible classifier."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    name, estimator = item
    return (
        isinstance(name, str)
        and name not in (*FITTERS, ONE_CLASS)
        and not isinstance(estimator, type)
        and all(callable(getattr(estimator, verb, None)) for verb in ("fit", "get_params", "predict_proba"))
    )


def fit_blend(
    population: Population,
    X: Matrix,
    codes: Ints,
    weights: Floats,
    classes: NDArray[Any],
    learners: Sequence[Any] = LEARNERS,
    choices: BlendChoices | None = None,
    groups: Ints | None = None,
) -> BlendFit:
    """Fit the learners and blend them.

    `X` are the labelled rows, unscaled, and `codes` index `classes`, some of which may have no label yet.
    Only the ratios of `weights` matter; rows of weight 0 are dropped. `learners` are names, or pairs of a
    name and a scikit-learn classifier. Sparse rows use only the linear learner. `choices` are weights and settings to reuse; they are tuned if None. Rows of a
    group share a fold.
    """
    used = np.flatnonzero(weights > 0.0) if (weights > 0.0).any() else np.arange(codes.size)
    out_of_fold = np.full((codes.size, classes.size), 1.0 / classes.size)
    if np.unique(codes[used]).size < 2:
        return _constant_blend(population, codes[used], classes, out_of_fold)
    w = weights[used] if (weights > 0.0).any() else np.ones(used.size)
    labelled = LabelledRows(
        population.feature_map(X[used]),
        codes[used],
        w / w.mean(),
        classes.size,
        spread_folds(codes[used], COARSE_FOLDS, groups=None if groups is None else groups[used]),
    )
    fitters = _fitters(population, learners, choices)
    with one_thread():
        fits = dict(zip(fitters, map_in_threads(lambda fit: fit(labelled), fitters.values()), strict=True))
    fitted = {name: fit for name, fit in fits.items() if fit is not None}
    if not fitted:  # two labels of different classes, and only tree learners
        return _constant_blend(population, codes[used], classes, out_of_fold)
    member_chances = {name: clip_chances(fit.out_of_fold) for name, fit in fitted.items()}
    theta = (
        _weights(member_chances, labelled)
        if choices is None or not choices.theta.keys() & member_chances.keys()
        else choices.theta
    )
    names = tuple(name for name in member_chances if theta.get(name, 0.0) > 0.0)
    member_weights = np.array([theta[name] for name in names])
    if abs(member_weights.sum() - 1.0) > 1e-12:  # reused weights must stay bit-identical
        member_weights = member_weights / member_weights.sum()
    blend = Blend(population.feature_map, names, tuple(fitted[name].chances for name in names), member_weights, classes)
    unused = np.setdiff1d(np.arange(codes.size), used)
    if unused.size:  # no fit has seen these, so the whole blend predicts them out of fold
        out_of_fold[unused] = blend.predict_proba(X[unused])
    out_of_fold[used] = sum(weight * member_chances[name] for weight, name in zip(member_weights, names, strict=True))
    new_choices = BlendChoices(
        dict(zip(names, member_weights.tolist(), strict=True)), {name: fitted[name].tuned for name in names}
    )
    return BlendFit(blend, out_of_fold, new_choices)


def _fitters(
    population: Population, learners: Sequence[Any], choices: BlendChoices | None
) -> dict[str, Callable[[LabelledRows], Any]]:
    """Return a fit function for each learner that may get a weight."""
    if population.is_sparse:
        learners = ("linear",)
    items = [(item, None) if isinstance(item, str) else item for item in learners]
    if choices is not None and any(name in choices.theta for name, _ in items):
        items = [item for item in items if item[0] in choices.theta]
    tuned = {} if choices is None else choices.tuned

    def fitter(name: str, estimator: object | None) -> Callable[[LabelledRows], Any]:
        if estimator is None:
            return lambda labelled: FITTERS[name](population, labelled, tuned.get(name, ()))
        return lambda labelled: fit_estimator(estimator, labelled)

    return {item[0]: fitter(*item) for item in items}


def _weights(out_of_fold: Mapping[str, Floats], labelled: LabelledRows) -> dict[str, float]:
    """Return each learner's weight, without learners that are not worth their time."""
    at = np.arange(labelled.codes.size), labelled.codes
    theta = fit_mixture(np.column_stack([chances[at] for chances in out_of_fold.values()]), labelled.weights)
    weights = dict(zip(out_of_fold, theta.tolist(), strict=True))
    return {name: weight for name, weight in weights.items() if weight >= MIN_WEIGHT}


def _constant_blend(population: Population, codes: Ints, classes: NDArray[Any], out_of_fold: Floats) -> BlendFit:
    """Return a blend that predicts the labels' class shares for every row; equal probabilities without labels."""
    shift = np.log(np.maximum(np.bincount(codes, minlength=classes.size), 1e-12) / max(1, codes.size))
    n_features = population.feature_map.mean.size
    constant = LinearChances(np.zeros((n_features, classes.size)), shift)
    return BlendFit(Blend(population.feature_map, (ONE_CLASS,), (constant,), np.ones(1), classes), out_of_fold, None)

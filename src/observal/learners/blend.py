"""A blend of learners of different kinds, weighted by how well each predicts labels that it has not seen.

Everything is a function of the population, the labels and their weights: the same labels give the same model, whatever the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Floats, Ints
from observal.errors import InvalidInput
from observal.learners.blend_settings import (
    DROPPED,
    EM_STEPS,
    KERNEL_RIDGES,
    LEARNERS,
    LINEAR_RIDGES,
    LOGISTIC_RIDGES,
    PRIOR_LABELS,
    WIDTHS,
)
from observal.learners.extra_learners import fit_catboost, fit_tabicl
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
from observal.learners.tree_learners import FoldMean, TreeChances, fit_boosted, fit_estimator, fit_forest
from observal.problem.rows import Features, Matrix, rows_to_predict
from observal.problem.words import listed
from observal.threads import cores, one_thread

FITTERS: dict[str, Callable[..., LearnerFit | None]] = {
    "linear": fit_linear,
    "additive": fit_additive,
    "kernel": fit_kernel,
    "forest": fit_forest,
    "boosted": fit_boosted,
    "catboost": fit_catboost,
    "tabicl": fit_tabicl,
}
MEMBERS = (LinearChances, AdditiveChances, KernelChances, TreeChances, FoldMean)
ONE_CLASS = "constant"


class BlendPredictions(NamedTuple):
    """A blend's predictions for rows.

    The class code, the lead of its chance over that of the strongest rival, the chance that it is wrong, the weight of
    the learners that predict another class, and the chance of each class.
    """

    codes: Ints
    margins: Floats
    doubt: Floats
    disagreement: Floats
    chances: Floats


@dataclass(frozen=True, eq=False)
class Blend:
    """A fitted blend: the chance of a class is the weighted mean of its learners' chances."""

    feature_map: FeatureMap = field(repr=False)
    names: tuple[str, ...]
    members: tuple[Any, ...] = field(repr=False)  # the learners: from standardised rows to chances
    theta: Floats  # their weights, which add up to 1
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
        """Features of the rows."""
        return int(self.feature_map.mean.size)

    @property
    def fast(self) -> Blend:
        """The blend without learners that are slow to predict; the blend itself if it has none, or no others."""
        quick = [k for k, member in enumerate(self.members) if not (isinstance(member, FoldMean) and member.slow)]
        if len(quick) in (0, len(self.members)):
            return self
        names, members = (tuple(items[k] for k in quick) for items in (self.names, self.members))
        return replace(self, names=names, members=members, theta=self.theta[quick] / self.theta[quick].sum())

    @property
    def is_constant(self) -> bool:
        """Whether all labels were the same, so that it predicts the same for every row."""
        return self.names == (ONE_CLASS,)

    def predict_proba(self, X: Features) -> Floats:
        """Return the chance of each class."""
        return self._in_blocks(X, self._chances)[0]

    def predict(self, X: Features) -> NDArray[Any]:
        """Return a class for each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the share of rows predicted right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def judge(self, X: Features, odds: Odds = 1.0) -> BlendPredictions:
        """Return its prediction for each row, and how much its learners differ; see ``judge_block``."""
        return BlendPredictions(*self._in_blocks(X, partial(self.judge_block, odds=odds)))

    def judge_block(self, block: Matrix, odds: Odds = 1.0) -> BlendPredictions:
        """Return its predictions for a block of rows that were checked.

        `odds` are those of ``shift_odds``, by which a threshold other than ½ becomes ½; the chance of being wrong does not change.
        """
        Z = self.feature_map(block)
        parts = [clip_chances(member(Z)) for member in self.members]
        chances = np.tensordot(self.theta, parts, axes=1)
        codes, margins = lead(shift_odds(chances, odds))
        dissent = np.array([shift_odds(part, odds).argmax(axis=1) != codes for part in parts], dtype=np.float64)
        right = chances.max(axis=1) if np.ndim(odds) == 0 and odds == 1.0 else chances[np.arange(codes.size), codes]
        return BlendPredictions(codes, margins, 1.0 - right, self.theta @ dissent, chances)

    def _chances(self, block: Matrix) -> tuple[NDArray[Any], ...]:
        Z = self.feature_map(block)
        mixed = sum(weight * clip_chances(member(Z)) for weight, member in zip(self.theta, self.members, strict=True))
        return (np.asarray(mixed),)

    def _in_blocks(self, X: Features, function: Callable[[Matrix], tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
        """Return the columns that a function makes of rows, a block at a time and several at once."""
        return rows_to_predict(X, self.n_features).collect(function)


def in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Return what a function makes of each item, in their order; several run at once."""
    tasks = list(items)
    workers = min(len(tasks), cores())
    if workers < 2:
        return [function(item) for item in tasks]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, tasks))


Odds = float | Floats
"""A factor for the odds of the second of two classes, or for the chance of each of several."""


def shift_odds(chances: Floats, odds: Odds) -> Floats:
    """Return chances with the odds of the second of two classes multiplied, or the chance of each class by its own factor.

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


def lead(chances: Floats) -> tuple[Ints, Floats]:
    """Return the likeliest class of each row, and by how much it leads.

    Examples
    --------
    >>> import numpy as np
    >>> [part.round(2).tolist() for part in lead(np.array([[0.2, 0.7, 0.1]]))]
    [[1], [0.5]]
    """
    best = chances.argmax(axis=1)
    if chances.shape[1] < 2:
        return best, np.ones(best.size)
    ordered = np.partition(chances, -2, axis=1)
    return best, np.asarray(ordered[:, -1] - ordered[:, -2])


def mixture(likelihoods: Floats, weights: Floats) -> Floats:
    """Return convex weights θ of learners: those with the largest Σ w·log(Σ θ·p) + (a/K)·Σ log θ, by EM from equal ones.

    K is the number of learners. The second term counts as much as a labels that speak for all learners alike: with few
    labels none of them is dropped for what may be chance.

    `likelihoods` are p, the chance that each learner gave to each row's label, not having seen it; `weights` are what each row counts.

    Examples
    --------
    >>> import numpy as np
    >>> few = np.array([[0.9, 0.1], [0.8, 0.2], [0.2, 0.6]])
    >>> mixture(few, np.ones(3)).round(2).tolist(), mixture(np.tile(few, (100, 1)), np.ones(300)).round(2).tolist()
    ([0.56, 0.44], [0.88, 0.12])
    """
    n_learners = likelihoods.shape[1]
    theta, total = np.full(n_learners, 1.0 / n_learners), weights.sum() + PRIOR_LABELS
    for _ in range(EM_STEPS):
        shares = likelihoods * theta
        theta = (weights @ (shares / shares.sum(axis=1, keepdims=True)) + PRIOR_LABELS / n_learners) / total
    return np.asarray(theta)


class BlendChoices(NamedTuple):
    """What was chosen from labels, to be kept while few more come in: each learner's weight and settings, by name."""

    theta: Mapping[str, float]
    tuned: Mapping[str, tuple[float, ...]]


def check_choices(choices: BlendChoices, n_classes: int) -> None:
    """Refuse choices that ``fit_blend`` cannot have made: a fit with them might not end.

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
    shares = choices.theta.values()
    if (
        not known
        or choices.theta.keys() != choices.tuned.keys()
        or not all(0.0 < share <= 1.0 + 1e-9 for share in shares)
    ):
        raise InvalidInput(
            "The settings of a blend's learners are not among those that it chooses from; use an undamaged copy."
        )


class BlendFit(NamedTuple):
    """A blend, its chances for the labelled rows out of fold, and what was chosen; nothing is while all labels are the same."""

    blend: Blend
    out_of_fold: Floats
    choices: BlendChoices | None


def check_learners(learners: object) -> None:
    """Refuse anything but learners by name, or a name with a classifier, and "slow" if it is slow to predict.

    Examples
    --------
    >>> check_learners(("linear", "tree"))
    Traceback (most recent call last):
        ...
    observal.errors.InvalidInput: learners must be some of linear, additive, kernel, forest, boosted, catboost and tabicl, or pairs of another name and a scikit-learn classifier with predict_proba, but one of them is 'tree'.
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


def _is_named_classifier(item: object) -> bool:
    """Return whether an item is a new name with a scikit-learn-compatible classifier, and perhaps "slow"."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        return False
    name, estimator, *speed = item
    return (
        isinstance(name, str)
        and name not in (*FITTERS, ONE_CLASS)
        and not isinstance(estimator, type)
        and speed in ([], ["slow"])
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

    `X` are the labelled rows as they came, and `codes` positions in `classes`, some of which may have no label yet. Of `weights` only the
    ratios count; rows that weigh nothing are left out. `learners` are names, or pairs of a name and a scikit-learn classifier, with "slow"
    as a third if it is slow to predict; on sparse rows only the linear learner is used. `choices` are weights and settings to keep; without
    them they are chosen. Rows of a group share a fold.
    """
    used = np.flatnonzero(weights > 0.0) if (weights > 0.0).any() else np.arange(codes.size)
    out_of_fold = np.full((codes.size, classes.size), 1.0 / classes.size)
    if np.unique(codes[used]).size < 2:
        return _one_class(population, codes[used], classes, out_of_fold)
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
        fits = dict(zip(fitters, in_threads(lambda fit: fit(labelled), fitters.values()), strict=True))
    fitted = {name: fit for name, fit in fits.items() if fit is not None}
    if not fitted:  # two labels of two classes, and trees alone
        return _one_class(population, codes[used], classes, out_of_fold)
    own = {name: clip_chances(fit.out_of_fold) for name, fit in fitted.items()}
    theta = _weights(own, labelled) if choices is None or not choices.theta.keys() & own.keys() else choices.theta
    names = tuple(name for name in own if theta.get(name, 0.0) > 0.0)
    shares = np.array([theta[name] for name in names])
    if abs(shares.sum() - 1.0) > 1e-12:  # weights that are kept stay the same to the last digit
        shares = shares / shares.sum()
    blend = Blend(population.feature_map, names, tuple(fitted[name].chances for name in names), shares, classes)
    unused = np.setdiff1d(np.arange(codes.size), used)
    if unused.size:  # no fit has seen these
        out_of_fold[unused] = blend.predict_proba(X[unused])
    out_of_fold[used] = sum(share * own[name] for share, name in zip(shares, names, strict=True))
    new_choices = BlendChoices(
        dict(zip(names, shares.tolist(), strict=True)), {name: fitted[name].tuned for name in names}
    )
    return BlendFit(blend, out_of_fold, new_choices)


def _fitters(
    population: Population, learners: Sequence[Any], choices: BlendChoices | None
) -> dict[str, Callable[[LabelledRows], Any]]:
    """Return a function from labels to a fit for each learner that may have a weight."""
    if population.is_sparse:
        learners = ("linear",)
    items = [(item, None, False) if isinstance(item, str) else (item[0], item[1], len(item) > 2) for item in learners]
    if choices is not None and any(name in choices.theta for name, *_ in items):
        items = [item for item in items if item[0] in choices.theta]
    tuned = {} if choices is None else choices.tuned

    def fitter(name: str, estimator: object | None, slow: bool) -> Callable[[LabelledRows], Any]:
        if estimator is None:
            return lambda labelled: FITTERS[name](population, labelled, tuned.get(name, ()))
        return lambda labelled: fit_estimator(estimator, labelled, slow)

    return {item[0]: fitter(*item) for item in items}


def _weights(out_of_fold: Mapping[str, Floats], labelled: LabelledRows) -> dict[str, float]:
    """Return the weight of each learner that is worth its time."""
    at = np.arange(labelled.codes.size), labelled.codes
    theta = mixture(np.column_stack([chances[at] for chances in out_of_fold.values()]), labelled.weights)
    weights = dict(zip(out_of_fold, theta.tolist(), strict=True))
    return {name: weight for name, weight in weights.items() if weight >= DROPPED}


def _one_class(population: Population, codes: Ints, classes: NDArray[Any], out_of_fold: Floats) -> BlendFit:
    """Return a blend that predicts the same for every row: the likeliest label, or equal chances where there is none."""
    shift = np.log(np.maximum(np.bincount(codes, minlength=classes.size), 1e-12) / max(1, codes.size))
    n_features = population.feature_map.mean.size
    constant = LinearChances(np.zeros((n_features, classes.size)), shift)
    return BlendFit(Blend(population.feature_map, (ONE_CLASS,), (constant,), np.ones(1), classes), out_of_fold, None)

"""CommitteeVC: any scikit-learn classifier; asks where a committee (forest trees or bootstrap fits) disagrees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observal.checks import Bools, Floats, Ints, check_number, check_whole, keep
from observal.errors import InvalidInput
from observal.intervals.error import JudgedLabels, intervals_of, judge_labels, left_out
from observal.intervals.state import PoolState, as_near
from observal.learners.folds import COARSE_FOLDS, INTERVAL_FOLDS
from observal.learners.tree_learners import fit_clone, weight_name
from observal.methods.draw import Choice, draw_plan, least_chance, prepare_draw
from observal.methods.fitter import WeightedLabels
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.method import Classifier, Method, has_probabilities
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.rows import Features, Rows, count_rows, single_precision

COMMITTEE_ROWS = 4096  # rows that all members predict at once
# Floor for the variance of a margin in [−1, 1]: if all members agree, rows are ordered by margin.
MARGIN_VARIANCE = 1e-12

MemberProbabilities = Callable[[Features], Floats]
"""From rows to each member's class probabilities: members × rows × classes."""


@dataclass(frozen=True, repr=False)
class CommitteeVC(Method[PoolState]):
    """Any classifier on clipped, tempered importance weights; asks where a committee disagrees.

    The committee of a random forest is its trees; that of any other classifier is a few fits on bootstrap samples.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Its ``fit`` must take `sample_weight`: boosted trees, a calibrated model, or a pipeline whose last
        step takes it. It is cloned and never changed. A `random_state` of None is replaced by a fixed one. If
        log and pool are tables, it gets their rows unchanged: names, types, text and missing values.
    members : int
        Bootstrap fits in a committee. A forest with at least as many trees needs none.
    batch, explore_share, gate_share
        How a round chooses rows; see ``Choice``.
    tempering : float
        Weights are raised to this power: 1 is the full correction, 0 none.
    clip_constant : float
        Replaces the log term in the paper's clip threshold, like C in the paper's experiments; the larger,
        the more weights are clipped.

    Notes
    -----
    Each bootstrap member is fitted on a weighted sample of the labelled rows, drawn with replacement
    and of the same size (see ``resample``). A row's margin is the probability of the committee's class minus
    that of the runner-up (votes, if there are no probabilities). With M its mean over members and V its
    variance, rows are ordered by ``gap(x) = M² / (2·V)``: ``NewtonVC``'s (w·x)² / (2·xᵀH⁻¹x), with the
    variance measured instead of taken from a Hessian. Few members measure V badly, so the average variance of
    all rows counts as one more member. Tied gaps, which trees often have, are ordered at random. The
    probability of a flip is Φ(−M/sqrt(V)). There is no rule like NewtonVC's `stop_below`, because trees also
    agree where none of them has seen data.

    A forest, alone or as the last step of a pipeline, is returned as fitted. Otherwise a scikit-learn
    ``VotingClassifier`` is returned: half of its probability is that of one fit on all labelled rows, half
    the mean of the members', whose mistakes average out (see ``average_with_members``). A classifier without
    probabilities is returned as that one fit. A class without labels is not in its ``classes_``.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 2))
    >>> y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [0.3, 0.7])]
    >>> chance = np.where(X[:, 0] < 0.6, 0.5, 0.1)
    >>> shown = rng.random(200) < chance[:200]
    >>> logged = ob.LoggedData(X[:200], np.where(shown, y[:200], None), chance[:200])
    >>> pool = ob.Pool(X[200:], chance[200:])
    >>> method = CommitteeVC(DecisionTreeClassifier(max_depth=4))
    >>> result = ob.run(logged, pool, lambda ids: y[200:][ids], method, label_budget=20)
    >>> result.estimator.score(X, y) > 0.95
    True
    >>> method
    CommitteeVC(DecisionTreeClassifier)
    """

    estimator: Any
    members: int = 8
    batch: int = 10
    explore_share: float = 0.1
    gate_share: float = 0.5
    tempering: float = 0.5
    clip_constant: float = 4.0

    stops_early: ClassVar[bool] = True
    takes_frames: ClassVar[bool] = True
    plans_ahead: ClassVar[bool] = True
    pool_may_grow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        from sklearn.base import is_classifier

        choice = self.choice  # validates its own settings
        has_settings = callable(getattr(self.estimator, "get_params", None)) and not isinstance(self.estimator, type)
        if not has_settings or not is_classifier(self.estimator):
            raise InvalidInput(
                f"CommitteeVC needs a scikit-learn classifier, but got {self.estimator!r:.80}; give one such as "
                "HistGradientBoostingClassifier()."
            )
        weight_name(self.estimator)
        keep(
            self,
            members=check_whole(self.members, "members", 2, "8 is usual"),
            batch=choice.batch,
            explore_share=choice.explore_share,
            gate_share=choice.gate_share,
            tempering=check_number(self.tempering, "tempering", 0.0),
            clip_constant=check_number(self.clip_constant, "clip_constant", 0.0, open_low=True),
        )

    def __repr__(self) -> str:
        changed = [f for f in fields(self)[1:] if getattr(self, f.name) != f.default]
        settings = [type(self.estimator).__name__, *(f"{f.name}={getattr(self, f.name)!r}" for f in changed)]
        return f"CommitteeVC({', '.join(settings)})"

    @property
    def choice(self) -> Choice:
        """How a round chooses rows."""
        return Choice(self.batch, self.explore_share, self.gate_share)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Return the initial state."""
        return PoolState.start(problem, CommitteeFitter(self, problem, problem.stack(), rng))

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round."""
        if not state.any_left(problem):
            return Stop()
        plan = draw_plan(prepare_draw(problem, state, self.choice, state.model.ranks[problem.n_logged :]), rng)
        ranks = state.model.unlabelled_ranks()
        near, gaps = (None, None) if ranks is None else as_near(plan, ranks, problem.n_logged)
        return replace(plan, near=near, near_gaps=gaps)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        return state.after(plan, answers, replace(state.fit, rng=rng))

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round's public summary."""
        model: CommitteeModel = state.model
        return state.as_round(
            estimator=model.estimator,
            clip=model.clip,
            disagreement=model.flips,
            least_chance=least_chance(problem, state, self.choice),
        )

    def intervals(self, problem: Problem, state: PoolState) -> dict[str, Interval]:
        """Return intervals for the error and, with two classes, other measures; see ``observal.intervals.error``."""
        return intervals_of(problem, state, state.model.judged_labels)

    def judged(self, problem: Problem, state: PoolState) -> JudgedRows | None:
        """Return the labelled rows with held-out predictions."""
        labels = state.model.judged_labels
        return None if labels is None else labels.weighted()


# -- the fit ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CommitteeFitter:
    """Fits the committee for any state of a problem."""

    method: CommitteeVC
    problem: Problem
    X: Rows = field(repr=False)  # log and pool
    rng: np.random.Generator = field(repr=False)

    def __call__(self, state: PoolState) -> CommitteeModel:
        """Fit on all labels."""
        from scipy.special import ndtr

        rows, y, weights, clip = self.labelled(state)
        classes = self.problem.logged.classes
        estimator, probabilities = fit_committee(self.method, self.X.select(rows), y, weights, classes, self.rng)
        if probabilities is None:
            return CommitteeModel(self, state, estimator, self.rng.random(len(self.X)), 1.0, clip, None)
        gaps = committee_gaps(probabilities, self.X)
        flips = float(ndtr(-np.sqrt(2.0 * gaps[self.problem.n_logged :])).mean())
        return CommitteeModel(self, state, estimator, rank(gaps, self.rng.random(gaps.size)), flips, clip, gaps)

    def labelled(self, state: PoolState) -> tuple[Ints, NDArray[Any], Floats, float]:
        """Return the labelled rows, their labels and final weights (tempered, times cost), and the clip threshold."""
        labels = WeightedLabels.of(self.problem, state, self.method.clip_constant)
        y = _as_plain_dtype(self.problem.logged.classes)[labels.codes]
        return labels.rows, y, labels.weights(self.method.tempering), labels.clip


@dataclass(frozen=True, eq=False)
class CommitteeModel:
    """The fitted committee after a round."""

    fitter: CommitteeFitter = field(repr=False)
    state: PoolState = field(repr=False)
    estimator: Classifier
    ranks: Floats = field(repr=False)  # of each row's gap, ties in random order
    flips: float  # the expected share of pool rows whose predicted class more labels would change
    clip: float
    gaps: Floats | None = field(repr=False)  # None while all labels are the same

    @cached_property
    def judged_labels(self) -> JudgedLabels | None:
        """The labelled rows with the predictions of committees that were not fitted on them."""
        problem, X = self.fitter.problem, self.fitter.X
        classes = problem.logged.classes
        rows, y, weights, _ = self.fitter.labelled(self.state)

        def out_of_fold(train: Ints, test: Ints) -> tuple[Floats, Ints]:
            rng = np.random.default_rng(0)  # fixed, so that intervals are the same every time
            fit, _ = fit_committee(self.fitter.method, X.select(rows[train]), y[train], weights[train], classes, rng)
            return _scores(fit, X.select(rows[test]), classes)

        forest = self.unlabelled_ranks() is not None

        def gaps(before: PoolState, subset: Ints) -> Floats | None:
            ranks = before.model.unlabelled_ranks() if forest else None
            return None if ranks is None else np.asarray(ranks[subset])

        labels = judge_labels(
            problem,
            self.state,
            gaps,
            lambda subset: _scores(self.estimator, X.select(subset), classes),
            out_of_fold,
            folds=INTERVAL_FOLDS,
        )
        if labels is None:
            return None
        _, fewer = left_out(labels.codes, out_of_fold, COARSE_FOLDS, labels.cells.groups)
        wrong, now = fewer != labels.codes, labels.predicted != labels.codes
        return labels.allowing_for(wrong.astype(np.float64) - now)

    def unlabelled_ranks(self) -> Floats | None:
        """Return the rank of each row's gap, labelled rows as if their label were unknown.

        A forest ranks them by the out-of-bag trees. None for other estimators: refitting committees in every
        round would take too long. Unlabelled rows keep the order of `ranks`.
        """
        rows, _, weights, _ = self.fitter.labelled(self.state)
        used = rows[weights > 0.0]
        trees = tree_probabilities(self.estimator, self.fitter.method.members)
        out_of_bag = find_out_of_bag(self.estimator, used.size)
        if self.gaps is None or trees is None or out_of_bag is None:
            return None
        gaps = self.gaps.copy()
        gaps[used] = committee_gaps(trees, self.fitter.X.select(used), out_of_bag)
        return rank(gaps, self.ranks)


def fit_committee(
    method: CommitteeVC,
    X: Rows,
    y: NDArray[Any],
    weights: Floats,
    classes: NDArray[Any],
    rng: np.random.Generator,
) -> tuple[Classifier, MemberProbabilities | None]:
    """Return the classifier for the user, and a function for the members' probabilities (None if only one class)."""
    full_fit = _fit_clone(method.estimator, X, y, weights, classes)
    if isinstance(full_fit, ConstantClassifier):
        return full_fit, None
    if (trees := tree_probabilities(full_fit, method.members)) is not None:
        return full_fit, trees
    members = []
    for member in range(method.members):
        sample = resample(weights, y, rng)
        members.append(
            _fit_clone(
                method.estimator, X.select(sample), y[sample], np.ones(sample.size), classes, random_state=1 + member
            )
        )
    return average_with_members(full_fit, members, X), lambda rows: np.stack(
        [class_probabilities(member, rows) for member in members]
    )


def _fit_clone(
    estimator: Any, X: Rows, y: NDArray[Any], weights: Floats, classes: NDArray[Any], random_state: int = 0
) -> Any:
    """Fit a clone on the rows of positive weight, their weights scaled to a mean of 1."""
    used = weights > 0.0
    labels = np.unique(y[used])
    if labels.size < 2:
        return ConstantClassifier(classes, labels[0] if labels.size else _as_plain_dtype(classes)[0])
    # Equal weights are omitted: scikit-learn's boosted trees are many times slower with weights.
    own = None if np.ptp(weights[used]) == 0.0 else weights[used] / weights[used].mean()
    given_as = "" if X.is_table else ", each an array of numbers without column names"
    return fit_clone(estimator, random_state, X.select(np.flatnonzero(used)).for_estimator(), y[used], own, given_as)


def rank(gaps: Floats, ties: Floats) -> Floats:
    """Return the rank of each gap, breaking ties by `ties`."""
    ranks = np.empty(gaps.size)
    ranks[np.lexsort((ties, gaps))] = np.arange(gaps.size)
    return ranks


@dataclass(frozen=True, eq=False)
class ConstantClassifier:
    """What CommitteeVC returns while all labels are the same: it predicts that label for every row."""

    classes_: NDArray[Any] = field(repr=False)
    label: Any

    def predict(self, X: Features) -> NDArray[Any]:
        """Return the single class for each row."""
        return np.full(count_rows(X), self.label, dtype=np.asarray(self.label).dtype)

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the share of rows predicted right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


def _scores(fit: Classifier, rows: Rows, classes: NDArray[Any]) -> tuple[Floats, Ints]:
    """Return each row's margin, negative unless the last class is predicted, and its predicted class code."""
    X = rows.for_estimator()
    predicted = np.argmax(np.asarray(fit.predict(X))[:, None] == _as_plain_dtype(classes), axis=1)
    if isinstance(fit, ConstantClassifier):
        return np.zeros(predicted.size), predicted
    probabilities = np.sort(class_probabilities(fit, X), axis=1)
    margin = probabilities[:, -1] - probabilities[:, -2]
    return np.where(predicted == len(classes) - 1, margin, -margin), predicted


def _as_plain_dtype(classes: NDArray[Any]) -> NDArray[Any]:
    """Return classes with a plain dtype instead of object if possible, as scikit-learn requires."""
    plain = np.asarray(classes.tolist())
    return plain if plain.shape == classes.shape and plain.tolist() == classes.tolist() else classes


# -- the members: a forest's own trees, or bootstrap fits of any classifier -------------------------------------


def resample(weights: Floats, y: NDArray[Any], rng: np.random.Generator) -> Ints:
    """Return a weighted bootstrap sample of positions that keeps every class of `y`.

    If a class is not drawn, its heaviest row is added. Rows of weight 0 are never drawn.

    Examples
    --------
    >>> import numpy as np
    >>> sample = resample(np.array([1.0, 1.0, 0.0, 1e-9]), np.array([0, 0, 0, 1]), np.random.default_rng(0))
    >>> set(sample.tolist()) <= {0, 1, 3}, 3 in sample
    (True, True)
    """
    counts = rng.multinomial(weights.size, weights / weights.sum())
    for label in np.unique(y[weights > 0.0]):
        class_rows = np.flatnonzero(y == label)
        if not counts[class_rows].any():
            counts[class_rows[np.argmax(weights[class_rows])]] = 1
    return np.repeat(np.arange(weights.size), counts)


def tree_probabilities(fit: Classifier, least: int) -> MemberProbabilities | None:
    """Return a function for each tree's class probabilities; None unless a forest of at least `least` trees.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(10, random_state=0).fit([[0.0], [1.0]], ["a", "b"])
    >>> tree_probabilities(forest, 8)(np.array([[0.2], [0.9], [0.3]])).shape
    (10, 3, 2)
    >>> tree_probabilities(forest, 50) is None
    True
    """
    from sklearn.pipeline import Pipeline

    prepare = fit[:-1].transform if isinstance(fit, Pipeline) and len(fit) > 1 else None
    forest = _forest_of(fit)
    if forest is None or len(forest.estimators_) < least:
        return None

    def probabilities(rows: Features) -> Floats:
        X = single_precision(rows if prepare is None else prepare(rows))
        return np.stack([tree.predict_proba(X, check_input=False) for tree in forest.estimators_])

    return probabilities


def find_out_of_bag(fit: Classifier, n_rows: int) -> Bools | None:
    """Return which training rows are out-of-bag for each tree of a forest: trees × rows.

    None if some row is out-of-bag for fewer than two trees, or if there is no bootstrapped forest.
    """
    forest = _forest_of(fit)
    if forest is None or not forest.bootstrap:
        return None
    out_of_bag = np.ones((len(forest.estimators_), n_rows), dtype=bool)
    for tree_out_of_bag, sample in zip(out_of_bag, forest.estimators_samples_, strict=True):
        tree_out_of_bag[sample] = False
    return out_of_bag if out_of_bag.sum(axis=0).min() >= 2 else None


def committee_gaps(probabilities: MemberProbabilities, X: Rows, out_of_bag: Bools | None = None) -> Floats:
    """Return M²/(2·V) of each row, computed in blocks to save memory.

    With `out_of_bag` (members × rows), only the members that it marks count for a row.
    """
    blocks = [np.arange(a, min(a + COMMITTEE_ROWS, len(X))) for a in range(0, len(X), COMMITTEE_ROWS)]
    margins = [
        member_margins(
            probabilities(X.select(block).for_estimator()), True if out_of_bag is None else out_of_bag[:, block]
        )
        for block in blocks
    ]
    return compute_gaps(np.concatenate(margins, axis=1), True if out_of_bag is None else out_of_bag)


def average_with_members(full_fit: Classifier, members: list[Any], X: Rows) -> Classifier:
    """Return a classifier whose probabilities are half `full_fit`'s and half the mean of the members'.

    `full_fit` saw every row but overfits; the members' mean is smoother, but each saw only two thirds of the
    rows. If `full_fit` has no probabilities, it is returned unchanged. `X` holds at least one row per class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from observal.problem.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> full_fit, low, high = (DecisionTreeClassifier().fit(X, y) for y in ([0, 0, 1], [0, 1, 1], [0, 1, 1]))
    >>> average_with_members(full_fit, [low, high], as_rows(X)).predict_proba(X)[:, 1].tolist()
    [0.0, 0.5, 1.0]
    """
    from sklearn.ensemble import VotingClassifier
    from sklearn.frozen import FrozenEstimator

    if not has_probabilities(full_fit):
        return full_fit
    names = ["own", *(f"member {1 + k}" for k in range(len(members)))]
    voters = [(name, FrozenEstimator(fit)) for name, fit in zip(names, [full_fit, *members], strict=True)]
    vote = VotingClassifier(voters, voting="soft", weights=[len(members), *(1 for _ in members)])
    # The voters are already fitted: this only sets the classes.
    vote.fit(X.select(np.arange(full_fit.classes_.size)).for_estimator(), full_fit.classes_)
    if (names_in := getattr(full_fit, "feature_names_in_", None)) is not None:
        vote.feature_names_in_ = names_in
    classifier: Classifier = vote
    return classifier


def member_margins(probabilities: Floats, voting: Bools | bool = True) -> Floats:
    """Return, by member and row, the probability of the committee's class minus that of the runner-up.

    `probabilities` has shape (members, rows, classes); `voting`, (members, rows), marks each row's committee.
    """
    _, n_rows, n_classes = probabilities.shape
    best = probabilities.mean(axis=0, where=np.asarray(voting)[..., None]).argmax(axis=1)
    top_probability = probabilities[:, np.arange(n_rows), best]
    return np.asarray(
        top_probability - np.where(np.arange(n_classes) == best[:, None], -np.inf, probabilities).max(axis=2)
    )


def compute_gaps(margins: Floats, voting: Bools | bool = True) -> Floats:
    """Return M²/(2·V) of each row, with M and V the mean and variance of its margin over its `voting`.

    Examples
    --------
    >>> import numpy as np
    >>> agreed, split = [[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]]
    >>> compute_gaps(member_margins(np.stack([agreed, split], axis=1))).round(2).tolist()
    [2.72, 0.01]
    """
    n_members = np.broadcast_to(voting, margins.shape).sum(axis=0)
    mean, variance = margins.mean(axis=0, where=voting), margins.var(axis=0, where=voting)
    variance = (n_members * variance + variance.mean()) / (n_members + 1)
    return np.asarray(np.maximum(mean, 0.0) ** 2 / (2.0 * np.maximum(variance, MARGIN_VARIANCE)))


def class_probabilities(fit: Classifier, X: Features) -> Floats:
    """Return class probabilities, or 1 for the predicted class if there are none."""
    if has_probabilities(fit):
        return np.asarray(fit.predict_proba(X), dtype=np.float64)
    return np.asarray(fit.predict(X)[:, None] == fit.classes_, dtype=np.float64)


def _forest_of(fit: Classifier) -> Any:
    """Return a forest, also if it is the last step of a pipeline; else None."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.pipeline import Pipeline

    last = fit[-1] if isinstance(fit, Pipeline) else fit
    return last if isinstance(last, ExtraTreesClassifier | RandomForestClassifier) else None

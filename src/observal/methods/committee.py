"""CommitteeVC: any scikit-learn classifier; asks where a committee is undecided: a forest's own trees, or bootstrap fits."""

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
from observal.methods.draw import Choice, draw, draw_plan, least_chance
from observal.methods.fitter import WeightedLabels
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.method import Classifier, Method, has_probabilities
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.rows import Features, Rows, count_rows, single_precision

COMMITTEE_ROWS = 4096  # rows that all members judge at once
# Floor for the variance of a margin in [−1, 1]: if all members agree, rows are ordered by their margin.
MARGIN_VARIANCE = 1e-12

Shares = Callable[[Features], Floats]
"""From rows to each member's share of each class: members × rows × classes."""


@dataclass(frozen=True, repr=False)
class CommitteeVC(Method[PoolState]):
    """Any classifier on clipped, tempered importance weights; asks where a committee is undecided.

    The committee of a random forest is its trees. That of any other classifier is a few more fits on bootstrap samples.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Its ``fit`` must take `sample_weight`: boosted trees, a calibrated model, or a pipeline whose last step takes it. It
        is cloned and never changed. If its `random_state` is None, a fixed one is used. If log and pool are tables, it is given their rows
        as they are: names, types, text and missing values.
    members : int
        How many bootstrap fits a committee has. A forest with at least as many trees needs none.
    batch, explore_share, gate_share
        How a round chooses; see ``Choice``.
    tempering : float
        Weights are raised to this power: 1 is the full correction, 0 none.
    clip_constant : float
        Takes the place of the log term in the paper's clip threshold, as C does in the paper's experiments; the larger, the
        more weights are clipped.

    Notes
    -----
    Each bootstrap member is fitted on as many rows drawn from the labelled ones, with replacement and in proportion to their
    weights (see ``resample``). The margin is the probability of the committee's class minus that of its strongest rival
    (votes, where there are no probabilities). With M its mean over members and V its variance, rows are ordered by
    ``gap(x) = M² / (2·V)``: ``NewtonVC``'s (w·x)² / (2·xᵀH⁻¹x) with the variance measured instead
    of read off a Hessian. V counts the average variance of all rows as one more member, because few members measure it
    badly. Equal gaps, of which trees have many, are ordered at random. The chance of a flip is Φ(−M/sqrt(V)). There is no
    rule like NewtonVC's `stop_below`, because trees also agree where none of them has seen any data.

    A forest, alone or as the last step of a pipeline, is returned as it was fitted. Otherwise a scikit-learn ``VotingClassifier`` is
    returned: half of its probability is that of one fit on all labelled rows, half the mean of the members', whose mistakes average out
    (see ``average``). A classifier without
    probabilities comes back as that one fit. A class of which no label is known is not among its ``classes_``.

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
        choice = self.choice  # it checks itself
        _weight_name(self.estimator)
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
        """How a round chooses."""
        return Choice(self.batch, self.explore_share, self.gate_share)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Return the initial state."""
        return PoolState.start(problem, CommitteeFitter(self, problem, problem.stack(), rng))

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round."""
        if not state.any_left(problem):
            return Stop()
        plan = draw_plan(draw(problem, state, self.choice, state.model.ranks[problem.n_logged :]), rng)
        ranks = state.model.unlabelled_ranks()
        near, gaps = (None, None) if ranks is None else as_near(plan, ranks, problem.n_logged)
        return replace(plan, near=near, near_gaps=gaps)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        return state.after(plan, answers, replace(state.fit, rng=rng))

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round as people see it."""
        model: CommitteeModel = state.model
        return state.as_round(
            estimator=model.estimator,
            clip=model.clip,
            disagreement=model.flips,
            least_chance=least_chance(problem, state, self.choice),
        )

    def intervals(self, problem: Problem, state: PoolState) -> dict[str, Interval]:
        """Return intervals for the error and, with two classes, more; see ``observal.intervals.error``."""
        return intervals_of(problem, state, state.model.judged_labels)

    def judged(self, problem: Problem, state: PoolState) -> JudgedRows | None:
        """Return the labelled rows as fits that have not seen them judge them."""
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
        estimator, shares = fit_committee(self.method, self.X.select(rows), y, weights, classes, self.rng)
        if shares is None:
            return CommitteeModel(self, state, estimator, self.rng.random(len(self.X)), 1.0, clip, None)
        gaps = gaps_of(shares, self.X)
        flips = float(ndtr(-np.sqrt(2.0 * gaps[self.problem.n_logged :])).mean())
        return CommitteeModel(self, state, estimator, rank(gaps, self.rng.random(gaps.size)), flips, clip, gaps)

    def labelled(self, state: PoolState) -> tuple[Ints, NDArray[Any], Floats, float]:
        """Return the labelled rows, their labels, their clipped and tempered weights with costs, and the clip threshold."""
        labels = WeightedLabels.of(self.problem, state, self.method.clip_constant)
        y = _plain(self.problem.logged.classes)[labels.codes]
        return labels.rows, y, labels.weights(self.method.tempering), labels.clip


@dataclass(frozen=True, eq=False)
class CommitteeModel:
    """The fit after a round."""

    fitter: CommitteeFitter = field(repr=False)
    state: PoolState = field(repr=False)
    estimator: Classifier
    ranks: Floats = field(repr=False)  # of each row's gap, equal gaps in random order
    flips: float  # the expected share of pool rows whose class more labels would change
    clip: float
    gaps: Floats | None = field(repr=False)  # None while all labels are the same

    @cached_property
    def judged_labels(self) -> JudgedLabels | None:
        """The labelled rows as committees that have not seen them judge them."""
        problem, X = self.fitter.problem, self.fitter.X
        classes = problem.logged.classes
        rows, y, weights, _ = self.fitter.labelled(self.state)

        def out_of_fold(train: Ints, test: Ints) -> tuple[Floats, Ints]:
            rng = np.random.default_rng(0)  # fixed, so that intervals are the same every time
            fit, _ = fit_committee(self.fitter.method, X.select(rows[train]), y[train], weights[train], classes, rng)
            return _scores(fit, X.select(rows[test]), classes)

        forest = self.unlabelled_ranks() is not None

        def gaps(before: PoolState, some: Ints) -> Floats | None:
            ranks = before.model.unlabelled_ranks() if forest else None
            return None if ranks is None else np.asarray(ranks[some])

        labels = judge_labels(
            problem,
            self.state,
            gaps,
            lambda some: _scores(self.estimator, X.select(some), classes),
            out_of_fold,
            folds=INTERVAL_FOLDS,
        )
        if labels is None:
            return None
        _, fewer = left_out(labels.codes, out_of_fold, COARSE_FOLDS, labels.cells.groups)
        wrong, now = fewer != labels.codes, labels.predicted != labels.codes
        return labels.allowing_for(wrong.astype(np.float64) - now)

    def unlabelled_ranks(self) -> Floats | None:
        """Return the rank of each row's gap, that of a labelled row as if its label were unknown.

        It is judged by the trees of a forest that have not seen it. None for other estimators: several more committees in each round
        would take too long. Among rows without a label the order is that of `ranks`.
        """
        rows, _, weights, _ = self.fitter.labelled(self.state)
        used = rows[weights > 0.0]
        trees = shares_of_trees(self.estimator, self.fitter.method.members)
        unseen = unseen_by_trees(self.estimator, used.size)
        if self.gaps is None or trees is None or unseen is None:
            return None
        gaps = self.gaps.copy()
        gaps[used] = gaps_of(trees, self.fitter.X.select(used), unseen)
        return rank(gaps, self.ranks)


def fit_committee(
    method: CommitteeVC,
    X: Rows,
    y: NDArray[Any],
    weights: Floats,
    classes: NDArray[Any],
    rng: np.random.Generator,
) -> tuple[Classifier, Shares | None]:
    """Return the classifier for the user, and the members' shares of rows; None while all labels are the same."""
    own = _fit_clone(method.estimator, X, y, weights, classes)
    if isinstance(own, ConstantClassifier):
        return own, None
    if (trees := shares_of_trees(own, method.members)) is not None:
        return own, trees
    members = []
    for member in range(method.members):
        sample = resample(weights, y, rng)
        members.append(
            _fit_clone(
                method.estimator, X.select(sample), y[sample], np.ones(sample.size), classes, random_state=1 + member
            )
        )
    return average(own, members, X), lambda rows: np.stack([class_shares(member, rows) for member in members])


def _fit_clone(
    estimator: Any, X: Rows, y: NDArray[Any], weights: Floats, classes: NDArray[Any], random_state: int = 0
) -> Any:
    """Fit a clone on the rows of positive weight, their weights scaled to a mean of 1."""
    from sklearn.base import clone

    used = weights > 0.0
    labels = np.unique(y[used])
    if labels.size < 2:
        return ConstantClassifier(classes, labels[0] if labels.size else _plain(classes)[0])
    fit = clone(estimator)
    unseeded = [name for name, value in fit.get_params().items() if _is_seed(name) and value is None]
    fit.set_params(**dict.fromkeys(unseeded, random_state))
    try:
        # Equal weights are left out, because scikit-learn's boosted trees are many times slower with them.
        equal = np.ptp(weights[used]) == 0.0
        weight_argument = {} if equal else {_weight_name(fit): weights[used] / weights[used].mean()}
        return fit.fit(X.select(np.flatnonzero(used)).for_estimator(), y[used], **weight_argument)
    except ValueError as error:
        given_as = "" if X.is_table else ", each an array of numbers without column names"
        raise InvalidInput(
            f"{type(fit).__name__} could not be fitted on {int(used.sum())} labelled rows{given_as} ({error}); choose an "
            "estimator that can, or begin with more labels."
        ) from error


def rank(gaps: Floats, ties: Floats) -> Floats:
    """Return the rank of each gap, equal ones in the order of `ties`."""
    ranks = np.empty(gaps.size)
    ranks[np.lexsort((ties, gaps))] = np.arange(gaps.size)
    return ranks


@dataclass(frozen=True, eq=False)
class ConstantClassifier:
    """The classifier that CommitteeVC returns while all labels are the same: it predicts that label for every row."""

    classes_: NDArray[Any] = field(repr=False)
    label: Any

    def predict(self, X: Features) -> NDArray[Any]:
        """Return the one class for each row."""
        return np.full(count_rows(X), self.label, dtype=np.asarray(self.label).dtype)

    def score(self, X: Features, y: ArrayLike) -> float:
        """Return the share of rows predicted right."""
        return float(np.mean(self.predict(X) == np.asarray(y)))


def _scores(fit: Classifier, rows: Rows, classes: NDArray[Any]) -> tuple[Floats, Ints]:
    """Return the lead of each row's predicted class, negative unless it is the last class, and the class code."""
    X = rows.for_estimator()
    predicted = np.argmax(np.asarray(fit.predict(X))[:, None] == _plain(classes), axis=1)
    if isinstance(fit, ConstantClassifier):
        return np.zeros(predicted.size), predicted
    shares = np.sort(class_shares(fit, X), axis=1)
    lead = shares[:, -1] - shares[:, -2]
    return np.where(predicted == len(classes) - 1, lead, -lead), predicted


def _plain(classes: NDArray[Any]) -> NDArray[Any]:
    """Return classes as a plain dtype instead of objects if possible, because scikit-learn needs it."""
    plain = np.asarray(classes.tolist())
    return plain if plain.shape == classes.shape and plain.tolist() == classes.tolist() else classes


def _is_seed(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")


def _weight_name(estimator: object) -> str:
    """Return the name under which ``fit`` takes weights; for a pipeline, that of its last step."""
    from sklearn.base import is_classifier
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import has_fit_parameter

    has_settings = callable(getattr(estimator, "get_params", None)) and not isinstance(estimator, type)
    if not has_settings or not is_classifier(estimator):
        raise InvalidInput(
            f"CommitteeVC needs a scikit-learn classifier, but got {estimator!r:.80}; give one such as "
            "HistGradientBoostingClassifier()."
        )
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{_weight_name(last)}"
    if not has_fit_parameter(estimator, "sample_weight"):
        raise InvalidInput(
            f"CommitteeVC needs a classifier whose fit takes sample_weight, but {type(estimator).__name__} does not; "
            "choose one that does."
        )
    return "sample_weight"


# -- the members: a forest's own trees, or bootstrap fits of any classifier -------------------------------------


def resample(weights: Floats, y: NDArray[Any], rng: np.random.Generator) -> Ints:
    """Return a bootstrap sample of positions, drawn in proportion to the weights, that keeps every class of `y`.

    A class of which no row was drawn keeps its heaviest row. Rows of weight 0 are never drawn.

    Examples
    --------
    >>> import numpy as np
    >>> sample = resample(np.array([1.0, 1.0, 0.0, 1e-9]), np.array([0, 0, 0, 1]), np.random.default_rng(0))
    >>> set(sample.tolist()) <= {0, 1, 3}, 3 in sample
    (True, True)
    """
    counts = rng.multinomial(weights.size, weights / weights.sum())
    for label in np.unique(y[weights > 0.0]):
        of_class = np.flatnonzero(y == label)
        if not counts[of_class].any():
            counts[of_class[np.argmax(weights[of_class])]] = 1
    return np.repeat(np.arange(weights.size), counts)


def shares_of_trees(fit: Classifier, least: int) -> Shares | None:
    """Return a function from rows to each tree's class shares; None if `fit` is no forest, or has fewer trees than `least`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(10, random_state=0).fit([[0.0], [1.0]], ["a", "b"])
    >>> shares_of_trees(forest, 8)(np.array([[0.2], [0.9], [0.3]])).shape
    (10, 3, 2)
    >>> shares_of_trees(forest, 50) is None
    True
    """
    from sklearn.pipeline import Pipeline

    prepare = fit[:-1].transform if isinstance(fit, Pipeline) and len(fit) > 1 else None
    forest = _forest_of(fit)
    if forest is None or len(forest.estimators_) < least:
        return None

    def shares(rows: Features) -> Floats:
        X = single_precision(rows if prepare is None else prepare(rows))
        return np.stack([tree.predict_proba(X, check_input=False) for tree in forest.estimators_])

    return shares


def unseen_by_trees(fit: Classifier, n_rows: int) -> Bools | None:
    """Return which of the rows that a forest was fitted on each of its trees has not seen: trees × rows.

    None where a row has fewer than two such trees: no forest, or one whose trees see every row.
    """
    forest = _forest_of(fit)
    if forest is None or not forest.bootstrap:
        return None
    unseen = np.ones((len(forest.estimators_), n_rows), dtype=bool)
    for of_tree, sample in zip(unseen, forest.estimators_samples_, strict=True):
        of_tree[sample] = False
    return unseen if unseen.sum(axis=0).min() >= 2 else None


def gaps_of(shares: Shares, X: Rows, unseen: Bools | None = None) -> Floats:
    """Return M²/(2·V) of all rows, a block at a time: the shares of all members and rows may not fit into memory.

    With `unseen` (members × rows) each row is judged by the members that it marks.
    """
    blocks = [np.arange(a, min(a + COMMITTEE_ROWS, len(X))) for a in range(0, len(X), COMMITTEE_ROWS)]
    margins = [
        margins_of(shares(X.select(block).for_estimator()), True if unseen is None else unseen[:, block])
        for block in blocks
    ]
    return certainty(np.concatenate(margins, axis=1), True if unseen is None else unseen)


def average(own: Classifier, members: list[Any], X: Rows) -> Classifier:
    """Return a classifier whose probabilities are half `own`'s and half the mean of the members'.

    `own` saw every row but follows each of them closely; the members' mean is smoother, but each member saw only two thirds of
    the rows. If `own` has no probabilities, it is returned as it is. `X` holds at least one row per class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from observal.problem.rows import as_rows
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> own, low, high = (DecisionTreeClassifier().fit(X, y) for y in ([0, 0, 1], [0, 1, 1], [0, 1, 1]))
    >>> average(own, [low, high], as_rows(X)).predict_proba(X)[:, 1].tolist()
    [0.0, 0.5, 1.0]
    """
    from sklearn.ensemble import VotingClassifier
    from sklearn.frozen import FrozenEstimator

    if not has_probabilities(own):
        return own
    names = ["own", *(f"member {1 + k}" for k in range(len(members)))]
    voters = [(name, FrozenEstimator(fit)) for name, fit in zip(names, [own, *members], strict=True)]
    vote = VotingClassifier(voters, voting="soft", weights=[len(members), *(1 for _ in members)])
    # The voters are fitted: this only tells it the classes.
    vote.fit(X.select(np.arange(own.classes_.size)).for_estimator(), own.classes_)
    if (names_in := getattr(own, "feature_names_in_", None)) is not None:
        vote.feature_names_in_ = names_in
    classifier: Classifier = vote
    return classifier


def margins_of(shares: Floats, judges: Bools | bool = True) -> Floats:
    """Return, for each member and row, the chance of the committee's class minus that of its strongest rival.

    `shares` has shape (members, rows, classes); `judges`, of shape (members, rows), says which members make up each row's committee.
    """
    _, n_rows, n_classes = shares.shape
    best = shares.mean(axis=0, where=np.asarray(judges)[..., None]).argmax(axis=1)
    of_best = shares[:, np.arange(n_rows), best]
    return np.asarray(of_best - np.where(np.arange(n_classes) == best[:, None], -np.inf, shares).max(axis=2))


def certainty(margins: Floats, judges: Bools | bool = True) -> Floats:
    """Return M²/(2·V) of each row, M being the mean and V the variance of its margin over the members, or over its `judges`.

    Examples
    --------
    >>> import numpy as np
    >>> agreed, split = [[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.2, 0.8]]
    >>> certainty(margins_of(np.stack([agreed, split], axis=1))).round(2).tolist()
    [2.72, 0.01]
    """
    n_members = np.broadcast_to(judges, margins.shape).sum(axis=0)
    mean, variance = margins.mean(axis=0, where=judges), margins.var(axis=0, where=judges)
    variance = (n_members * variance + variance.mean()) / (n_members + 1)
    return np.asarray(np.maximum(mean, 0.0) ** 2 / (2.0 * np.maximum(variance, MARGIN_VARIANCE)))


def class_shares(fit: Classifier, X: Features) -> Floats:
    """Return the probability of each class, or 1 for the class that is predicted."""
    if has_probabilities(fit):
        return np.asarray(fit.predict_proba(X), dtype=np.float64)
    return np.asarray(fit.predict(X)[:, None] == fit.classes_, dtype=np.float64)


def _forest_of(fit: Classifier) -> Any:
    """Return a forest, or the one that is the last step of a pipeline; None for anything else."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.pipeline import Pipeline

    last = fit[-1] if isinstance(fit, Pipeline) else fit
    return last if isinstance(last, ExtraTreesClassifier | RandomForestClassifier) else None

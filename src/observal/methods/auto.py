"""AutoVC: a good classifier of any kind from few labels; nothing to tune.

The method's settings and decisions come first, then its fit: the blend after a round and its pool predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from observal.checks import Floats, Ints, check_flag, check_number, check_share, check_whole, keep
from observal.errors import InvalidInput
from observal.intervals.error import JudgedLabels, Scores, intervals_of, judge_labels
from observal.intervals.recalibration import match_scores
from observal.intervals.state import PICKED, PoolState, as_near, taken_for_gap
from observal.intervals.thresholds import (
    FactorClassifier,
    Threshold,
    find_factors,
    find_threshold,
    score_of_last,
)
from observal.learners.blend import (
    Blend,
    BlendChoices,
    BlendFit,
    Odds,
    check_choices,
    check_learners,
    fit_blend,
    shift_odds,
    top_margin,
)
from observal.learners.blend_settings import LEARNERS
from observal.learners.folds import INTERVAL_FOLDS, plain_folds
from observal.learners.population import Population
from observal.methods.draw import (
    Choice,
    CodedChances,
    Draw,
    draw_plan,
    find_never_seen,
    find_open_and_passing,
    least_chance,
    prepare_draw,
)
from observal.methods.fitter import Fitter, WeightedLabels, cache_latest
from observal.methods.stream import StreamRule, StreamState, stream_plan
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.method import Method
from observal.problem.objectives import RARE, is_about_last
from observal.problem.plan import ASKED, Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.rows import Matrix, Rows

FIRST_BATCH = 10  # labels per round at first: small rounds pay off most while little is known
GROWTH = 4  # later, a quarter of the labels bought: always 10 was no better and takes twice the time
MIN_RANDOM_SHARE = {"accuracy": 0.0, "balanced": 0.25, "measure": 0.5}
"""The smallest share of a batch that is picked at random, by `priority`."""
MAX_BLIND_SHARE = {"accuracy": 0.5, "balanced": 0.75, "measure": 1.0}
"""The largest share of a batch that is picked at random in the log's blind spots, by `priority`."""
PRIOR_LABELS = 4.0  # pseudo-labels without surprise that the count of surprises starts with
UNCERTAIN_SHARE = 0.1  # on a stream, a row is uncertain if its margin is in this lowest share of the log's
REFERENCE_ROWS = 2000  # unlabelled rows used to put two fits' scores on the same scale
MANY_LABELS = 2000  # above this many labels, the blend's own folds are accurate enough


@dataclass(frozen=True)
class AutoVC(Method[PoolState]):
    """A blend of five learners; asks where its margin is smallest, and at random where the log has few labels.

    The blend is that of ``observal.BlendClassifier``: a linear, an additive and a kernel model, a forest and
    boosted trees, weighted by out-of-fold performance. Two classes or more. Sparse rows use the linear model only.

    Parameters
    ----------
    batch : int, optional
        Labels per round; by default 10 at first, and a quarter of the labels bought once that is more.
    explore_share, most_explore_share : float
        The smallest and the largest share of each batch that is spread evenly over the rows that pass the
        gate. The labels decide in between; see Notes.
    learners : tuple
        Any of "linear", "additive", "kernel", "forest" and "boosted" (by default all five), or pairs of
        another name and a scikit-learn classifier that takes weights.
    tempering : float
        Importance weights are raised to this power: 1 is the full correction, 0 none.
    clip : bool
        Whether to clip weights at the paper's threshold.
    clip_constant : float
        Replaces the log term of that threshold, like C in the paper's experiments.
    priority : {"accuracy", "balanced", "measure"}
        What labels are for: a good classifier ("accuracy"), a narrow interval for its error ("measure"), or
        both ("balanced"). "measure" picks at least half of each batch at random, "balanced" a quarter. Where the log
        never looked only bought labels can measure: if that is u of the pool (all of it without propensities), at
        least u/2 of a batch is picked at random, and at most (1 + u)/2 until 30 labels are there.
    order : {"pool", "stream"}
        Choose from the whole pool, or decide on each row as it arrives.

    Notes
    -----
    A row's margin is the probability of its predicted class minus that of the runner-up.

    **Choice.** With f the share picked at random and G the rows that pass the gate (2·n > m·Q0, n being the
    labels bought after this round), ``π(x) = (1 − f)·1{among the smallest margins} + f·batch/G·1{passes}``.
    Random picks are a fair sample of the rows for which the log has few labels. Before asking, the blend
    records for each row its prediction and the probability that this is wrong. f is by how much the error
    rate on random picks exceeds these probabilities, within limits. On an ordinary log that is about 0, so
    little is explored; if the log makes the blend confidently wrong, it is large, and exploring is worth it.

    **Objectives.** Recall, precision and costs need labels of the class that they are about. If the log says
    that less than a tenth of the rows belong to it, the likeliest rows are taken; otherwise those with the
    smallest margin at ½, whatever the threshold: near a low threshold, nearly all rows are of the other
    class. Random picks favour rows where the class is likely and the log has few labels (``neyman_weights``).

    **Kept choices.** The learners' weights and settings are retuned each time the number of labels has grown
    by half, and kept in between. The fit depends only on the labels and these choices.

    **Streams.** A row is uncertain if its margin is smaller than that of nine tenths of the log's rows; see
    ``stream_chances``. Uncertain rows are asked about whether or not they pass the gate. No row is used
    before its turn, not even to read how features are distributed.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
    >>> chance = np.where(X[:, 0] > 0, 0.5, 0.05)
    >>> shown = rng.random(300) < chance[:300]
    >>> logged = ob.LoggedData(X[:300], np.where(shown, y[:300], None), chance[:300])
    >>> pool = ob.Pool(X[300:], chance[300:])
    >>> result = ob.run(logged, pool, lambda ids: y[300:][ids], ob.AutoVC(), label_budget=40)
    >>> result.estimator.score(X, y) > 0.9
    True
    """

    batch: int | None = None
    explore_share: float = 0.1
    most_explore_share: float = 0.5
    learners: tuple[Any, ...] = LEARNERS
    tempering: float = 0.5
    clip: bool = True
    clip_constant: float = 4.0
    order: Literal["pool", "stream"] = "pool"
    priority: Literal["accuracy", "balanced", "measure"] = "accuracy"

    stops_early: ClassVar[bool] = True
    calibrated: ClassVar[bool] = True
    follows_objective: ClassVar[bool] = True
    by_parts: ClassVar[bool] = True
    pool_may_grow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.order not in ("pool", "stream"):
            raise InvalidInput(f'order must be "pool" or "stream", but is {self.order!r}.')
        if self.priority not in MIN_RANDOM_SHARE:
            raise InvalidInput(
                f"priority must be one of {', '.join(MIN_RANDOM_SHARE)}, but is {self.priority!r}; choose one of them."
            )
        keep(
            self,
            batch=None if self.batch is None else check_whole(self.batch, "batch", 1),
            explore_share=check_share(self.explore_share, "explore_share"),
            most_explore_share=check_share(self.most_explore_share, "most_explore_share"),
            tempering=check_number(self.tempering, "tempering", 0.0),
            clip=check_flag(self.clip, "clip"),
            clip_constant=check_number(self.clip_constant, "clip_constant", 0.0, open_low=True),
        )
        if self.explore_share > self.most_explore_share:
            raise InvalidInput(
                f"explore_share must be no larger than most_explore_share, but they are {self.explore_share} and "
                f"{self.most_explore_share}; correct one."
            )
        if self.learners != LEARNERS:  # this check imports scikit-learn
            check_learners(self.learners, weighted=True)

    @property
    def records_rounds(self) -> bool:
        """Whether intervals are cheap once a round is planned, so that they are recorded with it."""
        return self.order == "pool"

    @property
    def plans_ahead(self) -> bool:
        """Whether the next round can be chosen while one is open; a stream is taken in order."""
        return self.order == "pool"

    def choice(self, problem: Problem, state: PoolState) -> Choice:
        """Return how the round after this state chooses rows."""
        batch = self.batch if self.batch is not None else max(FIRST_BATCH, state.bought.size // GROWTH)
        # Where the log never looked only bought labels can measure, whatever they are for: half of the picks there are random.
        measure = MIN_RANDOM_SHARE["measure"] * find_never_seen(problem, state)
        least = max(self.explore_share, MIN_RANDOM_SHARE[self.priority], measure)
        share = explore_share(count_surprises(state), least, max(least, self.most_explore_share))
        blind = min(1.0, max(MAX_BLIND_SHARE[self.priority], MAX_BLIND_SHARE["accuracy"] + measure))
        return Choice(batch, share, 1.0, most_blind=blind)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Return the initial state."""
        state_class = StreamState if self.order == "stream" else PoolState
        return state_class.start(problem, AutoFitter.of(self, problem))

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round, and record the blend's predictions for them."""
        if not state.any_left(problem):
            return Stop()
        choice = self.choice(problem, state)
        if isinstance(state, StreamState):
            return self._stream_plan(problem, state, choice, rng)
        if state.model.blend.is_constant:
            chances = prepare_uniform_draw(problem, state, choice)
        else:  # rows that the gate holds back are only picked at random: their margins may be confidently wrong
            predictions, uncertain = state.model.pool_predictions, np.broadcast_to(np.False_, len(problem.pool))
            chances = prepare_draw(problem, state, choice, predictions.margins, uncertain, predictions.chances)
        plan = draw_plan(chances, rng)
        near, gaps = state.model.as_near(plan, state.labelled(problem)[0])
        return replace(self._with_guesses(problem, state, plan), near=near, near_gaps=gaps)

    def _stream_plan(self, problem: Problem, state: StreamState, choice: Choice, rng: np.random.Generator) -> Plan:
        """Go through the next rows (``stream_plan``), and record the blend's predictions for them."""
        rule = StreamRule(state.model.uncertain_margin, choice.batch, choice.explore_share, gate_share=0.0)
        return self._with_guesses(problem, state, stream_plan(rule, problem, state, rng))

    def _with_guesses(self, problem: Problem, state: PoolState, plan: Plan) -> Plan:
        """Return the plan with the blend's predictions for its rows."""
        guesses = state.model.blend.predict_details(problem.pool.rows.take(plan.positions))
        return replace(plan, inferred=guesses.codes, doubt=guesses.doubt)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        n_bought = state.bought.size + int(answers.answered.sum())
        return state.after(plan, answers, state.fit.after(state, n_bought))

    def estimator_of(self, problem: Problem, state: PoolState) -> Any:
        """Return the classifier to hand out, without predicting the pool."""
        return state.model.estimator

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round's public summary."""
        model, choice = state.model, self.choice(problem, state)
        blend = model.blend
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(blend.names, blend.theta, strict=True))
        return state.as_round(
            estimator=model.estimator,
            clip=model.clip,
            disagreement=model.disagreement,
            least_chance=choice.explore_share if self.order == "stream" else least_chance(problem, state, choice),
            learners=weights,
        )

    def intervals(self, problem: Problem, state: PoolState) -> dict[str, Interval]:
        """Return intervals for the error and, with two classes, more; see ``observal.intervals.error``.

        Held-out predictions come from blends refitted without a seventh of the labels. With more than 2,000
        labels the blend's own out-of-fold probabilities, which leave out a quarter, are close enough. The
        lower end for the error allows for the labels that these fits lack.
        """
        return intervals_of(problem, state, state.model.judged_labels)

    def near_of(self, problem: Problem, state: PoolState, plan: Plan, rows: Ints) -> Ints:
        """Return which of these pool rows the plan would have taken, had they been in the pool at the time."""
        asked = taken_for_gap(plan)
        stack_rows = problem.n_logged + np.concatenate([asked, rows])
        margins = state.model.unlabelled_margins(stack_rows, state.labelled(problem)[0])
        return np.asarray(rows[margins[asked.size :] <= margins[: asked.size].max(initial=-np.inf)])

    def judged(self, problem: Problem, state: PoolState) -> JudgedRows | None:
        """Return the labelled rows with held-out predictions."""
        labels = state.model.judged_labels
        return None if labels is None else labels.weighted()

    def stored_model(self, problem: Problem, state: PoolState) -> StoredBlend:
        """Return the blend to store, for ``recall``."""
        model: AutoModel = state.model
        refitted = model.__dict__.get("refitted", model.out_of_fold[:0])
        return StoredBlend(model.blend, model.out_of_fold, refitted, model.choices, state.fit.choices)

    def recall(self, problem: Problem, state: PoolState, record: StoredBlend) -> PoolState:
        """Return a state with a stored blend instead of a new one."""
        fit: AutoFitter = replace(state.fit, kept=record.kept)
        return state.with_model(fit, lambda same: fit.recall(same, record))


def prepare_uniform_draw(problem: Problem, state: PoolState, choice: Choice) -> Draw:
    """Return equal probabilities for all rows that pass the gate, for as long as the blend is constant."""
    open_, passing = find_open_and_passing(problem, state, choice)
    size = min(choice.batch, int(open_.sum()))
    chance = min(1.0, size / max(1, int(passing.sum())))
    no_rows = np.empty(0, dtype=np.int64)
    return Draw(CodedChances(passing.view(np.uint8), np.array([0.0, chance])), no_rows, no_rows)


class Surprises(NamedTuple):
    """Random picks so far: the number of labels, and how many more were mispredicted than expected.

    Both come from the plans, so nothing is refitted.
    """

    labels: int
    excess: float


def count_surprises(state: PoolState) -> Surprises:
    """Count the surprises up to this state."""
    labels, excess = 0, 0.0
    while state.before is not None and state.plan is not None:
        before, plan = state.before, state.plan
        if plan.doubt is not None:
            rows = np.flatnonzero(plan.action == ASKED)
            new_rows, codes = state.bought[before.bought.size :], state.codes[before.codes.size :]
            rows = rows[np.isin(plan.positions[rows], new_rows)]  # in label order, without skipped rows
            picked = np.isin(plan.reason[rows], PICKED)
            wrong = plan.inferred[rows] != codes
            labels += int(picked.sum())
            excess += float((wrong - plan.doubt[rows])[picked].sum())
        state = before
    return Surprises(labels, excess)


def explore_share(surprises: Surprises, least: float, most: float) -> float:
    """Return the share of a batch to pick at random: the excess error rate on random picks, within limits.

    Examples
    --------
    >>> explore_share(Surprises(0, 0.0), 0.1, 0.5)
    0.1
    >>> round(explore_share(Surprises(16, 7.0), 0.1, 0.5), 2)
    0.35
    """
    return float(np.clip(surprises.excess / (PRIOR_LABELS + surprises.labels), least, most))


# -- the fit ----------------------------------------------------------------------------------------------------


class PoolPredictions(NamedTuple):
    """Pool predictions: margins, probabilities of the positive class (with an objective), mean disagreement."""

    margins: Floats
    chances: Floats | None
    disagreement: float


@dataclass(frozen=True, eq=False)
class AutoFitter(Fitter[AutoVC, "AutoModel", PoolPredictions]):
    """Fits the blend.

    Parameters
    ----------
    population : Population
        What learners read from all rows, labelled or not.
    """

    population: Population = field(repr=False)

    @classmethod
    def of(cls, method: AutoVC, problem: Problem) -> Self:
        """Read scales, ranks and landmarks from log and pool; on a stream, from the log alone."""
        blocks = problem.blocks(method.order == "stream")
        population = Population.of(*blocks, groups=problem.column_groups)
        return cls(method, problem, cache_latest(predict_pool), population)

    def __call__(self, state: PoolState) -> AutoModel:
        """Fit on all labels."""
        choices: BlendChoices | None = self.choices
        labels = self._labels(state)
        X, weights = self.problem.take(labels.rows), labels.weights(self.method.tempering)
        blend, out_of_fold, new_choices = self._fit(X, labels.codes, weights, choices, labels.groups)
        return AutoModel(
            self.problem, self.method, blend, new_choices, out_of_fold, labels.clip, state, self.predict_pool
        )

    def recall(self, state: PoolState, record: StoredBlend) -> AutoModel:
        """Return the stored model, after checking that it can belong to the state's labels."""
        labels, classes = self._labels(state), self.problem.logged.classes
        left_out, refitted, theta = record.left_out, record.refitted, record.blend.theta
        for choices in (record.choices, record.kept):
            if choices is not None:
                check_choices(choices, classes.size)
        if (
            not np.array_equal(record.blend.classes_, classes)
            or left_out.shape != (labels.rows.size, classes.size)
            or refitted.shape not in (left_out.shape, (0, classes.size))
            or not all(((part >= 0.0) & (part <= 1.0)).all() for part in (left_out, refitted))
            or not ((theta >= 0.0).all() and abs(theta.sum() - 1.0) < 1e-9)
        ):
            raise InvalidInput("The stored blend is not that of these labels; use an undamaged copy.")
        # Take the scales from the population rather than trust the stored ones.
        blend = replace(record.blend, feature_map=self.population.feature_map)
        model = AutoModel(
            self.problem, self.method, blend, record.choices, left_out, labels.clip, state, self.predict_pool
        )
        model.__dict__.update({"refitted": refitted} if refitted.size else {})  # where the cached property stores it
        return model

    def refit(self, state: PoolState) -> Floats:
        """Return held-out probabilities of the labelled rows, by blends refitted without a seventh of them each.

        They reuse the weights and settings of the state's blend. If a threshold is chosen on them, their
        scores are put on its scale.
        """
        labels = self._labels(state)
        reference = state.model.reference_scores
        X, codes, weights = self.problem.take(labels.rows), labels.codes, labels.weights(self.method.tempering)
        choices: BlendChoices | None = state.model.choices
        fold_of = plain_folds(codes.size, INTERVAL_FOLDS, labels.groups)
        chances = np.empty((codes.size, self.problem.logged.classes.size))
        for fold in np.unique(fold_of):
            train, test = fold_of != fold, fold_of == fold
            groups = None if labels.groups is None else labels.groups[train]
            fit = self._fit(X[train], codes[train], weights[train], choices, groups)
            chances[test] = fit.blend.predict_proba(X[test])
            if reference is not None:
                fold_scores = score_of_last(fit.blend.predict_proba(reference.X))
                scores = match_scores(score_of_last(chances[test]), fold_scores, reference.scores)
                chances[test] = replace_last_scores(chances[test], scores)
        return chances

    def _labels(self, state: PoolState) -> WeightedLabels:
        return WeightedLabels.of(self.problem, state, self.method.clip_constant if self.method.clip else None)

    def _fit(
        self, X: Matrix, codes: Ints, weights: Floats, choices: BlendChoices | None, groups: Ints | None
    ) -> BlendFit:
        classes, learners = self.problem.logged.classes, self.method.learners
        return fit_blend(self.population, X, codes, weights, classes, learners, choices, groups)


class ReferenceScores(NamedTuple):
    """Unlabelled rows, and a blend's scores for them."""

    X: Matrix
    scores: Floats


def replace_last_scores(chances: Floats, scores: Floats) -> Floats:
    """Return probabilities with new scores (``score_of_last``) of the last class; the others keep their ratios.

    Examples
    --------
    >>> import numpy as np
    >>> replace_last_scores(np.array([[0.5, 0.5]]), np.log([9.0])).round(2).tolist()
    [[0.1, 0.9]]
    """
    out = chances.copy()
    out[:, -1] *= np.exp(scores - score_of_last(chances))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


class StoredBlend(NamedTuple):
    """What cannot be recomputed without a fit.

    The blend, its out-of-fold probabilities, the refitted ones if intervals were computed, the current
    choices, and those kept from an earlier state.
    """

    blend: Blend
    left_out: Floats
    refitted: Floats
    choices: BlendChoices | None
    kept: BlendChoices | None


@dataclass(frozen=True, eq=False)
class AutoModel:
    """The blend after a round.

    Parameters
    ----------
    problem : Problem
        Log and pool.
    method : AutoVC
        The settings.
    blend : Blend
        The fit.
    choices : BlendChoices, optional
        Weights and settings; None while all labels are the same.
    out_of_fold : array of shape (labelled rows, classes)
        Out-of-fold probabilities.
    clip : float
        The largest weight.
    state : PoolState
        The labels that it was fitted on.
    predict_pool : callable
        From a model to its pool predictions; see ``cache_latest``.
    """

    problem: Problem = field(repr=False)
    method: AutoVC
    blend: Blend
    choices: BlendChoices | None
    out_of_fold: Floats = field(repr=False)
    clip: float
    state: PoolState = field(repr=False)
    predict_pool: Callable[[AutoModel], PoolPredictions] = field(repr=False)

    @property
    def has_objective(self) -> bool:
        """Whether an objective sets the threshold."""
        return self.problem.goals.objective != "error" and not self.blend.is_constant

    @property
    def targets_last(self) -> bool:
        """Whether the objective is about the last class."""
        return self.has_objective and is_about_last(self.problem.goals.objective, self.blend.classes_.size)

    @cached_property
    def takes_likeliest(self) -> bool:
        """Whether to take the rows likeliest to be of the last class, because it is rare."""
        return float(self.problem.logged.class_shares()[-1]) < RARE

    def query_keys(self, chances: Floats) -> Floats:
        """Return the key by which rows are taken, smallest first, if the objective is about the last class."""
        return 1.0 - chances[:, -1] if self.takes_likeliest else np.abs(margin_of_last(chances))

    def _chances_of(self, rows: Ints) -> Floats:
        return self.blend.predict_proba(self.problem.take(rows))

    @property
    def reference_scores(self) -> ReferenceScores | None:
        """Scores of unlabelled rows, to put other fits on the same scale; None if no threshold depends on scores."""
        problem = self.problem
        if not self.targets_last:
            return None
        unlabelled = np.ones(problem.n_rows, dtype=bool)
        unlabelled[self.state.labelled(problem)[0]] = False
        rows = np.flatnonzero(unlabelled)
        if not rows.size:
            return None
        X = problem.take(np.sort(np.random.default_rng(0).choice(rows, min(rows.size, REFERENCE_ROWS), replace=False)))
        return ReferenceScores(X, score_of_last(self.blend.predict_proba(X)))

    @cached_property
    def threshold(self) -> Threshold:
        """The objective's score threshold for predicting the last class."""

        def scores_of(rows: Ints) -> Floats:
            return score_of_last(self._chances_of(rows))

        return find_threshold(self.problem, self.state, scores_of, score_of_last(self.refitted))

    @cached_property
    def odds(self) -> Odds:
        """The odds factor that moves the threshold to ½; with several classes, one factor each."""
        if not self.has_objective:
            return 1.0
        if not self.targets_last:
            return find_factors(self.problem, self.state, self._chances_of, self.refitted)
        factor, n_others = float(np.exp(-self.threshold.cut)), self.blend.classes_.size - 1
        return factor if n_others == 1 else np.append(np.ones(n_others), factor)

    @property
    def estimator(self) -> Any:
        """The classifier that is returned."""
        if not self.has_objective:
            return self.blend
        return (
            self.threshold.classifier(self.blend)
            if isinstance(self.odds, float)
            else FactorClassifier(self.blend, self.odds)
        )

    @cached_property
    def out_of_fold_margins(self) -> Floats:
        """The out-of-fold margin of each labelled row."""
        return self.query_keys(self.out_of_fold) if self.targets_last else top_margin(self.out_of_fold)[1]

    @cached_property
    def refitted(self) -> Floats:
        """Like `out_of_fold`, but from blends refitted without a seventh of the labels, unless there are many labels."""
        many = self.out_of_fold.shape[0] > MANY_LABELS
        return self.out_of_fold if many else np.asarray(self.state.fit.refit(self.state))

    @property
    def gains(self) -> Floats:
        """For each labelled row, how much likelier the full blend is to be right than the refitted ones.

        Leaving out a seventh instead of a quarter of the labels gains ``q(ŷ) − q(ŷ')`` on a row: q are the
        probabilities of the better fits, ŷ and ŷ' the two predictions. If errors fall as 1/n, the last
        seventh gains as much again. This does not use the labels themselves, so it adds little noise. With
        many labels it is 0, as both are the same.
        """
        chances, rows = self.refitted, np.arange(len(self.refitted))
        now, fewer = (shift_odds(part, self.odds).argmax(axis=1) for part in (chances, self.out_of_fold))
        return np.asarray(chances[rows, now] - chances[rows, fewer])

    def _scores(self, chances: Floats) -> Scores:
        chances = shift_odds(chances, self.odds)
        codes, margins = top_margin(chances)
        return (
            (margin_of_last(chances), codes) if self.targets_last else signed_margins(codes, margins, chances.shape[1])
        )

    @cached_property
    def judged_labels(self) -> JudgedLabels | None:
        """The labelled rows with held-out predictions, for intervals."""
        problem = self.problem

        def gaps(before: PoolState, rows: Ints) -> Floats:
            return np.asarray(before.model.unlabelled_margins(rows, before.labelled(problem)[0]))

        out_of_fold, threshold = self._scores(self.refitted), self.threshold if self.targets_last else None
        labels = judge_labels(
            problem, self.state, gaps, self.scores_of, out_of_fold, on_record=True, threshold=threshold
        )
        return None if labels is None else labels.allowing_for(self.gains)

    @property
    def pool_predictions(self) -> PoolPredictions:
        """The predictions for each pool row; on a stream, for each logged row."""
        return self.predict_pool(self)

    @property
    def uncertain_margin(self) -> float:
        """On a stream, the margin below which a row is uncertain; infinite while all labels are the same."""
        return np.inf if self.blend.is_constant else float(np.quantile(self.pool_predictions.margins, UNCERTAIN_SHARE))

    def gaps(self, X: Matrix | Rows) -> Floats:
        """Return the margin that each row is chosen by, whatever the threshold."""
        if self.targets_last:
            return self.query_keys(self.blend.predict_proba(X))
        return self.blend.predict_details(X).margins

    def unlabelled_margins(self, rows: Ints, labelled: Ints) -> Floats:
        """Return the margins of rows of log and pool, each as if its own label were unknown.

        Parameters
        ----------
        rows : int array
            Row numbers, as in ``Problem``.
        labelled : int array
            The rows that have a label, in the order of `out_of_fold`; they get their out-of-fold margins.
        """
        margins = self.gaps(self.problem.take(rows))
        if labelled.size:
            order = np.argsort(labelled)
            index = order[np.minimum(np.searchsorted(labelled, rows, sorter=order), order.size - 1)]
            has_label = labelled[index] == rows
            margins[has_label] = self.out_of_fold_margins[index[has_label]]
        return margins

    def as_near(self, plan: Plan, labelled: Ints) -> tuple[Ints | None, Floats | None]:
        """Return the rows with margins as small as those the plan takes, as ``Plan`` records them."""
        if self.problem.in_parts:
            return None, None  # would need a pass over a log that may be large; intervals use a sample instead
        log_margins = self.gaps(self.problem.logged.rows)
        margins = np.concatenate([log_margins, self.pool_predictions.margins])
        margins[labelled] = self.out_of_fold_margins
        return as_near(plan, margins, self.problem.n_logged)

    @cached_property
    def disagreement(self) -> float:
        """The mean weight of the learners that disagree with the blend, over the predicted rows."""
        return self.pool_predictions.disagreement

    def scores_of(self, rows: Ints) -> Scores:
        """Return scores and predicted classes of rows of log and pool."""
        if self.targets_last:
            return self._scores(self._chances_of(rows))
        codes, margins, *_ = self.blend.predict_details(self.problem.take(rows), self.odds)
        return signed_margins(codes, margins, self.blend.classes_.size)


def signed_margins(codes: Ints, margins: Floats, n_classes: int) -> Scores:
    """Return margins, positive where the last class is predicted and negative elsewhere, and the classes."""
    return np.where(codes == n_classes - 1, margins, -margins), codes


def margin_of_last(chances: Floats) -> Floats:
    """Return the probability of the last class minus that of its strongest rival.

    Examples
    --------
    >>> import numpy as np
    >>> margin_of_last(np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])).round(2).tolist()
    [-0.2, 0.7]
    """
    return np.asarray(chances[:, -1] - chances[:, :-1].max(axis=1))


def predict_pool(model: AutoModel) -> PoolPredictions:
    """Return a model's predictions for all pool rows; on a stream, for all logged rows."""
    rows = model.problem.logged.rows if model.method.order == "stream" else model.problem.pool.rows
    margins = np.empty(len(rows))
    chances = np.empty(len(rows) if model.targets_last else 0)
    disagreement, end = 0.0, 0
    for block in rows.map(model.blend.predict_block):
        begin, end = end, end + block.codes.size
        margins[begin:end] = model.query_keys(block.chances) if model.targets_last else block.margins
        if chances.size:
            chances[begin:end] = block.chances[:, -1]
        disagreement += float(block.disagreement.sum())
    return PoolPredictions(margins, chances if chances.size else None, disagreement / max(1, end))

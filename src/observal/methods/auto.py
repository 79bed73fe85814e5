"""AutoVC: few labels for a good classifier of whatever kind, chosen from a pool; nothing to tune.

The method's settings and decisions come first, then its fit: the blend after a round, and its predictions for the pool.
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
    lead,
    shift_odds,
)
from observal.learners.blend_settings import LEARNERS, SHORTLIST
from observal.learners.extra_learners import require_learners
from observal.learners.folds import INTERVAL_FOLDS, plain_folds
from observal.learners.population import Population
from observal.methods.draw import Chances, Choice, Draw, draw, draw_plan, least_chance, open_and_passing
from observal.methods.fitter import Fitter, WeightedLabels, remember_latest
from observal.methods.stream import StreamRule, StreamState, stream_plan
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.method import Method
from observal.problem.objectives import RARE, is_about_last
from observal.problem.plan import ASKED, Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import Round
from observal.problem.rows import Matrix, Rows

FIRST_BATCH = 10  # labels of the first rounds: small ones gain most while little is known
GROWTH = 4  # later rounds have a quarter of the labels bought: a constant 10 was no better and takes twice the time
MEASURING = {"accuracy": 0.0, "balanced": 0.25, "measure": 0.5}
"""The least share of a batch that is picked at random, by what labels are for."""
MOST_BLIND = {"accuracy": 0.5, "balanced": 0.75, "measure": 1.0}
"""The largest share of a batch that is picked at random where the log is blind, by what labels are for."""
PRIOR = 4.0  # labels that the record of surprises begins with, none of them a surprise
UNCERTAIN_SHARE = 0.1  # share of the log's rows: on a stream, rows with leads as small as theirs are uncertain
MATCHED_ROWS = 2000  # unlabelled rows by which the scores of two fits are compared
MANY_LABELS = 2000  # labels from which on the blend's own folds are close enough


@dataclass(frozen=True)
class AutoVC(Method[PoolState]):
    """A blend of five kinds of learners; asks where its lead is smallest, and at random where the log has few labels.

    The blend is ``observal.BlendClassifier``'s: a linear, an additive and a kernel model, a forest and boosted trees, weighted by how
    well each predicts labels that it has not seen. Two classes or more. Sparse rows have the linear model only.

    Parameters
    ----------
    batch : int, optional
        Labels per round; by default 10 in the first rounds, and a quarter of the labels bought once that is more.
    explore_share, most_explore_share : float
        The least and the most of each batch that is spread evenly over the rows that pass the gate. In between the
        labels decide: see Notes.
    learners : tuple
        Some of "linear", "additive", "kernel", "forest" and "boosted", by default all of these, "catboost" and "tabicl" (each an extra), or pairs of another name
        and a scikit-learn classifier. With "slow" as a third item, as in ``("mine", classifier, "slow")``, and for "tabicl", the others choose a shortlist of
        1,000 pool rows in each round, and only these are shown to it.
    tempering : float
        Importance weights are raised to this power: 1 is the full correction, 0 none.
    clip : bool
        Whether weights are cut at the paper's threshold.
    clip_constant : float
        Stands for the log term of that threshold, as C in the paper's experiments.
    priority : {"accuracy", "balanced", "measure"}
        What labels are for: a good classifier ("accuracy"), a narrow interval around its error ("measure"), or both. "measure" picks at
        least half of each batch at random, "balanced" a quarter.
    order : {"pool", "stream"}
        Whether the whole pool is there to choose from, or its rows arrive one by one and each is decided on at once.

    Notes
    -----
    **Choice.** With f the share picked at random and G the rows that pass the gate (2·n > m·Q0, n the labels bought with this batch),
    ``π(x) = (1 − f)·1{among the smallest leads} + f·batch/G·1{passes}``. Rows picked at random are a fair sample of the rows for which
    the log has few labels. Before it asks, the blend notes for each row its guess and the chance that this is wrong. f is how
    much more often guesses on rows picked at random are wrong than these chances say, within limits. On an ordinary log that is about
    0, so little is explored; if the log makes the blend confidently wrong, it is large, and exploring is worth it.

    **Objectives.** Recall, precision and costs need labels of the class that they are about. While the log says that less than a tenth of the rows belong to it, rows
    are taken that most likely do, and otherwise those with the smallest lead at ½, whatever the threshold: rows at a low threshold are nearly all of the
    other class. Those picked at random are rather picked where the class is likely and the log has few labels
    (``measuring_weights``).

    **Kept choices.** Weights of the learners and their settings are chosen again each time the number of labels
    has grown by half, and kept in between. The fit is a function of the labels and of these choices alone.

    **Streams.** A row is uncertain if its lead is smaller than that of nine tenths of the log's rows; see
    ``stream_chances``. Uncertain rows are asked about whether they pass the gate or not. No row is looked
    at before its turn, not even to see how features are spread.

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
        if self.priority not in MEASURING:
            raise InvalidInput(
                f"priority must be one of {', '.join(MEASURING)}, but is {self.priority!r}; choose one of them."
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
        if self.learners != LEARNERS:  # checking others needs scikit-learn
            check_learners(self.learners)

    @property
    def records_rounds(self) -> bool:
        """Whether intervals cost little once a round is planned, so that they are recorded with it."""
        return self.order == "pool"

    @property
    def plans_ahead(self) -> bool:
        """Whether the next rows can be chosen while a round is open; a stream is taken in order."""
        return self.order == "pool"

    def choice(self, state: PoolState) -> Choice:
        """Return how the round after a state chooses."""
        batch = self.batch if self.batch is not None else max(FIRST_BATCH, state.bought.size // GROWTH)
        least = max(self.explore_share, MEASURING[self.priority])
        share = explore_share(count_surprises(state), least, max(least, self.most_explore_share))
        blind = MOST_BLIND[self.priority]
        return Choice(batch, share, 1.0, most_blind=blind)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Return the initial state."""
        kind = StreamState if self.order == "stream" else PoolState
        return kind.start(problem, AutoFitter.of(self, problem))

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round, and note what the blend thinks of them."""
        if not state.any_left(problem):
            return Stop()
        choice = self.choice(state)
        if isinstance(state, StreamState):
            return self._stream_plan(problem, state, choice, rng)
        if state.model.blend.is_constant:
            chances = draw_at_random(problem, state, choice)
        else:  # rows behind the gate are only picked at random: their leads may be confidently wrong
            predictions, uncertain = state.model.pool_predictions, np.broadcast_to(np.False_, len(problem.pool))
            chances = draw(problem, state, choice, predictions.margins, uncertain, predictions.chances)
        plan = draw_plan(chances, rng)
        near, gaps = state.model.as_near(plan, state.labelled(problem)[0])
        return replace(self._with_guesses(problem, state, plan), near=near, near_gaps=gaps)

    def _stream_plan(self, problem: Problem, state: StreamState, choice: Choice, rng: np.random.Generator) -> Plan:
        """Look at the next rows, as ``stream_plan`` says, and note what the blend thinks of them."""
        rule = StreamRule(state.model.uncertain_lead, choice.batch, choice.explore_share, gate_share=0.0)
        return self._with_guesses(problem, state, stream_plan(rule, problem, state, rng))

    def _with_guesses(self, problem: Problem, state: PoolState, plan: Plan) -> Plan:
        """Return a plan with what the blend thinks of its rows."""
        guesses = state.model.blend.judge(problem.pool.rows.take(plan.positions))
        return replace(plan, inferred=guesses.codes, doubt=guesses.doubt)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        n_bought = state.bought.size + int(answers.answered.sum())
        return state.after(plan, answers, state.fit.after(state, n_bought))

    def estimator_of(self, problem: Problem, state: PoolState) -> Any:
        """Return the classifier of a state without looking at the pool."""
        return state.model.estimator

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round as people see it."""
        model, choice = state.model, self.choice(state)
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

        Labelled rows are judged by blends fitted without a seventh of the labels. With more than 2,000 labels the out-of-fold chances
        that the blend has anyway are close enough: they leave a quarter out. The lower end for the error allows for the labels that these fits lack.
        """
        return intervals_of(problem, state, state.model.judged_labels)

    def near_of(self, problem: Problem, state: PoolState, plan: Plan, rows: Ints) -> Ints:
        """Return those of some pool rows that a plan would have taken, had they been in the pool when it was made in a state."""
        asked = taken_for_gap(plan)
        stack_rows = problem.n_logged + np.concatenate([asked, rows])
        leads = state.model.unlabelled_leads(stack_rows, state.labelled(problem)[0])
        return np.asarray(rows[leads[asked.size :] <= leads[: asked.size].max(initial=-np.inf)])

    def judged(self, problem: Problem, state: PoolState) -> JudgedRows | None:
        """Return the labelled rows as fits that have not seen them judge them."""
        labels = state.model.judged_labels
        return None if labels is None else labels.weighted()

    def stored_model(self, problem: Problem, state: PoolState) -> StoredBlend:
        """Return the blend for ``recall``."""
        model: AutoModel = state.model
        refitted = model.__dict__.get("refitted", model.left_out[:0])
        return StoredBlend(model.blend, model.left_out, refitted, model.choices, state.fit.choices)

    def recall(self, problem: Problem, state: PoolState, record: StoredBlend) -> PoolState:
        """Return a state with the blend of a record."""
        fit: AutoFitter = replace(state.fit, kept=record.kept)
        return state.with_model(fit, lambda same: fit.recall(same, record))


def draw_at_random(problem: Problem, state: PoolState, choice: Choice) -> Draw:
    """Return equal chances for all rows that pass the gate: what is left while the blend says the same of every row."""
    open_, passing = open_and_passing(problem, state, choice)
    size = min(choice.batch, int(open_.sum()))
    chance = min(1.0, size / max(1, int(passing.sum())))
    no_rows = np.empty(0, dtype=np.int64)
    return Draw(Chances(passing.view(np.uint8), np.array([0.0, chance])), no_rows, no_rows)


class Surprises(NamedTuple):
    """Labels of rows picked at random: how many, and how many more wrong guesses among them than the blend expected.

    The blend's guesses and doubts are in the plans, so nothing is fitted again to count them.
    """

    labels: int
    excess: float


def count_surprises(state: PoolState) -> Surprises:
    """Count the surprises up to a state."""
    labels, excess = 0, 0.0
    while state.before is not None and state.plan is not None:
        before, plan = state.before, state.plan
        if plan.doubt is not None:
            rows = np.flatnonzero(plan.action == ASKED)
            new, codes = state.bought[before.bought.size :], state.codes[before.codes.size :]
            rows = rows[np.isin(plan.positions[rows], new)]  # in the order of the labels: skipped rows drop out
            picked = np.isin(plan.reason[rows], PICKED)
            wrong = plan.inferred[rows] != codes
            labels += int(picked.sum())
            excess += float((wrong - plan.doubt[rows])[picked].sum())
        state = before
    return Surprises(labels, excess)


def explore_share(surprises: Surprises, least: float, most: float) -> float:
    """Return the share of a batch to pick at random: wrong guesses beyond the expected ones, for each label, within limits.

    Examples
    --------
    >>> explore_share(Surprises(0, 0.0), 0.1, 0.5)
    0.1
    >>> round(explore_share(Surprises(16, 7.0), 0.1, 0.5), 2)
    0.35
    """
    return float(np.clip(surprises.excess / (PRIOR + surprises.labels), least, most))


# -- the fit ----------------------------------------------------------------------------------------------------


class PoolPredictions(NamedTuple):
    """A blend's predictions for all pool rows: each row's lead, with an objective its chance of being positive, and the mean disagreement."""

    margins: Floats
    chances: Floats | None
    disagreement: float


@dataclass(frozen=True, eq=False)
class AutoFitter(Fitter[AutoVC, "AutoModel", PoolPredictions]):
    """Fits the blend.

    Parameters
    ----------
    population : Population
        What learners read from all their rows.
    """

    population: Population = field(repr=False)

    @classmethod
    def of(cls, method: AutoVC, problem: Problem) -> Self:
        """Read scales, ranks and landmarks from log and pool; on a stream, from the log alone."""
        require_learners(method.learners)
        blocks = problem.blocks(method.order == "stream")
        population = Population.of(*blocks, groups=problem.column_groups)
        return cls(method, problem, remember_latest(judge_pool), population)

    def __call__(self, state: PoolState) -> AutoModel:
        """Fit on all labels."""
        choices: BlendChoices | None = self.choices
        labels = self._labels(state)
        X, weights = self.problem.take(labels.rows), labels.weights(self.method.tempering)
        blend, out_of_fold, new_choices = self._fit(X, labels.codes, weights, choices, labels.groups)
        return AutoModel(
            self.problem, self.method, blend, new_choices, out_of_fold, labels.clip, state, self.judge_pool
        )

    def recall(self, state: PoolState, record: StoredBlend) -> AutoModel:
        """Return the model of a record, if it may be that of the state's labels."""
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
        # Its own scales are those of the population, or they are wrong.
        blend = replace(record.blend, feature_map=self.population.feature_map)
        model = AutoModel(
            self.problem, self.method, blend, record.choices, left_out, labels.clip, state, self.judge_pool
        )
        model.__dict__.update({"refitted": refitted} if refitted.size else {})  # where the cached property keeps it
        return model

    def refit(self, state: PoolState) -> Floats:
        """Return the chances of each labelled row by whole blends fitted without its seventh of the labels.

        They have the weights and settings of the state's own blend. If a threshold is chosen from them, their scores are put on its scale.
        """
        labels = self._labels(state)
        matched = state.model.scores_to_match
        X, codes, weights = self.problem.take(labels.rows), labels.codes, labels.weights(self.method.tempering)
        choices: BlendChoices | None = state.model.choices
        fold_of = plain_folds(codes.size, INTERVAL_FOLDS, labels.groups)
        chances = np.empty((codes.size, self.problem.logged.classes.size))
        for fold in np.unique(fold_of):
            train, test = fold_of != fold, fold_of == fold
            groups = None if labels.groups is None else labels.groups[train]
            fit = self._fit(X[train], codes[train], weights[train], choices, groups)
            chances[test] = fit.blend.predict_proba(X[test])
            if matched is not None:
                own = score_of_last(fit.blend.predict_proba(matched.X))
                scores = match_scores(score_of_last(chances[test]), own, matched.scores)
                chances[test] = with_scores(chances[test], scores)
        return chances

    def _labels(self, state: PoolState) -> WeightedLabels:
        return WeightedLabels.of(self.problem, state, self.method.clip_constant if self.method.clip else None)

    def _fit(
        self, X: Matrix, codes: Ints, weights: Floats, choices: BlendChoices | None, groups: Ints | None
    ) -> BlendFit:
        classes, learners = self.problem.logged.classes, self.method.learners
        return fit_blend(self.population, X, codes, weights, classes, learners, choices, groups)


class MatchedRows(NamedTuple):
    """Rows, and a blend's scores for them."""

    X: Matrix
    scores: Floats


def with_scores(chances: Floats, scores: Floats) -> Floats:
    """Return chances with other scores of the last class (``score_of_last``); those of the other classes keep their proportions.

    Examples
    --------
    >>> import numpy as np
    >>> with_scores(np.array([[0.5, 0.5]]), np.log([9.0])).round(2).tolist()
    [[0.1, 0.9]]
    """
    out = chances.copy()
    out[:, -1] *= np.exp(scores - score_of_last(chances))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


class StoredBlend(NamedTuple):
    """What cannot be computed again without a fit.

    The blend; chances of the labelled rows by fits without a quarter of them, and without a seventh if intervals were computed; what was
    chosen, and what was kept of an earlier choice.
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
    left_out : array of shape (labelled rows, classes)
        The chances of each labelled row by fits that have not seen it.
    clip : float
        The largest weight.
    state : PoolState
        The labels that it is fitted on.
    judge_pool : callable
        From a model to its predictions for the pool; see ``remember_latest``.
    """

    problem: Problem = field(repr=False)
    method: AutoVC
    blend: Blend
    choices: BlendChoices | None
    left_out: Floats = field(repr=False)
    clip: float
    state: PoolState = field(repr=False)
    judge_pool: Callable[[AutoModel], PoolPredictions] = field(repr=False)

    @property
    def follows(self) -> bool:
        """Whether its threshold is chosen for an objective."""
        return self.problem.goals.objective != "error" and not self.blend.is_constant

    @property
    def finds_last(self) -> bool:
        """Whether its objective is about the last class."""
        return self.follows and is_about_last(self.problem.goals.objective, self.blend.classes_.size)

    @cached_property
    def takes_likeliest(self) -> bool:
        """Whether rows are taken that most likely are of the last class, because it is rare."""
        return float(self.problem.logged.class_shares()[-1]) < RARE

    def gaps_to_last(self, chances: Floats) -> Floats:
        """Return by how much each row is not one to take, where the objective is about the last class."""
        return 1.0 - chances[:, -1] if self.takes_likeliest else np.abs(lead_of_last(chances))

    def _chances_of(self, rows: Ints) -> Floats:
        return self.blend.predict_proba(self.problem.take(rows))

    @property
    def scores_to_match(self) -> MatchedRows | None:
        """Rows without a label and their scores, to compare other fits with; None where no threshold depends on scores."""
        problem = self.problem
        if not self.finds_last:
            return None
        unlabelled = np.ones(problem.n_rows, dtype=bool)
        unlabelled[self.state.labelled(problem)[0]] = False
        rows = np.flatnonzero(unlabelled)
        if not rows.size:
            return None
        X = problem.take(np.sort(np.random.default_rng(0).choice(rows, min(rows.size, MATCHED_ROWS), replace=False)))
        return MatchedRows(X, score_of_last(self.blend.predict_proba(X)))

    @cached_property
    def threshold(self) -> Threshold:
        """From which score on a row is of the last class, where an objective decides that."""

        def scores_of(rows: Ints) -> Floats:
            return score_of_last(self._chances_of(rows))

        return find_threshold(self.problem, self.state, scores_of, score_of_last(self.refitted))

    @cached_property
    def odds(self) -> Odds:
        """The factor of the odds that moves the threshold to ½; with several classes, one for each."""
        if not self.follows:
            return 1.0
        if not self.finds_last:
            return find_factors(self.problem, self.state, self._chances_of, self.refitted)
        factor, n_others = float(np.exp(-self.threshold.cut)), self.blend.classes_.size - 1
        return factor if n_others == 1 else np.append(np.ones(n_others), factor)

    @property
    def estimator(self) -> Any:
        """The classifier that is returned."""
        if not self.follows:
            return self.blend
        return (
            self.threshold.classifier(self.blend)
            if isinstance(self.odds, float)
            else FactorClassifier(self.blend, self.odds)
        )

    @cached_property
    def left_out_leads(self) -> Floats:
        """The lead of each labelled row, by fits that have not seen it."""
        return self.gaps_to_last(self.left_out) if self.finds_last else lead(self.left_out)[1]

    @cached_property
    def refitted(self) -> Floats:
        """As `left_out`, but by whole blends fitted without a seventh of the labels, unless there are many labels."""
        many = self.left_out.shape[0] > MANY_LABELS
        return self.left_out if many else np.asarray(self.state.fit.refit(self.state))

    @property
    def gains(self) -> Floats:
        """For each labelled row, how much more often the blend may be right than the fits without a seventh of the labels.

        These fits are better than those without a quarter of the labels, by ``q(ŷ) − q(ŷ')`` on a row: q are the chances of the former, ŷ and ŷ' what
        the two predict. If errors fall as 1/n, the last seventh gains as much again. Labels themselves are not used, so this adds little noise.
        With many labels it is 0: there is only one kind of fits then.
        """
        chances, rows = self.refitted, np.arange(len(self.refitted))
        now, fewer = (shift_odds(part, self.odds).argmax(axis=1) for part in (chances, self.left_out))
        return np.asarray(chances[rows, now] - chances[rows, fewer])

    def _scores(self, chances: Floats) -> Scores:
        chances = shift_odds(chances, self.odds)
        codes, margins = lead(chances)
        return (lead_of_last(chances), codes) if self.finds_last else signed_leads(codes, margins, chances.shape[1])

    @cached_property
    def judged_labels(self) -> JudgedLabels | None:
        """The labelled rows as intervals judge them."""
        problem = self.problem

        def gaps(before: PoolState, rows: Ints) -> Floats:
            return np.asarray(before.model.unlabelled_leads(rows, before.labelled(problem)[0]))

        out_of_fold, threshold = self._scores(self.refitted), self.threshold if self.finds_last else None
        labels = judge_labels(
            problem, self.state, gaps, self.scores_of, out_of_fold, on_record=True, threshold=threshold
        )
        return None if labels is None else labels.allowing_for(self.gains)

    @property
    def pool_predictions(self) -> PoolPredictions:
        """The predictions for each pool row; on a stream, for each row of the log."""
        return self.judge_pool(self)

    @property
    def uncertain_lead(self) -> float:
        """On a stream, the lead below which a row is uncertain; while all labels are the same, every row is."""
        return np.inf if self.blend.is_constant else float(np.quantile(self.pool_predictions.margins, UNCERTAIN_SHARE))

    def gaps(self, X: Matrix | Rows, blend: Blend | None = None) -> Floats:
        """Return the lead of each row, by all learners or by a blend of some: rows are chosen by it, whatever the threshold."""
        blend = blend or self.blend
        return self.gaps_to_last(blend.predict_proba(X)) if self.finds_last else blend.judge(X).margins

    def unlabelled_leads(self, rows: Ints, labelled: Ints) -> Floats:
        """Return the lead of rows of the stack of log and pool, each as if its own label were unknown.

        Parameters
        ----------
        rows : int array
            The rows.
        labelled : int array
            The rows that had a label, in the order of `left_out`: their leads are those of fits that have not seen it.
        """
        leads = self.gaps(self.problem.take(rows))
        if labelled.size:
            order = np.argsort(labelled)
            place = order[np.minimum(np.searchsorted(labelled, rows, sorter=order), order.size - 1)]
            has_label = labelled[place] == rows
            leads[has_label] = self.left_out_leads[place[has_label]]
        return leads

    def as_near(self, plan: Plan, labelled: Ints) -> tuple[Ints | None, Floats | None]:
        """Return the rows with leads as small as those that a plan takes for their leads, as ``Plan`` records them."""
        if self.problem.in_parts:
            return None, None  # one more pass over a log that may be large; intervals judge a sample again
        of_log = self.gaps(self.problem.logged.rows, self.blend.fast)
        leads = np.concatenate([of_log, self.pool_predictions.margins])
        leads[labelled] = self.left_out_leads
        return as_near(plan, leads, self.problem.n_logged)

    @cached_property
    def disagreement(self) -> float:
        """The mean weight, over the judged rows, of the learners that say another class than the blend."""
        return self.pool_predictions.disagreement

    def scores_of(self, rows: Ints) -> Scores:
        """Return score and predicted class of rows of the stack of log and pool."""
        if self.finds_last:
            return self._scores(self._chances_of(rows))
        codes, margins, *_ = self.blend.judge(self.problem.take(rows), self.odds)
        return signed_leads(codes, margins, self.blend.classes_.size)


def signed_leads(codes: Ints, margins: Floats, n_classes: int) -> Scores:
    """Return how far each row is on the side of the last class, and its class."""
    return np.where(codes == n_classes - 1, margins, -margins), codes


def lead_of_last(chances: Floats) -> Floats:
    """Return by how much the last class leads its strongest rival; below 0 where that leads.

    Examples
    --------
    >>> import numpy as np
    >>> lead_of_last(np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])).round(2).tolist()
    [-0.2, 0.7]
    """
    return np.asarray(chances[:, -1] - chances[:, :-1].max(axis=1))


def judge_pool(model: AutoModel) -> PoolPredictions:
    """Return a model's predictions for all pool rows; on a stream, for the log's.

    Learners that are slow to predict see only a shortlist of the pool: the rows without a label on which the others lead least.
    """
    is_stream = model.method.order == "stream"
    rows = model.problem.logged.rows if is_stream else model.problem.pool.rows
    blend = model.blend if is_stream else model.blend.fast
    margins = np.empty(len(rows))
    chances = np.empty(len(rows) if model.finds_last else 0)
    disagreement, end = 0.0, 0
    for block in rows.map(blend.judge_block):
        begin, end = end, end + block.codes.size
        margins[begin:end] = model.gaps_to_last(block.chances) if model.finds_last else block.margins
        if chances.size:
            chances[begin:end] = block.chances[:, -1]
        disagreement += float(block.disagreement.sum())
    if blend is not model.blend:
        some = shortlist(margins, np.concatenate([model.state.bought, model.state.skipped]))
        judged = model.blend.judge(rows.take(some))
        margins[some] = model.gaps_to_last(judged.chances) if model.finds_last else judged.margins
        if chances.size:
            chances[some] = judged.chances[:, -1]
    return PoolPredictions(margins, chances if chances.size else None, disagreement / max(1, end))


def shortlist(margins: Floats, closed: Ints) -> Ints:
    """Return the rows with the smallest leads, at most `SHORTLIST`, without those that need no label any more, in order.

    Examples
    --------
    >>> shortlist(np.array([0.3, 0.1, 0.2]), np.array([1])).tolist()
    [0, 2]
    """
    leads = margins.copy()
    leads[closed] = np.inf
    n = min(SHORTLIST, leads.size - np.unique(closed).size)
    return np.sort(np.argsort(leads, kind="stable")[:n])

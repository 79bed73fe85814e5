"""NewtonVC: a linear classifier from few labels; asks for the rows whose predicted sign flips most easily.

The method's settings and decisions come first, then its fits, then the comparison with the log-only classifier.

**Two fits.** The query fit decides what to ask: flip gaps and the stopping rule come from it. The output fit
starts from the query fit and up-weights rows near the boundary; it is returned, and the intervals are about
it. Using the output fit for queries as well was no better.

**The log-only classifier.** More labels can make a linear model worse: a few distant rows that it cannot fit
pull its boundary away. So the last classifier is compared with that of round 0, which saw the log alone, on
held-out predictions for all labelled rows. With w_i the share of the population that row i represents and
``d_i = 1{the last is wrong} − 1{the earlier is wrong}``, the last one's error is higher by ``D = Σ w_i·d_i``.
With d̄_c the mean of a cell with n_c labels, and N the rows of log and pool, the standard error of D is 1.1
times the root of ``Σ w_i²·(d_i − d̄_c)²·n_c/(n_c − 1) + Σ w_i·(d̄_c − D)²/N``. The earlier classifier is
returned if D is above 0 with a one-sided confidence of 97.5 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from observal.checks import Bools, Floats, Ints, check_flag, check_number, keep
from observal.errors import InvalidInput
from observal.intervals.cells import Cells
from observal.intervals.error import JudgedLabels, Scores, intervals_of, judge_labels, left_out
from observal.intervals.related import merge_groups
from observal.intervals.state import PoolState
from observal.intervals.thresholds import Threshold, find_threshold, label_cells
from observal.learners.blend_settings import MIN_REMAINDER, TUNING_ROWS, TYPICAL_ROWS
from observal.learners.features import FeatureMap
from observal.learners.folds import FINE_FOLDS
from observal.learners.newton_fit import NewtonFit
from observal.learners.tuned_logistic import RIDGES, TunedRidge, fit_logistic, leverages, near_boundary, tune
from observal.methods.draw import Choice, draw_plan, least_chance, prepare_draw
from observal.methods.fitter import Fitter, WeightedLabels, cache_latest
from observal.methods.stream import StreamRule, StreamState, stream_plan
from observal.paper.weights import effective_sample_size
from observal.parquet.vectors import pieces_of
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.method import Method, TwoClassPredictions
from observal.problem.plan import Answers, Plan, Stop
from observal.problem.problem import Problem
from observal.problem.result import RETURNED, Round
from observal.problem.rows import Features, Matrix, Rows, rows_to_predict
from observal.threads import one_thread

FEATURES = ("linear", "splines", "fourier", "auto")
TEMPERED = 0.5  # default exponent of the weights: a little bias costs less than the variance it saves
SIGNIFICANT = 2.0  # standard errors by which full weights must win
EARLIER_CONFIDENCE = 0.975  # confidence needed to return the log-only classifier
# Inflates the standard error, because mistakes are correlated. A larger factor returns it less often.
ERROR_INFLATION = 1.1
MIN_DISAGREEMENTS = 10  # labelled rows on which two classifiers must differ to be compared


class FixedSettings(NamedTuple):
    """NewtonVC settings that users cannot change, because changing them never helped (docs/methods.md)."""

    clip_constant: float | None = 4.0
    """Replaces the log term in the paper's clip threshold; None turns clipping off."""
    penalty: float = 0.0
    """λ of the second-moment regulariser sqrt(λ/N·V̂)."""
    curvature: bool = True
    """Whether to order rows by flip gap; otherwise by margin alone, as in uncertainty sampling."""
    doubt: float = 0.05
    """A row is uncertain if its flip probability is above this."""
    return_earlier: bool = True
    """Whether to return the log-only classifier if it beats the last one with 97.5 % confidence."""


@dataclass(frozen=True)
class NewtonVC(Method[PoolState]):
    """Logistic regression on clipped, tempered importance weights; asks for rows whose sign flips most easily.

    The labels are fitted twice. The first fit decides what to ask. The second up-weights rows near the
    boundary and is returned, unless the log-only classifier makes fewer mistakes with 97.5 % confidence
    (``find_better_log_only``).

    Parameters
    ----------
    batch : int
        Labels per round.
    explore_share : float
        The share of each batch picked at random, so that every row can be chosen; on a stream, the
        probability of asking about a row whose prediction is certain.
    gate_share : float
        The share of each batch for uncertain rows where the log has few labels; 0 turns this gate off. See
        ``observal.methods.draw``.
    tempering : "auto" or float
        Importance weights are raised to this power: 1 is the full correction, 0 none. "auto" is ½, because a
        little bias costs less than the variance it saves, or 1 if that lowers the fully weighted out-of-fold
        log loss by more than two standard errors.
    ridge : "auto" or float
        The ridge penalty of both fits; "auto" tunes it for the first by importance-weighted cross-validation.
    features : {"linear", "splines", "fourier", "auto"}
        The linear model's inputs; "auto" chooses by the same cross-validation.
    refit_near_boundary : bool
        Whether to return a second fit that up-weights rows near the boundary. It makes fewer mistakes; its
        probabilities are good near the boundary but too confident far from it. It does not affect which rows
        are asked about. See ``near_boundary``.
    stop_below : float
        Stop when more labels are expected to change less than this share of the first fit's predictions on
        the pool, or on the log if the pool is a stream.
    order : {"pool", "stream"}
        Choose from the whole pool, or decide on each row as it arrives (``stream_chances``). On a stream no
        row is used before its turn, not even to standardise features.

    Notes
    -----
    With F the objective of the first fit, H its Hessian and A the effective sample size, raising A·F by
    ``gap(x) = A·(w·x)² / (2·xᵀH⁻¹x)`` is enough to flip the sign at x. This is exact for a quadratic F. For
    the logistic loss it is the second-order approximation at the minimum, best for the small gaps that
    matter. The flip probability is Φ(−sqrt(2·gap)), as if the coefficients were normal around the fit; a row
    is uncertain if it exceeds 5 %.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> y = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    >>> chance = np.where(X[:, 0] > 0, 0.5, 0.02)
    >>> shown = rng.random(300) < chance[:300]
    >>> logged = ob.LoggedData(X[:300], np.where(shown, y[:300], None), chance[:300])
    >>> pool = ob.Pool(X[300:], chance[300:])
    >>> result = ob.run(logged, pool, lambda ids: y[300:][ids], ob.NewtonVC(), label_budget=40)
    >>> result.estimator.score(X, y) > 0.95
    True
    """

    batch: int = 10
    explore_share: float = 0.1
    gate_share: float = 0.5
    tempering: float | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = "auto"
    features: Literal["linear", "splines", "fourier", "auto"] = "linear"
    refit_near_boundary: bool = True
    stop_below: float = 1e-4
    order: Literal["pool", "stream"] = "pool"

    stops_early: ClassVar[bool] = True
    follows_objective: ClassVar[bool] = True
    by_parts: ClassVar[bool] = True
    pool_may_grow: ClassVar[bool] = True

    def __post_init__(self) -> None:
        choice = self.choice  # validates its own settings
        keep(
            self,
            batch=choice.batch,
            explore_share=choice.explore_share,
            gate_share=choice.gate_share,
            tempering=check_number(self.tempering, "tempering", 0.0, word="auto"),
            ridge=check_number(self.ridge, "ridge", 0.0, word="auto"),
            refit_near_boundary=check_flag(self.refit_near_boundary, "refit_near_boundary"),
            stop_below=check_number(self.stop_below, "stop_below", 0.0, fix="0 never stops early"),
        )
        if self.features not in FEATURES:
            raise InvalidInput(f"features must be one of {FEATURES}, but is {self.features!r}.")
        if self.order not in ("pool", "stream"):
            raise InvalidInput(f'order must be "pool" or "stream", but is {self.order!r}.')

    @property
    def plans_ahead(self) -> bool:
        """Whether the next round can be chosen while one is open; a stream is taken in order."""
        return self.order == "pool"

    @property
    def fixed(self) -> FixedSettings:
        """The settings that a user cannot change."""
        return FixedSettings()

    @property
    def choice(self) -> Choice:
        """How a round chooses rows."""
        return Choice(self.batch, self.explore_share, self.gate_share)

    @property
    def uncertain_gap(self) -> float:
        """The gap below which a row is uncertain."""
        return gap_at(self.fixed.doubt)

    @property
    def stream_rule(self) -> StreamRule:
        """How each row of a stream is decided on."""
        return StreamRule(self.uncertain_gap, self.batch, self.explore_share, self.gate_share)

    # -- the five functions that the session calls --------------------------------------------------------------

    def begin(self, problem: Problem, rng: np.random.Generator) -> PoolState:
        """Return the initial state."""
        problem.require_two_classes("NewtonVC")
        state_class = StreamState if self.order == "stream" else PoolState
        return state_class.start(problem, NewtonFitter.of(self, problem))

    def plan(self, problem: Problem, state: PoolState, rng: np.random.Generator) -> Plan | Stop:
        """Draw the rows of the next round."""
        if not state.any_left(problem):
            return Stop()
        model = state.model
        # Flips are those at a threshold of ½, which say nothing about another one.
        if state.bought.size and not model.has_objective and model.flips < self.stop_below:
            where = "log" if self.order == "stream" else "pool"
            return Stop(
                f"more labels would change only about {model.flips:.2%} of the {where}'s predictions, "
                f"less than stop_below = {self.stop_below:.2%}"
            )
        if isinstance(state, StreamState):
            return stream_plan(self.stream_rule, problem, state, rng)
        gaps = model.pool_gaps
        order = gaps if self.fixed.curvature else model.pool_margins
        return draw_plan(prepare_draw(problem, state, self.choice, order, gaps < self.uncertain_gap), rng)

    def advance(
        self, problem: Problem, state: PoolState, plan: Plan, answers: Answers, rng: np.random.Generator
    ) -> PoolState:
        """Add the answers."""
        n_bought = state.bought.size + int(answers.answered.sum())
        return state.after(plan, answers, state.fit.after(state, n_bought))

    def estimator_of(self, problem: Problem, state: PoolState) -> Any:
        """Return the classifier to hand out, without predicting the pool."""
        model, classes = state.model.returned.model, problem.logged.classes
        fit = model.output_fit.fit
        linear = NewtonClassifier(model.feature_map, fit.coef[None, :], np.array([fit.intercept]), classes)
        return model.threshold.classifier(linear) if model.has_objective else linear

    def returned_round(self, problem: Problem, state: PoolState) -> int | None:
        """Return the earlier round whose classifier is returned if the run ends here; None for the current one."""
        source = state.model.returned
        return None if source is state else int(source.rounds)

    def describe(self, problem: Problem, state: PoolState) -> Round:
        """Return the round's public summary."""
        model, earlier = state.model, self.returned_round(problem, state)
        return state.as_round(
            estimator=self.estimator_of(problem, state),
            clip=model.labels.clip,
            disagreement=model.flips,
            least_chance=self.explore_share if self.order == "stream" else least_chance(problem, state, self.choice),
            **model.choices._asdict(),
            **({} if earlier is None else {RETURNED: earlier}),
        )

    def intervals(self, problem: Problem, state: PoolState) -> dict[str, Interval]:
        """Return intervals for error, precision, recall and prevalence; costs are ignored.

        See ``observal.intervals.error``.
        """
        source = state.model.returned
        intervals = intervals_of(problem, state, state.model.judged_labels)
        if source is state:
            return intervals
        note = f"of the classifier of round {source.rounds}, which makes fewer mistakes"
        return {name: replace(ends, method=f"{ends.method}; {note}") for name, ends in intervals.items()}

    def judged(self, problem: Problem, state: PoolState) -> JudgedRows | None:
        """Return the labelled rows with held-out predictions."""
        labels = state.model.judged_labels
        return None if labels is None else labels.weighted()

    def stored_model(self, problem: Problem, state: PoolState) -> StoredNewton:
        """Return the fits to store, for ``recall``."""
        model: NewtonModel = state.model
        source = model.returned
        earlier = None if source is state else self.stored_model(problem, source)
        scores = model.__dict__.get("left_out_scores", np.empty(0))  # only some rounds compute them
        fits = (model.query_fit.fit, model.output_fit.fit, model.output_fit.weights)
        return StoredNewton(model.choices, state.fit.choices, *fits, scores, earlier)

    def recall(self, problem: Problem, state: PoolState, record: StoredNewton) -> PoolState:
        """Return a state with stored fits instead of new ones."""
        fit: NewtonFitter = replace(state.fit, kept=record.kept)
        return state.with_model(fit, lambda same: fit.recall(same, record))


@dataclass(frozen=True, eq=False)
class NewtonClassifier(TwoClassPredictions):
    """The linear classifier that NewtonVC returns, including its feature handling.

    `coef_` and `intercept_` apply to the output of `feature_map`: standardised and possibly expanded features.
    """

    feature_map: Any = field(repr=False)
    coef_: Floats = field(repr=False)
    intercept_: Floats
    classes_: NDArray[Any] = field(repr=False)

    def decision_function(self, X: Features) -> Floats:
        """Return each row's margin; positive values mean the second class."""
        rows = rows_to_predict(X, self.feature_map.mean.size, self).to_matrix()
        return np.asarray(self.feature_map(rows) @ self.coef_[0] + self.intercept_[0])

    def positive(self, X: Features) -> Bools:
        """Return which rows are predicted to be in the second class."""
        return np.asarray(self.decision_function(X) > 0.0)

    def predict_proba(self, X: Features) -> Floats:
        """Return class probabilities; with `refit_near_boundary` they are too confident far from the boundary."""
        from scipy.special import expit

        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])


# -- the fits ----------------------------------------------------------------------------------------------------


class NewtonChoices(NamedTuple):
    """Settings chosen by cross-validation."""

    features: str
    ridge: float
    tempering: float


@dataclass(frozen=True, eq=False)
class NewtonFitter(Fitter[NewtonVC, "NewtonModel", Floats]):
    """Fits NewtonVC's model."""

    maps: dict[str, FeatureMap] = field(repr=False)  # candidates, by name

    @classmethod
    def of(cls, method: NewtonVC, problem: Problem) -> Self:
        """Standardise on log and pool together, or on the log alone if the pool is a stream."""
        blocks = problem.blocks(method.order == "stream")
        names: tuple[Any, ...] = (method.features,)
        if method.features == "auto":  # sparse rows cannot be expanded
            sparse = any(block.is_sparse for block in blocks)
            names = ("linear",) if sparse else ("linear", "splines", "fourier")
        maps = {name: FeatureMap.of(*blocks, expansion=name) for name in names}
        return cls(method, problem, cache_latest(predict_pool), maps)

    @property
    def first_retune(self) -> int:
        """Labels to buy before settings are retuned for the first time: one round's."""
        return self.method.batch

    def __call__(self, state: PoolState) -> NewtonModel:
        """Fit on all labels."""
        labels = WeightedLabels.of(self.problem, state, self.method.fixed.clip_constant)
        with one_thread():  # hundreds of small products: threads would mostly wait for each other
            choices: NewtonChoices = self._choose(labels) if self.anchor is None else self.choices
            feature_map = self.maps[choices.features]
            X, weights = feature_map(self.problem.take(labels.rows)), labels.weights(choices.tempering)
            fit = fit_logistic(X, labels.signs, weights, choices.ridge, self.method.fixed.penalty)
        weighted = WeightedFit(fit, weights)
        return NewtonModel(self.method, self.problem, feature_map, choices, labels, weighted, state, self.predict_pool)

    def recall(self, state: PoolState, record: StoredNewton) -> NewtonModel:
        """Return the stored model, after checking that it can belong to the state's labels."""
        labels, earlier = (
            WeightedLabels.of(self.problem, state, self.method.fixed.clip_constant),
            find_log_only_state(state),
        )
        for choices in filter(None, (record.choices, record.kept)):
            self._check_choices(choices)
        feature_map = self.maps[record.choices.features]
        n_labelled, n_features = labels.rows.size, feature_map(self.problem.take(labels.rows[:0])).shape[1]
        scores, weights = record.left_out_scores, record.output_weights
        if (
            any(fit.coef.size != n_features or not _is_usable(fit) for fit in (record.query, record.output))
            or scores.size not in (0, n_labelled)
            or weights.size != n_labelled
            or not (is_safely_finite(scores) and is_safely_finite(weights) and (weights >= 0.0).all())
            or (record.earlier is not None and (earlier is state or record.earlier.earlier is not None))
        ):
            raise InvalidInput("The stored fits are not those of these labels; use an undamaged copy.")
        query = WeightedFit(record.query, labels.weights(record.choices.tempering))
        model = NewtonModel(
            self.method, self.problem, feature_map, record.choices, labels, query, state, self.predict_pool
        )
        known: dict[str, object] = {"output_fit": WeightedFit(record.output, weights)}
        known |= {"left_out_scores": scores} if scores.size else {}
        known["returned"] = (
            state if record.earlier is None else self.method.recall(self.problem, earlier, record.earlier)
        )
        model.__dict__.update(known)  # where cached properties store their values
        return model

    def _check_choices(self, choices: NewtonChoices) -> None:
        """Reject choices that ``_choose`` cannot have made."""
        ridges = RIDGES if self.method.ridge == "auto" else (self.method.ridge,)
        temperings = (TEMPERED, 1.0) if self.method.tempering == "auto" else (self.method.tempering,)
        if choices.features not in self.maps or choices.ridge not in ridges or choices.tempering not in temperings:
            raise InvalidInput("The stored settings are not among those to choose from; use an undamaged copy.")

    def _choose(self, labels: WeightedLabels) -> NewtonChoices:
        """Choose features, ridge and tempering by weighted cross-validation."""
        subset = np.arange(0, labels.signs.size, 1 + max(labels.signs.size - 1, 0) // TUNING_ROWS)
        ridges = RIDGES if self.method.ridge == "auto" else (self.method.ridge,)
        rows = self.problem.take(labels.rows)
        groups = None if labels.groups is None else labels.groups[subset]
        inputs = {name: feature_map(rows)[subset] for name, feature_map in self.maps.items()}

        def best(tempering: float) -> tuple[NewtonChoices, TunedRidge]:
            weights = labels.weights(tempering)[subset]
            tuned = {
                name: tune(X, labels.signs[subset], weights, ridges, self.method.fixed.penalty, groups)
                for name, X in inputs.items()
            }
            name = min(tuned, key=lambda name: float(tuned[name].losses @ weights))
            return NewtonChoices(name, tuned[name].ridge, tempering), tuned[name]

        if self.method.tempering != "auto":
            return best(self.method.tempering)[0]
        (half, half_tuned), (full, full_tuned) = best(TEMPERED), best(1.0)
        gain = labels.weights(1.0)[subset] * (half_tuned.losses - full_tuned.losses)
        return full if gain.sum() > SIGNIFICANT * np.sqrt(gain @ gain) else half


class StoredNewton(NamedTuple):
    """What cannot be recomputed without a fit."""

    choices: NewtonChoices
    kept: NewtonChoices | None
    query: NewtonFit
    output: NewtonFit
    output_weights: Floats
    left_out_scores: Floats
    earlier: StoredNewton | None


def is_safely_finite(values: Floats) -> bool:
    """Return whether all values and their squares are finite."""
    return bool((np.abs(values) <= 1e100).all())


def _is_usable(fit: NewtonFit) -> bool:
    """Return whether a stored fit's gaps and margins are finite."""
    if fit.hessian.shape != (fit.coef.size + 1,) * 2 or not is_safely_finite(fit.theta):
        return False
    try:
        return is_safely_finite(fit.hessian) and is_safely_finite(leverages(np.zeros((1, fit.coef.size)), fit.hessian))
    except np.linalg.LinAlgError:
        return False


class WeightedFit(NamedTuple):
    """A fit, and the weights of its labelled rows."""

    fit: NewtonFit
    weights: Floats

    @property
    def n_effective(self) -> float:
        """A: the effective sample size, plus one for the two half rows at the origin."""
        return effective_sample_size(self.weights) + 1.0


@dataclass(frozen=True, eq=False)
class NewtonModel:
    """The two fits after a round, and what they predict."""

    method: NewtonVC = field(repr=False)
    problem: Problem = field(repr=False)
    feature_map: FeatureMap = field(repr=False)
    choices: NewtonChoices
    labels: WeightedLabels = field(repr=False)
    query_fit: WeightedFit = field(repr=False)
    state: PoolState = field(repr=False)
    predict_pool: Callable[[NewtonModel], Floats] = field(repr=False)

    @property
    def has_objective(self) -> bool:
        """Whether an objective sets the threshold. Then there is no second fit, which is for a threshold of ½."""
        return self.problem.goals.objective != "error"

    @cached_property
    def threshold(self) -> Threshold:
        """The objective's margin threshold, above which a row is positive."""
        return find_threshold(self.problem, self.state, self._margins_of, self.left_out_scores)

    @property
    def held_out_scores(self) -> Any:
        """Held-out scores and predicted classes of the labelled rows, or a function for them."""
        if not self.has_objective:
            return self.out_of_fold
        return with_classes(self.left_out_scores - self.threshold.cut)

    @cached_property
    def judged_labels(self) -> JudgedLabels | None:
        """The labelled rows with held-out predictions of the classifier that is returned."""

        def gaps(before: PoolState, rows: Ints) -> Floats:
            return np.asarray(before.model.unlabelled_gaps(rows))

        source = self.returned
        with one_thread():  # many small products, as when fitting
            judged = self.held_out_scores if source is self.state else earlier_scores(self.problem, source, self.state)
            toss_ups, threshold = (
                (0.0, self.threshold) if self.has_objective else (source.model.mean_flip_chance(self.labels.rows), None)
            )
            return judge_labels(
                self.problem,
                self.state,
                gaps,
                source.model.scores_of,
                judged,
                toss_ups=toss_ups,
                threshold=threshold,
            )

    @property
    def left_out_classes(self) -> Ints:
        """The held-out predicted class of each labelled row."""
        return np.asarray(self.held_out_scores[1] if self.has_objective else with_classes(self.left_out_scores)[1])

    @cached_property
    def returned(self) -> PoolState:
        """The state whose classifier is returned: this one, unless the log-only one is very likely better."""
        method, plain = self.method, not self.has_objective and self.problem.cost is None
        if not (method.fixed.return_earlier and method.order == "pool" and plain):
            return self.state
        return find_better_log_only(self.problem, self.state) or self.state

    @cached_property
    def left_out_scores(self) -> Floats:
        """The held-out margin of each labelled row."""
        with one_thread():
            return left_out(self.labels.codes, self.out_of_fold, FINE_FOLDS, self.labels.groups)[0]

    @cached_property
    def label_cells(self) -> Cells:
        """The labelled rows grouped into cells, for comparing rounds."""
        return label_cells(self.problem, self.state, self._margins_of, self.left_out_scores)

    def _margins_of(self, rows: Ints) -> Floats:
        return self.feature_map.mapped(self.output_fit.fit.margins, self.problem.take(rows))

    @cached_property
    def output_fit(self) -> WeightedFit:
        """The fit that is returned: refitted near the boundary, unless that is turned off."""
        with one_thread():
            return self._refit(self.query_fit, self.labelled, self.labels.signs)

    def _refit(self, first: WeightedFit, X: Matrix, signs: Ints) -> WeightedFit:
        """Return the output fit that starts from `first`, a query fit on the same rows."""
        if self.has_objective or not self.method.refit_near_boundary:
            return first
        settings = self.choices.ridge, self.method.fixed.penalty
        return WeightedFit(*near_boundary(first.fit, X, signs, first.weights, *settings, population=self._population))

    @property
    def _population(self) -> Matrix:
        """An evenly spaced sample of log and pool; of the log alone if the pool is a stream."""
        n_rows = self.problem.n_logged if self.method.order == "stream" else self.problem.n_rows
        return self.feature_map(self.problem.take(np.arange(0, n_rows, 1 + (n_rows - 1) // TYPICAL_ROWS)))

    def gaps(self, X: Matrix | Rows) -> Floats:
        """Return each row's flip gap: how much worse the fit must get before its sign flips."""
        fit = self.query_fit
        return self.feature_map.mapped(partial(flip_gaps, fit=fit.fit, n_effective=fit.n_effective), X)

    def scores_of(self, rows: Ints) -> Scores:
        """Return the shrunken margin and the predicted class of rows of log and pool."""
        if self.has_objective:
            return with_classes(self._margins_of(rows) - self.threshold.cut)
        X, fit = self.problem.take(rows), self.output_fit
        return with_classes(
            self.feature_map.mapped(partial(shrink_margins, fit=fit.fit, n_effective=fit.n_effective), X)
        )

    def unlabelled_gaps(self, rows: Ints) -> Floats:
        """Return the gaps of rows of log and pool, each as if its own label were unknown.

        A labelled row is removed by one Newton step: with c its share of the weights, φ the logistic loss and
        h its leverage, its margin m moves to ``m + c·φ'(m)·h / (1 − c·φ''(m)·h)`` and its leverage to
        ``h / (1 − c·φ''(m)·h)``.
        """
        from scipy.special import expit  # lazy: scipy is slow to import

        gaps = self.gaps(self.problem.take(rows))
        if self.labels.rows.size == 0:
            return gaps
        order = np.argsort(self.labels.rows)
        index = order[np.minimum(np.searchsorted(self.labels.rows, rows, sorter=order), order.size - 1)]
        has_label = self.labels.rows[index] == rows
        index = index[has_label]
        fit, weights = self.query_fit
        # The two half rows at the origin together have the mean weight.
        share = weights[index] / max(float(weights.sum() + weights.mean()), 1e-300)
        h = leverages(self.labelled[index], fit.hessian)
        m = self.labels.signs[index] * fit.margins(self.labelled[index])
        tail = expit(-m)
        remainder = np.maximum(1.0 - share * tail * (1.0 - tail) * h, MIN_REMAINDER)
        unlabelled_margin = m - share * tail * h / remainder
        gaps[has_label] = 0.5 * self.query_fit.n_effective * unlabelled_margin**2 * remainder / np.maximum(h, 1e-300)
        return gaps

    def mean_flip_chance(self, rows: Ints) -> float:
        """Return the mean probability that another sample would flip these rows' signs; ¼ if nothing is learned."""
        return float(np.mean(flip_chances(self.unlabelled_gaps(rows))))

    def out_of_fold(self, train: Ints, test: Ints) -> Scores:
        """Return shrunken margins and predicted classes of the `test` rows by a fit on the `train` rows."""
        X, signs, weights = self.labelled[train], self.labels.signs[train], self.query_fit.weights[train]
        start = self.query_fit.fit.theta
        fit = fit_logistic(X, signs, weights, self.choices.ridge, self.method.fixed.penalty, start)
        output = self._refit(WeightedFit(fit, weights), X, signs)
        if self.has_objective:
            return with_classes(output.fit.margins(self.labelled[test]))
        return with_classes(shrink_margins(self.labelled[test], output.fit, output.n_effective))

    @cached_property
    def labelled(self) -> Matrix:
        """The labelled rows as inputs of the linear model."""
        return self.feature_map(self.problem.take(self.labels.rows))

    @property
    def pool_gaps(self) -> Floats:
        """The gap of each pool row; on a stream, whose rows are not known yet, of each logged row."""
        return self.predict_pool(self)

    @property
    def pool_margins(self) -> Floats:
        """The distance of each pool row from the boundary, in log-odds."""
        distances = partial(boundary_distances, fit=self.query_fit.fit)
        return self.feature_map.mapped(distances, self.problem.pool.rows)

    @cached_property
    def flips(self) -> float:
        """The expected share of these rows whose sign more labels would change."""
        gaps = self.pool_gaps
        return float(sum(flip_chances(part).sum() for part in pieces_of(gaps))) / max(1, gaps.size)


def predict_pool(model: NewtonModel) -> Floats:
    """Return the gap of each pool row; of each logged row if the pool is a stream."""
    return model.gaps(model.problem.logged.rows if model.method.order == "stream" else model.problem.pool.rows)


def gap_at(doubt: float) -> float:
    """Return the gap at which the flip probability, Φ(−sqrt(2·gap)), equals `doubt`.

    Examples
    --------
    >>> round(gap_at(0.05), 2)
    1.35
    """
    from scipy.special import ndtri

    return 0.5 * float(ndtri(doubt)) ** 2


def flip_chances(gaps: Floats) -> Floats:
    """Return the flip probability at each gap, Φ(−sqrt(2·gap)), as if coefficients were normal around the fit.

    Examples
    --------
    >>> import numpy as np
    >>> flip_chances(np.array([0.0, 1.35])).round(2).tolist()
    [0.5, 0.05]
    """
    from scipy.special import ndtr

    return np.asarray(ndtr(-np.sqrt(2.0 * gaps)))


def with_classes(scores: Floats) -> Scores:
    """Return the scores, and the class that each predicts."""
    return scores, (scores > 0.0).astype(np.int64)


def flip_gaps(Z: Matrix, fit: NewtonFit, n_effective: float) -> Floats:
    """Return how much worse a fit must get before the sign of a row's margin m flips: A·m²/(2·xᵀH⁻¹x)."""
    return np.asarray(0.5 * n_effective * fit.margins(Z) ** 2 / np.maximum(leverages(Z, fit.hessian), 1e-300))


def boundary_distances(Z: Matrix, fit: NewtonFit) -> Floats:
    """Return each row's distance from the boundary, in log-odds."""
    return np.abs(fit.margins(Z))


def shrink_margins(Z: Matrix, fit: NewtonFit, n_effective: float) -> Floats:
    """Return margins shrunk where the fit is uncertain: m / sqrt(1 + π·v/8), v = x̃ᵀ(A·H)⁻¹x̃.

    The logistic function of this is about the mean probability over a normal margin with mean m and variance v.
    """
    return np.asarray(fit.margins(Z) / np.sqrt(1.0 + np.pi / 8.0 * leverages(Z, fit.hessian) / n_effective))


# -- the log-only classifier -----------------------------------------------------------------------------------


def find_log_only_state(state: PoolState) -> PoolState:
    """Return the state of round 0, which knows the log alone."""
    while state.before is not None:
        state = state.before
    return state


def find_better_log_only(problem: Problem, state: PoolState) -> PoolState | None:
    """Return the log-only state if its classifier very likely makes fewer mistakes; else None."""
    from scipy.special import ndtri

    earlier = find_log_only_state(state)
    if earlier is state or np.unique(earlier.labelled(problem)[1]).size < 2:
        return None
    rows, codes = state.labelled(problem)
    last_wrong, earlier_wrong = (each.model.scores_of(rows)[1] != codes for each in (state, earlier))
    # The last fit saw all labels. If it looks worse even so, compare held-out predictions; otherwise keep it.
    if state.importance(problem, rows, None)[0] @ (last_wrong.astype(float) - earlier_wrong) <= 0.0:
        return None
    classes = state.model.left_out_classes
    differences = (classes != codes).astype(float) - (earlier_scores(problem, earlier, state)[1] != codes)
    excess, error = paired_difference(state.model.label_cells, differences)
    credible = np.count_nonzero(differences) >= MIN_DISAGREEMENTS and excess > float(ndtri(EARLIER_CONFIDENCE)) * error
    return earlier if credible else None


def paired_difference(cells: Cells, differences: Floats) -> tuple[float, float]:
    """Return D and its standard error, as the module's docstring defines them.

    Examples
    --------
    >>> import numpy as np
    >>> cells = Cells(np.array([1.0]), np.zeros(4, dtype=np.int64), np.ones(4), 0.0, 1000)
    >>> [round(value, 3) for value in paired_difference(cells, np.array([1.0, 0.0, 0.0, -1.0]))]
    [0.0, 0.449]
    """
    used = cells.of_label >= 0
    cell, weight, value = cells.of_label[used], cells.row_weight[used], differences[used]
    if cells.groups is not None:
        cell, _, weight, value = merge_groups(cell, cells.groups[used], weight, value)
    count = np.bincount(cell, minlength=cells.share.size)[cell]
    mean = (np.bincount(cell, weights=weight * value) / np.maximum(np.bincount(cell, weights=weight), 1e-300))[cell]
    excess = float(weight @ value)
    within = weight**2 @ ((value - mean) ** 2 * count / np.maximum(count - 1, 1))
    return excess, ERROR_INFLATION * float(np.sqrt(within + weight @ (mean - excess) ** 2 / cells.n_rows))


def earlier_scores(problem: Problem, earlier: PoolState, state: PoolState) -> Scores:
    """Return held-out scores and classes under `earlier` for all rows that `state` has labels of."""
    rows = state.labelled(problem)[0]
    scores, _ = earlier.model.scores_of(rows)
    order = np.argsort(rows)
    earlier_places = order[np.searchsorted(rows, earlier.labelled(problem)[0], sorter=order)]
    scores[earlier_places] = earlier.model.left_out_scores
    return with_classes(scores)

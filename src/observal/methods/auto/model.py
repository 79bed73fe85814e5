"""AutoVC's fit: the blend after a round, and what it says of the pool."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from observal.checks import Floats, Ints
from observal.intervals.error import STILL, JudgedLabels, Scores, judge_labels
from observal.intervals.state import PoolState, as_near
from observal.intervals.thresholds import (
    ThresholdClassifier,
    choose_threshold,
    judged_by_others,
    label_weights,
    odds_at,
)
from observal.learners.blend import Blend, BlendFit, Chosen, fit_blend, lead, leaning
from observal.learners.folds import dealt_folds
from observal.learners.population import Population
from observal.parquet import map_blocks
from observal.problem.plan import Plan
from observal.problem.problem import Problem

if TYPE_CHECKING:
    from observal.methods.auto.method import AutoVC

UNCERTAIN_SHARE = 0.1  # of the log's rows: on a stream, rows with leads as small as theirs are uncertain
# With the blend's own four folds, estimates are half a point too high at 150 labels; 20 folds change little more.
INTERVAL_FOLDS = 10
MANY_LABELS = 2000  # from here on the blend's own folds are close enough
AGAIN = 1.5  # weights and settings are chosen again when this many times the labels were bought


class Pooled(NamedTuple):
    """What a blend says of all pool rows: each row's lead, the chance that it is wrong if that is needed, the mean disagreement."""

    margins: Floats
    doubt: Floats | None
    disagreement: float


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits the blend; the same labels, bought in the same rounds, always give the same model.

    Parameters
    ----------
    method : AutoVC
        The settings.
    problem : Problem
        Log and pool.
    population : Population
        What their rows say without labels.
    anchor : PoolState, optional
        The earlier state whose weights and settings still hold; without one they are chosen again.
    """

    method: AutoVC
    problem: Problem
    population: Population = field(repr=False)
    anchor: PoolState | None = None
    latest: dict[str, Any] = field(
        default_factory=dict, repr=False
    )  # what the latest model says of the pool; older ones say it again

    @classmethod
    def of(cls, method: AutoVC, problem: Problem) -> Self:
        """Learn what log and pool say without labels; on a stream, the log alone."""
        known = problem.blocks(method.order == "stream")
        return cls(method, problem, Population.of(*known, groups=problem.column_groups))

    def after(self, before: PoolState, n_bought: int) -> Self:
        """Return the fitter of the state that follows `before`."""
        anchor = before if self.anchor is None else self.anchor
        is_time = n_bought >= max(AGAIN * anchor.bought.size, 1)
        return replace(self, anchor=None if is_time else anchor)

    def __call__(self, state: PoolState) -> AutoModel:
        """Fit on all labels."""
        kept: Chosen | None = None if self.anchor is None else self.anchor.model.chosen
        X, codes, weights, clip = self._labels(state)
        blend, out_of_fold, chosen = self._fit(X, codes, weights, kept)
        return AutoModel(self.problem, self.method, blend, chosen, out_of_fold, clip, state, self.latest)

    def refitted(self, state: PoolState) -> Floats:
        """Return the chances of each labelled row by whole blends fitted without its tenth of the labels.

        They have the weights and settings of the state's own blend.
        """
        X, codes, weights, _ = self._labels(state)
        kept: Chosen | None = state.model.chosen
        fold_of, chances = dealt_folds(codes, INTERVAL_FOLDS), np.empty((codes.size, self.problem.logged.classes.size))
        for fold in np.unique(fold_of):
            train, test = fold_of != fold, fold_of == fold
            chances[test] = self._fit(X[train], codes[train], weights[train], kept).blend.predict_proba(X[test])
        return chances

    def _labels(self, state: PoolState) -> tuple[Any, Ints, Floats, float]:
        """Return the labelled rows' features, codes and weights, and the largest importance weight."""
        problem, method = self.problem, self.method
        rows, codes = state.labelled(problem)
        weights, clip = state.importance(problem, rows, method.clip_constant if method.clip else None)
        weights = weights**method.tempering
        if problem.cost is not None:
            weights = weights * problem.cost[rows]
        return problem.take(rows), codes, weights, clip

    def _fit(self, X: Any, codes: Ints, weights: Floats, kept: Chosen | None) -> BlendFit:
        return fit_blend(self.population, X, codes, weights, self.problem.logged.classes, self.method.learners, kept)


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
    chosen : Chosen, optional
        Weights and settings; None while all labels are the same.
    left_out : array of shape (labelled rows, classes)
        The chances of each labelled row by fits that have not seen it.
    clip : float
        The largest weight.
    state : PoolState
        The labels that it is fitted on.
    latest : dict
        Holds what the latest model says of the pool.
    """

    problem: Problem = field(repr=False)
    method: AutoVC
    blend: Blend
    chosen: Chosen | None
    left_out: Floats = field(repr=False)
    clip: float
    state: PoolState = field(repr=False)
    latest: dict[str, Any] = field(repr=False)

    @property
    def follows(self) -> bool:
        """Whether its threshold is chosen for an objective."""
        return self.problem.objective != "error" and not self.blend.is_constant

    @cached_property
    def label_weights(self) -> Floats:
        """The share of the population that each labelled row stands for, where a threshold is chosen."""

        def scores_of(rows: Ints) -> Floats:
            return np.asarray(self.blend.predict_proba(self.problem.take(rows))[:, 1])

        return label_weights(self.problem, self.state, scores_of, self.left_out[:, 1])

    @cached_property
    def threshold(self) -> float:
        """The chance of the second class from which on it is predicted."""
        if not self.follows:
            return 0.5
        codes = self.state.labelled(self.problem)[1]
        return choose_threshold(self.left_out[:, 1], codes, self.label_weights, self.problem.objective, 0.5)

    @property
    def odds(self) -> float:
        """The factor of the odds that moves the threshold to ½."""
        return odds_at(self.threshold) if self.follows else 1.0

    @property
    def estimator(self) -> Any:
        """The classifier that is returned."""
        return ThresholdClassifier(self.blend, self.threshold) if self.follows else self.blend

    @cached_property
    def out_of_fold(self) -> Scores:
        """Score and predicted class of each labelled row, by fits and a threshold that have not seen it."""
        return self._said(self.left_out)

    @cached_property
    def refitted(self) -> Floats:
        """As `left_out`, but by whole blends fitted without a tenth of the labels, unless there are many labels."""
        many = self.left_out.shape[0] > MANY_LABELS
        return self.left_out if many else np.asarray(self.state.fit.refitted(self.state))

    @property
    def gains(self) -> Floats:
        """For each labelled row, how much more often the blend may be right than the fits without a tenth of the labels.

        These fits are better than those without a quarter of the labels, by ``q(ŷ) − q(ŷ')`` on a row: q are the chances of the former, ŷ and ŷ' what
        the two predict. If errors fall as 1/n, all labels gain half of that again. Labels themselves are not used, so this adds little noise.
        With many labels it is 0: there is only one kind of fits then.
        """
        chances, rows = self.refitted, np.arange(len(self.refitted))
        now, fewer = (leaning(some, self.odds).argmax(axis=1) for some in (chances, self.left_out))
        return np.asarray(STILL * (chances[rows, now] - chances[rows, fewer]))

    def _said(self, left_out: Floats) -> Scores:
        scores, codes = _scores(*lead(leaning(left_out, self.odds)), self.blend.classes_.size)
        if not self.follows:
            return scores, codes
        labels = self.state.labelled(self.problem)[1]
        return scores, judged_by_others(scores, labels, self.label_weights, self.problem.objective, 0.0, 0.0)

    @cached_property
    def judged_labels(self) -> JudgedLabels | None:
        """The labelled rows as intervals judge them."""
        problem = self.problem

        def gaps(before: PoolState, rows: Ints) -> Floats:
            return np.asarray(before.model.unlabelled_leads(rows, before.labelled(problem)[0]))

        found = judge_labels(problem, self.state, gaps, self.scores_of, self._said(self.refitted))
        return None if found is None else found.allowing_for(self.gains)

    @property
    def judged(self) -> Pooled:
        """What the blend says of each pool row; on a stream, of each row of the log. Only the latest model's answer is kept."""
        if self.latest.get("model") is not self:
            self.latest.clear()
            self.latest.update(model=self, judged=self._judge_all())
        found: Pooled = self.latest["judged"]
        return found

    def _judge_all(self) -> Pooled:
        X = self.problem.logged.X if self.method.order == "stream" else self.problem.pool.X
        margins = np.empty(X.shape[0])
        doubt = np.empty(X.shape[0] if self.method.priority != "accuracy" else 0)
        disagreement, end = 0.0, 0
        for block in map_blocks(partial(self.blend.judge_block, odds=self.odds), X):
            begin, end = end, end + block.codes.size
            margins[begin:end] = block.margins
            if doubt.size:
                doubt[begin:end] = block.doubt
            disagreement += float(block.disagreement.sum())
        return Pooled(margins, doubt if doubt.size else None, disagreement / max(1, end))

    @property
    def uncertain_lead(self) -> float:
        """On a stream, the lead below which a row is uncertain; while all labels are the same, every row is."""
        return np.inf if self.blend.is_constant else float(np.quantile(self.judged.margins, UNCERTAIN_SHARE))

    def gaps(self, X: Any) -> Floats:
        """Return the lead of each row."""
        return self.blend.judge(X, self.odds).margins

    def unlabelled_leads(self, rows: Ints, labelled: Ints) -> Floats:
        """Return the lead of rows of the stack of log and pool, each as if its own label were unknown.

        Parameters
        ----------
        rows : int array
            The rows.
        labelled : int array
            The rows that had a label, in the order of `out_of_fold`: their leads are those of fits that have not seen it.
        """
        leads = self.blend.judge(self.problem.take(rows), self.odds).margins
        if labelled.size:
            order = np.argsort(labelled)
            place = order[np.minimum(np.searchsorted(labelled, rows, sorter=order), order.size - 1)]
            known = labelled[place] == rows
            leads[known] = np.abs(self.out_of_fold[0][place[known]])
        return leads

    def as_near(self, plan: Plan, labelled: Ints) -> tuple[Ints | None, Floats | None]:
        """Return the rows with leads as small as those that a plan takes for their leads, as :class:`Plan` records them."""
        if self.problem.in_parts:
            return None, None  # one more pass over a log that may be large; intervals judge a sample again
        leads = np.concatenate([self.gaps(self.problem.logged.X), self.judged.margins])
        leads[labelled] = np.abs(self.out_of_fold[0])
        return as_near(plan, leads, self.problem.n_logged)

    @cached_property
    def disagreement(self) -> float:
        """The mean weight, over the judged rows, of the learners that say another class than the blend."""
        return self.judged.disagreement

    def scores_of(self, rows: Ints) -> Scores:
        """Return score and predicted class of rows of the stack of log and pool."""
        codes, margins, *_ = self.blend.judge(self.problem.take(rows), self.odds)
        return _scores(codes, margins, self.blend.classes_.size)


def _scores(codes: Ints, margins: Floats, n_classes: int) -> Scores:
    """Return how far each row is on the side of the last class, and its class."""
    return np.where(codes == n_classes - 1, margins, -margins), codes

"""NewtonVC's model of the labels so far: features, ridge and tempering chosen, two fits, and every row's flip gap.

The query fit decides what to ask: the flip gaps and the stopping rule come from it. The output fit starts from the query fit and
up-weights rows near the boundary; it is the classifier that is returned and that the intervals are about. Using the output fit
for queries as well was no better.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.special import expit, ndtr

from observal.checks import Floats, Ints
from observal.intervals.cells import Cells
from observal.intervals.error import FOLDS, JudgedLabels, Scores, judge_labels, left_out
from observal.intervals.state import PoolState
from observal.intervals.thresholds import choose_threshold, judged_by_others, label_cells
from observal.learners.features import FeatureMap
from observal.learners.newton_fit import NewtonFit
from observal.learners.tuned_logistic import RIDGES, Tuned, fit_logistic, leverages, near_boundary, tune
from observal.paper.weights import effective_sample_size
from observal.parquet.vectors import pieces_of
from observal.problem.problem import Problem
from observal.threads import one_thread

if TYPE_CHECKING:
    from observal.methods.newton.method import NewtonVC

TEMPERED = 0.5
SIGNIFICANT = 2.0  # standard errors by which the full weights must be better
LEAST_LEFT = 0.01  # lower bound for 1 − c·φ''·h, so a row that determines the fit alone does not move to infinity
MOST_ROWS_TO_CHOOSE = 2000  # labelled rows used in cross-validation
ROWS_FOR_TYPICAL = 2000  # rows from which the typical distance to the boundary is computed


class Chosen(NamedTuple):
    """What cross-validation chose."""

    features: str
    ridge: float
    tempering: float


@dataclass(frozen=True, eq=False)
class Fitter:
    """Fits NewtonVC's model; the same labels, bought in the same rounds, always give the same model.

    Parameters
    ----------
    method : NewtonVC
        The settings.
    problem : Problem
        Log and pool.
    maps : dict
        The feature maps to choose from, by name.
    anchor : PoolState, optional
        The earlier state whose ridge, tempering and features are still used; without one they are chosen again.
    """

    method: NewtonVC
    problem: Problem
    maps: dict[str, FeatureMap] = field(repr=False)
    anchor: PoolState | None = None
    latest: dict[str, Any] = field(
        default_factory=dict, repr=False
    )  # the latest model's gaps; older ones compute theirs again

    @classmethod
    def of(cls, method: NewtonVC, problem: Problem) -> Self:
        """Standardise on log and pool together, or on the log alone if the pool is a stream."""
        blocks = problem.blocks(method.order == "stream")
        names: tuple[Any, ...] = (method.features,)
        if method.features == "auto":  # sparse rows cannot be expanded
            sparse = any(hasattr(block, "tocsr") for block in blocks)
            names = ("linear",) if sparse else ("linear", "splines", "fourier")
        return cls(method, problem, {name: FeatureMap.of(*blocks, expansion=name) for name in names})

    def after(self, before: PoolState, n_bought: int) -> Self:
        """Return the fitter of the state after `before`; it chooses again once the labels bought have grown by half."""
        anchor = before if self.anchor is None else self.anchor
        is_time = n_bought >= max(1.5 * anchor.bought.size, self.method.batch)
        return replace(self, anchor=None if is_time else anchor)

    def __call__(self, state: PoolState) -> NewtonModel:
        """Fit on all labels."""
        labels = self._labels(state)
        with one_thread():  # hundreds of small products: more threads would mostly wait for each other
            chosen: Chosen = self._choose(labels) if self.anchor is None else self.anchor.model.chosen
            feature_map = self.maps[chosen.features]
            X, weights = labels.X(feature_map), labels.weights(chosen.tempering)
            fit = fit_logistic(X, labels.signs, weights, chosen.ridge, self.method.fixed.penalty)
        weighted = Weighted(fit, weights)
        return NewtonModel(self.method, self.problem, feature_map, chosen, labels, weighted, state, self.latest)

    def _labels(self, state: PoolState) -> Labels:
        rows, codes = state.labelled(self.problem)
        importance, clip = state.importance(self.problem, rows, self.method.fixed.clip_constant)
        return Labels(self.problem, rows, 2 * codes - 1, importance, clip)

    def _choose(self, labels: Labels) -> Chosen:
        """Choose features, ridge and tempering by weighted cross-validation."""
        some = np.arange(0, labels.signs.size, 1 + max(labels.signs.size - 1, 0) // MOST_ROWS_TO_CHOOSE)
        ridges = RIDGES if self.method.ridge == "auto" else (self.method.ridge,)
        inputs = {name: labels.X(feature_map)[some] for name, feature_map in self.maps.items()}

        def best(tempering: float) -> tuple[Chosen, Tuned]:
            weights = labels.weights(tempering)[some]
            tuned = {
                name: tune(X, labels.signs[some], weights, ridges, self.method.fixed.penalty)
                for name, X in inputs.items()
            }
            name = min(tuned, key=lambda name: float(tuned[name].losses @ weights))
            return Chosen(name, tuned[name].ridge, tempering), tuned[name]

        if self.method.tempering != "auto":
            return best(self.method.tempering)[0]
        (half, of_half), (full, of_full) = best(TEMPERED), best(1.0)
        gain = labels.weights(1.0)[some] * (of_half.losses - of_full.losses)
        return full if gain.sum() > SIGNIFICANT * np.sqrt(gain @ gain) else half


@dataclass(frozen=True, eq=False)
class Labels:
    """The labelled rows, numbered as in :class:`Problem`, with their signs and importance weights."""

    problem: Problem
    rows: Ints
    signs: Ints
    importance: Floats
    clip: float

    def X(self, feature_map: FeatureMap) -> Any:
        """Return the labelled rows as the linear model sees them."""
        return feature_map(self.problem.take(self.rows))

    def weights(self, tempering: float) -> Floats:
        """Return the tempered weight of each row, times its cost."""
        weights = self.importance**tempering
        return weights if self.problem.cost is None else weights * self.problem.cost[self.rows]


class Weighted(NamedTuple):
    """A fit, and the weights of the labelled rows in it."""

    fit: NewtonFit
    weights: Floats

    @property
    def total(self) -> float:
        """A: the effective number of labelled rows; the two half rows at the origin add one."""
        return effective_sample_size(self.weights) + 1.0


@dataclass(frozen=True, eq=False)
class NewtonModel:
    """The two fits after a round, and what they say about every row."""

    method: NewtonVC = field(repr=False)
    problem: Problem = field(repr=False)
    feature_map: FeatureMap = field(repr=False)
    chosen: Chosen
    labels: Labels = field(repr=False)
    query_fit: Weighted = field(repr=False)
    state: PoolState = field(repr=False)
    latest: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def follows(self) -> bool:
        """Whether its threshold is chosen for an objective. Then there is one fit: the second one is for a threshold of ½."""
        return self.problem.objective != "error"

    @cached_property
    def threshold(self) -> float:
        """The margin, in log odds, from which on a row is positive."""
        if not self.follows:
            return 0.0
        codes, objective = (self.labels.signs + 1) // 2, self.problem.objective
        return choose_threshold(self.left_out_scores, codes, self._label_weights, objective, 0.0)

    @property
    def judged(self) -> Any:
        """Score and predicted class of labelled rows by fits that have not seen them, for intervals."""
        if not self.follows:
            return self.out_of_fold
        codes, scores = (self.labels.signs + 1) // 2, self.left_out_scores - self.threshold
        return scores, judged_by_others(scores, codes, self._label_weights, self.problem.objective, 0.0, 0.0)

    @cached_property
    def judged_labels(self) -> JudgedLabels | None:
        """The labelled rows as intervals judge them, by the fits of the state whose classifier is returned."""
        from observal.methods.newton.earlier import said_by

        def gaps(before: PoolState, rows: Ints) -> Floats:
            return np.asarray(before.model.unlabelled_gaps(rows))

        returned = self.returned
        with one_thread():  # many small products, as in the fit
            judged = self.judged if returned is self.state else said_by(self.problem, returned, self.state)
            return judge_labels(self.problem, self.state, gaps, returned.model.scores_of, judged)

    @property
    def left_out_classes(self) -> Ints:
        """The class of each labelled row by a fit that has not seen it."""
        return np.asarray(self.judged[1] if self.follows else (self.left_out_scores > 0.0).astype(np.int64))

    @cached_property
    def returned(self) -> PoolState:
        """The state whose classifier is returned: this one, unless an earlier one very likely makes fewer mistakes."""
        from observal.methods.newton.earlier import better_earlier

        method, plain = self.method, not self.follows and self.problem.cost is None
        if not (method.fixed.return_earlier and method.order == "pool" and plain):
            return self.state
        return better_earlier(self.problem, self.state) or self.state

    @cached_property
    def left_out_scores(self) -> Floats:
        """The margin of each labelled row by a fit that has not seen it."""
        with one_thread():
            return left_out((self.labels.signs + 1) // 2, self.out_of_fold, FOLDS)[0]

    @cached_property
    def label_cells(self) -> Cells:
        """The labelled rows in cells, by which a threshold is chosen and rounds are compared."""
        return label_cells(self.problem, self.state, self._margins_of, self.left_out_scores)

    @property
    def _label_weights(self) -> Floats:
        return self.label_cells.row_weight

    def _margins_of(self, rows: Ints) -> Floats:
        fit = self.output_fit.fit
        return self.feature_map.mapped(partial(margins_of, fit=fit), self.problem.take(rows))

    @cached_property
    def output_fit(self) -> Weighted:
        """The fit that is returned: it up-weights rows near the boundary, unless the method has that switched off."""
        with one_thread():
            return self._refit(self.query_fit, self.labelled, self.labels.signs)

    def _refit(self, first: Weighted, X: Any, signs: Ints) -> Weighted:
        """Return the output fit for `first`, a query fit on the same rows."""
        if self.follows or not self.method.refit_near_boundary:
            return first
        settings = self.chosen.ridge, self.method.fixed.penalty
        return Weighted(*near_boundary(first.fit, X, signs, first.weights, *settings, population=self._population))

    @property
    def _population(self) -> Any:
        """Some rows of log and pool, evenly spread; of the log alone if the pool is a stream."""
        n_rows = self.problem.n_logged if self.method.order == "stream" else self.problem.n_rows
        return self.feature_map(self.problem.take(np.arange(0, n_rows, 1 + (n_rows - 1) // ROWS_FOR_TYPICAL)))

    def gaps(self, X: Any) -> Floats:
        """Return how much worse the fit must get before the sign of each row flips."""
        fit = self.query_fit
        return self.feature_map.mapped(partial(flip_gaps, fit=fit.fit, total=fit.total, threshold=self.threshold), X)

    def scores_of(self, rows: Ints) -> Scores:
        """Return the moderated margin and the predicted class of rows of log and pool."""
        if self.follows:
            scores = self._margins_of(rows) - self.threshold
            return scores, (scores > 0.0).astype(np.int64)
        X, fit = self.problem.take(rows), self.output_fit
        scores = self.feature_map.mapped(partial(moderated, fit=fit.fit, total=fit.total), X)
        return scores, (scores > 0.0).astype(np.int64)

    def unlabelled_gaps(self, rows: Ints) -> Floats:
        """Return the gap of rows of log and pool, each as if its own label were unknown.

        A labelled row is removed from the fit by one Newton step: with c its share of the weights, φ the logistic loss and h
        its leverage, its margin m moves to ``m + c·φ'(m)·h / (1 − c·φ''(m)·h)`` and its leverage to
        ``h / (1 − c·φ''(m)·h)``.
        """
        gaps = self.gaps(self.problem.take(rows))
        if self.labels.rows.size == 0:
            return gaps
        order = np.argsort(self.labels.rows)
        found = order[np.minimum(np.searchsorted(self.labels.rows, rows, sorter=order), order.size - 1)]
        labelled = self.labels.rows[found] == rows
        found = found[labelled]
        fit, weights = self.query_fit
        share = weights[found] / max(float(weights.sum() + weights.mean()), 1e-300)  # the two half rows weigh a mean
        h = leverages(self.labelled[found], fit.hessian)
        m = self.labels.signs[found] * (self.labelled[found] @ fit.coef + fit.intercept)
        tail = expit(-m)
        left = np.maximum(1.0 - share * tail * (1.0 - tail) * h, LEAST_LEFT)
        away = m - share * tail * h / left - self.labels.signs[found] * self.threshold
        gaps[labelled] = 0.5 * self.query_fit.total * away**2 * left / np.maximum(h, 1e-300)
        return gaps

    def out_of_fold(self, train: Ints, test: Ints) -> Scores:
        """Return the moderated margin and the predicted class of some labelled rows by a fit on others."""
        X, signs, weights = self.labelled[train], self.labels.signs[train], self.query_fit.weights[train]
        start = np.append(self.query_fit.fit.coef, self.query_fit.fit.intercept)
        fit = fit_logistic(X, signs, weights, self.chosen.ridge, self.method.fixed.penalty, start)
        output = self._refit(Weighted(fit, weights), X, signs)
        scores = (
            self.labelled[test] @ output.fit.coef + output.fit.intercept
            if self.follows
            else moderated(self.labelled[test], output.fit, output.total)
        )
        return scores, (scores > 0.0).astype(np.int64)

    @cached_property
    def labelled(self) -> Any:
        """The labelled rows as the linear model sees them."""
        return self.labels.X(self.feature_map)

    @property
    def judged_gaps(self) -> Floats:
        """The gap of each pool row; of each logged row if the pool is a stream, whose rows are not known yet."""
        if self.latest.get("model") is not self:
            self.latest.clear()
            X = self.problem.logged.X if self.method.order == "stream" else self.problem.pool.X
            self.latest.update(model=self, gaps=self.gaps(X))
        gaps: Floats = self.latest["gaps"]
        return gaps

    @property
    def pool_margins(self) -> Floats:
        """The distance of each pool row from the boundary, in log odds."""
        distances = partial(boundary_distances, fit=self.query_fit.fit, threshold=self.threshold)
        return self.feature_map.mapped(distances, self.problem.pool.X)

    @cached_property
    def flips(self) -> float:
        """The expected share of these rows whose sign more labels would change."""
        gaps = self.judged_gaps
        return float(sum(ndtr(-np.sqrt(2.0 * part)).sum() for part in pieces_of(gaps))) / max(1, gaps.size)


def margins_of(Z: Any, fit: NewtonFit) -> Floats:
    """Return the margin of each row, in log odds."""
    return np.asarray(Z @ fit.coef + fit.intercept)


def flip_gaps(Z: Any, fit: NewtonFit, total: float, threshold: float = 0.0) -> Floats:
    """Return how much worse a fit must get before a row's margin crosses the threshold: A·m²/(2·xᵀH⁻¹x), m the way to it."""
    margins = margins_of(Z, fit) - threshold
    return np.asarray(0.5 * total * margins**2 / np.maximum(leverages(Z, fit.hessian), 1e-300))


def boundary_distances(Z: Any, fit: NewtonFit, threshold: float = 0.0) -> Floats:
    """Return the distance of each row from the boundary, in log odds."""
    return np.abs(margins_of(Z, fit) - threshold)


def moderated(Z: Any, fit: NewtonFit, total: float) -> Floats:
    """Return the margin of each row, shrunk where the fit is uncertain about it: m / sqrt(1 + π·v/8), v = x̃ᵀ(A·H)⁻¹x̃.

    A logistic probability averaged over a normal margin with mean m and variance v is about σ of this.
    """
    margins = Z @ fit.coef + fit.intercept
    return np.asarray(margins / np.sqrt(1.0 + np.pi / 8.0 * leverages(Z, fit.hessian) / total))

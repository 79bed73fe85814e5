"""AutoVC's fit: the blend after a round, and what it says of the pool."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from observal.checks import Floats, Ints
from observal.learners.blend import Blend, Chosen, fit_blend, lead
from observal.learners.population import Population
from observal.methods.intervals import Scores
from observal.methods.pool import PoolState
from observal.parts import map_blocks
from observal.problem import Problem

if TYPE_CHECKING:
    from observal.methods.auto.method import AutoVC

UNCERTAIN_SHARE = 0.1  # of the log's rows: on a stream, rows with leads as small as theirs are uncertain
AGAIN = 1.5  # weights and settings are chosen anew when this many times the labels were bought


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
        The earlier state whose weights and settings still hold; without one they are chosen anew.
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
        known = (problem.logged.X,) if method.order == "stream" else (problem.logged.X, problem.pool.X)
        return cls(method, problem, Population.of(*known))

    def after(self, before: PoolState, n_bought: int) -> Self:
        """Return the fitter of the state that follows `before`."""
        anchor = before if self.anchor is None else self.anchor
        is_time = n_bought >= max(AGAIN * anchor.bought.size, 1)
        return replace(self, anchor=None if is_time else anchor)

    def __call__(self, state: PoolState) -> AutoModel:
        """Fit on all labels."""
        problem, method = self.problem, self.method
        rows, codes = state.labelled(problem)
        weights, clip = state.importance(problem, rows, method.clip_constant if method.clip else None)
        weights = weights**method.tempering
        if problem.cost is not None:
            weights = weights * problem.cost[rows]
        kept: Chosen | None = None if self.anchor is None else self.anchor.model.chosen
        X, classes = problem.take(rows), problem.logged.classes
        blend, out_of_fold, chosen = fit_blend(self.population, X, codes, weights, classes, method.learners, kept)
        scores = _scores(*lead(out_of_fold), len(classes))
        return AutoModel(problem, method, blend, chosen, scores, clip, self.latest)


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
    out_of_fold : pair of arrays
        Score and predicted class of each labelled row by fits that have not seen it.
    clip : float
        The largest weight.
    latest : dict
        Holds what the latest model says of the pool.
    """

    problem: Problem = field(repr=False)
    method: AutoVC
    blend: Blend
    chosen: Chosen | None
    out_of_fold: Scores = field(repr=False)
    clip: float
    latest: dict[str, Any] = field(repr=False)

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
        for block in map_blocks(self.blend.judge_block, X):
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
        return self.blend.judge(X).margins

    def unlabelled_leads(self, rows: Ints, labelled: Ints) -> Floats:
        """Return the lead of rows of the stack of log and pool, each as if its own label were unknown.

        Parameters
        ----------
        rows : int array
            The rows.
        labelled : int array
            The rows that had a label, in the order of `out_of_fold`: their leads are those of fits that have not seen it.
        """
        leads = self.blend.judge(self.problem.take(rows)).margins
        if labelled.size:
            order = np.argsort(labelled)
            place = order[np.minimum(np.searchsorted(labelled, rows, sorter=order), order.size - 1)]
            known = labelled[place] == rows
            leads[known] = np.abs(self.out_of_fold[0][place[known]])
        return leads

    @cached_property
    def disagreement(self) -> float:
        """The mean weight, over the judged rows, of the learners that say another class than the blend."""
        return self.judged.disagreement

    def scores_of(self, rows: Ints) -> Scores:
        """Return score and predicted class of rows of the stack of log and pool."""
        codes, margins, *_ = self.blend.judge(self.problem.take(rows))
        return _scores(codes, margins, self.blend.classes_.size)


def _scores(codes: Ints, margins: Floats, n_classes: int) -> Scores:
    """Return how far each row is on the side of the last class, and its class."""
    return np.where(codes == n_classes - 1, margins, -margins), codes

"""Intervals for a pool method's classifier on the whole population, from the log's labels and the bought ones.

**Two kinds of rows.** A round takes the rows with the smallest gaps. So each row of log and pool, labelled or not,
either would have been taken by some round or not. Nearly all pool rows of the first kind were bought, whatever their
labels, so the bought ones represent that kind. Labels of the second kind come from the log, with its propensities,
and from rows picked at random. The kind of a labelled row is decided by out-of-fold fits. With AutoVC that is needed
only for the log's rows, because which rows were picked at random is on record. Where a method has no such fits, a row
that was taken represents only itself.

**Out of fold.** Each labelled row is judged by a fit that has not seen it. Mixing in the mistakes of the fit that has
seen it, as Efron's 0.632 does, is too optimistic with many features or with a model that memorises labels.

**Estimate.** Rows of each kind are grouped into cells by propensity and score, and the labelled rows of a cell
represent all its rows. With P_c the share of rows in cell c and ē_c the share of mistakes among its labels, the error
is ``Σ P_c·ē_c``. Within a cell, labels are weighted by 1/(m·Q0 + N·π), where π is the share of the cell's pool rows
that were bought: multiple importance sampling, with our own labelling rate measured in each cell. Cells with few
labels borrow from similar cells, so that a_c takes the place of P_c: see ``observal.intervals.trend``.

**Variance.** ``Σ a_c²·s_c²/n_c`` for the labels, ``τ²·Σ (P_c − a_c)²`` for cells that do not follow the trend, and the
variance of ē_c between cells for the rows themselves. s_c² is shrunk towards the mean variance of all cells, which
counts as much as five labels. Out-of-fold fits share most of their labels, so their mistakes are correlated, and more
so if single labels change many predictions or if a linear fit has learned little: ``correlation_factor``.

**Ends.** Both ends are those of a mid-P interval for labels with unequal weights. They allow for half a label more, in
the cell where the next one is likely to be and with the weight it would have there. So even a region with few labels
has a bound of its own: ``beta_ends``.

**Fewer labels.** Fits without a seventh of the labels are wrong a little more often than the classifier itself. AutoVC
and CommitteeVC compare them with fits without a quarter, extrapolate, and lower the lower end of the error's interval
accordingly: ``allow_for_fewer_mistakes``.

**What labels cannot tell.** A stratum with too few labels may be all wrong or all right, and so may the rows that were
asked about and skipped. Both ends move out by that share.

**Hidden causes.** If the old policy also used something that is not on record, no test shows it. A second interval for
the error says how far it may move if the true odds of revealing a label differ from the stated ones by a factor of up
to Γ = 1.5.

The interval is not a guarantee: it assumes that the rows of a cell are alike. `observal-research verify` measures how
often it covers. It is about the share of mistakes, whatever they cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.intervals.cells import METHOD, Cells, correlation_factor, make_cells
from observal.intervals.contradiction import COMPARED, contradiction, random_minus_log
from observal.intervals.flagging import (
    Flagging,
    combine_estimates,
    flagging_intervals,
    flagging_of,
    in_whole_rows,
)
from observal.intervals.measures import BASELINE, measure_all
from observal.intervals.related import effective_number
from observal.intervals.state import FREE, GATED, PoolState, rows_for_cells, taken_rows
from observal.intervals.thresholds import Threshold
from observal.learners.folds import FINE_FOLDS, dealt_folds
from observal.problem.interval import CONFIDENCE, Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.objectives import BALANCED, is_about_last
from observal.problem.plan import ASKED
from observal.problem.problem import Problem

LEAST_LABELLED = 20  # labelled rows, or groups of them, without which there is no interval
INTERVAL_ROWS = 100_000  # rows of log and pool that are sorted into cells
CONFOUNDED = "confounded error"
BY_BOUGHT = "error on the pool, by bought labels alone"
"""The key of the error by the rule of ``observal.problem.given``, which needs no propensities: there if the log is contradicted."""

Scores = tuple[Floats, Ints]
"""A score, by which cells are cut, and the predicted class code of each row."""
Gaps = Callable[[PoolState, Ints], Floats | None]
"""From a state and rows to the gaps that these rows had in it; None where they are unknown."""


def would_take(state: PoolState, propensity: Floats, n_logged: int, rows: Ints, gaps: Gaps) -> Bools:
    """Return which rows would have been taken for their gap by some round so far, had they been open in the pool.

    Parameters
    ----------
    state : PoolState
        After the last round.
    propensity : array
        Of the rows of log and pool.
    n_logged : int
        Rows of the log.
    rows : int array
        Positions among the rows of log and pool.
    gaps : callable
        Gives the gaps that a round was planned with, if its plan does not record them. It may return None: then the
        rows that the round took represent only themselves.
    """
    is_taken = np.zeros(rows.size, dtype=bool)
    while state.before is not None and state.plan is not None and state.planned_in is not None:
        planned_in, plan, state = state.planned_in, state.plan, state.before
        if plan.near is not None and plan.near_gaps is not None:
            recorded = np.full(propensity.size, np.inf)
            recorded[plan.near] = plan.near_gaps
            row_gaps, asked_gaps = recorded[rows], recorded[n_logged + plan.asked]
        else:
            all_gaps = gaps(planned_in, np.append(rows, n_logged + plan.asked))
            if all_gaps is None:
                continue
            row_gaps, asked_gaps = all_gaps[: rows.size], all_gaps[rows.size :]
        reason = plan.reason[plan.action == ASKED]
        # The gate lets rows through in the order of their propensity; the largest that passed marks how far it was open.
        gated = reason == GATED
        opened = propensity[rows] <= propensity[n_logged + plan.asked[gated]].max(initial=-np.inf)
        is_taken |= opened & (row_gaps <= asked_gaps[gated].max(initial=-np.inf))
        is_taken |= row_gaps <= asked_gaps[reason == FREE].max(initial=-np.inf)
    return is_taken


@dataclass(frozen=True, eq=False)
class JudgedLabels:
    """The labelled rows, their out-of-fold predictions, and what each of them represents.

    Parameters
    ----------
    rows, codes : int arrays
        The labelled rows of log and pool, and their classes.
    scores, predicted : arrays
        By a fit that has not seen the row.
    cells : Cells
        The cells that the rows were sorted into.
    taken : bool array
        Which of them some round would have taken for their gap.
    better : float
        How much lower the classifier's error may be than that of out-of-fold fits, because these have fewer labels.
    flagging : Flagging, optional
        How many rows are predicted to be positive, where an objective decides that, and what is found among them.
    by_bought : callable, optional
        Computes the error on the pool by bought labels alone.
    """

    rows: Ints
    codes: Ints
    scores: Floats
    predicted: Ints
    cells: Cells
    taken: Bools
    better: float = 0.0
    flagging: Flagging | None = None
    by_bought: Callable[[], Interval] | None = None

    def allowing_for(self, gains: Floats) -> JudgedLabels:
        """Return the labels with an allowance for the classifier being better than the out-of-fold fits.

        `gains` says for each labelled row how much less often the classifier is wrong, extrapolated from fits with fewer labels.
        """
        return replace(self, better=max(0.0, float(self.cells.row_weight @ gains)))

    def weighted(self) -> JudgedRows:
        """Return the rows with weights that sum to 1."""
        return JudgedRows(self.rows, self.codes, self.predicted, self.cells.row_weight, self.cells.ratio)


def judge_labels(
    problem: Problem,
    state: PoolState,
    gaps: Gaps,
    scores_of: Callable[[Ints], Scores],
    out_of_fold: Callable[[Ints, Ints], Scores] | Scores,
    folds: int = FINE_FOLDS,
    on_record: bool = False,
    toss_ups: float = 0.0,
    threshold: Threshold | None = None,
) -> JudgedLabels | None:
    """Return the labelled rows as fits that have not seen them judge them, sorted into cells; None if there are too few.

    Parameters
    ----------
    problem : Problem
        Log and pool.
    state : PoolState
        What was bought and skipped.
    gaps : callable
        From an earlier state and rows of the stack of log and pool to their gaps, each as if its label were unknown; None where
        such gaps are unavailable.
    scores_of : callable
        From rows to scores and predicted classes by the classifier itself.
    out_of_fold : callable or pair of arrays
        From labelled rows to train on and labelled rows to judge, as positions in ``state.labelled``, to the judged rows'
        scores and predicted classes; or these for all labelled rows, where the method has them already.
    folds : int
        How many times to fit without some rows.
    on_record : bool
        Whether rows picked at random never count among those that a round would have taken. Out-of-fold fits are less
        certain of such a row than of the unlabelled rows around it that it represents, and would count it as uncertain.
    toss_ups : float
        The mean chance that another sample would flip the prediction of a labelled row, where it is known.
    threshold : Threshold, optional
        From which score on rows are of the last class, where an objective decides that.
    """
    rows, codes = state.labelled(problem)
    groups = problem.groups_of(rows)
    n_counted = codes.size if groups is None else np.unique(groups).size
    if np.unique(codes).size < 2 or n_counted < LEAST_LABELLED:
        return None
    out_scores, predicted = left_out(codes, out_of_fold, folds, groups) if callable(out_of_fold) else out_of_fold
    frame, where, counted = rows_for_cells(state, rows, problem.n_logged, problem.n_rows, INTERVAL_ROWS)
    scores, called = scores_of(frame)
    changed = float(np.mean(called[where] != predicted))
    by_classifier = called == problem.logged.classes.size - 1
    scores[where], called[where] = out_scores, predicted
    kind = would_take(state, problem.propensity, problem.n_logged, frame, gaps)
    bought, skipped = (np.isin(frame - problem.n_logged, part) for part in (state.bought, state.skipped))
    kind &= ~(bought & on_record)
    kind |= np.isin(frame - problem.n_logged, taken_rows(state))  # even if rounding moves a gap past the threshold
    of_pool = frame >= problem.n_logged
    target = problem.counts(frame)
    sorting = (problem.propensity[frame], kind, scores, where, bought, skipped, of_pool, counted, target)
    cells = make_cells(*sorting)
    n_rows = effective_number(problem.groups_of(frame[counted & target]), cells.n_rows)
    cells = replace(cells, correlated=correlation_factor(changed, toss_ups), groups=groups, n_rows=n_rows)
    cells = cells.borrowing((predicted != codes).astype(np.float64))
    is_flagged = called == problem.logged.classes.size - 1
    flagging = (
        None
        if threshold is None
        else flagging_of(
            threshold, scores, is_flagged, by_classifier, counted & target, problem.logged.classes.tolist()
        )
    )

    def by_bought() -> Interval:
        mine, in_pool, wrong = of_pool[where], np.flatnonzero(of_pool), (predicted != codes).astype(np.float64)
        wrong, place = wrong[mine], np.searchsorted(in_pool, where[mine])
        known = (part[of_pool] for part in (bought, skipped, of_pool, counted))
        own = make_cells(np.zeros(in_pool.size), kind[of_pool], scores[of_pool], place, *known)
        n_rows = effective_number(problem.groups_of(frame[counted & of_pool]), own.n_rows)
        related = None if groups is None else groups[mine]
        own = replace(own, correlated=correlation_factor(changed, toss_ups), groups=related, n_rows=n_rows)
        return own.borrowing(wrong).ratio(wrong, np.ones(wrong.size))

    return JudgedLabels(rows, codes, out_scores, predicted, cells, kind[where], flagging=flagging, by_bought=by_bought)


def intervals_of(problem: Problem, state: PoolState, judged: JudgedLabels | None) -> dict[str, Interval]:
    """Return intervals for the error and the other measures; precision, recall, prevalence and AUC of the last class where these are about one."""
    last = len(problem.logged.classes) - 1
    one_class = is_about_last(problem.goals.objective, last + 1)
    names = ("error", "precision", "recall", "prevalence") if one_class else ("error",)
    if judged is None:
        codes = state.labelled(problem)[1]
        groups = problem.groups_of(state.labelled(problem)[0])
        in_groups = "" if groups is None else f" in {np.unique(groups).size} groups"
        reason = f"{METHOD}: {codes.size} labels{in_groups} of {np.unique(codes).size} classes are too few"
        confounded = () if problem.is_given else (CONFOUNDED,)
        return {name: Interval(0.5, 0.0, 1.0, CONFIDENCE, reason) for name in (*names, BASELINE, *confounded)}
    codes, predicted, cells = judged.codes, judged.predicted, judged.cells
    values, classes = _values(codes, predicted, last), problem.logged.classes.tolist()
    intervals = {name: cells.ratio(*values[name]) for name in names}
    intervals |= measure_all(cells, codes, predicted, judged.scores, classes, problem.goals.objective)
    moving = ("error", BALANCED, "precision", "recall") if problem.goals.objective == "error" else ("error", BALANCED)
    intervals |= allow_for_fewer_mistakes(
        {name: intervals[name] for name in moving if name in intervals}, judged.better
    )
    if judged.flagging is not None:
        intervals |= flagging_intervals(judged.flagging, cells, codes == last, judged.scores)
        intervals |= combine_estimates(intervals, judged.flagging)
        intervals["precision"] = in_whole_rows(intervals["precision"], judged.flagging.share * cells.n_rows)
    if not problem.is_given:  # otherwise nothing is assumed about the old policy
        intervals[CONFOUNDED] = cells.confounded(values["error"][0], intervals["error"])
    compared = (cells.of_label >= 0) & ~judged.taken  # rows of the log, and rows picked at random
    picked = judged.rows[compared] >= problem.n_logged
    groups = None if cells.groups is None else cells.groups[compared]
    for name, key in COMPARED.items():
        if name in names and (
            difference := random_minus_log(cells.of_label[compared], picked, values[name][0][compared], groups)
        ):
            intervals[key] = difference
    if contradiction(intervals) is not None and judged.by_bought is not None:
        intervals[BY_BOUGHT] = allow_for_fewer_mistakes({"error": judged.by_bought()}, judged.better)["error"]
    return intervals


def allow_for_fewer_mistakes(intervals: Mapping[str, Interval], better: float) -> dict[str, Interval]:
    """Return intervals for error, balanced error, precision and recall that allow for the classifier's error being lower by `better`.

    If the classifier makes a certain share fewer mistakes, error and balanced error fall by that share, and so do
    1 − precision and 1 − recall. A recall that is set by a threshold does not move. The gain b is about as uncertain as
    it is large. So the end that moves, at a distance d from the estimate, moves out to ``b + sqrt(d² + b²)``.

    Examples
    --------
    >>> known = {"error": Interval(0.2, 0.15, 0.25, 0.95, "cells"), "recall": Interval(0.7, 0.6, 0.8, 0.95, "cells")}
    >>> allowed = allow_for_fewer_mistakes(known, better=0.02)
    >>> round(allowed["error"].low, 3), round(allowed["recall"].high, 3)
    (0.126, 0.834)
    """
    fewer = min(1.0, better / max(intervals["error"].estimate, 1e-300))

    def allow(name: str, interval: Interval) -> Interval:
        moved = fewer * (1.0 - interval.unknown)
        if name in ("error", BALANCED):
            gain = moved * interval.estimate
            distance = gain + float(np.hypot(interval.estimate - interval.low, gain))
            return replace(interval, low=min(interval.low, max(0.0, interval.estimate - distance)))
        gain = moved * (1.0 - interval.estimate)
        distance = gain + float(np.hypot(interval.high - interval.estimate, gain))
        return replace(interval, high=max(interval.high, min(1.0, interval.estimate + distance)))

    return {name: allow(name, interval) for name, interval in intervals.items()}


def left_out(
    codes: Ints, out_of_fold: Callable[[Ints, Ints], Scores], folds: int, groups: Ints | None = None
) -> Scores:
    """Return score and predicted class of each labelled row by a fit that has not seen it, nor any of its group."""
    scores, predicted = np.empty(codes.size), np.empty(codes.size, dtype=np.int64)
    fold_of = dealt_folds(codes, folds, groups)
    for fold in np.unique(fold_of):
        test = np.flatnonzero(fold_of == fold)
        scores[test], predicted[test] = out_of_fold(np.flatnonzero(fold_of != fold), test)
    return scores, predicted


def _values(codes: Ints, predicted: Ints, last: int) -> dict[str, tuple[Floats, Floats]]:
    """Return what each measure divides by what, a value for each labelled row."""
    unit, positive, called_positive = (
        np.ones(codes.size),
        (codes == last).astype(np.float64),
        (predicted == last).astype(np.float64),
    )
    return {
        "error": ((predicted != codes).astype(np.float64), unit),
        "precision": (positive * called_positive, called_positive),
        "recall": (positive * called_positive, positive),
        "prevalence": (positive, unit),
    }

"""Intervals for a pool method's classifier on the whole population, from the log's labels and the bought ones.

**Two kinds of rows.** A round takes the rows whose gap is below the largest gap it took. By these thresholds every row of log or
pool, labelled or not, either would have been taken by some round or would not. Nearly all pool rows of the first kind were
bought, whatever their labels, so they represent that kind. Labels of the second kind come from the log, with its own chances,
and from rows picked at random. Whether a labelled row is of the first kind is decided by fits that have not seen its label. A
method without such fits says so; then each row that was taken represents only itself.

**Left out.** Each labelled row is judged by a fit that has not seen it. Mixing in mistakes of the fit that has seen it, as in
Efron's 0.632, would be too optimistic with many features, or with a model that memorises labels.

**Estimate.** Rows of each kind are grouped into cells by propensity stratum and score, and a cell's labelled rows represent all
its rows: with P_c the share of rows in cell c and ē_c the share of mistakes among its labelled ones, the error is
``Σ P_c·ē_c``. Within a cell labels count by 1/(m·Q0 + N·π), π being the share of its pool rows that were bought: this is
multiple importance sampling with the rate of our own labelling measured in each cell.

**Spread.** ``Σ P_c²·s_c²/n_c`` for the labels, and the variance of ē_c between rows for the rows themselves. Part of a
pseudo-row at either extreme keeps a cell with few, agreeing labels from looking certain. The out-of-fold fits share most of
their rows, so their mistakes are not independent; the standard error is therefore raised by a tenth. Student's t with Satterthwaite's degrees of freedom allows for few labels; Wilson's centre keeps the interval from
collapsing where no mistake was seen.

**What labels cannot tell.** A stratum with hardly any labels may be all wrong or all right, and so may the share of rows in each
cell that were asked about and skipped. Both ends of the interval move by that much.

**Hidden causes.** If the old policy also looked at something that is not on record, no test shows it. A second interval for the error says
how far it may move if the true odds of revealing a label differ from the stated ones by a factor of up to Γ = 1.5.

The interval is not a guarantee: it assumes that the rows of one cell are alike. `observal verify` measures how often it covers. It
is about the share of mistakes, whatever they cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.methods.contradiction import COMPARED, random_minus_log
from observal.methods.pool import FREE, GATED, PoolState
from observal.problem import Problem
from observal.types import ASKED, Interval

FOLDS = 30  # a fit without a thirtieth of the labels is close to the classifier itself; 60 take twice the time
CONFIDENCE = 0.95
SCORE_BINS = 6
LEAST_LABELS = 10  # of a cell, about
LEAST_KNOWN = 4  # of a stratum; one with fewer joins another or counts as unknown
N_STRATA = 8
PSEUDO_ROWS = 0.4
CORRELATED = 1.1  # how much larger the standard error is than that of independent mistakes
MOST_UNLIKE = 10.0  # times by which the propensities of strata that join may differ
MOST_ROWS = 100_000  # of log and pool that are sorted into cells
HIDDEN = 1.5  # Γ: the strength of hidden confounding that a second interval for the error allows for
CONFOUNDED = "confounded error"
METHOD = "labels of log and queries by propensity and score, out of fold, normal approximation"

Scores = tuple[Floats, Ints]
"""A score, by which cells are cut, and the predicted class code of each row."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows sorted into cells.

    Parameters
    ----------
    share : array of shape (cells,)
        P_c.
    of_label : int array
        The cell of each labelled row; −1 in a stratum with hardly any labels.
    weight : array
        Of each labelled row within its cell.
    unknown : float
        The share of rows of which labels cannot tell anything.
    n_rows : int
        All rows.
    lightest, heaviest : arrays, optional
        What the weights may be if the log's odds of revealing a label are off by a factor of up to `HIDDEN`.
    """

    share: Floats
    of_label: Ints
    weight: Floats
    unknown: float
    n_rows: int
    lightest: Floats | None = None
    heaviest: Floats | None = None

    def confounded(self, mistakes: Floats, error: Interval) -> Interval:
        """Return the interval for the error, moved out by as far as a hidden cause of labelling may move the estimate.

        Under the marginal sensitivity model a label's weight may be anything between `lightest` and `heaviest`, whatever the
        label. In each cell the share of mistakes is largest where every mistake has its heaviest weight and every other row
        its lightest.
        """
        if self.lightest is None or self.heaviest is None:
            return error
        used = self.of_label >= 0
        cell, wrong = self.of_label[used], mistakes[used]

        def estimate(of_mistakes: Floats, of_others: Floats) -> float:
            weights = (wrong * of_mistakes[used], (1.0 - wrong) * of_others[used])
            tops, others = (np.bincount(cell, weights=w, minlength=self.share.size) for w in weights)
            return float(self.share @ (tops / (tops + others)))

        now = estimate(self.weight, self.weight)
        less, more = now - estimate(self.lightest, self.heaviest), estimate(self.heaviest, self.lightest) - now
        low, high = max(0.0, error.low - max(0.0, less)), min(1.0, error.high + max(0.0, more))
        words = f"{error.method}; the log's odds of revealing a label may be off by a factor of {HIDDEN:g}"
        return replace(error, low=low, high=high, method=words)

    def ratio(self, top: Floats, bottom: Floats) -> Interval:
        """Return an interval for E[top]/E[bottom] over all rows, from the values of the labelled ones, each from 0 to 1."""
        used = self.of_label >= 0
        top, bottom, cell, weight = top[used], bottom[used], self.of_label[used], self.weight[used]

        def sums(values: Floats) -> Floats:
            return np.asarray(np.bincount(cell, weights=values, minlength=self.share.size), dtype=np.float64)

        total = sums(weight)
        n = total**2 / sums(weight**2)
        whole = float(self.share @ (sums(weight * bottom) / total))
        if not whole > 0.0:
            return Interval(0.5, 0.0, 1.0, CONFIDENCE, f"{METHOD}: no labelled row to judge by")
        estimate = float(self.share @ (sums(weight * top) / total)) / whole
        rest = top - estimate * bottom
        means = sums(weight * rest) / total
        spread = sums(weight * (rest - means[cell]) ** 2) / total
        extremes, more = np.array([-estimate, 1.0 - estimate]), n + 2.0 * PSEUDO_ROWS
        centre = (n * means + PSEUDO_ROWS * extremes.sum()) / more
        away = PSEUDO_ROWS * ((extremes[:, None] - centre) ** 2).sum(axis=0)
        spread = (n * (spread + (means - centre) ** 2) + away) / more
        parts = self.share**2 * spread / more
        freedom = float(parts.sum() ** 2 / (parts**2 @ (1.0 / np.maximum(more - 1.0, 1.0))))
        variance = float(CORRELATED**2 * parts.sum() + self.share @ means**2 / self.n_rows) / whole**2
        low, high = wilson(estimate, variance, float(n.sum()) * whole, freedom)
        unknown = self.unknown / ((1.0 - self.unknown) * whole + self.unknown)
        low, high = (1.0 - unknown) * low, min(1.0, (1.0 - unknown) * high + unknown)
        low, high = min(low, estimate), max(high, estimate)  # whatever rounding does
        return Interval(estimate, low, high, CONFIDENCE, METHOD, unknown)


def wilson(estimate: float, variance: float, n_labels: float, freedom: float = np.inf) -> tuple[float, float]:
    """Return Wilson's interval for a share whose estimate has that variance; `n_labels` counts where there is none.

    `freedom` says how well the variance is known, in degrees of freedom of Student's t.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.1, 0.1 * 0.9 / 100, 100)]
    [0.055, 0.174]
    >>> [round(end, 3) for end in wilson(0.0, 0.0, 100)]
    [0.0, 0.037]
    """
    from scipy.special import ndtri, stdtrit

    tail = 0.5 + CONFIDENCE / 2
    z = float(stdtrit(max(freedom, 2.0), tail) if np.isfinite(freedom) else ndtri(tail))
    estimate = min(1.0, max(0.0, estimate))
    bernoulli = estimate * (1.0 - estimate)
    n = bernoulli / variance if variance > 0.0 and bernoulli > 0.0 else n_labels
    n = max(n, 1e-9)
    centre = (estimate + z * z / (2.0 * n)) / (1.0 + z * z / n)
    reach = z / (1.0 + z * z / n) * np.sqrt(bernoulli / n + z * z / (4.0 * n * n))
    return max(0.0, centre - float(reach)), min(1.0, centre + float(reach))


def would_take(
    state: PoolState, propensity: Floats, n_logged: int, rows: Ints, gaps: Callable[[PoolState, Ints], Floats]
) -> Bools:
    """Return which rows some round so far would have taken for their gap, had they been open in the pool.

    Parameters
    ----------
    state : PoolState
        After the last round.
    propensity : array
        Of the rows of log and pool.
    n_logged : int
        Rows of the log.
    rows : int array
        Positions in the stack of log and pool.
    gaps : callable
        From an earlier state and rows to the gaps that its round was planned with.
    """
    taken = np.zeros(rows.size, dtype=bool)
    while state.before is not None and state.plan is not None:
        before, plan = state.before, state.plan
        here = gaps(before, rows)
        asked = gaps(before, n_logged + plan.asked)
        reason = plan.reason[plan.action == ASKED]
        # The gate lets rows through in the order of their propensity; the largest that passed marks how far it was open.
        gated = reason == GATED
        opened = propensity[rows] <= propensity[n_logged + plan.asked[gated]].max(initial=-np.inf)
        taken |= opened & (here <= asked[gated].max(initial=-np.inf))
        taken |= here <= asked[reason == FREE].max(initial=-np.inf)
        state = before
    return taken


def population_intervals(
    problem: Problem,
    state: PoolState,
    gaps: Callable[[PoolState, Ints], Floats] | None,
    scores_of: Callable[[Ints], Scores],
    out_of_fold: Callable[[Ints, Ints], Scores] | Scores,
    folds: int = FOLDS,
) -> dict[str, Interval]:
    """Return intervals for the error and, with two classes, for precision, recall and prevalence.

    Parameters
    ----------
    problem : Problem
        Log and pool.
    state : PoolState
        What was bought and skipped.
    gaps : callable, optional
        From an earlier state and rows of the stack of log and pool to their gaps, each as if its label were not known. None
        where such gaps are not to be had.
    scores_of : callable
        From rows to scores and predicted classes by the classifier itself.
    out_of_fold : callable or pair of arrays
        From labelled rows to train on and labelled rows to judge, as positions in ``state.labelled``, to the judged rows'
        scores and predicted classes; or these for all labelled rows, where the method has them already.
    folds : int
        How many times to fit without some rows.
    """
    rows, codes = state.labelled(problem)
    names = ("error",) if len(problem.logged.classes) != 2 else ("error", "precision", "recall", "prevalence")
    if np.unique(codes).size < 2 or codes.size < 20:
        reason = f"{METHOD}: {codes.size} labels of {np.unique(codes).size} classes are too few"
        return {name: Interval(0.5, 0.0, 1.0, CONFIDENCE, reason) for name in (*names, CONFOUNDED)}
    out_scores, predicted = _left_out(codes, out_of_fold, folds) if callable(out_of_fold) else out_of_fold
    frame, where, counted = _frame(problem, state, rows)
    scores, _ = scores_of(frame)
    scores[where] = out_scores
    kind = np.isin(frame - problem.n_logged, _taken_rows(state))
    if gaps is not None:
        kind |= would_take(state, problem.propensity, problem.n_logged, frame, gaps)
    bought, skipped = (np.isin(frame - problem.n_logged, part) for part in (state.bought, state.skipped))
    of_pool = frame >= problem.n_logged
    target = problem.counts(frame)
    cells = make_cells(problem.propensity[frame], kind, scores, where, bought, skipped, of_pool, counted, target)
    values = _values(codes, predicted)
    found = {name: cells.ratio(*values[name]) for name in names}
    found[CONFOUNDED] = cells.confounded(values["error"][0], found["error"])
    compared = (cells.of_label >= 0) & ~kind[where]  # rows of the log, and rows picked at random
    picked = rows[compared] >= problem.n_logged
    for name, key in COMPARED.items():
        if name in names and (
            difference := random_minus_log(cells.of_label[compared], picked, values[name][0][compared])
        ):
            found[key] = difference
    return found


def _left_out(codes: Ints, out_of_fold: Callable[[Ints, Ints], Scores], folds: int) -> Scores:
    """Return score and predicted class of each labelled row by a fit that has not seen it."""
    scores, predicted = np.empty(codes.size), np.empty(codes.size, dtype=np.int64)
    # Not random, and dealt on across classes: many folds of few rows stay even.
    fold_of = np.empty(codes.size, dtype=np.int64)
    fold_of[np.argsort(codes, kind="stable")] = np.arange(codes.size) % folds
    for fold in np.unique(fold_of):
        test = np.flatnonzero(fold_of == fold)
        scores[test], predicted[test] = out_of_fold(np.flatnonzero(fold_of != fold), test)
    return scores, predicted


def _values(codes: Ints, predicted: Ints) -> dict[str, tuple[Floats, Floats]]:
    """Return what each measure divides by what, a value for each labelled row."""
    ones, positive, said = np.ones(codes.size), (codes == 1).astype(np.float64), (predicted == 1).astype(np.float64)
    return {
        "error": ((predicted != codes).astype(np.float64), ones),
        "precision": (positive * said, said),
        "recall": (positive * said, positive),
        "prevalence": (positive, ones),
    }


def _taken_rows(state: PoolState) -> Ints:
    """Return the pool rows that rounds took for their gap."""
    taken = [np.empty(0, dtype=np.int64)]
    while state.before is not None and state.plan is not None:
        reason = state.plan.reason[state.plan.action == ASKED]
        taken.append(state.plan.asked[(reason == GATED) | (reason == FREE)])
        state = state.before
    return np.concatenate(taken)


def _frame(problem: Problem, state: PoolState, rows: Ints) -> tuple[Ints, Ints, Bools]:
    """Return the rows to sort into cells, the places of the labelled rows among them, and which rows represent the population.

    Of a large pool and log a random part is enough to tell how large the cells are; labelled and skipped rows are always
    sorted, but count only if they are in that part.
    """
    every = np.arange(problem.n_rows)
    if problem.n_rows > MOST_ROWS:
        every = np.random.default_rng(0).choice(problem.n_rows, MOST_ROWS, replace=False)
    frame = np.unique(np.concatenate([every, rows, problem.n_logged + state.skipped]))
    return frame, np.searchsorted(frame, rows), np.isin(frame, every)


def make_cells(
    propensity: Floats,
    kind: Bools,
    scores: Floats,
    rows: Ints,
    asked: Bools,
    skipped: Bools,
    of_pool: Bools,
    counted: Bools | None = None,
    target: Bools | None = None,
) -> Cells:
    """Sort all rows into cells by kind, propensity and score, each with enough labels.

    Parameters
    ----------
    propensity, kind, scores : arrays of shape (all rows,)
        By which to sort.
    rows : int array
        The labelled rows.
    asked, skipped, of_pool : bool arrays of shape (all rows,)
        Which rows were bought, which were asked about but skipped, and which are in the pool.
    counted : bool array of shape (all rows,), optional
        Which rows are a sample of log and pool; all by default.
    target : bool array of shape (all rows,), optional
        Which rows belong to the population that the error is about; all by default.
    """
    counted = np.ones(scores.size, dtype=bool) if counted is None else counted
    about = counted if target is None else counted & target
    labelled = np.zeros(scores.size, dtype=bool)
    labelled[rows] = True
    cuts = np.unique(np.quantile(propensity, np.arange(1, N_STRATA) / N_STRATA))
    strata = np.searchsorted(cuts, propensity, side="left")
    cell, n_cells = np.full(scores.size, -1, dtype=np.int64), 0
    for which in (False, True):
        of_kind = np.flatnonzero(kind == which)
        group = joined_strata(strata[of_kind], propensity[of_kind], labelled[of_kind])[strata[of_kind]]
        for one in np.unique(group[group >= 0]):
            here = of_kind[group == one]
            known = scores[here[labelled[here]]]
            n_bins = max(1, min(SCORE_BINS, known.size // LEAST_LABELS))
            # Ends are scores of labelled rows below the largest: however many are equal, each cell has a label.
            ends = np.unique(np.quantile(known, np.arange(1, n_bins) / n_bins, method="lower"))
            ends = ends[ends < known.max()]
            cell[here] = n_cells + np.searchsorted(ends, scores[here], side="left")
            n_cells += ends.size + 1
    inside = (cell >= 0) & counted
    sizes = np.bincount(cell[(cell >= 0) & about], minlength=n_cells)
    in_vain = np.bincount(cell[inside & skipped], minlength=n_cells)
    bought = np.bincount(cell[inside & asked], minlength=n_cells)
    lost = sizes * in_vain / np.maximum(in_vain + bought, 1)
    kept = (sizes - lost) / max(1.0, float((sizes - lost).sum()))
    # In a cell the log labels a row at the rate Q0, and queries label pool rows at a rate that is the same for all.
    n_pool = np.bincount(cell[inside & of_pool], minlength=n_cells)
    by_query = np.append(
        (of_pool & counted).sum() * bought / np.maximum(n_pool, 1), 1.0
    )  # the last for rows outside of all cells
    n_logged, chance = (~of_pool & counted).sum(), propensity[rows]

    def weights(strength: float) -> Floats:
        rate = n_logged * chance * strength / (1.0 - chance + chance * strength) + by_query[cell[rows]]
        return np.asarray(1.0 / np.maximum(rate, 1e-9))

    n_rows = int(about.sum())
    unknown = float(n_rows - sizes.sum() + lost.sum()) / n_rows
    return Cells(kept, cell[rows], weights(1.0), unknown, n_rows, weights(HIDDEN), weights(1.0 / HIDDEN))


def joined_strata(strata: Ints, propensity: Floats, labelled: Bools) -> Ints:
    """Return a group for each stratum; one with too few labels joins the nearest that has enough, or is −1.

    Those that find none join each other, where together they have enough.

    Strata are alike only if their propensities are: a region that the log shows ten times less often than its neighbour
    is a region that somebody chose not to look at, and the neighbour does not speak for it.

    Examples
    --------
    >>> import numpy as np
    >>> propensity = np.repeat([0.004, 0.1, 0.3], 10)
    >>> labelled = np.arange(30) >= 20
    >>> joined_strata(np.repeat([0, 1, 2], 10), propensity, labelled).tolist()
    [-1, 2, 2]
    """
    count = int(strata.max(initial=-1)) + 1
    sizes = np.maximum(np.bincount(strata, minlength=count), 1)
    labels = np.bincount(strata, weights=labelled, minlength=count)
    typical = np.bincount(strata, weights=propensity, minlength=count) / sizes
    enough = np.flatnonzero(labels >= LEAST_KNOWN)
    out = np.full(count, -1, dtype=np.int64)
    out[enough] = enough
    for stratum in np.flatnonzero(labels < LEAST_KNOWN):
        near = enough[np.argsort(np.abs(enough - stratum), kind="stable")][:1]
        pair = np.append(typical[near], typical[stratum])
        if near.size and pair.max() <= MOST_UNLIKE * pair.min():
            out[stratum] = near[0]
    left = np.flatnonzero((out < 0) & (np.bincount(strata, minlength=count) > 0))
    while left.size:
        alike = left[typical[left] <= MOST_UNLIKE * typical[left[0]]]
        if labels[alike].sum() >= LEAST_KNOWN:
            out[alike] = alike[0]
        left = left[alike.size :]
    return out

"""Rows of log and pool sorted into cells by propensity and score, and estimates for all rows from the labels of each cell.

``observal.intervals.error`` says why. Labels of a cell count by 1/(m·Q0 + N·π): at Q0 the log labels a row, and at the rate π, the
same for all rows of a cell, queries label pool rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from observal.checks import Bools, Floats, Ints
from observal.intervals.related import merge_groups, spread_across
from observal.intervals.state import stratum_cuts
from observal.intervals.trend import borrow, trend_of
from observal.problem.interval import CONFIDENCE, Interval

SCORE_BINS = 6  # cells of a stratum by score, at most
LEAST_LABELS = 10  # labels of a cell, about
MOST_UNEVEN = 1.5  # times as many rows for each label as in the stratum are the most that a cell may have,
ENOUGH_LABELS = 20  # unless it has so many labels
LEAST_KNOWN = 4  # labels of a stratum; one with fewer joins another or counts as unknown
SPREAD_LABELS = 5.0  # labels by which the spread of mistakes in a cell is drawn towards that in all cells
LEAST_SPREAD = 0.2  # floor for a cell's spread, as a share of that in all cells
LEAST_CORRELATED = 1.05  # factor of the standard error of independent mistakes
WITHOUT_CHANGES, OF_CHANGES = (
    0.3,
    5.0,
)  # variance, compared with that of independent mistakes, by the share of predictions that left-out labels change
FEW_TOSS_UPS, MANY_TOSS_UPS = 0.15, 0.19  # mean chances of a flipped prediction between which the variance grows;
OF_TOSS_UPS = 1.2  # by this much of the variance of independent mistakes
TINY = 1e-8  # smaller shares are 0
NEXT_LABEL = 0.5  # of a label more, mistaken or not, that both ends allow for: what mid-P intervals count
LEAST_PROPENSITY = 1e-6  # propensities below are treated as equal
MOST_UNLIKE = 10.0  # ratio by which the propensities of a stratum, or of strata that join, may differ
HIDDEN = 1.5  # Γ: the strength of hidden confounding that a second interval for the error allows for
NO_LABELS = "no labelled row to judge by"
METHOD = "labels of log and queries by propensity and score, out of fold, weighted beta interval"


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows sorted into cells.

    Parameters
    ----------
    share : array of shape (cells,)
        P_c.
    of_label : int array
        The cell of each labelled row; −1 in a stratum with too few labels.
    weight : array
        Of each labelled row within its cell.
    unknown : float
        The share of rows about which labels say nothing.
    n_rows : int
        All rows.
    lightest, heaviest : arrays, optional
        What the weights may be if the log's odds of revealing a label are off by a factor of up to `HIDDEN`.
    trend : array of shape (cells, columns), optional
        What mistakes may depend on.
    counts : array of shape (cells,), optional
        a_c, where cells borrow from each other.
    correlated : float
        How much larger the standard error is than that of independent mistakes: see ``correlation_factor``.
    off_trend : float
        τ²: how much cells that borrow may be off the trend, as a share of the variance of all mistakes.
    groups : int array, optional
        The group of each labelled row, where rows are related: see ``observal.intervals.related``.
    """

    share: Floats
    of_label: Ints
    weight: Floats
    unknown: float
    n_rows: int
    lightest: Floats | None = None
    heaviest: Floats | None = None
    trend: Floats | None = None
    counts: Floats | None = None
    off_trend: float = 0.0
    correlated: float = 1.0
    groups: Ints | None = None

    @property
    def counting(self) -> Floats:
        """How much the labels of each cell count: a_c, or P_c where cells do not borrow."""
        return self.share if self.counts is None else self.counts

    def borrowing(self, mistakes: Floats) -> Cells:
        """Return the cells with weights by which those with few labels borrow from others: see ``observal.intervals.trend``.

        Parameters
        ----------
        mistakes : array
            1 for each labelled row that is predicted wrong, else 0.
        """
        if self.trend is None or not self.share.any():
            return self
        cell, weight, value, _ = self._counted(mistakes[self.of_label >= 0])
        total, squares, wrong = (
            np.bincount(cell, weights=values, minlength=self.share.size)
            for values in (weight, weight**2, weight * value)
        )
        counts, off_trend = borrow(self.share, self.trend, total**2 / squares, wrong / total)
        return replace(self, counts=counts, off_trend=off_trend)

    def _counted(self, values: Floats) -> tuple[Ints, Floats, Floats, Ints | None]:
        """Return cell, weight, value and group of what counts as one: labelled rows in a cell, or those of a group together."""
        used = self.of_label >= 0
        cell, weight = self.of_label[used], self.weight[used]
        if self.groups is None:
            return cell, weight, values, None
        merged = merge_groups(cell, self.groups[used], weight, values)
        return merged.cell, merged.weight, merged.value, merged.group

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
            tops, correct = (np.bincount(cell, weights=w, minlength=self.share.size) for w in weights)
            return float(self.counting @ (tops / (tops + correct)))

        now = estimate(self.weight, self.weight)
        less, more = now - estimate(self.lightest, self.heaviest), estimate(self.heaviest, self.lightest) - now
        low, high = max(0.0, error.low - max(0.0, less)), min(1.0, error.high + max(0.0, more))
        words = f"{error.method}; the log's odds of revealing a label may be off by a factor of {HIDDEN:g}"
        return replace(error, low=low, high=high, method=words)

    @property
    def row_weight(self) -> Floats:
        """Weights of the labelled rows that sum to 1; 0 in a stratum with too few labels."""
        if not self.share.size:
            return np.zeros(self.of_label.size)
        used = self.of_label >= 0
        weight, cell = np.where(used, self.weight, 0.0), np.maximum(self.of_label, 0)
        total = np.bincount(cell, weights=weight, minlength=self.share.size)
        return np.asarray(np.where(used, weight * (self.counting / np.maximum(total, 1e-300))[cell], 0.0))

    def ratio(self, top: Floats, bottom: Floats) -> Interval:
        """Return an interval for E[top]/E[bottom] over all rows, from the values of the labelled ones, each from 0 to 1."""
        used = self.of_label >= 0
        top, bottom, cell, weight = top[used], bottom[used], self.of_label[used], self.weight[used]

        def mean(values: Floats) -> float:
            sums = np.bincount(cell, weights=weight * values, minlength=self.share.size)
            return float(self.counting @ (sums / np.bincount(cell, weights=weight, minlength=self.share.size)))

        whole = mean(bottom)
        if not whole > 0.0:
            return Interval(0.5, 0.0, 1.0, CONFIDENCE, f"{METHOD}: {NO_LABELS}")
        estimate = mean(top) / whole
        return self._around(estimate, top - estimate * bottom, bottom, whole)

    def mean_of_classes(self, values: Floats, codes: Ints, n_classes: int, moved: float = 1.0) -> Interval:
        """Return an interval for the mean over classes of a value's mean in each class: Σ_k E[v | k]/K.

        Each row moves the estimate by ``(v − E[v | k])/(K·P(k))``, times `moved` where values change with the rows themselves.

        Parameters
        ----------
        values : array
            Of the labelled rows, each from 0 to 1.
        codes : int array
            Their classes.
        n_classes : int
            K.
        moved : float
            By how much more a row counts than its own value does.
        """
        weight = self.row_weight
        prior = np.bincount(codes, weights=weight, minlength=n_classes)
        if not (prior > 0.0).all():
            return Interval(0.5, 0.0, 1.0, CONFIDENCE, f"{METHOD}: {NO_LABELS}")
        means = np.bincount(codes, weights=weight * values, minlength=n_classes) / prior
        share = (prior.min() / prior)[codes]
        used, whole = self.of_label >= 0, n_classes * float(prior.min()) / moved
        return self._around(float(means.mean()), (share * (values - means[codes]))[used], share[used], whole)

    def _around(self, estimate: float, rest: Floats, involved: Floats, whole: float) -> Interval:
        """Return the interval around an estimate to which each labelled row in a cell contributes ``rest/whole``.

        `involved` says how much each of these rows belongs to those that the estimate is about.
        """
        involved = self._counted(involved)[2]
        cell, weight, rest, group = self._counted(rest)

        def sums(values: Floats) -> Floats:
            return np.asarray(np.bincount(cell, weights=values, minlength=self.share.size), dtype=np.float64)

        total = sums(weight)
        n = total**2 / sums(weight**2)
        means = sums(weight * rest) / total
        spread = sums(weight * (rest - means[cell]) ** 2) / total
        # By its own labels, a cell with few of them that agree would look certain.
        of_all = float(self.share @ (spread + means**2))
        spread = np.maximum((n * spread + SPREAD_LABELS * of_all) / (n + SPREAD_LABELS), LEAST_SPREAD * of_all)
        off = self.off_trend * of_all * ((self.share - self.counting) ** 2).sum()
        labels = float(self.counting**2 @ (spread / n))
        if group is not None:
            labels *= spread_across((self.counting / total)[cell] * weight * (rest - means[cell]), group)
        variance = (self.correlated**2 * (labels + off) + float(self.share @ means**2) / self.n_rows) / whole**2
        # Where the next row that counts would be, and how far it would move the estimate.
        place = self.share * (sums(weight * involved) / total + whole / n.sum())
        place /= max(float(place.sum()), 1e-300)
        step = np.maximum(self.counting, self.share) / (n * whole)
        low, high = beta_ends(estimate, variance, float(place @ step), float(place @ step**2))
        unknown = self.unknown / ((1.0 - self.unknown) * whole + self.unknown)
        low, high = (1.0 - unknown) * low, min(1.0, (1.0 - unknown) * high + unknown)
        low, high = min(low, estimate), max(high, estimate)  # rounding may put the estimate just outside
        return Interval(min(1.0, max(0.0, estimate)), max(0.0, low), min(1.0, high), CONFIDENCE, METHOD, unknown)


def beta_ends(estimate: float, variance: float, step: float, square: float) -> tuple[float, float]:
    r"""Return the ends of an interval for a share that was estimated from labels with unequal weights.

    Clopper and Pearson's upper end is a quantile of the beta distribution whose mean and variance are those of the estimate with one more
    mistake; their lower end, with one more row that is none. Here half a row is added (mid-P), and it counts for as much as the next label is
    expected to: with the share p, its variance v, and a next row that moves it by s on average and by s² in the mean square, the distributions have

        mean p + s·(1 − p)/2, variance v + s²·(1 − p)²/2, and mean p − s·p/2, variance v + s²·p²/2.

    Parameters
    ----------
    estimate, variance : float
        p and v.
    step, square : float
        The means of s and of s².

    Examples
    --------
    >>> [round(end, 3) for end in beta_ends(0.1, 0.1 * 0.9 / 100, 1 / 100, 1 / 100**2)]
    [0.049, 0.172]
    >>> [round(end, 3) for end in beta_ends(0.0, 0.0, 1 / 30, 1 / 30**2)]
    [0.0, 0.084]
    """
    estimate, step, square = min(1.0, max(0.0, estimate)), NEXT_LABEL * step, NEXT_LABEL * square
    tail = 0.5 - CONFIDENCE / 2
    low = _beta_quantile(estimate - step * estimate, variance + square * estimate**2, tail)
    high = _beta_quantile(1.0 - estimate - step * (1.0 - estimate), variance + square * (1.0 - estimate) ** 2, tail)
    return min(low, estimate), max(1.0 - high, estimate)


def _beta_quantile(mean: float, variance: float, level: float) -> float:
    """Return a quantile of the beta distribution with that mean and variance; the mean where nothing varies."""
    from scipy.special import betaincinv

    most = mean * (1.0 - mean)
    if not (variance > 0.0 and most > TINY):
        return min(1.0, max(0.0, mean))
    size = min(max(most / variance - 1.0, TINY), 1.0 / TINY)  # beyond, the quantile cannot be computed
    return float(betaincinv(mean * size, (1.0 - mean) * size, level))


def correlation_factor(changed: float, toss_ups: float = 0.0) -> float:
    """Return how much larger the standard error is than that of independent mistakes.

    Out-of-fold fits share most of their labels, so their mistakes are correlated, and more so if single labels change
    many predictions. Let c be the share of labelled rows whose prediction changes when their seventh of the labels is
    left out. The variance of the estimate is then about 0.3 + 5·c times that of independent mistakes, and at least 1.1
    times: chosen on 1,132 generated campaigns of 13 kinds.

    A linear fit that has learned nothing also changes little when a few labels are left out, but with other labels it
    would be a different one. In 1,560 campaigns of NewtonVC the mean squared error was 1.1 times the expected one while
    another sample would flip a prediction with a probability of up to 0.15 on average, and 2.2 times from 0.19 on.

    Parameters
    ----------
    changed : float
        c.
    toss_ups : float
        The mean chance that another sample would flip the prediction of a labelled row, where the method knows it.

    Examples
    --------
    >>> correlation_factor(0.05), round(correlation_factor(0.3), 2)
    (1.05, 1.34)
    >>> round(correlation_factor(0.05, toss_ups=0.25), 2)
    1.52
    """
    flat = np.clip((toss_ups - FEW_TOSS_UPS) / (MANY_TOSS_UPS - FEW_TOSS_UPS), 0.0, 1.0)
    by_toss_ups = LEAST_CORRELATED**2 + OF_TOSS_UPS * flat
    return float(np.sqrt(max(by_toss_ups, WITHOUT_CHANGES + OF_CHANGES * changed)))


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
    strata = propensity_strata(propensity)
    cell, n_cells = np.full(scores.size, -1, dtype=np.int64), 0
    for which in (False, True):
        of_kind = np.flatnonzero(kind == which)
        group = joined_strata(strata[of_kind], propensity[of_kind], labelled[of_kind])[strata[of_kind]]
        for number in np.unique(group[group >= 0]):
            members = of_kind[group == number]
            label_scores = scores[members[labelled[members]]]
            n_bins = max(1, min(SCORE_BINS, label_scores.size // LEAST_LABELS))
            # Ends are scores of labelled rows below the largest: however many are equal, each cell has a label.
            ends = np.unique(np.quantile(label_scores, np.arange(1, n_bins) / n_bins, method="lower"))
            ends = even_ends(ends[ends < label_scores.max()], label_scores, scores[members])
            cell[members] = n_cells + np.searchsorted(ends, scores[members], side="left")
            n_cells += ends.size + 1
    inside = (cell >= 0) & counted
    sizes = np.bincount(cell[(cell >= 0) & about], minlength=n_cells)
    in_vain = np.bincount(cell[inside & skipped], minlength=n_cells)
    bought = np.bincount(cell[inside & asked], minlength=n_cells)
    lost = sizes * in_vain / np.maximum(in_vain + bought, 1)
    share = (sizes - lost) / max(1.0, float((sizes - lost).sum()))
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
    trend = trend_of(cell, n_cells, kind, scores, propensity)  # of rows that are not counted, too: each cell has some
    return Cells(share, cell[rows], weights(1.0), unknown, n_rows, weights(HIDDEN), weights(1.0 / HIDDEN), trend=trend)


def even_ends(ends: Floats, label_scores: Floats, scores: Floats) -> Floats:
    """Return those of the ends of a stratum's cells that leave no cell with many rows and few labels.

    Fits without a label are less sure of its row than of unlabelled ones, so labels may crowd where few rows are.

    Examples
    --------
    >>> import numpy as np
    >>> even_ends(np.array([0.5]), np.array([0.1, 0.3, 0.7, 0.9]), np.linspace(0.0, 1.0, 101)).tolist()
    [0.5]
    >>> even_ends(np.array([0.5]), np.array([0.1, 0.2, 0.3, 0.9]), np.linspace(0.4, 1.0, 101)).tolist()
    []
    """
    while ends.size:
        rows, labels = (
            np.bincount(np.searchsorted(ends, part, side="left"), minlength=ends.size + 1)
            for part in (scores, label_scores)
        )
        represented = rows / labels
        worst = int(np.argmax(np.where(labels < ENOUGH_LABELS, represented, 0.0)))
        if labels[worst] >= ENOUGH_LABELS or represented[worst] <= MOST_UNEVEN * rows.sum() / labels.sum():
            break
        last = worst == ends.size or (worst > 0 and represented[worst - 1] < represented[worst + 1])
        ends = np.delete(ends, worst - 1 if last else worst)
    return ends


def propensity_strata(propensity: Floats) -> Ints:
    """Return a stratum for each row: strata are about equally large, and none mixes very different propensities.

    Rounds also choose by propensity: the few rows that the log rarely shows may all be bought, and hardly any of the
    others. So they must not share a labelling rate.

    Examples
    --------
    >>> import numpy as np
    >>> propensity_strata(np.array([0.01] + 19 * [0.4])).tolist()[:3]
    [0, 1, 1]
    """
    cuts = stratum_cuts(propensity)
    strata = np.searchsorted(cuts, propensity, side="left")
    # A stratum whose largest and smallest propensity are too unlike is cut into parts that are equally wide in logarithms.
    log = np.log(np.maximum(propensity, LEAST_PROPENSITY))
    least, most = np.full(cuts.size + 1, np.inf), np.full(cuts.size + 1, -np.inf)
    np.minimum.at(least, strata, log)
    np.maximum.at(most, strata, log)
    width = np.maximum(most - least, 0.0)[strata]
    parts = np.maximum(1.0, np.ceil(width / np.log(MOST_UNLIKE)))
    part = np.minimum(parts - 1.0, np.floor((log - least[strata]) / np.maximum(width, 1e-12) * parts))
    return np.unique(strata + part / 100.0, return_inverse=True)[1].astype(np.int64)


def joined_strata(strata: Ints, propensity: Floats, labelled: Bools) -> Ints:
    """Return a group for each stratum; one with too few labels joins the nearest that has enough, or is −1.

    Strata that find none join each other if together they have enough labels. Even without a mistake, fewer than four
    labels leave an error of over 60 % possible, so they say hardly anything.

    Strata may join only if their propensities are similar. A region that the log shows ten times less often than its
    neighbour was avoided on purpose, and the neighbour says nothing about it.

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
    remaining = np.flatnonzero((out < 0) & (np.bincount(strata, minlength=count) > 0))
    while remaining.size:
        alike = remaining[typical[remaining] <= MOST_UNLIKE * typical[remaining[0]]]
        if labels[alike].sum() >= LEAST_KNOWN:
            out[alike] = alike[0]
        remaining = remaining[alike.size :]
    return out

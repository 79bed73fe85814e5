"""Slow twin of ``methods/pool.py`` and ``methods/intervals.py``: their docstrings in plain loops, one row at a time."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from scipy.stats import beta

from tests.reference import weights as weights_twin

N_STRATA = 8


def strata(propensity, known=None):
    """The stratum of each row: how many of the distinct inner octiles of `known` lie strictly below its propensity."""
    ordered = sorted(propensity if known is None else known)
    cuts = set()
    for k in range(1, N_STRATA):
        place = k / N_STRATA * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        cuts.add(float(np.interp(place, [low, low + 1], [ordered[low], ordered[high]])))
    return [sum(cut < q for cut in cuts) for q in propensity]


def importance(of_row, rows, n_seen):
    """(T + 1)/(t + 1) of each labelled row's stratum, T counting only rows that have come by."""
    weights = []
    for row in rows:
        size = sum(of_row[i] == of_row[row] for i in range(n_seen))
        known = sum(of_row[other] == of_row[row] for other in rows)
        weights.append((size + 1) / (known + 1))
    return weights


def clip(logged_q, n_bought, n_seen, capacity):
    """The paper's threshold, larger by as much as the rows seen exceed twice the log's."""
    m = len(logged_q)
    q0s, capacity = [Fraction(q) for q in logged_q], Fraction(capacity)
    threshold = weights_twin.practical_clip_threshold(q0s, m, n_bought, capacity, [Fraction(1, m)] * m)
    return float(threshold * max(1, Fraction(n_seen, 2 * m)))


def gate(propensity, n_logged, n_bought, batch):
    """2·n > m·Q0(x), n being the labels bought, this batch's included."""
    n = n_bought + batch
    return [2 * n > n_logged * q for q in propensity]


def least(gaps, among, count):
    """The `count` rows of `among` with the smallest gaps, the first where gaps are equal."""
    return sorted(sorted(among), key=lambda row: gaps[row])[:count]


def blind(n_logged, pool_q, open_, picked, *, batch, most_blind):
    """The open rows to which the log is blind, and how many of them to pick: 30 labels are wanted if all rows were like one of them."""
    blind_rows = [row for row, q in enumerate(pool_q) if n_logged * q < 15]
    missing = sum(30 - n_logged * pool_q[row] for row in blind_rows) / len(pool_q)
    missing -= sum(row in blind_rows for row in picked)
    rows = [row for row in blind_rows if open_[row]]
    if batch >= sum(open_):
        return rows, 0
    return rows, max(0, min(math.ceil(missing), math.floor(most_blind * batch), len(rows) - batch))


def chances(n_logged, pool_q, gaps, open_, n_bought, in_doubt, picked, *, batch, floor, gate_share, most_blind):
    """π of every pool row, and the rows that were taken for either share."""
    rows = [row for row in range(len(pool_q)) if open_[row]]
    hardly_seen, n_blind = blind(n_logged, pool_q, open_, picked, batch=batch, most_blind=most_blind)
    size = min(batch, len(rows)) - n_blind
    passes = gate(pool_q, n_logged, n_bought, batch)
    if gate_share == 0 or sum(passes[row] for row in rows) < min(batch, len(rows)):
        passes = [True] * len(passes)
    passing = [row for row in rows if passes[row]]
    for_gate = round(gate_share * size)
    hardly_shown = least(gaps, [row for row in passing if in_doubt[row]], for_gate)
    free = least(gaps, [row for row in rows if row not in hardly_shown], size - len(hardly_shown))
    hardly_seen = [row for row in hardly_seen if row not in hardly_shown and row not in free]
    out = []
    for row in range(len(pool_q)):
        chance = (1 - floor) * (row in hardly_shown or row in free)
        chance += floor * size / len(passing) if row in passing else 0.0
        chance += n_blind / len(hardly_seen) if row in hardly_seen else 0.0
        out.append(chance if open_[row] else 0.0)
    if len(passing) == len(rows):  # nobody is held back, so that nobody was let through
        hardly_shown, free = [], [*hardly_shown, *free]
    return out, hardly_shown, free


def systematic(chance, order, start):
    """The rows on which start, start + 1, … fall when rows stand on a line in this order, each as long as its chance."""
    picked, end, point = [], 0.0, start
    for row in order:
        end += chance[row]
        if point < end:
            picked.append(int(row))
            point += 1.0
    return picked


def stream(gap_of, pool_q, n_logged, looked, uniform, *, batch, floor, gate_share, doubt):
    """The decisions on the rows that come next: (row, chance, asked, reason), one row at a time.

    `gap_of` and `pool_q` are asked about no row before its turn; `uniform` gives the next random number.
    """
    decisions, n_asked, row = [], 0, looked
    while row < len(pool_q) and n_asked < batch:
        in_doubt = NormalDist().cdf(-math.sqrt(2 * gap_of(row))) > doubt
        passes = 2 * (row + 1) > n_logged * pool_q[row]
        chances_of = (1.0, 1.0 - gate_share) if in_doubt else (floor, 0.0)
        chance = chances_of[0] if passes else chances_of[1]
        asked = uniform() < chance
        if asked:
            reason = "random" if not in_doubt else "gated" if passes else "free"
        else:
            reason = "shown" if in_doubt else "settled"
        decisions.append((row, chance, asked, reason))
        n_asked += asked
        row += 1
    return decisions


def beta_ends(estimate, variance, step, square, confidence=0.95):
    """Quantiles of beta distributions with the moments of the estimate and half a row more: a mistake for the upper end, none for the lower."""
    ends = []
    for value, level in ((0.0, (1 - confidence) / 2), (1.0, (1 + confidence) / 2)):
        mean = estimate + step / 2 * (value - estimate)
        spread = variance + square / 2 * (value - estimate) ** 2
        if mean * (1 - mean) <= 1e-8 or spread == 0.0:
            ends.append(mean)
            continue
        size = min(max(mean * (1 - mean) / spread - 1, 1e-8), 1e8)
        ends.append(float(beta.ppf(level, mean * size, (1 - mean) * size)))
    return min(ends[0], estimate), max(ends[1], estimate)


def even_ends(ends, label_scores, scores):
    """The ends that are left when cells with over 1.5 times the stratum's rows for a label and fewer than 20 labels join the neighbour with fewer rows for a label, the worst first."""
    ends = list(ends)
    while ends:
        cells = [-np.inf, *ends, np.inf]
        rates = [
            sum(low < s <= high for s in scores) / sum(low < s <= high for s in label_scores)
            for low, high in pairwise(cells)
        ]
        few = [sum(low < s <= high for s in label_scores) < 20 for low, high in pairwise(cells)]
        if not any(few):
            break
        worst = max((k for k in range(len(rates)) if few[k]), key=lambda k: rates[k])
        if rates[worst] <= 1.5 * len(scores) / len(label_scores):
            break
        neighbours = [k for k in (worst - 1, worst + 1) if 0 <= k < len(rates)]
        other = neighbours[0] if len(neighbours) == 1 or rates[neighbours[0]] < rates[neighbours[1]] else neighbours[1]
        del ends[min(worst, other)]
    return ends


def propensity_strata(propensity):
    """Eighths by propensity; an eighth whose largest is over 10 times its smallest is cut evenly in logarithms."""
    eighths, logs = strata(np.array(propensity)), [math.log(max(q, 1e-6)) for q in propensity]
    keys = []
    for eighth, log in zip(eighths, logs, strict=True):
        here = [other for other, of in zip(logs, eighths, strict=True) if of == eighth]
        width = max(here) - min(here)
        parts = max(1, math.ceil(width / math.log(10.0)))
        keys.append((int(eighth), 0 if width == 0 else min(parts - 1, math.floor((log - min(here)) / width * parts))))
    places = sorted(set(keys))
    return [places.index(key) for key in keys]


def off_trend(trend, variances, wrong):
    """τ² of DerSimonian and Laird: squares beyond those of the labels alone, whose expectation is tr(M·(V + τ²·I))."""
    scale = np.diag([1 / v for v in variances])
    rest = scale - scale @ trend @ np.linalg.pinv(trend.T @ scale @ trend) @ trend.T @ scale
    left = len(variances) - np.linalg.matrix_rank(trend)
    return float((wrong @ rest @ wrong - left) / np.trace(rest)) if left > 0 else 0.0


def borrowed(share, trend, labels, wrong):
    """a: the least Σ a²·v + τ²·Σ (P − a)² with Σ a·t = Σ P·t, by the equations of its Lagrangian; counts below a tenth of their share are set to it, and the others solved for again."""
    cells, features = trend.shape
    labels, wrong = np.asarray(labels, dtype=float), np.asarray(wrong, dtype=float)
    scale = np.diag(labels)
    line = trend @ np.linalg.pinv(trend.T @ scale @ trend) @ trend.T @ scale @ wrong
    overall = (float(share @ wrong) * labels.sum() + 1) / (labels.sum() + 2)
    of_all = overall * (1 - overall)
    variances = []
    for value, n in zip(np.clip(line, 0.0, 1.0).tolist(), labels.tolist(), strict=True):
        variances.append(max(value * (1 - value), of_all / 5) / n)
    tau = max(of_all / 40, off_trend(trend, variances, wrong))
    floors, solved = {}, {}
    while len(floors) < cells:
        free = [c for c in range(cells) if c not in floors]
        lagrangian = np.zeros((len(free) + features, len(free) + features))
        for k, c in enumerate(free):
            lagrangian[k, k] = variances[c] + tau
            lagrangian[k, len(free) :] = lagrangian[len(free) :, k] = trend[c]
        kept = trend.T @ share - sum((a * trend[c] for c, a in floors.items()), np.zeros(features))
        right = np.concatenate([tau * share[free], kept])
        solved = dict(zip(free, (np.linalg.pinv(lagrangian) @ right).tolist(), strict=False))
        low = {c: share[c] / 10 for c in free if solved[c] < share[c] / 10}
        if not low:
            break
        floors |= low
    counts = [max((solved | floors)[c], share[c] / 10) for c in range(cells)]
    return [a / sum(counts) for a in counts], tau / of_all


def trend(cell, n_cells, kind, scores, propensity):
    """The mean over the rows of each cell of 1, kind, lead, side, lead by side, and propensity; the ranks of leads and propensities."""

    def rank(values, row):
        return (sum(v < values[row] for v in values) + sum(v == values[row] for v in values) / 2) / len(values)

    leads, found = [abs(score) for score in scores], []
    for one in range(n_cells):
        rows = [row for row in range(len(cell)) if cell[row] == one]
        means = np.zeros(6)
        for row in rows:
            lead, side = rank(leads, row), int(scores[row] > 0) - int(scores[row] < 0)
            means += np.array([1, kind[row], lead, side, side * lead, rank(propensity, row)]) / len(rows)
        found.append(means)
    return np.array(found).reshape(n_cells, 6)


def cell_ratio(share, of_label, weight, top, bottom):
    """Σ P_c·mean(top) / Σ P_c·mean(bottom), the weighted means being over the labelled rows of each cell."""
    sums = [0.0, 0.0]
    for cell, part in enumerate(share):
        rows = [i for i, c in enumerate(of_label) if c == cell]
        total = sum(weight[i] for i in rows)
        for k, values in enumerate((top, bottom)):
            sums[k] += part * sum(weight[i] * values[i] for i in rows) / total
    return sums[0] / sums[1]


def merged(cell, group, weight, value):
    """Rows of a group in a cell as one: {(cell, group): (weight, weighted mean)}."""
    parts = {}
    for c, g, w, v in zip(cell, group, weight, value, strict=True):
        total, top = parts.get((c, g), (0.0, 0.0))
        parts[c, g] = (total + w, top + w * v)
    return {key: (total, top / total) for key, (total, top) in sorted(parts.items())}


def spread_across(influence, group):
    """How much larger a variance is if what a group's rows do is added before it is squared; at least 1."""
    sums = {}
    for u, g in zip(influence, group, strict=True):
        sums[g] = sums.get(g, 0.0) + u
    alone = sum(u * u for u in influence)
    return max(1.0, sum(s * s for s in sums.values()) / alone) if alone > 0 else 1.0


def would_take(rounds, propensity, row):
    """Whether one of the rounds would have taken a row.

    A round is (gaps of all rows, asked rows, reason of each): those taken through the gate let in a row with no larger
    propensity than the largest of theirs and no larger gap; those taken freely, one with no larger gap.
    """
    for gaps, asked, reasons in rounds:
        gated = [r for r, why in zip(asked, reasons, strict=True) if why == "gated"]
        free = [r for r, why in zip(asked, reasons, strict=True) if why == "free"]
        if any(gaps[row] <= gaps[r] for r in free):
            return True
        near = any(gaps[row] <= gaps[r] for r in gated)
        if near and any(propensity[row] <= propensity[r] for r in gated):
            return True
    return False


def measuring_weights(doubt, log_rate, wanted):
    """Weights of random picks that measure: c by bisection, a fifth spread evenly."""
    spread = [max(d * (1 - d), 0.02 * 0.98) ** 0.5 for d in doubt]

    def rates(c):
        return [max(c * s - rate, 0.0) for s, rate in zip(spread, log_rate, strict=True)]

    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(rates(middle)) < wanted else (low, middle)
    found = rates(high)
    return [0.8 * rate / sum(found) + 0.2 / len(found) for rate in found]


def low_end_allowing_for(interval, gain):
    """The lower end for an error that may be lower by a gain, which is uncertain by as much as it is large."""
    gain = min(gain, interval.estimate) * (1 - interval.unknown)
    reach = ((interval.estimate - interval.low) ** 2 + gain**2) ** 0.5
    return max(0.0, interval.estimate - gain - reach)

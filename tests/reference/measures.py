"""Slow twin of ``intervals/measures.py``, ``thresholds.py`` and ``recalibration.py``: pairs of rows, and every threshold tried."""

from __future__ import annotations

import numpy as np


def auc(scores, codes, weights):
    """The weighted share of pairs of a positive and a negative row in which the positive has the higher score."""
    won = total = 0.0
    for s, c, w in zip(scores, codes, weights, strict=True):
        for s2, c2, w2 in zip(scores, codes, weights, strict=True):
            if c == 1 and c2 == 0:
                total += w * w2
                won += w * w2 * (1.0 if s > s2 else 0.5 if s == s2 else 0.0)
    return won / total


def balanced_error(codes, predicted, weights, n_classes):
    """The mean over classes of the weighted share of their rows that is wrong."""
    shares = []
    for k in range(n_classes):
        rows = [i for i, c in enumerate(codes) if c == k]
        shares.append(sum(weights[i] for i in rows if predicted[i] != k) / sum(weights[i] for i in rows))
    return sum(shares) / n_classes


def gain_over_baseline(codes, predicted, weights, n_classes):
    """By how much the weighted error is below that of always predicting the commonest class."""
    prior = [sum(w for w, c in zip(weights, codes, strict=True) if c == k) for k in range(n_classes)]
    commonest = prior.index(max(prior))
    base = sum(w for w, c in zip(weights, codes, strict=True) if c != commonest)
    error = sum(w for w, c, p in zip(weights, codes, predicted, strict=True) if c != p)
    return base - error


def baseline_cost(codes, weights, costs):
    """The mean cost of a row if the class for which that is lowest is always predicted."""
    return min(
        sum(w * costs[c] for w, c in zip(weights, codes, strict=True) if c != always) for always in range(len(costs))
    )


def cost(codes, predicted, weights, costs):
    """The mean cost of a row."""
    return sum(w * costs[c] for w, c, p in zip(weights, codes, predicted, strict=True) if c != p)


def influence_spread(estimate_of, rows, share, of_label, weight):
    """The standard error of an estimate by moving each labelled row's weight a little: the infinitesimal jackknife within cells."""
    tiny, parts = 1e-5, 0.0
    base = estimate_of(weight)
    for cell in range(len(share)):
        here = [i for i in rows if of_label[i] == cell]
        moves = []
        for i in here:
            moved = np.array(weight, dtype=float)
            moved[i] *= 1.0 + tiny
            moves.append((estimate_of(moved) - base) / tiny)
        parts += sum(move**2 for move in moves)
    return parts**0.5


def whole_row_ends(low, high, rows):
    """The largest share of so many rows that is not above the lower end, and the smallest that is not below the upper one."""
    counts = range(max(1, rows) + 1)
    shares = [k / max(1, rows) for k in counts]
    return max(s for s in shares if s <= low + 1e-12), min(s for s in shares if s >= high - 1e-12)


def positives(scores, codes, draw):
    """The chance that each row is positive if a draw holds: what its label says, or σ(a + b·z)."""
    shift, slope = draw
    return [
        float(code) if code >= 0 else 1.0 / (1.0 + np.exp(-(shift + slope * score)))
        for score, code in zip(scores, codes, strict=True)
    ]


def value_of(threshold, scores, codes, draws, objective):
    """How good a threshold is, the larger the better; None where the target is missed."""
    flags = [s >= threshold for s in scores]
    hits, misses, alarms, recalls, precisions = [], [], [], [], []
    for draw in draws:
        chances = positives(scores, codes, draw)
        hits.append(sum(p for p, flag in zip(chances, flags, strict=True) if flag))
        misses.append(sum(chances) - hits[-1])
        alarms.append(sum(flags) - hits[-1])
        recalls.append(hits[-1] / sum(chances) if sum(chances) else 0.0)
        precisions.append(hits[-1] / sum(flags) if any(flags) else 0.0)
    name, _, value = objective.partition("=")
    if name.startswith("recall"):
        recall = np.quantile(recalls, 0.05) if name.endswith(">") else np.mean(recalls)
        return -sum(flags) if recall >= float(value) - 1e-9 else None
    if name == "precision":
        return sum(flags) if np.mean(precisions) >= float(value) - 1e-9 else None
    missed, alarm = np.mean(misses), np.mean(alarms)
    if name == "cost":
        costs = [float(part) for part in value.split(",")]
        return -(costs[1] * missed + costs[0] * alarm)
    if name == "missing":  # each flagged row is checked, whatever it is
        missing, checking = (float(part.partition("=")[2]) for part in objective.split(","))
        return -(missing * missed + checking * sum(flags))
    return -(missed / (missed + np.mean(hits)) + alarm / (len(scores) - missed - np.mean(hits)))


def strength(shares):
    """What each label counts: square roots, scaled so that they add up to Kish's effective number of labels."""
    roots = [share**0.5 for share in shares]
    return [root * sum(roots) / sum(other**2 for other in roots) for root in roots]


def recalibrate(scores, codes, shares):
    """Shift and slope by a general minimiser."""
    from scipy.optimize import minimize

    weights = strength(shares)

    def loss(theta):
        total = 0.5 * (0.04 * theta[0] ** 2 + (theta[1] - 1.0) ** 2)
        for z, y, w in zip(scores, codes, weights, strict=True):
            m = theta[0] + theta[1] * z
            total += w * (np.logaddexp(0.0, m) - y * m)
        return total

    return minimize(loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000}).x


def expected_measures(scores, codes, draws, cut):
    """Recall and precision of rows flagged from a cut on, by each (shift, slope); codes are −1 where there is no label."""
    found = {"recall": [], "precision": []}
    for shift, slope in draws:
        hits = positives = flagged = 0.0
        for score, code in zip(scores, codes, strict=True):
            chance = code if code >= 0 else 1.0 / (1.0 + np.exp(-(shift + slope * score)))
            positives += chance
            if score >= cut:
                flagged, hits = flagged + 1, hits + chance
        found["recall"].append(hits / positives)
        found["precision"].append(hits / flagged)
    return found


def combined_ends(by_labels, unknown, drawn):
    """Estimate, low and high from those of labels alone and from values of which each is as likely as the next."""
    estimate, low, high = by_labels
    values = sorted(drawn)

    def quantile(level):
        place = level * (len(values) - 1)
        k = min(int(place), len(values) - 2)
        return values[k] + (place - k) * (values[k + 1] - values[k])

    middle = (estimate + sum(values) / len(values)) / 2.0
    lower = (low + (1.0 - unknown) * quantile(0.025)) / 2.0
    upper = max(high, (1.0 - unknown) * quantile(0.975) + unknown)
    return middle, min(lower, middle), min(1.0, max(upper, middle))

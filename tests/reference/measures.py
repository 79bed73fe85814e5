"""Slow twin of ``methods/measures.py`` and ``methods/threshold.py``: pairs of rows, and every threshold tried."""

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


def value_of(threshold, scores, codes, weights, objective):
    """How good a threshold is, the larger the better; None where the target is missed."""
    tp = fp = fn = pos = neg = 0.0
    for s, c, w in zip(scores, codes, weights, strict=True):
        said = s >= threshold
        tp, fp, fn = tp + w * (said and c == 1), fp + w * (said and c == 0), fn + w * (not said and c == 1)
        pos, neg = pos + w * (c == 1), neg + w * (c == 0)
    name, _, value = objective.partition("=")
    if name == "recall":
        return threshold if tp >= (float(value) - 1e-9) * pos else None
    if name == "precision":
        return -threshold if tp > 0 and tp >= (float(value) - 1e-9) * (tp + fp) else None
    if name == "cost":
        costs = [float(part) for part in value.split(",")]
        return -(costs[1] * fn + costs[0] * fp)
    return -(fn / pos + fp / neg)

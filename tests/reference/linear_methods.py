"""Slow twins of Passive, ActiveVC and Active18: the paper's epochs, one row at a time.

They share nothing with the library but the seeds of the random orders: round k trains in the order that
``default_rng([seed, k, 1])`` gives the labelled rows (round 0: ``[seed, 0, 0]``). Labels are −1/+1, and 0 where the log
shows none. Every twin returns one dict per round.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tests.reference.gradient import flip_gaps, second_moment_sums, train_epoch
from tests.reference.weights import mis_weight, practical_clip_threshold, query_policies


def epoch_sizes(n):
    """10, ⌊1.5·10⌋, …; the rows left over join the last epoch."""
    sizes, size = [], 10
    while sum(sizes) + size <= n:
        sizes.append(size)
        size = math.floor(Fraction(3, 2) * size)
    if not sizes:
        return [n]
    sizes[-1] += n - sum(sizes)
    return sizes


def generator(seed, k):
    return np.random.default_rng([seed, k, 1 if k else 0])


def sign(coef, x):
    return 1 if float(coef @ x) > 0.0 else -1


def train(X, labels, weights, coef, rng, **settings):
    labelled = np.array([i for i in range(len(labels)) if labels[i] != 0], dtype=np.int64)
    return train_epoch(X[: len(labels)], labels, weights, rng.permutation(labelled), coef, **settings), len(labelled)


def passive(X, log_labels, pool_labels, q, *, learning_rate, seed, passes=3):
    m, sizes = len(log_labels), epoch_sizes(len(pool_labels))
    coef, time, labels, rounds = np.zeros(X.shape[1]), 0.0, list(log_labels), []
    for k in range(len(sizes) + 1):
        if k:
            seen = len(labels) - m
            labels += list(pool_labels[seen : seen + sizes[k - 1]])
        weights = [1.0 / q[i] if i < m else 1.0 for i in range(len(labels))]
        coef, rows = train(
            X, labels, weights, coef, generator(seed, k), learning_rate=learning_rate, time=time, passes=passes
        )
        time += passes * rows
        rounds.append({"coef": coef, "weights": weights, "asked": sizes[k - 1] if k else 0, "labels": len(labels) - m})
    return rounds


def active_vc(
    X,
    log_labels,
    pool_labels,
    q,
    *,
    capacity,
    learning_rate,
    seed,
    passes=3,
    clip=True,
    regulariser=True,
    bias_correction=True,
    multiple_importance=True,
    disagreement=True,
    infer=True,
):
    m, n = len(log_labels), len(pool_labels)
    sizes = epoch_sizes(n)
    q0 = min(q[:m])
    exact_q = [Fraction(value) for value in q]
    coef, time, labels, bought = np.zeros(X.shape[1]), 0.0, list(log_labels), 0
    region, rounds, counts = [True] * n, [], (0, 0, 0)
    for k in range(len(sizes) + 1):
        done = sizes[:k]
        if k:  # decide about the rows of epoch k with what round k − 1 knew
            asked = inferred = passed = 0
            for j in range(sum(sizes[: k - 1]), sum(done)):
                gate = query_policies(exact_q[m + j], m, done)[-1] if bias_correction else 1
                if gate and (region[j] or not disagreement):
                    asked += 1
                    labels.append(pool_labels[j])
                elif gate and infer:
                    inferred += 1
                    labels.append(sign(coef, X[m + j]))
                else:
                    passed += 1
                    labels.append(0)
            bought += asked
            counts = (asked, inferred, passed)
        n_k = sum(done)
        total = m + n_k
        # weights
        if not multiple_importance:
            weights = [1.0 / q[i] if i < m else 1.0 for i in range(m + n)]
            largest = 1.0 / q0
        else:
            weights = [
                float(mis_weight(value, m, done)) if bias_correction else total / (m * float(value) + n_k)
                for value in exact_q
            ]
            largest = 2.0 * total / (m * q0 + n_k)
        # clip threshold
        if not clip or bought < 10 or largest < 10:
            bound = largest
        else:
            masses = [Fraction(1, m)] * m
            logged, online = (m, n_k) if multiple_importance else (total, 0)
            bound = float(practical_clip_threshold(exact_q[:m], logged, online, Fraction(capacity), masses))
        threshold = bound if clip else math.inf
        # training
        coef, rows = train(
            X,
            labels,
            weights[: len(labels)],
            coef,
            generator(seed, k),
            learning_rate=learning_rate,
            time=time,
            passes=passes,
            clip=threshold,
            second_moment=capacity if regulariser else 0.0,
        )
        time += passes * rows
        # region
        used = [i for i in range(len(labels)) if labels[i] != 0]
        first, second = second_moment_sums(
            coef, X[used], [labels[i] for i in used], [weights[i] for i in used], threshold
        )
        V = second / total if regulariser else bound * first / total
        gaps = flip_gaps(coef, X[m:], math.sqrt(learning_rate / (learning_rate + time)))
        width = math.sqrt(capacity * V / total) + capacity * bound * math.log(total) / total
        region = [bought < 3 or not disagreement or bool(gap / total <= width) for gap in gaps]
        rounds.append(
            {
                "clip": threshold,
                "clipped": sum(weights[i] > threshold for i in used),
                "weights": weights,
                "coef": coef,
                "region": region,
                "counts": counts,
                "labels": bought,
                "loss": first / total,
                "second_moment": second / total,
            }
        )
    return rounds


def active18(
    X,
    log_labels,
    pool_labels,
    q,
    *,
    capacity,
    learning_rate,
    seed,
    bias_correction=True,
    multiple_importance=True,
):
    m, n = len(log_labels), len(pool_labels)
    sizes = epoch_sizes(n)
    alpha = 0.7 * m / n
    start = math.floor(Fraction(3, 10) * m)
    coef, time, bought, counts = np.zeros(X.shape[1]), 0.0, 0, (0, 0, 0)
    xi, region, dealt, rounds = min(q), [True] * (m + n), 0, []
    for k in range(len(sizes) + 1):
        rng = generator(seed, k)
        labels = [0] * (m + n)
        n_before, n_now = sum(sizes[: max(k - 1, 0)]), sum(sizes[:k])
        upto = start + math.floor(Fraction((m - start) * n_now, n))
        for i in range(dealt, upto):
            labels[i] = log_labels[i]
        if k == 0:
            weights = [1.0 / value for value in q]
        else:
            Q = [1 if not bias_correction or value <= xi + 1.0 / alpha else 0 for value in q]
            weights = [(1.0 + alpha) / (alpha * value + gate) for value, gate in zip(q, Q, strict=True)]
            if not multiple_importance:
                weights = [1.0 / value if i < m else 1.0 for i, value in enumerate(q)]
            asked = inferred = passed = 0
            for j in range(n_before, n_now):
                if not Q[m + j]:
                    passed += 1
                elif region[m + j]:
                    asked += 1
                    labels[m + j] = pool_labels[j]
                else:
                    inferred += 1
                    labels[m + j] = sign(coef, X[m + j])
            bought += asked
            counts = (asked, inferred, passed)
        settings = {"learning_rate": learning_rate, "passes": 1, "exact_invariance": True}
        coef, _ = train(X, labels, weights, coef, rng, time=time, **settings)
        used = [i for i in range(m + n) if labels[i] != 0]
        time += sum(weights[i] for i in used)
        shown = coef
        if k == 0:  # what the log alone gives: the rest of it, at 1/Q0
            rest = [0] * start + list(log_labels[start:]) + [0] * n
            shown, _ = train(X, rest, weights, coef, rng, time=time, **settings)
        # the test, with the ξ that this epoch was weighted with
        loss, _ = second_moment_sums(coef, X[used], [labels[i] for i in used], [weights[i] for i in used], math.inf)
        t = upto - dealt + n_now - n_before
        c = capacity * ((1.0 + alpha) / (alpha * xi + 1.0) if multiple_importance else 1.0 / xi)
        width = math.sqrt(c * loss / t**2) + c * math.log(t) / t
        gaps = flip_gaps(coef, X, math.sqrt(learning_rate / (learning_rate + time)))
        region = [bought < 3 or bool(gap / t <= width) for gap in gaps]
        xi = min([value for value, inside in zip(q, region, strict=True) if inside], default=1.0)
        dealt = upto
        rounds.append(
            {
                "weights": weights,
                "coef": shown,
                "region": region[m:],
                "counts": counts,
                "labels": bought,
                "xi": xi,
                "dealt": dealt,
                "loss": loss,
            }
        )
    return rounds

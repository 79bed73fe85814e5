"""The slow twin of ExactDBAL: Algorithm 1 line by line, one hypothesis at a time, vectorised over rows only.

Written from the paper. Weights are computed once per epoch. It is also what
``benchmarks/bench_exact.py`` measures the fast one against.
"""

from __future__ import annotations

import math

import numpy as np


def weights_of(q, m, epochs, bias_correction):
    """(m + n_k) / (m·Q0 + Σ τ_i·Q_i) for every row, by the recursive definition of Q_i."""
    spent = np.zeros(len(q))
    n_next = 0
    for tau in epochs:
        n_next += tau
        policy = (m * q + spent < m / 2 * q + n_next) if bias_correction else np.ones(len(q), bool)
        spent = spent + tau * policy
    with np.errstate(divide="ignore"):
        return (m + sum(epochs)) / (m * q + spent)


def threshold(weights, scale, slope):
    """inf{M ≥ 1 : slope·M ≥ P(W > M/scale)} on a sample: try the points where it can be."""
    w = np.sort(weights)
    above = np.arange(len(w) - 1, -1, -1) / len(w)  # P(W > w_i), up to ties, which only make a try worse
    tries = np.maximum(1.0, np.maximum(scale * w, above / slope))
    return float(min(tries.min(), max(1.0, 1.0 / slope)))


def algorithm1(
    log_predictions,
    log_labels,
    log_q,
    pool_predictions,
    pool_labels,
    pool_q,
    epochs,
    delta,
    gamma="certified",
    clip=True,
    regulariser=True,
    bias_correction=True,
    multiple_importance=True,
    disagreement=True,
):
    """Return one dict per round, as the library's rounds; labels are −1/+1, log labels 0 where not revealed."""
    n_h, m = log_predictions.shape
    all_q = np.concatenate([log_q, pool_q])
    candidates = list(range(n_h))
    y_tilde = np.zeros(0)
    taken = []
    rounds = []
    for k in range(len(epochs) + 1):
        n_k = sum(taken)
        rows = m + n_k
        delta_k = delta / (2 * (k + 1) * (k + 2))
        log_h = math.log(n_h / delta_k)
        gamma_k = 22 / 3 * (1 + math.log(6) / log_h) if gamma == "certified" else gamma
        # line 5
        if multiple_importance:
            with np.errstate(divide="ignore"):
                w_for_clip = (m + n_k) / (m * all_q + n_k)
            clip_k = threshold(w_for_clip, 2, 2 * log_h / rows)
            w_log, w_pool = (
                weights_of(log_q, m, taken, bias_correction),
                weights_of(pool_q[:n_k], m, taken, bias_correction),
            )
            largest = weights_of(all_q, m, taken, bias_correction).max()
        else:
            clip_k = threshold(1 / all_q, 1, 2 * log_h / rows)
            w_log, w_pool, largest = 1 / log_q, np.ones(n_k), (1 / all_q).max()
        bound = clip_k if clip else largest
        clip_k = clip_k if clip else np.inf
        w = np.concatenate([w_log, w_pool])
        y = np.concatenate([log_labels, y_tilde])
        use = (y != 0) & (w <= clip_k) & np.isfinite(w)
        w = np.where(use, w, 0.0)
        predictions = np.concatenate([log_predictions, pool_predictions[:, :n_k]], axis=1)
        # line 6
        loss = {h: float(np.sum(w * (predictions[h] != y))) / rows for h in candidates}
        erm = min(candidates, key=lambda h: (round(loss[h], 11), h))  # equal up to rounding is equal

        # final step, were the run to end here
        def objective(h, loss=loss, w=w, predictions=predictions, y=y, rows=rows, gamma_k=gamma_k, log_h=log_h):
            second = float(np.sum(w**2 * (predictions[h] != y))) / rows
            return loss[h] + gamma_k * math.sqrt(log_h / rows * second)

        output = min(candidates, key=lambda h: (round(objective(h), 11), h)) if regulariser else erm
        # line 7
        sigma1 = bound * log_h / rows + bound**2 * math.sqrt(log_h) / rows**1.5
        sigma2 = log_h / rows
        kept = []
        for h in candidates:
            if regulariser:
                pair = float(np.sum(w**2 * (predictions[h] != predictions[erm]))) / rows
            else:
                pair = bound * (loss[h] + loss[erm])
            slack = gamma_k * sigma1 + gamma_k * math.sqrt(sigma2 * pair)
            if not disagreement or loss[h] <= loss[erm] + slack + 1e-12 * max(1.0, loss[erm]):  # equal up to rounding
                kept.append(h)
        # line 8
        region = np.zeros(len(pool_q), bool)
        for h in kept:
            region |= pool_predictions[h] != pool_predictions[kept[0]]
        rounds.append(
            {"clip": clip_k, "erm": erm, "output": output, "kept": kept, "region": region, "loss": loss[output]}
        )
        if k == len(epochs):
            return rounds
        # lines 9 to 16
        tau = epochs[k]
        part = slice(n_k, n_k + tau)
        spent = (m + n_k) / weights_of(pool_q[part], m, taken, bias_correction) - m * pool_q[part]
        z = (m * pool_q[part] + spent < m / 2 * pool_q[part] + n_k + tau) if bias_correction else np.ones(tau, bool)
        asked = z & (region[part] if disagreement else np.ones(tau, bool))
        labels = np.where(z, np.where(asked, pool_labels[part], pool_predictions[erm, part]), 0)
        rounds[-1].update(asked=int(asked.sum()), inferred=int((z & ~asked).sum()), passed=int((~z).sum()))
        y_tilde = np.concatenate([y_tilde, labels])
        taken.append(tau)
        candidates = kept
    raise AssertionError("unreachable")

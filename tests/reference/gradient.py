"""Slow twin of the gradient kernel: plain loops, and three ways to know the second-moment sum."""

from __future__ import annotations

import math

import numpy as np


def clamp(margin):
    return min(1.0, max(-1.0, margin))


def step_length(weight, step, norm, exact_invariance):
    """How far along the gradient 2(p−y)x."""
    e = weight * step * norm
    if e < 1e-12:
        return weight * step
    if exact_invariance:
        return (1.0 - math.exp(-2.0 * e)) / (2.0 * norm) if e > 1e-5 else -math.expm1(-2.0 * e) / (2.0 * norm)
    return (1.0 - math.exp(-e)) / norm if e > 1e-5 else -math.expm1(-e) / norm


def in_use(order, importance, clip):
    return [int(i) for i in order if importance[i] <= clip and importance[i] < math.inf]


def contributions(X, y, importance, coef):
    """(weight·loss)² of each row at the weights `coef`."""
    p = np.clip(X @ coef, -1.0, 1.0)
    return (importance * (p - y) ** 2) ** 2


class Exact:
    """The sum itself, at every step."""

    def __init__(self, X, y, importance, rng):
        self.data = X, y, importance

    def __call__(self, position, step_number, coef):
        return float(contributions(*self.data, coef).sum())


class Sampled:
    """The figure's protocol: every 10 rows, from 1000 sampled rows."""

    every, size = 10, 1000

    def __init__(self, X, y, importance, rng):
        self.data, self.rng = (X, y, importance), rng

    def __call__(self, position, step_number, coef):
        if step_number % self.every == 0:
            n = len(self.data[0])
            sample = self.rng.choice(n, min(self.size, n), replace=False, shuffle=False)
            self.value = float(contributions(*(array[sample] for array in self.data), coef).sum()) * n / sample.size
        return self.value


class Running:
    """A table of last known contributions: each step renews the row's own, two heavy rows' and two of all rows'."""

    def __init__(self, X, y, importance, rng):
        self.data, self.table = (X, y, importance), None
        self.heavy = sorted(sorted(range(len(X)), key=lambda a: (-importance[a], a))[:64])

    def __call__(self, position, step_number, coef):
        if self.table is None:
            self.table = contributions(*self.data, coef)
        n = len(self.table)
        renewed = {position}
        for k in (2 * step_number, 2 * step_number + 1):
            renewed |= {self.heavy[k % len(self.heavy)], (n // 2 + k) % n}
        rows = list(renewed)
        self.table[rows] = contributions(*(array[rows] for array in self.data), coef)
        return float(self.table.sum())


ESTIMATES = {"exact": Exact, "sampled": Sampled, "running": Running}


def train_epoch(
    X,
    y,
    importance,
    order,
    coef,
    *,
    learning_rate,
    time=0.0,
    passes=3,
    clip=math.inf,
    second_moment=0.0,
    exact_invariance=False,
    estimate="running",
    rng=None,
    trace=None,
):
    """One epoch of training from `coef`; the arguments are those of the kernel's ``descend``.

    `estimate` says how the second-moment sum is known: "exact", "sampled" (needs `rng`) or "running". A list given as
    `trace` receives the pair (estimate, exact sum) of every 17th step.
    """
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    importance, w = np.asarray(importance, dtype=np.float64), np.array(coef, dtype=np.float64)
    used = in_use(order, importance, clip)
    second_moment_sum = ESTIMATES[estimate](X[used], y[used], importance[used], rng)
    exact_sum = Exact(X[used], y[used], importance[used], rng)
    step_number = 0
    for j in range(passes):
        t = time + j * len(order)
        for position, i in enumerate(used):
            x, weight = X[i], importance[i]
            p = clamp(float(w @ x))
            t += weight
            step = math.sqrt(learning_rate / (learning_rate + t))
            if second_moment > 0.0:
                loss = weight * (p - y[i]) ** 2
                total = second_moment_sum(position, step_number, w)
                if trace is not None and step_number % 17 == 0:
                    trace.append((total, exact_sum(position, step_number, w)))
                if total > 0.0:
                    step *= 1.0 + math.sqrt(second_moment) * loss / math.sqrt(max(total, loss * loss))
            w = w - step_length(weight, step, float(x @ x), exact_invariance) * 2.0 * (p - y[i]) * x
            step_number += 1
    return w


def flip_gaps(coef, X, step):
    gaps = []
    for x in X:
        norm = float(x @ x)
        gaps.append(abs(2.0 * float(coef @ x)) / (step * norm) if norm > 0.0 else math.inf)
    return np.array(gaps)


def second_moment_sums(coef, X, y, importance, clip):
    first = second = 0.0
    for x, label, weight in zip(X, y, importance, strict=True):
        predicted = 1 if float(coef @ x) > 0.0 else -1
        if weight <= clip and weight < math.inf and predicted != label:
            first += weight
            second += weight * weight
    return first, second

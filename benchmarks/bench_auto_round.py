"""Time of AutoVC: a whole run of 300 labels, and one round on large pools.

One core. The run buys 300 labels from 2,400 pool rows of 50 features; beside it stands margin sampling with LightGBM, ten labels
a round. The round is on 25,000 to 400,000 pool rows of 50 features with 5,000 labels: the fits, every pool row's chances, the
choice of a batch, with kept settings and with settings chosen anew. Seconds of one core (processor time), and the exponent of
their growth in the pool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time

import numpy as np
from threadpoolctl import threadpool_limits

import observal as ob
from observal.problem import Problem
from observal.types import ASKED, Answers, Plan

FEATURES, LABELLED, BATCH = 50, 5000, 10
SIZES = (25_000, 50_000, 100_000, 200_000, 400_000)


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, FEATURES))
    score = X[:, :5].sum(axis=1) + 2.0 * X[:, 5] * X[:, 6]
    return X, np.where(score + rng.logistic(size=n) > 0, 1.0, 0.0), np.clip(np.abs(score) / 10, 0.01, 1.0)


def make_problem(n_log: int, n_shown: int, n_pool: int) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y, chance = rows(rng, n_log)
    shown = np.argsort(rng.random(y.size) / chance)[:n_shown]
    revealed = np.isin(np.arange(y.size), shown)
    pool, labels, pool_chance = rows(rng, n_pool)
    return Problem(ob.LoggedData(X, np.where(revealed, y, np.nan), chance), ob.Pool(pool, pool_chance)), labels


def seconds(function: Callable[[], object]) -> float:
    started = process_time()
    function()
    return process_time() - started


def margin_lightgbm(problem: Problem, labels: np.ndarray) -> None:
    """Buy the labels of the ten smallest margins, thirty times."""
    from lightgbm import LGBMClassifier

    logged, open_ = problem.logged, np.ones(len(problem.pool), dtype=bool)
    X, y = logged.X[logged.revealed], logged.y[logged.revealed].astype(int)
    for _ in range(30):
        model = LGBMClassifier(n_estimators=100, learning_rate=0.05, num_leaves=15, n_jobs=1, verbose=-1).fit(X, y)
        places = np.flatnonzero(open_)
        chosen = places[np.argsort(np.abs(model.predict_proba(problem.pool.X[places])[:, 1] - 0.5))[:10]]
        open_[chosen] = False
        X, y = np.vstack([X, problem.pool.X[chosen]]), np.append(y, labels[chosen].astype(int))


def seconds_of_round(problem: Problem, choose: bool) -> float:
    """Time from a batch's answers to the next batch's rows and the classifier to be returned."""
    method, rng = ob.AutoVC(), np.random.default_rng(0)
    first = method.begin(problem, rng)
    first.model  # noqa: B018  the choices that later rounds keep
    chosen = np.arange(BATCH)
    zeros = np.zeros(BATCH, dtype=np.int8)
    plan = Plan(chosen, np.ones(BATCH), np.full(BATCH, ASKED), chosen * 0, zeros, ("asked",))
    state = method.advance(problem, first, plan, Answers(chosen % 2, np.ones(BATCH, dtype=bool)), rng)
    state = replace(state, fit=replace(state.fit, anchor=None if choose else first))
    return seconds(lambda: (method.plan(problem, state, rng), method.describe(problem, state)))


def main() -> None:
    with threadpool_limits(1):
        problem, labels = make_problem(2400, 200, 2400)
        ob.run(
            problem.logged, problem.pool, lambda ids: labels[ids], ob.AutoVC(), label_budget=10
        )  # compiles and imports
        run = seconds(
            lambda: ob.run(problem.logged, problem.pool, lambda ids: labels[ids], ob.AutoVC(), label_budget=300)
        )
        peer = seconds(lambda: margin_lightgbm(problem, labels))
        print(f"300 labels from 2,400 × {FEATURES}: {run:.1f} s; margin sampling with LightGBM {peer:.1f} s")
        times = []
        for size in SIZES:
            problem, _ = make_problem(2 * LABELLED, LABELLED - BATCH, size)
            plain, choosing = (seconds_of_round(problem, choose) for choose in (False, True))
            times.append(plain)
            print(
                f"{size:>8,} pool rows: {plain:.2f} s a round, {choosing:.2f} s where settings are chosen anew",
                flush=True,
            )
    growth = np.polyfit(np.log(SIZES[1:]), np.log(times[1:]), 1)[0]
    print(f"grows as the pool to the power {growth:.2f}")


if __name__ == "__main__":
    main()

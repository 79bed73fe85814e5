"""Time of a round of NewtonVC: fits on the labels at hand, every pool row's gap, the choice of a batch.

One core. The pool grows from 25,000 to 400,000 rows of 50 features, 5,000 of them and of the log labelled; printed are the
seconds of a round, with and without the choice of ridge and tempering (which is made nine times in 300 labels), and the
exponent of their growth in the pool.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from time import process_time

import numpy as np
from threadpoolctl import threadpool_limits

import observal as ob
from observal.problem.plan import ASKED, Answers, Plan
from observal.problem.problem import Problem

FEATURES, LABELLED, BATCH = 50, 5000, 10
SIZES = (25_000, 50_000, 100_000, 200_000, 400_000)
REPEATS = 3


def make_problem(n_pool: int) -> Problem:
    rng = np.random.default_rng(0)
    direction = rng.normal(size=FEATURES)

    def rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, FEATURES))
        score = X @ direction
        return X, np.where(score + rng.logistic(size=n) > 0, 1.0, 0.0), np.clip(np.abs(score) / 10, 0.01, 1.0)

    X, y, chance = rows(2 * LABELLED)
    sample = np.argsort(rng.random(y.size) / chance)[: LABELLED - BATCH]
    revealed = np.isin(np.arange(y.size), sample)
    pool, _, pool_chance = rows(n_pool)
    return Problem(ob.LoggedData(X, np.where(revealed, y, np.nan), chance), ob.Pool(pool, pool_chance))


def seconds_of_round(problem: Problem, choose: bool) -> float:
    """Time from a batch's answers to the next batch's rows and the classifier to be returned."""
    method, rng = ob.NewtonVC(batch=BATCH), np.random.default_rng(0)
    first = method.begin(problem, rng)
    first.model  # noqa: B018  the choices that later rounds keep
    rows = np.arange(BATCH)
    zeros = np.zeros(BATCH, dtype=np.int8)
    plan = Plan(rows, np.ones(BATCH), np.full(BATCH, ASKED), rows * 0, zeros, ("asked",))
    best = np.inf
    for _ in range(REPEATS):
        state = method.advance(problem, first, plan, Answers(rows % 2, np.ones(BATCH, dtype=bool)), rng)
        state = replace(state, fit=replace(state.fit, anchor=None if choose else first))
        started = process_time()
        method.plan(problem, state, rng)
        method.describe(problem, state)
        best = min(best, process_time() - started)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes = parser.parse_args().sizes
    times = []
    print(
        f"{FEATURES} features, {LABELLED:,} labels\n\n| pool rows | a round, s | with settings chosen anew, s |\n| --- | --- | --- |"
    )
    with threadpool_limits(1):
        for size in sizes:
            problem = make_problem(size)
            plain, choosing = (seconds_of_round(problem, choose) for choose in (False, True))
            times.append(plain)
            print(f"| {size:,} | {plain:.3f} | {choosing:.3f} |", flush=True)
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"\nA round grows as the pool to the power {exponent:.2f} (1 is linear).")


if __name__ == "__main__":
    main()

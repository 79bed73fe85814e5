"""Time of AutoVC: a whole run of 300 labels, and one round on large pools, beside scikit-activeml's margin with the same learner.

One core. The run buys 300 labels from 2,400 pool rows of 50 features; beside it stands margin sampling with LightGBM, ten labels
a round. The round is on 25,000 to 200,000 pool rows of 50 features with 5,000 labels: the fits, every pool row's chances, the
choice of a batch, with kept settings and with settings chosen anew. scikit-activeml's `UncertaintySampling` fits AutoVC's blend on the
same labels, its settings chosen anew as a plain learner has to, and queries ten rows of the same pool. Seconds of one core (processor time),
and the exponent of their growth in the pool.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from commands import processor_seconds
from threadpoolctl import threadpool_limits

import observal as ob
from observal.problem.plan import ASKED, Answers, Plan
from observal.problem.problem import Problem

FEATURES, LABELLED, BATCH = 50, 5000, 10
SIZES = (25_000, 50_000, 100_000, 200_000)


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, FEATURES))
    score = X[:, :5].sum(axis=1) + 2.0 * X[:, 5] * X[:, 6]
    return X, np.where(score + rng.logistic(size=n) > 0, 1.0, 0.0), np.clip(np.abs(score) / 10, 0.01, 1.0)


def make_problem(n_log: int, n_shown: int, n_pool: int) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(0)
    X, y, chance = rows(rng, n_log)
    sample = np.argsort(rng.random(y.size) / chance)[:n_shown]
    revealed = np.isin(np.arange(y.size), sample)
    pool, labels, pool_chance = rows(rng, n_pool)
    return Problem(ob.LoggedData(X, np.where(revealed, y, np.nan), chance), ob.Pool(pool, pool_chance)), labels


def margin_lightgbm(problem: Problem, labels: np.ndarray) -> None:
    """Buy the labels of the ten smallest margins, thirty times."""
    from lightgbm import LGBMClassifier

    logged, open_ = problem.logged, np.ones(len(problem.pool), dtype=bool)
    X, y = logged.X[logged.revealed], logged.y[logged.revealed].astype(int)
    for _ in range(30):
        model = LGBMClassifier(n_estimators=100, learning_rate=0.05, num_leaves=15, n_jobs=1, verbose=-1).fit(X, y)
        places = np.flatnonzero(open_)
        batch = places[np.argsort(np.abs(model.predict_proba(problem.pool.X[places])[:, 1] - 0.5))[:10]]
        open_[batch] = False
        X, y = np.vstack([X, problem.pool.X[batch]]), np.append(y, labels[batch].astype(int))


def seconds_of_round(problem: Problem, choose: bool) -> float:
    """Time from a batch's answers to the next batch's rows and the classifier to be returned."""
    method, rng = ob.AutoVC(), np.random.default_rng(0)
    first = method.begin(problem, rng)
    first.model  # noqa: B018  the choices that later rounds keep
    batch = np.arange(BATCH)
    zeros = np.zeros(BATCH, dtype=np.int8)
    plan = Plan(batch, np.ones(BATCH), np.full(BATCH, ASKED), batch * 0, zeros, ("asked",))
    state = method.advance(problem, first, plan, Answers(batch % 2, np.ones(BATCH, dtype=bool)), rng)
    state = replace(state, fit=replace(state.fit, anchor=None if choose else first))
    return processor_seconds(lambda: (method.plan(problem, state, rng), method.describe(problem, state)))


def seconds_of_margin(problem: Problem) -> float:
    """Time of scikit-activeml's margin sampling with the same learner on the same rows: the fit, and a query of a batch."""
    import warnings

    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import UncertaintySampling

    warnings.simplefilter("ignore")
    logged = problem.logged
    X = np.vstack([logged.X[logged.revealed], problem.pool.X])
    y = np.concatenate([logged.y[logged.revealed], np.full(len(problem.pool), np.nan)])
    learner = SklearnClassifier(ob.BlendClassifier(), classes=[0, 1], random_state=0)
    sampling = UncertaintySampling(method="margin_sampling", random_state=0)
    return processor_seconds(lambda: sampling.query(X, y, learner, batch_size=BATCH))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    sizes = parser.parse_args().sizes
    with threadpool_limits(1):
        problem, labels = make_problem(2400, 200, 2400)
        ob.run(
            problem.logged, problem.pool, lambda ids: labels[ids], ob.AutoVC(), label_budget=10
        )  # compiles and imports
        run = processor_seconds(
            lambda: ob.run(problem.logged, problem.pool, lambda ids: labels[ids], ob.AutoVC(), label_budget=300)
        )
        peer = processor_seconds(lambda: margin_lightgbm(problem, labels))
        print(f"300 labels from 2,400 × {FEATURES}: {run:.1f} s; margin sampling with LightGBM {peer:.1f} s")
        times = []
        print(
            "\n| pool rows | a round, s | with settings chosen anew, s | scikit-activeml's margin, s | a round / margin |"
        )
        print("| --- | --- | --- | --- | --- |")
        for size in sizes:
            problem, _ = make_problem(2 * LABELLED, LABELLED - BATCH, size)
            plain, choosing = (seconds_of_round(problem, choose) for choose in (False, True))
            times.append(plain)
            peer = seconds_of_margin(problem)
            print(f"| {size:,} | {plain:.2f} | {choosing:.2f} | {peer:.2f} | {plain / peer:.2f} |", flush=True)
    growth = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"\nA round grows as the pool to the power {growth:.2f}.")


if __name__ == "__main__":
    main()

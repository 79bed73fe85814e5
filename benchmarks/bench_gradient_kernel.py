"""Rows per second of the gradient kernel, beside Vowpal Wabbit and scikit-learn on the same rows and beside the memory's own limit.

    python benchmarks/bench_gradient_kernel.py [--rows 400000] [--features 30] [--repeats 7]

All train a linear classifier by online gradient descent under squared loss on one core, in three passes; the rate counts rows visited.
Vowpal Wabbit reads the rows as text, or from its binary cache, written beforehand and not timed; quiet, without a constant feature or a
holdout set. Both of its usual update rules are timed, ``--sgd`` (plain) and its default (adaptive, normalised, invariant), and its fastest
rate counts; what it takes to start on a single row is taken off. scikit-learn's `SGDClassifier` takes the rows from memory, in their
order. So does our kernel, in their order and in a random one, which is how the learners call it; gathering labels and weights is part of
its time. The memory limit is a sum of all words of the array; that of a random order is a sum of the rows in it, a line of
the cache being fetched ahead as in the kernel. Each number is the best of the repeats, which take turns.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from commands import best_seconds
from numba import njit

from observal.paper.kernels.gradient import LOOK_AHEAD, _fetch, descend

PASSES = 3
SETTINGS = ("--sgd", "")


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
def sum_of_rows(X: Any, order: Any) -> float:
    """Read the rows in an order, as fast as this can be done."""
    total = 0.0
    for a in range(order.size):
        _fetch(X, order[min(a + LOOK_AHEAD, order.size - 1)])
        x = X[order[a]]
        for k in range(x.size):
            total += x[k]
    return total


def write_text(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    line = "%d | " + " ".join(f"{k}:%.6g" for k in range(X.shape[1]))
    np.savetxt(path, np.column_stack([y, X]), fmt=line)


def peers(folder: Path, X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return Vowpal Wabbit and scikit-learn as functions; those named "start" go over a single row."""
    import vowpalwabbit
    from sklearn.linear_model import SGDClassifier

    runs: dict[str, Callable[[], object]] = {}
    for rows, name in ((len(y), "rows"), (1, "start")):
        text, cache = folder / f"{name}.txt", folder / f"{name}.cache"
        write_text(text, X[:rows], y[:rows])
        common = f"-d {text} --quiet --no_stdin --noconstant --holdout_off"
        for setting in SETTINGS:
            reads = {"cache": f"--cache_file {cache} --passes {PASSES}", "text": "--passes 1"}
            for kind, how in reads.items():
                arguments = f"{common} {how} {setting}"
                runs[f"{name} {kind} {setting}"] = lambda a=arguments: vowpalwabbit.Workspace(a).finish()
    settings = {"loss": "squared_error", "learning_rate": "invscaling", "eta0": 0.01, "alpha": 0.0, "shuffle": False}
    model = SGDClassifier(**settings, fit_intercept=False, max_iter=PASSES, tol=None)
    runs["scikit-learn"] = lambda: model.fit(X, y)
    return runs


def peer_rates(seconds: dict[str, float], n: int) -> dict[str, float]:
    """Return rows per second of each peer."""

    def fastest(kind: str, passes: int) -> float:
        return n * passes / min(seconds[f"rows {kind} {s}"] - seconds[f"start {kind} {s}"] for s in SETTINGS)

    return {
        "Vowpal Wabbit, text": fastest("text", 1),
        "Vowpal Wabbit, cache": fastest("cache", PASSES),
        "scikit-learn SGD": n * PASSES / seconds["scikit-learn"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    n, d = options.rows, options.features
    rng = np.random.default_rng(0)
    X = rng.random((n, d)) - rng.random((n, d))
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    importance, start = np.ones(n), np.zeros(d)
    orders = {"in order": np.arange(n), "random order": rng.permutation(n)}
    work: dict[str, Callable[[], object]] = {}
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        work[f"{dtype.__name__}, limit in order"] = rows.view(np.float64).ravel().sum
        work[f"{dtype.__name__}, limit random order"] = lambda r=rows: sum_of_rows(r, orders["random order"])
        for order, places in orders.items():
            for label, c in (("", 0.0), (", second moment", 1.0)):
                work[f"{dtype.__name__}, {order}{label}"] = lambda r=rows, o=places, c=c: descend(
                    r, y, importance, o, start, learning_rate=1.0, passes=PASSES, second_moment=c
                )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = best_seconds(peers(Path(folder), X, y) | work, options.repeats)
    rates = peer_rates(seconds, n)
    cache = rates["Vowpal Wabbit, cache"]
    print(f"{n:,} rows × {d} features, one core, best of {options.repeats}\n")
    print(
        "| | million rows/s | × Vowpal Wabbit's cache | of the memory limit in order | of the limit in its own order |"
    )
    print("| --- | --- | --- | --- | --- |")
    for name, rate in rates.items():
        print(f"| {name} | {rate / 1e6:.2f} | {rate / cache:.1f} | | |")
    for name in work:
        kind = name.split(",")[0]
        order = "random order" if "random" in name else "in order"
        if "limit" in name:
            print(f"| {name} | {n / seconds[name] / 1e6:.1f} | | | |")
            continue
        rate, limits = n * PASSES / seconds[name], [n / seconds[f"{kind}, limit {o}"] for o in ("in order", order)]
        print(f"| {name} | {rate / 1e6:.2f} | {rate / cache:.1f} | {rate / limits[0]:.0%} | {rate / limits[1]:.0%} |")


if __name__ == "__main__":
    main()

"""Rows per second of the gradient kernel, beside Vowpal Wabbit on the same rows and beside the memory's own limit.

Run with ``python benchmarks/bench_gradient_kernel.py [--rows 400000] [--features 30] [--repeats 5]``.

Both train a linear classifier by online gradient descent under squared loss on one core, three passes, as the learners
do; the rate counts rows visited. Vowpal Wabbit reads the rows from its binary cache, written beforehand and not timed,
quiet and without a constant feature or a holdout set. Both of its usual update rules are timed, ``--sgd`` (plain) and
its default (adaptive, normalised, invariant), each with one and with three passes, and its fastest rate counts; what it
takes to start on a single row is timed as well and taken off. Our kernel takes the rows from memory, in their order and
in a random one, which is how the learners call it; copying labels and weights into that order is part of its time.
Each number is the best of the repeats; nothing is asserted about them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

try:
    import vowpalwabbit
except ImportError:
    vowpalwabbit = None


SETTINGS = ("--sgd --passes 1", "--sgd --passes 3", "--passes 1", "--passes 3")


def best_seconds(work: Callable[[], object], repeats: int) -> float:
    work()  # compile, fill caches
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def write_text(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    line = "%d | " + " ".join(f"{k}:%.6g" for k in range(X.shape[1]))
    np.savetxt(path, np.column_stack([y, X]), fmt=line)


def vowpal_wabbit_seconds(folder: Path, X: np.ndarray, y: np.ndarray, repeats: int) -> dict[str, float]:
    """Seconds per pass over the binary cache, by setting."""
    found = {}
    for setting in SETTINGS:
        seconds = []
        for name, rows in (("rows", len(y)), ("none", 1)):
            text, cache = folder / f"{name}.txt", folder / f"{name}.cache"
            if not text.exists():
                write_text(text, X[:rows], y[:rows])
            common = f"-d {text} --cache_file {cache} --quiet --no_stdin --noconstant --holdout_off {setting}"

            def run(arguments: str = common) -> None:
                vowpalwabbit.Workspace(arguments).finish()

            seconds.append(best_seconds(run, repeats))  # the first, untimed run writes the cache
            if not cache.exists():
                raise SystemExit(f"Vowpal Wabbit wrote no cache at {cache}; nothing to compare with.")
        found[setting] = (seconds[0] - seconds[1]) / int(setting.split()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if vowpalwabbit is None:
        print('skipped: vowpalwabbit is not installed; pip install "observal[bench]" brings it')
        return

    from observal._kernels.gradient import descend

    n, d = options.rows, options.features
    rng = np.random.default_rng(0)
    X = rng.random((n, d)) - rng.random((n, d))
    y = np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)
    importance, start = np.ones(n), np.zeros(d)
    orders = {"in order": np.arange(n), "random order": rng.permutation(n)}

    with tempfile.TemporaryDirectory() as folder:
        peers = vowpal_wabbit_seconds(Path(folder), X, y, options.repeats)
    print(f"{n:,} rows × {d} features, one core, best of {options.repeats}")
    for setting, seconds in peers.items():
        print(f"  Vowpal Wabbit {vowpalwabbit.__version__:8} {setting:20} {n / seconds / 1e6:7.2f} million rows/s")
    peer = n / min(peers.values())

    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        # The bound is a read of the whole array as fast as this core can: a sum of 8-byte words.
        words = rows.view(np.float64).ravel()
        limit = n / best_seconds(words.sum, options.repeats)
        print(
            f"  {dtype.__name__}: memory limit {limit / 1e6:.1f} million rows/s ({limit * rows.nbytes / n / 1e9:.1f} GB/s)"
        )
        for name, order in orders.items():
            for label, second_moment in (("", 0.0), (", second moment", 1.0)):

                def run(rows: np.ndarray = rows, order: np.ndarray = order, c: float = second_moment) -> None:
                    descend(rows, y, importance, order, start, learning_rate=1.0, passes=3, second_moment=c)

                ours = 3 * n / best_seconds(run, options.repeats)
                print(
                    f"    observal {name + label:28} {ours / 1e6:7.2f} million rows/s"
                    f"   {ours / peer:5.1f} × Vowpal Wabbit   {ours / limit:4.0%} of the memory limit"
                )


if __name__ == "__main__":
    main()

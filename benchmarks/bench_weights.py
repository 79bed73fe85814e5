"""Weights and clip thresholds on ten million rows, against one numpy.sort of them."""

from __future__ import annotations

import argparse
import time

import numpy as np

from observal.weights import clip_threshold, importance, online_mass, passive_clip_threshold


def best_of(function, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main(rows: int) -> None:
    q = np.random.default_rng(0).random(rows)
    sort = best_of(lambda: np.sort(q))
    epochs = [2**k for k in range(1, 20)]
    mass = online_mass(q, rows, epochs)
    print(f"{rows:,} rows; numpy.sort {sort * 1000:.0f} ms; wanted: at most 4 times that")
    for name, call in {
        "importance": lambda: importance(q, rows, sum(epochs), mass),
        "online_mass": lambda: online_mass(q, rows, epochs),
        "clip_threshold": lambda: clip_threshold(q, rows, 1000, 12.0),
        "passive_clip_threshold": lambda: passive_clip_threshold(q, rows, 12.0),
    }.items():
        spent = best_of(call)
        print(f"  {name:24s}{spent * 1000:7.0f} ms   ratio {spent / sort:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    main(parser.parse_args().rows)

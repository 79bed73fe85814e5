"""Weights and clip thresholds on ten million rows, against one numpy.sort of them."""

from __future__ import annotations

import argparse

import numpy as np
from commands import best_seconds

from observal.paper.weights import clip_threshold, importance, online_mass, passive_clip_threshold


def main(rows: int) -> None:
    q = np.random.default_rng(0).random(rows)
    epochs = [2**k for k in range(1, 20)]
    mass = online_mass(q, rows, epochs)
    work = {
        "numpy.sort": lambda: np.sort(q),
        "importance": lambda: importance(q, rows, sum(epochs), mass),
        "online_mass": lambda: online_mass(q, rows, epochs),
        "clip_threshold": lambda: clip_threshold(q, rows, 1000, 12.0),
        "passive_clip_threshold": lambda: passive_clip_threshold(q, rows, 12.0),
    }
    spent = best_seconds(work, 5)
    print(f"{rows:,} rows; wanted: at most 4 times numpy.sort\n\n| | ms | of numpy.sort |\n| --- | --- | --- |")
    for name, seconds in spent.items():
        print(f"| {name} | {seconds * 1000:.0f} | {seconds / spent['numpy.sort']:.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    main(parser.parse_args().rows)

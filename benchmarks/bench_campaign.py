"""A campaign with a large pool: seconds and peak memory of each command, as a user would run it.

    python benchmarks/bench_campaign.py [--rows 1000000] [--features 50] [--logged 20000]

Wanted at 1,000,000 × 50: init under 60 s, ask under 5 s, memory under 2 GB. Reading the same features back from a plain
NumPy file is measured in the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from commands import fill_in, in_new_process, run


def make_files(folder, rows, features, logged):
    rng = np.random.default_rng(0)
    coef = rng.normal(size=features)
    for name, size in (("pool", rows), ("logged", logged)):
        X = rng.normal(size=(size, features))
        columns = {"id": pa.array(np.arange(size) + (0 if name == "pool" else 10 * rows))}
        columns |= {f"x{k}": pa.array(X[:, k]) for k in range(features)}
        chance = np.where(X[:, 0] > 0.0, 0.5, 0.05)
        columns["q0"] = pa.array(chance)
        label = (X @ coef > 0.0).astype(np.int64)
        if name == "logged":
            columns["y"] = pa.array(label, mask=rng.random(size) > chance)
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--logged", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_new_process(make_files, folder, options.rows, options.features, options.logged)
        where = folder / "campaign.db"
        labels = folder / "labels.csv"
        data = ["--logged", folder / "logged.parquet", "--pool", folder / "pool.parquet", "--label", "y"]
        commands = {
            "init": ["init", where, *data, "--propensity", "q0", "--id", "id", "--budget", 300],
            "ask, a new round": ["ask", where, "-o", labels],
            "ask, again": ["ask", where, "--csv"],
            "tell": ["tell", where, labels],
            "ask, the next round": ["ask", where, "--csv"],
            "status": ["status", where],
            "export": ["export", where, folder / "model.skops"],
        }
        print(f"pool of {options.rows} × {options.features} rows, log of {options.logged}")
        for command, arguments in commands.items():
            if command == "tell":
                fill_in(labels)
            seconds, _, megabytes = run(*arguments)
            print(f"{command:<22} {seconds:6.1f} s  {megabytes:6.0f} MB")
        print(f"{'file':<22} {where.stat().st_size / 2**20:8.0f} MB")
        compare_reading(folder, where)


def compare_reading(folder, where):
    from observal.journal.codec import decode
    from observal.journal.sql.chunks import read_array
    from observal.journal.sql.store import open_store

    store = open_store(where)
    with store.reading() as transaction:
        form = decode(transaction.events()[0].payload["settings"]).arrays["pool.features"]
        start = time.perf_counter()
        X = read_array(transaction, "pool.features", form)
        ours = time.perf_counter() - start
    np.save(folder / "x.npy", X)
    start = time.perf_counter()
    np.load(folder / "x.npy")
    plain = time.perf_counter() - start
    print(f"reading the features   {ours:6.2f} s, {ours / plain:.1f} times a plain file's {plain:.2f} s")


if __name__ == "__main__":
    main()

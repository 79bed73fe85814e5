"""Scoring a table with `observal predict`: seconds, seconds of the processor and peak memory, for CSV and for Parquet.

    python benchmarks/bench_predict.py [--rows 1000000] [--features 30]

The model has all five learners of the blend with equal weights, which is slower than nearly every model that is fitted: learners with a weight below
5 % are dropped. A tenth of the columns are categories, and a tenth have missing values. Parquet is scored twice, the second time
a table four times as long: the peak memory must not grow with it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from commands import in_new_process, run

from observal.exchange.model_file import save_model
from observal.learners.blend import Blend, fit_blend
from observal.learners.blend_settings import LEARNERS
from observal.learners.population import Population
from observal.tables import TableEncoder

GROUP = 1 << 17  # rows of a row group
LABELS = 600


def make_rows(rows: int, features: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"id": pa.array(np.arange(rows))}
    for k in range(features):
        numbers = rng.normal(size=rows).round(4)
        if k % 10 == 9:
            columns[f"x{k}"] = pa.array(np.array(["north", "south", "east", "west"])[rng.integers(0, 4, rows)])
        else:
            columns[f"x{k}"] = pa.array(numbers, mask=(rng.random(rows) < 0.05) & (k % 10 == 8))
    return pa.table(columns)


def make_model(path: Path, features: int) -> None:
    table = make_rows(4000, features, 0)
    encoder = TableEncoder.learn([table], exclude=["id"])
    X = encoder.encode(table)
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0.3 * np.random.default_rng(1).normal(size=4000)).astype(np.int64)
    population, classes = Population.of(X, groups=encoder.groups), np.array(["no", "yes"])
    some = slice(0, LABELS)
    blends = [fit_blend(population, X[some], y[some], np.ones(LABELS), classes, (name,)).blend for name in LEARNERS]
    members = tuple(blend.members[0] for blend in blends)
    save_model(path, Blend(population.feature_map, tuple(LEARNERS), members, np.full(5, 0.2), classes), encoder)


def make_tables(folder: Path, rows: int, features: int) -> None:
    make_model(folder / "blend.model", features)
    pa.csv.write_csv(make_rows(rows, features, 2), folder / "new.csv")
    for name, size in (("new", rows), ("long", 4 * rows)):
        writer = None
        for seed, begin in enumerate(range(0, size, GROUP)):
            table = make_rows(min(GROUP, size - begin), features, seed)
            writer = writer or pq.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writer.write_table(table)
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_new_process(make_tables, folder, options.rows, options.features)
        small = make_rows(100, options.features, 3)
        pq.write_table(small, folder / "few.parquet")
        for table in ("few.parquet", "new.csv", "new.parquet", "long.parquet"):
            out = folder / f"scored.{table.rpartition('.')[2]}"
            cost = run("predict", folder / "blend.model", folder / table, "-o", out, "--force")
            rows = pq.ParquetFile(folder / table).metadata.num_rows if table.endswith("t") else options.rows
            seconds = {"seconds": round(cost.seconds, 1), "processor": round(cost.processor, 1)}
            print(json.dumps({"table": table, "rows": rows, **seconds, "MB": round(cost.memory)}), flush=True)


if __name__ == "__main__":
    main()

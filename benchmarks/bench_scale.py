"""Tables that do not fit into memory: seconds and peak memory of each command on a log and a pool in Parquet.

    python benchmarks/bench_scale.py [--rows 2000000] [--features 30] [--copy] [--dask local] [--folder DIR]
    python benchmarks/bench_scale.py --compare            # in place beside copied, at 2,000,000 rows
    python benchmarks/bench_scale.py --growth 1e5 1e6 1e7  # ask, and the exponent of its growth

Makes both tables a row group at a time, float32 features and about 11,000 labels, then runs init, ask, tell and ask as a user
would. `--copy` copies the tables into the campaign, as small tables are. Peak memory is that of the command's own process; with
`--dask local` the workers' come on top. Seconds of processor time are given too: they depend less on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from commands import Cost, fill_in, in_new_process, run

GROUP = 1 << 17  # rows of a row group: eight blocks


def make_tables(folder: Path, rows: int, features: int, group: int = GROUP) -> None:
    for seed, name in enumerate(("log", "pool")):
        writer = None
        for begin in range(0, rows, group):
            rng = np.random.default_rng([seed, begin])
            size = min(group, rows - begin)
            X = rng.standard_normal((size, features), dtype=np.float32)
            chance = np.where(X[:, 0] > 0.0, 2000.0, 200.0) / rows if rows > 20_000 else np.full(size, 0.2)
            chance = np.minimum(20.0 * chance, 1.0) / 2.0
            columns = {"id": pa.array(np.arange(begin, begin + size) + (rows if name == "log" else 0))}
            columns |= {f"x{k}": pa.array(X[:, k]) for k in range(features)}
            columns["q0"] = pa.array(chance)
            if name == "log":
                label = X[:, 0] + X[:, 1] * X[:, 2] + rng.logistic(size=size) > 0.0
                columns["y"] = pa.array(label.astype(np.int8), mask=rng.random(size) > chance)
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writer.write_table(table, row_group_size=group)
        writer.close()


def rounded(cost: Cost) -> dict[str, float]:
    """Return what a command cost, to print."""
    return {"seconds": round(cost.seconds, 1), "processor": round(cost.processor, 1), "MB": round(cost.memory)}


def measure(
    folder: Path, rows: int, features: int, copy: bool = False, dask: str | None = None, method: str = "auto"
) -> dict[str, object]:
    """Return seconds and megabytes of each command."""
    if not (folder / "pool.parquet").exists():
        in_new_process(make_tables, folder, rows, features)
    where, labels = folder / "campaign.db", folder / "labels.csv"
    for path in (where, labels):
        path.unlink(missing_ok=True)
    tables = ["--logged", folder / "log.parquet", "--pool", folder / "pool.parquet"]
    roles = ["--label", "y", "--propensity", "q0", "--id", "id", "--budget", 300, "--method", method]
    cluster = [] if dask is None else ["--dask", dask]
    costs: dict[str, object] = {
        "rows": rows,
        "features": features,
        "method": method,
        "tables": "copied" if copy else "in place",
    }

    def note(name: str, cost: Cost) -> None:
        costs[name] = rounded(cost)
        print(name, costs[name], file=sys.stderr, flush=True)  # a large table takes an hour on a busy machine

    note("init", run("init", where, *tables, *roles, "--copy" if copy else "--in-place", *cluster))
    note("ask", run("ask", where, "-o", labels, *cluster))
    fill_in(labels)
    note("tell", run("tell", where, labels))
    note("ask again", run("ask", where, "--csv", *cluster))
    costs["campaign MB"] = round(where.stat().st_size / 2**20)
    return costs


def compare(folder: Path, rows: int, features: int, method: str) -> None:
    """Print each command with copied tables and with tables in place."""
    kinds = {
        "copied": measure(folder, rows, features, True, method=method),
        "in place": measure(folder, rows, features, method=method),
    }
    print(f"{rows:,} + {rows:,} rows × {features} features, --method {method}\n")
    print(
        "| command | "
        + " | ".join(f"{kind}: s, processor s, MB" for kind in kinds)
        + " | in place / copied, processor |"
    )
    print("| --- | --- | --- | --- |")
    for command in ("init", "ask", "tell", "ask again"):
        cells = [costs[command] for costs in kinds.values()]
        texts = [f"{cell['seconds']}, {cell['processor']}, {cell['MB']}" for cell in cells]
        print(f"| {command} | {' | '.join(texts)} | {cells[1]['processor'] / cells[0]['processor']:.2f} |")
    print(f"| campaign file, MB | {kinds['copied']['campaign MB']} | {kinds['in place']['campaign MB']} | |")


def grow(sizes: list[int], features: int, method: str) -> None:
    """Print `ask` on pools of several sizes, and the exponent of its growth."""
    times = []
    print(f"`ask` after a round of answers, --method {method}, {features} features\n")
    print("| pool rows | s | processor s | peak MB |\n| --- | --- | --- | --- |")
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            cost = measure(Path(name), rows, features, method=method)["ask again"]
        times.append(cost["processor"])
        print(f"| {rows:,} | {cost['seconds']} | {cost['processor']} | {cost['MB']} |", flush=True)
    large = [k for k, size in enumerate(sizes) if size >= 100_000] or range(len(sizes))
    exponent = np.polyfit(*(np.log([values[k] for k in large]) for values in (sizes, times)), 1)[0]
    print(f"\nThe processor time grows as the pool to the power {exponent:.2f} from {sizes[large[0]]:,} rows on.")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--copy", action="store_true")
    parser.add_argument("--dask")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--method", choices=["auto", "newton"], default="auto")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--growth", type=float, nargs="+")
    options = parser.parse_args()
    if options.growth:
        grow([int(size) for size in options.growth], options.features, options.method)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        if options.compare:
            compare(folder, options.rows, options.features, options.method)
        else:
            costs = measure(folder, options.rows, options.features, options.copy, options.dask, options.method)
            print(json.dumps(costs, indent=1))


if __name__ == "__main__":
    main()

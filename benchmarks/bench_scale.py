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
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from commands import Cost, run

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
        # In a process of its own: a child's peak memory would count what this process had when it was started.
        making = multiprocessing.get_context("spawn").Process(target=make_tables, args=(folder, rows, features))
        making.start()
        making.join()
    where, labels = folder / "campaign.db", folder / "labels.csv"
    for path in (where, labels):
        path.unlink(missing_ok=True)
    tables = ["--logged", folder / "log.parquet", "--pool", folder / "pool.parquet"]
    roles = ["--label", "y", "--propensity", "q0", "--id", "id", "--budget", 300, "--method", method]
    cluster = [] if dask is None else ["--dask", dask]
    found: dict[str, object] = {
        "rows": rows,
        "features": features,
        "method": method,
        "tables": "copied" if copy else "in place",
    }
    found["init"] = rounded(run("init", where, *tables, *roles, "--copy" if copy else "--in-place", *cluster))
    found["ask"] = rounded(run("ask", where, "-o", labels, *cluster))
    text = labels.read_text().splitlines()
    labels.write_text("\n".join([text[0], *(line + str(k % 2) for k, line in enumerate(text[1:]))]))
    found["tell"] = rounded(run("tell", where, labels))
    found["ask again"] = rounded(run("ask", where, "--csv", *cluster))
    found["campaign MB"] = round(where.stat().st_size / 2**20)
    return found


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
        cells = [found[command] for found in kinds.values()]
        said = [f"{cell['seconds']}, {cell['processor']}, {cell['MB']}" for cell in cells]
        print(f"| {command} | {' | '.join(said)} | {cells[1]['processor'] / cells[0]['processor']:.2f} |")
    print(f"| campaign file, MB | {kinds['copied']['campaign MB']} | {kinds['in place']['campaign MB']} | |")


def grow(sizes: list[int], features: int, method: str) -> None:
    """Print `ask` on pools of several sizes, and the exponent of its growth."""
    times = []
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            found = measure(Path(name), rows, features, method=method)["ask again"]
        times.append(found["processor"])
        print(
            f"ask on {rows:>11,} pool rows: {found['seconds']} s, {found['processor']} s of processor time, {found['MB']} MB"
        )
    exponent = np.polyfit(np.log(sizes[-2:]), np.log(times[-2:]), 1)[0]
    print(f"exponent between the last two: {exponent:.2f}")


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
    if options.compare:
        with tempfile.TemporaryDirectory() as name:
            compare(options.folder or Path(name), options.rows, options.features, options.method)
        return
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        print(
            json.dumps(
                measure(options.folder, options.rows, options.features, options.copy, options.dask, options.method),
                indent=1,
            )
        )
        return
    with tempfile.TemporaryDirectory() as name:
        print(
            json.dumps(
                measure(Path(name), options.rows, options.features, options.copy, options.dask, options.method),
                indent=1,
            )
        )


if __name__ == "__main__":
    main()

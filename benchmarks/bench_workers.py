"""Parts and workers beside memory: the same rounds, how long they take, and whether they ask and answer the same.

    python benchmarks/bench_workers.py [--rows 2000000] [--method newton]
    python benchmarks/bench_workers.py --scoring [--rows 400000] [--kills 10]

The first asks, tells and asks again in one session after the other: rows in memory, in Parquet with one and two threads, and on one and two
Dask workers of one thread each. Queries and coefficients are compared with those in memory, and bit for bit among the others. Seconds of the
processor count the workers' too. The second scores the pool by AutoVC's blend on one and on two workers, and with a worker killed by its process
id in the middle of each run.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from bench_scale import make_tables
from commands import in_new_process
from distributed import Client, LocalCluster

import observal as ob
from observal.parquet import Threads

ROLES = {"propensity": "q0", "id": "id"}
METHODS = {"newton": ob.NewtonVC, "auto": ob.AutoVC}


def data_of(folder: Path, in_memory: bool) -> tuple[ob.LoggedData, ob.Pool]:
    """Return log and pool, in Parquet or in memory."""
    if not in_memory:
        logged = ob.LoggedData.from_parquet(folder / "log.parquet", label="y", **ROLES)
        return logged, ob.Pool.from_parquet(folder / "pool.parquet", **ROLES)
    tables = []
    for name in ("log", "pool"):
        table = pq.read_table(folder / f"{name}.parquet")
        X = np.empty((table.num_rows, sum(column.startswith("x") for column in table.column_names)), dtype=np.float32)
        for k in range(X.shape[1]):
            X[:, k] = table.column(f"x{k}")
        y = [table.column("y").to_numpy()] if name == "log" else []
        kind = ob.LoggedData if name == "log" else ob.Pool
        tables.append(kind(X, *y, propensity=table.column("q0").to_numpy(), ids=table.column("id").to_numpy()))
    return tables[0], tables[1]


@contextmanager
def workers(number: int) -> Iterator[Client]:
    """Start a Dask cluster with so many workers of one thread each."""
    cluster = LocalCluster(
        n_workers=number, threads_per_worker=1, memory_limit=0, dashboard_address=":0", silence_logs=50
    )
    with cluster, Client(cluster) as client:
        yield client


def processor_of(client: Client | None) -> float:
    """Return the seconds of the processor of this process and of the workers so far."""
    workers = [] if client is None else client.run(time.process_time).values()
    return time.process_time() + sum(workers)


def rounds(folder: Path, method: Any, executor: Any, in_memory: bool = False) -> dict[str, Any]:
    """Ask, tell and ask; return seconds, queries and coefficients."""
    client = executor if isinstance(executor, Client) else None
    data = data_of(folder, in_memory)
    begun, busy = time.perf_counter(), processor_of(client)
    session = ob.Session(*data, method, label_budget=300, executor=executor)
    first = session.ask()
    session.tell(first.ids, np.arange(len(first)) % 2)
    second = session.ask()
    seconds, spent = time.perf_counter() - begun, processor_of(client) - busy
    model = session.estimator
    numbers = model.coef_ if isinstance(method, ob.NewtonVC) else model.predict_proba(data[1].X[:1000])
    return {
        "seconds": seconds,
        "processor": spent,
        "queries": np.concatenate([first.ids, second.ids]).tolist(),
        "numbers": np.asarray(numbers, dtype=np.float64),
    }


def compare(folder: Path, rows: int, method: str) -> None:
    """Print the same rounds in memory, in parts and on workers."""
    in_new_process(make_tables, folder, rows, 30)
    contestant = METHODS[method]()
    rounds(folder, contestant, Threads(1))  # imports, compiles, fills the cache of files
    results = {
        "memory": rounds(folder, contestant, None, in_memory=True),
        "parts, 1 thread": rounds(folder, contestant, Threads(1)),
        "parts, 2 threads": rounds(folder, contestant, Threads(2)),
    }
    for number in (1, 2):
        with workers(number) as client:
            rounds(folder, contestant, client)  # imports, compiles
            results[f"parts, {number} Dask worker{'s' * (number > 1)}"] = rounds(folder, contestant, client)
    memory, parts = results["memory"], results["parts, 1 thread"]
    print(f"Two rounds of --method {method}, {rows:,} + {rows:,} rows × 30 float32 features\n")
    print("| | s | processor s | of memory's | queries as in memory | largest difference | bits as with 1 thread |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, result in results.items():
        same = "yes" if result["queries"] == memory["queries"] else "NO"
        off = np.abs(result["numbers"] - memory["numbers"]).max()
        bits = "yes" if result["numbers"].tobytes() == parts["numbers"].tobytes() else "no"
        print(
            f"| {name} | {result['seconds']:.1f} | {result['processor']:.1f} | {result['processor'] / memory['processor']:.2f} | {same} | {off:.1g} | "
            f"{bits} |"
        )


def scores(session: ob.Session, client: Client) -> tuple[float, float, bytes]:
    """Score the pool on a cluster; return seconds, those of the processor in this process, and the answer's bits."""
    blend, X = session.estimator, session.problem.pool.X.using(client)
    begun, busy = time.perf_counter(), time.process_time()
    margins = X.collect(blend.predict_block)[1]
    return time.perf_counter() - begun, time.process_time() - busy, margins.tobytes()


def kill_workers(session: ob.Session, client: Client, kills: int, after: float) -> set[bytes]:
    """Score so many times with a worker killed in the middle; return the different answers."""
    answers = set()
    for _ in range(kills):
        pid = next(iter(client.run(os.getpid).values()))
        timer = threading.Timer(after, os.kill, (pid, signal.SIGKILL))
        timer.start()
        answers.add(scores(session, client)[2])
        timer.join()
        client.wait_for_workers(2)
    return answers


def score(folder: Path, rows: int, kills: int) -> None:
    """Print the seconds of scoring on one and two workers, and what killed workers change."""
    in_new_process(make_tables, folder, rows, 30, 1 << 14)
    session = ob.Session(*data_of(folder, False))
    best, own, busy, answers = {}, {}, {}, set()
    for number in (1, 2):
        with workers(number) as client:
            scores(session, client)  # imports, compiles
            before = processor_of(client)
            runs = [scores(session, client) for _ in range(3)]
            busy[number] = (processor_of(client) - before) / 3
            best[number], own[number] = min(run[0] for run in runs), min(run[1] for run in runs)
            answers |= {run[2] for run in runs}
            if number == 2:
                answers |= kill_workers(session, client, kills, best[2] / 2)
    print(f"AutoVC's blend on {rows:,} pool rows × 30 float32 features, best of 3\n")
    print("| workers | s | processor s, all processes | of it in the client |\n| --- | --- | --- | --- |")
    for number in (1, 2):
        print(f"| {number} | {best[number]:.1f} | {busy[number]:.1f} | {own[number]:.2f} |")
    print(
        f"\nTwo workers are {best[1] / best[2]:.2f} times as fast as one. {len(answers)} answer(s) in {6 + kills} runs, in ",
        end="",
    )
    print(f"{kills} of which a worker was killed in the middle.")
    if len(answers) > 1:
        raise SystemExit("the answers differ")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int)
    parser.add_argument("--method", choices=list(METHODS), default="newton")
    parser.add_argument("--scoring", action="store_true")
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.scoring:
            score(Path(name), options.rows or 400_000, options.kills)
        else:
            compare(Path(name), options.rows or 2_000_000, options.method)


if __name__ == "__main__":
    main()

"""A round on one and on two Dask workers, and with a worker that is killed in the middle.

    python benchmarks/bench_dask.py [--rows 400000] [--kills 10]

Workers have one thread each. The work is the scoring of the pool by AutoVC's blend. Every answer must be the same to the last bit.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from bench_scale import make_tables
from distributed import Client, LocalCluster

import observal as ob


def seconds_of_scoring(session: ob.Session, client: Client) -> tuple[float, bytes]:
    """Score the pool on a cluster; return the seconds and the answer's bits."""
    from observal.parts import collect

    blend, X = session.estimator, session.problem.pool.X.using(client)
    begun = time.perf_counter()
    margins = collect(blend.judge_block, X)[1]
    return time.perf_counter() - begun, margins.tobytes()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_tables(folder, options.rows, 30, group=1 << 14)
        roles = {"propensity": "q0", "id": "id"}
        logged = ob.LoggedData.from_parquet(folder / "log.parquet", label="y", **roles)
        session = ob.Session(logged, ob.Pool.from_parquet(folder / "pool.parquet", **roles))
        times, answers = {}, set()
        for workers in (1, 2):
            made = LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=None)
            with made, Client(made) as client:
                seconds_of_scoring(session, client)  # imports, compiles
                times[workers], answer = min(seconds_of_scoring(session, client) for _ in range(3))
                answers.add(answer)
                for _ in range(options.kills if workers == 2 else 0):
                    pid = next(iter(client.run(os.getpid).values()))
                    timer = threading.Timer(times[2] / 2, os.kill, (pid, signal.SIGKILL))
                    timer.start()
                    answers.add(seconds_of_scoring(session, client)[1])
                    timer.join()
                    client.wait_for_workers(2)
        print(
            f"{options.rows:,} pool rows: 1 worker {times[1]:.1f} s, 2 workers {times[2]:.1f} s, {times[1] / times[2]:.2f} times"
        )
        print(
            f"{options.kills} runs with a worker killed in the middle: {len(answers)} different answer{'s' * (len(answers) > 1)}"
        )
        assert len(answers) == 1
        assert np.isfinite(times[2])


if __name__ == "__main__":
    main()

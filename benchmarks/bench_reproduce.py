"""Seconds of `observal-research reproduce`, the paper's figure. Wanted: under 45 s on two cores."""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
from pathlib import Path

from commands import run_python


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run_python("-m", "observal_research", "reproduce", "--trials", 2, "--out", Path(folder) / "first")  # compiles
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost = run_python(
            "-m", "observal_research", "reproduce", "--trials", options.trials, "--out", Path(folder) / "second"
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{options.trials} trials: {cost.seconds:.0f} s, {busy:.0f} s of processor time in all its processes, which is ",
        end="",
    )
    print(f"{busy / (os.cpu_count() or 1):.0f} s for each of {os.cpu_count()} cores; peak memory {cost.memory:.0f} MB")


if __name__ == "__main__":
    main()

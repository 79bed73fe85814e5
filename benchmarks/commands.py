"""Running a command of observal in a process of its own, and what it cost."""

from __future__ import annotations

import os
import sys
import time
from typing import NamedTuple


class Cost(NamedTuple):
    """Seconds of the clock, seconds of the processor, and peak memory in MB."""

    seconds: float
    processor: float
    memory: float


def run(*arguments: object) -> Cost:
    """Run a command and return what it cost."""
    start = time.perf_counter()
    with open(os.devnull, "w") as nowhere:
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "observal", *map(str, arguments)],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)],
        )
        _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"observal {arguments[0]} failed")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

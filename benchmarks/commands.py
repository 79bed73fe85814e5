"""What the benchmarks share: running a command of observal in a process of its own and what it cost, and timing a function."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Cost(NamedTuple):
    """Seconds of the clock, seconds of the processor, and peak memory in MB."""

    seconds: float
    processor: float
    memory: float


def run(*arguments: object) -> Cost:
    """Run a command of observal and return what it cost."""
    return run_python("-m", "observal", *arguments)


def run_python(*arguments: object) -> Cost:
    """Run Python with these arguments and return what it cost."""
    start = time.perf_counter()
    with open(os.devnull, "w") as nowhere:
        process = os.posix_spawn(
            sys.executable,
            [sys.executable, *map(str, arguments)],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), number) for number in (1, 2)],
        )
        _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, arguments[:3]))} failed")
    return Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_new_process(function: Callable[..., None], *arguments: Any) -> None:
    """Call a function in a process of its own: the peak memory of a later command would count what this process had."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function.__name__} failed")


def fill_in(asked: Path) -> None:
    """Answer a file of asked rows, whose last column is the label, with 0 and 1 in turn."""
    text = asked.read_text().splitlines()
    asked.write_text("\n".join([text[0], *(line + str(k % 2) for k, line in enumerate(text[1:]))]))


def best_seconds(work: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the least seconds of each function, of the clock or of the processor, whichever are fewer.

    On a busy machine the clock counts what others do, and the processor's seconds count each thread of a function. The functions take
    turns, so that a busy moment meets all of them.
    """
    best = dict.fromkeys(work, float("inf"))
    for function in work.values():
        function()  # compile, fill caches
    for _ in range(repeats):
        for name, function in work.items():
            start, busy = time.perf_counter(), time.process_time()
            function()
            best[name] = min(best[name], time.perf_counter() - start, time.process_time() - busy)
    return best


def processor_seconds(function: Callable[[], object]) -> float:
    """Return the seconds of the processor that a function takes in this process."""
    start = time.process_time()
    function()
    return time.process_time() - start

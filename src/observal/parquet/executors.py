"""What computes on parts: this thread, several threads, several processes, or a Dask cluster (``cluster.py``).

An executor maps a function over items and yields the results in the order of the items, whoever finishes first. Merging is the caller's
and happens in that order, so the answer does not depend on the executor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from observal.errors import InvalidInput
from observal.threads import cores, one_thread


@runtime_checkable
class Executor(Protocol):
    """What :class:`~observal.parquet.Parts` needs of whoever computes."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield what a function makes of each item, in the order of the items."""
        ...


@dataclass(frozen=True)
class Serial:
    """One item after the other, in this thread.

    Examples
    --------
    >>> list(Serial().map(abs, [-1, 2]))
    [1, 2]
    """

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield what a function makes of each item, in the order of the items."""
        return map(function, items)


@dataclass(frozen=True)
class Threads:
    """Several threads of this process, all cores by default; what is not asked for yet is not computed far ahead.

    Examples
    --------
    >>> list(Threads(2).map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    workers: int = field(default_factory=cores)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield what a function makes of each item, in the order of the items."""
        every = list(items)
        if min(len(every), self.workers) < 2:
            yield from map(function, every)
            return
        with ThreadPoolExecutor(min(self.workers, len(every))) as pool:
            waiting: deque[Any] = deque()
            try:
                for item in every:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) > self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


@dataclass(frozen=True)
class Processes:
    """Several processes, all cores by default; they stay for the next map.

    Examples
    --------
    >>> Processes(2)
    Processes(workers=2)
    """

    workers: int = field(default_factory=cores)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield what a function makes of each item, in the order of the items."""
        import joblib

        run = joblib.Parallel(n_jobs=self.workers, return_as="generator", pre_dispatch="2*n_jobs", batch_size=1)
        yield from run(joblib.delayed(alone)(function, item) for item in items)


def alone(function: Callable[[Any], Any], item: Any) -> Any:
    """Call a function in a process that has one core for itself."""
    with one_thread():
        return function(item)


@dataclass(frozen=True, eq=False)
class Watched:
    """An executor that tells how many items of a map are done.

    Parameters
    ----------
    executor : Executor
        What computes.
    progress : callable
        Called with (done, total).
    """

    executor: Executor
    progress: Callable[[int, int], None]

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield what a function makes of each item, in the order of the items."""
        every = list(items)
        self.progress(0, len(every))
        for done, result in enumerate(self.executor.map(function, every), start=1):
            self.progress(done, len(every))
            yield result


def executor_of(wanted: Any) -> Executor:
    """Return an executor from what people write.

    Parameters
    ----------
    wanted : Executor, str or None
        "serial", "threads", "processes", "local" (a Dask cluster on this machine), the address of a Dask scheduler such as
        ``tcp://10.0.0.1:8786``, or a ``distributed.Client``. None is "threads".

    Examples
    --------
    >>> executor_of("serial")
    Serial()
    """
    if wanted is None:
        return Threads()
    if isinstance(wanted, str):
        named: dict[str, Callable[[], Executor]] = {"serial": Serial, "threads": Threads, "processes": Processes}
        if wanted in named:
            return named[wanted]()
        if wanted == "local" or "://" in wanted:
            from observal.parquet.cluster import Cluster

            return Cluster.at(wanted)
    elif hasattr(wanted, "scheduler_info") and hasattr(wanted, "submit"):
        from observal.parquet.cluster import Cluster

        return Cluster(wanted)
    elif not isinstance(wanted, type) and isinstance(wanted, Executor):
        return wanted
    raise InvalidInput(
        f"An executor must be serial, threads, processes, local, the address of a Dask scheduler, or have map, but is {wanted!r:.60}; "
        "choose one of them."
    )

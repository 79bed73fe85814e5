"""What computes on parts: threads of this process, or a Dask cluster (``cluster.py``).

An executor maps a function over items and yields the results in the order of the items, whichever is finished first. Callers merge them in
that order, so the answer does not depend on the executor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, runtime_checkable

from observal.errors import InvalidInput
from observal.threads import cores

if TYPE_CHECKING:
    from distributed import Client
    from typing_extensions import TypeIs

S = TypeVar("S")
T = TypeVar("T")
ExecutorLike: TypeAlias = "Executor | Client | str | None"
"""What users may give as an executor; see ``executor_of``."""


@runtime_checkable
class Executor(Protocol):
    """What ``Parts`` needs to compute on its row groups."""

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Yield what a function makes of each item, in the order of the items."""
        ...


@dataclass(frozen=True)
class Threads:
    """Threads of this process, all cores by default; what is not asked for yet is not computed far ahead.

    ``Threads(1)`` computes in the caller's own thread.

    Examples
    --------
    >>> list(Threads(2).map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    workers: int = field(default_factory=cores)

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Yield what a function makes of each item, in the order of the items."""
        all_items = list(items)
        if min(len(all_items), self.workers) < 2:
            yield from map(function, all_items)
            return
        with ThreadPoolExecutor(min(self.workers, len(all_items))) as pool:
            waiting: deque[Future[T]] = deque()
            try:
                for item in all_items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) > self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


@dataclass(frozen=True, eq=False)
class ProgressExecutor:
    """An executor that reports how many items of a map are done."""

    executor: Executor
    progress: Callable[[int, int], None]  # called with (done, total)

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Yield what a function makes of each item, in the order of the items."""
        all_items = list(items)
        self.progress(0, len(all_items))
        for n_done, result in enumerate(self.executor.map(function, all_items), start=1):
            self.progress(n_done, len(all_items))
            yield result


def executor_of(executor: ExecutorLike) -> Executor:
    """Return the executor that a user means.

    Parameters
    ----------
    executor : Executor, str or None
        "threads", "local" (a Dask cluster on this machine), the address of a Dask scheduler such as ``tcp://10.0.0.1:8786``, or
        a ``distributed.Client``. None is "threads".

    Examples
    --------
    >>> executor_of(Threads(1))
    Threads(workers=1)
    """
    if executor is None or executor == "threads":
        return Threads()
    if isinstance(executor, str):
        if executor == "local" or "://" in executor:
            from observal.parquet.cluster import Cluster

            return Cluster.at(executor)
    elif _is_client(executor):
        from observal.parquet.cluster import Cluster

        return Cluster(executor)
    elif not isinstance(executor, type) and isinstance(executor, Executor):
        return executor
    raise InvalidInput(
        f"An executor must be threads, local, the address of a Dask scheduler, or have map, but is {executor!r:.60}; choose one of them: "
        "Threads(1) computes in one thread, and local in several processes."
    )


def _is_client(executor: Executor | Client) -> TypeIs[Client]:
    """Return whether this is a client of Dask, which is not imported for it."""
    return any(kind.__module__.startswith("distributed.") for kind in type(executor).__mro__)

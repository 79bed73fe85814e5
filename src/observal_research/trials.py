"""Many seeded trials on all cores, with progress; the results do not depend on the number of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

from observal.checks import check_whole
from observal.parquet.executors import Executor

_executor: ContextVar[Executor | None] = ContextVar("executor", default=None)


@contextmanager
def computed_by(executor: Executor | None) -> Iterator[None]:
    """Let an executor run all trials inside a ``with`` block; None leaves them to processes on this machine.

    Examples
    --------
    >>> from observal.parquet import Threads
    >>> with computed_by(Threads(1)):
    ...     run_all(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    before = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(before)


def _called(function: Callable[..., Any], argument: tuple[Any, ...]) -> Any:
    return function(*argument)


class Progress(Protocol):
    """A function that is told about progress: ``progress(done, total)``."""

    def __call__(self, done: int, total: int) -> None:
        """Note that `done` of `total` parts are finished."""
        ...


def run_all(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Any]:
    """Return ``[function(*a) for a in arguments]``, computed on `jobs` processes (all cores by default), in order.

    Examples
    --------
    >>> run_all(pow, [(2, 3), (3, 2)], jobs=1)
    [8, 9]
    """
    results = []
    for result in stream_all(function, arguments, jobs):
        results.append(result)
        if progress is not None:
            progress(len(results), len(arguments))
    return results


def stream_all(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], jobs: int | None = None
) -> Iterator[Any]:
    """Yield the results in order as they are finished, so that a caller can store them before an interruption."""
    from joblib import Parallel, delayed

    if jobs is not None:
        check_whole(jobs, "jobs", 1, "leave it out for all cores")
    if (executor := _executor.get()) is not None:
        yield from executor.map(partial(_called, function), arguments)
        return
    if jobs == 1:
        yield from (function(*argument) for argument in arguments)
        return
    workers = Parallel(n_jobs=jobs or -1, return_as="generator", batch_size="auto")
    yield from workers(delayed(function)(*argument) for argument in arguments)

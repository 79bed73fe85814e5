"""Parts on a Dask cluster: Dask schedules, retries and moves what is needed; the order of the results is ours.

Workers read their own parts, so they must reach the files under the same paths. A worker that dies costs time and nothing else: Dask computes its
parts again, and so it does with a part that fails, up to `retries` times.

Dask itself waits without limit, for a worker that never comes or for one that stays connected but makes no progress. So progress is checked here
every five minutes: without workers, or after an hour without a finished part, ``ClusterUnavailable`` says so.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from observal.errors import ClusterUnavailable, InvalidInput
from observal.parquet.executors import S, T
from observal.threads import one_thread

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

RETRIES = 20
CONNECT_SECONDS = 10
CHECK_SECONDS = 300  # seconds without a finished part until progress is checked
MOST_CHECKS = 12  # checks in a row without a finished part: an hour
_in_use: weakref.WeakValueDictionary[str, Cluster] = weakref.WeakValueDictionary()
_connecting = threading.Lock()


class Cluster:
    """A Dask cluster as an executor.

    A part that is lost is computed again `retries` times; progress is checked if no part was finished for `check_seconds`.

    Examples
    --------
    >>> Cluster.at("nowhere://here")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    observal.errors.ClusterUnavailable: The Dask scheduler at nowhere://here cannot be reached...
    """

    def __init__(self, client: Client, retries: int = RETRIES, check_seconds: float = CHECK_SECONDS) -> None:
        self.client, self.retries, self.check_seconds = client, retries, check_seconds

    @classmethod
    def at(cls, where: str) -> Cluster:
        """Return the cluster at a scheduler's address, or with ``"local"`` one that is started on this machine: a worker for each core.

        Callers that name the same address share it. It is closed when nothing uses it any more.
        """
        with _connecting:
            cluster = _in_use.get(where)
            if cluster is None or cluster.client.status != "running":
                cluster = _in_use[where] = cls._connect(where)
                weakref.finalize(cluster, _close_later, cluster.client).atexit = False  # Dask does it when Python ends
            return cluster

    @classmethod
    def _connect(cls, where: str) -> Self:
        try:
            import distributed
        except ImportError:
            raise InvalidInput(
                "A Dask cluster needs the package distributed; install it with pip install 'observal[dask]'."
            ) from None
        try:
            with silence_dask():
                if where == "local":
                    local = distributed.LocalCluster(threads_per_worker=1, dashboard_address=":0", memory_limit=0)
                    return cls(distributed.Client(local))
                return cls(distributed.Client(where, timeout=CONNECT_SECONDS))
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterUnavailable(
                f"The Dask scheduler at {where} cannot be reached ({type(error).__name__}); start it, or leave out the cluster."
            ) from None

    def map(self, function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
        """Yield what a function makes of each item, in the order of the items."""
        import distributed

        try:
            yield from self._map(function, list(items))
        except (OSError, TimeoutError, distributed.CancelledError, distributed.KilledWorker) as error:
            raise ClusterUnavailable(
                f"The Dask cluster gave up ({type(error).__name__}); nothing was stored, so start it again or leave it out, and repeat the "
                "command."
            ) from error

    def _map(self, function: Callable[[S], T], items: list[S]) -> Iterator[T]:
        from distributed import as_completed

        # The function is a task of its own: it is sent once, and made again if a worker that had it dies.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # trees are large, and are sent once
            shared = self.client.submit(_return, function, pure=False, retries=self.retries)
        futures = self.client.map(_call, items, shared=shared, pure=False, retries=self.retries)
        place = {future: k for k, future in enumerate(futures)}
        completed = as_completed(futures, loop=self.client.loop)
        ready: dict[int, T] = {}
        try:
            for k in range(len(items)):
                while k not in ready:
                    future = self._next(completed)
                    ready[place.pop(future)] = future.result(timeout=self.check_seconds)
                yield ready.pop(k)
        finally:
            self.client.cancel(list(place))

    def _next(self, completed: as_completed) -> Future[Any]:
        """Return the next future that is finished; raise if there is no progress."""
        end, checks = time.monotonic() + self.check_seconds, 0
        while not completed.has_ready():
            if time.monotonic() > end:
                checks, end = checks + 1, end + self.check_seconds
                self._check_progress(checks)
            time.sleep(0.01)
        return next(completed)

    def _check_progress(self, checks: int) -> None:
        """Raise if the cluster has no workers, or if no part was finished during so many checks."""
        scheduler: Any = self.client.scheduler
        count = len(self.client.sync(scheduler.ncores, callback_timeout=CONNECT_SECONDS))
        if count and checks < MOST_CHECKS:
            return
        workers = "1 worker" if count == 1 else f"{count or 'no'} workers"
        raise ClusterUnavailable(
            f"For {self.check_seconds * checks / 60:.0f} minutes no part was finished on the Dask cluster, which has {workers}; nothing was "
            "stored, so start workers or leave the cluster out, and repeat the command."
        )

    def close(self) -> None:
        """Disconnect; a cluster that was started here ends."""
        _close(self.client)


def _return(function: Callable[[S], T]) -> Callable[[S], T]:
    return function


def _call(item: S, shared: Callable[[S], T]) -> T:
    with one_thread():  # the worker has one core for itself
        return shared(item)


def _close(client: Client) -> None:
    cluster = client.cluster
    client.close()
    if cluster is not None:
        cluster.close()


def _close_later(client: Client) -> None:
    """Close a client in a thread of its own, for which Python waits: the thread that drops the last reference may be one of Dask's."""

    def close() -> None:
        with _connecting, silence_dask(), suppress(Exception):  # it may have gone by itself
            _close(client)

    threading.Thread(target=close, name="observal-close", daemon=False).start()


@contextmanager
def silence_dask() -> Iterator[None]:
    """Suppress Dask's own messages inside a ``with`` block: errors there are reported in one sentence."""
    before = silence()
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def silence() -> dict[str, int]:
    """Suppress Dask's own messages from now on; return the levels that its loggers had."""
    before = {}
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        before[name] = logging.getLogger(name).level
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return before

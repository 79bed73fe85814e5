"""Parts on a Dask cluster: Dask schedules, retries and moves what is needed; the map and the order of the results are ours.

Workers read their own parts, so they must reach the files under the same paths. A worker that dies costs time and nothing else: its parts are
computed again. Dask gives a task up when workers have died under it a few times, counting every task that a dead worker had been
given; such tasks are submitted again here, up to `retries` times.
"""

from __future__ import annotations

import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from observal.errors import ClusterUnavailable, InvalidInput
from observal.parts.executors import alone

RETRIES = 20
CONNECT_SECONDS = 10
_in_use: weakref.WeakValueDictionary[str, Cluster] = weakref.WeakValueDictionary()
_connecting = threading.Lock()


class Cluster:
    """A Dask cluster as an executor.

    Parameters
    ----------
    client : distributed.Client
        Connected to a scheduler.
    retries : int
        How many times a part is computed again.

    Examples
    --------
    >>> Cluster.at("nowhere://here")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    observal.errors.ClusterUnavailable: The Dask scheduler at nowhere://here cannot be reached...
    """

    def __init__(self, client: Any, retries: int = RETRIES) -> None:
        self.client, self.retries = client, retries

    @classmethod
    def at(cls, where: str) -> Cluster:
        """Return the cluster at a scheduler's address, or with ``"local"`` one that is started on this machine: a worker for each core.

        Everything that names the same one shares it. It is closed when nothing uses it any more.
        """
        with _connecting:
            found = _in_use.get(where)
            if found is None or found.client.status != "running":
                found = _in_use[where] = cls._connect(where)
                weakref.finalize(found, _close_later, found.client).atexit = False  # Dask does it when Python ends
            return found

    @classmethod
    def _connect(cls, where: str) -> Self:
        try:
            import distributed
        except ImportError:
            raise InvalidInput(
                "A Dask cluster needs the package distributed; install it with pip install 'observal[dask]'."
            ) from None
        try:
            with silenced():
                if where == "local":
                    made = distributed.LocalCluster(threads_per_worker=1, dashboard_address=":0", memory_limit=0)  # type: ignore[no-untyped-call]
                    return cls(distributed.Client(made))  # type: ignore[no-untyped-call]
                return cls(distributed.Client(where, timeout=CONNECT_SECONDS))  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterUnavailable(
                f"The Dask scheduler at {where} cannot be reached ({type(error).__name__}); start it, or leave out the cluster."
            ) from None

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield what a function makes of each item, in the order of the items."""
        import distributed

        every = list(items)
        try:
            yield from self._map(distributed, function, every)
        except (OSError, TimeoutError, distributed.CancelledError, distributed.KilledWorker) as error:
            raise ClusterUnavailable(
                f"The Dask cluster gave up ({type(error).__name__}); nothing was stored, so start it again or leave it out, and repeat the "
                "command."
            ) from error

    def _map(self, distributed: Any, function: Callable[[Any], Any], every: list[Any]) -> Iterator[Any]:
        client = self.client
        # The function is a task of its own: it is sent once, and made again where a worker that had it died.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # trees are large, and are sent once
            shared = client.submit(_given, function, pure=False, retries=self.retries)
        futures = client.map(_call, every, shared=shared, pure=False, retries=self.retries)
        place = {future.key: k for k, future in enumerate(futures)}
        running, left = distributed.as_completed(futures), self.retries
        ready: dict[int, Any] = {}
        due = 0
        try:
            for future in running:
                k = place[future.key]
                if future.status == "error" and isinstance(future.exception(), distributed.KilledWorker) and left:
                    left -= 1
                    again = client.submit(_call, every[k], shared=shared, pure=False, retries=self.retries)
                    place[again.key] = k
                    futures[k] = again
                    running.add(again)
                    continue
                ready[k] = future.result()
                while due in ready:
                    yield ready.pop(due)
                    futures[due] = None
                    due += 1
        finally:
            client.cancel([future for future in futures if future is not None])

    def close(self) -> None:
        """Disconnect; a cluster that was started here ends."""
        _close(self.client)


def _given(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


def _call(item: Any, shared: Callable[[Any], Any]) -> Any:
    return alone(shared, item)


def _close(client: Any) -> None:
    cluster = client.cluster
    client.close()
    if cluster is not None:
        cluster.close()


def _close_later(client: Any) -> None:
    """Close a client in a thread of its own, for which Python waits: the thread that drops the last reference may be one of Dask's."""

    def close() -> None:
        with _connecting, silenced(), suppress(Exception):  # it may have gone by itself
            _close(client)

    threading.Thread(target=close, name="observal-close", daemon=False).start()


@contextmanager
def silenced() -> Iterator[None]:
    """Keep Dask's own messages back inside a ``with`` block; what goes wrong there is said in one sentence."""
    before = silence()
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def silence() -> dict[str, int]:
    """Keep Dask's own messages back from now on; return the levels that its loggers had."""
    before = {}
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        before[name] = logging.getLogger(name).level
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return before

"""Parts on a Dask cluster: Dask schedules, retries and moves what is needed; the map and the order of the results are ours.

Workers read their own parts, so they must reach the files under the same paths. A worker that dies costs time and nothing else: its parts are
computed again. Dask gives a task up when workers have died under it a few times, counting every task that a dead worker had been
given; such tasks are submitted again here, up to `retries` times.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from observal.errors import ClusterUnavailable, InvalidInput
from observal.parts.executors import alone

RETRIES = 20
CONNECT_SECONDS = 10


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
    def at(cls, where: str) -> Self:
        """Connect to a scheduler's address, or start a cluster on this machine with ``"local"``: a worker for each core."""
        try:
            import distributed
        except ImportError:
            raise InvalidInput(
                "A Dask cluster needs the package distributed; install it with pip install 'observal[dask]'."
            ) from None
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is said in one sentence here
        try:
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
        cluster = self.client.cluster
        self.client.close()
        if cluster is not None:
            cluster.close()


def _given(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


def _call(item: Any, shared: Callable[[Any], Any]) -> Any:
    return alone(shared, item)

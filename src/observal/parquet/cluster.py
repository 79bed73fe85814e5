"""Parts on a Dask cluster: Dask schedules, retries and moves what is needed; the map and the order of the results are ours.

Workers read their own parts, so they must reach the files under the same paths. A worker that dies costs time and nothing else: its parts are
computed again. Dask gives a task up when workers have died under it a few times, counting every task that a dead worker had been
given; such tasks are submitted again here, up to `retries` times.

Dask itself waits as long as it takes: for a worker that never comes, or for one that stays connected but does not go on. So if no part is
finished for five minutes, all that are missing are submitted again, and whoever is first gives the answer. If there is no worker then, or
if nothing has moved after a few times, each twice as long, that is said in one sentence.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from observal.errors import ClusterUnavailable, InvalidInput
from observal.parquet.executors import alone

RETRIES = 20
CONNECT_SECONDS = 10
QUIET_SECONDS = 300  # without any part that finishes, until all missing ones are submitted again
MOST_QUIET = 5  # such times in a row; each takes twice as long as the one before: 155 minutes in all
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
    quiet_seconds : float
        How long no part may finish until the missing ones are submitted again.

    Examples
    --------
    >>> Cluster.at("nowhere://here")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    observal.errors.ClusterUnavailable: The Dask scheduler at nowhere://here cannot be reached...
    """

    def __init__(self, client: Any, retries: int = RETRIES, quiet_seconds: float = QUIET_SECONDS) -> None:
        self.client, self.retries, self.quiet_seconds = client, retries, quiet_seconds

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
        place: dict[Any, int] = {}  # of each future that is not done: more than one may compute the same item
        running, ready = distributed.as_completed(loop=self.client.loop), dict[int, Any]()
        due, left, quiet, again = 0, self.retries, 0, False

        def submit(missing: list[int]) -> None:
            made = self._submit(function, [every[k] for k in missing])
            place.update(zip(made, missing, strict=True))
            running.update(made)

        try:
            submit(list(range(len(every))))
            while due < len(every):
                future = _finished(running, self.quiet_seconds * 2**quiet)
                if future is None:
                    quiet, again = quiet + 1, True
                    self._require_hope(quiet)
                    submit([k for k in range(due, len(every)) if k not in ready])
                    continue
                if (k := place.pop(future, None)) is None:  # another was first
                    continue
                if future.status == "error" and isinstance(future.exception(), distributed.KilledWorker) and left:
                    left -= 1
                    submit([k])
                    continue
                ready[k], quiet = future.result(timeout=self.quiet_seconds), 0
                if again:
                    self._give_up([other for other, same in place.items() if same == k], place)
                while due in ready:
                    yield ready.pop(due)
                    due += 1
        finally:
            self.client.cancel(list(place))

    def _submit(self, function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        """Return a future for each item."""
        # The function is a task of its own: it is sent once, and made again where a worker that had it died.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # trees are large, and are sent once
            shared = self.client.submit(_given, function, pure=False, retries=self.retries)
        made: list[Any] = self.client.map(_call, items, shared=shared, pure=False, retries=self.retries)
        return made

    def _give_up(self, futures: list[Any], place: dict[Any, int]) -> None:
        """Cancel futures whose item is computed: those that no worker has begun cost nothing then."""
        for future in futures:
            del place[future]
        if futures:
            self.client.cancel(futures)

    def _require_hope(self, quiet: int) -> None:
        """Refuse to wait any longer if there is no worker, or if nothing was finished so many times."""
        count = len(self.client.sync(self.client.scheduler.ncores, callback_timeout=CONNECT_SECONDS))
        if count and quiet < MOST_QUIET:
            return
        minutes, seen = (
            self.quiet_seconds * (2**quiet - 1) / 60,
            "1 worker" if count == 1 else f"{count or 'no'} workers",
        )
        raise ClusterUnavailable(
            f"For {minutes:.0f} minutes no part was finished on the Dask cluster, which has {seen}; nothing was stored, so start workers "
            "or leave the cluster out, and repeat the command."
        )

    def close(self) -> None:
        """Disconnect; a cluster that was started here ends."""
        _close(self.client)


def _finished(running: Any, seconds: float) -> Any:
    """Return the next future that is finished; None if none is for so many seconds."""
    until = time.monotonic() + seconds
    while not running.has_ready():
        if time.monotonic() > until:
            return None
        time.sleep(0.01)
    return next(running)


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

"""One thread for all work on a campaign; storing an answer goes before requests that can wait a little."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from math import inf
from queue import PriorityQueue
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


class PriorityThread:
    """Calls functions one after the other, in the order in which their patience ends: a steady stream of urgent calls starves no other.

    Examples
    --------
    >>> thread = PriorityThread()
    >>> thread.submit(lambda: max(3, 4), patience=0.5).result()
    4
    >>> thread.shutdown()
    """

    def __init__(self) -> None:
        self._calls: PriorityQueue[tuple[float, int, Callable[[], None] | None]] = PriorityQueue()
        self._numbers = count()
        self._thread = threading.Thread(target=self._run, name="desk", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], T], patience: float = 0.0) -> Future[T]:
        """Have a function called, and return its future result; calls made within `patience` seconds from now may go first."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except BaseException as error:  # raised again where the result is awaited
                future.set_exception(error)

        self._calls.put((monotonic() + patience, next(self._numbers), call))
        return future

    def shutdown(self) -> None:
        """Finish the calls that are waiting, and end the thread."""
        self._calls.put((inf, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()[2]) is not None:
            call()

"""One thread for all work on a campaign; storing an answer goes before requests that only read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from queue import PriorityQueue
from typing import TypeVar

T = TypeVar("T")


class PriorityThread:
    """Calls functions one after the other, urgent ones first.

    Examples
    --------
    >>> thread = PriorityThread()
    >>> thread.submit(lambda: max(3, 4), urgent=True).result()
    4
    >>> thread.shutdown()
    """

    def __init__(self) -> None:
        self._calls: PriorityQueue[tuple[int, int, Callable[[], None] | None]] = PriorityQueue()
        self._numbers = count()
        self._thread = threading.Thread(target=self._run, name="desk", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], T], urgent: bool = False) -> Future[T]:
        """Have a function called, and return its future result."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except BaseException as error:  # raised again where the result is awaited
                future.set_exception(error)

        self._calls.put((0 if urgent else 1, next(self._numbers), call))
        return future

    def shutdown(self) -> None:
        """Finish the calls that are waiting, and end the thread."""
        self._calls.put((2, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()[2]) is not None:
            call()

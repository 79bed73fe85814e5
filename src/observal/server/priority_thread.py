"""One thread for all work on a campaign, answers first: nobody who pressed a key waits behind people who only look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from queue import PriorityQueue
from typing import Any


class PriorityThread:
    """Calls functions one after the other, urgent ones first.

    Examples
    --------
    >>> thread = PriorityThread()
    >>> thread.submit(max, 3, 4, urgent=True).result()
    4
    >>> thread.shutdown()
    """

    def __init__(self) -> None:
        self._waiting: PriorityQueue[tuple[int, int, Any]] = PriorityQueue()
        self._numbers = count()
        self._thread = threading.Thread(target=self._run, name="desk", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Any], *arguments: Any, urgent: bool = False) -> Future[Any]:
        """Have a function called, and return its future result."""
        future: Future[Any] = Future()
        self._waiting.put((0 if urgent else 1, next(self._numbers), (future, function, arguments)))
        return future

    def shutdown(self) -> None:
        """Finish what is waiting, and end the thread."""
        self._waiting.put((2, next(self._numbers), None))
        self._thread.join()

    def _run(self) -> None:
        while (work := self._waiting.get()[2]) is not None:
            future, function, arguments = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # it belongs to whoever waits for the result
                future.set_exception(error)

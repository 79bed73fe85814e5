"""One thread for all work on a campaign; requests that came together share a transaction, so one write to the disk stores them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class Call(Generic[T]):
    """A function to call, and its future result, which is known only once the transaction has ended."""

    def __init__(self, function: Callable[[], T], write: bool) -> None:
        self.write = write
        self.future: Future[T] = Future()
        self._function = function
        self._result: T
        self._error: BaseException | None = None

    def run(self) -> None:
        """Call the function and keep what it returned or raised."""
        try:
            self._result = self._function()
        except BaseException as error:  # raised again where the result is awaited
            self._error = error

    def finish(self, error: BaseException | None = None) -> None:
        """Set the future's result; `error` says that the transaction failed, whatever the function returned."""
        if not self.future.set_running_or_notify_cancel():
            return
        if error is not None or self._error is not None:
            self.future.set_exception(error or self._error)
        else:
            self.future.set_result(self._result)


class DeskThread:
    """Calls functions in one thread: all that wait to write, within one transaction, and then all that wait to read.

    Nobody is told that something is stored before the transaction has ended, and no call waits for more than what came before it.

    `transaction` takes whether calls write, and returns a block that is one transaction. `settle` is called once a second.

    Examples
    --------
    >>> from contextlib import nullcontext
    >>> thread = DeskThread(lambda write: nullcontext(), settle=lambda: None)
    >>> thread.submit(lambda: max(3, 4), write=True).result()
    4
    >>> thread.shutdown()
    """

    def __init__(self, transaction: Callable[[bool], AbstractContextManager[None]], settle: Callable[[], None]) -> None:
        self._transaction, self._settle = transaction, settle
        self._calls: SimpleQueue[Call[object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="desk", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], T], write: bool = False) -> Future[T]:
        """Have a function called, and return its future result."""
        call = Call(function, write)
        self._calls.put(call)  # type: ignore[arg-type]  # only the future knows the type of the result
        return call.future

    def shutdown(self) -> None:
        """Finish the calls that are waiting, and end the thread."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        more, due = True, monotonic() + 1.0
        while more:
            calls: list[Call[object] | None] = []
            with suppress(Empty):
                calls.append(self._calls.get(timeout=max(0.0, due - monotonic())))
                while calls[-1] is not None:
                    calls.append(self._calls.get_nowait())
            more = None not in calls
            for write in (True, False):
                self._run_together([call for call in calls if call is not None and call.write is write], write)
            if monotonic() >= due:
                self._settle()
                due = monotonic() + 1.0

    def _run_together(self, calls: list[Call[object]], write: bool) -> None:
        if not calls:
            return
        error = None
        try:
            with self._transaction(write):
                for call in calls:
                    call.run()
        except BaseException as failure:  # nothing was stored
            error = failure
        for call in calls:
            call.finish(error)

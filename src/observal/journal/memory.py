"""A journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from numpy.typing import NDArray

from observal.checks import Ints
from observal.journal.events import Event
from observal.journal.ledger import Ledger
from observal.journal.settings import Settings
from observal.journal.stored_fit import StoredFit
from observal.problem.problem import Problem


class MemoryJournal:
    """Events in a list, and their problem; it is its own transaction, because nothing else can write to it."""

    name = "the session"
    durable = False

    def __init__(self, problem: Problem, events: Iterable[Event] = ()) -> None:
        self._problem = problem
        self._events = list(events)

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """Yield the journal for reading."""
        yield self

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Yield the journal for writing; if the block raises, what it wrote is rolled back."""
        before = len(self._events)
        try:
            yield self
        except BaseException:
            del self._events[before:]
            raise

    @contextmanager
    def part(self) -> Iterator[None]:
        """Nest a block in the transaction: if it raises, what it wrote is rolled back."""
        with self.writing():
            yield

    def events(self, ledger: Ledger) -> list[Event]:
        """Return the events that the ledger has not followed yet."""
        return self._events[ledger.sequence :]

    def append(self, actor: str, kind: str, payload: Mapping[str, Any]) -> Event:
        """Add an event and return it."""
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        self._events.append(Event(len(self._events) + 1, time, actor, kind, payload))
        return self._events[-1]

    def problem(self, settings: Settings, with_ids: bool = True) -> Problem:
        """Return log and pool."""
        return self._problem

    def stored_fits(self, key_of: Callable[[int], str], closed: int) -> list[StoredFit]:
        """Return nothing: a session keeps its fits in memory."""
        return []

    def store_fit(self, round_: int, key: str, content: bytes) -> None:
        """Do nothing."""

    def pool_ids(self, positions: Ints) -> NDArray[Any]:
        """Return the ids of some pool rows."""
        ids: NDArray[Any] = self._problem.pool.ids
        return ids[positions]

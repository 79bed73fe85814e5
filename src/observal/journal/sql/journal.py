"""A journal in a database: plans and methods are encoded when written, and checked when read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from numpy.typing import NDArray

from observal.checks import Ints
from observal.errors import NotACampaign
from observal.journal.codec import ENTRIES, decode_entry, encode_entry
from observal.journal.events import Event, check_payload, require
from observal.journal.ledger import Ledger
from observal.journal.settings import Settings
from observal.journal.sql.connection import StoreConnection
from observal.journal.sql.store import Store
from observal.journal.sql.stored_problem import check_stored, read_pool_ids, read_pool_rows, read_problem
from observal.journal.stored_fit import LARGEST_FIT, StoredFit, unpack_fit
from observal.problem.problem import Problem

if TYPE_CHECKING:
    import pyarrow as pa


class SqlJournal:
    """The journal of a campaign's database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.name = store.name

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        """Yield a read-only transaction that sees one consistent state."""
        with self._store.reading() as connection:
            yield SqlTransaction(connection)

    @contextmanager
    def writing(self) -> Iterator[SqlTransaction]:
        """Yield an exclusive write transaction; it is on disk when the block has ended."""
        with self._store.writing() as connection:
            transaction = SqlTransaction(connection)
            yield transaction
            transaction.check()


class SqlTransaction:
    """A transaction on a database's journal; `connection` also gives access to its other tables."""

    durable = True

    def __init__(self, connection: StoreConnection) -> None:
        self.connection = connection
        self._failure: sa.exc.DBAPIError | None = None

    @contextmanager
    def part(self) -> Iterator[None]:
        """Nest a block in this transaction: if it raises, what it wrote is rolled back, and the rest stays.

        After a database error the whole transaction fails: SQLite itself rolls everything back when a disk is full.
        """
        self.check()
        try:
            with self.connection.database.begin_nested():
                yield
        except sa.exc.DBAPIError as error:
            self._failure = error
            raise

    def check(self) -> None:
        """Raise the database error that a nested block met."""
        if self._failure is not None:
            raise self._failure

    def events(self, ledger: Ledger) -> list[Event]:
        """Return the events that the ledger has not followed; raise NotACampaign for one that observal never writes."""
        events, data = [], ledger.data_digest
        settings = ledger.settings if ledger.started else None
        for event in self.connection.events(ledger.sequence, ledger.digest):
            try:
                payload = _decode_payload(event.kind, event.payload)
                check_payload(event.kind, payload, settings)
                if settings is None:
                    settings = payload["settings"]
                    check_stored(settings)
                elif event.kind == "extended":
                    settings = settings.extend(payload)
                    check_stored(settings)
            except NotACampaign:
                raise
            except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise NotACampaign(
                    f"{self.connection.name} is damaged: journal entry {event.sequence} ({event.kind!r:.40}) is not valid "
                    f"({' '.join(str(error).split())[:80]}); use an undamaged copy."
                ) from None
            if event.kind in ("created", "extended"):
                data = payload.get("data", data)
            events.append(replace(event, payload=payload))
        if data != self.connection.data_digest():
            raise self.connection.damaged("chunks of its data were changed, added or removed")
        return events

    def append(self, actor: str, kind: str, payload: Mapping[str, Any]) -> Event:
        """Append an event and return it; it is stored once the transaction is committed."""
        encoded = {name: encode_entry(value) if name in ENTRIES else value for name, value in payload.items()}
        return replace(self.connection.append(actor, kind, encoded), payload=payload)

    def problem(self, settings: Settings, with_ids: bool = True) -> Problem:
        """Return log and pool; without ids, rows are numbered, which is faster."""
        return read_problem(self.connection, settings, with_ids)

    def pool_ids(self, positions: Ints) -> NDArray[Any]:
        """Return the ids of some pool rows."""
        return read_pool_ids(self.connection, positions)

    def stored_fits(self, key_of: Callable[[int], str], closed: int) -> list[StoredFit]:
        """Return the fit of round 0 and the latest one, if their keys match those of closed rounds."""
        contents = self.connection.read_fits(lambda k: key_of(k) if 0 <= k <= closed else None, LARGEST_FIT)
        return [fit for fit in map(unpack_fit, contents) if fit is not None]

    def store_fit(self, round_: int, key: str, content: bytes) -> None:
        """Store a fit in place of the previous one; that of round 0 is kept next to a later one."""
        self.connection.write_fit(round_, key, content)

    def pool_rows(self, positions: list[int]) -> pa.Table:
        """Return some pool rows as in the table, as an Arrow table."""
        return read_pool_rows(self.connection, positions)


def _decode_payload(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored payload with its plan, record, settings or arrays decoded."""
    if kind == "round":
        plain = all(isinstance(id_, str | int) for id_ in payload["ids"])
        require(isinstance(payload["ids"], list) and plain, "an id is neither text nor a whole number")
        recorded = None if payload.get("recorded") is None else decode_entry("recorded", payload["recorded"])
        return {**payload, "plan": decode_entry("plan", payload["plan"]), "recorded": recorded}
    name = "settings" if kind == "created" else "arrays"
    if kind == "created" or name in payload:
        return {**payload, name: decode_entry(name, payload[name])}
    return dict(payload)

"""A connection to a campaign's database for one transaction: journal rows, data chunks, and their digests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from observal.errors import NotACampaign
from observal.journal.archive import parse_json
from observal.journal.events import Event
from observal.journal.sql.integrity import START, chunk_digest, data_digest, entry_digest
from observal.journal.sql.schema import data, digest_of_chunk, fit, head, journal
from observal.problem.arrow_stream import Budget

MAX_FITS = 2  # round 0's and the latest


class StoreConnection:
    """A connection to a campaign's database for one transaction; `budget` limits what its data may unpack to."""

    def __init__(self, database: sa.Connection, name: str, budget: Budget | None = None) -> None:
        self.database = database
        self.name = name
        self.budget = Budget() if budget is None else budget

    def execute(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> sa.CursorResult[Any]:
        """Run a statement on one of the tables that serve the labelling page."""
        return self.database.execute(statement, values)

    def events(self, after: int = 0, digest: str = START) -> list[Event]:
        """Return the journal's events after a sequence number, in order; `digest` is that of the event before them.

        The chain of digests is checked: a changed, moved or removed event raises NotACampaign.
        """
        query = sa.select(journal).where(journal.c.sequence > after).order_by(journal.c.sequence)
        events = []
        for number, row in enumerate(self.database.execute(query), start=after + 1):
            try:
                digest = entry_digest(digest, row.sequence, row.time, row.actor, row.kind, row.payload)
                payload = parse_json(row.payload) if digest == row.digest and number == row.sequence else None
            except (AttributeError, TypeError, ValueError, RecursionError):
                payload = None
            if not isinstance(payload, dict):
                raise self.damaged(f"journal entry {number} was changed or removed")
            events.append(Event(row.sequence, row.time, row.actor, row.kind, payload, digest))
        if self._head() != (after + len(events), digest):
            raise self.damaged(f"the journal's end, after entry {after + len(events)}, was changed or removed")
        return events

    def append(self, actor: str, kind: str, payload: Mapping[str, Any]) -> Event:
        """Append an event and return it; it is stored once the transaction is committed."""
        last, before = self._head()
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        # ASCII only: no database stores lone surrogates.
        text = json.dumps(payload, ensure_ascii=True, allow_nan=False)
        digest = entry_digest(before, last + 1, time, actor, kind, text)
        row = {"sequence": last + 1, "time": time, "actor": actor, "kind": kind, "payload": text, "digest": digest}
        self.database.execute(sa.insert(journal), row)
        self.database.execute(sa.delete(head))
        self.database.execute(sa.insert(head), {"sequence": last + 1, "digest": digest})
        return Event(last + 1, time, actor, kind, payload, digest)

    def _head(self) -> tuple[int, str]:
        """Return the sequence number and digest of the last event."""
        rows = self.database.execute(sa.select(head)).fetchmany(2)
        if len(rows) > 1 or not all(isinstance(row.sequence, int) and isinstance(row.digest, str) for row in rows):
            raise self.damaged("the record of the journal's last entry was changed")
        return (rows[0].sequence, rows[0].digest) if rows else (0, START)

    def write_chunk(self, name: str, chunk: int, first_row: int, content: bytes) -> None:
        """Store one chunk of the data."""
        self.__dict__.pop("_digests", None)  # invalidates the cached property
        row = {"name": name, "chunk": chunk, "first_row": first_row, "content": content}
        self.database.execute(sa.insert(data), row)
        digest = chunk_digest(name, chunk, first_row, content)
        self.database.execute(sa.insert(digest_of_chunk), {"name": name, "chunk": chunk, "digest": digest})

    def data_digest(self) -> str:
        """Return the digest of all data, computed from the chunks' digests without reading the chunks."""
        return data_digest(self._digests)

    def chunk_names(self) -> list[tuple[str, int]]:
        """Return the name and number of each chunk of data."""
        return sorted(self._digests)

    def has_chunk(self, name: str, chunk: int) -> bool:
        """Return whether there is such a chunk."""
        return (name, chunk) in self._digests

    @cached_property
    def _digests(self) -> dict[tuple[str, int], str]:
        digests: dict[tuple[str, int], str] = {}
        for name, chunk, digest in self.database.execute(sa.select(digest_of_chunk)):
            key = (name, chunk)
            # Pages of a forged file can refer to the same rows repeatedly, whatever the primary key.
            if tuple(map(type, (*key, digest))) != (str, int, str) or key in digests:
                raise self.damaged("the digests of its data were changed")
            digests[key] = digest
        return digests

    def first_rows(self, name: str) -> list[int]:
        """Return the first row of each chunk of `name`."""
        query = sa.select(data.c.chunk, data.c.first_row).where(data.c.name == name).order_by(data.c.chunk)
        rows = self.database.execute(query).fetchmany(len(self._digests) + 1)
        firsts = [row.first_row for row in rows]
        if [(name, row.chunk) for row in rows] != [key for key in self.chunk_names() if key[0] == name]:
            raise self.damaged(f"a chunk of its {name} is missing or was added")
        if (
            not all(isinstance(first, int) for first in firsts)
            or firsts != sorted(firsts)
            or firsts[:1] not in ([], [0])
        ):
            raise self.damaged(f"the order of its {name} was changed")
        return firsts

    def read_chunk(self, name: str, chunk: int) -> bytes:
        """Return one chunk of the data; a changed one raises NotACampaign."""
        query = sa.select(data.c.first_row, data.c.content).where(data.c.name == name, data.c.chunk == chunk)
        row = self.database.execute(query).one_or_none()
        if row is None or not isinstance(row.content, bytes | memoryview):
            raise self.damaged(f"chunk {chunk} of its {name} is missing")
        content = bytes(row.content)
        if chunk_digest(name, chunk, row.first_row, content) != self._digests.get((name, chunk)):
            raise self.damaged(f"chunk {chunk} of its {name} was changed")
        return content

    def read_fits(self, key_of: Callable[[int], str | None], most: int) -> list[bytes]:
        """Return the stored fits of at most `most` bytes whose keys match their rounds."""
        query = sa.select(fit.c.round, fit.c.key, sa.func.length(fit.c.content).label("size"))
        rows = self.database.execute(query).fetchmany(MAX_FITS + 1)
        if len(rows) > MAX_FITS or not all(isinstance(row.round, int) and isinstance(row.size, int) for row in rows):
            return []
        rounds = [row.round for row in rows if row.size <= most and row.key == key_of(row.round)]
        contents = [self.database.execute(sa.select(fit.c.content).where(fit.c.round == k)).scalar() for k in rounds]
        return [bytes(content) for content in contents if isinstance(content, bytes | memoryview)]

    def write_fit(self, round_: int, key: str, content: bytes) -> None:
        """Store a fit in place of the previous one; that of round 0 is kept next to a later one."""
        stays = fit.c.round == 0 if round_ else fit.c.round != 0
        self.database.execute(sa.delete(fit).where(~stays))
        self.database.execute(sa.insert(fit), {"round": round_, "key": key, "content": content})

    def structure_problem(self) -> str:
        """Return the first error of SQLite's own integrity check; empty if there is none, and on PostgreSQL."""
        if self.database.dialect.name != "sqlite":
            return ""
        verdict = str(self.database.exec_driver_sql("PRAGMA integrity_check(1)").scalar())
        return "" if verdict == "ok" else " ".join(verdict.split())

    def damaged(self, what: str) -> NotACampaign:
        """Return the error for a damaged campaign."""
        return NotACampaign(f"{self.name} is damaged: {what} after it was written; use a copy from before the damage.")

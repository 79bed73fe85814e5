"""A campaign's database: one transaction per command, a journal that only grows, and data in pieces.

SQLite: the write-ahead log with full synchronisation, so that an acknowledged label survives a power cut; writers
take turns by ``BEGIN IMMEDIATE``. PostgreSQL: writers take turns by an advisory lock. Every transaction has a connection of
its own, so a closed campaign is one complete file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from observal.campaign.schema import NEWEST, data, journal, migrate, schema_version
from observal.errors import CampaignExists, CampaignUnavailable, InvalidInput, NotACampaign

PATIENCE = 120  # seconds that a command waits for the others' transactions
_LOCK = 0x0B5E_C0DE  # of PostgreSQL's advisory locks; any number that others are unlikely to use


@dataclass(frozen=True)
class Event:
    """One line of the journal: what happened, when, by whom."""

    sequence: int
    time: str
    actor: str
    kind: str
    payload: dict[str, Any]


class Transaction:
    """What can be done within one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def events(self, after: int = 0) -> list[Event]:
        """Return the journal's events after a sequence number, in order."""
        query = sa.select(journal).where(journal.c.sequence > after).order_by(journal.c.sequence)
        found = self._connection.execute(query)
        return [Event(r.sequence, r.time, r.actor, r.kind, json.loads(r.payload)) for r in found]

    def append(self, actor: str, kind: str, payload: dict[str, Any]) -> None:
        """Add an event; it counts once the transaction is committed."""
        last = self._connection.execute(sa.select(sa.func.max(journal.c.sequence))).scalar() or 0
        time = datetime.now(UTC).isoformat(timespec="microseconds")
        # Unicode as it is, except lone surrogates, which no database stores.
        text = json.dumps(payload, ensure_ascii=True, allow_nan=False)
        row = {"sequence": last + 1, "time": time, "actor": actor, "kind": kind, "payload": text}
        self._connection.execute(sa.insert(journal), row)

    def write_chunk(self, name: str, chunk: int, first_row: int, content: bytes) -> None:
        """Store one piece of the data."""
        row = {"name": name, "chunk": chunk, "first_row": first_row, "content": content}
        self._connection.execute(sa.insert(data), row)

    def first_rows(self, name: str) -> list[int]:
        """Return the first row of each piece of `name`."""
        query = sa.select(data.c.first_row).where(data.c.name == name).order_by(data.c.chunk)
        return [int(first) for first in self._connection.execute(query).scalars()]

    def read_chunk(self, name: str, chunk: int) -> bytes:
        """Return one piece of the data."""
        query = sa.select(data.c.content).where(data.c.name == name, data.c.chunk == chunk)
        content = self._connection.execute(query).scalar()
        if content is None:
            raise NotACampaign(f"The campaign lacks piece {chunk} of its {name}, so it is damaged; use a copy.")
        return bytes(content)


class Store:
    """A campaign's database, by its path or ``postgresql://`` address."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self._engine = engine
        self.name = name

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Yield a transaction that sees one state of the campaign and changes nothing."""
        with sentences(self.name), self._engine.connect() as connection, connection.begin():
            yield Transaction(connection)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Yield a transaction that no other writer overlaps; it is on disk when the block has ended."""
        with _write(self._engine, self.name) as connection:
            yield Transaction(connection)


def refuse_existing(where: str | Path) -> None:
    """Refuse a path where something is, before any work is done for it."""
    address = _address(where)
    if isinstance(address, Path):
        _refuse_existing(os.path.lexists(address), str(address))
        if not address.parent.is_dir():
            raise InvalidInput(f"There is no folder {address.parent} to make {address.name} in; make it first.")


def create_store(where: str | Path, fill: Callable[[Transaction], None]) -> Store:
    """Make a new database and fill it; an interruption or an error leaves nothing behind under its name.

    Examples
    --------
    >>> import tempfile
    >>> store = create_store(tempfile.mkdtemp() + "/c.db", lambda t: t.append("ann", "created", {"seed": 0}))
    >>> with store.reading() as transaction:
    ...     [(event.actor, event.kind, event.payload) for event in transaction.events()]
    [('ann', 'created', {'seed': 0})]
    """
    address = _address(where)
    if isinstance(address, sa.URL):
        store = Store(_engine(address), _name(address))
        with _write(store._engine, store.name) as connection:
            _refuse_existing(schema_version(connection) is not None, store.name)
            migrate(connection)
            fill(Transaction(connection))
        return store
    refuse_existing(address)
    partial = address.with_name(f"{address.name}.{os.getpid()}.part")
    try:
        engine = _engine(_sqlite_url(partial), new=True)
        with sentences(str(address)):
            with engine.connect() as connection, connection.begin():
                migrate(connection)
                fill(Transaction(connection))
            with engine.connect() as connection:
                # Only now, and it stays so: while everything is new, a write-ahead log would write it all twice.
                connection.connection.execute("PRAGMA journal_mode=WAL")
        _move_new(partial, address)
    finally:
        partial.unlink(missing_ok=True)
    return Store(_engine(_sqlite_url(address)), str(address))


def open_store(where: str | Path) -> Store:
    """Open a database, bringing an older schema to the newest."""
    address = _address(where)
    if isinstance(address, Path):
        if not address.is_file():
            raise NotACampaign(f"There is no campaign at {address}; make one with `observal init {address} …`.")
        store = Store(_engine(_sqlite_url(address)), str(address))
    else:
        store = Store(_engine(address), _name(address))
    with sentences(store.name), store._engine.connect() as connection, connection.begin():
        version = schema_version(connection)
    if version is None:
        raise NotACampaign(f"{store.name} holds no campaign; make one with `observal init`.")
    if version != NEWEST:
        with _write(store._engine, store.name) as connection:
            migrate(connection)
    return store


@contextmanager
def _write(engine: sa.Engine, name: str) -> Iterator[sa.Connection]:
    with sentences(name), engine.connect() as connection:
        connection.execution_options(observal_writing=True)  # the begin handlers read it
        with connection.begin():
            yield connection


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turn what a database driver raises into one sentence."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        said = " ".join(str(error.orig).split())
        if "not a database" in said or "malformed" in said:
            raise NotACampaign(f"{name} is not a campaign, or it is damaged ({said}); give the path of one.") from error
        raise CampaignUnavailable(
            f"The campaign's database {name} could not do that ({said}); nothing was stored, so try again when it can."
        ) from error


def _refuse_existing(exists: bool, name: str) -> None:
    if exists:
        raise CampaignExists(f"There is something at {name} already, and init never overwrites; give another place.")


def _move_new(partial: Path, address: Path) -> None:
    """Give a finished file its name, unless another process was faster."""
    try:
        os.link(partial, address)
    except FileExistsError:
        _refuse_existing(True, str(address))
    except OSError:  # a file system without hard links
        _refuse_existing(os.path.lexists(address), str(address))
        os.rename(partial, address)


def _address(where: str | Path) -> Path | sa.URL:
    text = os.fspath(where)
    if "\0" in text or not text:
        raise InvalidInput(f"A campaign needs a file name or a postgresql:// address, but got {text!r}.")
    if "://" not in text:
        return Path(text)
    try:
        url = sa.make_url(text)
    except sa.exc.ArgumentError:
        raise InvalidInput(
            "The address of the database could not be read; write postgresql://user@host/name."
        ) from None
    kind = url.get_backend_name()
    if kind not in ("postgresql", "postgres"):
        raise InvalidInput(
            f"A campaign lives in an SQLite file or a PostgreSQL database, but {kind!r} was given; "
            "give a file name or postgresql://…."
        )
    return url.set(drivername="postgresql+psycopg")


def _name(url: sa.URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


def _sqlite_url(path: Path) -> sa.URL:
    return sa.URL.create("sqlite", database=str(path))


def _engine(url: sa.URL, new: bool = False) -> sa.Engine:
    sqlite = url.get_backend_name() == "sqlite"
    try:
        engine = sa.create_engine(
            url,
            poolclass=sa.pool.NullPool,
            connect_args={"timeout": PATIENCE, "isolation_level": None} if sqlite else {"connect_timeout": PATIENCE},
        )
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"A campaign in PostgreSQL needs the package {error.name}, which is not installed; "
            "install it with `pip install 'observal[postgres]'`."
        ) from None
    if sqlite:
        sa.event.listen(engine, "connect", _start_new_sqlite if new else _start_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:
        sa.event.listen(engine, "begin", _begin_postgresql)
    return engine


def _start_sqlite(connection: Any, record: Any) -> None:
    connection.execute("PRAGMA synchronous=FULL")


def _start_new_sqlite(connection: Any, record: Any) -> None:
    connection.execute("PRAGMA page_size=16384")  # large pages suit large pieces of data
    connection.execute("PRAGMA synchronous=FULL")


def _begin_sqlite(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("observal_writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _begin_postgresql(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("observal_writing"):
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

"""A campaign's database: creating and opening it, and one transaction per command.

SQLite uses a write-ahead log with full synchronisation, so a stored label survives a power cut; writers take
turns with ``BEGIN IMMEDIATE``. In PostgreSQL writers take turns with an advisory lock, and readers see one
snapshot. Every transaction has its own connection, except in the server, so a closed campaign is one complete file.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from observal.errors import CampaignExists, CampaignUnavailable, InvalidInput, NotACampaign, hide_secrets
from observal.files import check_target, remove_stale, writing
from observal.journal.sql.connection import StoreConnection
from observal.journal.sql.schema import SCHEMA, check_schema, create_schema, schema_version
from observal.problem.arrow_stream import Budget

PATIENCE = 120  # seconds that a command waits for other writers
MAX_STEPS = 200  # millions of SQLite steps per transaction: two seconds, or forty million journal entries
# Kinds of journal entries that a campaign may hold and still be replaced.
_BEFORE_ANSWERS = {"created", "round", "asked", "released", "extended", "finished"}
_LOCK = 0x0B5E_C0DE  # the advisory lock's number; any that other programs are unlikely to use
_BAD_ADDRESS = (
    "The address of the database could not be read; write / : @ and ? within a password as %2F %3A %40 and %3F, "
    "and all of it as in postgresql://host:5432/name."
)


class Store:
    """A campaign's database; a file that cannot be written can still be read.

    `name` is the path, or the URL without its secrets; `title` is the short name of the file or database.
    """

    def __init__(self, engine: sa.Engine, name: str, read_only: bool = False) -> None:
        self._engine = engine
        self._read_only = read_only
        self._budget = Budget()
        self.name = name
        self._is_file = engine.url.get_backend_name() == "sqlite"
        self.title = Path(name).stem if self._is_file else engine.url.database or engine.url.host or ""

    def close(self) -> None:
        """Close the connections kept open."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[StoreConnection]:
        """Yield a connection for a read-only transaction that sees one consistent state."""
        with sentences(self.name, self._engine), self._engine.connect() as connection, connection.begin():
            yield StoreConnection(connection, self.name, self._budget)

    @contextmanager
    def writing(self) -> Iterator[StoreConnection]:
        """Yield a connection for an exclusive write transaction; it is on disk when the block has ended."""
        if self._read_only:
            raise CampaignUnavailable(
                f"{self.name} can be read but not written, so nothing was stored; "
                "copy it to a folder where you may write, or get write permission."
            )
        with _write(self._engine, self.name) as connection:
            yield StoreConnection(connection, self.name, self._budget)

    def settle(self) -> None:
        """Move what SQLite's write-ahead log has into the file, unless somebody is reading an older state; nobody has to wait."""
        if self._is_file:
            with suppress(sa.exc.DBAPIError), self._engine.connect() as connection:
                _settle(connection)

    def copy(self, path: Path, force: bool) -> None:
        """Copy all that is stored to a file, while others read and write; the file needs no locks, as nobody else knows it yet."""
        if not self._is_file:
            raise InvalidInput(f"{self.name} is a PostgreSQL database, not a file; make its backup with pg_dump.")
        with writing(path, force) as file, sentences(self.name, self._engine), self._engine.connect() as connection:
            shutil.copymode(self.name, file.name)  # a private campaign stays private
            with closing(sqlite3.connect(f"file:{quote(os.fsencode(file.name))}?nolock=1", uri=True)) as copy:
                connection.connection.backup(copy)


def refuse_existing(where: str | Path, replace: bool = False) -> None:
    """Reject an existing path before any work is done; with `replace`, only non-campaigns and those with answers."""
    address = _address(where)
    if isinstance(address, Path):
        if replace and os.path.lexists(address):
            _refuse_answers(address)
            return
        _refuse_existing(os.path.lexists(address), str(address))
        check_target(address)  # a name such as c.db-wal may belong to another campaign
        if not address.parent.is_dir():
            raise InvalidInput(f"The folder {address.parent} for {address.name} does not exist; make it first.")


def create_store(where: str | Path, fill: Callable[[StoreConnection], Any], replace: bool = False) -> Store:
    """Create and fill a database; after an interruption or error the path has no file, or still the old one.

    `replace` allows replacing a campaign without answers.

    Examples
    --------
    >>> import tempfile
    >>> store = create_store(tempfile.mkdtemp() + "/c.db", lambda c: c.append("ann", "created", {"seed": 0}))
    >>> with store.reading() as connection:
    ...     [(event.actor, event.kind, event.payload) for event in connection.events()]
    [('ann', 'created', {'seed': 0})]
    """
    address = _address(where)
    if isinstance(address, sa.URL):
        store = Store(_engine(address), _name(address))
        with _write(store._engine, store.name) as connection:
            if replace:
                raise InvalidInput(
                    "Only a campaign in a file is replaced, but this is a database; make an empty database for the new one."
                )
            _refuse_existing(schema_version(connection) is not None, store.name)
            create_schema(connection)
            fill(StoreConnection(connection, store.name))
        return store
    refuse_existing(address, replace)
    remove_stale(address)
    partial = address.with_name(f"{address.name}.{os.getpid()}.part")
    try:
        engine = _engine(_sqlite_url(partial))
        with _write(engine, str(address)) as connection:
            create_schema(connection)
            fill(StoreConnection(connection, str(address)))
        with sentences(str(address), engine), engine.connect() as connection:
            # Not earlier: while the file is being filled, a write-ahead log would write everything twice.
            connection.connection.execute("PRAGMA journal_mode=WAL")
        if replace and os.path.lexists(address):
            _replace_unanswered(partial, address)
        else:
            _move_new(partial, address)
    finally:
        partial.unlink(missing_ok=True)
    return Store(_engine(_sqlite_url(address)), str(address))


def open_store(where: str | Path, keep: bool = False) -> Store:
    """Open a database; `keep` keeps connections open, for a server that reuses them."""
    address = _address(where)
    if isinstance(address, sa.URL):
        store = Store(_engine(address, keep=keep), _name(address))
    elif not address.is_file():
        name = hide_secrets(str(address))
        raise NotACampaign(f"There is no campaign file at {name}; make one with `observal init {name} …`.")
    elif _can_write(address) and _can_write(address.parent):
        store = Store(_engine(_sqlite_url(address), keep=keep), str(address))
    else:
        store = Store(_read_only_engine(address), str(address), read_only=True)
    with sentences(store.name, store._engine), store._engine.connect() as connection, connection.begin():
        version = schema_version(connection)
        if version is None:
            raise NotACampaign(f"{store.name} contains no campaign; make one with `observal init`.")
        if version != SCHEMA:
            raise NotACampaign(
                f"{store.name} was written by another version of observal (schema {version:.20}; this one reads {SCHEMA}); "
                "open it with that version."
            )
        check_schema(connection)
    return store


def _can_write(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _read_only_engine(path: Path) -> sa.Engine:
    """Return an engine for a file without write permission."""
    engine = _engine(_sqlite_url(path, mode="ro"))
    try:
        with engine.connect() as connection, connection.begin():
            schema_version(connection)
    except sa.exc.OperationalError:
        # SQLite creates files next to the campaign even for reading, unless told that there are no writers.
        pending = path.with_name(path.name + "-wal")
        if pending.exists() and pending.stat().st_size:
            raise CampaignUnavailable(
                f"{path} was not closed properly, and this folder is read-only, so it cannot be recovered here; "
                f"copy it together with {pending.name} to a folder where you may write."
            ) from None
        return _engine(_sqlite_url(path, mode="ro", immutable="1"))
    return engine


@contextmanager
def _write(engine: sa.Engine, name: str) -> Iterator[sa.Connection]:
    with sentences(name, engine), engine.connect() as connection:
        connection.execution_options(observal_writing=True)  # the begin handlers read it
        with connection.begin():
            yield connection
        if engine.dialect.name == "sqlite" and isinstance(engine.pool, sa.pool.NullPool):  # the server does it later
            _settle(connection)


def _settle(connection: sa.Connection) -> None:
    with suppress(sqlite3.Error):  # the log has everything
        connection.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


@contextmanager
def sentences(name: str, engine: sa.Engine) -> Iterator[None]:
    """Turn a database driver's error into one sentence, without the URL's secrets."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's messages about a damaged file may not be valid text
        raise NotACampaign(f"{name} is not a campaign, or it is damaged; give the path of one.") from error
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        reason = " ".join(str(error.orig if isinstance(error, sa.exc.DBAPIError) else error).split())
        reason = _hide_values(reason, engine.url)
        if reason == "interrupted":
            raise NotACampaign(f"{name} is damaged: reading it never finishes; use an undamaged copy.") from error
        if "not a database" in reason or "malformed" in reason:
            raise NotACampaign(
                f"{name} is not a campaign, or it is damaged ({reason}); give the path of one."
            ) from error
        raise CampaignUnavailable(
            f"The database of {name} failed ({reason}) and nothing was stored; try again."
        ) from error


def _hide_values(reason: str, url: sa.URL) -> str:
    """Hide a URL's secrets in a driver's message: PostgreSQL repeats values that it does not understand."""
    shown = hide_secrets(url.render_as_string(hide_password=False))
    values = {url.username, url.password, *(value for values in url.normalized_query.values() for value in values)}
    for value in sorted(filter(None, values), key=len, reverse=True):
        if value not in shown:
            reason = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "***", reason)
    return reason


def _refuse_existing(exists: bool, name: str) -> None:
    if exists:
        raise CampaignExists(
            f"{name} already exists; choose another path, or pass --replace (replace=True) if no answer was told to it yet."
        )


def _refuse_answers(address: Path) -> None:
    """Refuse to replace a campaign that holds people's work."""
    store = open_store(address)
    with store.reading() as connection:
        answered = any(event.kind not in _BEFORE_ANSWERS for event in connection.events())
    store.close()
    if answered:
        raise CampaignExists(f"{address} has answers, so it is not replaced; choose another path.")


def _replace_unanswered(partial: Path, address: Path) -> None:
    """Put a finished file in place of a campaign that has no answers and that nobody has open."""
    engine = _engine(_sqlite_url(address))
    try:
        with sentences(str(address), engine), engine.connect() as connection:
            # SQLite grants this only if nobody else has the file open. Otherwise the old write-ahead log
            # would be read into the new file.
            connection.connection.execute("PRAGMA busy_timeout=1000")
            connection.connection.execute("PRAGMA journal_mode=DELETE")
    finally:
        engine.dispose()
    _refuse_answers(address)
    os.replace(partial, address)


def _move_new(partial: Path, address: Path) -> None:
    """Give a finished file its name, unless another process created that file first."""
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
        raise InvalidInput(f"A campaign needs a file name or a postgresql:// address, but got {text!r}; give one.")
    if "://" not in text:
        return Path(text)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):  # the latter for a non-numeric port
        raise InvalidInput(_BAD_ADDRESS) from None
    kind = url.get_backend_name()
    if kind not in ("postgresql", "postgres"):
        raise InvalidInput(
            f"A campaign is an SQLite file or a PostgreSQL database, but got an address of {kind!r}; "
            "give a file name or a postgresql:// address."
        )
    if "@" in f"{url.host}{url.database}":  # part of a password, which the driver would take for a host name
        raise InvalidInput(_BAD_ADDRESS)
    return url.set(drivername="postgresql+psycopg")


def _name(url: sa.URL) -> str:
    return hide_secrets(url.set(drivername="postgresql").render_as_string(hide_password=False))


def _sqlite_url(path: Path, **options: str) -> sa.URL:
    if not options:
        return sa.URL.create("sqlite", database=str(path))
    return sa.URL.create("sqlite", database=f"file:{quote(str(path.absolute()))}", query={**options, "uri": "true"})


def _engine(url: sa.URL, keep: bool = False) -> sa.Engine:
    sqlite = url.get_backend_name() == "sqlite"
    try:
        engine = sa.create_engine(
            url,
            poolclass=sa.pool.QueuePool if keep else sa.pool.NullPool,
            pool_pre_ping=keep and not sqlite,
            connect_args={"timeout": PATIENCE, "isolation_level": None} if sqlite else {"connect_timeout": PATIENCE},
        )
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"A campaign in PostgreSQL needs the package {error.name}, which is not installed; "
            "install it with `pip install 'observal[postgres]'`."
        ) from None
    except sa.exc.ArgumentError:  # such as ?port=x
        raise InvalidInput(_BAD_ADDRESS) from None
    if sqlite:
        sa.event.listen(engine, "connect", _start_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:
        sa.event.listen(engine, "begin", _begin_postgresql)
    return engine


def _start_sqlite(connection: sqlite3.Connection, record: object) -> None:
    _limit_steps(connection)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA synchronous=FULL")


def _limit_steps(connection: sqlite3.Connection) -> None:
    """Interrupt SQLite after this many of its steps which, unlike seconds, do not depend on the machine's load."""
    millions = count(1)
    connection.set_progress_handler(lambda: next(millions) >= MAX_STEPS, 1_000_000)


def _begin_sqlite(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("observal_writing")
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    _limit_steps(driver)
    connection.exec_driver_sql(f"PRAGMA query_only={'OFF' if writing else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _begin_postgresql(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("observal_writing"):
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    else:  # otherwise each statement would see commits made since the previous one
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")

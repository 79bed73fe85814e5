"""The tables of a campaign's database.

Only the journal says what was asked and answered; everything else is derived from it when a campaign is read
(``observal.journal.ledger``). Another table holds the data, in chunks. Two small tables hold the digest of
each chunk and of the journal's last entry (``observal.journal.sql.integrity``). Four serve the labelling page:
people, hashes of their tokens, leases on rows, and replies to requests that may be sent twice. One holds the
fits of round 0 and of the latest round (``observal.journal.stored_fit``). No result depends on these.
"""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa

from observal.errors import NotACampaign

SCHEMA = "2"
"""The version of these tables and their contents; increase it with every change, as other versions are rejected."""
_VERSION_TABLE = "observal_version"

_metadata = sa.MetaData()
journal = sa.Table(
    "observal_journal",
    _metadata,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, server_default=""),
)
head = sa.Table(
    "observal_head",
    _metadata,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.Text, nullable=False),
)
digest_of_chunk = sa.Table(
    "observal_digest",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("digest", sa.Text, nullable=False),
)
data = sa.Table(
    "observal_data",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("first_row", sa.BigInteger, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
person = sa.Table(
    "observal_person",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("added", sa.Text, nullable=False),
    sa.Column("revoked", sa.Text),
)
token = sa.Table(
    "observal_token",
    _metadata,
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("until", sa.Text, nullable=False),
)
lease = sa.Table(
    "observal_lease",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("until", sa.Text, nullable=False),
)
reply = sa.Table(
    "observal_reply",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
)
fit = sa.Table(
    "observal_fit",
    _metadata,
    sa.Column("round", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
_version = sa.Table(_VERSION_TABLE, _metadata, sa.Column("version_num", sa.String(32), primary_key=True))
_GROWING = (journal, data, digest_of_chunk)


def schema_version(connection: sa.Connection) -> str | None:
    """Return the version of the database's schema, or None if it has no campaign."""
    if connection.dialect.name == "sqlite":
        entries = [entry for entry in _read_schema(connection) if entry[1] == _VERSION_TABLE]
        if entries and entries[0] not in _expected_schema():  # a view in its place could run forever
            raise _foreign(entries[0])
        exists = bool(entries)
    else:
        exists = sa.inspect(connection).has_table(_VERSION_TABLE)
    version = connection.execute(sa.select(_version.c.version_num)).scalar() if exists else None
    return None if version is None else str(version)


def check_schema(connection: sa.Connection) -> None:
    """Reject an SQLite file whose tables, indexes and triggers are not exactly those of ``create_schema``."""
    if connection.dialect.name != "sqlite":
        return
    entries, expected = _read_schema(connection), _expected_schema()
    if different := sorted(entries ^ expected, key=str):
        raise _foreign(different[0])


_Entry = tuple[str, str, str, str | None]  # type, name, table, and the statement that made it


def _read_schema(connection: sa.Connection) -> set[_Entry]:
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master")
    # Whitespace is ignored: SQLAlchemy versions differ in it.
    return {(kind, name, table, sql and " ".join(str(sql).split())) for kind, name, table, sql in rows}


@cache
def _expected_schema() -> set[_Entry]:
    with sa.create_engine("sqlite://").begin() as connection:
        create_schema(connection)
        return _read_schema(connection)


def _foreign(entry: _Entry) -> NotACampaign:
    return NotACampaign(
        f"The campaign is damaged: the {entry[0]!s:.20} {entry[1]!r:.60} of its database is not as observal made it; use an undamaged copy."
    )


def create_schema(connection: sa.Connection) -> None:
    """Create the tables in an empty database, with triggers that keep append-only tables append-only.

    Examples
    --------
    >>> import sqlalchemy as sa
    >>> with sa.create_engine("sqlite://").begin() as connection:
    ...     create_schema(connection)
    ...     schema_version(connection) == SCHEMA
    True
    """
    for table in _metadata.tables.values():
        connection.execute(sa.schema.CreateTable(table))
    triggers = _sqlite_triggers() if connection.dialect.name == "sqlite" else _postgresql_triggers()
    for statement in triggers:
        connection.exec_driver_sql(statement)
    connection.execute(sa.insert(_version), {"version_num": SCHEMA})


def _sqlite_triggers() -> list[str]:
    return [
        f"CREATE TRIGGER {table.name}_no_{change.lower()} BEFORE {change} ON {table.name} "
        f"BEGIN SELECT RAISE(ABORT, '{table.name} can only grow'); END"
        for table in _GROWING
        for change in ("UPDATE", "DELETE")
    ]


def _postgresql_triggers() -> list[str]:
    refuse = (
        "CREATE FUNCTION observal_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '%% can only grow', TG_TABLE_NAME; END $$"
    )
    return [refuse] + [
        f"CREATE TRIGGER {table.name}_can_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON {table.name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION observal_refuse_change()"
        for table in _GROWING
    ]

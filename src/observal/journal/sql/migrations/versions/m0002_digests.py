"""Digests: a chain over the journal, one for each chunk of data, and the journal's last entry noted apart."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from observal.journal.sql.integrity import START, chunk_digest, data_digest, entry_digest
from observal.journal.sql.migrations.versions.m0001_journal_and_data import guard_postgresql, guard_sqlite

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the digests, compute them for what is there, and record in the journal that they begin now."""
    connection = op.get_bind()
    sqlite = connection.dialect.name == "sqlite"
    if sqlite:
        for change in ("update", "delete"):
            op.execute(f"DROP TRIGGER IF EXISTS observal_journal_no_{change}")
    else:
        op.execute("DROP TRIGGER IF EXISTS observal_journal_can_only_grow ON observal_journal")
    op.add_column("observal_journal", sa.Column("digest", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "observal_digest",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_table(
        "observal_head",
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    _fill(connection)
    if sqlite:
        guard_sqlite("observal_journal", "observal_digest")
    else:
        guard_postgresql("observal_journal", "observal_digest")


def _fill(connection: sa.Connection) -> None:
    digests = {}
    keys = connection.execute(sa.text("SELECT name, chunk FROM observal_data ORDER BY name, chunk")).all()
    one = sa.text("SELECT first_row, content FROM observal_data WHERE name = :name AND chunk = :chunk")
    for name, chunk in keys:  # one at a time: together they may not fit in memory
        first_row, content = connection.execute(one, {"name": name, "chunk": chunk}).one()
        digests[name, chunk] = chunk_digest(name, chunk, first_row, bytes(content))
        row = {"name": name, "chunk": chunk, "digest": digests[name, chunk]}
        connection.execute(sa.text("INSERT INTO observal_digest VALUES (:name, :chunk, :digest)"), row)
    entries = connection.execute(sa.text("SELECT * FROM observal_journal ORDER BY sequence")).all()
    if not entries:
        return
    last = START
    for sequence, time, actor, kind, payload, _ in entries:
        last = entry_digest(last, sequence, time, actor, kind, payload)
        row = {"digest": last, "sequence": sequence}
        connection.execute(sa.text("UPDATE observal_journal SET digest = :digest WHERE sequence = :sequence"), row)
    upgraded = {
        "sequence": entries[-1].sequence + 1,
        "time": datetime.now(UTC).isoformat(timespec="microseconds"),
        "actor": "observal",
        "kind": "upgraded",
        "payload": json.dumps({"schema": revision, "data": data_digest(digests)}),
    }
    upgraded["digest"] = entry_digest(last, **upgraded)
    insert = "INSERT INTO observal_journal VALUES (:sequence, :time, :actor, :kind, :payload, :digest)"
    connection.execute(sa.text(insert), upgraded)
    connection.execute(sa.text("INSERT INTO observal_head VALUES (:sequence, :digest)"), upgraded)

"""The first schema: a journal of events and the data, both of which can only grow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

GROWING = ("observal_journal", "observal_data")


def upgrade() -> None:
    """Make both tables, and have the database itself refuse to change or remove their rows."""
    op.create_table(
        "observal_journal",
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
    op.create_table(
        "observal_data",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_row", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    if op.get_bind().dialect.name == "sqlite":
        guard_sqlite(*GROWING)
    else:
        op.execute(
            "CREATE FUNCTION observal_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% can only grow', TG_TABLE_NAME; END $$"
        )
        guard_postgresql(*GROWING)


def guard_sqlite(*tables: str) -> None:
    """Have SQLite refuse to change or remove rows of these tables."""
    for table in tables:
        for change in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} can only grow'); END"
            )


def guard_postgresql(*tables: str) -> None:
    """Have PostgreSQL refuse to change or remove rows of these tables."""
    for table in tables:
        op.execute(
            f"CREATE TRIGGER {table}_can_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION observal_refuse_change()"
        )

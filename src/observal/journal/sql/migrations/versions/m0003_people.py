"""What the labelling page needs: people, hashes of their tokens, leases on rows, and replies to requests sent twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make four empty tables. Unlike the journal they may change: nothing of a result depends on them."""
    op.create_table(
        "observal_person",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("added", sa.Text, nullable=False),
        sa.Column("revoked", sa.Text),
    )
    op.create_table(
        "observal_token",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("until", sa.Text, nullable=False),
    )
    op.create_table(
        "observal_lease",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("until", sa.Text, nullable=False),
    )
    op.create_table(
        "observal_reply",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )

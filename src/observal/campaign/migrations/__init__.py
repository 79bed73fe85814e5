"""The schema's history: one file per revision, run by Alembic in order, never changed once released."""

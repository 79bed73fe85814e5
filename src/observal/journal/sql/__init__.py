"""A journal in SQLite or PostgreSQL, with the data it is about."""

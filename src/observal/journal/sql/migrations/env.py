"""How Alembic runs the migrations: on the connection, and within the transaction, that :func:`migrate` hands in."""

from alembic import context

from observal.journal.sql.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()

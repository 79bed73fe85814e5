"""Leases (until when people keep the rows they hold) and replies to requests that may be sent twice; stored together with answers."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from observal.errors import ConflictingAnswer
from observal.journal.sql.people import stamp
from observal.journal.sql.schema import lease, reply
from observal.journal.sql.transaction import Transaction


def renew(transaction: Transaction, name: str, time: timedelta) -> None:
    """Let somebody keep the rows they hold for this long from now."""
    until = stamp(time)
    changed = transaction.execute(sa.update(lease).where(lease.c.name == name).values(until=until))
    if not changed.rowcount:
        transaction.execute(sa.insert(lease), {"name": name, "until": until})


def ran_out(transaction: Transaction, but: str) -> list[str]:
    """Return the people whose lease has run out, except one. Those who never used the page have no lease, and keep their rows."""
    query = sa.select(lease.c.name).where(lease.c.until < stamp(), lease.c.name != but).order_by(lease.c.name)
    return list(transaction.execute(query).scalars())


def recall(transaction: Transaction, name: str, key: str, request: Any) -> dict[str, Any] | None:
    """Return the reply to a request that was handled before; None for a new key."""
    row = transaction.execute(sa.select(reply).where(reply.c.name == name, reply.c.key == key)).one_or_none()
    if row is None:
        return None
    if row.request != _digest(request):
        raise ConflictingAnswer(f"The key {key!r} was used for another request and nothing was stored; use a new key.")
    content: dict[str, Any] = json.loads(row.content)
    return content


def remember(transaction: Transaction, name: str, key: str, request: Any, content: dict[str, Any]) -> None:
    """Store the reply to a request, in the same transaction as what it changed."""
    row = {"name": name, "key": key, "request": _digest(request), "content": json.dumps(content)}
    transaction.execute(sa.insert(reply), row)


def _digest(request: Any) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

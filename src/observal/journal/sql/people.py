"""The people of a campaign: who may sign in to the labelling page, as what, and the hashes of their tokens.

A link's token can be used once, and is swapped for a cookie's. Neither is stored: only its hash is.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from observal.errors import ConflictingAnswer, InvalidInput
from observal.journal.settings import ANYONE, check_annotator
from observal.journal.sql.connection import StoreConnection
from observal.journal.sql.schema import lease, person, reply, token

Role = Literal["owner", "annotator"]
ROLES = ("owner", "annotator")
_DAYS = {"link": 7, "cookie": 30}
_WHOSE = (
    sa.select(person)
    .join(token, token.c.name == person.c.name)
    .where(
        token.c.hash == sa.bindparam("secret"),
        token.c.kind == sa.bindparam("kind"),
        token.c.until > sa.bindparam("now"),
        person.c.revoked.is_(None),
    )
)


@dataclass(frozen=True)
class Person:
    """Somebody who may sign in, and when they were added or revoked."""

    name: str
    role: Role
    added: str = ""
    revoked: str | None = None


def now() -> datetime:
    """Return the time; tests replace it."""
    return datetime.now(UTC)


def stamp(later: timedelta = timedelta(0)) -> str:
    """Return the time, or a later one, as text that sorts by time."""
    return (now() + later).isoformat(timespec="microseconds")


def add_person(transaction: StoreConnection, name: str, role: Role | None = None) -> str:
    """Add somebody, or let them in again, and return a token for a link; without a role they keep theirs."""
    check_annotator(name, 1)
    if name == ANYONE:
        raise InvalidInput(f"{ANYONE!r} stands for people without a name; give a name.")
    if role not in (*ROLES, None):
        raise InvalidInput(f"A role is owner or annotator, but {role!r} was given; name one of the two.")
    known = _find(transaction, name)
    kept = role or (known.role if known else "annotator")
    transaction.execute(sa.delete(person).where(person.c.name == name))
    added = known.added if known else stamp()
    transaction.execute(sa.insert(person), {"name": name, "role": kept, "added": added, "revoked": None})
    return _new_token(transaction, name, "link")


def revoke_person(transaction: StoreConnection, name: str) -> None:
    """Sign somebody out everywhere, for good; what they answered stays."""
    known = _find(transaction, name)
    if known is None or known.revoked:
        raise InvalidInput(f"{name!r} is not among the people of this campaign; see `observal annotator list`.")
    transaction.execute(sa.update(person).where(person.c.name == name).values(revoked=stamp()))
    transaction.execute(sa.delete(token).where(token.c.name == name))


def list_people(transaction: StoreConnection) -> list[Person]:
    """Return everybody who was ever added, in that order."""
    rows = transaction.execute(sa.select(person).order_by(person.c.added, person.c.name))
    return [Person(row.name, row.role, row.added, row.revoked) for row in rows]


def sign_in(transaction: StoreConnection, link: str) -> str | None:
    """Swap a link's token for a cookie's; None if it is wrong, was used before, or is too old."""
    found = who(transaction, link, "link")
    if found is None:
        return None
    transaction.execute(sa.delete(token).where(token.c.hash == _hash(link)))
    transaction.execute(sa.delete(token).where(token.c.until < stamp()))
    return _new_token(transaction, found.name, "cookie")


def who(transaction: StoreConnection, secret: str, kind: str = "cookie") -> Person | None:
    """Return whose token it is; None if it is nobody's, too old or revoked."""
    # One query that is compiled once: it comes before every request.
    row = transaction.execute(_WHOSE, {"secret": _hash(secret), "kind": kind, "now": stamp()}).one_or_none()
    return None if row is None else Person(row.name, row.role, row.added, row.revoked)


def _find(transaction: StoreConnection, name: str) -> Person | None:
    row = transaction.execute(sa.select(person).where(person.c.name == name)).one_or_none()
    return None if row is None else Person(row.name, row.role, row.added, row.revoked)


def _new_token(transaction: StoreConnection, name: str, kind: str) -> str:
    secret = secrets.token_urlsafe(32)
    until = stamp(timedelta(days=_DAYS[kind]))
    transaction.execute(sa.insert(token), {"hash": _hash(secret), "name": name, "kind": kind, "until": until})
    return secret


def _hash(secret: str) -> str:
    # Tokens have 256 random bits, so a plain hash cannot be searched through.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


# -- leases and replies, stored together with answers -------------------------------------------------------------


def renew(transaction: StoreConnection, name: str, time: timedelta) -> None:
    """Let somebody keep the rows they hold for this long from now."""
    until = stamp(time)
    changed = transaction.execute(sa.update(lease).where(lease.c.name == name).values(until=until))
    if not changed.rowcount:
        transaction.execute(sa.insert(lease), {"name": name, "until": until})


def ran_out(transaction: StoreConnection, but: str) -> list[str]:
    """Return the people whose lease has run out, except one. Those who never used the page have no lease, and keep their rows."""
    query = sa.select(lease.c.name).where(lease.c.until < stamp(), lease.c.name != but).order_by(lease.c.name)
    return list(transaction.execute(query).scalars())


def recall(transaction: StoreConnection, name: str, key: str, request: Any) -> dict[str, Any] | None:
    """Return the reply to a request that was handled before; None for a new key."""
    row = transaction.execute(sa.select(reply).where(reply.c.name == name, reply.c.key == key)).one_or_none()
    if row is None:
        return None
    if row.request != _digest(request):
        raise ConflictingAnswer(f"The key {key!r} was used for another request and nothing was stored; use a new key.")
    content: dict[str, Any] = json.loads(row.content)
    return content


def remember(transaction: StoreConnection, name: str, key: str, request: Any, content: Mapping[str, object]) -> None:
    """Store the reply to a request, in the same transaction as what it changed."""
    row = {"name": name, "key": key, "request": _digest(request), "content": json.dumps(content)}
    transaction.execute(sa.insert(reply), row)


def _digest(request: Any) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

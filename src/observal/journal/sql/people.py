"""The people of a campaign: who may sign in to the labelling page, their leases, and replies sent to them.

A link's token can be used once, and is swapped for a cookie's. Only their hashes are stored.
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
    """A person who may sign in, and when they were added or revoked."""

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


def add_person(connection: StoreConnection, name: str, role: Role | None = None) -> str:
    """Add a person, or let them in again, and return a link token; without a role they keep theirs."""
    check_annotator(name, 1)
    if name == ANYONE:
        raise InvalidInput(f"{ANYONE!r} stands for people without a name; choose another name.")
    if role not in (*ROLES, None):
        raise InvalidInput(f"A role is owner or annotator, but {role!r} was given; name one of the two.")
    previous = _find_by_name(connection, name)
    new_role = role or (previous.role if previous else "annotator")
    connection.execute(sa.delete(person).where(person.c.name == name))
    added = previous.added if previous else stamp()
    connection.execute(sa.insert(person), {"name": name, "role": new_role, "added": added, "revoked": None})
    return _new_token(connection, name, "link")


def revoke_person(connection: StoreConnection, name: str) -> None:
    """Sign a person out everywhere, for good; their answers stay."""
    previous = _find_by_name(connection, name)
    if previous is None or previous.revoked:
        raise InvalidInput(f"{name!r} is not among the people of this campaign; see `observal annotator list`.")
    connection.execute(sa.update(person).where(person.c.name == name).values(revoked=stamp()))
    connection.execute(sa.delete(token).where(token.c.name == name))


def list_people(connection: StoreConnection) -> list[Person]:
    """Return all people who were ever added, in that order."""
    rows = connection.execute(sa.select(person).order_by(person.c.added, person.c.name))
    return [Person(row.name, row.role, row.added, row.revoked) for row in rows]


def sign_in(connection: StoreConnection, link: str) -> str | None:
    """Swap a link's token for a cookie's; None if it is wrong, used or expired."""
    owner = find_person(connection, link, "link")
    if owner is None:
        return None
    connection.execute(sa.delete(token).where(token.c.hash == _hash(link)))
    connection.execute(sa.delete(token).where(token.c.until < stamp()))
    return _new_token(connection, owner.name, "cookie")


def find_person(connection: StoreConnection, secret: str, kind: str = "cookie") -> Person | None:
    """Return the person with this token; None if it is unknown, expired or revoked."""
    # One precompiled query: it runs before every request.
    row = connection.execute(_WHOSE, {"secret": _hash(secret), "kind": kind, "now": stamp()}).one_or_none()
    return None if row is None else Person(row.name, row.role, row.added, row.revoked)


def _find_by_name(connection: StoreConnection, name: str) -> Person | None:
    row = connection.execute(sa.select(person).where(person.c.name == name)).one_or_none()
    return None if row is None else Person(row.name, row.role, row.added, row.revoked)


def _new_token(connection: StoreConnection, name: str, kind: str) -> str:
    secret = secrets.token_urlsafe(32)
    until = stamp(timedelta(days=_DAYS[kind]))
    connection.execute(sa.insert(token), {"hash": _hash(secret), "name": name, "kind": kind, "until": until})
    return secret


def _hash(secret: str) -> str:
    # Tokens have 256 random bits, so a plain hash cannot be brute-forced.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


# -- leases and replies, stored together with answers -------------------------------------------------------------


def renew_lease(connection: StoreConnection, name: str, time: timedelta) -> None:
    """Let a person keep the rows they hold for this long from now."""
    until = stamp(time)
    changed = connection.execute(sa.update(lease).where(lease.c.name == name).values(until=until))
    if not changed.rowcount:
        connection.execute(sa.insert(lease), {"name": name, "until": until})


def expired_leases(connection: StoreConnection, but: str) -> list[str]:
    """Return the people whose lease has expired, except one. Those who never used the page have no lease."""
    query = sa.select(lease.c.name).where(lease.c.until < stamp(), lease.c.name != but).order_by(lease.c.name)
    return list(connection.execute(query).scalars())


def find_reply(connection: StoreConnection, name: str, key: str, request: list[object]) -> dict[str, Any] | None:
    """Return the reply to a request that was already handled; None for a new key."""
    row = connection.execute(sa.select(reply).where(reply.c.name == name, reply.c.key == key)).one_or_none()
    if row is None:
        return None
    if row.request != _digest(request):
        raise ConflictingAnswer(f"The key {key!r} was used for another request and nothing was stored; use a new key.")
    content: dict[str, Any] = json.loads(row.content)
    return content


def store_reply(
    connection: StoreConnection, name: str, key: str, request: list[object], content: Mapping[str, object]
) -> None:
    """Store the reply to a request, in the same transaction as its changes."""
    row = {"name": name, "key": key, "request": _digest(request), "content": json.dumps(content)}
    connection.execute(sa.insert(reply), row)


def _digest(request: list[object]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()

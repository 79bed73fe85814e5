"""A journal in a database: plans and methods are encoded on the way in, and checked on the way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from observal.checks import Ints
from observal.errors import NotACampaign
from observal.journal.codec import decode_method, decode_plan, decode_recorded, encode_entry
from observal.journal.events import Event, check_payload, extended, require
from observal.journal.ledger import Ledger
from observal.journal.sql.chunks import read_rows
from observal.journal.sql.connection import StoreConnection, damaged
from observal.journal.sql.in_place import ARRAYS as _IN_PLACE
from observal.journal.sql.in_place import in_place_ids, is_in_place, pool_in_place, read_in_place
from observal.journal.sql.store import Store
from observal.journal.sql.stored_problem import ROWS, read_pool_ids, read_problem
from observal.problem.column_groups import ColumnGroups
from observal.problem.problem import Problem

if TYPE_CHECKING:
    import pyarrow as pa

_ARRAYS = {"log.features", "log.codes", "log.revealed", "log.propensity", "pool.features", "pool.propensity"}
_COSTS = {"log.cost", "pool.cost"}
_ENCODED = ("plan", "method", "recorded")
_ITEM_TYPES = ("<f8", "<f4", "<i8", "|b1", "|i1")


class SqlJournal:
    """The journal of a campaign's database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.name = store.name

    @contextmanager
    def reading(self) -> Iterator[SqlTransaction]:
        """Yield a transaction that sees one state of the campaign and changes nothing."""
        with self._store.reading() as connection:
            yield SqlTransaction(connection, self.name)

    @contextmanager
    def writing(self) -> Iterator[SqlTransaction]:
        """Yield a transaction that no other writer overlaps; it is on disk when the block has ended."""
        with self._store.writing() as connection:
            yield SqlTransaction(connection, self.name)


class SqlTransaction:
    """A transaction on the journal of a database; `connection` also gives access to its other tables."""

    durable = True

    def __init__(self, connection: StoreConnection, name: str) -> None:
        self.connection = connection
        self._name = name

    def events(self, ledger: Ledger) -> list[Event]:
        """Return the events that a ledger has not followed yet; one that observal cannot have written raises NotACampaign."""
        events, settings, data = [], ledger.settings, ledger.data_digest
        for event in self.connection.events(ledger.sequence, ledger.digest):
            try:
                payload = _decoded(event.kind, event.payload)
                check_payload(event.kind, payload, settings)
                if event.kind == "extended":
                    settings = extended(settings, payload)
                    _check_stored(settings)
            except NotACampaign:
                raise
            except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise NotACampaign(
                    f"{self._name} is damaged: journal entry {event.sequence} ({event.kind!r:.40}) is not valid "
                    f"({' '.join(str(error).split())[:80]}); use an undamaged copy."
                ) from None
            if event.kind in ("created", "extended"):
                data = payload.get("data", data)
            settings = payload if event.kind == "created" else settings
            events.append(replace(event, payload=payload))
        if data != self.connection.data_digest():
            raise damaged(self._name, "chunks of its data were changed, added or removed")
        return events

    def append(self, actor: str, kind: str, payload: Mapping[str, Any]) -> Event:
        """Add an event and return it; it counts once the transaction is committed."""
        encoded = {name: encode_entry(value) if name in _ENCODED else value for name, value in payload.items()}
        return replace(self.connection.append(actor, kind, encoded), payload=payload)

    def problem(self, settings: Mapping[str, Any], with_ids: bool = True) -> Problem:
        """Return log and pool; without ids, rows are numbered, which is faster."""
        groups = ColumnGroups.from_dict(settings["column_groups"])
        if settings.get("in_place"):
            return read_in_place(self.connection, settings["arrays"], settings["classes"], settings["encoder"], groups)
        return read_problem(self.connection, settings["arrays"], settings["classes"], with_ids, groups)

    def pool_ids(self, positions: Ints) -> NDArray[Any]:
        """Return the ids of some pool rows."""
        return (in_place_ids if is_in_place(self.connection) else read_pool_ids)(self.connection, positions)

    def pool_rows(self, positions: list[int]) -> pa.Table:
        """Return some pool rows as they are in the table, as an Arrow table."""
        if is_in_place(self.connection):
            return pool_in_place(self.connection).raw_rows(positions)
        return read_rows(self.connection, ROWS, positions)


def _decoded(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored payload with its plan or method as an object."""
    if kind == "round":
        plain = all(isinstance(id_, str | int) for id_ in payload["ids"])
        require(isinstance(payload["ids"], list) and plain, "an id is neither text nor a whole number")
        recorded = decode_recorded(payload.get("recorded"))
        return {**payload, "plan": decode_plan(payload["plan"]), "recorded": recorded}
    if kind == "created":
        _check_stored(payload)
        return {**payload, "method": decode_method(payload["method"])}
    return dict(payload)


def _check_stored(settings: Mapping[str, Any]) -> None:
    """Raise ValueError if settings describe arrays or classes that observal never stores."""
    classes, forms, n_features = settings["classes"], settings["arrays"], len(settings["features"])
    require(all(isinstance(value, bool | int | float | str) for value in classes), "a class is not valid")
    expected = _IN_PLACE if settings.get("in_place") else _ARRAYS
    require(expected <= set(forms) <= expected | _COSTS, "its list of arrays is not valid")
    for name, form in forms.items():
        rows = settings["log_rows" if name.startswith("log.") else "pool_rows"]
        shape = [rows, n_features] if name.endswith(".features") else [rows]
        require(form["shape"] == shape and form["dtype"] in _ITEM_TYPES, f"its {name} is not valid")

"""The database under a campaign: it only grows, and holds all or nothing of a command."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from observal.campaign import Campaign
from observal.errors import CampaignUnavailable, InvalidInput, NotACampaign
from observal.journal.codec import decode, decode_entry, encode_entry
from observal.journal.ledger import Ledger
from observal.journal.sql.chunks import read_array, read_rows, read_whole_table, write_array, write_table
from observal.journal.sql.store import create_store, open_store
from observal.problem.arrow_stream import Budget
from observal.problem.plan import ASKED, Plan
from tests.campaigns import make_campaign, truth_of
from tests.postgres import postgres  # noqa: F401  a fixture

PLACES = pytest.mark.parametrize("place", ["sqlite", "postgresql"])


def address(place, tmp_path, request):
    return str(tmp_path / "c.db") if place == "sqlite" else request.getfixturevalue("postgres")()


def engine_of(where):
    return sa.create_engine(
        where.replace("postgresql:", "postgresql+psycopg:") if ":" in where else f"sqlite:///{where}"
    )


@PLACES
def test_changing_or_removing_stored_rows_raises(tmp_path, request, place):
    where = address(place, tmp_path, request)
    make_campaign(where)
    for table, column in (("observal_journal", "kind"), ("observal_data", "name")):
        changes = [f"DELETE FROM {table}", f"UPDATE {table} SET {column} = 'x'"]
        for change in changes + ([f"TRUNCATE {table}"] if place == "postgresql" else []):
            with pytest.raises(sa.exc.DBAPIError, match="can only grow"), engine_of(where).begin() as connection:
                connection.execute(sa.text(change))
    assert Campaign.open(where).status().labels == 0


@PLACES
def test_reader_sees_one_state_while_others_write(tmp_path, request, place):
    """The end of the journal is checked in a second statement: an entry in between is no damage."""
    where = address(place, tmp_path, request)
    make_campaign(where)
    with open_store(where).reading() as transaction:
        before = transaction.events()
        Campaign.open(where).ask()
        assert [event.sequence for event in transaction.events()] == [event.sequence for event in before]
    with open_store(where).reading() as transaction:
        assert len(transaction.events()) > len(before)


@PLACES
def test_campaign_of_another_schema_gets_one_sentence(tmp_path, request, place):
    where = address(place, tmp_path, request)
    make_campaign(where)
    with engine_of(where).begin() as connection:
        connection.execute(sa.text("UPDATE observal_version SET version_num = '0003'"))
    with pytest.raises(
        NotACampaign, match=r"another version of observal \(schema 0003; this one reads 2\); open it with"
    ):
        Campaign.open(where)


def test_event_of_newer_version_raises(tmp_path):
    campaign = make_campaign(tmp_path / "c.db")
    with campaign.engine.writing() as transaction:
        transaction.append("ann", "levitated", {})
    with pytest.raises(NotACampaign, match=r"'levitated'.*update observal"):
        Campaign.open(tmp_path / "c.db").status()


def test_state_follows_from_journal_alone(tmp_path):
    """A campaign object that lived through everything and one that reads the journal afterwards are in the same state."""
    campaign = make_campaign(tmp_path / "c.db", overlap=2, label_budget=20)
    rng = np.random.default_rng(0)
    people = ["ann", "bob", "cleo", "dan", "eve"]
    for turn in range(60):
        name = people[rng.integers(5)]
        batch = campaign.ask(int(rng.integers(1, 6)), name)
        if turn % 5 == 4:
            campaign.release(name)
        answers = [None if rng.random() < 0.1 else truth_of(i) if rng.random() < 0.8 else "good" for i in batch.ids]
        campaign.tell(batch.ids, answers, name)
        if batch and turn % 3 == 0:
            campaign.tell(batch.ids[:1], ["bad" if answers[0] == "good" else "good"], name, correct=True)
    rebuilt = Ledger()
    with campaign.engine.reading() as transaction:
        events = transaction.events(rebuilt)
    rebuilt.follow(events)
    lived = vars(campaign.engine.ledger)
    for name, value in vars(rebuilt).items():
        if name not in ("plans", "_settings"):
            assert value == lived[name], name
    assert [encode_entry(p) for p in rebuilt.plans] == [encode_entry(p) for p in campaign.engine.ledger.plans]
    assert campaign.status() == Campaign.open(tmp_path / "c.db").status()
    assert {"corrected", "released"} <= {event.kind for event in events}


@PLACES
def test_failing_command_stores_nothing(tmp_path, request, place, monkeypatch):
    campaign = make_campaign(address(place, tmp_path, request))
    ids = campaign.ask(3).ids
    before = campaign.history()

    def break_off(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("observal.journal.sql.stored_problem.read_rows", break_off)
    with pytest.raises(KeyboardInterrupt):
        campaign.ask(5)
    monkeypatch.undo()
    assert campaign.history() == before
    assert campaign.ask(3).ids == ids


def test_interrupted_init_leaves_no_file(tmp_path):
    def fill(transaction):
        transaction.append("observal", "created", {})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_store(tmp_path / "c.db", fill)
    assert list(tmp_path.iterdir()) == []


def test_sqlite_settings_make_labels_durable(tmp_path):
    campaign = make_campaign(tmp_path / "c.db")
    with campaign.engine.writing() as transaction:
        pragma = transaction.connection.database.exec_driver_sql
        assert pragma("PRAGMA journal_mode").scalar() == "wal"
        assert pragma("PRAGMA synchronous").scalar() == 2  # FULL
        assert pragma("PRAGMA busy_timeout").scalar() >= 60_000
        other = sqlite3.connect(tmp_path / "c.db", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c.db"]  # nothing beside it when no one uses it


def test_refusing_database_raises(tmp_path, request):
    campaign = make_campaign(tmp_path / "c.db")
    with sqlite3.connect(tmp_path / "c.db") as connection:
        connection.execute("DROP TABLE observal_data")
    with pytest.raises(CampaignUnavailable, match=r"failed \(no such table"):
        campaign.ask(3)
    with pytest.raises(CampaignUnavailable, match=r"postgresql://\*\*\*@127\.0\.0\.1:1/none"):
        Campaign.open("postgresql://someone:secret@127.0.0.1:1/none")


@pytest.mark.parametrize("address", ["u:secret@h:x/n", "u:secret@[::1/n", "u:secret@h/n?port=x"])
def test_address_with_a_bad_port_raises_one_sentence(address):
    with pytest.raises(InvalidInput, match=r"^The address of the database could not be read; write .*/name\.$"):
        Campaign.open(f"postgresql://{address}")


class Memory:
    """Stands in for a transaction: pieces in a dictionary."""

    def __init__(self):
        self.budget = Budget()
        self.chunks = {}

    def write_chunk(self, name, chunk, first_row, content):
        self.chunks[name, chunk] = (first_row, content)

    def first_rows(self, name):
        return [first for (owner, _), (first, _) in sorted(self.chunks.items()) if owner == name]

    def read_chunk(self, name, chunk):
        return self.chunks[name, chunk][1]


@given(st.integers(0, 50), st.integers(0, 4), st.integers(1, 200))
def test_arrays_survive_chunking(rows, columns, most_bytes):
    array = np.random.default_rng(rows).normal(size=(rows, columns))
    memory = Memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("observal.journal.sql.chunks.MAX_BYTES", most_bytes)
        form = write_array(memory, "x", array)
    assert np.array_equal(read_array(memory, "x", form), array)
    assert all(len(content) <= max(most_bytes, 8 * columns) for _, content in memory.chunks.values())


ODD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    127.0,
    128.0,
    40_000.0,
    0.5,
    0.1,
    1e300,
    -1e300,
    float("nan"),
    float("inf"),
    2.0**31,
    2.0**53,
]


@given(
    st.lists(st.tuples(st.sampled_from(ODD), st.sampled_from([0.0, 1.0])), min_size=1, max_size=40), st.integers(1, 99)
)
def test_packed_arrays_are_restored_exactly(rows, most_bytes):
    array, memory = np.array(rows), Memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("observal.journal.sql.chunks.MAX_BYTES", most_bytes)
        patch.setattr("observal.journal.sql.chunks.WORTH_PACKING", float("inf"))
        form = write_array(memory, "x", array)
    assert form.packed
    assert read_array(memory, "x", form).tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", [bool, np.int64, np.float64])
def test_categories_are_stored_compactly(kind):
    array, memory = (np.random.default_rng(0).random((20_000, 20)) < 0.1).astype(kind), Memory()
    form = write_array(memory, "x", array)
    back = read_array(memory, "x", form)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert sum(len(content) for _, content in memory.chunks.values()) < array.size / 4


def test_packed_array_of_another_size_raises():
    memory = Memory()
    form = write_array(memory, "x", np.zeros((5000, 3)))
    assert form.packed
    with pytest.raises(NotACampaign, match="does not have the recorded size"):
        read_array(memory, "x", replace(form, shape=(5000, 4)))


@given(st.lists(st.text(max_size=30) | st.none(), min_size=1, max_size=60), st.data())
def test_rows_of_table_are_read_in_given_order(texts, draw):
    table = pa.table({"text": pa.array(texts, pa.string()), "number": pa.array(range(len(texts)))})
    table = table.append_column("kind", pa.array(texts, pa.string()).dictionary_encode())
    memory = Memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("observal.journal.sql.chunks.TABLE_BYTES", 64)
        write_table(memory, "t", table)
    positions = draw.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8))
    rows = read_rows(memory, "t", positions)
    assert rows.column("number").to_pylist() == positions
    assert rows.column("kind").to_pylist() == [texts[p] for p in positions]
    assert read_whole_table(memory, "t").column("text").to_pylist() == texts


def test_plan_survives_json():
    import json

    plan = Plan(
        np.array([4, 1, 9]),
        np.array([0.1, 1 / 3, 1.0]),
        np.array([ASKED, 1, 2], dtype=np.int8),
        np.array([0, 1, 0]),
        np.array([0, 1, 0], dtype=np.int8),
        ("one", "zwölf"),
        True,
    )
    copy = decode_entry("plan", json.loads(json.dumps(encode_entry(plan))))
    for name, value in vars(plan).items():
        assert np.array_equal(value, getattr(copy, name)), name
        assert getattr(value, "dtype", None) == getattr(copy.__dict__[name], "dtype", None)


def test_method_with_unknown_class_or_setting_is_refused():
    import observal as ob

    recorded = encode_entry(ob.NewtonVC(batch=3))
    assert decode(recorded) == ob.NewtonVC(batch=3)
    recorded["fields"]["magic"] = 7
    with pytest.raises(InvalidInput, match=r"setting 'magic' of NewtonVC.*use the version that wrote it"):
        decode(recorded)
    with pytest.raises(NotACampaign, match="use the version that wrote it"):
        decode_entry("settings", {"type": "observal.methods:Levitation", "fields": {}})
    with pytest.raises(NotACampaign, match="does not have"):
        decode_entry("settings", {"type": "os:system", "fields": {}})
    with pytest.raises(InvalidInput, match="can store numbers, text"):
        encode_entry(ob.ExactDBAL(ob.FiniteClass.from_callables([len, len]), gamma=0.1))


def test_opening_campaign_writes_nothing(tmp_path):
    make_campaign(tmp_path / "c.db")
    before = (tmp_path / "c.db").read_bytes()
    open_store(tmp_path / "c.db")
    assert (tmp_path / "c.db").read_bytes() == before

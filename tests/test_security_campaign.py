"""Campaigns that were damaged or forged: one sentence, no traceback, and no altered answer is believed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from observal.campaign import Campaign
from observal.errors import CampaignUnavailable, NotACampaign, ObservalError
from observal.journal.sql.integrity import START, chunk_digest, data_digest, entry_digest
from observal.journal.sql.store import open_store
from observal.journal.sql.stored_problem import read_pool_rows, read_problem
from observal.problem.arrow_stream import Budget, pack_table
from tests.campaigns import N, make_campaign, truth_of
from tests.command import observal
from tests.hostile import (
    EDGES,
    assert_cheaply_refused,
    little_memory,
    mutated_array,
    mutated_bytes,
    mutated_json,
)
from tests.postgres import postgres  # noqa: F401  a fixture
from tests.test_campaign_store import PLACES, address, engine_of

MANY = int(os.environ.get("OBSERVAL_FUZZ", "2000"))
GUARDS = [
    f"DROP TRIGGER IF EXISTS {table}_no_{change}"
    for table in ("observal_journal", "observal_data", "observal_digest")
    for change in ("update", "delete")
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A campaign with a closed and an open round, a correction and a skip."""
    where = tmp_path_factory.mktemp("sound") / "c.db"
    campaign = make_campaign(where)
    first = campaign.ask()
    campaign.tell(first.ids, [truth_of(i) for i in first.ids])
    campaign.tell(first.ids[:1], ["bad" if truth_of(first.ids[0]) == "good" else "good"], correct=True)
    second = campaign.ask(6)
    campaign.tell(second.ids[:3], [truth_of(second.ids[0]), "skip", truth_of(second.ids[2])])
    return where


@pytest.fixture
def copy(sound, tmp_path):
    """A copy of the sound campaign that may be broken."""
    return Path(shutil.copy(sound, tmp_path / "c.db"))


@contextmanager
def unguarded(where):
    """Yield a connection without the triggers that refuse changes; they are made again, as a careful forger would."""
    with sqlite3.connect(where) as connection:
        triggers = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for guard in GUARDS:
            connection.execute(guard)
        yield connection
        for (trigger,) in triggers:
            with suppress(sqlite3.OperationalError):  # its table was dropped
                connection.execute(trigger)
    connection.close()


def execute(where, *statements):
    with unguarded(where) as connection:
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)


def use(where):
    """Do what every command does, on a copy, and return what was seen; the first refusal ends it."""
    seen = {}
    for name, step in STEPS.items():
        seen[name] = step(where)
    return seen


def _ask(where):
    batch = Campaign.open(where).ask(6)
    return batch.ids, batch.reason, batch.query_probability, batch.rows.to_pylist()


def _tell(where):
    campaign = Campaign.open(where)
    batch = campaign.ask(2)
    return str(campaign.tell(batch.ids, [truth_of(i) for i in batch.ids]))


STEPS = {
    "status": lambda where: Campaign.open(where).status().to_dict(),
    "history": lambda where: [(e.kind, e.actor, e.time, dict(e.details)) for e in Campaign.open(where).history()],
    "check": lambda where: Campaign.open(where).check(),
    "result": lambda where: Campaign.open(where).result().estimator.predict(np.eye(2)).tolist(),
    "ask": _ask,
    "tell": _tell,
}

CHANGED = {
    "an answer": "UPDATE observal_journal SET payload = replace(payload, ', 1]', ', 0]') WHERE kind = 'answered'",
    "who answered": "UPDATE observal_journal SET actor = 'mallory' WHERE sequence = 4",
    "when": "UPDATE observal_journal SET time = '2020' WHERE sequence = 3",
    "the kind of an entry": "UPDATE observal_journal SET kind = 'answered' WHERE kind = 'corrected'",
    "an entry removed": "DELETE FROM observal_journal WHERE sequence = 3",
    "the last entry removed": "DELETE FROM observal_journal WHERE sequence = (SELECT max(sequence) FROM observal_journal)",
    "all entries removed": "DELETE FROM observal_journal",
    "the first entry removed": "DELETE FROM observal_journal WHERE sequence = 1",
    "an entry added": "INSERT INTO observal_journal SELECT sequence + 1, time, actor, kind, payload, digest FROM observal_journal ORDER BY sequence DESC LIMIT 1",
    "the order turned round": "UPDATE observal_journal SET sequence = 100 - sequence",
    "an empty payload": "UPDATE observal_journal SET payload = '' WHERE sequence = 2",
    "no JSON": "UPDATE observal_journal SET payload = '{' WHERE sequence = 1",
    "a number for a payload": "UPDATE observal_journal SET payload = 7 WHERE sequence = 1",
    "bytes for a payload": "UPDATE observal_journal SET payload = x'00ff' WHERE sequence = 2",
    "bytes for an actor": "UPDATE observal_journal SET actor = x'ff' WHERE sequence = 2",
    "no digest": "UPDATE observal_journal SET digest = '' WHERE sequence = 2",
    "no note of the end": "DELETE FROM observal_head",
    "two notes of the end": "INSERT INTO observal_head VALUES (99, 'x')",
    "another note of the end": "UPDATE observal_head SET sequence = 3",
    "a wrong type at the end": "UPDATE observal_head SET digest = x'00'",
    "no digests of data": "DELETE FROM observal_digest",
    "another digest of data": "UPDATE observal_digest SET digest = 'x' WHERE name = 'pool.features'",
    "a chunk too many": "INSERT INTO observal_digest VALUES ('pool.extra', 0, 'x')",
    "no such table": "DROP TABLE observal_head",
    "no journal": "DROP TABLE observal_journal",
    "no version": "DELETE FROM observal_version",
    "another version": "UPDATE observal_version SET version_num = '0001'",
}


@pytest.mark.parametrize("what", CHANGED)
def test_changed_journal_or_digest_is_refused_by_every_command(copy, what):
    execute(copy, CHANGED[what])
    before = copy.read_bytes()
    for name, step in STEPS.items():
        with pytest.raises((NotACampaign, CampaignUnavailable)) as refused:
            step(copy)
        assert_sentence(str(refused.value), name)
    assert copy.read_bytes() == before


CHANGED_DATA = {
    "a feature": "UPDATE observal_data SET content = zeroblob(length(content)) WHERE name = 'pool.features'",
    "a label of the log": "UPDATE observal_data SET content = zeroblob(length(content)) WHERE name = 'log.codes'",
    "a shorter column": "UPDATE observal_data SET content = x'00' WHERE name = 'log.propensity'",
    "another first row": "UPDATE observal_data SET first_row = 7 WHERE name = 'pool.propensity'",
    "no column": "DELETE FROM observal_data WHERE name = 'pool.features'",
    "text for bytes": "UPDATE observal_data SET content = 'x' WHERE name = 'pool.features'",
    "a chunk too many": "INSERT INTO observal_data VALUES ('pool.features', 1, 5, x'00')",
}


@pytest.mark.parametrize("what", CHANGED_DATA)
def test_changed_data_are_refused_by_every_command_that_reads_them(copy, what):
    execute(copy, CHANGED_DATA[what])
    for name in ("check", "result"):
        with pytest.raises(NotACampaign, match="is damaged") as refused:
            STEPS[name](copy)
        assert_sentence(str(refused.value), name)


def test_changed_rows_are_not_shown(copy):
    execute(copy, "UPDATE observal_data SET content = zeroblob(length(content)) WHERE name = 'pool.rows'")
    for name in ("check", "ask"):
        with pytest.raises(NotACampaign, match=r"is damaged: chunk 0 of its pool\.rows was changed"):
            STEPS[name](copy)


@PLACES
def test_changed_answer_is_refused_in_both_databases(tmp_path, request, place):
    where = address(place, tmp_path, request)
    campaign = make_campaign(where)
    batch = campaign.ask(4)
    campaign.tell(batch.ids, [truth_of(i) for i in batch.ids])
    assert campaign.check() == Campaign.open(where).check()
    if place == "sqlite":
        execute(where, CHANGED["who answered"])
    else:
        with engine_of(where).begin() as connection:
            connection.exec_driver_sql("DROP TRIGGER observal_journal_can_only_grow ON observal_journal")
            connection.exec_driver_sql(CHANGED["who answered"])
    with pytest.raises(NotACampaign, match="journal entry 4 was changed"):
        Campaign.open(where).status()


ENDLESS = "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT"
FOREIGN_SCHEMA = {
    "a view for a table": (
        "DROP TABLE observal_head",
        f"CREATE VIEW observal_head AS {ENDLESS} x AS sequence, 'x' AS digest FROM a",
    ),
    "a view for the version": (
        "DROP TABLE observal_version",
        f"CREATE VIEW observal_version AS {ENDLESS} max(x) AS version_num FROM a",
    ),
    "a trigger": ("CREATE TRIGGER mine AFTER INSERT ON observal_journal BEGIN DELETE FROM observal_person; END",),
    "a further view": (f"CREATE VIEW mine AS {ENDLESS} x FROM a",),
    "a further table": ("CREATE TABLE mine (x)",),
    "a further index": ("CREATE INDEX mine ON observal_journal (actor)",),
    "a further column": ("ALTER TABLE observal_journal ADD COLUMN mine",),
    "a trigger less": ("DROP TRIGGER observal_journal_no_update",),
    "a trigger that does nothing": (
        "DROP TRIGGER observal_journal_no_update",
        "CREATE TRIGGER observal_journal_no_update BEFORE UPDATE ON observal_journal BEGIN SELECT 1; END",
    ),
    "a constraint": (
        "DROP TABLE observal_lease",
        "CREATE TABLE observal_lease (name TEXT NOT NULL, until TEXT NOT NULL CHECK (length(until) > 1), PRIMARY KEY (name))",
    ),
}


@pytest.mark.parametrize("what", FOREIGN_SCHEMA)
def test_a_schema_other_than_ours_is_refused_by_every_command(copy, what):
    with sqlite3.connect(copy) as connection:
        for statement in FOREIGN_SCHEMA[what]:
            connection.execute(statement)
    connection.close()
    for name, step in STEPS.items():
        with pytest.raises(NotACampaign, match="of its database is not as observal made it") as refused:
            step(copy)
        assert_sentence(str(refused.value), name)


def test_a_schema_other_than_ours_is_refused_at_once(copy):
    with sqlite3.connect(copy) as connection:
        for statement in FOREIGN_SCHEMA["a view for a table"]:
            connection.execute(statement)
    connection.close()
    assert_cheaply_refused(copy, "Campaign.open(path).status()", "not as observal made it")


def test_a_query_that_does_not_end_is_stopped(copy, monkeypatch):
    monkeypatch.setattr("observal.journal.sql.store.MAX_STEPS", 5)
    store = open_store(copy)
    for transaction in (store.reading, store.writing):
        with pytest.raises(NotACampaign, match="reading it never finishes"), transaction() as connection:
            connection.database.exec_driver_sql(f"{ENDLESS} max(x) FROM a")


def test_reading_cannot_write_and_trusts_no_schema(copy):
    store = open_store(copy, keep=True)
    for _ in range(2):  # a connection that wrote is used again to read
        with store.writing() as connection:
            connection.append("ann", "released", {"rows": []})
            assert connection.database.exec_driver_sql("PRAGMA trusted_schema").scalar() == 0
        with pytest.raises(CampaignUnavailable, match="readonly"), store.reading() as connection:
            connection.append("ann", "released", {"rows": []})
    store.close()


def test_pages_that_repeat_rows_for_ever_are_refused(copy):
    """The root of a table becomes a page of references to one leaf, six levels deep: billions of rows in a few pages."""
    with sqlite3.connect(copy) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        roots = [
            row[0]
            for row in connection.execute(
                "SELECT rootpage FROM sqlite_master WHERE name IN ('observal_digest', 'observal_journal')"
            )
        ]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    content = bytearray(copy.read_bytes())
    for root in roots:
        page = bytes(content[(root - 1) * size : root * size])
        for _ in range(6):
            content += page
            page = interior_page(len(content) // size, size)
        content[(root - 1) * size : root * size] = page
    content[28:32] = (len(content) // size).to_bytes(4, "big")
    copy.write_bytes(content)
    assert_cheaply_refused(copy, "Campaign.open(path).status()", "damaged")


def interior_page(child, size, cells=100):
    """Return an interior page of a table all of whose cells point to one child."""
    places = [size - 5 * (k + 1) for k in range(cells)]
    page = bytearray(size)
    page[:12] = struct.pack(">BHHHBI", 5, 0, cells, places[-1], 0, child)
    for k, place in enumerate(places):
        page[12 + 2 * k : 14 + 2 * k] = struct.pack(">H", place)
        page[place : place + 5] = struct.pack(">IB", child, 1 + k)
    return bytes(page)


def set_fields(**changes):
    """Return a change of the settings in the journal's first entry."""
    return 1, lambda p: p | {"settings": {"type": "Settings", "fields": {**p["settings"]["fields"], **changes}}}


def set_array(**changes):
    """Return a change of how the pool's features are said to be stored."""

    def change(payload):
        payload["settings"]["fields"]["arrays"]["dict"]["pool.features"]["fields"].update(changes)
        return payload

    return 1, change


def set_rows(number):
    """Return a change of the number of pool rows, and of all that follows from it."""

    def change(payload):
        fields = payload["settings"]["fields"]
        fields["pool_rows"] = number
        for name, array in fields["arrays"]["dict"].items():
            if name.startswith("pool."):
                array["fields"]["shape"]["tuple"][0] = number
        return payload

    return 1, change


FORGED = {
    "no settings": (1, lambda p: {}),
    "settings without fields": (1, lambda p: p | {"settings": {"type": "Settings", "fields": {}}}),
    "settings that are a method": (1, lambda p: p | {"settings": p["settings"]["fields"]["method"]}),
    "settings of another type": set_fields(classes=7),
    "one class": set_fields(classes={"tuple": ["good"]}),
    "two classes alike": set_fields(classes={"tuple": ["1", 1]}),
    "a class that is a list": set_fields(classes={"tuple": [{"list": ["x"]}, "y"]}),
    "no arrays": set_fields(arrays={"dict": {}}),
    "arrays that are numbers": set_fields(arrays={"dict": {"pool.features": 7}}),
    "an array of any size": set_array(shape={"tuple": [300, 10**9]}),
    "an array of objects": set_array(dtype="|O"),
    "a negative budget": set_fields(label_budget=-1),
    "an overlap that is text": set_fields(overlap="2"),
    "a setting that does not exist": set_fields(magic=7),
    "a method that is none": set_fields(method={"type": "os:system", "fields": {}}),
    "a method that ends the program": set_fields(method={"type": "observal.__main__:x", "fields": {}}),
    "a method without fields": set_fields(method={"type": "NewtonVC"}),
    "an encoder of nothing": set_fields(encoder={"encoder": {}}),
    "goals that are none": set_fields(goals={"type": "Goals", "fields": {"population": "nobody"}}),
    "a plan that is none": (2, lambda p: p | {"plan": None}),
    "a plan without columns": (2, lambda p: p | {"plan": {"type": "Plan", "fields": {}}}),
    "a plan of rows that are not there": (2, lambda p: json.loads(json.dumps(p).replace("[", "[999999, ", 1))),
    "ids missing": (2, lambda p: p | {"ids": []}),
    "ids that are lists": (2, lambda p: p | {"ids": [[1]] * len(p["ids"])}),
    "rows that are not there": (3, lambda p: {"rows": [10**9]}),
    "rows that nobody asked about": (3, lambda p: {"rows": list(range(N))}),
    "rows that are text": (3, lambda p: {"rows": ["x"]}),
    "a class that is not there": (4, lambda p: {"answers": [[p["answers"][0][0], 9]]}),
    "answers that are none": (4, lambda p: {"answers": None}),
    "a short answer": (4, lambda p: {"answers": [[]]}),
    "very deep": (4, lambda p: {"answers": json.loads("[" * 900 + "]" * 900)}),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_journal_whose_digests_fit_gets_one_sentence(copy, what):
    """Digests show damage; whoever knows the format can compute them anew. Then the content itself is checked."""
    sequence, change = FORGED[what]
    forge(copy, sequence, change)
    for name, step in STEPS.items():
        try:
            step(copy)
        except ObservalError as error:
            assert_sentence(str(error), name)
        else:
            assert name in ("status", "history"), f"{name} believed it"


def forge(where, sequence, change):
    """Change a journal entry and compute every digest anew."""
    with unguarded(where) as connection:
        rows = connection.execute("SELECT sequence, time, actor, kind, payload FROM observal_journal ORDER BY 1")
        last = START
        for row in rows.fetchall():
            payload = json.dumps(change(json.loads(row[4]))) if row[0] == sequence else row[4]
            last = entry_digest(last, *row[:4], payload)
            connection.execute(
                "UPDATE observal_journal SET payload = ?, digest = ? WHERE sequence = ?", (payload, last, row[0])
            )
        connection.execute("UPDATE observal_head SET digest = ?", (last,))


def forge_chunk(where, name, content):
    """Replace the first chunk of some data and compute every digest anew."""
    with unguarded(where) as connection:
        connection.execute("UPDATE observal_data SET content = ? WHERE name = ? AND chunk = 0", (content, name))
        digest = chunk_digest(name, 0, 0, content)
        connection.execute("UPDATE observal_digest SET digest = ? WHERE name = ? AND chunk = 0", (digest, name))
        chunks = {(n, c): d for n, c, d in connection.execute("SELECT * FROM observal_digest")}
    forge(where, 1, lambda payload: payload | {"data": data_digest(chunks)})


def bomb():
    """Return 6 GB of zeros as an Arrow stream of less than 300 kB."""
    zeros = pa.array(np.zeros(1 << 21))
    packed = pack_table(pa.table({str(k): zeros for k in range(360)}), "zstd")
    assert len(packed) < 300_000
    return packed


BOMBS = {
    "compressed rows": ("pool.rows", bomb),
    "compressed features": ("pool.features", bomb),
    "a billion nulls": ("pool.rows", lambda: pack_table(pa.table({"x": pa.nulls(10**9)}))),
    "a list of a billion nulls": (
        "pool.rows",
        lambda: pack_table(pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.nulls(10**9), 10**9)})),
    ),
}


@pytest.mark.parametrize("what", BOMBS)
def test_data_that_unpack_to_gigabytes_are_refused(copy, what):
    name, make = BOMBS[what]
    if name == "pool.features":
        forge(copy, *set_array(packed=True))
    forge_chunk(copy, name, make())
    assert_cheaply_refused(copy, "Campaign.open(path).check()", "unpacks to more than")


def test_more_data_than_the_setting_allows_is_refused(copy, monkeypatch):
    monkeypatch.setenv("OBSERVAL_UNPACKED_GB", "0.001")
    forge(copy, *set_rows(10**6))
    with pytest.raises(NotACampaign, match=r"more than 0\.001 GB; .* allow more with OBSERVAL_UNPACKED_GB"):
        Campaign.open(copy).status()
    monkeypatch.setenv("OBSERVAL_UNPACKED_GB", "much")
    with pytest.raises(ObservalError, match="must be a number of gigabytes"):
        Campaign.open(copy).status()


def test_all_tables_and_arrays_of_a_campaign_share_one_budget(copy, monkeypatch):
    everything = Budget()
    Campaign.open(copy).check()  # it is sound
    store = open_store(copy)
    monkeypatch.setattr(store, "_budget", everything)
    with store.reading() as connection:
        settings = Campaign.open(copy).settings
        read_problem(connection, settings)
        read_pool_rows(connection, [0])
        total = everything._taken
        read_problem(connection, settings)  # what is read again counts once
        assert everything._taken == total
    parts = [sum(1 for name, _ in everything._parts if name.startswith(kind)) for kind in ("log.", "pool.")]
    assert min(parts) > 0
    monkeypatch.setenv("OBSERVAL_UNPACKED_GB", str((total - 1) / 1e9))
    with open_store(copy).reading() as connection:
        read_problem(connection, settings)  # without the rows that people see it is less
        with pytest.raises(NotACampaign, match="allow more"):
            read_pool_rows(connection, [0])


def test_entry_of_many_lists_is_refused(copy):
    forge(copy, 4, lambda payload: {"answers": [[]] * 5_000_000})
    assert_cheaply_refused(copy, "Campaign.open(path).status()", "journal entry 4 was changed")


def test_pool_of_a_billion_rows_in_one_chunk_is_refused(copy):
    forge(copy, *set_rows(10**8))
    assert_cheaply_refused(copy, "Campaign.open(path).check()", "too many rows")


def test_digests_are_what_the_format_says(copy):
    """Computed from the tables alone, as another program would."""
    with sqlite3.connect(copy) as connection:
        last = START
        for row in connection.execute(
            "SELECT sequence, time, actor, kind, payload, digest FROM observal_journal ORDER BY 1"
        ):
            last = entry_digest(last, *row[:5])
            assert row[5] == last
        assert connection.execute("SELECT * FROM observal_head").fetchall() == [(row[0], last)]
        chunks = {row[:2]: chunk_digest(*row) for row in connection.execute("SELECT * FROM observal_data")}
        assert {(n, c): d for n, c, d in connection.execute("SELECT * FROM observal_digest")} == chunks
        first = json.loads(connection.execute("SELECT payload FROM observal_journal WHERE sequence = 1").fetchone()[0])
    connection.close()
    assert first["data"] == data_digest(chunks)
    assert Campaign.open(copy).check().digest == last


def flip(content, rng):
    """Return content with some bytes changed, cut, or overwritten by other parts of it."""
    content = bytearray(content)
    kind = rng.integers(4)
    if kind == 0:
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        for at in rng.integers(len(content), size=64):
            content[int(at)] = int(rng.integers(256))
    elif kind == 2:
        del content[int(rng.integers(len(content))) :]
    else:
        size = int(rng.integers(1, 4096))
        to, source = (int(rng.integers(max(1, len(content) - size))) for _ in range(2))
        content[to : to + size] = content[source : source + size]
    return bytes(content)


def fuzz(sound, tmp_path, count, seed):
    rng = np.random.default_rng(seed)
    original, where = sound.read_bytes(), tmp_path / "c.db"
    where.write_bytes(original)
    wanted = use(where)
    outcomes = {"refused": 0, "unharmed": 0}
    for number in range(count):
        for left in tmp_path.iterdir():
            left.unlink()
        where.write_bytes(flip(original, rng))
        refused = False
        for name, step in STEPS.items():
            try:
                seen = step(where)
            except ObservalError as error:
                assert_sentence(str(error), f"{name} of mutant {number}")
                refused = True
            else:
                assert seen == wanted[name], f"{name} of mutant {number} believed something else"
        assert [path.name for path in tmp_path.iterdir() if path.name.split("-")[0] != "c.db"] == []
        outcomes["refused" if refused else "unharmed"] += 1
    return outcomes


def forge_at_random(where, rng):
    """Change an entry of the journal, a chunk of data or a number of a table, and compute every digest anew."""
    with sqlite3.connect(where) as connection:
        n_entries = connection.execute("SELECT max(sequence) FROM observal_journal").fetchone()[0]
        chunks = connection.execute("SELECT name, content FROM observal_data WHERE chunk = 0 ORDER BY name").fetchall()
    connection.close()
    name, content = chunks[int(rng.integers(len(chunks)))]
    kind = rng.integers(4)
    if kind < 2:
        sequence = 1 if kind else int(rng.integers(n_entries)) + 1
        forge(where, sequence, lambda payload: json.loads(mutated_json(rng, json.dumps(payload).encode())))
    elif kind == 2:
        change = mutated_bytes if rng.integers(2) else mutated_array
        forge_chunk(where, name, change(rng, content))
    else:
        column = str(rng.choice(["first_row", "chunk", "name", "content"]))
        edge = [*EDGES[:-2], "x", b"", None][int(rng.integers(len(EDGES) + 1))]
        with suppress(sqlite3.IntegrityError):
            execute(where, (f"UPDATE observal_data SET {column} = ? WHERE name = ? AND chunk = 0", (edge, name)))


def fuzz_forged(sound, tmp_path, count, seed):
    """Return how many forged campaigns were refused; others may be believed, but nothing else happens."""
    rng = np.random.default_rng(seed)
    n_refused, where = 0, tmp_path / "c.db"
    for _ in range(count):
        for left in tmp_path.iterdir():
            left.unlink()
        shutil.copy(sound, where)
        forge_at_random(where, rng)
        refused = False
        with little_memory():
            for step in STEPS.values():
                try:
                    step(where)
                except ObservalError as error:
                    assert_sentence(str(error))
                    refused = True
        n_refused += refused
        assert [path.name for path in tmp_path.iterdir() if path.name.split("-")[0] != "c.db"] == []
    return n_refused


def test_forged_campaigns_are_refused_or_used(sound, tmp_path):
    assert 30 < fuzz_forged(sound, tmp_path, 90, seed=0) <= 90


@pytest.mark.slow
def test_two_thousand_forged_campaigns_are_refused_or_used(sound, tmp_path):
    assert 700 < fuzz_forged(sound, tmp_path, MANY, seed=1) <= MANY


def test_mutated_campaigns_are_refused_or_unharmed(sound, tmp_path):
    outcomes = fuzz(sound, tmp_path, 60, seed=0)
    assert min(outcomes.values()) > 0, outcomes


@pytest.mark.slow
def test_two_thousand_mutated_campaigns_are_refused_or_unharmed(sound, tmp_path):
    outcomes = fuzz(sound, tmp_path, MANY, seed=1)
    assert min(outcomes.values()) > 100, outcomes


def assert_sentence(text, where=""):
    assert "\n" not in text, where
    assert text.endswith("."), (where, text)
    assert "Traceback" not in text, where


def test_check_on_the_command_line(copy):
    fine = observal("check", copy)
    assert (fine.returncode, fine.stderr) == (0, "")
    assert fine.stdout.startswith("Nothing was changed: ")
    execute(copy, CHANGED_DATA["a feature"])
    broken = observal("check", copy)
    assert (broken.returncode, broken.stdout) == (1, "")
    assert broken.stderr.count("\n") == 1
    assert "chunk 0 of its pool.features was changed" in broken.stderr


@contextmanager
def without_rights(folder, *files):
    """Let this process be somebody who may read but not write a folder; root may write anywhere, so it becomes another."""
    for file in files:
        file.chmod(0o444)
    folder.chmod(0o555)
    if root := os.geteuid() == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.mark.parametrize("in_use", [False, True])
def test_campaign_that_cannot_be_written_can_be_read(sound, in_use):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        where = Path(shutil.copy(sound, folder / "c.db"))
        wanted = use(where) and {name: STEPS[name](where) for name in ("status", "history", "check")}
        other = sqlite3.connect(where)  # somebody with rights who is at work: their files lie beside the campaign
        if in_use:
            other.execute("SELECT * FROM observal_head").fetchall()
        names = sorted(path.name for path in folder.iterdir())
        assert len(names) == (3 if in_use else 1)
        with without_rights(folder, *folder.iterdir()):
            for step, seen in wanted.items():
                assert STEPS[step](where) == seen
            for step in ("ask", "tell"):
                with pytest.raises(CampaignUnavailable, match="can be read but not written"):
                    STEPS[step](where)
        assert sorted(path.name for path in folder.iterdir()) == names
        other.close()


def test_unfinished_campaign_that_cannot_be_written_is_not_read_by_half(sound):
    """After a kill the last answers may be in the -wal file alone: without it an older state would be shown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        where = Path(shutil.copy(sound, folder / "c.db"))
        (folder / "c.db-wal").write_bytes(b"not empty")
        with without_rights(folder), pytest.raises(CampaignUnavailable, match=r"copy it together with c\.db-wal"):
            STEPS["status"](where)

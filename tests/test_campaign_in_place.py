"""Campaigns whose tables stay in Parquet: the same questions as with copied tables, and damage is noticed."""

from __future__ import annotations

import datetime
import gc
import json
import os
import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace

import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import observal as ob
from observal.campaign import Campaign
from observal.errors import ClusterUnavailable, InvalidInput, InvalidLabel, PartsChanged
from observal.journal.sql import stored_problem as storing
from observal.parquet import Threads
from observal.tables import TableRoles, load_problem
from observal.tables.load_in_place import load_in_place
from tests.campaigns import group_options
from tests.clusters import without_dask
from tests.command import observal as run
from tests.command import research
from tests.serving import site
from tests.test_parts import NEWTON, labels_of, make_tables

IN_PLACE = ob.TableOptions(in_place=True)
ROLES = {"label": "y", "propensity": "q0", "id": "name"}


@pytest.fixture
def made(tmp_path):
    tables = make_tables(tmp_path)
    for name in ("log", "pool"):  # a gap, a date and a text column, as tables have
        table = pq.read_table(tmp_path / f"{name}.parquet")
        x1 = [None if k % 50 == 0 else value for k, value in enumerate(table.column("x1").to_pylist())]
        kind = ["rent" if value > 0 else "own" for value in table.column("x3").to_pylist()]
        table = table.set_column(1, "x1", [x1]).append_column("home", [kind])
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=97)
    return tmp_path, tables


def create(folder, name, **settings):
    settings = {"label_budget": 24, "method": NEWTON, **ROLES, **settings}
    return Campaign.create(folder / name, folder / "log.parquet", folder / "pool.parquet", **group_options(settings))


def test_in_place_campaign_asks_the_same_rows_as_a_copy(made):
    folder, tables = made
    campaigns = create(folder, "copied.db"), create(folder, "in place.db", in_place=True)
    truth = labels_of(tables)
    while batch := campaigns[0].ask():
        other = Campaign.open(folder / "in place.db").ask()
        assert other.ids == batch.ids
        assert other.query_probability == pytest.approx(batch.query_probability, rel=1e-8)
        assert other.rows.to_pylist() == batch.rows.to_pylist()
        for campaign in campaigns:
            campaign.tell(batch.ids, truth(batch.ids))
    results = [campaign.result() for campaign in campaigns]
    np.testing.assert_allclose(results[0].estimator.coef_, results[1].estimator.coef_, atol=1e-8)
    assert results[0].queries["id"].tolist() == results[1].queries["id"].tolist()
    assert campaigns[1].settings.features == campaigns[0].settings.features
    assert campaigns[1].check().labels == 24
    assert "stay where they are" in " ".join(campaigns[1].status().notes)
    sizes = [(folder / name).stat().st_size for name in ("copied.db", "in place.db")]
    assert sizes[1] < sizes[0]
    session = campaigns[1].session()
    assert session.labels == 24
    with pytest.raises(InvalidInput, match="stay in place, and rows cannot be added"):
        campaigns[1].extend(pool=folder / "pool.parquet")


def test_table_that_was_changed_is_noticed(made):
    folder, tables = made
    campaign = create(folder, "campaign.db", in_place=True)
    batch = campaign.ask()
    campaign.tell(batch.ids, labels_of(tables)(batch.ids))
    path = folder / "pool.parquet"
    good = path.read_bytes()
    damaged = bytearray(good)
    damaged[len(good) // 3] ^= 1
    path.write_bytes(damaged)
    for verb in ("ask", "check"):
        with pytest.raises(PartsChanged, match=r"of '.*pool.parquet' has changed since"):
            getattr(Campaign.open(folder / "campaign.db"), verb)()
    path.unlink()
    with pytest.raises(InvalidInput, match=r"pool.parquet' cannot be read"):
        Campaign.open(folder / "campaign.db").ask()
    path.write_bytes(good)
    assert len(Campaign.open(folder / "campaign.db").ask()) == 8


def test_check_reads_the_tables_again_each_time(small):
    rewrite(small, y=["0", "1", None] * 20)
    campaign, path = create(small, "campaign.db", in_place=True), small / "pool.parquet"
    campaign.check()
    content, times = bytearray(path.read_bytes()), path.stat()
    content[200] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(PartsChanged, match="Row group 0"):
        campaign.check()


def test_log_and_pool_are_found_by_name_in_whatever_order_they_were_stored():
    part = ["a.parquet", 0, 1, 4, 10, "sum"]
    where = {name: {"parts": [part], "id": f"id of {name}", "first": 0} for name in ("pool", "log")}
    stored = SimpleNamespace(read_chunk=lambda *_: json.dumps(where))
    _, (log_ids, pool_ids) = storing._read_parts(stored)
    assert (log_ids.column, pool_ids.column) == ("id of log", "id of pool")


def test_people_label_it_on_the_page(made, monkeypatch):
    folder, tables = made
    create(folder, "campaign.db", in_place=True)
    truth = labels_of(tables)
    raw = {row["name"]: row for row in pq.read_table(folder / "pool.parquet").to_pylist()}
    with site(monkeypatch, folder / "campaign.db") as found:
        ann, seen = found.browser("ann", "owner"), 0
        while rows := ann.ask(5)["rows"]:
            seen += len(rows)
            for row in rows:
                shown = {field["name"]: field["value"] for field in row["fields"]}
                assert shown == {name: raw[row["id"]][name] for name in ("x0", "x1", "x2", "x3", "home")}
            ann.tell((row["id"], str(truth([row["id"]])[0])) for row in rows)
        assert seen == 24
    assert Campaign.open(folder / "campaign.db").status().labels == 24


def test_tables_that_cannot_stay_in_place_are_refused(made):
    folder, _ = made
    with pytest.raises(InvalidInput, match="one log with a propensity column and a pool"):
        create(folder, "a.db", in_place=True, propensity=None)
    with pytest.raises(InvalidInput, match="no column 'q1'"):
        create(folder, "a.db", in_place=True, propensity="q1")
    with pytest.raises(InvalidInput, match="cannot show images"):
        create(folder, "a.db", in_place=True, images=folder)
    pq.write_table(pq.read_table(folder / "log.parquet").slice(0, 90), folder / "again.parquet")
    with pytest.raises(InvalidInput, match="in the log and in the pool"):
        Campaign.create(folder / "a.db", folder / "log.parquet", folder / "again.parquet", tables=IN_PLACE, **ROLES)
    assert not (folder / "a.db").exists()


# -- read by the same rules as copied tables


@pytest.fixture
def small(tmp_path):
    """A log and a pool of 60 rows, whose labels are the texts 0 and 1, and "?" where none was revealed."""
    rng = np.random.default_rng(0)
    for name in ("log", "pool"):
        x = rng.normal(size=60)
        y = np.where(np.arange(60) % 3 == 0, "?", np.where(x > 0, "1", "0"))
        table = {"name": [f"{name} {k}" for k in range(60)], "x": x, "z": rng.normal(size=60), "q0": [0.4] * 60, "y": y}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet", row_group_size=20)
    return tmp_path


def rewrite(folder, name="log", **columns):
    """Replace columns of a table, or add them."""
    table = pq.read_table(folder / f"{name}.parquet")
    columns = {one: table.column(one) for one in table.column_names} | columns
    pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "has the value '\\?', which may mean that the label is not known"),
        ({"classes": [0, 1]}, "A label must be one of the classes \\[0, 1\\], but '\\?' was seen"),
        ({"exclude": ("typo",)}, "There is no column 'typo' to exclude"),
        ({"label": "name"}, "different values in 60 labels, too many for classes|at most 127 classes"),
    ],
)
def test_both_ways_refuse_the_same(small, settings, message):
    for in_place in (False, True):
        with pytest.raises((InvalidInput, InvalidLabel), match=message):
            create(small, "a.db", in_place=in_place, **settings)


@pytest.mark.filterwarnings("ignore::observal.errors.ObservalWarning")
@pytest.mark.parametrize("id", ["name", None])
def test_both_ways_note_the_same(small, id):
    labels = [str(k % 2) for k in range(60)]  # every row of the log has one, and so have pool rows
    rewrite(small, "log", y=labels)
    tables, roles = (small / "log.parquet", small / "pool.parquet"), TableRoles("y", None, id, exclude=("name",))
    settings = {"propensity": "q0", "classes": [0, 1], "propensity_floor": 0.45}
    copied = load_problem([tables[0]], tables[1], roles, **settings)
    here = load_in_place(*tables, roles, **settings)
    assert here.notes[:-1] == copied.notes
    assert len(here.notes) == 5 + (id is None)
    assert here.logged.classes.tolist() == copied.logged.classes.tolist() == [0, 1]
    np.testing.assert_array_equal(here.logged.codes, copied.logged.codes)
    np.testing.assert_array_equal(here.pool.propensity, copied.pool.propensity)


def test_format_options_need_a_copy(small, monkeypatch):
    with pytest.raises(InvalidInput, match="are used as they are in the files"):
        create(small, "a.db", in_place=True, missing=("?",))
    monkeypatch.setattr("observal.tables.load_in_place.LARGE", 1)
    made = create(small, "a.db", missing=("?",)).settings
    assert not made.in_place
    assert made.revealed == 40


def test_large_tables_with_one_number_as_their_propensity_are_copied(small, monkeypatch):
    monkeypatch.setattr("observal.tables.load_in_place.LARGE", 1)
    rewrite(small, y=["0", "1", None] * 20)
    assert not create(small, "a.db", propensity=0.4).settings.in_place


@pytest.mark.parametrize(
    ("labels", "message"),
    [([[1], [2]] * 30, "column 'y' has type list<"), ([b"a", b"b"] * 30, "column 'y' has type binary")],
)
def test_labels_that_are_no_labels_are_refused_in_words(small, labels, message):
    rewrite(small, y=pa.array(labels))
    with pytest.raises(InvalidLabel, match=message):
        create(small, "a.db", in_place=True)


def test_labels_of_any_plain_type_are_those_of_copied_tables(small):
    roles, tables = TableRoles("y", None, "name"), (small / "log.parquet", small / "pool.parquet")
    for labels in (
        [0.0, np.inf] * 30,
        [datetime.date(2024, 1, 1), None, datetime.date(2025, 1, 1)] * 20,
        [Decimal("0"), Decimal("1"), None] * 20,
        [2**60, 2**60 + 1] * 30,
        [True, False, None] * 20,
        ["yes", " yes", "no ", " "] * 15,
    ):
        rewrite(small, y=pa.array(labels))
        copied = load_problem([tables[0]], tables[1], roles, propensity="q0")
        here = load_in_place(*tables, roles, propensity="q0")
        assert here.logged.classes.tolist() == copied.logged.classes.tolist()
        np.testing.assert_array_equal(here.logged.revealed, copied.logged.revealed)
        np.testing.assert_array_equal(
            here.logged.codes[here.logged.revealed], copied.logged.codes[copied.logged.revealed]
        )


def test_column_of_two_types_is_named(small):
    (small / "log").mkdir()
    for k, values in enumerate(([1, 2], ["1", "2"])):
        columns = {"name": [f"{k}a", f"{k}b"], "x": values, "q0": [0.4] * 2, "y": ["0", "1"]}
        pq.write_table(pa.table(columns), small / "log" / f"{k}.parquet")
    with pytest.raises(
        InvalidInput, match="'x' must hold the same kind of values in every file, but is int64 in one and"
    ):
        Campaign.create(
            small / "a.db",
            small / "log",
            small / "pool.parquet",
            tables=ob.TableOptions(in_place=True, exclude=("x",)),
            **ROLES,
        )


def test_tables_that_are_not_parquet_are_refused(small):
    table = pq.read_table(small / "pool.parquet")
    for source, said in ((small / "pool.csv", r"'.*pool.csv'"), (table, "a Table")):
        with pytest.raises(InvalidInput, match=f"Tables that stay in place must be Parquet, but {said} is not"):
            Campaign.create(small / "a.db", small / "log.parquet", source, tables=IN_PLACE, **ROLES)


def test_column_that_gives_the_label_away_is_named(made):
    folder, tables = made
    for name in ("log", "pool"):
        table = pq.read_table(folder / f"{name}.parquet")
        told = labels_of(tables)(table.column("name").to_pylist())
        pq.write_table(
            table.append_column("paid", [(np.asarray(told) == "bad").astype(float)]),
            folder / f"{name}.parquet",
            row_group_size=97,
        )
    notes = create(folder, "a.db", in_place=True).settings.notes
    assert notes[0].startswith("Warning: Column 'paid' may leak the label 'y'")
    copied = create(folder, "b.db", in_place=False).settings.notes[
        0
    ]  # from other rows, so its shares may differ a little
    assert copied.partition(":")[0] == notes[0].partition(":")[0]
    assert copied.partition("If it is")[2] == notes[0].partition("If it is")[2]


def test_large_tables_stay_in_place_by_themselves(made, monkeypatch):
    folder, _ = made
    monkeypatch.setattr("observal.tables.load_in_place.LARGE", 1000)
    assert create(folder, "a.db").settings.in_place
    assert not create(folder, "b.db", in_place=False).settings.in_place


def test_campaign_starts_a_cluster_once_and_only_if_it_is_needed(small, monkeypatch):
    folder, started = small, without_dask(monkeypatch)
    rewrite(folder, y=["0", "1", None] * 20)
    campaign = create(folder, "campaign.db", in_place=True, executor="local")
    assert campaign.problem.pool.X.executor is campaign.problem.logged.X.executor
    campaign.ask(2)
    assert len(started) == 1
    del campaign
    gc.collect()
    opened = Campaign.open(folder / "campaign.db", "local")
    assert opened.status().labels == 0
    assert len(started) == 1
    opened.ask(2)
    assert opened.problem.pool.X.executor is opened.problem.pool.X.executor
    assert len(started) == 2


def test_commands_refuse_a_cluster_on_which_nothing_would_be_computed(small, monkeypatch):
    started = without_dask(monkeypatch)
    where, pool = small / "a.db", small / "pool.parquet"
    begin = ["init", where, "--label", "y", "--propensity", "q0", "--missing", "?", "--method", "newton"]
    assert run(*begin, "--logged", small / "log.parquet", "--pool", pool).returncode == 0
    for command, said in (
        ([*begin, "--logged", small / "log.csv", "--pool", pool], "one log and a pool in Parquet"),
        ([*begin, "--logged", small / "log.parquet", "--pool", pool, "--in-place"], "no options such as --missing"),
        ([*begin[:6], "--logged", small / "log.parquet", "--pool", pool], "add --in-place"),
        (["ask", where], "this campaign has copies of them"),
        (["diagnose", where], "this campaign has copies of them"),
    ):
        refused = run(*command, "--dask", "local")
        assert refused.returncode == 2
        assert said in " ".join(refused.stderr.replace("│", " ").split())
    assert not started


def test_lost_scheduler_raises_and_campaign_continues(made):
    class Gone:
        def map(self, function, items):
            raise ClusterUnavailable("The Dask cluster gave up; repeat the command.")

    folder, _ = made
    create(folder, "campaign.db", in_place=True)
    with pytest.raises(ClusterUnavailable):
        Campaign.open(folder / "campaign.db", Gone()).ask()
    assert len(Campaign.open(folder / "campaign.db").ask()) == 8


@pytest.mark.slow
def test_killed_scheduler_raises_one_sentence(made):
    folder, _ = made
    create(folder, "campaign.db", in_place=True)
    begin = [sys.executable, "-c", SCHEDULER]
    with subprocess.Popen(begin, stdout=subprocess.PIPE, text=True) as scheduler:
        address = scheduler.stdout.readline().strip()
        ask = [sys.executable, "-m", "observal", "ask", folder / "campaign.db", "--dask", address]
        with subprocess.Popen(ask, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
            assert scheduler.stdout.readline() == "at work\n"
            scheduler.kill()
            _, said = asking.communicate(timeout=120)
    assert asking.returncode == 1
    assert said.startswith("observal: The Dask cluster gave up")
    assert said.count("\n") == 1
    assert len(Campaign.open(folder / "campaign.db").ask()) == 8


SCHEDULER = """
import asyncio
from distributed import Scheduler

async def main():  # without a worker, so that what is submitted waits
    async with Scheduler(port=0, host="127.0.0.1", dashboard_address=":0") as scheduler:
        print(scheduler.address, flush=True)
        while not scheduler.tasks:
            await asyncio.sleep(0.05)
        print("at work", flush=True)
        await scheduler.finished()

asyncio.run(main())
"""


def test_commands_work_in_place(made):
    folder, _ = made
    where = folder / "campaign.db"
    tables = ["--logged", folder / "log.parquet", "--pool", folder / "pool.parquet"]
    roles = ["--label", "y", "--propensity", "q0", "--id", "name"]
    said = run("init", where, *tables, *roles, "--in-place", "--method", "newton", "--budget", 20, "--notes")
    assert "stay where they are" in said.stdout
    assert run("ask", where, "-n", 3).returncode == 0
    assert "Coverage" in run("diagnose", where).stdout
    assert run("check", where).returncode == 0
    wrong = run("ask", where, "--dask", "nowhere")
    assert wrong.returncode == 2
    assert "tcp://" in wrong.stderr


@pytest.mark.slow
def test_every_command_that_takes_a_cluster_works_on_one(made, tmp_path):
    folder, _ = made
    where = folder / "campaign.db"
    tables = ["--pool", folder / "pool.parquet", "--label", "y", "--propensity", "q0", "--id", "name"]
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as one:
        cluster = ["--dask", one.scheduler_address]
        plain = run("diagnose", folder / "log.parquet", *tables, "--json")
        said = run("diagnose", folder / "log.parquet", *tables, "--json", *cluster)
        here, there = json.loads(plain.stdout), json.loads(said.stdout)
        assert there["verdict"] == here["verdict"]
        assert there["weights"]["effective"] == pytest.approx(here["weights"]["effective"])
        assert run("diagnose", folder / "log.csv", *tables, *cluster).returncode == 2
        begin = ["init", where, "--logged", folder / "log.parquet", *tables, "--budget", 20, "--method", "newton"]
        assert run(*begin, "--in-place", *cluster).returncode == 0
        assert run("ask", where, "-n", 3, *cluster).returncode == 0
        assert run("diagnose", where, *cluster).returncode == 0
        assert research("reproduce", "--trials", 2, "--out", tmp_path / "figure", *cluster).returncode == 0
        small = [
            "benchmark",
            "--only",
            "linear / certainty",
            "--trials",
            1,
            "--rows",
            300,
            "--peers",
            "margin/logistic",
        ]
        small += ["--methods", "NewtonVC", "--json", "--out", tmp_path / "benchmark"]
        reports = [json.loads(research(*small, *more).stdout)["cells"] for more in ([], cluster)]
        curves = [report["linear / certainty"]["contestants"]["NewtonVC"]["curve"] for report in reports]
        assert curves[0] == curves[1]


def test_intervals_of_a_campaign_in_place(made):
    folder, tables = made
    campaign = create(folder, "campaign.db", in_place=True, method=ob.NewtonVC(batch=12), label_budget=12)
    batch = campaign.ask()
    campaign.tell(batch.ids, labels_of(tables)(batch.ids))
    found = Campaign.open(folder / "campaign.db", Threads(1)).intervals()["error"]
    assert 0.0 <= found.low < found.high <= 1.0

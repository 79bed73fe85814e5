"""What is stored is what is said: labels that do not count yet are named, and a campaign's file is whole."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

import observal as ob
from observal.campaign import Campaign
from observal.errors import InvalidInput, NotACampaign
from observal.journal.sql.store import open_store
from observal.report import sections
from observal.report.campaign_report import write_campaign_report
from observal.report.content import ReportContent
from observal.server.desk_thread import DeskThread
from tests.campaigns import METHOD, make_campaign, small_data, truth_of
from tests.command import invoke
from tests.postgres import postgres  # noqa: F401  a fixture
from tests.serving import site

BATCH_OF_20 = replace(METHOD, batch=20)
WAITING = (
    "45 labels are stored; 45 do not count yet, because round 1 waits for 15 rows that owner holds: "
    "answer them, or let others have them with observal release --annotator owner."
)


def tell_truth(campaign, batch, annotator="anyone"):
    campaign.tell(batch.ids, [truth_of(i) for i in batch.ids], annotator)


def leave_rows_open(campaign):
    """Let one person keep 15 rows of round 1, and another answer all that is left of 60."""
    held = campaign.ask(15, "owner")
    while batch := campaign.ask(None, "bob"):
        tell_truth(campaign, batch, "bob")
    return held


def words_of(path):
    page = re.sub(r"<style>.*?</style>", "", path.read_text(encoding="utf-8"), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def run(*arguments):
    done = invoke(*arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def start(kind, folder):
    """Return a campaign or a session whose round 1 is not closed, its open rows, who has them, and why labels wait."""
    if kind == "campaign":
        campaign = make_campaign(folder / "c.db", method=BATCH_OF_20, label_budget=60)
        return campaign, leave_rows_open(campaign).ids, "owner", WAITING
    session = ob.Session(*small_data(), method=BATCH_OF_20, label_budget=60)
    ids = session.ask().ids
    session.tell(ids[:5], [truth_of(i) for i in ids[:5]])
    said = "5 labels are stored; 5 do not count yet, because round 1 waits for 15 rows: answer them."
    return session, ids[5:], "anyone", said


@pytest.mark.parametrize("kind", ["campaign", "session"])
def test_status_and_report_name_the_labels_that_do_not_count_yet(tmp_path, kind):
    campaign, open_rows, holder, expected = start(kind, tmp_path)
    status = campaign.status()
    stored = status.labels
    assert (status.uncounted, status.waiting) == (stored, expected)
    assert ("waiting", expected) in status.lines()
    page = words_of(write_campaign_report(campaign, tmp_path / "waiting.html"))
    assert f"Wait until all labels count. {expected} Error" in page  # and nothing else is decided
    assert f"Labels bought {stored} 0 of them count yet, plus 95 in the log" in page
    assert f"{stored} more labels were bought. {expected}" in page
    assert "No label was bought" not in page
    assert not re.search("Stop|Use it|Buy about|Next:", page)
    # Once the rows are answered, everything counts and there is a verdict again.
    campaign.tell(open_rows, [truth_of(i) for i in open_rows], holder)
    status = campaign.status()
    assert (status.uncounted, status.waiting) == (0, "")
    assert all(name != "waiting" for name, _ in status.lines())
    page = words_of(write_campaign_report(campaign, tmp_path / "all.html"))
    assert f"Labels bought {status.labels} plus 95 in the log" in page
    assert re.search("Stop|Use it|Buy about", page)
    assert "do not count" not in page


def test_labels_of_closed_rounds_count_while_a_later_round_is_open(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", method=BATCH_OF_20, label_budget=60)
    tell_truth(campaign, campaign.ask())
    assert campaign.status().waiting == ""
    tell_truth(campaign, campaign.ask(1))
    said = "21 labels are stored; 1 does not count yet, because round 2 waits for 19 rows: answer them."
    assert campaign.status().waiting == said
    page = words_of(write_campaign_report(campaign, tmp_path / "report.html"))
    assert "Labels bought 21 20 of them count yet, plus 95 in the log" in page
    assert said in run("export", tmp_path / "c.db", tmp_path / "c.model")
    found = json.loads(run("export", tmp_path / "c.db", tmp_path / "c2.model", "--json"))
    assert found["labels"] == 20  # the model is fitted to these


def test_several_rounds_and_people_are_named(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", label_budget=24)
    campaign.ask(3, "ann o'hara")
    campaign.ask(3, "bob")
    tell_truth(campaign, campaign.ask(2, "cleo"), "cleo")
    campaign.ask(4, "cleo")
    said = campaign.status().waiting
    assert said == (
        "2 labels are stored; 2 do not count yet, because rounds 1 and 2 wait for 14 rows "
        "(ann o'hara holds 3, bob holds 3, cleo holds 4, 4 wait for another annotator): "
        "answer them, or let others have them with observal release --annotator NAME."
    )
    campaign.release("bob")
    campaign.release("cleo")
    assert campaign.status().waiting.endswith("--annotator 'ann o'\"'\"'hara'.")  # to be pasted


def test_people_who_disagree_are_named(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", overlap=2, method=replace(METHOD, batch=2))
    first, second = campaign.ask(2, "ann").ids
    campaign.ask(2, "bob")
    campaign.tell([first, second], ["good", "good"], "ann")
    campaign.tell([first, second], ["good", "bad"], "bob")
    assert campaign.status().waiting == (
        "1 label is stored; 1 does not count yet, because round 1 waits for 1 row "
        "(1 needs a decision, because people disagree): answer them."
    )


def test_command_line_says_what_status_says(tmp_path):
    campaign = make_campaign(tmp_path / "c.db", method=BATCH_OF_20, label_budget=60)
    leave_rows_open(campaign)
    assert f"waiting    {WAITING}" in run("status", tmp_path / "c.db")
    said = run("status", tmp_path / "c.db", "--interval")
    assert said.count(WAITING) == 1
    found = json.loads(run("status", tmp_path / "c.db", "--json"))
    assert (found["labels"], found["uncounted"], found["waiting"]) == (45, 45, WAITING)


def test_page_says_what_status_says(tmp_path, monkeypatch):
    leave_rows_open(make_campaign(tmp_path / "c.db", method=BATCH_OF_20, label_budget=60))
    with site(monkeypatch, tmp_path / "c.db") as here:
        browser = here.browser("owner", "owner")
        assert browser.get("rounds").json()["waiting"] == WAITING
        rows = browser.ask(15)["rows"]
        browser.tell([(row["id"], truth_of(int(row["id"]))) for row in rows])
        assert browser.get("rounds").json()["waiting"] == ""


def test_decision_about_columns_stays_and_tells_to_wait():
    logged, pool = small_data()
    session = ob.Session(logged, pool, method=METHOD)
    leaks = SimpleNamespace(leaks=["end"], decisions=[], serious=["Column 'end' gives the label away."])
    content = ReportContent("", logged, pool, session.result(), leaks, uncounted=45, waiting=WAITING)
    kind, title, why = sections.decision(content)
    assert (kind, title) == ("stop", "Check these columns first.")
    assert why == [*leaks.serious, "If all of them are known in time: wait until all labels count.", WAITING]


# -- the campaign's file ---------------------------------------------------------------------------------------------


def copied_labels(where):
    """Copy the file alone, as people do, and return the number of labels in the copy."""
    copy = where.with_name("copied.db")
    copy.unlink(missing_ok=True)
    shutil.copyfile(where, copy)
    return Campaign.open(copy).check().labels


def open_elsewhere(where):
    """Return a connection of another program that keeps the file open."""
    connection = sqlite3.connect(where)
    connection.execute("SELECT count(*) FROM observal_journal").fetchall()
    return connection


def test_file_is_whole_after_a_command_although_others_have_it_open(tmp_path):
    where = tmp_path / "c.db"
    campaign, other = make_campaign(where), open_elsewhere(where)
    tell_truth(campaign, campaign.ask(5))
    assert copied_labels(where) == 5
    other.close()


def test_file_is_whole_soon_after_an_answer_on_the_page(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    make_campaign(where, label_budget=42)
    other = open_elsewhere(where)
    with site(monkeypatch, where) as here:
        browser = here.browser("ann")
        told = 0
        while rows := browser.ask()["rows"]:
            assert browser.tell([(row["id"], truth_of(int(row["id"]))) for row in rows]).status_code == 200
            told += len(rows)
            if told == 42:
                break
        deadline = time.monotonic() + 2.0
        while copied_labels(where) < 42:
            browser.get("status")  # others who only look do not get in the way
            assert time.monotonic() < deadline
    other.close()


def test_desk_thread_settles_every_second_also_under_load():
    settled = []
    thread = DeskThread(lambda write: nullcontext(), lambda: settled.append(time.monotonic()))
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        thread.submit(lambda: None, write=True).result()
    thread.shutdown()
    assert len(settled) == 1


def test_log_that_cannot_be_moved_fails_nothing(tmp_path):
    where = tmp_path / "c.db"
    campaign, reader = make_campaign(where), open_elsewhere(where)
    batch = campaign.ask(5)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM observal_journal").fetchall()  # an older state, which has to stay
    tell_truth(campaign, batch)
    store = open_store(where, keep=True)
    store.settle()
    assert campaign.labels == 5
    reader.close()
    store.settle()
    assert copied_labels(where) == 5
    where.write_bytes(b"no database")
    store.settle()
    store.close()


# -- backup ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["python", "command line"])
def test_backup_of_a_campaign_in_use_has_every_answer(tmp_path, monkeypatch, door):
    where, copy = tmp_path / "c.db", tmp_path / "a copy #1?.db"
    campaign = make_campaign(where)
    where.chmod(0o600)
    with site(monkeypatch, where) as here:
        browser = here.browser("ann")
        rows = browser.ask(5)["rows"]
        browser.tell([(row["id"], truth_of(int(row["id"]))) for row in rows])
        if door == "python":
            campaign.backup(copy)
        else:
            assert run("backup", where, copy) == f"Copy with 5 labels: {copy}.\n"
            found = json.loads(run("backup", where, tmp_path / "second.db", "--json"))
            assert found == {"copy": str(tmp_path / "second.db"), "labels": 5}
    assert Campaign.open(copy).check() == campaign.check()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not list(tmp_path.glob(".*.part*"))
    # The copy is a campaign of its own, and goes on as the first one does.
    other = Campaign.open(copy)
    tell_truth(other, other.ask(3, "ann"), "ann")
    assert (other.labels, campaign.labels) == (8, 5)


def test_backup_while_answers_come_in_has_all_that_were_acknowledged(tmp_path):
    campaign, acknowledged = make_campaign(tmp_path / "c.db"), []

    def answer():
        ours = Campaign.open(tmp_path / "c.db")
        while batch := ours.ask(1):
            tell_truth(ours, batch)
            acknowledged.extend(batch.ids)

    with ThreadPoolExecutor() as executor:
        answering = executor.submit(answer)
        for k in range(8):
            before = list(acknowledged)
            campaign.backup(tmp_path / f"copy-{k}.db")
            copy = Campaign.open(tmp_path / f"copy-{k}.db")
            assert copy.check().labels >= len(before)
            assert {*before} <= {copy.engine.ledger.ids[row] for row in copy.engine.read().labels}
        answering.result()
    assert campaign.check().labels == len(acknowledged) == 32


def test_backup_replaces_no_campaign_and_other_files_only_with_force(tmp_path):
    campaign = make_campaign(tmp_path / "c.db")
    for name in ("c.db", "c.db-wal"):
        with pytest.raises(InvalidInput, match="is a campaign or part of one, which is never replaced; choose another"):
            campaign.backup(tmp_path / name, force=True)
    note = tmp_path / "note.txt"
    note.write_text("mine")
    with pytest.raises(InvalidInput, match=r"already exists; choose another path, or pass --force \(force=True\)"):
        campaign.backup(note)
    assert note.read_text() == "mine"
    run("backup", tmp_path / "c.db", note, "--force")
    assert Campaign.open(note).check() == campaign.check()
    with pytest.raises(FileNotFoundError):
        campaign.backup(tmp_path / "missing" / "copy.db")


def test_backup_of_a_damaged_campaign_leaves_no_file(tmp_path):
    where = tmp_path / "c.db"
    campaign = make_campaign(where)
    content = where.read_bytes()
    where.write_bytes(b"x" * len(content))
    with pytest.raises(NotACampaign, match="is not a campaign, or it is damaged"):
        campaign.backup(tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["c.db"]


def test_backup_of_postgresql_names_pg_dump(postgres, tmp_path):  # noqa: F811
    campaign = make_campaign(postgres())
    with pytest.raises(InvalidInput, match="is a PostgreSQL database, not a file; make its backup with pg_dump"):
        campaign.backup(tmp_path / "copy.db")
    tell_truth(campaign, campaign.ask(2))
    assert (campaign.labels, list(tmp_path.iterdir())) == (2, [])

"""The labelling page's API: rows, answers, undo, leases, keys, review, people."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import socket
import struct
import threading
import time
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa

import observal as ob
from observal.campaign import Campaign
from observal.errors import CampaignUnavailable, InvalidInput
from observal.journal.answers import WrittenAnswer
from observal.journal.settings import Display
from observal.journal.sql import people
from observal.journal.sql.store import open_store
from observal.report.verdict import error_words, shows_estimate
from observal.server.desk import Refused
from observal.server.desk_thread import DeskThread
from observal.server.pool_view import PoolView, pixel_grid
from observal.server.serving import check_host, listen, owner_link
from observal.server.worker import Wanted, _Process
from observal.tables.more_rows import PropensityOrigin
from tests.campaigns import group_options, make_campaign, truth_of
from tests.command import observal
from tests.postgres import postgres  # noqa: F401  a fixture
from tests.serving import new_key, site

OTHER = {"good": "bad", "bad": "good"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    make_campaign(tmp_path / "c.db")
    with site(monkeypatch, tmp_path / "c.db") as found:
        yield found


def truths(rows):
    return [(row["id"], truth_of(int(row["id"]))) for row in rows]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_people_label_a_campaign_to_its_end(kind, tmp_path, monkeypatch, request):
    where = request.getfixturevalue("postgres")() if kind == "postgresql" else tmp_path / "c.db"
    make_campaign(where)
    with site(monkeypatch, where, title="Who repays?") as found:
        ann, bob = found.browser("ann", "owner"), found.browser("bob")
        me = ann.get("me").json()
        assert (me["name"], me["role"]) == ("ann", "owner")
        assert me["campaign"] == {
            "id": found.desk.id,
            "name": found.desk.name,
            "title": "Who repays?",
            "label": "label",
            "classes": ["bad", "good"],
            "positive": "good",
            "label_budget": 32,
            "overlap": 1,
            "columns": ["x0", "x1"],
            "image_column": None,
            "instructions": "",
            "column_help": {},
        }
        seen = []
        while True:
            mine, theirs = ann.ask(3), bob.ask(2)
            assert not {row["id"] for row in mine["rows"]} & {row["id"] for row in theirs["rows"]}
            for who, rows in ((ann, mine["rows"]), (bob, theirs["rows"])):
                seen += [row["id"] for row in rows]
                if rows:
                    assert who.tell(truths(rows)).status_code == 200
            if mine["finished"]:
                break
            assert mine["rows"] or theirs["rows"]
        assert len(seen) == len(set(seen)) == 32
        assert mine["note"] == "Nothing is left to ask: the label budget of 32 is spent."
        reply = ann.get("status")
        assert reply.status_code == 200, reply.text
        told = reply.json()
        assert told["progress"]["labels"] == 32
        assert sum(person["answers"] for person in told["annotators"]) == 32
    done = Campaign.open(where)
    assert done.status().labels == 32
    assert done.check().labels == 32


def test_campaigns_with_the_same_data_and_title_have_different_ids(tmp_path, monkeypatch):
    told = []
    for name in ("a.db", "b.db", "a.db"):
        if not (tmp_path / name).exists():
            make_campaign(tmp_path / name)
        with site(monkeypatch, tmp_path / name, title="Loans") as found:
            told.append((found.browser("ann").get("me").json()["campaign"]["id"], found.desk.cookie))
    assert (
        told[0] == told[2]
    )  # answers that a page has not sent yet wait under this name, also while the server is restarted
    with open_store(tmp_path / "b.db").reading() as transaction:
        assert told[1][0] == transaction.events()[0].digest[:12] != told[0][0]
    assert told[0][1] != told[1][1]


def test_rows_say_what_they_show_and_why(here):
    row = here.browser("ann").ask(1)["rows"][0]
    X = Campaign.open(here.where).problem.pool.X
    position = int(row["id"])
    assert [field["name"] for field in row["fields"]] == ["x0", "x1"]
    for k, field in enumerate(row["fields"]):
        assert field["kind"] == "number"
        assert field["value"] == X[position, k]
        assert field["standing"] == pytest.approx(float((X[:, k] < X[position, k]).mean()), abs=1e-4)
    assert (row["round"], row["model_round"]) == (1, 0)
    assert 0 < row["query_probability"] <= 1
    assert row["reason"]


def test_reload_gives_the_same_rows(here):
    ann = here.browser("ann")
    first = ann.ask(4)["rows"]
    assert ann.ask(4)["rows"] == first
    assert ann.ask(2)["rows"] == first[:2]
    assert here.browser("ann").ask(4)["rows"] == first  # on another device


def test_request_sent_twice_counts_once(here):
    ann = here.browser("ann")
    rows = ann.ask(3)["rows"]
    key = new_key()
    first = ann.tell(truths(rows[:1]), key)
    assert first.json()["labels"] == 1
    ann.tell(truths(rows[1:2]))
    entries = len(Campaign.open(here.where).history())
    again = ann.tell(truths(rows[:1]), key)
    assert again.json() == first.json()
    assert len(Campaign.open(here.where).history()) == entries
    other = ann.tell(truths(rows[2:]), key)
    assert other.status_code == 409
    assert "was used for another request" in other.json()["error"]
    assert here.browser("bob").tell(truths(rows[:1]), key).status_code == 403  # keys are each person's own


def test_undo_sent_twice_undoes_one_answer(here):
    ann = here.browser("ann")
    rows = ann.ask(2)["rows"]
    ann.tell(truths(rows))
    key = new_key()
    first = ann.post("undo", key=key)
    assert ann.post("undo", key=key).json() == first.json()
    assert first.json()["undone"] == {"id": rows[1]["id"], "label": truth_of(int(rows[1]["id"]))}
    assert first.json()["row"] == rows[1]
    assert ann.get("status").json()["progress"]["your_answers"] == 1


def test_undo_goes_back_over_answers_skips_and_reloads(here):
    ann = here.browser("ann")
    rows = ann.ask(3)["rows"]
    ann.tell(truths(rows[:1]))
    assert ann.post("skip", key=new_key(), id=rows[1]["id"]).json()["skips"] == 1
    ann.tell(truths(rows[2:]))
    again = here.browser("ann")
    undone = [again.post("undo", key=new_key()).json()["undone"] for _ in range(4)]
    assert [u and u["id"] for u in undone] == [rows[2]["id"], rows[1]["id"], rows[0]["id"], None]
    assert undone[1]["label"] is None
    assert again.ask(3)["rows"] == rows
    assert Campaign.open(here.where).status().labels == 0


def test_undo_reaches_into_a_closed_round(here):
    ann = here.browser("ann")
    first = ann.ask(100)["rows"]
    assert len(first) == 8
    ann.tell(truths(first))
    second = ann.ask(100)["rows"]
    assert {row["round"] for row in second} == {2}
    undone = ann.post("undo", key=new_key()).json()
    assert undone["row"]["id"] == undone["undone"]["id"] == first[-1]["id"]
    assert undone["row"]["round"] == 1
    assert [row["id"] for row in ann.ask(100)["rows"]] == [row["id"] for row in (first[-1], *second)]


def test_answering_again_changes_your_own_answer(here):
    ann = here.browser("ann")
    row, label = truths(ann.ask(1)["rows"])[0]
    ann.tell([(row, label)])
    assert ann.tell([(row, label)]).json()["unchanged"] == 1
    assert ann.tell([(row, OTHER[label])]).json()["corrected"] == 1
    assert ann.tell([(row, None)]).json()["corrected"] == 1
    assert Campaign.open(here.where).status().skipped == 1


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests can move."""
    moved = [datetime.timedelta(0)]
    monkeypatch.setattr(people, "now", lambda: datetime.datetime.now(datetime.UTC) + moved[0])

    def move(**by):
        moved[0] += datetime.timedelta(**by)

    return move


@pytest.fixture
def nothing_ahead(tmp_path, monkeypatch):
    """A campaign whose budget is one round."""
    make_campaign(tmp_path / "one.db", label_budget=8)
    with site(monkeypatch, tmp_path / "one.db") as found:
        yield found


def test_lease_that_ran_out_goes_to_the_next_who_asks_and_a_late_answer_counts(nothing_ahead, clock):
    here = nothing_ahead
    ann = here.browser("ann")
    held = ann.ask(100)["rows"]
    bob = here.browser("bob")
    assert bob.ask(5)["rows"] == []
    assert "ann holds 8" in bob.ask(5)["note"]
    clock(minutes=10)
    assert ann.ask(100)["rows"] == held  # renews
    clock(minutes=10)
    assert bob.ask(5)["rows"] == []
    clock(minutes=10)
    given = bob.ask(5)["rows"]
    assert len(given) == 4  # his half
    late = ann.tell(truths(given[:1]))  # it was hers, nobody has answered yet
    assert late.json()["labels"] == 1
    assert [row["id"] for row in bob.ask(5)["rows"]][:3] == [row["id"] for row in given[1:]]
    row, label = truths(given)[1]
    bob.tell([(row, label)])
    assert ann.tell([(row, OTHER[label])]).json()["labels"] == 1  # too late to decide, and kept beside his
    now = Campaign.open(here.where)
    assert now.engine.read().responses[now.engine.read().find(row)] == {
        "bob": ["bad", "good"].index(label),
        "ann": ["bad", "good"].index(OTHER[label]),
    }
    assert now.engine.read().labels[now.engine.read().find(row)] == ["bad", "good"].index(label)
    assert now.status().labels == 2
    split = here.browser("olga", "owner").get("review").json()["rows"]
    assert [(a["annotator"], a["label"]) for a in split[0]["answers"]] == [("bob", label), ("ann", OTHER[label])]
    assert ann.post("undo", key=new_key()).json()["row"] is None  # bob's answer stands, so the row is not open
    assert Campaign.open(here.where).status().labels == 2


def test_free_rows_are_shared_between_annotators(here):
    ann, bob = here.browser("ann"), here.browser("bob")
    for _ in range(3):
        mine = ann.ask(100)["rows"]
        assert len(mine) == 4
    ann.tell(truths(mine))
    assert len(ann.ask(100)["rows"]) == 2  # half of what is left
    assert len(bob.ask(100)["rows"]) == 1
    while rows := ann.ask(100)["rows"]:  # he does not answer; she goes on to the end
        ann.tell(truths(rows))
    assert Campaign.open(here.where).status().open_rows == 1


def test_people_who_only_use_files_keep_their_rows(here, clock):
    held = Campaign.open(here.where).ask(None, "carl").ids
    clock(days=1)
    assert not {row["id"] for row in here.browser("bob").ask(5)["rows"]} & {str(row) for row in held}
    assert len(held) == 8


def test_waiting_annotator_gets_rows_of_people_who_left_then_rows_chosen_ahead(here, clock):
    ann = here.browser("ann")
    held = {row["id"] for row in ann.ask(100)["rows"]}
    bob = here.browser("bob")
    first = bob.post("ask", n=5).json()
    assert (first["rows"], first["fitting"]) == ([], False)  # ann may answer any moment
    assert "ann holds 8" in first["note"]
    clock(seconds=11)
    second = bob.post("ask", n=5).json()
    assert (second["rows"], second["fitting"]) == ([], True)
    ahead = bob.ask(5)["rows"]
    assert len(ahead) == 4  # his half
    assert not held & {row["id"] for row in ahead}
    assert {(row["round"], row["model_round"]) for row in ahead} == {(2, 0)}
    assert all(row["reason"].endswith("(chosen ahead by the model of round 0)") for row in ahead)
    assert bob.ask(5)["rows"] == ahead
    bob.tell(truths(ahead))
    clock(minutes=20)
    assert {row["id"] for row in bob.ask(5)["rows"]} <= held  # ann has left


def test_whole_round_is_chosen_ahead_where_many_answers_come_in_during_a_fit(here, monkeypatch):
    ann, bob = here.browser("ann"), here.browser("bob")
    rows = ann.ask(4)["rows"]
    here.desk.worker.seconds = 0.4  # a short wait, and the newest model chooses
    ann.tell(truths(rows[:1]))
    assert not here.desk.worker.fitting
    here.desk.worker.seconds = 40.0
    ann.tell(truths(rows[1:2]))
    deadline = time.monotonic() + 60
    while Campaign.open(here.where).status().round == 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    status = Campaign.open(here.where).status()
    assert (status.round, status.open_rounds, status.open_rows) == (2, 2, 14)
    here.desk.worker.seconds = 1.0  # one round ahead is enough for that
    assert {row["round"] for row in bob.ask(100)["rows"]} == {1, 2}
    ann.tell(truths(rows[2:3]))
    assert Campaign.open(here.where).status().round == 2


def test_lone_annotator_never_waits_for_a_fit(tmp_path, monkeypatch, clock):
    make_campaign(tmp_path / "c.db", tolerance=None)
    with site(monkeypatch, tmp_path / "c.db") as found:
        ann, seen = found.browser("ann"), []
        rows = ann.ask(30)["rows"]
        found.desk.worker.seconds = 3.0  # whatever it took
        while rows:
            seen.append((rows[0]["round"], rows[0]["model_round"]))
            ann.tell(truths(rows[:1]))
            clock(seconds=20)  # longer than a fit
            deadline = time.monotonic() + 60
            while found.desk.worker.fitting:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            reply = ann.post("ask", n=30).json()
            assert reply["rows"] or reply["finished"], reply["note"]
            rows = reply["rows"]
    # Each round is followed by a row that the same model chose, during which the next round is chosen.
    rounds = [(1, 0)] * 8 + [(2, 0)] + [(3, 1)] * 8 + [(4, 2)] + [(5, 3)] * 8 + [(6, 4)] + [(7, 5)] * 5
    assert seen == rounds
    assert len(rounds) == Campaign.open(tmp_path / "c.db").status().labels == 32


def test_looks_that_come_together_want_a_whole_round_rather_than_a_few_rows():
    few, whole = Wanted(rounds=3, most=2), Wanted(rounds=3)
    assert few.together_with(Wanted()) == Wanted().together_with(few) == few
    assert few.together_with(whole) == whole.together_with(few) == whole
    assert few.together_with(Wanted("bob")) == Wanted("bob", 3)


def test_method_without_rows_to_choose_ahead_is_asked_once(here, monkeypatch, clock):
    looks = []
    look = type(here.desk.worker).look
    monkeypatch.setattr(type(here.desk.worker), "look", lambda worker, *what: looks.append(what) or look(worker, *what))
    here.browser("ann").ask(100)
    monkeypatch.setattr("observal.journal.replay.Replay.next_plan", lambda *_: ob.Stop("enough"))
    looks.clear()
    bob = here.browser("bob")
    for _ in range(3):
        reply = bob.ask(5)
        assert reply["rows"] == []
        assert "ann holds 8" in reply["note"]
        clock(seconds=11)
    assert looks == [(Wanted("bob"),)]
    assert not Campaign.open(here.where).finished


def test_review_shows_disagreement_and_an_owner_decides(tmp_path, monkeypatch):
    make_campaign(tmp_path / "c.db", overlap=2)
    with site(monkeypatch, tmp_path / "c.db") as found:
        ann, bob, olga = found.browser("ann"), found.browser("bob"), found.browser("olga", "owner")
        rows = truths(ann.ask(3)["rows"])
        ann.tell(rows)
        bob.ask(3)
        bob.tell([(rows[0][0], OTHER[rows[0][1]]), *rows[1:]])
        split = olga.get("review").json()
        assert [row["id"] for row in split["rows"]] == [rows[0][0]]
        assert split["rows"][0]["decided"] is None
        assert split["rows"][0]["fields"][0]["name"] == "x0"
        decided = olga.post("review", key=new_key(), id=rows[0][0], label=OTHER[rows[0][1]])
        assert decided.json()["decided"] == OTHER[rows[0][1]]
        assert olga.get("review").json()["rows"][0]["decided"] == OTHER[rows[0][1]]
        every = olga.get("review", params={"all": 1}).json()
        assert every["total"] == 3
        assert {row["id"] for row in every["rows"]} == {row for row, _ in rows}
        told = olga.get("history").json()["entries"]
        assert [entry["sequence"] for entry in told] == list(range(1, len(told) + 1))
        assert (told[-1]["kind"], told[-1]["actor"]) == ("decided", "olga")
        key = new_key()
        for _ in range(2):  # sent twice, stored once
            assert bob.post("flag", key=key, id=rows[1][0], text="odd").json()["id"] == rows[1][0]
        assert bob.post("flag", key=new_key(), id="nothing", text="").status_code == 404
        assert found.browser("cleo").post("flag", key=new_key(), id=rows[1][0], text="").status_code == 403
        (flagged,) = olga.get("review", params={"all": 1, "only": "flagged"}).json()["rows"]
        assert [(flag["annotator"], flag["text"]) for flag in flagged["flags"]] == [("bob", "odd")]
        assert olga.get("review", params={"row": rows[2][0]}).json()["rows"][0]["id"] == rows[2][0]
        assert olga.get("review", params={"row": "nothing"}).json() == {"rows": [], "total": 0}
        assert ann.get("status").json()["agreement"]["rows"] == 3
        assert Campaign.open(tmp_path / "c.db").status().labels == 3


def test_rounds_are_measured_in_the_background_and_the_model_comes_as_a_file(here, tmp_path):
    olga = here.browser("olga", "owner")
    olga.tell(truths(olga.ask(100)["rows"]))
    rows = olga.ask(100)["rows"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = olga.get("rounds").json()
        if len(found["rounds"]) == 2 and all(r["error"] for r in found["rounds"]):
            break
        time.sleep(0.05)
    assert [(r["round"], r["labels"]) for r in found["rounds"]] == [(0, 0), (1, 8)]
    expected = Campaign.open(here.where).intervals(1)["error"]
    assert found["rounds"][1]["error"] == {
        "estimate": expected.estimate if shows_estimate(expected) else None,
        "low": expected.low,
        "high": expected.high,
        "confidence": expected.confidence,
        "known": True,
        "words": error_words(expected),
    }
    assert (found["stopped"], found["fitting"]) == ("", False)
    assert found["stopping"]["tolerance"] == 0.002
    assert olga.get("status").json()["progress"]["model_round"] == 1
    assert {row["model_round"] for row in rows} == {1}
    reply = olga.get("export")
    assert "attachment" in reply.headers["content-disposition"]
    (tmp_path / "model.skops").write_bytes(reply.content)
    X = Campaign.open(here.where).problem.pool.X
    assert len(ob.load_model(tmp_path / "model.skops").predict(X[:5])) == 5
    assert here.browser("ann").get("report").status_code == 403
    reply = olga.get("report")
    assert "attachment" in reply.headers["content-disposition"]
    assert "<!DOCTYPE html>" in reply.text


def test_export_breaks_off_measuring_and_the_rest_is_measured_afterwards(tmp_path):
    campaign = make_campaign(tmp_path / "c.db")
    for _ in range(2):
        query = campaign.ask()
        campaign.tell(query.ids, [truth_of(int(i)) for i in query.ids])
    sent, waiting = [], [("look", (1, Wanted()))]

    class Pipe:
        def recv(self):
            return waiting.pop(0) if waiting else ("stop", None)

        def poll(self):
            return bool(waiting)

        def send(self, message):
            if message[0] == "rounds" and not any(kind == "rounds" for kind, _ in sent):
                waiting.append(("request", (1, "write", ("model", str(tmp_path / "model.skops"), ""))))
            sent.append(message)

    _Process(str(tmp_path / "c.db"), Pipe()).run()
    assert [kind for kind, _ in sent] == ["looked", "rounds", "done", "looked", "rounds", "rounds", "rounds"]
    assert all(row["error"] for row in sent[-1][1])
    assert (tmp_path / "model.skops").exists()


def test_failing_method_is_reported_and_tried_again(here, monkeypatch):
    ann = here.browser("ann")
    rows = ann.ask(100)["rows"]
    plan = ob.NewtonVC.plan

    def fails(*_):
        raise ValueError("no plan today")

    monkeypatch.setattr(ob.NewtonVC, "plan", fails)
    ann.tell(truths(rows))
    for _ in range(1000):
        note = ann.post("ask", n=5).json()["note"]
        if "no plan today" in note:
            break
    assert "could not be chosen" in note
    monkeypatch.setattr(ob.NewtonVC, "plan", plan)
    assert len(ann.ask(5)["rows"]) == 5


def test_progress_reports_counts_and_pace(here, clock):
    ann = here.browser("ann")
    rows = truths(ann.ask(8)["rows"])
    ann.tell(rows[:2])
    clock(minutes=30)
    ann.ask(1)
    assert ann.get("status").json()["progress"]["labels_per_hour"] == pytest.approx(4, rel=0.05)
    clock(hours=2)
    assert ann.get("status").json()["progress"]["labels_per_hour"] is None


# -- people ---------------------------------------------------------------------------------------------------------


def test_people_are_added_listed_and_revoked_on_the_command_line(tmp_path):
    make_campaign(tmp_path / "c.db")
    run = lambda *a: observal("annotator", *a, cwd=tmp_path)  # noqa: E731
    assert "No people were added yet" in run("list", "c.db").stdout
    added = run("add", "c.db", "ann", "--role", "owner", "--url", "https://labels.example.org/")
    link = added.stdout.split()[-1]
    assert link.startswith("https://labels.example.org/login?token=")
    token = link.split("=")[1]
    assert token.encode() not in (tmp_path / "c.db").read_bytes()  # only its hash is stored
    assert json.loads(run("add", "c.db", "bob", "--json").stdout)["name"] == "bob"
    bare = run("add", "c.db", "bob").stdout  # which port the server has is not known here
    assert "by adding this to the address that observal serve prints: /login?token=" in bare
    listed = json.loads(run("list", "c.db", "--json").stdout)
    assert [(p["name"], p["role"], p["revoked"]) for p in listed] == [
        ("ann", "owner", None),
        ("bob", "annotator", None),
    ]
    assert "bob is signed out" in run("revoke", "c.db", "bob").stdout
    again = run("revoke", "c.db", "bob")
    assert again.returncode == 1
    assert "not among the people" in again.stderr
    assert "anyone" in run("add", "c.db", "anyone").stderr
    assert run("add", "c.db", "\x1b[31m").returncode == 1


def test_other_machines_are_let_in_only_if_people_were_added(tmp_path):
    make_campaign(tmp_path / "c.db")
    refused = observal("serve", "c.db", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)
    assert refused.returncode == 1
    assert "lets other machines in, but no people were added" in refused.stderr
    store = open_store(tmp_path / "c.db")
    check_host(store, "127.0.0.1")
    with store.writing() as transaction:
        people.add_person(transaction, "ann", "annotator")
    check_host(store, "0.0.0.0")
    with store.writing() as transaction:
        people.revoke_person(transaction, "ann")
    with pytest.raises(InvalidInput, match="no people were added"):
        check_host(store, "::")


def test_link_that_serve_prints_signs_the_owner_in(tmp_path):
    make_campaign(tmp_path / "c.db")
    store = open_store(tmp_path / "c.db")
    owner_link(store, "127.0.0.1", 1)
    owner_link(store, "127.0.0.1", 1)
    with store.reading() as transaction:
        assert [(p.name, p.role) for p in people.list_people(transaction)] == [("owner", "owner")]


# -- what a row shows -----------------------------------------------------------------------------------------------


def png(width=2, height=2):
    """Return a real PNG."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    lines = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def table_campaign(where, columns, n=40, labels=(0, 1), **settings):
    """Make a campaign from tables with an age and further columns, the same in log and pool."""
    rng = np.random.default_rng(0)
    age = rng.normal(40, 9, n).round(1)
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(n)], "age": age, **columns})
    log = frame.assign(id=[f"l{i}" for i in range(n)], bad=[labels[int(a > 40)] for a in age], q0=1.0)
    options = {
        "label": "bad",
        "propensity": "q0",
        "id": "id",
        "label_budget": n,
        "method": ob.NewtonVC(batch=n, ridge=0.01, tempering=0.5),
    }
    return Campaign.create(where, log, frame.assign(q0=0.5), **group_options({**options, **settings}))


def test_propensities_are_not_shown(tmp_path):
    made = table_campaign(tmp_path / "c.db", {"flag": [0, 1] * 20}, features=["age", "flag"])
    table = pa.table({"id": ["a", "b"], "age": [30.0, 40.0], "flag": [0, 1], "q0": [0.5, 0.1], "q1": [0.2, 1.0]})
    assert made.settings.propensities == PropensityOrigin(("q0",))
    for names, columns in ([("q0", "q1"), []], [("q0",), ["q1"]], [(), ["q0", "q1"]]):
        view = PoolView(table, replace(made.settings, propensities=PropensityOrigin(names)))
        assert view.columns == ["age", "flag", *columns]


def test_cells_have_the_kind_of_their_column(tmp_path, monkeypatch):
    n = 40
    columns = {
        "when": pd.date_range("2030-01-01", periods=n),
        "new": [i % 2 == 0 for i in range(n)],
        "town": ["Rome", "Oslo"] * (n // 2),
        "story": [f"{i} once upon a time there was a very long story about a loan" for i in range(n)],
        "hole": [None if i % 2 else 1.5 for i in range(n)],
        "huge": [2**60 + i for i in range(n)],
    }
    table_campaign(tmp_path / "c.db", columns, features=["age", "town"])
    with site(monkeypatch, tmp_path / "c.db") as found:
        rows = found.browser("ann").ask(n)["rows"]
    assert len(rows) == n
    row = rows[0]
    i = int(row["id"][1:])
    cells = {field["name"]: (field["kind"], field["value"]) for field in row["fields"]}
    assert list(cells) == ["age", "when", "new", "town", "story", "hole", "huge"]  # not the propensity
    assert cells["when"] == ("date", columns["when"][i].isoformat())
    assert cells["new"] == ("flag", columns["new"][i])
    assert cells["town"] == ("category", columns["town"][i])
    assert cells["story"] == ("text", columns["story"][i])
    assert cells["hole"] == (("missing", None) if i % 2 else ("number", 1.5))
    assert cells["huge"] == ("number", str(2**60 + i))


def test_pixels_are_one_field(tmp_path, monkeypatch):
    grid = {f"pixel_{i}_{j}": np.arange(40) % 17 for i in range(8) for j in range(8)}
    table_campaign(tmp_path / "c.db", grid)
    with site(monkeypatch, tmp_path / "c.db") as found:
        ann = found.browser("ann")
        row = ann.ask(1)["rows"][0]
        assert ann.get("me").json()["campaign"]["columns"] == ["pixels", "age"]
    first = row["fields"][0]
    assert (first["name"], first["kind"]) == ("pixels", "pixels")
    assert first["pixels"] == [[round(int(row["id"][1:]) % 17 / 16, 4)] * 8] * 8


def test_pixel_grid_recognises_pixel_columns():
    numbered = [f"p{i}" for i in range(12)]
    assert pixel_grid(numbered) == []
    assert pixel_grid([*numbered, "age"], (3, 4))[2] == ["p8", "p9", "p10", "p11"]
    assert pixel_grid(numbered, (4, 4)) == []
    assert pixel_grid(["x_1_1", "x_1_2", "x_2_1"]) == []
    assert pixel_grid([f"{i}x{j}" for i in range(4) for j in range(3)], (4, 3))[3][0] == "3x0"


def test_images_from_a_folder_and_in_base64_are_served(tmp_path, monkeypatch):
    (tmp_path / "photos" / "inner").mkdir(parents=True)
    for name in ("a.png", "inner/b.png"):
        (tmp_path / "photos" / name).write_bytes(png())
    inline = "data:image/png;base64," + base64.b64encode(png(3)).decode()
    names = ["a.png", "inner/b.png", inline, str(tmp_path / "photos" / "a.png")] * 10
    made = table_campaign(tmp_path / "c.db", {"photo": names}, images=tmp_path / "photos", image_column="photo")
    assert "photo" not in made.settings.features
    with site(monkeypatch, tmp_path / "c.db") as found:
        ann = found.browser("ann")
        assert ann.get("me").json()["campaign"]["image_column"] == "photo"
        for row in ann.ask(8)["rows"]:
            field = next(f for f in row["fields"] if f["name"] == "photo")
            assert field["kind"] == "image"
            reply = ann.client.get(field["image"])
            assert (reply.status_code, reply.headers["content-type"]) == (200, "image/png")
            assert reply.content == png(3 if int(row["id"][1:]) % 4 == 2 else 2)
            assert reply.headers["x-content-type-options"] == "nosniff"
    with site(monkeypatch, tmp_path / "c.db", images=tmp_path / "moved") as found:
        ann = found.browser("ann")
        cells = [f for row in ann.ask(40)["rows"] for f in row["fields"] if f["image"] and f["value"] == "a.png"]
        assert ann.client.get(cells[0]["image"]).status_code == 404


def test_init_takes_images_and_pixels(tmp_path):
    columns = {"id": [f"r{i}" for i in range(20)], "photo": ["a.png"] * 20, "p0": 0.0, "p1": np.arange(20.0), "q0": 0.5}
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "pool.csv", index=False)
    frame.assign(id=[f"l{i}" for i in range(20)], y=[0, 1] * 10).to_csv(tmp_path / "log.csv", index=False)
    tables = ("--logged", "log.csv", "--pool", "pool.csv", "--label", "y", "--propensity", "q0", "--id", "id")
    run = lambda *a: observal("init", "c.db", *tables, *a, cwd=tmp_path)  # noqa: E731
    assert "does not exist" in run("--images", "nowhere", "--image-column", "photo").stderr
    assert "no column 'foto'" in run("--image-column", "foto").stderr
    assert "needs the column" in run("--images", ".").stderr
    assert run("--pixels", "8by8").returncode == 2
    made = run("--images", ".", "--image-column", "photo", "--pixels", "1x2")
    assert made.returncode == 0, made.stderr
    show = Campaign.open(tmp_path / "c.db").settings.display
    assert show == Display(str(tmp_path), "photo", (1, 2))


class Transactions:
    """Transactions that only write down what happens in them."""

    def __init__(self):
        self.seen, self.failure = [], None

    @contextlib.contextmanager
    def __call__(self, write):
        self.seen.append("writing" if write else "reading")
        yield
        self.seen.append("stored")
        if self.failure:
            raise self.failure


def hold(thread):
    """Keep a desk's thread busy until the event that is returned; what is submitted meanwhile has to queue."""
    started, end = threading.Event(), threading.Event()
    thread.submit(lambda: started.set() or end.wait())
    started.wait()
    return end


def test_requests_that_wait_share_a_transaction_and_all_answers_come_first():
    transactions = Transactions()
    thread, seen = DeskThread(transactions, lambda: None), transactions.seen
    begin = hold(thread)
    for name, write in (("read", False), ("tell", True), ("ask", True), ("read again", False)):
        thread.submit(lambda name=name: seen.append(name), write)
    begin.set()
    thread.shutdown()
    assert seen == ["reading", "stored", "writing", "tell", "ask", "stored", "reading", "read", "read again", "stored"]


def test_nobody_hears_of_an_answer_before_it_is_stored_and_a_refusal_is_only_ones_own():
    transactions = Transactions()
    thread = DeskThread(transactions, lambda: None)
    begin = hold(thread)
    first = thread.submit(lambda: list(transactions.seen), write=True)
    refused = thread.submit(lambda: 1 / 0, write=True)
    last = thread.submit(first.done, write=True)
    begin.set()
    thread.submit(lambda: None).result()
    assert (last.result(), first.result()[-1]) == (False, "writing")
    with pytest.raises(ZeroDivisionError):
        refused.result()
    transactions.failure = CampaignUnavailable("The disk is full.")
    with pytest.raises(CampaignUnavailable):
        thread.submit(lambda: "stored", write=True).result()
    thread.shutdown()


def test_refused_request_takes_nothing_of_its_neighbours_along(here):
    ann, bob = here.browser("ann"), here.browser("bob")
    row, other = ann.ask(2)["rows"][:2]

    def write_and_fail(transaction, me):
        here.desk.engine.tell_own(transaction, [WrittenAnswer(other["id"], "good", "here")], me.name)
        return 1 / 0

    cookie, wrong = (browser.client.cookies[here.desk.cookie] for browser in (ann, bob))
    with here.desk.transaction(write=True):
        here.desk.answer(cookie, "one", truths([row]))
        with pytest.raises(Refused, match="never given to you"):
            here.desk.answer(wrong, "two", truths([other]))
        with pytest.raises(ZeroDivisionError):
            here.desk._once(cookie, "broken", ["tell"], write_and_fail)
        here.desk.answer(cookie, "three", truths([row]))
    stored = Campaign.open(here.where)
    assert stored.status().labels == 1
    assert stored.check().labels == 1


def test_error_of_the_database_fails_all_requests_of_the_transaction(here):
    ann = here.browser("ann")
    row = ann.ask(2)["rows"][0]
    cookie = ann.client.cookies[here.desk.cookie]

    def fail(transaction, me):
        transaction.connection.execute(sa.text("SELECT * FROM nowhere"))

    def answer_thrice():
        with here.desk.transaction(write=True):
            here.desk.answer(cookie, "one", truths([row]))
            with pytest.raises(sa.exc.OperationalError):
                here.desk._once(cookie, "two", ["tell"], fail)
            with pytest.raises(sa.exc.OperationalError):
                here.desk.answer(cookie, "three", truths([row]))

    with pytest.raises(CampaignUnavailable, match="nothing was stored"):
        answer_thrice()
    assert Campaign.open(here.where).status().labels == 0
    assert ann.tell(truths([row])).json()["labels"] == 1  # and the server goes on


def test_replies_are_sent_at_once():
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # asyncio sets TCP_NODELAY only then

"""Attacks through what observal writes: files, spreadsheets, the terminal, the report."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import observal as ob
import tests.command
from observal import files
from observal.campaign import Campaign, TableOptions
from observal.cli.output import printable
from observal.errors import CampaignExists, InvalidInput, ObservalError, hide_secrets
from observal.journal.answers import read_answers
from observal.problem.interval import Interval
from observal.report.campaign_report import write_campaign_report
from observal.report.charts import recall_chart
from observal.report.html import ReportContent, render_report, write_report
from observal.tables.spreadsheets import csv_rows, csv_text, guard_cell, restore_cell
from observal_research.figures import Line, draw_curves
from tests.campaigns import METHOD, make_campaign
from tests.postgres import postgres  # noqa: F401  a fixture


def observal(*arguments, code=0, **options):
    done = tests.command.invoke(*arguments, **options)
    if isinstance(done.exception, ObservalError | OSError):
        assert code == 1, done.exception
        return str(done.exception)
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path):
    campaign = make_campaign(tmp_path / "c.db")
    campaign.ask(3)
    return tmp_path / "c.db"


@pytest.fixture
def names_of_it(made):
    """Every name under which a careless or hostile user could hit the campaign or what belongs to it."""
    folder = made.parent
    os.symlink(made, folder / "link.html")
    os.link(made, folder / "hard.html")
    os.symlink(folder, folder / "same")
    os.symlink(folder / "c.db-wal", folder / "dangling.html")
    names = ["c.db", "link.html", "hard.html", "same/c.db", "same/same/c.db", "c.db-wal", "c.db-shm", "c.db-journal"]
    return [
        folder / name
        for name in [*names, "C.DB-WAL" if (folder / "C.DB").exists() else "same/c.db-wal", "dangling.html"]
    ]


@pytest.mark.parametrize("force", [False, True])
def test_nothing_is_ever_written_over_the_campaign(made, names_of_it, force):
    option = ["--force"] if force else []
    before = made.read_bytes()
    listing = sorted(os.listdir(made.parent))
    for target in names_of_it:
        assert "never replaced" in observal("report", made, "-o", target, *option, code=1), target
        assert "never replaced" in observal("export", made, target, *option, code=1), target
        assert observal("ask", made, "-o", target, code=1)
        assert observal("ask", made, "--json", "-o", target, code=1)
        for write in (files.write_text, lambda path, text, force: Campaign.open(made).export(path, force)):
            with pytest.raises(InvalidInput, match="never replaced"):
                write(target, "x", force)
    assert made.read_bytes() == before
    assert sorted(os.listdir(made.parent)) == listing
    assert Campaign.open(made).status().open_rows == 8


def test_another_campaign_is_not_overwritten_either(made, tmp_path):
    other = tmp_path / "other.db"
    make_campaign(other)
    assert "never replaced" in observal("export", made, other, "--force", code=1)
    assert Campaign.open(other).status().labels == 0


def test_other_files_are_replaced_only_with_force(made, tmp_path):
    page, model = tmp_path / "report.html", tmp_path / "loans.model"
    for file, command in ((page, ["report", made, "-o", page]), (model, ["export", made, model])):
        file.write_text("mine")
        assert f"{file} already exists; choose another path, or pass --force" in observal(*command, code=1)
        assert file.read_text() == "mine"
        observal(*command, "--force")
        assert file.read_bytes() != b"mine"
    with pytest.raises(InvalidInput, match="already exists"):
        write_campaign_report(Campaign.open(made), page)
    write_campaign_report(Campaign.open(made), page, force=True)
    assert not [name for name in os.listdir(tmp_path) if "part" in name]


def test_folders_devices_and_zero_bytes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path, "/", "", tmp_path / "pipe", "/dev/null", "a\0b"):
        with pytest.raises(InvalidInput):
            files.check_target(target, force=True)
    with pytest.raises(FileNotFoundError, match=r"no/x\.txt"):
        files.write_text(tmp_path / "no" / "x.txt", "x")


def full_disk(*arguments, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupted(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
@pytest.mark.parametrize("trouble", [full_disk, interrupted])
def test_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step, trouble):
    target, new = tmp_path / "a.txt", tmp_path / "b.txt"
    target.write_text("before")
    for path, force in ((target, True), (new, False)):
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt, OSError):
            patch.setattr(os, step, trouble)
            files.write_text(path, "after" * 9999, force)
            assert step == ("link" if force else "replace")  # this way does not take that step
            target.write_text("before")
            new.unlink(missing_ok=True)
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_full_disk_does_not_block_the_next_ask(made, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full_disk)
        assert "No space left" in observal("ask", made, "-n", 3, "-o", tmp_path / "l.csv", code=1)
        assert "No space left" in observal("ask", made, "--json", "-o", tmp_path / "l.json", code=1)
    assert sorted(os.listdir(tmp_path)) == ["c.db"]
    assert "3 rows to label" in observal("ask", made, "-n", 3, "-o", tmp_path / "l.csv")


def test_full_disk_is_reported(made, tmp_path):
    """A limit on the size of files fails a write as a full disk does, without any rights."""
    code = """
import resource, signal, sys
from observal import files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    files.write_text(sys.argv[1], "x" * 100_000)
except OSError as error:
    assert error.filename == sys.argv[1], error
    print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr
    assert os.listdir(tmp_path) == ["c.db"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    code = """
import sys, time
from observal import files
with files.writing(sys.argv[1]) as file:
    file.write(b"half"); file.flush(); print("in it", flush=True); time.sleep(60)
"""
    target = tmp_path / "report (1) [x].html"
    process = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
    process.stdout.readline()
    assert len(os.listdir(tmp_path)) == 1
    files.remove_stale(target)
    assert len(os.listdir(tmp_path)) == 1  # it is alive
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(os.listdir(tmp_path)) == 1
    files.write_text(target, "whole")
    assert os.listdir(tmp_path) == [target.name]


def test_only_our_own_leftovers_are_removed(tmp_path):
    dead = 999_999_999
    stale = [
        f".a.txt.{dead}-0123abcd.part",
        f"a.txt.{dead}.part",
        f"a.txt.{dead}.part-journal",
        f"a.txt.{'9' * 30}.part",
    ]
    kept = [
        f".b.txt.{dead}-0123abcd.part",
        f"a.txt.{os.getpid()}.part",
        "a.txt.part",
        f"xa.txt.{dead}.part",
        f"aatxt.{dead}.part",
    ]
    for name in [*stale, *kept]:
        (tmp_path / name).touch()
    os.symlink(tmp_path / kept[0], tmp_path / f"a.txt.{dead - 1}.part")
    os.mkdir(tmp_path / f"a.txt.{dead - 2}.part")
    files.remove_stale(tmp_path / "a.txt")
    assert set(os.listdir(tmp_path)) == {*kept, f"a.txt.{dead - 1}.part", f"a.txt.{dead - 2}.part"}


def test_locked_leftover_is_kept(tmp_path):
    """A process in another container has another number, but holds the lock."""
    import fcntl

    path = tmp_path / ".a.txt.999999999-0123abcd.part"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        files.remove_stale(tmp_path / "a.txt")
        assert path.exists()
    files.remove_stale(tmp_path / "a.txt")
    assert not path.exists()


def test_links_are_not_followed_and_permissions_are_kept(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0123abcd")
    planted = tmp_path / f".a.txt.{os.getpid()}-0123abcd.part"
    os.symlink(victim, planted)
    with pytest.raises(FileExistsError):
        files.write_text(tmp_path / "a.txt", "x")
    planted.unlink(missing_ok=True)
    os.symlink(victim, tmp_path / "a.txt")
    with pytest.raises(InvalidInput, match="already exists"):
        files.write_text(tmp_path / "a.txt", "x")
    files.write_text(tmp_path / "a.txt", "x", force=True)
    assert victim.read_text() == "mine"
    old = os.umask(0o027)
    try:
        files.write_text(tmp_path / "new", "x")
        victim.chmod(0o600)
        files.write_text(victim, "x", force=True)
    finally:
        os.umask(old)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert victim.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("links", [True, False])
def test_of_many_writers_one_wins_and_the_others_are_refused(tmp_path, monkeypatch, links):
    if not links:  # as a USB stick: no hard links

        def no_links(*arguments, **options):
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_links)
    together, refused = threading.Barrier(8), []

    def run(number):
        try:
            with files.writing(tmp_path / "a.txt") as file:
                file.write(b"%d" % number * 10_000)
                together.wait()
        except InvalidInput:
            refused.append(number)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = (tmp_path / "a.txt").read_text()
    assert content == content[0] * 10_000
    assert {*refused, int(content[0])} == set(range(8))
    assert len(refused) == 7
    assert os.listdir(tmp_path) == ["a.txt"]


def test_long_names_fit(tmp_path):
    for name in ("x" * 255, "ü" * 127):
        files.write_text(tmp_path / name, "x")
    assert len(os.listdir(tmp_path)) == 2


def test_demo_replaces_only_a_demo(tmp_path):
    from observal.cli.demo import run_demo

    make_campaign(tmp_path / "demo.db")
    with pytest.raises(CampaignExists, match="no earlier demo made it"):
        run_demo(tmp_path)
    assert Campaign.open(tmp_path / "demo.db").status().label_budget == 32
    (tmp_path / "demo.db").write_text("notes")
    with pytest.raises(CampaignExists, match="no earlier demo made it"):
        run_demo(tmp_path)


# -- addresses -------------------------------------------------------------------------------------------------------

SECRET = "S3CRET"
ADDRESSES = [
    "postgresql://S3CRET:S3CRET@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=S3CRET&password=S3CRET",
    "postgres://ann:S3CRET@127.0.0.1:1/db?sslpassword=S3CRET&passfile=/S3CRET&pass%77ord=S3CRET",
    "POSTGRESQL+psycopg://ann:S3CRET@127.0.0.1:1/db?options=S3CRET&service=S3CRET&unknown=S3CRET",
    "postgresql://ann:a@S3CRET@127.0.0.1:1/db",
    "postgresql://ann:a/S3CRET?S3CRET:S3CRET@127.0.0.1:1/db",
    "postgresql://ann:a S3CRET 'S3CRET'@127.0.0.1:1/db",
    "postgresql://ann/x:S3CRET@127.0.0.1:1/db",
    "postgresql://ann:S3CRET@127.0.0.1:port/db",
    "postgresql://ann:S3CRET@[::1/db",
    "postgresql://ann:S3CRET",
    "postgresql:/ann:S3CRET@127.0.0.1/db",
    "postgresql://ann:S3CRET@h/db?host=h&host=k&port=1,2",
    "mysql://ann:S3CRET@127.0.0.1/db?password=S3CRET",
    "s3://S3CRET:S3CRET@bucket/log.parquet?secret_key=S3CRET",
    "host=127.0.0.1 user=ann password=S3CRET",
]


def run_everywhere(address, folder):
    """Yield every command with an address in place of each file that it reads."""
    tables = ("--label", "y", "--propensity", "q0", "--id", "id")
    log, pool = folder / "logged.parquet", folder / "pool.parquet"
    yield "init", address, "--logged", log, "--pool", pool, *tables
    yield "init", folder / "x.db", "--logged", address, "--pool", pool, *tables
    yield "init", folder / "x.db", "--logged", log, "--pool", address, *tables
    yield "diagnose", address
    yield "diagnose", address, "--pool", pool, *tables
    for command in ("ask", "status", "report", "history", "check"):
        yield command, address
        yield command, address, "--json"
        yield command, address, "--debug"
        yield command, folder / "c.db", address
    yield "ask", folder / "c.db", "--dask", address
    yield "tell", address, folder / "labels.csv"
    yield "tell", folder / "c.db", address
    yield "release", address, "--annotator", "ann"
    yield "extend", address, "--budget", 50
    yield "extend", folder / "c.db", "--pool", address
    yield "export", address, folder / "m.model"
    yield "serve", address
    yield "serve", folder / "c.db", "--port", address
    yield "annotator", "add", address, "ann"
    yield "annotator", "revoke", address, "ann"
    yield "annotator", "list", address
    yield address, folder / "c.db"


@pytest.mark.parametrize("address", ADDRESSES)
def test_commands_that_fail_show_no_secret_of_an_address(tmp_path, address):
    frame = pd.DataFrame({"id": range(30), "x": np.arange(30.0), "q0": 0.5, "y": ["a", "b", None] * 10})
    frame.to_parquet(tmp_path / "logged.parquet")
    frame.drop(columns="y").to_parquet(tmp_path / "pool.parquet")
    (tmp_path / "labels.csv").write_text("id,y\n1,a\n")
    make_campaign(tmp_path / "c.db")
    for arguments in run_everywhere(address, tmp_path):
        done = tests.command.observal(*arguments, cwd=tmp_path)
        assert done.returncode in (1, 2), (arguments, done)
        assert SECRET not in done.stdout + done.stderr, (arguments, done.stdout + done.stderr)


def test_commands_that_work_show_no_secret_of_an_address(tmp_path, postgres):  # noqa: F811
    frame = pd.DataFrame({"id": range(60), "x": np.arange(60.0) % 7, "q0": 0.5, "y": ["a", "b", None] * 20})
    frame.to_csv(tmp_path / "logged.csv", index=False)
    frame.drop(columns="y").assign(id=range(60, 120)).to_csv(tmp_path / "pool.csv", index=False)
    user, place = postgres().split("@")
    address = f"{user}:{SECRET}@{place.replace('?', '?application_name=shown&')}&passfile=/{SECRET}"
    tables = ("--label", "y", "--propensity", "q0", "--id", "id", "--method", "newton", "--batch", 3)
    log, pool = tmp_path / "logged.csv", tmp_path / "pool.csv"
    shown = f"postgresql://***@{place.split('?')[0]}?application_name=shown&options=***&passfile=***"
    for arguments, sentence in [
        (
            ("init", address, "--logged", log, "--pool", pool, *tables),
            'Next: observal ask "$CAMPAIGN" -n 3 --csv -o labels.csv, where CAMPAIGN is',
        ),
        (("init", address, "--logged", log, "--pool", pool, *tables), "already exists"),
        (("ask", address, "-n", 1, "--annotator", "ann", "-o", tmp_path / "l.csv"), "to label"),
        (("diagnose", address), "log"),
        (("status", address, "--interval"), "error"),
        (("status", address, "--json"), "labels"),
        (("history", address), "round 1 opens"),
        (("history", address, "--json"), "details"),
        (("check", address, "--json"), "digest"),
        (("annotator", "add", address, "ann"), "/login?token="),
        (("annotator", "revoke", address, "ann"), 'observal release "$CAMPAIGN" --annotator ann'),
        (("serve", address, "--host", "0.0.0.0"), "add people first"),
        (("report", address, "-o", address), "is an address, but a file is needed"),
        (("report", address, "-o", tmp_path / "r.html"), "Report:"),
        (("export", address, tmp_path / "m.model"), "m.model"),
    ]:
        done = tests.command.observal(*arguments)
        assert sentence in done.stdout + done.stderr, (arguments, done)
        assert SECRET not in done.stdout + done.stderr, (arguments, done)
    written = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert SECRET not in written
    assert "***@127.0.0.1" in written
    assert SECRET.encode() not in (tmp_path / "m.model").read_bytes()
    campaign = Campaign.open(address)
    assert campaign.engine.journal.name == shown


def test_page_and_its_log_show_no_secret_of_an_address(postgres):  # noqa: F811
    import logging.config

    from observal.journal.sql.store import open_store
    from observal.server.serving import LOGGING

    user, place = postgres().split("@")
    make_campaign(f"{user}:{SECRET}@{place}")
    assert open_store(f"{user}:{SECRET}@{place}").title == "postgres"
    assert open_store(f"{user}:{SECRET}@{place.replace('/postgres?', '?dbname=postgres&')}").title == "127.0.0.1"
    formatter = LOGGING["formatters"]["lines"]["()"]("%(message)s")
    record = logging.makeLogRecord({"msg": "failed: %s", "args": (f"{user}:{SECRET}@{place}",)})
    assert SECRET not in formatter.format(record)


@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(["password", "sslpassword", "user", "p%61ssword"]))
def test_no_password_shows_through_an_address(before, after, key):
    from urllib.parse import quote

    secret = f"{before}{SECRET}{after}".replace("\n", "")
    for address in (
        f"postgresql://{secret}:{secret}@host/db",
        f"postgresql://{quote(secret, safe='')}@host:5432/db?sslmode=require",
        f"postgresql://host/db?connect_timeout=3&{key}={quote(secret, safe='')}",
        f"https://ann:{quote(secret, safe='')}@host/page?sslpassword={quote(secret, safe='')}&x=1",
    ):
        for text in (address, f"{address} failed; try again.", f"The file {address!r} is missing ('{address}')."):
            hidden = hide_secrets(text)
            assert SECRET not in hidden
            assert "host" in hidden
            assert hide_secrets(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "campaign.db",
        "/home/ann@work/c.db",
        "C:/Users/ann@work/c.db",
        "https://example.org/@ann/page?id=3&page=2",
        "postgresql://host:5432/db?sslmode=require",
        "postgresql://[::1]:5432/db",
        "The Dask scheduler at tcp://10.0.0.1:8786 cannot be reached.",
    ],
)
def test_text_without_secrets_is_shown_as_it_is(text):
    assert hide_secrets(text) == text


def test_errors_and_warnings_hide_secrets():
    address = "postgresql://ann:S3CRET@host/db?password=S3CRET"
    for message in (InvalidInput(address), ob.errors.ObservalWarning(address), ob.errors.ClusterUnavailable(address)):
        assert str(message) == "postgresql://***@host/db?password=***"


# -- blank means not yet ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_file_with_nothing_filled_in_stores_nothing(made, tmp_path, ending):
    file = tmp_path / f"l.{ending}"
    observal("ask", made, "-n", 8, *(["--json"] if ending == "json" else []), "-o", file)
    before = Campaign.open(made).history()
    assert observal("tell", made, file) == f"{file} has no answers yet; nothing was stored.\n"
    assert json.loads(observal("tell", made, file, "--json"))["blank"] == 8
    assert len(Campaign.open(made).history()) == len(before)
    assert (
        observal("tell", made, "-", input=b"id,label\n") == "Standard input has no answers yet; nothing was stored.\n"
    )


def test_half_filled_file_leaves_the_rest_open(made, tmp_path):
    ids = Campaign.open(made).ask(8).ids
    file = tmp_path / "l.csv"
    file.write_text(f"id,label\n{ids[0]},good\n{ids[1]}, \n{ids[2]},\n{ids[3]}, SKIP \n")
    assert observal("tell", made, file).startswith("1 label stored, 1 row skipped, 2 rows left blank. ")
    assert observal("tell", made, file).startswith("2 answers already known, 2 rows left blank; nothing changed. ")
    file.write_text(f"id,label\n{ids[0]},\n")
    observal("tell", made, file, "--correct")  # a blank takes no label away
    status = Campaign.open(made).status()
    assert (status.labels, status.skipped, status.open_rows) == (1, 1, 6)
    file = tmp_path / "l.json"
    file.write_text(
        json.dumps(
            [{"id": i, "label": label} for i, label in zip(ids[4:], [None, "", float("nan"), "skip"], strict=True)]
        )
    )
    assert observal("tell", made, file).startswith("1 row skipped, 3 rows left blank.")


def test_in_python_none_skips_and_an_empty_text_does_not(made):
    campaign = Campaign.open(made)
    ids = campaign.ask(4).ids
    receipt = campaign.tell(ids, [None, float("nan"), "", " "])
    assert (receipt.labels, receipt.skips, receipt.blank) == (0, 2, 2)
    assert str(campaign.tell(ids[2:], ["", ""])) == "There are no answers yet, so nothing was stored."


def test_class_may_be_called_skip(tmp_path):
    X = np.linspace(-1, 1, 60)[:, None]
    logged = ob.LoggedData(X, np.where(X[:, 0] > 0.1, "good", "skip"), propensity=1.0)
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, ob.Pool(X, 0.5), label_budget=9, method=METHOD)
    ids = campaign.ask(4).ids
    receipt = campaign.tell(ids[:2], ["skip", None])
    assert (receipt.labels, receipt.skips) == (1, 1)
    told = campaign.tell_file("l.csv", text=f"id,label\n{ids[2]},Skip\n{ids[3]},\n")
    assert (told.labels, told.skips, told.blank) == (1, 0, 1)


# -- spreadsheets ----------------------------------------------------------------------------------------------------

FORMULAS = [
    '=HYPERLINK("http://x","y")',
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    " =1+1",
    "＝1+1",
    "＋1",
    "－1",
    "＠x",
    "'=1+1",
    "''=1+1",
    "x;=1+1;y",
    "x\t=1+1",
    "x\n=1+1",
    "x\r@SUM(1);",
    'x";=1+1;"',
]
TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("=+-@'\t\r\n\0\ufeff,;\" ＝－5."), max_size=12
)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("attack", FORMULAS)
def test_csv_contains_no_formula(attack, separator):
    """Whatever separator a spreadsheet is set to, and whether or not it minds quotes, no cell begins as a formula does."""
    text = csv_text([["id", attack], [attack, attack], [1, attack]])
    loose = [cell.strip('"').lstrip(" ") for line in re.split(r"[\r\n]", text) for cell in line.split(separator)]
    strict = [cell.lstrip(" ") for _, row in csv_rows(csv_text([[attack]]), ",") for cell in row]
    for cell in [*strict, *(loose if separator != "," else [])]:
        assert not re.match("[=+@\t\r\n＝＋－＠]|-(?![0-9.]+$)", cell), (cell, text)


def test_numbers_stay_numbers():
    assert csv_text([[-3.5, -2, "-5", "-5.25", True, None]]) == "-3.5,-2,-5,-5.25,True,\n"
    assert guard_cell("+5") == "'+5"
    assert guard_cell("-0x") == "'-0x"
    assert guard_cell("-5\n") == "'-5\n"


@given(TEXT, TEXT)
def test_guarded_text_comes_back_and_stays_different(a, b):
    assert restore_cell(guard_cell(a)) == a
    assert (guard_cell(a) == guard_cell(b)) == (a == b)


@given(
    st.lists(TEXT, min_size=3, max_size=5, unique=True),
    st.lists(TEXT, min_size=1, max_size=5, unique=True),
    st.sampled_from(["yes", "-1", "=x", "skip", "", " "]),
    st.sampled_from([str, "\ufeff{}".format]),
)
def test_any_id_and_any_column_comes_back_from_the_file(columns, ids, label, saved):
    """As ask --csv writes it: the id first, the label last, anything in between."""
    id_name, *between, label_name = columns
    rows = [[row, *(FORMULAS[k % 20] for k, _ in enumerate(between)), label] for row in ids]
    text = saved(csv_text([[id_name, *between, label_name], *rows]))
    answers, blank = read_answers("l.csv", id_name, label_name, text)
    if label.strip():
        assert [answer.id for answer in answers] == ids
        assert {restore_cell(answer.label) for answer in answers} == {label}
    else:
        assert (answers, blank) == ([], len(ids))


def test_cells_of_other_columns_cannot_answer_for_a_row():
    """Under semicolons this header has an id and a label as well, with more columns; ours has the id first, the label last."""
    between = "a;id;y;b;c;d;e;f;g"
    text = csv_text([["id", between, "y"], ["r1", "x;r2;yes;;;;;;", "no"]])
    assert [(a.id, a.label) for a in read_answers("l.csv", "id", "y", text)[0]] == [("r1", "no")]
    saved_with_semicolons = "id;a,id,y,b,c,d;y\nr1;x,r2,yes,,,;no\n"
    assert [(a.id, a.label) for a in read_answers("l.csv", "id", "y", saved_with_semicolons)[0]] == [("r1", "no")]


@pytest.mark.parametrize(
    "cell", ["x" * 200_000, "a\rb", "a\nb", "a\r\nb", "a\0b", "\ufeffa", "\x1b[31m", "a\x85b\u2028c", '"', "'"]
)
def test_strange_cells_come_back(cell, tmp_path):
    (tmp_path / "l.csv").write_bytes(csv_text([["id", "x", "y"], [cell, cell, "no"], ["r2", cell, "yes"]]).encode())
    answers, _ = read_answers(tmp_path / "l.csv", "id", "y")
    assert [(answer.id, answer.label) for answer in answers] == [(cell, "no"), ("r2", "yes")]


def test_deeply_nested_json_is_refused(made, tmp_path):
    (tmp_path / "l.json").write_text("[" * 200_000)
    assert "must be JSON" in observal("tell", made, tmp_path / "l.json", code=1)


# -- a campaign whose every name is an attack ------------------------------------------------------------------------

STEER = "\x1b[31m\x1b]0;owned\x07\x9b2J\u202etxt\u2066\r\n\x08"
NO, YES = f"-no{STEER}", "$\\frac{"
ID, LABEL = "=id", "@label;x"
MARKUP = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "</title><svg onload=x>",
]


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """Rows, columns, classes and ids that attack spreadsheets, terminals, rich's markup, matplotlib and HTML."""
    folder = tmp_path_factory.mktemp("nasty")
    rng = np.random.default_rng(0)
    n = 80
    X = rng.normal(size=(2 * n, 2))
    frame = pd.DataFrame({"[/red]$x^": X[:, 0], f"{MARKUP[0]}{STEER}": X[:, 1], "id;y;@label;x;;;;": "=1+1"})
    texts = [*FORMULAS, *MARKUP, STEER, "[/bold]", "a\rb", "-5", "'tis", " spaced ", "x" * 140_000, "NUL\0"]
    frame.insert(0, ID, [f"{texts[k % len(texts)]}{k // len(texts) or ''}" for k in range(2 * n)])
    frame["q0"] = 0.5
    frame[LABEL] = np.where(X[:, 0] > 0, YES, NO)
    log, pool = frame[:n].copy(), frame[n:].drop(columns=LABEL)
    log.loc[rng.random(n) > 0.5, LABEL] = None
    where = folder / "c.db"
    Campaign.create(
        where,
        log,
        pool,
        label=LABEL,
        propensity="q0",
        id=ID,
        label_budget=32,
        method=METHOD,
        tables=TableOptions(propensity_floor=0.1),
    )
    return where, dict(frame[[ID, LABEL]].to_numpy().tolist())


def test_answers_come_back_from_any_file(nasty):
    where, truth = nasty
    for number in range(4):
        file = where.parent / f"{number}.csv"
        observal("ask", where, "-o", file, "--annotator", "[/ann]")
        text = file.read_bytes().decode()
        header, *rows = [row for _, row in csv_rows(text, ",")]
        assert header[0] == "'=id"
        assert header[-1] == "'@label;x"
        written = [[*row[:-1], truth[restore_cell(row[0])]] for row in rows]  # classes as a person writes them
        quoted = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in [header, *written]]
        file.write_bytes("".join(",".join(row) + "\r\n" for row in quoted).encode("utf-8-sig"))
        assert observal("tell", where, file, "--annotator", "[/ann]").startswith("8 labels stored.")
    entries = Campaign.open(where).history()
    told = [answer for entry in entries if entry.kind == "answered" for answer in entry.details["answers"]]
    assert len(told) == 32
    assert all(answer["label"] == truth[answer["id"]] for answer in told)


AS_PROCESSES = (["status", "{}"], ["status", STEER], ["--debug", "status", STEER])  # again in a new process


@pytest.mark.parametrize(
    "command",
    [
        ["ask", "{}", "--annotator", STEER],
        ["ask", "{}", "--json", "--annotator", STEER],
        ["status", "{}"],
        ["status", "{}", "--json"],
        ["history", "{}"],
        ["history", "{}", "--json"],
        ["diagnose", "{}"],
        ["diagnose", "{}", "--json"],
        ["release", "{}", "--annotator", STEER],
        ["report", "{}", "-o", "{}" + STEER[:-3] + ".html", "--title", STEER],
        ["tell", "{}", STEER],
        ["tell", "{}", "{}.csv"],
        ["status", STEER],
        ["status", "{}", STEER],
        [f"--{STEER}"],
        [STEER],
        ["ask", "{}", "-n", STEER],
        ["--debug", "status", STEER],
    ],
)
def test_nothing_that_is_printed_steers_the_terminal(nasty, command):
    where, truth = nasty
    strange = next(row for row in truth if STEER in row)
    (where.parent / "c.db.csv").write_text(csv_text([[ID, LABEL], [f"{strange}?", f"{NO}?"]]), newline="")
    arguments = [part.replace("{}", str(where)) for part in command]
    done = tests.command.observal(*arguments)
    check_harmless_to_terminals(done, command)
    if command in AS_PROCESSES:
        run = [sys.executable, "-m", "observal", *arguments]
        there = subprocess.run(run, capture_output=True, encoding="utf-8", check=False)
        check_harmless_to_terminals(there, command)
        assert there.returncode == done.returncode


def check_harmless_to_terminals(done, command):
    for said in (done.stdout, done.stderr):
        assert said.encode().decode() == said  # half a character cannot be written
        assert not re.search(r"[^\n -~\xa0-\u061b\u061d-\u200d\u2010-\u2027\u202f-\u2065\u206a-\U0010ffff]", said), said
        assert "Traceback" not in said or "--debug" in command
    if done.returncode == 1 and "--debug" not in command:
        assert done.stderr.count("\n") == 1


def test_json_says_the_same_though_it_is_escaped(nasty):
    where, truth = nasty
    observal("ask", where, "-o", where.parent / "asked.csv")
    rows = json.loads(observal("history", where, "--json"))
    ids = {i for entry in rows for i in entry["details"].get("ids", ())}
    assert ids or rows[-1]["kind"] == "finished"
    assert ids <= set(truth)
    assert rows[0]["details"]["classes"] == [NO, YES]  # the rarer one last


def test_csv_contains_no_terminal_controls(nasty, monkeypatch, capsys):
    from observal.cli import output

    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True, raising=False)
    output.write_csv(None, ["id"], [{"id": STEER}])
    assert "\x1b" not in capsys.readouterr().out


def test_lone_surrogates_are_printed(capsys):
    assert printable("\ud800") == "\\ud800"
    assert printable("äöü ± γ1 漢字 👍🏽 e\u0301") == "äöü ± γ1 漢字 👍🏽 e\u0301"


# -- the report ------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags and attributes that a browser would find."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


def check_harmless(page):
    found = Tags(page)
    assert not found.tags & {"script", "img", "iframe", "object", "embed", "form", "base", "link", "foreignobject"}
    links = [(name, value) for tag, name, value in found.attributes if tag == "a"]  # of the contents list alone
    assert all(name == "href" and re.fullmatch("#[a-z-]+", value) for name, value in links)
    for _, name, value in found.attributes:
        assert not name.startswith("on")
        assert "javascript:" not in value.lower()
        assert name not in ("href", "xlink:href", "src") or value.startswith("#")


def test_report_of_hostile_campaign_is_harmless(nasty):
    where, _ = nasty
    campaign = Campaign.open(where)  # once: what it has fitted serves both
    for number, title in enumerate([" ".join(MARKUP), STEER]):  # below, each is a title of its own
        path = write_campaign_report(campaign, where.parent / f"{number}.html", title, command=MARKUP[0])
        check_harmless(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "attack",
    [*MARKUP, "' onload='x", "{{ 7*7 }}", "]]><script>x</script>", "--><script>x</script>", 'id="x', "#1f2328"],
)
def test_names_never_become_markup(attack):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] > 0, attack, "no")
    logged = ob.LoggedData(X[:60], y[:60], propensity=1.0)
    pool = ob.Pool(X[60:], 0.5, ids=[f"{attack}{k}" for k in range(60)])
    result = ob.run(logged, pool, lambda ids: [y[60 + int(i[len(attack) :])] for i in ids], METHOD, label_budget=8)
    names = [attack, f"{attack} too"]
    page = render_report(
        ReportContent(
            attack,
            logged,
            pool,
            result,
            ob.diagnose(logged, pool, feature_names=names),
            names,
            settings={attack: attack},
            versions={attack: attack},
            command=attack,
            notes=[attack],
            annotators=[{attack: attack}],
            made=attack,
        )
    )
    check_harmless(page)
    assert "49" not in re.findall(r"<title>(.*?)</title>", page)
    from markupsafe import escape

    found = Interval(0.5, 0.4, 0.6, 0.95, "cells")
    figure = recall_chart([(0.5, found)], (0.3, found), attack).svg
    check_harmless(figure)
    texts = re.findall(r"<text[^>]*>(.*?)</text>", figure, re.DOTALL)
    shown = str(escape(attack)).replace("&#34;", '"').replace("&#39;", "'")
    assert any(shown[:30] in text for text in texts), texts  # as it is, in the figure as well


@pytest.mark.parametrize("name", ["$\\frac{", "$x^2$", "$$", "\\$", "$\\input{/etc/passwd}$"])
def test_dollar_signs_in_names_are_not_formulas(name, tmp_path):
    labels = np.arange(3)
    line = Line(name, labels, labels / 9, labels / 99)
    draw_curves({name: [line]}, [tmp_path / "f.svg", tmp_path / "f.png"], caption=name, y_title=name, x_title=name)
    assert (tmp_path / "f.svg").read_text(encoding="utf-8").count(f">{name}<") >= 3


def test_report_is_not_overwritten_without_force(tmp_path):
    X = np.linspace(0, 10, 60)[:, None]
    logged, pool = ob.LoggedData(X, X[:, 0] > 4, propensity=1.0), ob.Pool(X, 0.5)
    content = ReportContent("x", logged, pool, ob.run(logged, pool, lambda ids: X[ids, 0] > 4, METHOD, label_budget=4))
    write_report(tmp_path / "r.html", content)
    with pytest.raises(InvalidInput, match="already exists"):
        write_report(tmp_path / "r.html", content)
    write_report(tmp_path / "r.html", content, force=True)

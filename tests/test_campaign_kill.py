"""A campaign survives what happens to processes: SIGKILL at any moment, and eight of them at once."""

from __future__ import annotations

import contextlib
import multiprocessing

import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.campaign import Campaign, load_model
from observal.journal.replay import Replay
from tests.campaigns import METHOD, make_campaign, small_data, truth_of, work
from tests.command import observal
from tests.postgres import postgres  # noqa: F401  a fixture

# Children are forked from a server that has imported everything and computed nothing: quick, and no thread is lost.
CONTEXT = multiprocessing.get_context("forkserver")
OURS = ("__main__", "tests.campaigns", "tests.command", "observal.methods.newton")
THEIRS = ("scipy.special", "pyarrow.pandas_compat", "pandas", "joblib", "threadpoolctl", "psycopg")
DIALECTS = ("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg")
CONTEXT.set_forkserver_preload([*OURS, *THEIRS, *DIALECTS])


def start(*arguments):
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=work, args=(*arguments, there))
    process.start()
    there.close()
    return process, here


def drain(connection):
    """Return all messages that a process has sent before it ended."""
    messages = []
    with contextlib.suppress(EOFError, OSError):
        while True:
            messages.append(connection.recv())
    connection.close()
    return messages


def recorded(where):
    """Return the rows of each round, and every answer, as the journal has them."""
    events = Campaign.open(where).history()
    rounds = [e.details["ids"] for e in events if e.kind == "round"]
    answers = [(a["id"], a["label"]) for e in events if e.kind == "answered" for a in e.details["answers"]]
    return rounds, answers


def uninterrupted(where, n):
    """Return what is asked for, call by call, when nothing goes wrong."""
    campaign, asked = make_campaign(where), []
    while batch := campaign.ask(n):
        asked.append(list(batch.ids))
        campaign.tell(batch.ids, [truth_of(i) for i in batch.ids])
    return asked


def run_command(connection, arguments, folder):
    """Run a command, as a process of its own does."""
    connection.send("started")
    observal(*arguments, cwd=folder)


def commands_for(rng, folder, number):
    """Return a random command on the campaign of a folder, and the files that it writes."""
    tables = ("--label", "y", "--propensity", "q0", "--id", "id", "--method", "newton", "--batch", 4)
    asked = sorted(folder.glob("ask-*.csv"))
    commands = [
        (("init", f"new-{number}.db", "--logged", "logged.csv", "--pool", "pool.csv", *tables), f"new-{number}.db"),
        (("ask", "c.db", "-n", 4, "--csv", "-o", f"ask-{number}.csv"), f"ask-{number}.csv"),
        (("extend", "c.db", "--budget", 10_000 + number), None),
        (("export", "c.db", f"export-{number}.model"), f"export-{number}.model"),
        (("release", "c.db"), None),
        *((("tell", "c.db", path.name), None) for path in asked[-3:]),
    ]
    return commands[int(rng.integers(len(commands)))]


def fill(path):
    """Answer all rows of a file that ask wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0], *(f"{line}{'ab'[len(line) % 2]}" for line in lines[1:])]), encoding="utf-8")


@pytest.mark.parametrize("kills", [5, pytest.param(800, marks=pytest.mark.slow)])
def test_killed_command_leaves_whole_files_and_a_sound_campaign(tmp_path, kills):
    rng = np.random.default_rng(kills)
    frame = pd.DataFrame({"id": range(60), "x": np.arange(60.0) % 7, "q0": 0.5, "y": ["a", "b", None] * 20})
    frame.to_csv(tmp_path / "logged.csv", index=False)
    frame.drop(columns="y").assign(id=range(60, 4000, 66)[:60]).to_csv(tmp_path / "pool.csv", index=False)
    tables = ("--label", "y", "--propensity", "q0", "--id", "id", "--method", "newton", "--batch", 4)
    made = ("init", "c.db", "--logged", "logged.csv", "--pool", "pool.csv", *tables, "--budget", 50)
    assert observal(*made, cwd=tmp_path).returncode == 0
    before, interrupted = Campaign.open(tmp_path / "c.db").history(), 0
    for number in range(kills):
        arguments, written = commands_for(rng, tmp_path, number)
        process, connection = start_command(arguments, tmp_path)
        assert connection.poll(60)
        process.join(1.5 * float(rng.random()) ** 2)  # most die early; on a busy machine some still get far
        interrupted += process.exitcode is None
        process.kill()
        process.join()
        connection.close()
        history = Campaign.open(tmp_path / "c.db").history()
        assert history[: len(before)] == before  # what was stored stays
        before = history
        Campaign.open(tmp_path / "c.db").check()
        if written is not None and (tmp_path / written).exists():
            check_whole(tmp_path / written)
    assert interrupted > kills / 5


def start_command(arguments, folder):
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=run_command, args=(there, arguments, folder))
    process.start()
    there.close()
    return process, here


def check_whole(path):
    """Fail unless a file that a killed command wrote is complete."""
    if path.suffix == ".db":
        assert Campaign.open(path).check().labels == 0
        path.unlink()
    elif path.suffix == ".model":
        load_model(path).predict(pd.DataFrame({"x": [1.0]}))
    else:
        assert path.read_text(encoding="utf-8").splitlines()[0].startswith("id,")
        fill(path)


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_sigkill_loses_and_changes_nothing(tmp_path, kills):
    n = 3
    expected = uninterrupted(tmp_path / "whole.db", n)
    order = [row for asked in expected for row in asked]
    rng = np.random.default_rng(kills)
    done, campaigns, acknowledged, interrupted = 0, 0, [], 0
    where = tmp_path / "killed-0.db"
    make_campaign(where)
    while done < kills:
        process, connection = start(where, "anyone", n)
        assert connection.poll(60)  # the clock starts when it is about to open the campaign
        process.join(float(rng.uniform(0.0, 0.3)))
        process.kill()
        process.join()
        messages = drain(connection)
        done += 1
        interrupted += messages[-1][0] != "finished"
        acknowledged += [row for kind, rows in messages if kind == "told" for row in rows]
        _, answers = recorded(where)
        told = [row for row, _ in answers]
        # Every acknowledged label is there once, in order; at most one call was stored and not yet acknowledged.
        assert told[: len(acknowledged)] == acknowledged
        assert 0 <= len(told) - len(acknowledged) <= n
        assert len(set(told)) == len(told)
        assert all(label == truth_of(row) for row, label in answers)
        assert told == order[: len(told)]
        acknowledged = told
        batch = Campaign.open(where).ask(n)
        assert list(batch.ids) == order[len(told) : len(told) + len(batch.ids)]
        assert list(batch.ids) in expected or batch.finished
        if batch.finished:
            campaigns += 1
            where, acknowledged = tmp_path / f"killed-{campaigns}.db", []
            make_campaign(where)
    assert interrupted > kills / 2


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
def test_eight_concurrent_processes_agree(tmp_path, place, request):
    where = tmp_path / "campaign.db" if place == "sqlite" else request.getfixturevalue("postgres")()
    make_campaign(where)
    people = [f"person {k}" for k in range(8)]
    running = [start(where, name, 2) for name in people]
    messages = {name: drain(connection) for name, (_, connection) in zip(people, running, strict=True)}
    for process, _ in running:
        process.join()
    assert [process.exitcode for process, _ in running] == [0] * 8
    handed = {name: {row for kind, rows in said if kind == "asked" for row in rows} for name, said in messages.items()}
    assert sum(map(len, handed.values())) == len(set().union(*handed.values()))  # no row went to two people
    told = [row for said in messages.values() for kind, rows in said if kind == "told" for row in rows]
    rounds, answers = recorded(where)
    assert sorted(told) == sorted(row for row, _ in answers)
    assert len(set(told)) == len(told) == 32
    assert all(label == truth_of(row) for row, label in answers)
    # Whoever was faster, each round is what the model of its base chooses from the rows that were not open then.
    ledger = Campaign.open(where).engine.read()
    assert sorted(told) == sorted(row for rows in rounds for row in rows)
    for number, (plan, base) in enumerate(zip(ledger.plans, ledger.bases, strict=True)):
        replay = Replay(ob.Problem(*small_data()), METHOD, 0)
        replay.follow(ledger.plans[:base], ledger.labels, ledger.bases)
        chosen = replay.next_plan(ledger.plans[base:number]).positions.tolist()
        assert plan.positions.tolist() == chosen[: plan.positions.size]  # the budget may cut it off


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
def test_six_concurrent_processes_give_two_answers_per_row(tmp_path, place, request):
    where = tmp_path / "campaign.db" if place == "sqlite" else request.getfixturevalue("postgres")()
    campaign = make_campaign(where, overlap=2, label_budget=24)
    people = [f"person {k}" for k in range(6)]
    running = [start(where, name, 3) for name in people]
    for _, connection in running:
        drain(connection)
    for process, _ in running:
        process.join()
    assert [process.exitcode for process, _ in running] == [0] * 6
    status = campaign.status()
    assert (status.labels, sum(status.answers.values())) == (24, 48)
    assert status.agreement.share == 1.0

"""A campaign on the command line, from files to a model; exit codes, and errors in one line."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import observal as ob
from observal.errors import ObservalError
from tests.command import invoke
from tests.command import observal as main
from tests.postgres import postgres  # noqa: F401  a fixture


def observal(*arguments, code=0, **environment):
    """Run a command in this process, as main() does: what it prints, or the sentence of its error."""
    done = invoke(*arguments, env=environment)
    if isinstance(done.exception, ObservalError | OSError):
        assert code == 1, done.exception
        return str(done.exception)
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout if code == 0 else done.output


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(3)
    n = 120
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(2 * n)], "age": rng.integers(18, 80, 2 * n), "q0": 0.4})
    frame["home"] = rng.choice(["own", "rent", 'Öl, "x"'], 2 * n)
    frame["y"] = np.where(frame["age"] + 10 * (frame["home"] == "own") > 50, "paid", "lost")
    log = frame[:n].copy()
    log.loc[rng.random(n) > 0.4, "y"] = None
    log.to_csv(tmp_path / "log.csv", index=False)
    frame[n:].drop(columns="y").to_parquet(tmp_path / "pool.parquet")
    frame[n:].to_csv(tmp_path / "truth.csv", index=False)
    return tmp_path


@pytest.fixture
def made(files):
    where = files / "campaign.db"
    observal(*init(files, where))
    return where


def init(files, where, *more):
    data = ["--logged", files / "log.csv", "--pool", files / "pool.parquet", "--label", "y", "--id", "id"]
    return ["init", where, *data, "--propensity", "q0", "--budget", 20, "--batch", 10, *more]


def fill_in(path, truth):
    answers = dict(pd.read_csv(truth)[["id", "y"]].to_numpy().tolist())
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["y"] = answers[row["id"]]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
def test_files_become_a_model(files, request, place):
    from observal.campaign import load_model

    where = files / "campaign.db" if place == "sqlite" else request.getfixturevalue("postgres")()
    assert "Next: observal ask" in observal(*init(files, where))
    for number in range(2):
        labels = files / f"labels-{number}.csv"
        assert "10 rows to label" in observal("ask", where, "-n", 20, "-o", labels)
        header = labels.read_text(encoding="utf-8").splitlines()[0]
        assert header == "id,age,home,round,reason,allowed,y"  # people do not see the propensity
        fill_in(labels, files / "truth.csv")
        assert observal("tell", where, labels).startswith("10 labels stored.")
        assert "nothing changed" in observal("tell", where, labels)
    assert "Nothing is left to ask: the label budget of 20 is spent" in observal("ask", where)
    assert "finished" in observal("status", where)
    assert "round 2 opens with 10 rows" in observal("history", where)
    assert "loans.model" in observal("export", where, files / "loans.model")
    pool = pd.read_csv(files / "truth.csv")
    assert load_model(files / "loans.model").score(pool.drop(columns="y"), pool["y"]) > 0.9


def test_status_names_the_command_that_measures_blind_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 2))
    frame = pd.DataFrame({"id": np.arange(800), "a": X[:, 0], "b": X[:, 1], "q0": np.where(X[:, 0] > 0, 0.8, 0.001)})
    frame["y"] = np.where(X.sum(axis=1) > 0.3, "paid", "lost")
    log = frame[:400].copy()
    log.loc[rng.random(400) > log["q0"], "y"] = None
    log.to_csv(tmp_path / "log.csv", index=False)
    frame[400:].drop(columns="y").to_parquet(tmp_path / "pool.parquet")
    observal(*init(tmp_path, tmp_path / "blind.db"))
    said = observal("status", tmp_path / "blind.db", "--interval")
    assert "are not measured: 14 labels of rows picked at random" in said
    assert f"Next: observal ask {tmp_path / 'blind.db'} -n 14 --csv -o labels.csv" in said.replace("\n", " ")
    assert "Next:" not in observal("status", tmp_path / "blind.db")


def test_every_command_prints_json(made, files):
    asked = json.loads(observal("ask", made, "-n", 3, "--json"))
    assert [row["y"] for row in asked["rows"]] == [None] * 3
    assert {"id", "age", "home", "round", "reason", "y"} == set(asked["rows"][0])
    for row in asked["rows"]:
        row["y"] = "paid"
    (files / "labels.json").write_text(json.dumps(asked))
    told = json.loads(observal("tell", made, files / "labels.json", "--json"))
    counts = {"labels": 3, "skips": 0, "corrected": 0, "unchanged": 0, "blank": 0}
    assert told == {**counts, "bought": 3, "label_budget": 20}
    assert json.loads(observal("status", made, "--json"))["labels"] == 3
    assert "error_interval" in json.loads(observal("status", made, "--json", "--interval"))
    assert [e["kind"] for e in json.loads(observal("history", made, "--json"))][:2] == ["created", "round"]
    assert json.loads(observal("release", made, "--annotator", "ann", "--json")) == {"released": 0}
    exported = json.loads(observal("export", made, files / "m.model", "--json"))
    assert exported["labels"] == 0  # the model knows none of them before the round is closed
    backed_up = json.loads(observal("backup", made, files / "copy.db", "--json"))
    assert backed_up == {"copy": str(files / "copy.db"), "labels": 3}
    other = json.loads(observal(*init(files, files / "other.db", "--json")))
    assert other["label_budget"] == 20


def test_people_have_their_own_rows(made):
    ann = observal("ask", made, "-n", 6, "--csv", "--annotator", "ann")
    assert observal("ask", made, "-n", 6, "--csv", OBSERVAL_ANNOTATOR="ann") == ann
    bob = observal("ask", made, "-n", 6, "--csv", "--annotator", "bob")
    assert len(bob.splitlines()) == 5
    assert not set(ann.splitlines()[1:]) & set(bob.splitlines()[1:])
    ahead = observal("ask", made, "-n", 2, "--annotator", "cleo")
    assert ahead.endswith(
        "These rows were chosen ahead by the model of round 0, because earlier rows are still open: ann holds 6, bob holds 4.\n"
    )
    assert "1 to 2: 0 of 20 rows done" in observal("status", made)
    assert observal("release", made, "--annotator", "ann") == "6 rows taken back from ann; others can have them now.\n"
    assert observal("release", made, "--annotator", "ann") == "ann holds no open rows; nothing was taken back.\n"
    assert "held     bob 4, cleo 2" in observal("status", made).replace("held       ", "held     ")


def test_budget_is_raised_and_rows_are_added(made, files):
    more = pd.read_parquet(files / "pool.parquet").assign(id=lambda frame: "new " + frame["id"])
    more.drop(columns="q0").to_csv(files / "more.csv", index=False)
    assert "no column 'q0'" in observal("extend", made, "--pool", files / "more.csv", code=1)
    assert "--budget N" in observal("extend", made, code=2)
    said = observal("extend", made, "--pool", files / "more.csv", "--propensity", 0.4, "--budget", 30)
    assert said == (
        "120 rows were added; the pool now has 240.\nThe label budget is now 30; the campaign has 0 labels.\n"
    )
    assert json.loads(observal("extend", made, "--budget", 31, "--json"))["pool_rows"] == 240


def test_refused_file_names_the_line_and_stores_nothing(made, files):
    observal("ask", made, "-n", 3, "-o", files / "l.csv")
    fill_in(files / "l.csv", files / "truth.csv")
    with (files / "l.csv").open("a") as file:
        file.write("nobody,1,own,1,x,lost / paid / skip,paid\n")
    said = observal("tell", made, files / "l.csv", code=1)
    assert "line 5: row 'nobody' was never asked about" in said
    assert json.loads(observal("status", made, "--json"))["labels"] == 0


def test_correction_needs_its_option(made, files):
    row = json.loads(observal("ask", made, "-n", 1, "--json"))["rows"][0]["id"]
    (files / "a.csv").write_text(f"id,y\n{row},paid\n")
    (files / "b.csv").write_text(f"id,y\n{row},lost\n")
    observal("tell", made, files / "a.csv")
    assert "--correct" in observal("tell", made, files / "b.csv", code=1)
    assert observal("tell", made, files / "b.csv", "--correct").startswith("1 answer corrected.")
    assert "paid → lost" in observal("history", made)


@pytest.mark.parametrize("name", ["l.csv", "l.xlsx"])
def test_file_whose_answers_were_told_is_replaced_by_the_next_rows(made, files, name):
    out, second = files / name, files / f"l-2{name[1:]}"
    observal("ask", made, "-n", 4, "-o", out)
    untouched = out.read_bytes()
    assert str(second) in observal("ask", made, "-n", 4, "-o", out)  # without answers: it may be open in a spreadsheet
    assert out.read_bytes() == untouched
    ids = set(ob.read_table(out).column("id").to_pylist())
    assert set(ob.read_table(second).column("id").to_pylist()) == ids
    second.unlink()
    answers = ob.read_table(out).to_pandas().assign(y="paid")
    _write(answers[:3], out)
    assert str(second) in observal("ask", made, "-n", 4, "-o", out)  # answers that were not told
    assert set(ob.read_table(out).column("y").to_pylist()) == {"paid"}
    observal("tell", made, out)
    assert f"4 rows to label: {out}" in observal("ask", made, "-n", 4, "-o", out)
    assert ids - set(answers["id"][:3]) <= set(ob.read_table(out).column("id").to_pylist())
    assert observal("ask", made, "-n", 4, "-o", out).splitlines()[-1].endswith(str(second.with_stem("l-3")))


def _write(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_excel(path, index=False)


@pytest.mark.parametrize("content", [b"id,y\nr130,paid\n", b"\xff\xfe\x00nothing", b"", b"name\nann\n"])
def test_file_that_ask_did_not_write_is_left_alone(made, files, content):
    (files / "l.csv").write_bytes(content)
    assert "l-2.csv" in observal("ask", made, "-n", 3, "-o", files / "l.csv")
    assert (files / "l.csv").read_bytes() == content
    assert "is a folder" in observal("ask", made, "-o", files, code=1)
    assert "never replaced" in observal("ask", made, "-o", made, code=1)


def test_folder_and_pattern_of_parquet_files_make_a_campaign(files):
    rows = pd.read_parquet(files / "pool.parquet")
    (files / "pool").mkdir()
    rows[:50].to_parquet(files / "pool/a.parquet")
    rows[50:].to_parquet(files / "pool/b.parquet")
    options = ["--logged", files / "log.csv", "--label", "y", "--id", "id", "--propensity", "q0"]
    for name, source in [("folder.db", "pool"), ("pattern.db", "pool/*.parquet")]:
        observal("init", files / name, "--pool", files / source, *options)
        assert json.loads(observal("status", files / name, "--json"))["pool_rows"] == len(rows)
    said = observal("init", files / "other.db", "--pool", files / "*.csv", *options, code=1)
    assert "Several files at once must be Parquet" in said
    assert "no Parquet file at" in observal("init", files / "o.db", "--pool", files / "x*.pq", *options, code=1)


def test_version_is_one_line():
    assert observal("--version") == f"observal {ob.__version__}\n"


def test_init_help_has_groups_and_everyday_options_first():
    said = observal("init", "--help")
    headings = ["Options:", "Tables:", "What to learn:", "How to buy labels:", "People who label:"]
    assert [line for line in said.splitlines() if line in headings] == headings
    everyday = said.partition("Tables:")[0]
    for name in ("--logged", "--pool", "--label", "--propensity", "--exclude", "--budget"):
        assert name in everyday


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["status", "{}/none.db"], 1, "There is no campaign file at"),
        (["status", "{}/log.csv"], 1, "is not a campaign"),
        (["tell", "{}/campaign.db", "{}/none.csv"], 1, "none.csv does not exist; check the path."),
        (["tell", "{}/campaign.db", "{}/log.csv"], 1, "was never asked about"),
        (["ask", "{}/campaign.db", "-n", "0"], 2, "Invalid value"),
        (["ask", "{}/campaign.db", "--csv", "--json"], 2, "not both"),
        (["ask", "{}/campaign.db", "--annotator", ""], 1, "must be printable text"),
        (["export", "{}/campaign.db", "{}/no/m.model"], 1, "No such file"),
        (["init", "{}/c.db", "--logged", "{}/log.csv", "--label", "y"], 2, "--logged needs --pool FILE"),
        (["init", "{}/c.db", "--label", "y"], 2, "give one table"),
        (["init", "{}/c.db", "{}/log.csv", "--pool", "{}/log.csv", "--label", "y"], 2, "give one table"),
        (["ask"], 2, "Missing argument"),
    ],
)
def test_errors_take_one_line(made, files, arguments, code, said):
    text = observal(*(a.format(files) for a in arguments), code=code)
    assert said in text
    assert "Traceback" not in text
    assert code == 2 or "\n" not in text


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--label", "nope", "no column 'nope'"),
        ("--propensity", "home", "numbers"),
        ("--id", "home", "distinct"),
        ("--pool", "{}/none.parquet", "no file"),
        ("--features", "age,nope", "'nope'"),
        ("--classes", "a,b", "one of the classes"),
        ("--propensity-floor", "2", "floor"),
    ],
)
def test_unusable_tables_give_an_error_of_one_line(files, option, value, said):
    arguments = [str(a) for a in init(files, files / "new.db")]
    if option in arguments:
        arguments[arguments.index(option) + 1] = value.format(files)
    else:
        arguments += [option, value]
    text = observal(*arguments, code=1)
    assert said in text
    assert "\n" not in text
    assert not (files / "new.db").exists()


def test_existing_campaign_is_not_overwritten(made, files):
    before = made.read_bytes()
    assert "already exists; choose another path" in observal(*init(files, made), code=1)
    assert made.read_bytes() == before


def test_campaign_without_answers_is_made_anew(made, files):
    observal("ask", made, "-o", files / "labels.csv")
    assert "pass --replace" in observal(*init(files, made), code=1)
    observal(*init(files, made, "--exclude", "home", "--replace"))
    assert json.loads(observal("status", made, "--json"))["features"] == 1
    assert len(json.loads(observal("history", made, "--json"))) == 1
    assert sorted(path.name for path in files.glob("campaign.db*")) == ["campaign.db"]
    observal(*init(files, files / "new.db", "--replace"))  # there is nothing to replace


def test_campaign_with_answers_is_never_replaced(made, files):
    observal("ask", made, "-o", files / "labels.csv")
    fill_in(files / "labels.csv", files / "truth.csv")
    observal("tell", made, files / "labels.csv")
    before = made.read_bytes()
    assert "has answers, so it is not replaced" in observal(*init(files, made, "--replace"), code=1)
    assert made.read_bytes() == before


def test_campaign_that_is_open_elsewhere_is_not_replaced(made, files):
    before = made.read_bytes()
    other = sqlite3.connect(made)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM sqlite_master").fetchall()
    assert "nothing was stored" in observal(*init(files, made, "--replace"), code=1)
    other.close()
    assert made.read_bytes() == before
    observal("status", made)


def test_file_that_is_no_campaign_is_not_replaced(files):
    before = (files / "log.csv").read_bytes()
    assert "not a campaign" in observal(*init(files, files / "log.csv", "--replace"), code=1)
    assert (files / "log.csv").read_bytes() == before


def test_wrong_tables_leave_the_campaign_to_be_replaced(made, files):
    before = made.read_bytes()
    observal(*init(files, made, "--exclude", "hmoe", "--replace"), code=1)
    assert made.read_bytes() == before


def test_priority_is_refused_with_a_method_that_has_none(files):
    said = observal(*init(files, files / "x.db", "--method", "newton", "--priority", "measure"), code=2)
    assert "--priority works only with --method auto" in " ".join(said.replace("│", "").split())
    assert not (files / "x.db").exists()


def test_database_is_not_replaced(files, postgres):  # noqa: F811
    said = observal(*init(files, postgres(), "--replace"), code=1)
    assert "Only a campaign in a file is replaced" in said


def test_excluded_column_is_hidden_from_people(files):
    where = files / "x.db"
    observal(*init(files, where, "--exclude", "home"))
    observal("ask", where, "-o", files / "labels.csv")
    header = (files / "labels.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "id,age,round,reason,allowed,y"
    assert "home" not in json.loads(observal("ask", where, "--json"))["rows"][0]


def test_column_that_is_no_feature_is_shown_to_people(files):
    where = files / "x.db"
    observal(*init(files, where, "--features", "age"))
    assert "home" in json.loads(observal("ask", where, "--json"))["rows"][0]


def test_report_that_says_buy_names_the_command_to_buy_with(files):
    made = files / "small.db"
    observal(*init(files, made, "--exclude", "home", "--budget", 2))
    observal("ask", made, "-o", files / "labels.csv")
    fill_in(files / "labels.csv", files / "truth.csv")
    observal("tell", made, files / "labels.csv")
    observal("report", made, "-o", files / "report.html")
    page = (files / "report.html").read_text(encoding="utf-8")
    assert "Buy about" in page
    assert "<strong>Next:</strong> raise the budget with observal extend" in page


def test_unknown_propensities_and_several_logs(files):
    arguments = [a for a in init(files, files / "e.db") if a not in ("--propensity", "q0")]
    observal(*arguments, "--features", "age,home")
    assert len(json.loads(observal("ask", files / "e.db", "--json"))["rows"]) == 10
    frame = pd.read_csv(files / "log.csv")
    frame["id"] = "second " + frame["id"]
    frame.to_csv(files / "log2.csv", index=False)
    observal(*arguments[:1], files / "two.db", *arguments[2:], "--logged", files / "log2.csv", "--features", "age,home")
    assert json.loads(observal("status", files / "two.db", "--json"))["log_rows"] == 92
    refused = observal(*init(files, files / "no.db", "--logged", files / "log2.csv"), code=1)
    assert "but 2 logs came with 'q0'; join the logs into one table" in refused


COMMANDS = ["init", "ask", "tell", "status", "history", "release", "export", "backup"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command):
    assert f"observal {command} {'loans.db' if command == 'init' else 'campaign.db'}" in " ".join(
        observal(command, "--help").split()
    )


def process(*arguments, **environment):
    command = [sys.executable, "-m", "observal", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_commands_run_as_a_process(made, files):
    """No colour when piped, an error in one line without a traceback, and completion."""
    asked = process("ask", made, "-n", 2)
    assert asked.returncode == 0, asked.stderr
    assert "\x1b" not in asked.stdout
    assert asked.stderr == ""
    wrong = main("tell", made, files / "none.csv")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (1, "", 1)
    assert wrong.stderr.startswith("observal: ")
    assert "Traceback" in main("status", files / "none.db", "--debug").stderr
    assert "complete" in process("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1").stdout


def test_help_starts_light():
    code = "import sys, observal.cli; print([m for m in ('sqlalchemy', 'pyarrow', 'skops', 'sklearn', 'narwhals') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from(["csv", "parquet", "arrow"]), st.booleans())
def test_any_file_as_a_table_ends_in_one_line(files, content, suffix, as_pool):
    strange = files / f"strange.{suffix}"
    strange.write_bytes(content)
    arguments = [str(a) for a in init(files, files / "strange.db")]
    arguments[arguments.index("--pool" if as_pool else "--logged") + 1] = str(strange)
    text = observal(*arguments, code=1)
    assert "\n" not in text
    assert not (files / "strange.db").exists()


@pytest.fixture
def priced(files):
    pool = pd.read_parquet(files / "pool.parquet")
    pool["price"] = np.where(pool["home"] == "own", 20.0, 5.0)
    pool.to_parquet(files / "pool.parquet")
    return files


def spend(where, files):
    truth = pd.read_csv(files / "truth.csv").set_index("id")["y"]
    campaign = ob.Campaign.open(where)
    while batch := campaign.ask():
        campaign.tell(batch.ids, [truth[id_] for id_ in batch.ids])


def test_budget_in_money_limits_labels_and_can_be_raised(priced):
    where = priced / "priced.db"
    text = observal(*init(priced, where, "--price", "price", "--budget-cost", 100))
    assert "cost       0 of 100 spent on 0 labels, 100 left" in text
    assert "price" not in ob.Campaign.open(where).settings.features
    spend(where, priced)
    status = json.loads(observal("status", where, "--json"))
    assert status["budget_cost"] == 100
    assert 80 < status["spent"] <= 100
    assert f"{status['spent']:g} of 100 spent on {status['labels']} labels" in observal("status", where)
    raised = observal("extend", where, "--budget-cost", 150)
    assert raised.startswith(f"Labels may now cost more: {status['spent']:g} of 150 spent on")
    spend(where, priced)
    observal("report", where, "-o", priced / "report.html")
    words = ob.Campaign.open(where).status().cost_words()
    assert f"of 150 spent on {ob.Campaign.open(where).labels} labels" in words
    assert words in (priced / "report.html").read_text()


def test_added_rows_have_prices(priced):
    where = priced / "priced.db"
    observal(*init(priced, where, "--price", "price", "--budget-cost", 100))
    more = pd.read_parquet(priced / "pool.parquet").head(10).assign(id=[f"new{i}" for i in range(10)])
    more.drop(columns="price").to_csv(priced / "unpriced.csv", index=False)
    assert "no column 'price' for the price" in observal("extend", where, "--pool", priced / "unpriced.csv", code=1)
    more.assign(price=7.0).to_csv(priced / "more.csv", index=False)
    observal("extend", where, "--pool", priced / "more.csv", "--budget-cost", 200)
    campaign = ob.Campaign.open(where)
    assert campaign.problem.pool.price[-10:].tolist() == [7.0] * 10
    assert campaign.settings.budget_cost == 200.0


def test_prices_stay_in_place(priced):
    pd.read_csv(priced / "log.csv").to_parquet(priced / "log.parquet")
    data = ["--logged", priced / "log.parquet", "--pool", priced / "pool.parquet", "--label", "y", "--id", "id"]
    money = ["--propensity", "q0", "--price", "price", "--budget-cost", 60, "--in-place"]
    observal("init", priced / "c.db", *data, *money)
    spend(priced / "c.db", priced)
    campaign = ob.Campaign.open(priced / "c.db")
    assert "price" not in campaign.settings.features
    assert 40 < campaign.status().spent <= 60


def test_budget_cost_without_price_is_refused(files):
    text = observal(*init(files, files / "c.db", "--budget-cost", 100), code=1)
    assert text == (
        "A budget of 100 for the cost of labels needs the price of each, but the pool has none; name the column with --price (price=), or "
        "give the number of labels with --budget (label_budget=)."
    )
    assert not (files / "c.db").exists()


def test_price_that_is_not_above_zero_is_refused(priced):
    pd.read_parquet(priced / "pool.parquet").assign(price=0.0).to_parquet(priced / "pool.parquet")
    text = observal(*init(priced, priced / "c.db", "--price", "price", "--budget-cost", 100), code=1)
    assert text.startswith("The pool needs one price above 0 for the label of each of its 120 rows")


def test_new_rows_of_a_priced_pool_need_prices(tmp_path):
    X = np.linspace(-1, 1, 60)[:, None]
    logged = ob.LoggedData(X[:20], X[:20, 0] > -0.7, propensity=0.5)
    pool = ob.Pool(X[20:40], 0.1, price=np.ones(20))
    campaign = ob.Campaign.create_from_arrays(tmp_path / "c.db", logged, pool, budget_cost=5.0)
    with pytest.raises(ObservalError, match="New rows need a price if the pool has one"):
        campaign.extend(pool=ob.Pool(X[40:], 0.1, ids=np.arange(20, 40)))


def test_empty_file_of_answers_is_called_empty(made, files):
    (files / "empty.csv").write_text("")
    assert "empty.csv is empty" in observal("tell", made, files / "empty.csv", code=1)


def test_wrong_values_are_named_with_their_place(files):
    log = pd.read_csv(files / "log.csv")
    for changed, sentence in (
        ({"age": log["age"].astype(str).where(log.index != 5, "young")}, "text in the log, such as 'young' in row 5"),
        (
            {"q0": log["q0"].astype(str).where(log.index != 7, "half")},
            "log needs numbers in the propensity column 'q0', but it has 'half' in row 7",
        ),
        ({"q0": log["q0"].where(log.index != log["y"].first_valid_index(), 0.0)}, "and a label (1 such row);"),
    ):
        log.assign(**changed).to_csv(files / "log.csv", index=False)
        said = observal(*init(files, files / "x.db"), code=1)
        assert sentence in said
        assert "(counted from 0)" in said


def test_unknown_target_is_told_the_words_of_the_command_line(files):
    assert '"balanced", "recall=0.8"' in observal(*init(files, files / "x.db", "--target", "blanced"), code=1)


def test_unknown_column_to_group_by_comes_before_too_few_labels(files):
    log = pd.read_csv(files / "log.csv")
    log.assign(y=log["y"].where(log.index == log["y"].first_valid_index())).to_csv(files / "log.csv", index=False)
    observal(*init(files, files / "x.db", "--classes", "lost,paid"))
    report = ["report", files / "x.db", "-o", files / "r.html", "--by"]
    assert "There is no column 'nocol' to group by" in observal(*report, "nocol", code=1)
    assert "Errors by group need labelled rows" in observal(*report, "age", code=1)


def test_model_names_the_column_that_a_table_lacks(made, files):
    observal("export", made, files / "loans.model")
    pd.read_csv(files / "truth.csv").drop(columns="age").to_csv(files / "new.csv", index=False)
    said = observal("predict", files / "loans.model", files / "new.csv", "-o", files / "out.csv", code=1)
    assert said.startswith("The table has no column 'age'")
    assert said.endswith("give the columns that the model was trained on.")


def test_status_and_report_name_the_column_of_groups(made, files):
    where, said = files / "x.db", "rows with the same 'home' count as one in intervals"
    assert said not in observal("status", made)
    observal(*init(files, where, "--group", "home"))
    assert f"groups     {said}" in observal("status", where)
    assert json.loads(observal("status", where, "--json"))["group"] == "home"
    observal("report", where, "-o", files / "r.html")
    assert said in (files / "r.html").read_text(encoding="utf-8").replace("&#39;", "'")

"""The command line: results, exit codes, and errors in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import pytest

from tests.command import observal, research


def process(*arguments, module="observal"):
    return subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)


def test_help_names_every_command_and_starts_light():
    done = process("--help")
    assert done.returncode == 0
    for command in (
        "Start:",
        "diagnose",
        "init",
        "demo",
        "Label:",
        "ask",
        "tell",
        "serve",
        "Result:",
        "status",
        "report",
    ):
        assert command in done.stdout
    assert "reproduce" not in done.stdout  # research has a command of its own
    code = "import sys, observal.cli; print([m for m in ('numpy', 'numba', 'scipy', 'sklearn', 'matplotlib', 'joblib') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


@pytest.mark.parametrize("command", ["verify", "ablate", "reproduce", "rejects"])
def test_research_commands_show_an_example(command):
    done = research(command, "--help")
    assert done.returncode == 0
    assert f"observal-research {command}" in " ".join(done.stdout.split())


def test_verify_prints_a_table_and_json():
    done = research("verify", "--trials", "50", "--only", "clip-example")
    assert done.returncode == 0, done.stderr
    assert "clip-example" in done.stdout
    assert "\x1b" not in done.stdout  # no colour when piped
    done = research("verify", "--trials", "50", "--only", "clip-example", "--json")
    assert json.loads(done.stdout)["passed"] is True


def test_claim_that_does_not_exist_is_an_error_in_one_line():
    done = process("verify", "--only", "no-such-claim", module="observal_research")
    assert done.returncode == 1
    assert done.stderr.startswith("observal: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert "Traceback" in research("--debug", "verify", "--only", "no-such-claim").stderr


def test_wrong_call_exits_with_2():
    assert research("verify", "--no-such-option").returncode == 2
    assert process("no-such-command").returncode == 2


def test_failing_claim_exits_with_1(monkeypatch):
    from dataclasses import replace

    from observal_research import verify

    report = verify.verify(trials=50, only="clip-example")
    failed = replace(report, outcomes=tuple(replace(o, passed=False) for o in report.outcomes))
    monkeypatch.setattr(verify, "verify", lambda **_: failed)
    done = research("verify")
    assert done.returncode == 1, done.stderr
    assert "1 of 1 claims did not hold" in done.stderr


def test_ablate_as_json():
    done = research("ablate", "--trials", "2", "--jobs", "1", "--json")
    rows = json.loads(done.stdout)
    assert [row["trials"] for row in rows] == [2] * 7


def test_reproduce_runs_small_and_resumes(tmp_path, monkeypatch):
    from observal_research import reproduce

    small = {"clip_constants": (0.04, 0.64), "learning_rates": (0.01, 1.0), "max_labels": 60, "n_rows": 600}
    monkeypatch.setattr(reproduce, "Specification", partial(reproduce.Specification, **small))
    arguments = ["reproduce", "--trials", "2", "--jobs", "1", "--out", str(tmp_path), "--json"]
    first = research(*arguments)
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert set(found["policies"]) == {"certainty", "uncertainty"}
    for methods in found["policies"].values():
        assert {"passive", "active18", "activevc"} <= set(methods)
        assert {"auc", "auc_se", "params", "curve"} <= set(methods["activevc"])
    for name in ("results.json", "curves.csv", "figure.png", "figure.svg"):
        assert (tmp_path / name).exists()
    again = json.loads(research(*arguments, "--resume").stdout)
    assert again["policies"] == found["policies"]


def test_brackets_in_a_table_are_not_markup(capsys):
    from observal.cli import print_table

    print_table(["claim"], [("E[w·1{h≠Y}]",)])
    assert "E[w·1{h≠Y}]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ablate", "--trials", "1"), 2),
        (("ablate", "--jobs", "0"), 2),
        (("verify", "--trials", "3"), 2),
        (("demo", "--seed", "-1"), 2),
        (("demo", "--out", "/dev/null/nowhere"), 1),
        (("reproduce", "--trials", "2", "--out", "/dev/null/nowhere"), 1),
    ],
)
def test_wrong_values_end_in_one_sentence_and_no_traceback(arguments, code):
    run = observal if arguments[0] == "demo" else research
    done = run(*arguments)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()


def test_ctrl_c_says_that_what_is_finished_is_kept(tmp_path):
    import signal
    import time

    process = subprocess.Popen(
        [sys.executable, "-m", "observal_research", "reproduce", "--jobs", "1", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not (tmp_path / "partial.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (tmp_path / "partial.jsonl").exists()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in errors
    assert "Traceback" not in errors


def test_ctrl_c_within_code_run_from_a_string_ends_with_our_exit_code(tmp_path):
    (tmp_path / "probe.py").write_text(
        "import typer\nfrom observal.cli.output import progress_bar\n\ndef command():\n"
        "    with progress_bar('waiting'):\n        exec('raise KeyboardInterrupt')\n\ntyper.run(command)\n"
    )
    done = subprocess.run([sys.executable, "-m", "probe"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert "interrupted" in done.stderr


def write_tables(folder):
    """Write a small log and pool, and return the options that name them."""
    rows = [f"r{i},{i % 7 - 3},{'yes' if i % 7 > 3 else 'no'},0.5" for i in range(40)]
    (folder / "log.csv").write_text("\n".join(["id,x,y,q", *rows]) + "\n")
    (folder / "pool.csv").write_text("\n".join(["id,x,q", "p1,0,0.5", "p2,1,0.5"]) + "\n")
    return ["--pool", "pool.csv", "--label", "y", "--propensity", "q", "--id", "id"]


def test_options_out_of_range_are_refused(tmp_path):
    roles = write_tables(tmp_path)
    done = observal("init", "c.db", "--logged", "log.csv", *roles, "--propensity-floor", 5, cwd=tmp_path)
    assert "propensity_floor must be above 0 and at most 1, but is 5" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        (["--budget-cost", 10], "name the column with --price"),
        (["--images", "."], "name it with --image-column"),
        (["--cost-of-checking", 2], "--cost-of-checking needs --cost-of-missing CLASS=COST"),
        (["--method", "newton", "--priority", "measure"], "--priority works only with --method auto"),
        (["--dask", "local"], "--dask needs one log and a pool in Parquet"),
    ],
)
def test_option_of_init_without_the_one_it_needs_is_refused(tmp_path, options, needed):
    roles = write_tables(tmp_path)
    done = observal("init", "c.db", "--logged", "log.csv", *roles, *options, cwd=tmp_path)
    assert done.returncode != 0
    assert needed in " ".join(done.stderr.replace("│", "").split())
    assert not (tmp_path / "c.db").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--propensity", "q"],
        *([f"--{name}", "x"] for name in ("id", "exclude", "features", "group", "known-before", "missing", "encoding")),
        ["--sep", ";"],
        ["--decimal", ","],
        ["--pool", "pool.csv"],
    ],
)
def test_option_for_tables_is_refused_where_a_campaign_is_diagnosed(options):
    done = observal("diagnose", "campaign.db", *options)
    assert done.returncode == 2
    words = " ".join(done.stderr.replace("│", "").split())
    assert "tables need --label COLUMN; a campaign takes no such option." in words

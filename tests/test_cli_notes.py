"""What commands show before money is spent: five lines at most, red on a terminal, and the other notes counted."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from observal.cli.output import say
from observal.diagnosis.diagnose import MAX_LINES, shorten
from observal.diagnosis.rare_class import typo_sentences
from tests.command import observal

ROLES = ["--label", "y", "--propensity", "q"]


@pytest.fixture
def files(tmp_path):
    """Two tables with many columns to note something about, and one that gives the label away."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"kind{k}": rng.choice(["a", "b", "c"], 800) for k in range(30)})
    y = np.where(rng.random(800) < 0.5, "yes", "no")
    table["state"], table["q"], table["y"] = np.where(y == "yes", "open", "shut"), 0.5, y
    table.loc[rng.random(800) < 0.5, "y"] = None
    table[:500].to_csv(tmp_path / "log.csv", index=False)
    table[500:].drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    return tmp_path


def test_notes_are_counted_and_shown_on_demand(files):
    commands = {
        "diagnose": ["diagnose", "log.csv", "--pool", "pool.csv", *ROLES],
        "init": ["init", "a.db", "--logged", "log.csv", "--pool", "pool.csv", *ROLES, "--budget", 20],
        "status": ["status", "a.db"],
    }
    for name, command in commands.items():
        said = observal(*command, cwd=files).stdout
        assert "Before you spend money\n  – Column 'state' may leak the label 'y'" in said, name
        assert "on how the tables were read; --notes shows them." in said, name
        assert "became 3 columns" not in said, name
        command[1] = command[1].replace("a.db", "b.db") if name == "init" else command[1]
        assert observal(*command, "--notes", cwd=files).stdout.count("became 3 columns") == 30, name


def test_many_warnings_are_five_lines():
    assert len(shorten([f"{k}." for k in range(40)])) == MAX_LINES
    assert shorten([f"{k}." for k in range(40)])[-1] == "36 more; --notes shows them."
    assert shorten(["a.", "b."]) == ("a.", "b.")


class Terminal(io.StringIO):
    """What a terminal shows."""

    def isatty(self) -> bool:
        return True


def test_what_matters_is_red_on_a_terminal_only(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stream, is_red in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stdout", stream)
        say("fine\nbad", lines=True, red=["bad"])
        assert stream.getvalue() == ("fine\n\x1b[31mbad\x1b[0m\n" if is_red else "fine\nbad\n")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", quiet := Terminal())
    say("bad", red=["bad"])
    assert quiet.getvalue() == "bad\n"


def test_class_that_may_be_a_typo_is_a_warning(files):
    log = pd.read_csv(files / "log.csv")
    log.loc[log.index[log.y == "yes"][0], "y"] = "Yess"
    log.to_csv(files / "log.csv", index=False)
    tables = ["--pool", "pool.csv", *ROLES, "--exclude", "state"]
    for command in (
        ["diagnose", "log.csv", *tables],
        ["init", "a.db", "--logged", "log.csv", *tables],
        ["status", "a.db"],
    ):
        said = " ".join(observal(*command, cwd=files).stdout.split())
        before = said.partition("Before you spend money")[2]
        assert before.count("Class 'Yess' has 1 label; if it is a typo, correct it in the table.") == 1, command[0]
        assert "of class 'Yess'" not in said


def test_classes_with_few_labels_are_typos_only_beside_common_ones():
    assert typo_sentences([("a", 1), ("b", 2), ("c", 900)])[0].startswith("Classes 'a' and 'b' have at most 2 labels")
    for counts in ([("a", 1), ("b", 900)], [("a", 1), ("b", 9), ("c", 9)], [("a", 0), ("b", 30), ("c", 3)]):
        assert typo_sentences(counts) == []


def test_column_that_the_pool_lacks_is_a_warning(files):
    pool = pd.read_csv(files / "pool.csv")
    pool.drop(columns="kind0").assign(extra=range(len(pool))).to_csv(files / "pool.csv", index=False)
    tables = ["--pool", "pool.csv", *ROLES]
    for command in (["diagnose", "log.csv", *tables], ["init", "a.db", "--logged", "log.csv", *tables]):
        before = " ".join(observal(*command, cwd=files).stdout.partition("Before you spend money")[2].split())
        assert "Column 'kind0' was left out: the pool does not have it; if values" in before, command[0]
        assert "'extra'" not in before  # only a note
    command = ["init", "b.db", "--logged", "log.csv", *tables, "--exclude", "kind0"]
    assert "kind0" not in observal(*command, cwd=files).stdout

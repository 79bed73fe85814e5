"""rejectkit's benchmark, small: who is in it, what is recovered, its figure and its command."""

from __future__ import annotations

import json

import numpy as np
import pytest

from observal.errors import InvalidInput
from observal_research import rejects
from observal_research.benchmark.development import Encoded
from observal_research.rejects import BUYERS, INFERENCE, Measured, list_names, load, recovered, run_benchmark, summarise
from tests.command import research


def test_everybody_is_measured_on_the_same_split(monkeypatch):
    monkeypatch.setattr(rejects, "ROWS", 250)
    one = rejects.measure(None, "bent", "cutoff", 0, (10, 15))
    assert one is not None
    assert set(one.aucs) == {(name, 0) for name in (*INFERENCE, *BUYERS)} | {
        (who, n) for who in BUYERS for n in (10, 15)
    }
    # With no label bought, a logistic regression is what the benchmark calls naive.
    assert one.aucs["logistic, random labels", 0] == one.aucs["margin sampling", 0] == one.naive
    assert all(0.4 < auc <= 1.0 for auc in one.aucs.values())


def test_all_labels_bought_recover_everything():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = (X[:, 0] > 0.0).astype(int)
    split = rejects.Split(X[:100], y[:100], np.arange(100) < 60, X[100:], y[100:], 0)
    everything = split.auc(rejects.fit(rejects.FAMILIES["logistic"], X[:100], y[:100], 0, 1.0))
    assert rejects.buy_labels(split, (10, 40, 1000), "logistic", True)[-2:] == [everything, everything]


def test_table_of_which_one_class_is_accepted_is_left_out(monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 2))
    monkeypatch.setattr(rejects, "load", lambda *given: Encoded(X, (X[:, 0] > 1.5).astype(int)))
    assert rejects.measure(None, "sharp", "cutoff", 0, (10,)) is None


def invented(table="loans", way="cutoff", seed=0, lost=0.1):
    aucs = {(name, 0): 0.7 for name in INFERENCE} | {(who, n): 0.7 + n / 1000 for who in BUYERS for n in (0, 50, 80)}
    return Measured(table, way, seed, 0.7, 0.7 + lost, aucs, covers=seed == 0)


def test_shares_recovered_are_ratios_of_means():
    runs = [invented(), invented(seed=1, lost=0.3)]
    assert recovered(runs, "observal", 50)[0] == pytest.approx(0.05 / 0.2)
    assert recovered(runs, "fuzzy") == (0.0, 0.0)


def test_table_has_a_row_for_each_method_and_leaves_out_runs_that_lose_nothing():
    header, rows, lines = summarise([invented(), invented(seed=1), invented(seed=2, lost=0.001), invented(way="mnar")])
    assert header == ["method", "labels", "cutoff: recovered, %", "mnar: recovered, %"]
    assert len(rows) == len(INFERENCE) + 2 * len(BUYERS)
    assert ("observal", "80", "80 ± 0", "80 ± 0") in rows
    assert "AUC 0.700 from the accepted rows, 0.800 from all, in the 2 runs" in lines[0]
    assert lines[-1] == "observal's 95 % interval for the error covers in 2 of 4 runs."


def test_tables_of_a_folder_are_read(tmp_path):
    (tmp_path / "loans.csv").write_text(
        "id,age,bad,why\n" + "".join(f"{i},{i % 7},{i % 3 == 0},x\n" for i in range(60))
    )
    entry = {"file": "loans.csv", "label": "bad", "id": "id", "exclude": [], "text": ["why"], "positive": "TRUE"}
    (tmp_path / "tables.json").write_text(json.dumps({"loans": entry, "many": {**entry, "positive": None}}))
    assert list(list_names(tmp_path)) == ["loans"]
    X, y = load(tmp_path, "loans", 0)
    assert X.shape == (60, 1)
    assert y.sum() == 20
    assert X.std() == pytest.approx(1.0)


def test_npz_files_and_made_up_tables_are_read(tmp_path):
    np.savez(tmp_path / "coins.npz", X=np.arange(6.0)[:, None], y=[0, 1, 1, 0, 0, 0])
    assert list(list_names(tmp_path)) == ["coins"]
    assert load(tmp_path, "coins", 0).y.sum() == 2
    assert list_names(None) == ["slightly bent", "bent", "digits"]
    assert not (load(None, "bent", 0).X == load(None, "bent", 1).X).any()
    assert set(load(None, "digits", 0).y) == {0, 1}


def test_bad_requests_are_refused(monkeypatch, tmp_path):
    with pytest.raises(
        InvalidInput, match="No table has a name with 'nonsense'; the tables are slightly bent, bent, digits"
    ):
        run_benchmark(only="nonsense")
    with pytest.raises(InvalidInput, match=r"Numbers of labels are at least 1, but are \[0\]"):
        run_benchmark(labels=[0])
    monkeypatch.setattr(rejects, "measure", lambda *given: None)
    with pytest.raises(InvalidInput, match=r"In none of 3 runs does selection cost more than 0.005 of AUC"):
        run_benchmark(seeds=[0], only="digits", jobs=1)
    wrong = research("rejects", "--labels", "many", cwd=tmp_path, OBSERVAL_DATA="")
    assert wrong.returncode == 1
    assert "--labels takes whole numbers with commas between them, but got 'many'" in wrong.stderr
    monkeypatch.setattr(rejects, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"needs rejectkit; install it with pip install 'observal\[rejects\]'"):
        run_benchmark()


def test_command_prints_a_table_and_draws(tmp_path, monkeypatch):
    runs = [invented(table, way) for table in ("loans", "coats") for way in rejects.WAYS]
    monkeypatch.setattr(rejects, "run_benchmark", lambda *given: runs)
    done = research("rejects", "--out", tmp_path / "out", cwd=tmp_path, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert "80 ± 0" in done.stdout
    svg = (tmp_path / "out" / "rejects.svg").read_text()
    assert len(svg) < 200_000
    assert (tmp_path / "out" / "rejects.png").stat().st_size > 10_000
    monkeypatch.setattr(rejects, "draw", lambda *given: None)
    told = json.loads(research("rejects", "--out", tmp_path / "out", "--json", cwd=tmp_path).stdout)
    assert told[0]["aucs"][-1] == {"method": "LightGBM, random labels", "labels": 80, "auc": pytest.approx(0.78)}

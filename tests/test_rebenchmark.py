from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from observal.errors import InvalidInput
from observal.methods.newton import NewtonVC
from observal_research.cli import app
from observal_research.rebenchmark import Rebenchmark, protocol, rebenchmark, run_unit
from tests.reference import benchmark as slow

FAST = {"ours": NewtonVC(ridge=0.01, tempering=0.5, batch=5)}


@pytest.fixture(autouse=True)
def one_thread_and_a_small_forest(monkeypatch):
    monkeypatch.setitem(protocol.MODELS, "forest", lambda seed: RandomForestClassifier(3, random_state=seed))
    with threadpool_limits(1):
        yield


def rows(seed: int, n: int = 50):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * [1.0, 50.0, 0.1, 1.0]
    return X, np.where(X[:, 0] + 0.01 * X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1, -1)


@pytest.fixture
def folder(tmp_path):
    """Two tables; the "published" results are those of a plain loop, one of them wrong on purpose."""
    lines = []
    for k, table in enumerate(("alpha", "beta")):
        X, y = rows(k)
        np.savez(tmp_path / f"{table}.npz", X=X, y=y.astype(np.int8))
        for seed in range(3):
            found = {model: slow_margin(X, y, seed, model) for model in ("rbf_svm", "logistic")}
            lines.append((table, seed, f"{found['rbf_svm']:.5f}", "", f"{found['logistic']:.5f}" if k else ""))
    lines[1] = (*lines[1][:2], f"{float(lines[1][2]) + 0.01:.5f}", *lines[1][3:])
    with (tmp_path / "published.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("table", "seed", "margin_rbf_svm", "margin_forest", "margin_logistic"), *lines])
    return tmp_path


def slow_margin(X, y, seed: int, model: str) -> float:
    """Return the AUBC of the protocol, written down once more with lists."""
    from sklearn.preprocessing import StandardScaler

    order = np.arange(len(y))
    np.random.default_rng(seed).shuffle(order)
    train, test = order[: int(0.6 * len(y))].copy(), order[int(0.6 * len(y)) :]
    np.random.default_rng(seed).shuffle(train)
    scaler = StandardScaler().fit(X[train])
    Z, T = scaler.transform(X[train]), scaler.transform(X[test])
    labelled, accuracies = list(range(20)), []
    while len(labelled) < len(train):
        fitted = protocol.MODELS[model](seed).fit(Z[sorted(labelled)], y[train][sorted(labelled)])
        left = [i for i in range(len(train)) if i not in labelled]
        far = np.abs(fitted.decision_function(Z[left])).tolist()
        labelled.append(left[far.index(min(far))])
        fitted = protocol.MODELS[model](seed).fit(Z[sorted(labelled)], y[train][sorted(labelled)])
        accuracies.append(float(np.mean(fitted.predict(T) == y[test])))
    return slow.aubc(accuracies)


def test_aubc_agrees_with_its_slow_twin():
    accuracies = np.random.default_rng(0).random(17)
    assert protocol.aubc(accuracies) == pytest.approx(slow.aubc(accuracies.tolist()))


def test_published_runs_are_repeated_and_one_that_is_wrong_is_seen(folder, tmp_path):
    out = tmp_path / "out"
    steps: list[tuple[int, int]] = []
    spec = Rebenchmark(folder, seeds=2, methods=FAST)
    report = rebenchmark(spec, out, jobs=1, progress=lambda done, total: steps.append((done, total)))
    assert [row[:3] for row in report.agreement_rows()] == [("rbf_svm", "4", "3"), ("logistic", "2", "2")]
    assert report.agreement_rows()[0][4] == "0.01000"
    assert steps[-1] == (len(spec.units), len(spec.units))
    assert report.best_margin("random", "alpha")[0] == "rbf_svm"  # logistic and forest have no published run there
    assert set(report.margins("random", "beta")) == {"rbf_svm", "logistic"}
    assert set(report.margins("scorecard", "alpha")) == {"rbf_svm", "forest", "logistic"}
    for variant in ("random", "scorecard"):
        assert len(report.rows(variant)) == 3
        assert all(len(row) == len(report.header) for row in report.rows(variant))
        mine = [report.ours(variant, table, "ours", "own").mean() for table in spec.tables]
        best = [report.best_margin(variant, table)[1].mean() for table in spec.tables]
        mean, low, high = report.gain(variant, "ours", "own")
        assert mean == pytest.approx(np.mean(mine) - np.mean(best))
        assert low <= mean <= high
    assert "3 of 4 runs repeated to five decimals" in report.summary()[0]
    stored = json.loads((out / "rebenchmark.json").read_text(encoding="utf-8"))
    assert stored["summary"] == report.summary()
    assert (out / "rebenchmark.md").read_text(encoding="utf-8").count("| --- |") >= 3

    steps.clear()
    more = rebenchmark(
        Rebenchmark(folder, seeds=2, methods=FAST), out, jobs=1, resume=True, progress=lambda *step: steps.append(step)
    )
    assert steps == []  # nothing was left to do
    assert more.scores == report.scores


def test_scorecard_draws_twenty_with_the_chances_it_states():
    X, y = rows(5, 150)
    split = protocol.split_rows(X, (y == 1).astype(int), 3)
    assert_allclose(split.propensity, 20 / 90)
    biased = protocol.by_scorecard(split, 3)
    assert int(biased.first.sum()) == 20
    assert_allclose(biased.propensity.sum(), 20.0)
    assert biased.propensity.max() > 10 * biased.propensity.min() > 0
    assert biased.propensity[biased.first].mean() > biased.propensity.mean()
    again = protocol.by_scorecard(split, 3)
    assert (again.first == biased.first).all()
    # The same chances, many draws: every row is drawn as often as stated.
    rng = np.random.default_rng(0)
    counts = np.zeros(90)
    for _ in range(4000):
        counts[protocol.sample_systematically(biased.propensity, rng)] += 1
    se = np.sqrt(biased.propensity * (1 - biased.propensity) / 4000)
    assert (np.abs(counts / 4000 - biased.propensity) < 4.5 * se + 1e-9).all()


def test_chances_in_proportion_never_exceed_one():
    chance = protocol.in_proportion(np.array([100.0, 3.0, 2.0, 1.0]), 2)
    assert_allclose(chance, [1.0, 1 / 2, 1 / 3, 1 / 6])
    assert_allclose(protocol.in_proportion(np.array([9.0, 8.0, 1.0, 1.0]), 3), [1.0, 1.0, 0.5, 0.5])


def test_ours_is_scored_by_the_model_of_the_latest_finished_round():
    X, y = rows(2)
    split = protocol.split_rows(X, (y == 1).astype(int), 0)
    run = protocol.our_run(split, FAST["ours"], 0)
    pool = np.flatnonzero(~split.first)
    assert sorted(run.order) == pool.tolist()
    assert len(run.accuracies) == pool.size
    by_round = [run.accuracies[4:9], run.accuracies[9:]]  # rounds of five: nothing changes within one
    assert pool.size == 10
    assert [len(set(values)) for values in by_round] == [1, 1]
    assert len(set(run.accuracies[:4])) == 1  # the log alone
    theirs = protocol.score_order(split, run.order, "rbf_svm", 0)
    everything = protocol.fit("rbf_svm", split, np.ones(len(split.y), dtype=bool), 0)
    assert theirs[-1] == pytest.approx(everything.score(split.X_test, split.y_test))


def test_start_with_one_class_buys_in_training_order_until_there_are_two():
    X, y = rows(3)
    split = protocol.split_rows(X, (y == 1).astype(int), 0)
    first = np.zeros(len(split.y), dtype=bool)
    first[np.flatnonzero(split.y == 1)[:5]] = True
    one = protocol.Split(split.X, split.y, split.X_test, split.y_test, first, np.full(len(split.y), 0.2))
    found = protocol.margin_run(one, "rbf_svm", 0)
    assert len(found) == int((~first).sum())
    if split.y[np.flatnonzero(~first)[0]] == 1:
        assert found[0] == pytest.approx(np.mean(split.y_test == 1))


def test_units_and_refusals(folder):
    spec = Rebenchmark(folder, seeds=1, methods=FAST, only="beta")
    assert [unit[0] for unit in spec.units].count("scorecard") == 4
    found = run_unit(spec, "random", "beta", 0, "margin_logistic")
    assert found["own"] == pytest.approx(spec.published["beta", 0, "logistic"], abs=1e-5)
    with pytest.raises(InvalidInput, match="No table"):
        Rebenchmark(folder, only="nothing")
    with pytest.raises(InvalidInput, match="at least one seed"):
        Rebenchmark(folder, seeds=0)
    with pytest.raises(InvalidInput, match=r"published\.csv"):
        Rebenchmark(folder / "nowhere")


def test_command_runs_it_and_nothing_else(folder, tmp_path):
    options = [
        "--rebenchmark",
        str(folder),
        "--seeds",
        "1",
        "--only",
        "beta",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "o"),
    ]
    done = CliRunner().invoke(app, ["benchmark", *options])
    assert done.exit_code == 0, done.output
    assert "Published margin sampling with rbf_svm: 1 of 1 run repeated to five decimals." in done.output
    assert (tmp_path / "o" / "rebenchmark.md").is_file()
    assert not (tmp_path / "o" / "results.json").exists()

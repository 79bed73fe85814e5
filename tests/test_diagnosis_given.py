"""The diagnosis of labels without propensities: where they are; and of propensities that promise labels which are not there."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.diagnosis import GivenDiagnosis, diagnose
from observal.diagnosis.calibration_check import find_broken_promise
from observal.errors import InvalidInput
from tests.command import observal

NAMES = ["score", "age", "income"]
N = 1500
CUT = 0.25  # 40 % of the rows are above


def world(kept, seed=0, n=N):
    """Rows whose label depends on two features, and for which of them `kept` says that it is there."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 1] + X[:, 2] + rng.normal(size=n) > 0, "yes", "no").astype(object)
    return X, np.where(kept(X, rng), y, None)


def above(X, rng):
    return X[:, 0] > CUT


def exceptions(X, rng):
    return above(X, rng) | (rng.random(len(X)) < 0.015)


def check_words(found):
    """Every diagnosis of given labels says what to do, and nothing that would assume why a label is there."""
    assert isinstance(found, GivenDiagnosis)
    assert found.level == "buy"
    assert "Buy labels" in found.verdict
    assert "observal init" in found.verdict
    said = " ".join(found.text().split())
    assert "saw something that is not in the tables" in said
    for assumed in ("The log covers", "propensit", "Importance weighting", "effective sample size", "No problem"):
        assert assumed not in said
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert values["level"] == "buy"
    assert [region["words"] for region in values["coverage"]["regions"]] == [r.words() for r in found.coverage.regions]


def test_cut_in_one_table_is_seen_as_a_rule():
    X, y = world(above)
    found = diagnose(ob.LoggedData(X, y), feature_names=NAMES)
    check_words(found)
    (region,) = found.coverage.regions
    assert (region.conditions[0].feature, region.labels) == ("score", 0)
    assert region.conditions[0].high == pytest.approx(CUT, abs=0.02)
    assert "Nobody has a label where score ≤ 0.2" in found.verdict
    assert "That looks like a rule." in found.verdict
    assert found.coverage.few_share == region.share == pytest.approx(np.mean(X[:, 0] <= CUT), abs=0.01)
    n_yes, n_no = (int((y == kind).sum()) for kind in ("yes", "no"))
    assert found.summary == f"A table of 1,500 rows, {n_yes + n_no} with a label ({n_no} 'no' and {n_yes} 'yes')."


def test_cut_between_log_and_pool_is_measured_on_the_pool():
    X, y = world(above)
    logged, pool = ob.LoggedData(X[:900], y[:900]), ob.Pool(X[900:])
    for population, of, share in (
        (None, "pool", np.mean(X[900:, 0] <= CUT)),
        ("both", "rows", np.mean(X[:, 0] <= CUT)),
    ):
        found = diagnose(logged, pool, feature_names=NAMES, population=population)
        check_words(found)
        assert found.coverage.regions[0].share == pytest.approx(share, abs=0.01)
        assert f"of the {of}. That looks like a rule" in found.verdict
        assert f"the error is about {'the pool' if of == 'pool' else 'log and pool'}" in found.summary
        assert found.drift.checked
    assert not diagnose(ob.LoggedData(X[y != None], y[y != None]), pool).drift.checked  # noqa: E711 (selection is not drift)


def test_hardly_anybody_is_said_with_the_number_of_labels():
    X, y = world(exceptions)
    found = diagnose(ob.LoggedData(X, y), feature_names=NAMES)
    check_words(found)
    labels = int(np.count_nonzero((y != None) & (X[:, 0] <= CUT)))  # noqa: E711
    region = found.coverage.regions[0]
    assert abs(region.labels - labels) <= 1
    assert (
        f"Hardly anybody has a label where score ≤ {region.conditions[0].high:g}: {region.labels} labels for 6"
        in found.verdict
    )
    assert found.coverage.few_share == (region.share if region.labels < 20 else 0.0)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_labels_at_random_show_no_rule(share):
    for seed in range(5):
        X, y = world(lambda X, rng: rng.random(len(X)) < share, seed)
        found = diagnose(ob.LoggedData(X, y), feature_names=NAMES)
        check_words(found)
        assert found.coverage.regions == ()
        assert found.coverage.few_share == 0.0
        assert "No simple rule on the features tells which rows have a label." in found.text()


def test_few_labels_are_few_for_all_rows():
    X, y = world(lambda X, rng: np.arange(len(X)) < 15)
    found = diagnose(ob.LoggedData(X, y))
    assert found.coverage.few_share == 1.0
    assert "100% of the rows are where fewer than 20 labels are." in found.text()


def test_typos_leaks_and_copies_are_still_named():
    X, y = world(above)
    labelled = np.flatnonzero(y != None)  # noqa: E711
    y[labelled[0]] = "yess"
    X = np.column_stack([X, (y == "yes") + 0.01 * X[:, 0]])
    found = diagnose(ob.LoggedData(X, y), feature_names=[*NAMES, "paid on"], label="bad")
    assert "Column 'paid on' may leak" in found.warnings[0]
    assert found.serious == found.warnings[:1]
    assert found.warnings[1] == "Class 'yess' has 1 label; if it is a typo, correct it in the table."
    twice = ob.LoggedData(np.repeat(X[:, :3], 2, axis=0) + 1e-4 * X.repeat(2, axis=0)[:, :3], np.repeat(y, 2))
    assert "near-copy" in diagnose(twice).warnings[-1]


def test_diagnosis_of_a_session_and_campaign_is_that_of_their_tables(tmp_path):
    X, y = world(above, n=400)
    logged = ob.LoggedData(X, y)
    session = ob.Session(logged, label_budget=20)
    for problem in (
        session.problem,
        ob.Campaign.create_from_arrays(tmp_path / "c.db", logged, label_budget=20).problem,
    ):
        found = diagnose(problem.logged, problem.pool, population="table")
        assert found.coverage == diagnose(logged).coverage
        assert found.summary == diagnose(logged).summary


def test_given_population_that_does_not_exist_raises():
    X, y = world(above, n=60)
    with pytest.raises(InvalidInput, match="leave the population out"):
        diagnose(ob.LoggedData(X, y), population="both")
    with pytest.raises(InvalidInput, match="needs a pool of rows"):
        diagnose(ob.LoggedData(X, y, np.full(60, 0.5)))


@pytest.mark.parametrize("two", [False, True])
def test_command_diagnoses_tables_and_campaigns_without_propensities(tmp_path, two):
    X, y = world(above, n=600)
    frame = pd.DataFrame(X, columns=NAMES).assign(loan=[f"r{i}" for i in range(len(X))], outcome=y)
    frame[: 400 if two else None].to_csv(tmp_path / "loans.csv", index=False)
    frame[400:].drop(columns="outcome").to_csv(tmp_path / "pool.csv", index=False)
    roles = ["--label", "outcome", "--id", "loan"]
    pool = ["--pool", "pool.csv"] if two else []
    done = observal("diagnose", "loans.csv", *pool, *roles, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Nobody has a label where score ≤ 0.2" in " ".join(done.stdout.split())
    values = json.loads(observal("diagnose", "loans.csv", *pool, *roles, "--json", cwd=tmp_path).stdout)
    assert (values["population"], values["level"]) == ("pool" if two else "table", "buy")
    tables = ["--logged", "loans.csv", *pool] if two else ["loans.csv"]
    assert observal("init", "c.db", *tables, *roles, "--budget", 20, cwd=tmp_path).returncode == 0
    of_campaign = json.loads(observal("diagnose", "c.db", "--json", cwd=tmp_path).stdout)
    assert of_campaign["coverage"]["regions"] == values["coverage"]["regions"]
    assert observal("report", "c.db", "-o", "report.html", cwd=tmp_path).returncode == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Nobody has a label where score ≤ 0.2" in page
    assert 'id="weights"' not in page


# -- recorded propensities that promise labels which are not there


def recorded(chance, shown, n=N):
    X, y = world(shown, n=2 * n)
    q = np.where(above(X, None), 1.0, chance)
    return ob.LoggedData(X[:n], y[:n], q[:n]), ob.Pool(X[n:], q[n:])


@pytest.mark.parametrize("chance", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("n", [300, 1500])
def test_small_propensities_for_never_are_never_fine(chance, n):
    found = diagnose(*recorded(chance, above, n), feature_names=NAMES)
    assert found.level == "buy"
    assert found.overlap.barely == pytest.approx(0.6, abs=0.05)
    assert "No problem" not in found.text()
    assert "score ≤ 0.2" in found.verdict
    assert (found.calibration.too_few is None) == (chance * n < 10)
    if found.calibration.too_few is not None:
        assert "have none." in found.calibration.sentences()[0]
        assert found.calibration.sentences()[0] in found.serious
        assert "The propensities contradict which labels were revealed: correct them" in found.verdict


def test_right_propensities_hardly_ever_break_their_promise():
    """Of 4,000 logs, more than 12 (3 in 1,000) break it with chance below 1e-3 if each does with the promised 1 in 1,000 at most."""
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(4000):
        q = rng.choice([0.01, 0.02, 0.05, 0.3], 600)
        broken += find_broken_promise(q, rng.random(600) < q) is not None
    assert broken <= 12


def test_exceptions_that_stand_for_many_rows_are_warned_about():
    logged, pool = recorded(0.015, exceptions)
    found = diagnose(logged, pool, feature_names=NAMES)
    labels = int(np.count_nonzero(logged.revealed & (logged.propensity < 1)))
    assert found.overlap.barely == 0.0
    assert (found.overlap.few_labels, round(found.overlap.few_share, 1)) == (labels, 0.6)
    assert any(f"Only {labels} labels of the log, with heavy weights, stand for " in text for text in found.warnings)
    assert found.level != "good"
    assert "No problem" not in found.text()


@pytest.mark.parametrize("n", [300, 1000, 5000])
def test_ordinary_log_has_no_few_labels(n):
    rng = np.random.default_rng(n)
    for q in (np.full(2 * n, 0.3), 0.2 + 0.6 * rng.random(2 * n), np.where(rng.random(2 * n) < 0.5, 0.2, 0.8)):
        X = rng.normal(size=(2 * n, 2))
        shown = rng.random(n) < q[:n]
        found = diagnose(ob.LoggedData(X[:n], np.where(shown, X[:n, 0] > 0, np.nan), q[:n]), ob.Pool(X[n:], q[n:]))
        assert (found.overlap.few_labels, found.overlap.contradicted) == (0, False)

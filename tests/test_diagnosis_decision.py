"""The old policy's decision among the features: found, named, and nothing else said about such a log."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.diagnosis import diagnose
from observal.diagnosis.calibration_check import check_calibration
from observal.diagnosis.confounding import Confounding
from observal.diagnosis.decision_column import find_decisions
from observal.diagnosis.quick_warnings import quick_warnings
from tests.command import observal

N = 3000


def hospital(rng, lost=0.0):
    age, severity = rng.normal(60, 15, 2 * N), rng.normal(size=2 * N)
    treated = rng.random(2 * N) < 1 / (1 + np.exp(-severity))
    table = pd.DataFrame({"age": age, "severity": severity, "treated": np.where(treated, "yes", "no")})
    table["dose"] = np.where(treated, rng.integers(1, 5, 2 * N), 0)
    table["since"] = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 2 * N), "D")).where(
        treated
    )
    known = treated & (rng.random(2 * N) >= lost)
    table["survived"] = np.where(known, np.where(severity + rng.normal(size=2 * N) < 0.5, "yes", "no"), None)
    return table[:N], table[N:].drop(columns="survived")


def load(table, pool, **more):
    loaded = ob.load(table, pool, label="survived", **more)
    return loaded.logged, loaded.pool, loaded.encoder.names, loaded.encoder.sources


@pytest.mark.parametrize("lost", [0.0, 0.03])
def test_value_number_and_missing_value_that_are_the_decision_are_named(lost):
    logged, _, names, sources = load(*hospital(np.random.default_rng(0), lost))
    found = {decision.column: decision for decision in find_decisions(logged, names, sources)}
    assert set(found) == {"treated", "dose", "since"}
    assert found["treated"].rows == "treated=yes"
    assert found["dose"].rows == "dose ≠ 0"
    assert found["since"].rows == "a known 'since'"
    assert found["treated"].labelled == pytest.approx(1 - lost, abs=0.02)
    assert found["treated"].labelled_others == 0.0


def test_policy_that_draws_or_follows_a_score_is_not_called_a_column():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=2000), rng.integers(0, 2, 2000)])
    for shown in (rng.random(2000) < 0.2 + 0.7 * X[:, 1], X[:, 0] > 0.3, np.ones(2000, dtype=bool)):
        logged = ob.LoggedData(X, np.where(shown, X[:, 0] > 0.5, np.nan), 0.5)
        assert find_decisions(logged, ["score", "branch"], ["score", "branch"]) == ()


def test_diagnosis_with_the_decision_says_only_what_to_leave_out():
    table, pool = hospital(np.random.default_rng(0))
    given = load(table.assign(q=np.where(table["survived"].isna(), 0.01, 0.99)), pool.assign(q=0.5), propensity="q")
    logged, pool, names, sources = given
    diagnosis = diagnose(logged, pool, feature_names=names, sources=sources)
    assert diagnosis.level == "buy"
    assert diagnosis.verdict.startswith(
        "Columns 'treated', 'dose' and 'since' are the decision that revealed the label ("
    )
    assert "leave them out with --exclude treated,dose,since." in diagnosis.verdict
    for false in ("too small", "barely covered", "of up to"):
        assert false not in diagnosis.text()
    assert "treated=yes" in quick_warnings(logged, ob.Problem(logged, pool), names, sources)[0]
    assert len(json.dumps(diagnosis.to_dict())) > 100


def test_command_takes_the_column_out(tmp_path):
    table, pool = (part.drop(columns=["dose", "since"]) for part in hospital(np.random.default_rng(0)))
    table.to_csv(tmp_path / "log.csv", index=False)
    pool.to_csv(tmp_path / "pool.csv", index=False)
    for tables in (["log.csv"], ["log.csv", "--pool", "pool.csv"]):
        command = ["diagnose", *tables, "--label", "survived"]
        said = " ".join(observal(*command, cwd=tmp_path).stdout.split())
        assert "Column 'treated' is the decision that revealed the label" in said
        assert "--exclude treated." in said
        said = " ".join(observal(*command, "--exclude", "treated", cwd=tmp_path).stdout.split())
        assert "decision that revealed" not in said
        assert "Buy labels among the" in said
        assert "The log covers" not in said


def test_given_propensities_are_still_diagnosed_beside_the_decision():
    table, pool = hospital(np.random.default_rng(0))
    chance = [1 / (1 + np.exp(-frame["severity"])) for frame in (table, pool)]
    loaded = ob.load_problem(table.assign(q=chance[0]), pool.assign(q=chance[1]), ob.TableRoles("survived", "q"))
    diagnosis = diagnose(loaded.logged, loaded.pool, feature_names=loaded.encoder.names)
    assert "is the decision" in diagnosis.warnings[0] or "are the decision" in diagnosis.warnings[0]
    assert not diagnosis.repeats_decision
    assert dict(diagnosis.sections())["Propensities"]


def test_large_log_with_certain_propensities_is_not_called_small():
    shown = np.arange(4000) % 2 == 0
    assert check_calibration(np.where(shown, 0.9999, 0.0001), shown).status == "nearly certain"
    assert check_calibration(np.full(20, 0.5), np.arange(20) % 2 == 0).status == "checked"
    assert check_calibration(np.full(12, 0.5), np.arange(12) % 2 == 0).status == "too few rows"


def test_confounding_that_moves_nothing_is_said_in_words():
    said = " ".join(Confounding(0.014, 500, ((1.25, 0.014, 0.014), (2.0, 0.014, 0.0141))).sentences())
    assert "between" not in said
    assert "says nothing about rows that had almost no chance of a label" in said

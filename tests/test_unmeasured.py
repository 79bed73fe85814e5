"""What status, report and page say of rows that labels say nothing about, of given labels, and of a log that is contradicted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

import observal as ob
from observal.intervals.cells import Cells
from observal.intervals.contradiction import COMPARED
from observal.intervals.error import BY_BOUGHT, CONFOUNDED
from observal.intervals.measures import BASELINE, WINS, beats_baseline, confusion_key, half_won, measure_all
from observal.journal.status import status_of
from observal.problem.goals import Goals
from observal.problem.interval import Interval
from observal.report import sections
from observal.report.campaign_report import RAISE_BUDGET, _next_step
from observal.report.comparison import OURS, TREES, ComparedModel, Comparison
from observal.report.content import ReportContent
from observal.report.decision import decide
from observal.report.html import render_report
from observal.report.verdict import (
    Measure,
    advice,
    baseline_sentence,
    confusion_lines,
    contradiction_sentence,
    error_words,
    measures_of,
)
from observal.server.worker import _describe_round
from tests.command import observal

CLASSES = ["paid", "default"]


def table(n=240, n_labelled=90):
    """A table whose first rows have a given label, all from the upper end of a score."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.sort(rng.normal(size=n))[::-1], rng.normal(size=n)])
    y = (X[:, 0] + rng.normal(size=n) < 0.3).astype(float)
    return X, y, np.where(np.arange(n) < n_labelled, y, np.nan)


def partly(unknown, estimate=0.07):
    """An interval of rows that are measured well, and of others that are not."""
    ends = ((1.0 - unknown) * (estimate - 0.02), (1.0 - unknown) * (estimate + 0.02) + unknown)
    return Interval(estimate, *ends, 0.95, "cells", unknown=unknown)


def intervals(unknown):
    cells = {confusion_key(a, b): partly(unknown) for a in CLASSES for b in CLASSES}
    return {name: partly(unknown) for name in ("error", BASELINE, "recall", "prevalence")} | cells


def test_numbers_are_not_measured_if_more_than_half_of_the_rows_are_not():
    known = intervals(0.6)
    for measure in measures_of(known, CLASSES):
        assert (measure.estimate(), measure.ends(), measure.words()) == ("–", "not measured", "not measured")
    assert confusion_lines(known, CLASSES) == ["not measured"]
    said = "60% of the rows are not measured, so it is not known whether the model beats guessing."
    assert baseline_sentence(known, CLASSES) == said
    assert advice(known, CLASSES, "error") == ""
    assert "60% are not measured" in error_words(known["error"])


def test_numbers_carry_the_unmeasured_share_up_to_a_half():
    known = intervals(0.4)
    measure = Measure("prevalence", "", known["prevalence"])
    assert (measure.estimate(), measure.words()) == ("–", "between 3% and 45%")
    assert "wrong on between 3% and 45% of the rows" in baseline_sentence(known, CLASSES)
    assert "– (3% to 45%)" in confusion_lines(known, CLASSES)[1]


def test_no_export_while_a_tenth_is_unmeasured():
    status = SimpleNamespace(
        objective="error", classes=CLASSES, stopped="", label_budget=9, labels=3, budget_cost=None, waiting=""
    )
    good = {WINS: Interval(0.6, 0.55, 0.65, 0.95, "cells"), "recall": Interval(0.8, 0.7, 0.9, 0.95, "cells")}
    for unknown in (0.11, 0.3, 0.6):
        known = intervals(unknown) | good
        assert _next_step(status, known, 0.1) == "label the rows that observal ask shows."
        decided = decide(known, "good")
        assert decided.kind == "buy"
        assert f"{100 * unknown:.0f}%" in decided.why[-2]
        assert "not measured" in " ".join(decided.why)
    spent = SimpleNamespace(**{**vars(status), "stopped": "the budget is spent", "labels": 9})
    assert _next_step(spent, known, 0.1) == RAISE_BUDGET
    assert "observal export" in _next_step(status, intervals(0.05) | good, 0.1)


def one_cell(n):
    """Rows of a single cell, each labelled with the same weight."""
    return Cells(np.ones(1), np.zeros(n, dtype=np.int64), np.ones(n), 0.0, 10 * n)


@pytest.mark.parametrize(("won", "lost", "beats"), [(16, 4, True), (14, 10, None), (5, 20, False)])
def test_guessing_is_beaten_by_the_difference_on_the_same_rows(won, lost, beats):
    """150 labels, 42 of the rarer class; the model is right on `won` of these, and wrong on `lost` of the others."""
    codes, predicted = np.repeat([1, 0], [42, 108]), np.zeros(150, dtype=np.int64)
    predicted[:won] = 1
    predicted[-lost:] = 1
    found = measure_all(one_cell(150), codes, predicted, predicted - 0.5, CLASSES)
    assert found[WINS].estimate == pytest.approx(0.5 + (won - lost) / 300)
    assert beats_baseline(found) is beats
    z = (won - lost) / np.sqrt(won + lost)
    assert (abs(z) > norm.ppf(0.975)) == (beats is not None)


def test_rows_that_neither_wins_count_half():
    assert half_won(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])).tolist() == [1.0, 0.0, 0.5]


# -- one table


@pytest.fixture(scope="module")
def session():
    X, y, given = table()
    session = ob.Session(ob.LoggedData(X, given), label_budget=60, method=ob.NewtonVC(batch=30))
    while batch := session.ask():
        session.tell(dict(zip(batch.ids, y[list(batch.ids)].tolist(), strict=True)))
    return session


def content_of(session, **more):
    problem, result = session.problem, session.result()
    found = ob.diagnose(problem.logged, problem.pool, population=session.settings.goals.population)
    content = ReportContent("t", problem.logged, problem.pool, result, found, goals=session.settings.goals)
    return replace(content, **more)


def test_status_of_one_table_names_no_log(session):
    lines = dict(session.status().lines())
    assert lines["rows"] == "240, 90 of them with a label"
    assert lines["to ask about"] == "150 rows, 2 features"
    assert "log" not in lines
    assert "pool" not in lines
    assert lines["intervals"].startswith("about all rows of the table;")


def test_recorded_propensities_keep_log_and_pool():
    X, _, given = table()
    session = ob.Session(ob.LoggedData(X, given, 0.5), ob.Pool(X, 0.5), label_budget=5)
    lines = dict(session.status().lines())
    assert (lines["log"], lines["pool"]) == ("240 rows, 90 with a label", "240 rows, 2 features")
    assert "not counted" not in lines["intervals"]


@pytest.mark.parametrize("population", [None, "both"])
def test_log_and_pool_say_what_both_would_mean(population):
    X, _, given = table()
    session = ob.Session(ob.LoggedData(X, given), ob.Pool(X + 0.1), label_budget=5, population=population)
    said = "90 labelled rows of the log train but are not counted; with --population both the error is about them, too."
    assert (said in dict(session.status().lines())["intervals"]) == (population is None)
    assert (said in " ".join(sections.headline(content_of(session)))) == (population is None)
    assert ("rows" in dict(session.status().lines())) == (population == "both")
    assert Goals("pool").uncounted_words(0) == ""


def test_nothing_is_said_about_the_old_policy_if_labels_are_given(session):
    assert CONFOUNDED not in session.intervals()
    assert CONFOUNDED not in session.intervals(0)
    page = render_report(content_of(session))
    for words in ("old policy would", "odds of revealing", "Barely covered", "#weights", "by propensity"):
        assert words not in page
    assert "Of 240 rows, 90 have a given label. From the other 150 rows, 60 more labels were bought." in page


def test_verdict_on_the_log_looks_at_what_was_bought(session):
    found = sections.log_verdict(content_of(session))
    assert (found.level, found.title) == ("good", "The given labels alone would not be enough.")
    assert found.sentences[0].startswith("With 60 bought labels, the error is measured on ")
    before = sections.log_verdict(content_of(session, intervals={"error": partly(0.6)}))
    assert (before.level, before.title) == ("buy", "The given labels alone are not enough.")


def test_report_compares_nothing_that_is_not_measured(session):
    models = [ComparedModel(name, None, partly(0.6)) for name in (OURS, TREES)]
    content = content_of(session, intervals=intervals(0.6), comparison=Comparison(models, 0.1))
    assert sections.comparison_table(content).rows[0][1] == ("–", "not measured")
    assert sections.comparison_words(content) == ["60% of the rows are not measured, so no models can be compared yet."]
    assert sections.confusion_table(content).rows == []
    assert ("Always 'paid'", "not measured") not in [tile[:2] for tile in sections.tiles(content)]
    assert "not measured" in [tile[1] for tile in sections.tiles(content)]


# -- a log that is contradicted


def contradicted_run():
    """A log that hides three of four positive rows, said to show every row with the same chance."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2400, 3))
    y = (rng.random(2400) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(int)
    shown = rng.random(1200) < np.where(y[:1200] == 1, 0.1, 0.5)
    logged, pool = ob.LoggedData(X[:1200], np.where(shown, y[:1200], np.nan), 0.3), ob.Pool(X[1200:], 0.3)
    method = ob.NewtonVC(batch=50, explore_share=0.5)
    return logged, pool, y[1200:], ob.run(logged, pool, lambda ids: y[1200:][ids], method, 200, tolerance=None)


def test_contradicted_log_is_said_first_with_the_error_that_needs_no_propensities():
    logged, pool, y, result = contradicted_run()
    own = result.intervals[BY_BOUGHT]
    wrong = float(np.mean(result.estimator.predict(pool.X) != y))
    assert own.low <= wrong <= own.high
    assert own.high - own.low < 0.4
    said = contradiction_sentence(result.intervals, [0, 1])
    assert said.startswith("Rows picked at random contradict the log: class 1 is ")
    assert said.endswith(f"By the bought labels alone, the error on the pool is {error_words(own)}.")
    content = ReportContent("t", logged, pool, result)
    assert sections.headline(content)[0].startswith("Rows picked at random contradict the log")
    assert f"By the bought labels alone, the error on the pool is {error_words(own)}." in sections.decision(content).why
    assert _describe_round(4, 200, result.error_interval, said)["warning"] == said


def test_clean_log_has_no_second_error():
    X, _, given = table(400, 400)
    given = np.where(np.random.default_rng(0).random(400) < 0.5, given, np.nan)
    session = ob.Session(ob.LoggedData(X, given, 0.5), ob.Pool(X + 0.01, 0.5), label_budget=5, method=ob.NewtonVC())
    assert BY_BOUGHT not in session.intervals(0)
    assert contradiction_sentence(session.intervals(0), [0, 1]) == ""


def test_status_says_a_contradiction_first():
    from observal.cli.results import ModelMeasures, _measures_to_lines

    X, _, given = table()
    status = status_of(ob.Session(ob.LoggedData(X, given), label_budget=5).engine.ledger)
    found = {COMPARED["error"]: Interval(0.3, 0.2, 0.4, 0.995, ""), BY_BOUGHT: Interval(0.4, 0.35, 0.45, 0.95, "cells")}
    lines = _measures_to_lines(status, ModelMeasures(intervals(0.0) | found, None, None))
    assert lines[0][0] == "warning"
    assert lines[0][1].endswith("the error on the pool is between 35% and 45% (95% confidence), estimate 40%.")


# -- the command line


def test_command_line_says_rows_and_what_is_not_measured(tmp_path):
    X, _, given = table()
    words = {0.0: "paid", 1.0: "default"}
    rows = [f"L{i},{X[i, 0]:.4f},{X[i, 1]:.4f},{words.get(given[i], '')}" for i in range(len(X))]
    (tmp_path / "t.csv").write_text("\n".join(["loan,score,debt,outcome", *rows]) + "\n")
    said = observal("init", "t.db", "t.csv", "--label", "outcome", "--id", "loan", "--method", "newton", cwd=tmp_path)
    assert "240, 90 of them with a label" in said.stdout
    found = observal("status", "t.db", "--interval", cwd=tmp_path).stdout
    assert "prevalence" in found
    assert "not measured: share of" in found
    assert "to ask about" in found

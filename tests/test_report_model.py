"""What the report says of the model: its verdict, whether labels were worth it, what it uses, and where it is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

import observal as ob
from observal.diagnosis.feature_values import source_of
from observal.errors import InvalidInput
from observal.intervals.cells import beta_ends
from observal.intervals.contradiction import COMPARED
from observal.intervals.measures import AUC, BASELINE, BASELINE_COST, COST, COST_WINS, WINS, confusion_key
from observal.intervals.thresholds import ThresholdClassifier
from observal.problem.goals import Goals
from observal.problem.interval import Interval
from observal.problem.judged_rows import JudgedRows
from observal.problem.objectives import BALANCED
from observal.problem.problem import Problem
from observal.problem.words import number, percent
from observal.report import sections
from observal.report.campaign_report import _next_step, write_campaign_report
from observal.report.comparison import (
    LOGISTIC,
    OURS,
    TREES,
    ComparedModel,
    compare_models,
    comparison_sentences,
    fit_logistic,
    folds_for,
    predict_unseen,
)
from observal.report.decision import decide
from observal.report.html import ReportContent, render_report
from observal.report.inspection import (
    MOST_COLUMNS,
    MOST_OF_COLUMN,
    column_use,
    error_of_group,
    errors_by_group,
    groups_of_values,
)
from observal.report.verdict import Measure, error_words, is_known, outlook, shows_estimate, width_after, worth
from tests.browser import DESKTOP, PHONE, violations
from tests.test_report import campaign, check_page


def between(low, high):
    return Interval((low + high) / 2, low, high, 0.95, "counted")


UNKNOWN = Interval(0.5, 0.0, 1.0, 0.95, "too few labels")


@pytest.fixture(scope="module")
def run():
    return campaign(method=ob.NewtonVC())


# -- errors by group


def judge(rows, codes, predicted, weight):
    """Judged rows whose intervals are those of as many labels as the weights are worth."""

    def ratio(top, bottom):
        share = float(weight @ top / (weight @ bottom))
        n = float((weight @ bottom) ** 2 / (weight**2 @ bottom))
        return Interval(share, *beta_ends(share, share * (1.0 - share) / n, 1 / n, 1 / n**2), 0.95, "counted")

    return JudgedRows(rows, codes, predicted, weight, ratio)


def judged_rows():
    """Ten rows of the log in the city and twenty elsewhere, aged 0 to 29; pool ages make thirds of 0–9, 10–19 and 20–29."""
    age, city = np.arange(30.0), np.repeat([1.0, 0.0], [10, 20])
    X = np.column_stack([age, city])
    problem = Problem(ob.LoggedData(X, np.arange(30) % 2, 1.0), ob.Pool(X, 0.5))
    wrong = np.isin(np.arange(30), [0, 1, 12])
    weight = np.where(np.arange(30) == 0, 3.0, 1.0)
    return problem, judge(np.arange(30), np.zeros(30, dtype=np.int64), wrong.astype(np.int64), weight)


def group_errors(problem, judged, names, first, sources=None):
    sources = [source_of(name) for name in names] if sources is None else sources
    return errors_by_group(problem, judged, names, sources, first, lambda _, value: number(value))


def test_errors_by_group_are_weighted_shares():
    problem, judged = judged_rows()
    found = group_errors(problem, judged, ["age", "city=yes"], ["city"])
    assert [row.group for row in found] == ["city=yes", "city: other values", "age ≤ 9", "age from 9 to 19", "age > 19"]
    assert [row.labels for row in found] == [10, 20, 10, 10, 10]
    assert [row.error.estimate for row in found] == pytest.approx([4 / 12, 1 / 20, 4 / 12, 1 / 10, 0.0])
    assert all(row.error.low <= row.error.estimate <= row.error.high < 1.0 for row in found)
    assert [row.share for row in found] == pytest.approx([12.0, 20.0, 12.0, 10.0, 10.0])
    assert found[4].error.high > 0.1  # ten labels without a mistake do not show that there is none


def test_errors_by_group_show_all_values_of_a_column():
    """Eight groups are enough, but a category is not left half-way."""
    kinds = np.eye(4)[np.arange(40) % 4]
    X = np.column_stack([np.arange(40.0), np.arange(40.0) % 7, kinds, np.arange(40.0)])
    problem = Problem(ob.LoggedData(X, np.arange(40) % 2, 1.0), ob.Pool(X, 0.5))
    zeros = np.zeros(40, dtype=np.int64)
    names = ["age", "debt", "job=a", "job=b", "job=c", "job=d", "income"]
    found = group_errors(problem, judge(np.arange(40), zeros, zeros, np.ones(40)), names, ["debt", "age", "job"])
    assert [row.group for row in found][6:] == ["job=a", "job=b", "job=c", "job=d"]
    sources = ["age", "debt", *["job"] * 4, "income"]
    again = group_errors(problem, judge(np.arange(40), zeros, zeros, np.ones(40)), names, ["job"], sources=sources)
    assert [row.group for row in again][:4] == ["job=a", "job=b", "job=c", "job=d"]


def test_errors_by_group_show_the_largest_groups_of_a_long_category():
    kind = np.minimum(np.arange(200) // 5, 20)  # the last one has most
    X = np.eye(21)[kind]
    problem = Problem(ob.LoggedData(X, np.arange(200) % 2, 1.0), ob.Pool(X, 0.5))
    zeros = np.zeros(200, dtype=np.int64)
    found = group_errors(problem, judge(np.arange(200), zeros, zeros, np.ones(200)), [f"k={i}" for i in range(21)], [])
    assert len(found) == MOST_OF_COLUMN
    assert found[-1].group == "k=20"


def test_errors_by_group_omit_small_groups_and_zero_weights():
    problem, judged = judged_rows()
    few = judge(*judged[:3], np.where(np.arange(30) < 6, 0.0, judged.weight))
    found = {row.group: row for row in group_errors(problem, few, ["age", "city=yes"], ["age"])}
    assert set(found) == {
        "age from 9 to 19",
        "age > 19",
        "city: other values",
    }  # four labels that count are left in the other groups
    more = judge(*judged[:3], np.where(np.arange(30) < 5, 0.0, judged.weight))
    found = group_errors(problem, more, ["age", "city=yes"], ["age"])
    assert (found[0].group, found[0].labels, found[0].error.estimate) == ("age ≤ 9", 5, 0.0)


@pytest.mark.parametrize(
    "method",
    [ob.AutoVC(learners=("linear",)), ob.NewtonVC(), ob.CommitteeVC(LogisticRegression())],
    ids=["auto", "newton", "committee"],
)
def test_errors_by_group_average_to_the_estimated_error(run, method):
    logged, pool, _ = run
    session = ob.Session(logged, pool, method, label_budget=10)
    query = session.ask()
    session.tell(query.ids, np.where(pool.X[query.positions, 0] > 0, "yes", "no"))
    judged = session.judged()
    error = session.result().error_interval.estimate
    assert judged.weight @ (judged.predicted != judged.codes) == pytest.approx(error)
    assert error > 0.02
    problem = Problem(logged, pool)
    found = group_errors(problem, judged, ["a", "b", "c"], ["a"])[:3]
    thirds = np.quantile(pool.X[:, 0], [1 / 3, 2 / 3], method="lower")
    shares = np.bincount(np.searchsorted(thirds, problem.take(judged.rows)[:, 0]), weights=judged.weight)
    assert shares @ [row.error.estimate for row in found] == pytest.approx(error)
    assert [row.share for row in found] == pytest.approx(shares)
    whole = judged.ratio((judged.predicted != judged.codes).astype(float), np.ones(judged.codes.size))
    assert whole.high == pytest.approx(session.result().error_interval.high)  # the same cells, for the same looks


def test_errors_by_group_are_ordered_by_column_use(run):
    logged, pool, result = run
    rows = np.flatnonzero(logged.revealed)
    wrong_low = (logged.X[rows, 0] < np.quantile(pool.X[:, 0], 1 / 3)).astype(np.int64)
    judged = judge(rows, np.zeros(rows.size, dtype=np.int64), wrong_low, np.ones(rows.size))
    content = ReportContent("x", logged, pool, result, feature_names=["income", "age", "debt"], judged=judged)
    page = render_report(content)
    check_page(page)
    assert "Errors by group" in page
    assert '<th scope="row" class="words">income ≤' in page
    groups = sections.groups_and_use(content)[0].rows
    assert groups[0][0].startswith("income ≤")
    assert [row[2] for row in groups[:3]] == ["100%", "0%", "0%"]
    assert "Errors by group" not in render_report(ReportContent("x", logged, pool, result))


def test_missing_values_are_a_group_and_those_that_stand_in_for_them_are_in_no_other():
    """Of 40 rows, 10 have no age: zeros stand in for them."""
    missing = np.arange(40) < 10
    X = np.column_stack([np.where(missing, 0.0, np.arange(40.0)), missing, np.eye(3)[np.arange(40) % 3][:, :2]])
    problem = Problem(ob.LoggedData(X, np.arange(40) % 2, 1.0), ob.Pool(X, 0.5))
    zeros = np.zeros(40, dtype=np.int64)
    names = ["age", "age is missing", "job=a", "job=b"]
    found = group_errors(problem, judge(np.arange(40), zeros, zeros, np.ones(40)), names, ["age"])
    assert [(row.group, row.labels) for row in found] == [
        ("age ≤ 19", 10), ("age from 19 to 29", 10), ("age > 29", 10), ("age: missing", 10),
        ("job=a", 14), ("job=b", 13), ("job: other values", 13),
    ]  # fmt: skip


def test_groups_of_values_show_thirds_of_numbers_and_the_commonest_values():
    ages = [None, *range(60)]
    found = groups_of_values("age", ages, ages)
    assert [(group, int(inside.sum())) for group, inside in found] == [
        ("age ≤ 19", 20), ("age from 19 to 39", 20), ("age > 39", 20), ("age: missing", 1),
    ]  # fmt: skip
    towns = [f"t{n}" for n in range(20) for _ in range(20 - n)]
    found = groups_of_values("town", towns, towns)
    assert len(found) == MOST_OF_COLUMN + 1
    assert (found[-1][0], int(found[-1][1].sum())) == ("town: other values", sum(range(1, 9)))
    few = error_of_group(("rare", np.arange(30) < 3), judged_rows()[1])
    assert (few.labels, few.error) == (3, None)  # shown, but without a number


def test_recall_by_group_is_weighted_share_of_class_found():
    codes = np.repeat([1, 0], [12, 18])
    predicted = np.where(np.isin(np.arange(30), [0, 1, 11, 20]), 1 - codes, codes)
    weight = np.where(np.arange(30) == 0, 3.0, 1.0)
    judged = judge(np.arange(30), codes, predicted, weight)
    young = error_of_group(("young", np.arange(30) < 15), judged, positive=1)
    assert (young.positives, young.found) == (12, 9)
    assert young.recall.estimate == pytest.approx(9 / 14)  # the first row counts three times
    assert young.recall.low < 9 / 14 < young.recall.high
    assert young.error == error_of_group(("young", np.arange(30) < 15), judged).error
    old = error_of_group(("old", np.arange(30) >= 8), judged, positive=1)
    assert (old.positives, old.found, old.recall) == (4, 3, None)  # too few of the class


# -- the decision, and ordinary models beside this one


@pytest.mark.parametrize(
    ("intervals", "level", "more", "kind", "title"),
    [
        ({"error": UNKNOWN}, "care", {}, "buy", "Buy about 50 more labels."),
        ({"error": between(0.02, 0.08)}, "good", {}, "use", "Use it."),
        ({"error": between(0.02, 0.22)}, "good", {}, "buy", "Buy about 150 more labels."),
        ({"error": between(0.02, 0.22)}, "good", {"to_buy": 20}, "buy", "Buy about 20 more labels."),
        ({"error": between(0.02, 0.22)}, "good", {"to_buy": 0}, "stop", "Stop: no row is left to ask about."),
        ({"error": between(0.1, 0.2), BASELINE: between(0.1, 0.2)}, "buy", {"to_gain": 0.001}, "stop",
         "Stop: this model is of no use."),
        ({"error": between(0.1, 0.2), BASELINE: between(0.1, 0.2)}, "buy", {"to_gain": 0.01}, "buy",
         "Buy about 100 more labels."),
        ({"error": between(0.1, 0.2), BASELINE: between(0.15, 0.25)}, "care", {}, "buy", "Buy about 50 more labels."),
        ({"error": between(0.1, 0.2), BASELINE: between(0.1001, 0.2001)}, "care", {}, "stop",
         "Stop: there is little to gain."),
        ({"error": between(0.02, 0.08), COMPARED["error"]: Interval(0.3, 0.2, 0.4, 0.95, "counted")}, "good", {}, "stop",
         "Stop, and check the log."),
        ({"error": between(0.2, 0.3), "recall": between(0.82, 0.9)}, "good", {"objective": "recall=0.8"}, "use", "Use it."),
        ({"error": between(0.2, 0.3), "recall": between(0.7, 0.9)}, "good", {"objective": "recall>=0.8"}, "buy",
         "Buy about 500 more labels."),
        ({"error": between(0.2, 0.3), "recall": between(0.7, 0.9)}, "good", {"objective": "recall=0.8"}, "use", "Use it."),
        ({"error": between(0.2, 0.3), "recall": between(0.4, 0.9)}, "good", {"objective": "recall=0.8"}, "buy",
         "Buy about 50 more labels."),
        ({"error": between(0.2, 0.3), "recall": between(0.2, 0.4)}, "good", {"objective": "flag=0.05"}, "use", "Use it."),
    ],
)  # fmt: skip
def test_decision_is_to_use_it_to_buy_or_to_stop(intervals, level, more, kind, title):
    found = decide(intervals, level, **more)
    assert (found.kind, found.title) == (kind, title)
    assert found.why


def test_comparison_judges_ordinary_models_on_unseen_rows_with_the_same_weights():
    """Labels that depend on one feature: logistic regression finds them; labels by coin have an error of a half, for trees too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    problem = Problem(ob.LoggedData(X[:200], (X[:200, 0] > 0) * 1, 0.5), ob.Pool(X[200:], 0.5))
    codes, weight = (X[:, 0] > 0).astype(np.int64), rng.uniform(0.5, 2.0, 300)
    judged = judge(np.arange(300), codes, 1 - codes, weight / weight.sum())
    found = compare_models(problem, judged, between(0.9, 1.0), by_first_model=codes)
    assert [model.name for model in found.models] == [OURS, LOGISTIC, TREES]
    ours, logistic, trees = found.models
    assert ours.all_labels == between(0.9, 1.0)
    assert (ours.log_alone.estimate, ours.with_log) == (0.0, "fewer")
    assert logistic.all_labels.estimate < 0.05
    assert (logistic.than_ours, trees.than_ours) == ("fewer", "fewer")
    assert 0.0 < found.seconds < 60.0
    by_hand = predict_unseen(X, codes, folds_for(codes), np.arange(300) < 200, fit_logistic)
    assert logistic.log_alone.estimate == pytest.approx(judged.weight @ (by_hand != codes))
    coins = judged._replace(codes=rng.integers(0, 2, 300))
    noise = compare_models(problem, coins, between(0.4, 0.6), None).models[2]
    assert 0.35 < noise.all_labels.estimate < 0.65  # five standard errors; a tree that saw its labels would be near 0
    several = judged._replace(codes=np.digitize(X[:, 0], [-0.5, 0.5]))
    assert compare_models(problem, several, between(0.0, 0.1), None).models[2].all_labels.estimate < 0.15
    assert (
        compare_models(problem, judge(*(part[:200] for part in judged[:4])), between(0.0, 0.1), None)
        .models[1]
        .log_alone
        is None
    )


def test_comparison_says_whether_model_and_labels_were_needed():
    def said(than_ours, with_log):
        known = between(0.1, 0.2)
        others = [
            ComparedModel(name, known, known, kind, with_log)
            for name, kind in zip((LOGISTIC, TREES), than_ours, strict=True)
        ]
        return " ".join(comparison_sentences([ComparedModel(OURS, known, known, with_log=with_log), *others], 40))

    assert said(("fewer", "more"), "more") == (
        "Logistic regression on the same labels makes fewer mistakes than this model: use it instead. Boosted trees on the same labels make "
        "more mistakes than this model. The 40 bought labels were needed: with the log alone, this model, logistic regression and boosted "
        "trees make more mistakes."
    )
    assert said(("as many", "as many"), "as many").endswith(
        "The 40 bought labels were hardly needed: with the log alone, these models make no more mistakes."
    )
    assert "too few labels to tell" in said(("not shown", "as many"), "not shown")


# -- what the model uses


class Model:
    """Says what a function of the rows says."""

    classes_ = np.array([0, 1])

    def __init__(self, chance):
        self.chance = chance

    def predict_proba(self, X):
        chance = self.chance(X)
        return np.column_stack([1.0 - chance, chance])


def test_unused_columns_move_nothing():
    X = np.random.default_rng(0).normal(size=(250, 3))
    model = Model(lambda X: np.where(X[:, 2] > 0, 0.9, 0.1))
    found = column_use(model, X, ["a", "b", "c"])
    assert found[0][0] == "c"
    assert found[0][1] == pytest.approx(0.4, abs=0.08)  # half of the rows change sides, by 0.8
    assert [moved for _, moved in found[1:]] == [0.0, 0.0]


def test_column_use_shuffles_features_of_one_column_together():
    kind = np.random.default_rng(0).integers(0, 2, 250)
    X = np.column_stack([kind, 1 - kind, np.zeros(250)]).astype(float)
    adds_up = Model(lambda X: np.clip(X[:, 0] + X[:, 1], 0.0, 2.0) / 2.0)  # one half, as long as they stay together
    assert column_use(adds_up, X, ["k", "k", "z"]) == [("k", 0.0), ("z", 0.0)]
    assert column_use(adds_up, X, ["k=a", "k=b", "z"])[0][1] > 0.1


def test_column_use_is_empty_for_sparse_and_wide_tables():
    model, wide = Model(lambda X: np.full(X.shape[0], 0.5)), np.zeros((20, MOST_COLUMNS + 1))
    names = [f"x{i}" for i in range(MOST_COLUMNS + 1)]
    assert column_use(model, sp.csr_matrix(wide[:, :2]), names[:2]) == []
    assert column_use(model, wide, names) == []
    assert len(column_use(model, wide[:, 1:], names[1:])) == MOST_COLUMNS


# -- the verdict


def verdict(run, objective, **intervals):
    logged, pool, result = run
    found = {
        "error": between(0.02, 0.08),
        BASELINE: between(0.02, 0.04),
        WINS: between(0.1, 0.3),
        AUC: between(0.8, 0.9),
        "recall": between(0.7, 0.9),
        **intervals,
    }
    return ReportContent("x", logged, pool, result, intervals=found, goals=Goals(objective=objective))


@pytest.mark.parametrize(
    ("objective", "intervals", "level", "title"),
    [
        ("error", {}, "buy", "The model does not beat guessing."),
        ("error", {WINS: between(0.4, 0.6)}, "care", "The model is not shown to beat guessing."),
        ("error", {WINS: between(0.6, 0.8)}, "good", "The model beats guessing."),
        ("error", {WINS: between(0.6, 0.8), "error": UNKNOWN}, "care", "The model is not shown to beat guessing."),
        ("recall=0.8", {}, "good", "The model tells the classes apart."),
        ("recall=0.8", {AUC: between(0.45, 0.7)}, "care", "The model is not shown to tell the classes apart."),
        ("cost=1,10", {}, "good", "The model tells the classes apart."),
    ],
)
def test_verdict_depends_on_the_objective(run, objective, intervals, level, title):
    """A model that is to find a rare class makes more mistakes than one that never looks for it."""
    found = sections.model_verdict(verdict(run, objective, **intervals))
    assert (found.level, found.title) == (level, title)


def test_verdict_is_shown_in_a_box(run):
    content = replace(verdict(run, "recall=0.8", recall=between(0.82, 0.9)), author="Ann <A.>", made="1 May 2026")
    model = ThresholdClassifier(run[2].estimator, 0.0346)
    page = render_report(replace(content, result=replace(content.result, estimator=model)))
    box = page.split('<p class="verdict good"><strong>The model tells the classes apart.</strong>')[1].split("</p>")[0]
    assert "Always predicting" not in box  # finding rare rows costs mistakes
    assert '<p class="kind">observal report by Ann &lt;A.&gt; · 1 May 2026</p>' in page
    assert "The model predicts &#39;yes&#39; where its chance is at least 3.5%." in box
    assert "The target of 80% recall of &#39;yes&#39; is reached" in box
    assert re.search(
        r"<dt>Recall of &#39;yes&#39;</dt><dd>\d+%</dd>\s*<dd class=\"more\">82% to 90%</dd>", page
    )  # a tile
    assert "<dt>Recall" not in render_report(verdict(run, "error"))


@pytest.mark.parametrize(
    ("recall", "words"),
    [
        (between(0.82, 0.9), "is reached: recall is between 82% and 90%"),
        (between(0.5, 0.7), "is not reached: recall is between 50% and 70%"),
        (between(0.7, 0.9), "may be reached: recall is between 70% and 90%"),
    ],
)
def test_verdict_compares_recall_with_the_target(run, recall, words):
    said = {o: sections.model_verdict(verdict(run, o, recall=recall)).sentences for o in ("recall=0.8", "error")}
    assert f"The target of 80% recall of 'yes' {words}." in said["recall=0.8"]
    assert not any("target" in sentence for sentence in said["error"])


# -- was it worth it?


def test_worth_compares_error_before_and_now(run):
    before, now, unknown = ([Measure("error", "", one)] for one in (between(0.1, 0.4), between(0.03, 0.08), UNKNOWN))
    said = worth(before, now, 120, ["no", "yes"])
    assert said == "With the log alone the error was between 10% and 40%; with 120 more labels it is between 3% and 8%."
    assert "with 1 more label it is" in worth(before, now, 1, ["no", "yes"])
    assert "the error was not known; with 1,200 more labels" in worth(unknown, now, 1200, ["no", "yes"])
    none = worth(unknown, now, 0, ["no", "yes"])
    assert none == "With the log alone the error is between 3% and 8%. No label was bought yet."
    assert outlook(now[0], 0.0123).startswith(
        "The next 50 labels may lower it by at most about 1.2 points. Its interval may"
    )
    early = "With 50 more labels the interval for the error may be about 4.6 points wide instead of 5; this is a rough guess."
    assert outlook(now[0], None) == early
    assert outlook(unknown[0], None) == "It is too early to say what 50 more labels may bring."


@pytest.mark.parametrize("estimate", [0.0, 0.03, 0.5])
def test_width_after_matches_wilson_with_more_labels(estimate):
    ends = [binomtest(round(estimate * n), n).proportion_ci(method="wilson") for n in (100, 200)]
    now, then = (Interval(estimate, end.low, end.high, 0.95, "w") for end in ends)
    assert width_after(now, 0) == pytest.approx(now.high - now.low)
    assert width_after(now, 100) == pytest.approx(then.high - then.low, rel=1e-4)
    assert width_after(now.times(10.0), 100) == pytest.approx(10.0 * (then.high - then.low), rel=1e-4)


def test_worth_is_about_the_objective(run):
    def said(objective, name, before, **more):
        content = verdict(run, objective, **{name: between(0.6, 0.8)}, precision=between(0.1, 0.3), **more)
        return sections.model_verdict(replace(content, before=before)).sentences[-1]

    ends = {"recall": between(0.2, 0.9), "precision": UNKNOWN}
    found = said("recall=0.8", "recall", ends)
    assert found.startswith(
        "With the log alone the recall of 'yes' was between 20% and 90%; with 25 more labels it is between 60% and 80%. "
        "The precision of 'yes' was not known and is now between 10% and 30%. With 50 more labels the interval for recall may be"
    )
    assert "the balanced error was between 10% and 30%;" in said(
        "balanced error", BALANCED, {BALANCED: between(0.1, 0.3)}
    )
    cost = said("cost=1,10", COST, {COST: between(0.1, 0.5).times(10)})
    assert "the mean cost of a row was between 1 and 5; with 25 more labels it is between 0.6 and 0.8" in cost


def test_tiles_name_the_class_and_show_the_baseline(run):
    classes = run[0].classes.tolist()
    cells = {confusion_key(a, b): between(0.2, 0.3) for a in classes for b in classes}
    shown = [tile[0] for tile in sections.tiles(verdict(run, "recall=0.8", **cells))]
    assert shown == ["Recall of 'yes'", "Precision of 'yes'", "Labels bought", "Rounds"]
    plain = [tile[0] for tile in sections.tiles(verdict(run, "error", **cells))]
    assert plain == ["Error", "Always 'no'", "Labels bought", "Rounds"]
    costs = {
        COST: between(0.05, 0.1).times(10),
        BASELINE_COST: between(0.1, 0.2).times(10),
        COST_WINS: between(0.3, 0.9),
    }
    content = verdict(run, "cost=1,10", **cells, **costs)
    assert sections.tiles(content)[:2] == [
        ("Cost of a row", "0.75", "0.5 to 1"),
        ("Always 'yes'", "1.5", "the baseline's cost"),
    ]
    found = sections.model_verdict(content)
    assert found.title == "The model is not shown to beat guessing."
    assert found.sentences[0] == (
        "Always predicting 'yes' would cost 1.5 for each row; the labels do not show that the model costs less."
    )


def test_page_compares_error_with_the_log_alone(run):
    logged, pool, result = run
    history = [(0, between(0.2, 0.4)), (10, between(0.15, 0.3)), (25, between(0.1, 0.2))]
    options = {"intervals": {"error": between(0.1, 0.2)}, "to_gain": 0.02}
    page = render_report(ReportContent("x", logged, pool, result, error_history=history, **options))
    assert (
        "With the log alone the error was between 20% and 40%; with 25 more labels it is between 10% and 20%." in page
    )
    assert "may lower it by at most about 2 points" in page
    assert "With the log alone" not in render_report(ReportContent("x", logged, pool, result, **options))


# -- the page on screens


def test_tables_fit_the_screen(run, open_page):
    """On a phone the numbers of the model are not cut off, and on a desktop no table is."""
    logged, _, result = run
    rows = np.flatnonzero(logged.revealed)
    judged = judge(rows, logged.codes[rows], logged.codes[rows], np.ones(rows.size))
    blend = {"least_chance": 0.00375, "learners": "linear 0.31, additive 0.14, kernel 0.14, forest 0.24, boosted 0.17"}
    rounds = tuple(replace(r, details=blend) for r in result.rounds)
    content = replace(verdict(run, "recall=0.8"), judged=judged, result=replace(result, rounds=rounds))
    page = render_report(content)
    assert re.search(r'<td class="n">0.4%</td><td class="wide words">linear 0.31', page)
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"
    for size, allowed in (
        (DESKTOP, set()),
        (PHONE, {"The last rows asked about", "Rounds", "Quantiles of the weights"}),
    ):
        window = open_page(viewport=size)
        window.set_content(page)
        assert set(window.evaluate(cut)) <= allowed
        assert window.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_report_opens_with_one_screen_to_decide_on(tmp_path, open_page):
    """A campaign that does not use the column sex, with the error by sex: the first screen has it all, and four screens the rest."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"loan": [f"L{i}" for i in range(800)], "income": rng.normal(size=800).round(2)})
    frame["debt"] = np.where(rng.random(800) < 0.3, np.nan, rng.normal(size=800).round(2))
    frame["sex"] = rng.choice(["f", "m", None], 800, p=[0.5, 0.4, 0.1])
    frame["q0"] = np.where(frame["income"] > 0, 0.8, 0.3)
    truth = np.where(frame["income"] + frame["debt"].fillna(0.5) > 0, "yes", "no")
    log, pool = frame[:400].copy(), frame[400:]
    log["repaid"] = np.where(rng.random(400) < log["q0"], truth[:400], None)
    tables = ob.TableOptions(exclude=["sex"])
    options = {"label": "repaid", "propensity": "q0", "id": "loan", "label_budget": 20, "tables": tables}
    made = ob.Campaign.create(tmp_path / "c.db", log, pool, method=ob.NewtonVC(batch=10), **options)
    while batch := made.ask():
        made.tell(batch.ids, [truth[int(id_[1:])] for id_ in batch.ids])
    with pytest.raises(InvalidInput, match="'sex' is not a feature, so the campaign does not have it for its log"):
        write_campaign_report(made, tmp_path / "no.html", by=["sex"])
    with pytest.raises(InvalidInput, match="no column 'town' to group by; the columns are loan, income, debt, sex"):
        write_campaign_report(made, tmp_path / "no.html", by=["town"], logs=[log])
    with pytest.raises(InvalidInput, match="has 400 rows, but the table given has 9"):
        write_campaign_report(made, tmp_path / "no.html", by=["sex"], logs=[log[:9]])
    path = write_campaign_report(made, tmp_path / "r.html", "Loans", by=["sex", "debt"], logs=[log])
    check_page(path.read_text(encoding="utf-8"))
    window = open_page(viewport={"width": 1280, "height": 800})
    window.goto(f"file://{path}")
    assert violations(window) == []
    bottom = "document.querySelector('{}').getBoundingClientRect().bottom"
    assert window.evaluate(bottom.format("#decision")) <= 800
    assert window.evaluate(bottom.format("main")) <= 4 * 800
    groups = window.get_by_role("region", name="Errors of named groups").locator("tbody tr").all_text_contents()
    assert [row.split("debt")[0][:6] for row in groups[:3]] == ["sex=f1", "sex=m1", "sex: m"]
    judged = made.judged()
    of_f = np.isin(judged.rows, np.flatnonzero(frame["sex"] == "f")) & (judged.weight > 0)
    wrong = judged.predicted != judged.codes
    expected = judged.weight[of_f] @ wrong[of_f] / judged.weight[of_f].sum()
    assert groups[0].startswith(f"sex=f{of_f.sum()}{percent(expected)}")
    assert "debt: missing" in groups[-1]
    said = window.locator("#decision").text_content()
    for words in (
        "Use it.",
        "Did I need this?",
        "logistic regression",
        "boosted trees",
        "log + bought",
        "Who does it get wrong?",
    ):
        assert words in said
    assert not window.get_by_text("Round 0 is the log alone.").is_visible()
    window.get_by_role("link", name="Rounds").click()  # a link opens what is folded
    assert window.get_by_text("Round 0 is the log alone.").is_visible()
    phone = open_page(viewport=PHONE, color_scheme="dark")
    phone.goto(f"file://{path}")
    assert violations(phone) == []
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_rows_without_labels_are_spoken_of_apart():
    """Where a quarter of the rows or more has no label like it, there is no estimate, and the words say what would help."""
    some, most = (Interval(0.05, 0.05 * (1 - u), 0.08 * (1 - u) + u, 0.95, "cells", unknown=u) for u in (0.2, 0.6))
    assert error_words(some) == "between 4% and 26% (95% confidence), estimate 5%"
    assert error_words(most) == (
        "between 5% and 8% (95% confidence) on the 40% of rows that can be judged; 60% are not measured: "
        "18 labels of rows picked at random there would be enough, and the next rounds pick them first"
    )
    assert is_known(most)
    assert not shows_estimate(most)


@pytest.mark.parametrize(
    ("to_gain", "recall", "words"),
    [
        (0.05, 0.9, "observal export writes the model. If the error is not good enough, raise the budget"),
        (0.001, 0.9, "observal export writes the model."),
        (0.05, 0.1, "It finds 10% of 'mild fraud'. If they matter more than other rows, make the campaign with"),
    ],
)
def test_next_step_does_not_contradict_the_decision(to_gain, recall, words):
    def about(value):
        return Interval(value, value - 0.02, value + 0.02, 0.95, "cells")

    status = SimpleNamespace(
        objective="error", classes=("ok", "mild fraud"), stopped="x", label_budget=9, labels=9, budget_cost=None
    )
    intervals = {"error": about(0.05), "baseline": about(0.05), "recall": about(recall)}
    said = _next_step(status, intervals, to_gain)
    assert said.startswith(words)
    assert ("raise the budget" in said) == (to_gain == 0.05 and recall == 0.9)
    assert recall > 0.5 or "--cost-of-missing 'mild fraud=10'." in said

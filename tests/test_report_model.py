"""What the report says of the model: its verdict, whether labels were worth it, what it uses, and where it is wrong."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import observal as ob
from observal.diagnosis.feature_values import source_of
from observal.intervals.cells import wilson
from observal.intervals.measures import AUC, BASELINE, BASELINE_COST, COST, COST_WINS, WINS, confusion_key
from observal.intervals.thresholds import ThresholdClassifier
from observal.problem.goals import Goals
from observal.problem.interval import Interval
from observal.problem.objectives import BALANCED
from observal.problem.problem import Problem
from observal.problem.words import number
from observal.report import charts, sections
from observal.report.html import ReportContent, render_report
from observal.report.inspection import (
    MOST_COLUMNS,
    MOST_OF_COLUMN,
    JudgedRows,
    asked_positions,
    column_use,
    errors_by_group,
)
from observal.report.verdict import Measure, outlook, width_after, worth
from tests.browser import DESKTOP, PHONE
from tests.test_report import campaign, check_page


def between(low, high):
    return Interval((low + high) / 2, low, high, 0.95, "counted")


UNKNOWN = Interval(0.5, 0.0, 1.0, 0.95, "too few labels")


@pytest.fixture(scope="module")
def run():
    return campaign(method=ob.NewtonVC())


# -- errors by group


def judged_rows():
    """Ten rows of the log in the city and twenty elsewhere, aged 0 to 29; pool ages make thirds of 0–9, 10–19 and 20–29."""
    age, city = np.arange(30.0), np.repeat([1.0, 0.0], [10, 20])
    X = np.column_stack([age, city])
    problem = Problem(ob.LoggedData(X, np.arange(30) % 2, 1.0), ob.Pool(X, 0.5))
    wrong = np.isin(np.arange(30), [0, 1, 12])
    weight = np.where(np.arange(30) == 0, 3.0, 1.0)
    return problem, JudgedRows(np.arange(30), np.zeros(30, dtype=np.int64), wrong.astype(np.int64), weight)


def group_errors(problem, judged, names, first, sources=None):
    sources = [source_of(name) for name in names] if sources is None else sources
    return errors_by_group(problem, judged, names, sources, first, lambda _, value: number(value))


def test_errors_by_group_are_weighted_shares():
    problem, judged = judged_rows()
    found = group_errors(problem, judged, ["age", "city=yes"], ["city"])
    assert [row.group for row in found] == ["city=yes", "age ≤ 9", "age from 9 to 19", "age > 19"]
    assert [row.labels for row in found] == [10, 10, 10, 10]
    assert [row.error for row in found] == pytest.approx([4 / 12, 4 / 12, 1 / 10, 0.0])
    assert all(row.low <= row.error <= row.high < 1.0 for row in found)
    assert found[0].high - found[0].low > found[2].high - found[2].low > 0.2
    assert found[3].high > 0.1  # ten labels without a mistake do not show that there is none


def test_errors_by_group_show_all_values_of_a_column():
    """Eight groups are enough, but a category is not left half-way."""
    kinds = np.eye(4)[np.arange(40) % 4]
    X = np.column_stack([np.arange(40.0), np.arange(40.0) % 7, kinds, np.arange(40.0)])
    problem = Problem(ob.LoggedData(X, np.arange(40) % 2, 1.0), ob.Pool(X, 0.5))
    zeros = np.zeros(40, dtype=np.int64)
    names = ["age", "debt", "job=a", "job=b", "job=c", "job=d", "income"]
    found = group_errors(problem, JudgedRows(np.arange(40), zeros, zeros, np.ones(40)), names, ["debt", "age", "job"])
    assert [row.group for row in found][6:] == ["job=a", "job=b", "job=c", "job=d"]
    sources = ["age", "debt", *["job"] * 4, "income"]
    again = group_errors(problem, JudgedRows(np.arange(40), zeros, zeros, np.ones(40)), names, ["job"], sources=sources)
    assert [row.group for row in again][:4] == ["job=a", "job=b", "job=c", "job=d"]


def test_errors_by_group_show_the_largest_groups_of_a_long_category():
    kind = np.minimum(np.arange(200) // 5, 20)  # the last one has most
    X = np.eye(21)[kind]
    problem = Problem(ob.LoggedData(X, np.arange(200) % 2, 1.0), ob.Pool(X, 0.5))
    zeros = np.zeros(200, dtype=np.int64)
    found = group_errors(
        problem, JudgedRows(np.arange(200), zeros, zeros, np.ones(200)), [f"k={i}" for i in range(21)], []
    )
    assert len(found) == MOST_OF_COLUMN
    assert found[-1].group == "k=20"


def test_errors_by_group_omit_small_groups_and_zero_weights():
    problem, judged = judged_rows()
    few = judged._replace(weight=np.where(np.arange(30) < 6, 0.0, judged.weight))
    found = {row.group: row for row in group_errors(problem, few, ["age", "city=yes"], ["age"])}
    assert set(found) == {"age from 9 to 19", "age > 19"}  # four labels that count are left in the other groups
    more = judged._replace(weight=np.where(np.arange(30) < 5, 0.0, judged.weight))
    found = group_errors(problem, more, ["age", "city=yes"], ["age"])
    assert (found[0].group, found[0].labels, found[0].error) == ("age ≤ 9", 5, 0.0)


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
    judged = JudgedRows(*session.judged())
    error = session.result().error_interval.estimate
    assert judged.weight @ (judged.predicted != judged.codes) == pytest.approx(error)
    assert error > 0.02
    problem = Problem(logged, pool)
    found = group_errors(problem, judged, ["a", "b", "c"], ["a"])[:3]
    thirds = np.quantile(pool.X[:, 0], [1 / 3, 2 / 3], method="lower")
    shares = np.bincount(np.searchsorted(thirds, problem.take(judged.rows)[:, 0]), weights=judged.weight)
    assert shares @ [row.error for row in found] == pytest.approx(error)


def test_errors_by_group_are_ordered_by_column_use(run):
    logged, pool, result = run
    rows = np.flatnonzero(logged.revealed)
    wrong_low = (logged.X[rows, 0] < np.quantile(pool.X[:, 0], 1 / 3)).astype(np.int64)
    judged = (rows, np.zeros(rows.size, dtype=np.int64), wrong_low, np.ones(rows.size))
    content = ReportContent("x", logged, pool, result, feature_names=["income", "age", "debt"], judged=judged)
    page = render_report(content)
    check_page(page)
    assert "Errors by group" in page
    assert '<th scope="row" class="words">income ≤' in page
    groups = sections.groups_and_use(content)[0].rows
    assert groups[0][0].startswith("income ≤")
    assert [row[2] for row in groups[:3]] == ["100%", "0%", "0%"]
    assert "Errors by group" not in render_report(ReportContent("x", logged, pool, result))


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


# -- the map


def test_map_omits_imputed_values(run, monkeypatch):
    logged, pool, result = run
    drawn = {}

    def chart(points, answers, names, classes, kinds):
        drawn.update(points=points, answers=answers, names=names)
        return charts.Chart("<svg></svg>", "a map", "a map")

    monkeypatch.setattr(charts, "map_chart", chart)
    where = asked_positions(pool, result)
    missing = np.zeros(len(pool))
    missing[where[::2]] = 1.0
    missing[:40] = 1.0
    in_log = (np.arange(len(logged)) % 3 == 0).astype(float)
    filled = ob.Pool(np.column_stack([pool.X[:, :2], missing]), pool.propensity, ids=pool.ids)
    before = ob.LoggedData(
        np.column_stack([logged.X[:, :2], in_log]),
        np.where(logged.revealed, logged.classes[np.maximum(logged.codes, 0)], None),
        logged.propensity,
    )
    content = ReportContent("x", before, filled, result, feature_names=["income", "age", "income is missing"])
    sections._map(content, where, (0, 1))
    there = missing == 0.0
    assert drawn["names"] == ("income", "age")
    assert drawn["points"]["pool"].tolist() == pool.X[there, :2].tolist()
    asked = there[where]
    assert 0 < asked.sum() < where.size
    assert drawn["points"]["asked"].tolist() == pool.X[where[asked], :2].tolist()
    assert drawn["answers"] == result.queries["label"][asked].tolist()
    shown = logged.revealed & (in_log == 0.0)
    assert drawn["points"]["revealed"].tolist() == logged.X[shown, :2].tolist()
    sections._map(content, where, (1,))
    assert len(drawn["points"]["pool"]) == len(pool)  # no age is missing


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
    assert "Always predicting" in box
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
    now, then = (
        Interval(estimate, *wilson(estimate, estimate * (1.0 - estimate) / n, n), 0.95, "w") for n in (120, 170)
    )
    assert width_after(now, 0) == pytest.approx(now.high - now.low)
    assert width_after(now, 50) == pytest.approx(then.high - then.low, rel=1e-4)
    assert width_after(now.times(10.0), 50) == pytest.approx(10.0 * (then.high - then.low), rel=1e-4)


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
    assert shown == ["Error", "Always 'no'", "Recall of 'yes'", "Labels bought", "Rounds"]
    costs = {
        COST: between(0.05, 0.1).times(10),
        BASELINE_COST: between(0.1, 0.2).times(10),
        COST_WINS: between(0.3, 0.9),
    }
    content = verdict(run, "cost=1,10", **cells, **costs)
    assert sections.tiles(content)[1:4] == [
        ("Always 'no'", "3%", "the baseline's error"),
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
    judged = (rows, logged.codes[rows], logged.codes[rows], np.ones(rows.size))
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

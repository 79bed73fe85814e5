"""Measures beside the error, and thresholds for an objective: against their twins, and in campaigns with a rare class."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom

import observal as ob
from observal.campaign import Campaign
from observal.errors import InvalidInput
from observal.intervals.cells import Cells, make_cells
from observal.intervals.measures import (
    AUC,
    BASELINE,
    BASELINE_COST,
    COST_WINS,
    WINS,
    beats_baseline,
    confusion_key,
    measure_all,
)
from observal.intervals.recalibration import Recalibration, label_strength, log_odds, recalibrate
from observal.intervals.thresholds import UNLABELLED, ScoredRows, ThresholdClassifier, choose_threshold
from observal.problem.interval import CONFIDENCE
from observal.problem.objectives import COST, canonical, costs_of, is_cautious, measure_of, objective_words
from observal.report.verdict import advice, baseline_sentence, confusion, measures_of
from tests.reference import measures as twin

OBJECTIVES = ["recall=0.8", "recall>=0.8", "precision=0.4", "balanced error", "cost=1,10", "missing=10,checking=1"]


@st.composite
def labelled(draw, n_classes=2):
    n = draw(st.integers(6, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.integers(-3, 4, n) / 4.0 if draw(st.booleans()) else rng.normal(size=n)
    codes = rng.integers(0, n_classes, n)
    codes[:n_classes] = np.arange(n_classes)
    return scores, codes, rng.integers(0, n_classes, n), rng.uniform(0.2, 2.0, n)


def cells_of(weights, n_cells=1):
    cell = np.arange(weights.size) % n_cells
    return Cells(np.full(n_cells, 1.0 / n_cells), cell, weights, 0.0, 10_000)


@given(labelled(), st.integers(1, 3))
def test_measures_match_slow_twin(found, n_cells):
    scores, codes, predicted, weights = found
    cells = cells_of(weights, n_cells)
    row = cells.row_weight
    assert row.sum() == pytest.approx(1.0)
    intervals = measure_all(cells, codes, predicted, scores, ["no", "yes"])
    assert intervals[AUC].estimate == pytest.approx(twin.auc(scores, codes, row))
    assert intervals["balanced error"].estimate == pytest.approx(twin.balanced_error(codes, predicted, row, 2))
    for one in intervals.values():
        assert 0.0 <= one.low <= one.estimate <= one.high <= 1.0


@given(labelled(n_classes=3))
def test_model_with_fewer_mistakes_wins_more_than_half(found):
    scores, codes, predicted, weights = found
    cells = cells_of(weights)
    intervals = measure_all(cells, codes, predicted, scores, ["a", "b", "c"])
    gain = twin.gain_over_baseline(codes, predicted, cells.row_weight, 3)
    assume(abs(gain) > 1e-9)
    assert (intervals[WINS].estimate > 0.5) == (gain > 0.0)
    matrix = confusion(intervals, ["a", "b", "c"])
    assert sum(cell.estimate for row in matrix for cell in row) == pytest.approx(1.0)
    assert AUC not in intervals


@given(labelled(), st.sampled_from([(1.0, 10.0), (3.0, 1.0), (1.0, 1.0)]))
def test_costs_match_slow_twin_and_cheaper_model_wins(found, costs):
    scores, codes, predicted, weights = found
    cells = cells_of(weights, 2)
    intervals = measure_all(cells, codes, predicted, scores, ["no", "yes"], f"cost={costs[0]:g},{costs[1]:g}")
    cost = twin.cost(codes, predicted, cells.row_weight, costs)
    base = twin.baseline_cost(codes, cells.row_weight, costs)
    assert intervals[COST].estimate == pytest.approx(cost)
    assert intervals[BASELINE_COST].estimate == pytest.approx(base)
    assert intervals[BASELINE_COST].most == max(costs)
    assume(abs(base - cost) > 1e-9)
    assert (intervals[COST_WINS].estimate > 0.5) == (cost < base)


def test_auc_and_balanced_error_move_by_stated_influence():
    """With many labels the interval is about as wide as the spread that the infinitesimal jackknife finds."""
    rng = np.random.default_rng(0)
    n = 100
    codes = (np.arange(n) % 4 == 0).astype(np.int64)
    scores = rng.normal(size=n) + 1.5 * codes
    predicted = (scores > 1.0).astype(np.int64)
    weight = rng.uniform(0.5, 1.5, n)
    cells = cells_of(weight, 1)
    intervals = measure_all(cells, codes, predicted, scores, [0, 1])
    for name, function in (
        (AUC, lambda w: twin.auc(scores, codes, w)),
        ("balanced error", lambda w: twin.balanced_error(codes, predicted, w, 2)),
    ):
        one = intervals[name]
        spread = twin.influence_spread(function, range(n), [1.0], cells.of_label, weight)
        width = 2 * 1.96 * spread
        assert 0.95 * width < one.high - one.low < 1.35 * width


@st.composite
def scored_rows(draw):
    """Rows of a population, some of them labelled, and what their scores may say about the others."""
    n = draw(st.integers(5, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.integers(-3, 4, n) / 2.0 if draw(st.booleans()) else 2.0 * rng.normal(size=n)
    codes = rng.choice([UNLABELLED, 0, 1], n)
    draws = np.column_stack([rng.normal(-1.0, 0.5, 7), rng.uniform(0.1, 2.0, 7)])
    return ScoredRows(scores, codes), Recalibration(-1.0, 1.0, draws)


@given(scored_rows(), st.sampled_from(OBJECTIVES))
def test_chosen_threshold_is_best_of_all(found, objective):
    rows, recalibration = found
    chosen = choose_threshold(rows, recalibration, objective)
    values = np.unique(rows.scores)
    others = [values[0] - 1.0, *((values[:-1] + values[1:]) / 2.0), values[-1] + 1.0]
    worth = {t: twin.value_of(t, rows.scores, rows.codes, recalibration.draws, objective) for t in (*others, chosen)}
    best = [value for value in worth.values() if value is not None]
    if worth[chosen] is None:  # only a precision can be out of reach
        assert objective.startswith("precision")
        assert not best
    else:
        assert worth[chosen] == pytest.approx(max(best), abs=1e-9)


def test_recalibration_matches_slow_twin_and_undoes_shifts():
    rng = np.random.default_rng(0)
    scores, shares = rng.normal(0.0, 2.0, 300), rng.uniform(0.2, 3.0, 300)
    codes = (rng.random(300) < 1 / (1 + np.exp(2.5 - 0.6 * scores))).astype(np.int64)
    fit = recalibrate(scores, codes, shares)
    np.testing.assert_allclose([fit.shift, fit.slope], twin.recalibrate(scores, codes, shares), atol=1e-5)
    np.testing.assert_allclose(label_strength(shares), twin.strength(shares))
    assert -3.3 < fit.shift < -1.7
    assert 0.3 < fit.slope < 0.9
    np.testing.assert_allclose(fit.draws.mean(axis=0), [fit.shift, fit.slope])
    few = recalibrate(scores[:40], codes[:40], shares[:40])
    assert (few.draws.std(axis=0) > 1.3 * fit.draws.std(axis=0)).all()  # fewer labels say less
    reverse = recalibrate(-scores, codes, shares)  # scores that say the opposite are held to say nothing
    assert reverse.slope > 0.0
    assert (reverse.draws[:, 1] > 0.0).all()
    np.testing.assert_allclose(log_odds(1 / (1 + np.exp(-scores))), scores)


def test_threshold_expects_positives_where_nobody_looked():
    """Two positive labels, both at the top: labels alone would say that flagging the top finds all of them."""
    scores = np.linspace(-4.0, 1.0, 501)
    codes = np.full(501, UNLABELLED)
    codes[[500, 499]], codes[[480, 450, 400]] = 1, 0
    fit = recalibrate(scores[codes >= 0], codes[codes >= 0], np.ones(5))
    usual, cautious = (choose_threshold(ScoredRows(scores, codes), fit, goal) for goal in ("recall=0.8", "recall>=0.8"))
    assert cautious < usual < scores[400]


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_flagged_share_is_kept_exactly(share):
    scores = np.random.default_rng(0).normal(size=1000)
    rows = ScoredRows(scores, np.full(1000, UNLABELLED))
    cut = choose_threshold(rows, Recalibration(0.0, 1.0, np.array([[0.0, 1.0]])), f"flag={share:g}")
    assert np.mean(scores >= cut) == pytest.approx(share)


@pytest.mark.parametrize(
    ("objective", "match"),
    [
        ("recall=80", "write 80% as recall=0.8"),
        ("flag=300", "write 300 of 6,000 rows as flag=5%"),
        ("flag>=0.1", "kept exactly"),
        ("missing=1,checking=2", "must cost more than checking"),
        ("missing=1,checking=x", "is not known"),
        ("recal=0.8", "is not known"),
        ("cost=1,0", "is not known"),
        ({"nobody": 3}, "but is for 'nobody'"),
        ({"yes": -1}, "must be a number above 0"),
        (3, "is not known"),
    ],
)
def test_wrong_objective_raises_one_sentence(objective, match):
    with pytest.raises(InvalidInput, match=match):
        canonical(objective, ["no", "yes"])


def test_objectives_are_read_as_people_write_them():
    classes = ["paid", "default"]
    read = [canonical(text, classes) for text in ("recall = 80%", "recall >= 80 %", "flag=5%", "precision=.5")]
    assert read == ["recall=0.8", "recall>=0.8", "flag=0.05", "precision=0.5"]
    assert [is_cautious(text) for text in read] == [False, True, False, False]
    assert [measure_of(text) for text in read] == ["recall", "recall", "flag", "precision"]
    assert objective_words(read[1], classes) == "find at least 80% of 'default' with 95% confidence (recall 0.8)"
    assert objective_words(read[2], classes) == "flag 5% of all rows as 'default'"
    checked = "the lowest cost: missing 'default' costs 50, checking a flagged row 2"
    assert objective_words(canonical("missing=50, checking=2", classes), classes) == checked


def test_objective_needs_a_cost_for_each_class_and_a_supporting_method():
    assert canonical("balanced", ["a", "b"]) == "balanced error"
    assert costs_of(canonical({"a": 2.5}, ["a", "b"])) == (2.5, 1.0)
    assert canonical({"b": 4}, ["a", "b", "c"]) == "cost=1,4,1"
    with pytest.raises(InvalidInput, match="is for 2 classes, but there are 3; give a cost for each class"):
        canonical("cost=1,4", ["a", "b", "c"])
    with pytest.raises(InvalidInput, match="is for 2 classes, but there are 3"):
        canonical({"c": 4, "checking": 1}, ["a", "b", "c"])
    X = np.linspace(0, 1, 20)[:, None]
    with pytest.raises(InvalidInput, match="use AutoVC or NewtonVC"):
        ob.Session(ob.LoggedData(X, X[:, 0] > 0.5, 1.0), ob.Pool(X, 0.5), ob.Passive(), objective="recall=0.8")


# -- a rare class


def rare(seed=0, n=900, d=4, names=("paid", "default")):
    """A log that hardly shows the three in a hundred rows that are of the rare class, a pool, and the truth of rows never seen."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n + 8000, d))
    w = rng.normal(size=d)
    score = X @ w / np.linalg.norm(w)
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(5.7 - 2.4 * score)), names[1], names[0])
    chance = np.clip(1 / (1 + np.exp(1.2 * score)), 0.05, 0.95)
    shown = rng.random(n) < chance[:n]
    logged = ob.LoggedData(X[:n], np.where(shown, y[:n], None), chance[:n], classes=list(names))
    return logged, ob.Pool(X[n : 2 * n], chance[n : 2 * n]), y[n : 2 * n], X[2 * n :], y[2 * n :]


def ran(objective, method, seed=0, budget=60):
    logged, pool, y, X, truth = rare(seed)
    result = ob.run(logged, pool, lambda ids: y[ids], method, budget, objective=objective, tolerance=None)
    return result, X, truth


@pytest.mark.parametrize("method", [ob.NewtonVC(batch=30), ob.AutoVC(batch=30)])
def test_target_moves_threshold(method):
    plain, X, y = ran("error", method)
    found, _, _ = ran("recall=0.8", method)
    assert isinstance(found.estimator, ThresholdClassifier)
    assert found.estimator.threshold < 0.3
    positive = y == "default"
    recall = [np.mean(result.estimator.predict(X[positive]) == "default") for result in (plain, found)]
    assert recall[1] > 0.55 > recall[0]
    chances = [
        found.estimator.predict_proba(X)[:, 1] >= found.estimator.threshold,
        found.estimator.predict(X) == "default",
    ]
    np.testing.assert_array_equal(*chances)


def test_objective_survives_session_and_model_files(tmp_path):
    logged, pool, y, X, _ = rare()
    goals = {"objective": {"default": 10}, "label_budget": 30, "method": ob.NewtonVC(batch=15)}
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", logged, pool, **goals)
    while batch := campaign.ask():
        campaign.tell(batch.ids, [y[i] for i in batch.ids])
    opened = Campaign.open(tmp_path / "c.db")
    assert opened.settings.goals.objective == "cost=1,10"
    assert ("objective", "the lowest cost: missing 'default' costs 10, missing 'paid' 1") in opened.status().lines()
    cost = opened.result().intervals["cost"]
    assert 0.0 < cost.low < cost.high < 10.0 == cost.most
    opened.export(tmp_path / "m.skops")
    model = ob.load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(model.predict(X[:200]), opened.estimator.predict(X[:200]))
    assert model[-1].threshold == opened.estimator.threshold < 0.5
    assert (model.predict(X) != opened.estimator.estimator.predict(X)).any()


def test_constant_model_is_reported_as_no_better():
    codes = (np.arange(400) % 40 == 0).astype(np.int64)
    classes = ["paid", "default"]
    found = measure_all(cells_of(np.ones(400)), codes, np.zeros(400, dtype=np.int64), np.linspace(0, 1, 400), classes)
    found["recall"] = cells_of(np.ones(400)).ratio(np.zeros(400), codes.astype(float))
    assert beats_baseline(found) is None
    said = baseline_sentence(found, classes)
    assert "Always predicting 'paid' would be wrong on 2.5% of the rows" in said
    assert "does not make fewer mistakes than that: it predicts the same class for every labelled row" in said
    assert "It finds 0% of 'default'" in advice(found, classes, "error")
    assert found[BASELINE].estimate == pytest.approx(0.025)
    assert found[confusion_key("default", "paid")].estimate == pytest.approx(0.025)
    assert all(
        "'default'" in one.about for one in measures_of(found, classes) if one.name in ("recall", "precision", AUC)
    )
    right = measure_all(cells_of(np.ones(400)), codes, codes, codes.astype(float), classes)
    assert beats_baseline(right) is True
    assert baseline_sentence(right, classes).endswith("the model makes fewer mistakes.")


def replicate(rng):
    """Intervals for precision and recall, and their truth, where 3 % are positive, in a campaign without fits."""
    m, n = 1500, 1000
    propensity, scores = rng.choice([0.1, 0.3, 0.6], m + n), rng.uniform(-1.0, 1.0, m + n)
    chance = 0.3 * np.exp(-5.0 * (1.0 - scores))
    of_pool, near = np.arange(m + n) >= m, np.abs(scores - 0.6) < 0.08
    labelled_ = np.where(of_pool, near | (rng.random(m + n) < 0.05), rng.random(m + n) < propensity)
    rows, nothing = np.flatnonzero(labelled_), np.zeros(m + n, dtype=bool)
    cells = make_cells(propensity, near, scores, rows, labelled_ & of_pool, nothing, of_pool)
    positive, said = (rng.random(rows.size) < chance[rows]).astype(float), (scores[rows] > 0.6).astype(float)
    grid = np.linspace(-1, 1, 20_001)
    true = 0.3 * np.exp(-5.0 * (1.0 - grid))
    both = np.mean(true * (grid > 0.6))
    truth = both / true.mean(), both / np.mean(grid > 0.6)
    return (cells.ratio(positive * said, positive), cells.ratio(positive * said, said)), truth, true.mean()


def test_precision_and_recall_cover_with_three_percent_positives():
    n_runs, rng = 400, np.random.default_rng(1)
    found = [replicate(rng) for _ in range(n_runs)]
    assert found[0][2] == pytest.approx(0.03, abs=0.001)
    least = int(binom.ppf(1e-3, n_runs, 0.94))
    for k in (0, 1):
        pairs = [(intervals[k], truth[k]) for intervals, truth, _ in found]
        assert sum(i.low <= t <= i.high for i, t in pairs) >= least
        assert (
            sum(abs(t - i.estimate) <= 0.25 * (i.high - i.low) for i, t in pairs) < least
        )  # half as wide would be noticed
    assert CONFIDENCE == 0.95

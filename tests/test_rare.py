"""Rare classes: where labels go, the threshold that is delivered, and results in counts."""

from __future__ import annotations

import csv
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

import observal as ob
from observal.campaign import load_model
from observal.diagnosis.rare_class import rare_class_notes
from observal.errors import InvalidInput
from observal.intervals import error as error_module
from observal.intervals.cells import Cells
from observal.intervals.flagging import (
    CURVE_SHARES,
    FLAGGED,
    Flagging,
    combine_estimates,
    expected_measures,
    flagging_intervals,
    in_whole_rows,
    recall_key,
)
from observal.intervals.measures import confusion_key
from observal.intervals.recalibration import DRAWN_WIDER, Recalibration, match_scores
from observal.intervals.thresholds import ScoredRows, Threshold, choose_threshold
from observal.methods import auto, newton
from observal.problem.interval import Interval
from observal.report.campaign_report import write_campaign_report
from observal.report.rare import counts_sentence, objective_names, other_thresholds, threshold_rows
from tests.command import invoke
from tests.reference import measures

CLASSES = ["no", "yes"]


def world(seed=0, n=1500, rate=-5.0):
    """A log that hides most of the about 3 % of rows that are positive, a pool, and the truth of rows never seen."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n + 20_000, 3))
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-rate - 1.6 * (X[:, 0] + X[:, 1]))), "yes", "no")
    chance = np.clip(0.6 / (1 + np.exp(1.5 * X[:, 0])), 0.03, 0.6)
    shown = rng.random(n) < chance[:n]
    logged = ob.LoggedData(X[:n], np.where(shown, y[:n], None), chance[:n], classes=CLASSES)
    return logged, ob.Pool(X[n : 2 * n], chance[n : 2 * n]), y[n : 2 * n], X[2 * n :], y[2 * n :]


def campaign(objective, seed=0, budget=90):
    logged, pool, y, X, truth = world(seed)
    method = ob.AutoVC(batch=30)
    result = ob.run(logged, pool, lambda ids: y[ids], method, budget, seed, objective=objective, tolerance=None)
    return result, X, truth == "yes"


def test_labels_go_to_the_rare_class():
    """With about 3 % positive rows, 90 random picks find three; the chance that these find fifteen is below one in a million."""
    result, _, _ = campaign("recall=0.8")
    assert (result.queries["label"] == "yes").sum() >= 15
    at_random = result.queries["reason"] == "picked at random, so every row can be chosen"
    assert at_random.any()
    assert (result.queries["query_probability"] > 0.0).all()


def test_delivered_recall_is_what_was_asked_on_average():
    """Over six campaigns the mean has a standard error of about four points."""
    recalls = []
    for seed in range(6):
        result, X, positive = campaign("recall=0.8", seed)
        recalls.append(np.mean(result.estimator.predict(X[positive]) == "yes"))
    assert 0.67 < np.mean(recalls) < 0.93


def test_flagged_share_is_delivered_and_stated():
    result, X, _ = campaign("flag=10%")
    flagged = np.mean(result.estimator.predict(X) == "yes")
    assert flagged == pytest.approx(0.1, abs=0.02)
    stated = result.intervals[FLAGGED]
    assert stated.low <= 0.1 <= stated.high
    assert stated.high - stated.low < 0.04


def test_chances_are_recalibrated_for_the_population():
    result, X, positive = campaign("recall=0.8")
    chances = result.estimator.predict_proba(X)
    assert chances[:, 1].mean() == pytest.approx(positive.mean(), rel=0.6)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


def test_nothing_of_it_runs_without_an_objective(monkeypatch):
    plain, X, _ = campaign("error", budget=40)

    def fail(*args, **kwargs):
        raise AssertionError("an objective's code ran without one")

    for module, name in ((auto, "find_threshold"), (newton, "find_threshold"), (error_module, "flagging_of")):
        monkeypatch.setattr(module, name, fail)
    again, _, _ = campaign("error", budget=40)
    assert plain.queries["id"].tolist() == again.queries["id"].tolist()
    assert plain.intervals == again.intervals
    assert FLAGGED not in plain.intervals
    np.testing.assert_array_equal(plain.estimator.predict_proba(X), again.estimator.predict_proba(X))
    with pytest.raises(AssertionError, match="without one"):
        campaign("recall=0.8", budget=40)


def test_scores_are_put_on_the_scale_of_the_classifier():
    """A row's score becomes the one at the same place among the other scores, linear in between: the plain twin."""
    rng = np.random.default_rng(0)
    own, reference, scores = rng.normal(size=50), 3.0 * rng.normal(size=50) + 1.0, rng.normal(size=200) * 2.0
    ordered, others = sorted(own), sorted(reference)

    def twin(score):
        if score <= ordered[0]:
            return others[0] - (ordered[0] - score)
        if score >= ordered[-1]:
            return others[-1] + (score - ordered[-1])
        k = max(i for i in range(50) if ordered[i] <= score)
        return others[k] + (others[k + 1] - others[k]) * (score - ordered[k]) / (ordered[k + 1] - ordered[k])

    np.testing.assert_allclose(match_scores(scores, own, reference), [twin(score) for score in scores])


def test_rows_that_most_likely_are_positive_are_taken_while_the_class_is_rare():
    logged, pool, _, _, _ = world()
    session = ob.Session(logged, pool, ob.AutoVC(batch=30), label_budget=30, objective="recall=0.8")
    assert logged.class_shares()[-1] < 0.1
    query = session.ask(30)
    model = session.estimator
    chances = model.predict_proba(pool.X)[:, 1]
    likeliest = np.sort(chances)[-40:].min()
    taken = [i for i, reason in zip(query.ids, query.reason, strict=True) if "random" not in reason]
    assert len(taken) >= 20
    assert (chances[taken] >= likeliest).all()


@given(seed=st.integers(0, 10_000), n=st.integers(2, 40))
def test_measures_by_chances_equal_the_slow_twin(seed, n):
    rng = np.random.default_rng(seed)
    rows = ScoredRows(
        rng.normal(size=n), np.append(rng.integers(-1, 2, size=n - 1), -1)
    )  # not all are known to be negative
    fit = Recalibration(-1.0, 1.2, np.column_stack([rng.normal(-1.0, 0.3, 8), rng.normal(1.2, 0.1, 8)]))
    cut = float(np.median(rows.scores))
    expected = expected_measures(Threshold(cut, fit, rows), CLASSES)
    draws = [(-1.0 + DRAWN_WIDER * (a + 1.0), 1.2 + DRAWN_WIDER * (b - 1.2)) for a, b in fit.draws]
    for name, values in measures.expected_measures(rows.scores, rows.codes, draws, cut).items():
        np.testing.assert_allclose(expected[name], values, err_msg=name)
    shares = [expected[confusion_key(actual, said)] for actual in CLASSES for said in CLASSES]
    _, alarms, missed, found = shares
    np.testing.assert_allclose(sum(shares), 1.0)
    np.testing.assert_allclose(expected["error"], missed + alarms)
    np.testing.assert_allclose(expected["prevalence"], missed + found)
    np.testing.assert_allclose(expected["recall"] * expected["prevalence"], found)
    curve = np.array([expected[recall_key(share)] for share in CURVE_SHARES])
    assert (np.diff(curve, axis=0) >= 0.0).all()  # more flagged rows never find less


@given(
    ends=st.lists(st.floats(0.01, 0.99), min_size=3, max_size=3),
    unknown=st.floats(0.0, 0.9),
    seed=st.integers(0, 1000),
)
def test_combined_estimates_equal_the_slow_twin(ends, unknown, seed):
    low, estimate, high = sorted(ends)
    drawn = np.random.default_rng(seed).uniform(0.0, 1.0, 50)
    by_labels = {"recall": Interval(estimate, low, high, 0.95, "cells", unknown)}
    stated = combine_estimates(by_labels, Flagging(0.1, 0.0, (), {"recall": drawn}))["recall"]
    expected = measures.combined_ends((estimate, low, high), unknown, drawn.tolist())
    np.testing.assert_allclose((stated.estimate, stated.low, stated.high), expected)


def test_other_measures_agree_with_recall_and_their_ends_only_move_outwards():
    by_labels = {"prevalence": Interval(0.04, 0.03, 0.06, 0.95, "cells")}
    for drawn in (np.full(50, 0.02), np.full(50, 0.05), np.full(50, 0.2)):
        stated = combine_estimates(by_labels, Flagging(0.1, 0.0, (), {"prevalence": drawn}))["prevalence"]
        assert stated.estimate == pytest.approx((0.04 + drawn[0]) / 2)
        assert stated.low <= 0.03
        assert stated.high >= 0.06
        assert stated.low <= stated.estimate <= stated.high


def test_cautious_target_allows_for_scores_that_do_not_follow_a_logistic_curve():
    rng = np.random.default_rng(0)
    rows = ScoredRows(rng.normal(size=400), np.where(rng.random(400) < 0.2, rng.integers(0, 2, 400), -1))
    fit = Recalibration(-1.0, 1.0, np.column_stack([rng.normal(-1.0, 0.4, 100), rng.normal(1.0, 0.3, 100)]))
    usual, cautious = (choose_threshold(rows, fit, goal) for goal in ("recall=0.8", "recall>=0.8"))
    narrower = choose_threshold(rows, fit.widened(1.0 / DRAWN_WIDER), "recall>=0.8")
    assert cautious < narrower < usual


def test_newton_does_not_stop_by_flips_at_one_half_with_an_objective():
    """Hardly any prediction flips at ½ where a class is rare; what matters is another threshold."""
    logged, pool, answers, _, _ = world()
    asked = {}
    for objective in ("error", "recall=0.8"):
        session = ob.Session(logged, pool, ob.NewtonVC(batch=10, stop_below=1.0), 40, objective=objective)
        while (query := session.ask()) is not None:
            session.tell(query.ids, answers[query.ids])
        asked[objective] = session.labels
    assert asked == {"error": 10, "recall=0.8": 40}


def test_status_says_what_is_not_measured_with_an_objective():
    known = Interval(0.9, 0.3, 1.0, 0.95, "cells", unknown=0.9)
    stated = {FLAGGED: Interval(0.2, 0.19, 0.21, 0.95, "cells"), "recall": known, "prevalence": known}
    sentence = counts_sentence(
        stated | {"error": Interval(0.05, 0.0183, 0.4388, 0.95, "cells", unknown=0.39)}, CLASSES, 1000
    )
    assert sentence == (
        "Of 1,000 rows the model flags 200 (190 to 210); how many 'yes' are among them is known only for the 61% of rows that can be "
        "judged; 39% are not measured: 12 labels of rows picked at random there would be enough, and the next rounds pick them first."
    )


def test_recall_without_a_positive_label_stays_unknown():
    """Chances alone could be anything where no label supports them."""
    nothing = {"recall": Interval(0.5, 0.0, 1.0, 0.95, "no labelled row to judge by")}
    flagging = Flagging(0.1, 0.0, (), {"recall": np.full(10, 0.8)})
    assert combine_estimates(nothing, flagging) == nothing


def test_recall_of_a_small_share_finds_no_more_rows_than_are_flagged():
    """A quarter of the rows are positive, so the 2 % with the highest scores hold at most 8 % of them, whatever few labels say."""
    is_positive, scores = np.arange(40) % 4 == 0, np.where(np.arange(40) % 4 == 0, 1.0, 0.0)
    cells = Cells(np.array([1.0]), np.zeros(40, dtype=int), np.ones(40), 0.0, 1000)
    stated = flagging_intervals(Flagging(0.2, 0.0, (0.5,) * len(CURVE_SHARES), {}), cells, is_positive, scores)
    for share in CURVE_SHARES:
        recall = stated[recall_key(share)]
        assert recall.estimate == pytest.approx(min(1.0, share / 0.25))
        assert recall.low <= recall.estimate <= recall.high == 1.0


@pytest.mark.parametrize("moved", [0.0, 0.03])
def test_interval_of_the_flagged_share_allows_for_rows_and_for_fits(moved):
    """The ends are quantiles of beta distributions with these means and variances: half a row more, flagged or not."""
    n, share = 1000, 0.2
    codes, scores = np.arange(40) % 4 == 0, np.linspace(-1, 1, 40)
    cells = Cells(np.array([1.0]), np.zeros(40, dtype=int), np.ones(40), 0.0, n)
    stated = flagging_intervals(Flagging(share, moved, (0.5,) * len(CURVE_SHARES), {}), cells, codes, scores)[FLAGGED]

    def quantile(mean, variance):
        size = mean * (1 - mean) / variance - 1
        return beta.ppf(0.025, mean * size, (1 - mean) * size)

    spread = share * (1 - share) / n + moved**2
    low = quantile(share - share / (2 * n), spread + (share / n) ** 2 / 2)
    high = 1 - quantile(1 - share - (1 - share) / (2 * n), spread + ((1 - share) / n) ** 2 / 2)
    np.testing.assert_allclose([stated.estimate, stated.low, stated.high], [share, low, high])


@pytest.mark.parametrize(("low", "high", "rows"), [(0.5, 0.999, 60), (0.333, 0.334, 3), (0.2, 0.8, 5), (0.0, 1.0, 0)])
def test_ends_in_whole_rows_are_the_nearest_counts_outside(low, high, rows):
    stated = in_whole_rows(Interval((low + high) / 2, low, high, 0.95, "cells"), rows)
    assert (stated.low, stated.high) == pytest.approx(measures.whole_row_ends(low, high, rows))


def test_precision_of_a_model_with_an_objective_ends_at_whole_rows():
    logged, pool, y, _, _ = world()
    result = ob.run(logged, pool, lambda ids: y[ids], ob.AutoVC(batch=30), 30, objective="recall=0.8", looks="once")
    flagged = round(result.intervals[FLAGGED].estimate * (len(logged.X) + len(pool.X)))
    ends = flagged * np.array([result.intervals["precision"].low, result.intervals["precision"].high])
    np.testing.assert_allclose(ends, ends.round(), atol=1e-6)


# -- more than two classes


def three_classes(seed=0, n=800):
    """A log of a fifth of the rows, a pool, and the truth of rows never seen; about 5 % are rare, the others common or so."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n + 10_000, 3))
    is_rare = rng.random(len(X)) < 1 / (1 + np.exp(5 - 1.8 * (X[:, 0] + X[:, 1])))
    y = np.where(is_rare, "rare", np.where(X[:, 2] > 0, "common", "so"))
    shown = rng.random(n) < 0.2
    logged = ob.LoggedData(X[:n], np.where(shown, y[:n], None), 0.2, classes=["common", "so", "rare"])
    return logged, ob.Pool(X[n : 2 * n], 0.2), y[n : 2 * n], X[2 * n :], y[2 * n :]


@cache
def run_three(objective, seed=0):
    logged, pool, y, X, truth = three_classes(seed)
    goal = {"rare": 20} if objective == "costs" else objective
    method = ob.AutoVC(batch=30, learners=("linear", "forest"))
    result = ob.run(logged, pool, lambda ids: y[ids], method, 60, seed, objective=goal, tolerance=None)
    return result, result.estimator.predict(X), truth


def test_recall_of_one_of_three_classes_is_aimed_at_and_measured():
    """Three campaigns: the mean recall has a standard error of about five points, and without the objective it is about 15 %."""
    recalls = []
    for seed in range(3):
        result, predicted, truth = run_three("recall=0.8", seed)
        recalls.append(np.mean(predicted[truth == "rare"] == "rare"))
        assert {"recall", "precision", "prevalence", FLAGGED, "AUC"} <= set(result.intervals)
        flagged = result.intervals[FLAGGED]
        assert flagged.low - 0.01 <= np.mean(predicted == "rare") <= flagged.high + 0.01
    assert 0.6 < np.mean(recalls) < 0.98
    plain, predicted, truth = run_three("error")
    assert np.mean(predicted[truth == "rare"] == "rare") < 0.5
    assert "recall" not in plain.intervals


@pytest.mark.parametrize("objective", ["balanced", "costs"])
def test_classes_are_weighed_for_costs_and_the_balanced_error(objective):
    aimed, predicted, truth = run_three(objective)
    _, plain, _ = run_three("error")

    def missed(said):
        return [np.mean(said[truth == name] != name) for name in ("common", "so", "rare")]

    costs = np.array([1.0, 1.0, 1.0 if objective == "balanced" else 20.0])
    shares = np.array([1.0 if objective == "balanced" else np.mean(truth == name) for name in ("common", "so", "rare")])
    assert (costs * shares) @ missed(predicted) < 0.9 * (costs * shares) @ missed(plain)
    np.testing.assert_allclose(aimed.estimator.predict_proba(three_classes()[3][:50]).sum(axis=1), 1.0)


def test_campaign_about_one_of_three_classes_needs_its_name(tmp_path):
    logged, pool, y, _, _ = three_classes(n=200)
    frames = [
        pd.DataFrame(rows, columns=["a", "b", "c"]).assign(q=0.2, id=np.arange(len(rows)) + start)
        for rows, start in ((logged.X, 1000), (pool.X, 0))
    ]
    frames[0]["y"] = [
        logged.classes[c] if shown else None for c, shown in zip(logged.codes, logged.revealed, strict=True)
    ]
    given = {"label": "y", "propensity": "q", "id": "id", "label_budget": 20, "objective": "recall=0.8"}
    with pytest.raises(InvalidInput, match=r"about one class, but there are 3 .*name it with --positive"):
        ob.Campaign.create(tmp_path / "c.db", *frames, **given)
    options = ob.TableOptions(positive="rare")
    campaign = ob.Campaign.create(tmp_path / "c.db", *frames, **given, tables=options, method=ob.AutoVC(batch=20))
    assert campaign.settings.classes == ("common", "so", "rare")
    while query := campaign.ask():
        campaign.tell(query.ids, y[list(query.ids)])
    campaign.export(tmp_path / "m.model")
    model = load_model(tmp_path / "m.model")
    again = ob.Campaign.open(tmp_path / "c.db").estimator
    np.testing.assert_array_equal(again.predict(pool.X), campaign.estimator.predict(pool.X))
    np.testing.assert_array_equal(model.predict(frames[1]), campaign.estimator.predict(pool.X))
    page = write_campaign_report(campaign, tmp_path / "r.html").read_text()
    assert "Of 400 rows the model flags" in page


# -- in counts


def known(estimate, low, high):
    return Interval(estimate, low, high, 0.95, "cells")


def test_counts_say_when_nothing_is_known():
    unknown = known(0.5, 0.0, 1.0)
    intervals = {FLAGGED: known(0.2, 0.19, 0.21), "recall": unknown, "prevalence": known(0.02, 0.01, 0.03)}
    said = counts_sentence(intervals, CLASSES, 1000)
    assert (
        said
        == "Of 1,000 rows the model flags 200 (190 to 210); how many 'yes' are among them is not known, because too few were seen."
    )
    assert counts_sentence({}, CLASSES, 1000) == ""
    assert other_thresholds(intervals, 1000) == []


def test_other_thresholds_find_more_the_more_they_flag():
    result, _, _ = campaign("recall=0.8")
    curve = other_thresholds(result.intervals, 3000)
    assert [one.share for one in curve] == list(CURVE_SHARES)
    recalls = [one.recall.estimate for one in curve]
    assert recalls == sorted(recalls)
    assert all(one.recall.low <= one.recall.estimate <= one.recall.high for one in curve)
    assert curve[0].flagged == 30
    assert curve[-1].found + curve[-1].missed == round(3000 * result.intervals["prevalence"].estimate)
    assert len(threshold_rows(result.intervals, 3000)) == len(CURVE_SHARES)
    assert result.intervals[recall_key(0.7)].estimate > 0.9


@pytest.mark.parametrize(
    ("objective", "first"),
    [("recall=0.8", "recall"), ("precision=0.5", "precision"), ("balanced error", "balanced error")],
)
def test_tiles_begin_with_the_objective(objective, first):
    assert objective_names(objective)[0] == first


@pytest.mark.parametrize("objective", ["recall=0.8", {"yes": 50, "checking": 2}])
def test_report_is_about_the_objective(tmp_path, objective):
    logged, pool, y, _, _ = world()
    session = ob.Session(logged, pool, ob.AutoVC(batch=30), label_budget=60, objective=objective, tolerance=None)
    while query := session.ask():
        session.tell(query.ids, y[query.ids])
    page = write_campaign_report(session, tmp_path / "r.html").read_text()
    assert "Of 3,000 rows the model flags" in page
    assert "other thresholds would find" in page
    assert "Curve of recall against the share of rows flagged" in page
    assert "The baseline's error" not in page
    shows_recall = re.search(r"recall of (&#39;|')yes(&#39;|'), labels found", page) is not None
    assert shows_recall == (objective == "recall=0.8")  # beside the error of each group
    if objective == "recall=0.8":
        assert "Line chart of the estimated recall of" in page
    else:
        assert "the model costs less" in page or "do not show that the model costs less" in page


# -- the hint


def test_hint_names_the_rare_class_and_the_option():
    y = np.where(np.arange(300) % 30 == 0, "bad", "good")
    last, first = (
        rare_class_notes(ob.LoggedData(np.zeros((300, 1)), y, 0.5, classes=c))
        for c in (["good", "bad"], ["bad", "good"])
    )
    assert "'bad' is rare: about 3.3% of the rows" in last[0]
    assert "--target recall=0.8 (objective" in last[0]
    assert "--target recall=0.8 and --positive bad (objective" in first[0]
    common = np.where(np.arange(300) % 5 == 0, "bad", "good")
    assert rare_class_notes(ob.LoggedData(np.zeros((300, 1)), common, 0.5)) == []
    assert rare_class_notes(ob.LoggedData(np.zeros((10, 1)), y[:10], 0.5, classes=["good", "bad"])) == []


def test_hint_stays_until_the_end_unless_there_is_an_objective():
    logged, pool, y, _, _ = world()
    session, aimed = (ob.Session(logged, pool, label_budget=20, objective=goal) for goal in ("error", "recall=0.8"))
    assert "'yes' is rare" in session.status().notes[0]  # first: of many warnings only a few are shown
    assert not any("is rare" in note for note in aimed.status().notes)
    while query := session.ask():
        session.tell(query.ids, y[query.ids])
    assert any("'yes' is rare" in note for note in session.status().notes)


# -- the command line


def tables(folder, n=200):
    logged, pool, *_ = world(n=n)
    with open(folder / "log.csv", "w", newline="") as file:
        labels = [CLASSES[code] if shown else "" for code, shown in zip(logged.codes, logged.revealed, strict=True)]
        rows = [[*x, q, label] for x, q, label in zip(logged.X, logged.propensity, labels, strict=True)]
        csv.writer(file).writerows([["a", "b", "c", "q", "y"], *rows])
    with open(folder / "pool.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["a", "b", "c", "q"], *([*x, q] for x, q in zip(pool.X, pool.propensity, strict=True))]
        )
    return [
        "--logged",
        str(folder / "log.csv"),
        "--pool",
        str(folder / "pool.csv"),
        "--label",
        "y",
        "--propensity",
        "q",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "flag=5%"], "flag 5% of all rows as 'yes'"),
        (["--target", "recall>=0.8"], "find at least 80% of 'yes' with 95% confidence"),
        (
            ["--cost-of-missing", "yes=50", "--cost-of-checking", "2"],
            "missing 'yes' costs 50, checking a flagged row 2",
        ),
    ],
)
def test_init_takes_objectives(tmp_path, options, said):
    done = invoke("init", tmp_path / "c.db", *tables(tmp_path), "--classes", "no,yes", *options)
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--cost-of-checking", "2"], "needs --cost-of-missing"),
        (["--cost-of-missing", "no=5", "--cost-of-checking", "2"], "positive class 'yes'"),
    ],
)
def test_wrong_costs_raise_one_sentence(tmp_path, options, match):
    done = invoke("init", tmp_path / "c.db", *tables(tmp_path), "--classes", "no,yes", *options)
    assert done.exit_code != 0
    assert match in " ".join(f"{done.output} {done.exception}".replace("│", "").split())


def test_init_status_and_report_hint_at_the_objective_of_a_rare_class(tmp_path):
    where = str(tmp_path / "c.db")
    shown = [invoke("init", where, *tables(tmp_path, n=1500), "--budget", "20", "--batch", "20").stdout]
    campaign = ob.Campaign.open(where)
    y = world()[2]
    batch = campaign.ask()
    campaign.tell(batch.ids, y[list(batch.ids)])
    shown.append(invoke("status", where).stdout)
    shown.append(write_campaign_report(campaign, tmp_path / "r.html").read_text().replace("&#39;", "'"))
    for text in shown:
        assert "'yes' is rare: about" in text
        assert "--target recall=0.8" in text

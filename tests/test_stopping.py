"""Runs that end when more labels are unlikely to help."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import observal as ob
from observal.intervals.stopping import LEAST_BOUGHT, Forecast, are_steadily_below, estimate_gain, still_to_gain
from observal.journal import replay
from tests.reference import looks as twin

CHANCES = st.lists(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.9]), min_size=3, max_size=3), min_size=1, max_size=8)


@given(CHANCES, st.randoms(), st.booleans())
def test_gain_matches_slow_twin(now, random, calibrated):
    before = [random.sample(row, len(row)) for row in now]
    assert estimate_gain(np.array(now), np.array(before), calibrated) == pytest.approx(
        twin.gained(now, before, calibrated)
    )


def test_forecasts_shrink_with_remaining_labels():
    left = [still_to_gain(0.01, n, n // 2, 800) for n in (100, 200, 400, 700, 800)]
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0.0
    assert still_to_gain(0.01, 100, 100, 800) == 1.0  # nothing was bought since: nothing is known


def world(kind, rows=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * rows + 4000, 3))
    if kind == "flat":  # a log of hundreds of labels says all there is to say
        y, chance = X[:, 0] + rng.normal(size=len(X)) > 0, np.full(len(X), 0.5)
    else:  # the log hides what happens where x1 is large
        y, chance = np.where(X[:, 1] > 0.4, X[:, 2] > 0, X[:, 0] > 0), np.where(X[:, 1] > 0.4, 0.002, 0.3)
    shown = rng.random(rows) < chance[:rows]
    logged = ob.LoggedData(X[:rows], np.where(shown, y[:rows], np.nan), chance[:rows])
    return (
        logged,
        ob.Pool(X[rows : 2 * rows], chance[rows : 2 * rows]),
        y[rows : 2 * rows],
        X[2 * rows :],
        y[2 * rows :],
    )


def test_flat_curve_stops_with_reason():
    logged, pool, y, X_test, y_test = world("flat")
    method = ob.NewtonVC(batch=20)
    result = ob.run(logged, pool, lambda ids: y[ids], method, label_budget=400)
    assert LEAST_BOUGHT <= result.rounds[-1].labels <= 280
    assert result.stopped == "more labels are unlikely to gain more than 0.2 points"
    whole = ob.run(logged, pool, lambda ids: y[ids], method, label_budget=400, tolerance=None)
    assert whole.rounds[-1].labels == 400
    assert whole.estimator.score(X_test, y_test) - result.estimator.score(X_test, y_test) < 0.01


def test_falling_curve_continues():
    logged, pool, y, X_test, y_test = world("blind")
    result = ob.run(logged, pool, lambda ids: y[ids], label_budget=150)
    assert result.rounds[-1].labels == 150
    assert "budget" in result.stopped
    assert result.estimator.score(X_test, y_test) > result.rounds[0].estimator.score(X_test, y_test) + 0.05


@pytest.mark.parametrize(
    ("method", "calibrated"),
    [(ob.AutoVC(batch=60, learners=("linear",)), True), (ob.NewtonVC(batch=60), False)],
)
def test_only_calibrated_chances_count_as_they_are(monkeypatch, method, calibrated):
    logged, pool, y, _, _ = world("flat", rows=400)
    asked = []
    monkeypatch.setattr(
        replay,
        "estimate_gain",
        lambda now, before, trusted: asked.append(trusted) or estimate_gain(now, before, trusted),
    )
    ob.run(logged, pool, lambda ids: y[ids], method, label_budget=180)
    assert set(asked) == {calibrated}


def test_paper_methods_never_stop_early():
    logged, pool, y, _, _ = world("flat", rows=400)
    result = ob.run(logged, pool, lambda ids: y[ids], ob.ActiveVC(), label_budget=150)
    assert "unlikely" not in result.stopped


def test_narrow_interval_stops_if_width_is_set():
    logged, pool, y, _, _ = world("flat")
    result = ob.run(logged, pool, lambda ids: y[ids], ob.NewtonVC(batch=20), 200, width=0.5)
    assert result.stopped == "the interval for the error is narrower than 50 points"
    assert result.rounds[-1].labels == 0


def test_campaign_stops_where_session_does(tmp_path):
    logged, pool, y, _, _ = world("flat")
    goals = {"tolerance": 0.004, "looks": "always", "population": "pool"}
    result = ob.run(logged, pool, lambda ids: y[ids], ob.NewtonVC(batch=25), 300, **goals)
    path = tmp_path / "campaign.db"
    ob.Campaign.create_from_arrays(path, logged, pool, label_budget=300, method=ob.NewtonVC(batch=25), **goals)
    while batch := (campaign := ob.Campaign.open(path)).ask():  # opened anew in every round
        campaign.tell(batch.ids, y[list(batch.ids)])
    assert campaign.status().stopped == result.stopped == "more labels are unlikely to gain more than 0.4 points"
    assert campaign.status().labels == result.rounds[-1].labels < 300
    assert campaign.result().error_interval == result.error_interval
    assert campaign.status().intervals == "about the pool; they hold at all rounds together, however many follow"


@pytest.mark.parametrize(
    ("bought", "to_gain", "stops"),
    [
        ([], [], False),
        ([100], [0.0], False),
        ([100, 110, 120], [0.0, 0.0, 0.0], False),
        ([100, 110, 125], [0.0, 0.0, 0.0], True),
        ([100, 110, 125], [0.0, 0.1, 0.0], False),
        ([100, 110, 125, 135], [0.1, 0.0, 0.0, 0.0], True),
        ([100, 125], [0.0, 0.1], False),
    ],
)
def test_run_stops_after_25_labels_with_low_forecasts(bought, to_gain, stops):
    forecasts = [Forecast(*pair) for pair in zip(bought, to_gain, strict=True)]
    assert are_steadily_below(0.002, forecasts) == stops

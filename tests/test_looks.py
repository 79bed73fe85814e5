"""Intervals for people who look at every round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import observal as ob
from observal.errors import InvalidInput
from observal.intervals.looks import planned_bounds, sequence_bound, stretch
from observal.problem.interval import Interval
from tests.reference import looks as twin

Z = 1.959963984540054


@pytest.mark.parametrize(
    "shares", [np.linspace(0.1, 1.0, 10), np.linspace(0.6, 1.0, 9), np.array([0.05, 0.5, 0.51, 1.0])]
)
def test_planned_bounds_are_crossed_at_stated_rate(shares):
    """With 100,000 paths a share of 0.05 has a standard error of 0.0007; five of them are never exceeded by chance."""
    found = twin.crossings(shares, planned_bounds(shares), 100_000, seed=0)
    assert found == pytest.approx([twin.spent(t, shares[0], Z) for t in shares], abs=0.0035)


def test_bounds_ignoring_looks_are_crossed_too_often():
    shares = np.linspace(0.1, 1.0, 10)
    assert twin.crossings(shares, np.full(10, Z), 100_000, seed=0)[-1] > 0.15


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(0, 500), st.integers(0, 800))
@settings(max_examples=40)
def test_more_looks_never_narrow_the_last_one(steps, first, left):
    labels = (first + np.cumsum(steps)).tolist()
    assert stretch("planned", labels, labels[-1]) >= stretch("planned", labels[-1:], labels[-1]) - 1e-6
    assert stretch("planned", labels, labels[-1] + left) >= 1.0
    assert stretch("once", labels, labels[-1] + left) == 1.0
    assert stretch("planned", labels, None) == stretch("always", labels, None)


def test_sequence_bounds_are_rarely_crossed():
    """Steps of one label up to 2,000: at most 5 % of paths may ever cross; 400 paths, 38 or more would have chance below 1e-4."""
    rng = np.random.default_rng(0)
    n = np.arange(1, 2001)
    bounds = np.array([sequence_bound(int(k), 200) for k in n])
    paths = np.abs(np.cumsum(rng.normal(size=(400, n.size)), axis=1)) / np.sqrt(n)
    crossed = int((paths > bounds).any(axis=1).sum())
    assert crossed < 38
    assert int((paths > Z).any(axis=1).sum()) > 200


def test_stretching_moves_both_ends_and_says_why():
    found = Interval(0.2, 0.1, 0.4, 0.95, "normal").stretched(2.0, "for all rounds")
    assert (found.low, found.high) == pytest.approx((0.0, 0.6))
    assert found.method == "normal; for all rounds"


def world(seed=0, rows=300):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * rows, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=2 * rows) > 0).astype(int)
    shown = rng.random(rows) < 0.4
    logged = ob.LoggedData(X[:rows], np.where(shown, y[:rows], np.nan), 0.4)
    return logged, ob.Pool(X[rows:], 0.4), y[rows:]


def session(**options):
    logged, pool, y = world()
    made = ob.Session(logged, pool, ob.NewtonVC(batch=20), 60, **options)
    while (query := made.ask()) is not None:
        made.tell(query.ids, y[query.positions])
    return made


def test_session_intervals_are_stretched_for_looks():
    once, planned, always = (session(looks=looks) for looks in ("once", "planned", "always"))
    revealed = once.problem.logged.revealed.sum()
    labels = [int(revealed) + round_.labels for round_ in once.rounds]
    for k in range(len(labels)):
        plain = once.intervals(k)["error"]
        for made, looks in ((planned, "planned"), (always, "always")):
            factor = stretch(looks, labels[: k + 1], labels[-1])
            found = made.intervals(k)["error"]
            assert found.low == pytest.approx(max(0.0, plain.estimate - factor * (plain.estimate - plain.low)))
            assert found.high == pytest.approx(min(1.0, plain.estimate + factor * (plain.high - plain.estimate)))
            assert "rounds" in found.method


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"looks": "never"}, "looks must be one of planned, always, once, but is 'never'"),
        ({"population": "world"}, "population must be one of both, pool, log, but is 'world'"),
        ({"tolerance": 2}, "tolerance must be above 0 and below 1, but is 2"),
        ({"width": 0.0}, "width must be above 0 and below 1, but is 0.0"),
    ],
)
def test_wrong_goals_raise_one_sentence(options, message):
    logged, pool, _ = world()
    with pytest.raises(InvalidInput, match=message):
        ob.Session(logged, pool, **options)


def test_interval_is_about_named_population():
    """Errors are many where x is large; the pool has more such rows than the log."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.uniform(0, 1, 800), rng.uniform(0.5, 1, 800)])[:, None]
    y = (rng.random(1600) < np.where(X[:, 0] > 0.5, 0.4, 0.02)).astype(int)
    logged, pool = ob.LoggedData(X[:800], np.where(rng.random(800) < 0.5, y[:800], np.nan), 0.5), ob.Pool(X[800:], 0.5)
    found = {}
    for population in ("both", "pool", "log", None):
        made = ob.Session(logged, pool, ob.NewtonVC(batch=50), 50, population=population)
        made.tell(made.ask().ids, y[800 + made.ask().positions])
        found[population] = made.intervals()["error"].estimate
        assert (len(made.settings.notes) == 1) == (population is None)
    assert found["log"] < found["both"] < found["pool"]
    assert found["pool"] == pytest.approx(0.4, abs=0.06)
    assert found["log"] == pytest.approx(0.21, abs=0.06)
    assert found[None] == found["pool"]
    assert "Intervals are about the pool alone" in made.settings.notes[0]

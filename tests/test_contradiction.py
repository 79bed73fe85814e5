"""Rows picked at random against the log."""

from __future__ import annotations

import numpy as np
import pytest

import observal as ob
from observal.intervals.contradiction import COMPARED, contradiction, random_minus_log
from observal.problem.interval import Interval
from observal.report.content import ReportContent
from observal.report.sections import headline


def test_cell_differences_have_cochran_weights():
    cell = np.repeat([0, 1, 2], [30, 20, 5])
    picked = np.concatenate(
        [np.arange(30) < 10, np.arange(20) < 12, np.ones(5, dtype=bool)]
    )  # the last has no row of the log
    outcome = (np.arange(55) % 3 == 0).astype(float)
    found = random_minus_log(cell, picked, outcome)
    top = bottom = variance = 0.0
    for c in (0, 1):
        here, there = outcome[(cell == c) & picked], outcome[(cell == c) & ~picked]
        weight = here.size * there.size / (here.size + there.size)
        mean = (here.sum() + there.sum() + 0.5) / (here.size + there.size + 1)
        top, bottom = top + weight * (here.mean() - there.mean()), bottom + weight
        variance += weight * mean * (1 - mean)
    assert found.estimate == pytest.approx(top / bottom)
    assert found.high - found.estimate == pytest.approx(2.8070337683438 * variance**0.5 / bottom)


def test_few_rows_give_no_comparison():
    assert random_minus_log(np.zeros(30, dtype=np.int64), np.arange(30) < 19, np.ones(30)) is None
    assert random_minus_log(np.empty(0, dtype=np.int64), np.empty(0, dtype=bool), np.empty(0)) is None


def test_clean_comparisons_rarely_contradict():
    """1,000 comparisons, two outcomes each at 0.995: 1 % expected; more than 30 have chance below 1e-6."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(1000):
        cell, picked = rng.integers(0, 6, 300), rng.random(300) < 0.3
        chance = np.linspace(0.1, 0.6, 6)[cell]
        both = {
            key: random_minus_log(cell, picked, (rng.random(300) < chance).astype(float)) for key in COMPARED.values()
        }
        found += contradiction(both) is not None
    assert found <= 30


def world(hidden):
    """A log that shows three rows in ten; with a hidden cause, positive ones far more often."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2400, 3))
    y = (rng.random(2400) < 1.0 / (1.0 + np.exp(-X[:, 0]))).astype(int)
    chance = np.where(y[:1200] == 1, 0.5, 0.1) if hidden else np.full(1200, 0.3)
    shown = rng.random(1200) < chance
    return ob.LoggedData(X[:1200], np.where(shown, y[:1200], np.nan), 0.3), ob.Pool(X[1200:], 0.3), y[1200:]


@pytest.mark.parametrize("hidden", [False, True])
def test_hidden_cause_is_reported_after_buying(hidden, tmp_path):
    logged, pool, y = world(hidden)
    result = ob.run(logged, pool, lambda ids: y[ids], ob.NewtonVC(batch=50, explore_share=0.5), 200, tolerance=None)
    found = contradiction(result.intervals)
    assert (found is not None) == hidden
    said = " ".join(headline(ReportContent("t", logged, pool, result)))
    if hidden:
        assert found[0] == COMPARED["prevalence"]
        assert found[1].estimate < 0.0
        assert "contradict the log: class 1.0 is" in said
    else:
        assert "Rows picked at random agree" in said


def test_largest_contradiction_is_named():
    small, large = Interval(0.1, 0.01, 0.19, 0.995, ""), Interval(-0.3, -0.4, -0.2, 0.995, "")
    assert contradiction(dict(zip(COMPARED.values(), (small, large), strict=True)))[1] is large
    assert contradiction({"error": large}) is None

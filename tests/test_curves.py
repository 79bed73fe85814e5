"""Curves of error against labels: the area against its slow twin, ties, the held end, replay against a session."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import observal as ob
from observal.errors import InvalidInput
from observal.paper.active18 import Active18
from observal.paper.active_vc import ActiveVC
from observal.paper.passive import Passive
from observal.problem.problem import Problem
from observal_research.curves import Course, Curve, Estimate, Streams, labels_to_reach, online_sizes, replay
from observal_research.datasets import fit_policy, make_linear, simulate

from .reference import curves as slow

METHODS = [
    Passive(learning_rate=0.1),
    Active18(clip_constant=0.04, learning_rate=0.1),
    ActiveVC(clip_constant=0.04, learning_rate=0.1),
]


@pytest.fixture(scope="module")
def course():
    data = make_linear(800, 5, random_state=3)
    return Course(simulate(data, fit_policy("certainty", data, 4), random_state=5))


points = st.lists(st.tuples(st.integers(0, 40), st.floats(0.0, 1.0)), max_size=12).map(lambda found: [(0, 0.5), *found])


@given(points, st.integers(1, 50))
def test_area_and_values_match_the_slow_twin(found, end):
    labels, errors = zip(*found, strict=True)
    curve = Curve(labels, errors)
    assert curve.area(end) == pytest.approx(slow.area(labels, errors, end), abs=1e-12)
    expected = [slow.error_at(labels, errors, n) for n in range(end + 1)]
    assert curve.at(np.arange(end + 1)) == pytest.approx(expected, abs=1e-12)


def test_latest_of_equal_labels_counts_and_the_last_error_is_held():
    curve = Curve([0, 0, 10, 10], [0.9, 0.4, 0.7, 0.2])
    assert curve.at([0, 5, 10, 1000]).tolist() == pytest.approx([0.4, 0.3, 0.2, 0.2])
    assert curve.area(20) == pytest.approx(0.25)
    assert Curve([0], [0.3]).area(300) == pytest.approx(0.3)


def test_point_beyond_the_end_counts_only_by_interpolation():
    assert Curve([0, 40], [0.4, 0.0]).area(20) == pytest.approx(0.3)


def test_area_of_the_mean_is_the_mean_of_the_areas():
    rng = np.random.default_rng(0)
    curves = [Curve([0, *np.sort(rng.integers(0, 60, 5))], rng.random(6)) for _ in range(4)]
    mean = np.mean([curve.at(np.arange(51)) for curve in curves], axis=0)
    assert Curve(np.arange(51), mean).area(50) == pytest.approx(np.mean([curve.area(50) for curve in curves]))


@pytest.mark.parametrize(
    ("labels", "errors"), [([], []), ([5, 10], [0.2, 0.1]), ([0, 1], [0.3]), ([-1, 0], [0.1, 0.2])]
)
def test_curve_starts_with_the_log_alone(labels, errors):
    with pytest.raises(InvalidInput, match="0 labels"):
        Curve(labels, errors)


def test_area_needs_labels():
    with pytest.raises(InvalidInput, match="at least 1"):
        Curve([0], [0.3]).area(0)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6), st.floats(0.0, 1.0))
def test_labels_to_reach_matches_the_slow_twin(errors, target):
    labels = list(range(len(errors)))
    fast = labels_to_reach(np.array(labels), np.array(errors), target)
    expected = slow.labels_to_reach(labels, errors, target)
    if expected is None or fast is None:
        assert min(errors) == pytest.approx(target, abs=1e-11) or fast is expected
    else:
        assert fast == pytest.approx(expected, abs=2e-3) or min(abs(e - target) for e in errors) < 1e-9


def test_online_sizes_follow_the_epochs():
    assert online_sizes(2400) == (10, 25, 47, 80, 129, 202, 311, 474, 718, 1084, 1633, 2400)
    assert online_sizes(25) == (10, 25)
    assert online_sizes(3) == (3,)


def test_estimate_is_mean_and_standard_error():
    assert Estimate.of(np.array([1.0, 3.0])) == pytest.approx((2.0, 1.0))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_replay_is_what_run_does(course, method):
    world = course.world
    result = ob.run(world.logged, world.pool, world.oracle, method, random_state=7)
    streams = Streams(7)
    next(replay(METHODS[0], course.problem, course.codes, streams))  # a run before it changes nothing
    states = list(replay(method, course.problem, course.codes, streams))
    rounds = [method.describe(course.problem, state) for state in states]
    assert [r.labels for r in rounds] == [r.labels for r in result.rounds]
    for ours, theirs in zip(rounds, result.rounds, strict=True):
        assert np.array_equal(ours.estimator.coef_, theirs.estimator.coef_)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_stopping_early_does_not_change_the_curve_below(course, method):
    (whole,) = course.curves([method], 10**9, 7)
    end = int(whole.labels.max()) // 2
    (cut,) = course.curves([method], end, 7)
    assert (len(cut.labels) < len(whole.labels)) == method.curve_from_one_run
    assert cut.labels.max() >= end
    assert np.array_equal(cut.labels, whole.labels[: len(cut.labels)])
    assert np.array_equal(cut.at(np.arange(end + 1)), whole.at(np.arange(end + 1)))
    assert cut.area(end) == whole.area(end)


def test_curve_that_one_run_does_not_give_is_made_of_runs_of_each_size(course):
    method, world = METHODS[1], course.world
    assert not method.curve_from_one_run
    (curve,) = course.curves([method], 10**9, 7)
    sizes = online_sizes(len(world.pool))
    assert len(curve.labels) == 1 + len(sizes)
    for k in (0, 3, len(sizes) - 1):
        n = sizes[k]
        pool = ob.Pool(world.pool.X[:n], world.pool.propensity[:n], world.pool.ids[:n])
        result = ob.run(world.logged, pool, world.oracle, method, random_state=7)
        assert curve.labels[k + 1] == len(result.queries)
        assert curve.errors[k + 1] == pytest.approx(1.0 - result.estimator.score(world.X_test, world.y_test))


def test_test_errors_are_one_minus_the_score(course):
    method, world = METHODS[2], course.world
    (curve,) = course.curves([method], 100, 7)
    states = replay(method, Problem(world.logged, world.pool), course.codes, Streams(7))
    scores = [method.describe(course.problem, state).estimator.score(world.X_test, world.y_test) for state in states]
    assert curve.errors == pytest.approx(1.0 - np.array(scores[: len(curve.errors)]))

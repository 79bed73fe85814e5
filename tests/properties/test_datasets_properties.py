"""What every logging policy and every split promises, on rows and numbers that nobody chose."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from observal_research.datasets import (
    BlindSpot,
    Certainty,
    Identical,
    Region,
    Scorecard,
    Uncertainty,
    Uniform,
    simulate,
)

FEATURES = 3
numbers = st.floats(-1e3, 1e3)
chances = st.floats(0.0, 1.0)
rows = arrays(np.float64, st.tuples(st.integers(1, 20), st.just(FEATURES)), elements=numbers)
normals = st.tuples(numbers, numbers, numbers)
planes = st.fixed_dictionaries(
    {"normal": normals, "scale": st.floats(0.0, 1e3), "offset": numbers, "propensity_floor": chances}
)
regions = st.lists(st.tuples(st.integers(0, FEATURES - 1), st.sampled_from([-1, 1]), numbers), min_size=1, max_size=3)
region = regions.map(lambda conditions: Region(tuple(conditions)))
policies = st.one_of(
    planes.map(lambda plane: Certainty(**plane)),
    planes.map(lambda plane: Uncertainty(**plane)),
    chances.map(Identical),
    st.builds(Uniform, st.lists(chances, min_size=1, max_size=5).map(tuple), st.integers(0, 2**32)),
    st.builds(Scorecard, st.just((0, 2)), st.tuples(numbers, numbers), numbers, chances),
    st.builds(BlindSpot, region, chances, chances | chances.map(Identical)),
)


@given(policies, rows)
def test_policy_is_a_function_of_the_row_into_chances(policy, X):
    q = policy(X)
    assert q.shape == (len(X),)
    assert (q >= getattr(policy, "propensity_floor", 0.0)).all()
    assert (q <= 1.0).all()
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(policy(X[order]), q[order], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(policy(np.asfortranarray(X)), q, rtol=1e-6, atol=1e-6)


@given(policies)
def test_policy_prints_pickles_and_compares(policy):
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    assert hash(again) == hash(policy)
    assert len(repr(policy)) < 250


@given(planes, rows)
def test_chances_rise_or_fall_with_the_distance_from_the_plane(plane, X):
    far = np.abs(X @ np.array(plane["normal"]) - plane["offset"])
    order = np.argsort(far, kind="stable")
    assert (np.diff(Certainty(**plane)(X)[order]) >= 0).all()
    assert (np.diff(Uncertainty(**plane)(X)[order]) <= 0).all()


@given(region, rows)
def test_region_and_its_turned_sides(inside, X):
    expected = np.ones(len(X), dtype=bool)
    for feature, side, bound in inside.conditions:
        expected &= X[:, feature] > bound if side == 1 else X[:, feature] <= bound
    np.testing.assert_array_equal(inside(X), expected)
    for feature, side, bound in inside.conditions:
        turned = Region(((feature, -side, bound),))
        assert not (turned(X) & inside(X)).any()


@given(st.integers(5, 60), st.floats(0.0, 0.5), st.floats(0.2, 0.8), policies, st.integers(0, 2**32))
def test_split_loses_no_row_and_shows_only_true_labels(n, test_size, log_share, policy, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, FEATURES)), np.arange(n) % 2
    world = simulate((X, y), policy, seed, test_size=test_size, log_share=log_share)
    logged = world.logged
    assert len(logged) + len(world.pool) + len(world.y_test) == n
    ids = np.concatenate([logged.ids, world.pool.ids])
    assert len(set(ids.tolist())) == len(ids)
    np.testing.assert_array_equal(logged.y[logged.revealed], y[logged.ids][logged.revealed])
    np.testing.assert_array_equal(world.oracle(world.pool.ids), y[world.pool.ids])
    assert logged.revealed[logged.propensity == 1.0].all()
    assert not logged.revealed[logged.propensity == 0.0].any()

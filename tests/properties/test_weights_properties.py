"""Weights, policies and thresholds against their slow twins, in exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observal.paper.weights import (
    clip_threshold,
    importance,
    online_mass,
    passive_clip_threshold,
    plain_importance,
    practical_clip_threshold,
    query_policy,
)
from tests.reference import weights as slow

# Few distinct values: ties, jumps and both ends are common.
propensities = st.lists(st.integers(0, 16).map(lambda i: Fraction(i, 16)), min_size=1, max_size=12)
schedules = st.lists(st.integers(1, 9), min_size=0, max_size=6).map(sorted)
log_terms = st.integers(1, 64).map(lambda i: Fraction(i, 8))


def floats(values):
    return np.array([float(v) for v in values])


@given(propensities, st.integers(1, 40), schedules)
def test_closed_form_of_the_query_policy_is_the_recursion(q0s, m, epochs):
    expected = [slow.query_policies(q, m, epochs) for q in q0s]
    for k in range(len(epochs)):
        closed = query_policy(floats(q0s), m, sum(epochs[: k + 1]))
        assert closed.tolist() == [bool(row[k]) for row in expected]


@given(propensities, st.integers(1, 40), schedules)
def test_online_mass_and_importance(q0s, m, epochs):
    mass = online_mass(floats(q0s), m, epochs)
    assert mass.tolist() == [float(slow.online_mass(q, m, epochs)) for q in q0s]
    weights = importance(floats(q0s), m, sum(epochs), mass)
    np.testing.assert_allclose(weights, [float(slow.mis_weight(q, m, epochs)) for q in q0s], rtol=1e-14)


@given(propensities, st.integers(1, 40), schedules)
def test_weights_obey_the_papers_bound(q0s, m, epochs):
    n = sum(epochs)
    q = floats(q0s)
    weights = importance(q, m, n, online_mass(q, m, epochs))
    with np.errstate(divide="ignore"):
        bound = (m + n) / (m * q / 2 + n)
    assert (weights <= bound * (1 + 1e-12)).all()


@given(propensities, st.integers(1, 40), schedules, st.integers(0, 5))
def test_epoch_that_ends_early_keeps_the_bound(q0s, m, epochs, lost):
    if not epochs:
        return
    cut = [*epochs[:-1], max(0, epochs[-1] - lost)]
    seen = np.cumsum(epochs)
    q = floats(q0s)
    mass = online_mass(q, m, cut, seen)
    weights = importance(q, m, sum(cut), mass)
    with np.errstate(divide="ignore"):
        bound = (m + sum(cut)) / (m * q / 2 + sum(cut)) if sum(cut) else 2 / q
    assert (weights <= bound * (1 + 1e-12)).all()


@given(propensities, st.integers(1, 40), st.integers(0, 40), log_terms)
def test_clip_threshold_is_the_exact_infimum(q0s, m, n, log_term):
    masses = [Fraction(1, len(q0s))] * len(q0s)
    expected = float(slow.clip_threshold(q0s, m, n, log_term, masses))
    assert clip_threshold(floats(q0s), m, n, float(log_term)) == pytest.approx(expected, rel=1e-13)
    given_mass = clip_threshold(floats(q0s), m, n, float(log_term), mass=floats(masses))
    assert given_mass == pytest.approx(expected, rel=1e-13)


@given(propensities, st.integers(1, 40), log_terms)
def test_passive_clip_threshold_is_the_exact_infimum_and_below_one_over_q0(q0s, m, log_term):
    masses = [Fraction(1, len(q0s))] * len(q0s)
    found = passive_clip_threshold(floats(q0s), m, float(log_term))
    assert found == pytest.approx(float(slow.passive_clip_threshold(q0s, m, log_term, masses)), rel=1e-13)
    if min(q0s) > 0:
        assert found <= 1 / float(min(q0s)) * (1 + 1e-13)


@given(propensities, st.integers(1, 40), st.integers(0, 40), log_terms)
def test_practical_clip_threshold_is_the_exact_infimum(q0s, m, n, capacity):
    masses = [Fraction(1, len(q0s))] * len(q0s)
    found = practical_clip_threshold(floats(q0s), m, n, float(capacity))
    assert found == pytest.approx(float(slow.practical_clip_threshold(q0s, m, n, capacity, masses)), rel=1e-13)


@given(
    st.lists(st.tuples(st.integers(0, 16), st.integers(1, 9)), min_size=1, max_size=9), st.integers(1, 40), log_terms
)
def test_unequal_masses(pairs, m, log_term):
    q0s = [Fraction(q, 16) for q, _ in pairs]
    total = sum(p for _, p in pairs)
    masses = [Fraction(p, total) for _, p in pairs]
    found = passive_clip_threshold(floats(q0s), m, float(log_term), mass=floats(masses))
    assert found == pytest.approx(float(slow.passive_clip_threshold(q0s, m, log_term, masses)), rel=1e-12)


@given(propensities, st.integers(1, 40), log_terms)
def test_longer_log_clips_less(q0s, m, log_term):
    thresholds = [passive_clip_threshold(floats(q0s), size, float(log_term)) for size in (m, 2 * m, 4 * m)]
    assert thresholds == sorted(thresholds)


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8))
def test_plain_importance_inverts(values):
    np.testing.assert_allclose(plain_importance(values) * np.array(values), 1.0)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observal.errors import InvalidInput, InvalidLabel
from observal.paper.dichotomies import Dichotomies
from observal.paper.risk import RiskSums, clipped, pair_sums, risk_sums, uniform_error_interval
from tests.reference import risk as slow

WEIGHTS = st.sampled_from([0.5, 1.0, 1.5, 2.0, 7.0, 100.0])


@st.composite
def rows(draw, min_size=1):
    n = draw(st.integers(min_size, 30))
    signs = st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n)
    matrix = np.array(draw(st.lists(signs, min_size=1, max_size=5)), dtype=np.int8)
    labels = np.array(draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=n, max_size=n)), dtype=np.int8)
    weights = np.array(draw(st.lists(WEIGHTS, min_size=n, max_size=n)))
    cost = np.array(draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=n, max_size=n)))
    return matrix, labels, weights, cost


@given(rows(), st.sampled_from([0.75, 2.0, np.inf]))
def test_matrix_packed_and_single_agree_with_the_slow_twin(data, clip):
    matrix, labels, weights, cost = data
    whole = risk_sums(matrix, labels, weights, clip, cost)
    packed = risk_sums(Dichotomies.from_signs(matrix), labels, weights, clip, cost)
    for i, h in enumerate(matrix):
        one = risk_sums(h, labels, weights, clip, cost)
        loss, second = slow.loss(h, labels, weights, clip, cost), slow.second_moment(h, labels, weights, clip, cost)
        for found in (float(one.loss), whole.loss[i], packed.loss[i]):
            assert found == pytest.approx(loss, abs=1e-12)
        for found in (float(one.second_moment), whole.second_moment[i], packed.second_moment[i]):
            assert found == pytest.approx(second, abs=1e-12)
        assert float(one.variance) == pytest.approx(second - loss**2, abs=1e-9)
        assert float(one.objective(3.0)) == pytest.approx(loss + np.sqrt(3.0 / labels.size * second), abs=1e-9)


@given(rows(), st.sampled_from([0.75, 2.0, np.inf]))
def test_pairs_agree_with_the_slow_twin_and_ignore_label_values(data, clip):
    matrix, labels, weights, cost = data
    sums = pair_sums(matrix, matrix[0], labels, weights, clip, cost)
    flipped = pair_sums(Dichotomies.from_signs(matrix), matrix[0], -labels, weights, clip, cost)
    np.testing.assert_allclose(sums.second, flipped.second, rtol=1e-12)
    for i, h in enumerate(matrix):
        expected = slow.pair_second_moment(h, matrix[0], labels, weights, clip, cost)
        assert sums.second_moment[i] == pytest.approx(expected, abs=1e-12)


@given(rows(min_size=2), st.data())
def test_merging_two_parts_is_the_statistic_of_their_union(data, draw):
    matrix, labels, weights, cost = data
    cut = draw.draw(st.integers(1, labels.size - 1))
    parts = [
        risk_sums(matrix[:, part], labels[part], weights[part], 2.0, cost[part])
        for part in (slice(None, cut), slice(cut, None))
    ]
    whole, merged = risk_sums(matrix, labels, weights, 2.0, cost), parts[0].merge(parts[1])
    assert merged.rows == whole.rows
    np.testing.assert_allclose(merged.first, whole.first, rtol=4e-16 * labels.size, atol=0)
    np.testing.assert_allclose(merged.second, whole.second, rtol=4e-16 * labels.size, atol=0)
    shares = cut / labels.size, 1 - cut / labels.size
    decomposed = shares[0] * parts[0].second_moment + shares[1] * parts[1].second_moment
    np.testing.assert_allclose(decomposed, whole.second_moment, rtol=1e-12)


def test_variance_does_not_decompose():
    parts = [RiskSums(1, np.asarray(w), np.asarray(w * w)) for w in (0.0, 2.0)]
    whole = parts[0].merge(parts[1])
    assert float(whole.variance) != pytest.approx(0.5 * parts[0].variance + 0.5 * parts[1].variance)


@given(rows())
def test_higher_clip_never_lowers_the_loss(data):
    matrix, labels, weights, cost = data
    losses = [risk_sums(matrix, labels, weights, clip, cost).loss for clip in (0.75, 2.0, np.inf)]
    assert (np.diff(losses, axis=0) >= -1e-12).all()


def test_rows_must_match():
    with pytest.raises(InvalidInput, match="same number of rows"):
        risk_sums(np.ones(3), [1, 1], [1.0, 1.0])


def test_infinite_weight_never_counts():
    assert float(risk_sums(np.array([1]), [-1], [np.inf]).loss) == 0.0
    assert clipped([np.inf, 2.0, 0.0], np.inf, np.ones(3, bool)).tolist() == [0.0, 2.0, 0.0]


@pytest.mark.parametrize("sums", [risk_sums, lambda h, *rest, **more: pair_sums(h, [1, 1], *rest, **more)])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("labels", "weights", "more", "message"),
    [
        ([1, -1], [2.0, np.nan], {}, "Weights must be at least 0, but values from nan"),
        ([1, -1], [2.0, -1.0], {}, "Weights must be at least 0, but values from -1.0 to 2.0 were seen"),
        ([1, 0], [2.0, -np.inf], {}, "Weights must be at least 0, but values from -inf to 2.0 were seen"),
        ([1, -1], [2.0, 1.0], {"clip": np.nan}, "clip must be at least 0, but is nan"),
        ([1, -1], [2.0, 1.0], {"clip": -1.0}, "clip must be at least 0, but is -1.0"),
        ([1, -1], [2.0, 1.0], {"cost": [5, -3]}, r"one cost in \[0, 1\] for each of its 2 rows, .* from -3 to 5"),
        ([1, -1], [2.0, 1.0], {"cost": [0.5, np.nan]}, r"one cost in \[0, 1\]"),
        ([1, -1], [2.0, 1.0], {"cost": [0.5]}, r"one cost in \[0, 1\] for each of its 2 rows, but got shape \(1,\)"),
        ([1, -1], [2.0, 1.0], {"cost": 0.5}, r"one cost in \[0, 1\] for each of its 2 rows, but got shape \(\)"),
        ([1, -1], [2.0, 1.0], {"cost": [[0.5, 0.5]] * 2}, r"one cost in \[0, 1\] for each of its 2 rows"),
    ],
)
def test_bad_weights_and_costs_get_one_sentence(sums, packed, labels, weights, more, message):
    predictions = np.array([[1, 1], [-1, 1]], dtype=np.int8)
    with pytest.raises(InvalidInput, match=message):
        sums(Dichotomies.from_signs(predictions) if packed else predictions, labels, weights, **more)


@pytest.mark.parametrize(
    ("labels", "seen"),
    [
        ([1, 2], "2 was"),
        ([-3, 1], "-3 was"),
        ([1.0, 0.5], "0.5 was"),
        ([1.0, np.nan], "nan was"),
        (np.array([-128, 1], dtype=np.int8), "-128 was"),
        ([True, False], "array of bool"),
        (["yes", "no"], "array of <U3"),
        ([1, None], "array of object"),
    ],
)
def test_labels_are_signs_or_zero(labels, seen):
    with pytest.raises(InvalidLabel, match=f"^Labels must be -1 or \\+1, and 0 where none is known, but .*{seen}"):
        risk_sums(np.array([1, 1]), labels, [1.0, 1.0])
    with pytest.raises(InvalidLabel):
        pair_sums(np.array([1, 1]), [1, 1], labels, [1.0, 1.0])


def test_other_classifier_has_the_same_rows():
    with pytest.raises(InvalidInput, match=r"for each of the 2 rows, but has shape \(1,\)"):
        pair_sums(np.array([1, 1]), [1], [1, 1], [1.0, 1.0])


def test_uniform_interval_covers_whatever_member_is_chosen():
    """Nominal 90 %; if it covered only 90 %, fewer than 850 of 1,000 covers has probability below 1e-6."""
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(1000):
        q = np.where(rng.random(400) < 0.5, 1.0, 0.3)
        mistakes = rng.random((20, 400)) < 0.3  # 20 classifiers that all err on 30 % of the rows
        labels = np.where(rng.random(400) < q, 1, 0)
        sums = risk_sums(np.where(mistakes, -1, 1), labels, 1 / q)
        worst = int(np.argmin(sums.loss))  # the choice that flatters most
        chosen = RiskSums(sums.rows, sums.first[worst], sums.second[worst])
        interval = uniform_error_interval(chosen, 1 / 0.3, 0.0, 20, 0.9)
        covered += interval.low <= 0.3 <= interval.high
    assert covered >= 850


def test_without_a_finite_weight_bound_the_interval_says_nothing():
    interval = uniform_error_interval(RiskSums(5, np.asarray(1.0), np.asarray(1.0)), np.inf, 0.0, 3, 0.95)
    assert (interval.low, interval.high) == (0.0, 1.0)

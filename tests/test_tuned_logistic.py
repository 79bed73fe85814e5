"""Tuned logistic regression and what it sees of a row: against scikit-learn, a generic minimiser and slow twins."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from observal.errors import InvalidInput
from observal.learners.features import FeatureMap
from observal.learners.folds import random_folds
from observal.learners.tuned_logistic import (
    RIDGES,
    fit_logistic,
    fit_ridges,
    leverages,
    near_boundary,
    nearness,
    tune,
)
from tests.reference import newton as twin


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small fits on many threads wait for each other on a busy machine."""
    with threadpool_limits(1):
        yield


def some_rows(seed=0, n=80, d=3, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    signs = np.where(X[:, 0] + noise * rng.standard_normal(n) > 0.2, 1, -1)
    return X, signs, rng.uniform(0.2, 5.0, n)


@pytest.mark.parametrize("penalty", [0.0, 4.0])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_several_ridges_give_fits_of_each_bit_for_bit(form, penalty):
    X, signs, weights = some_rows()
    start, seen = None, []
    for i, fit in fit_ridges(form(X), signs, weights, (0.1, 1.0, 0.01), penalty, tol=1e-8):
        alone = fit_logistic(form(X), signs, weights, (0.1, 1.0, 0.01)[i], penalty, start)
        start = np.append(alone.coef, alone.intercept)
        assert np.append(fit.coef, fit.intercept).tolist() == start.tolist()
        assert fit.history.tolist() == alone.history.tolist()
        assert (fit.hessian.size, alone.hessian.shape) == (0, (4, 4))
        seen.append(i)
    assert seen == [1, 0, 2]


# -- one fit


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 3.0])
def test_fit_matches_scikit_learn_with_two_half_rows(ridge):
    X, signs, weights = some_rows()
    fit = fit_logistic(X, signs, weights, ridge)
    rows, labels, shares = twin.with_half_rows(X, signs, weights)
    other = LogisticRegression(C=1.0 / ridge, tol=1e-10, max_iter=5000).fit(rows, labels, sample_weight=shares)
    np.testing.assert_allclose(fit.coef, other.coef_[0], atol=1e-4)
    assert fit.intercept == pytest.approx(other.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 4.0])
def test_fit_reaches_value_of_generic_minimiser(penalty):
    X, signs, weights = some_rows(n=30, d=2)
    fit = fit_logistic(X, signs, weights, 0.05, penalty)
    rows, labels, shares = twin.with_half_rows(X, signs, weights)
    least = twin.minimum(
        rows, labels, shares * len(rows), fit_intercept=True, counts=np.ones(len(rows)), n_rows=len(rows),
        name="logistic", regulariser="second_moment" if penalty else None, penalty=penalty, ridge=0.05,
    )  # fmt: skip
    assert fit.objective == pytest.approx(least, abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6), st.floats(-3.0, 3.0))
@settings(max_examples=25)
def test_fit_depends_only_on_weight_ratios(seed, factor, start):
    X, signs, weights = some_rows(seed, n=25)
    plain = fit_logistic(X, signs, weights, 0.1)
    scaled = fit_logistic(X, signs, factor * weights, 0.1, start=np.full(4, start))
    np.testing.assert_allclose(scaled.coef, plain.coef, atol=1e-3)
    assert scaled.objective == pytest.approx(plain.objective, abs=1e-7)


def test_sparse_rows_give_the_fit_of_dense_ones():
    X, signs, weights = some_rows()
    X[np.abs(X) < 0.5] = 0.0
    dense = fit_logistic(X, signs, weights, 0.1)
    for kind in (sp.csr_array, sp.csr_matrix):
        np.testing.assert_allclose(fit_logistic(kind(X), signs, weights, 0.1).coef, dense.coef, atol=1e-6)


@pytest.mark.parametrize("sign", [-1, 1])
def test_one_class_is_accepted_and_favoured(sign):
    X, _, weights = some_rows(n=20)
    fit = fit_logistic(X, np.full(20, sign), weights, 0.1)
    assert np.isfinite(fit.coef).all()
    assert (sign * (X @ fit.coef + fit.intercept) > 0).all()


def test_tuned_logistic_accepts_no_rows_and_no_weight():
    nothing = fit_logistic(np.empty((0, 2)), np.empty(0, dtype=int), np.empty(0), 0.1)
    np.testing.assert_allclose([*nothing.coef, nothing.intercept], 0.0, atol=1e-9)
    X, signs, _ = some_rows()
    weightless = fit_logistic(X, signs, np.zeros(80), 0.1)
    np.testing.assert_allclose(weightless.coef, fit_logistic(X, signs, np.ones(80), 0.1).coef)


# -- rows near the boundary count for more

finite = st.floats(-1e6, 1e6)


@given(st.lists(finite, min_size=1, max_size=20), st.floats(1e-3, 1e6), st.floats(1e-3, 1e3))
def test_nearness_matches_slow_twin_and_falls_with_distance(margins, typical, unit):
    m = np.array(margins)
    found = nearness(m, typical)
    np.testing.assert_allclose(found, [twin.nearness(v, typical) for v in margins], rtol=1e-12)
    assert ((found > 0.0) & (found <= 1.0)).all()
    order = np.argsort(np.abs(m))
    assert (np.diff(found[order]) <= 0.0).all()
    np.testing.assert_allclose(nearness(unit * m, unit * typical), found, rtol=1e-9)
    np.testing.assert_allclose(nearness(-m, typical), found)


@pytest.mark.parametrize(("margin", "typical", "expected"), [(0.0, 3.0, 1.0), (3.0, 3.0, 0.5), (-3.0, 3.0, 0.5)])
def test_nearness_is_one_on_boundary_and_half_at_typical_distance(margin, typical, expected):
    assert nearness(np.array([margin]), typical)[0] == expected


def test_no_typical_row_gives_equal_weights():
    assert nearness(np.array([0.0, 2.0, -7.0]), 0.0).tolist() == [1.0, 1.0, 1.0]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_near_boundary_fit_matches_slow_twin(seed):
    X, signs, weights = some_rows(seed, n=40, d=2)
    population = np.random.default_rng(seed).standard_normal((30, 2)) * 2.0
    first = fit_logistic(X, signs, weights, 0.05)
    fit, near = near_boundary(first, X, signs, weights, 0.05, 0.0, population=population)
    theta, expected = twin.near_boundary(X, signs, weights, 0.05, population)
    np.testing.assert_allclose(near, expected, rtol=1e-3)
    np.testing.assert_allclose([*fit.coef, fit.intercept], theta, atol=2e-3)


def test_sparse_rows_give_the_near_boundary_fit_of_dense_ones():
    X, signs, weights = some_rows()
    X[np.abs(X) < 0.5] = 0.0
    first = fit_logistic(X, signs, weights, 0.1)
    dense, _ = near_boundary(first, X, signs, weights, 0.1, 0.0, population=X)
    rows = sp.csr_array(X)
    sparse, _ = near_boundary(first, rows, signs, weights, 0.1, 0.0, population=rows)
    np.testing.assert_allclose(sparse.coef, dense.coef, atol=1e-6)


def test_near_boundary_fit_makes_fewer_mistakes_with_noisy_labels():
    """Labels of one side are wrong one time in five; 40 paired draws, of which a coin would win 31 less than once in 2,900 times."""
    better = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((800, 5))
        right = X[:, 0] > 0.0
        signs = np.where(right & (rng.random(800) > 0.2), 1, -1)
        first = fit_logistic(X, signs, np.ones(800), 1e-3)
        near, _ = near_boundary(first, X, signs, np.ones(800), 1e-3, 0.0, population=X)
        fresh = rng.standard_normal((20_000, 5))
        mistakes = [np.mean((fresh @ fit.coef + fit.intercept > 0.0) != (fresh[:, 0] > 0.0)) for fit in (first, near)]
        better += mistakes[1] < mistakes[0]
    assert better >= 31


# -- choosing the ridge


@given(st.lists(st.sampled_from([-1, 1]), max_size=60), st.integers(2, 7))
def test_folds_spread_classes_evenly_and_repeat(signs, n_folds):
    signs = np.array(signs, dtype=np.int64)
    folds = random_folds(signs, n_folds, np.random.default_rng(0))
    assert folds.tolist() == (random_folds(signs, n_folds, np.random.default_rng(0))).tolist()
    for sign in (-1, 1):
        counts = np.bincount(folds[signs == sign], minlength=n_folds)
        assert counts.size == n_folds
        assert counts.max() - counts.min() <= 1


def slow_margins(X, signs, weights, ridge):
    """Each row's margin by a fit from scratch on the other folds."""
    folds, margins = random_folds(signs, 5, np.random.default_rng(0)), np.empty(signs.size)
    for fold in range(5):
        inside, left_out = folds != fold, folds == fold
        rows, labels, shares = twin.with_half_rows(X[inside], signs[inside], weights[inside])
        fit = LogisticRegression(C=1.0 / ridge, tol=1e-9, max_iter=5000).fit(rows, labels, sample_weight=shares)
        margins[left_out] = signs[left_out] * fit.decision_function(X[left_out])
    return margins


def slow_choice(margins, weights):
    """The fewest mistakes among ridges whose loss is within a standard error of the least, row by row."""
    losses = {ridge: [twin.loss("logistic", one) for one in found] for ridge, found in margins.items()}
    totals = {ridge: sum(w * one for w, one in zip(weights, found, strict=True)) for ridge, found in losses.items()}
    least, flat = min(totals, key=totals.get), []
    for ridge, found in losses.items():
        worse = [w * (a - b) for w, a, b in zip(weights, found, losses[least], strict=True)]
        mean = sum(worse) / len(worse)
        if sum(worse) <= sum((one - mean) ** 2 for one in worse) ** 0.5:
            flat.append(ridge)
    mistakes = {ridge: sum(w for w, one in zip(weights, margins[ridge], strict=True) if one <= 0) for ridge in flat}
    return min(flat, key=lambda ridge: (mistakes[ridge], totals[ridge])), least


def test_ridge_matches_slow_twin():
    overruled = 0
    for seed in range(6):
        X, signs, weights = some_rows(n=40, d=6, seed=seed)
        ridges = (1e-4, 1e-2, 1.0)
        tuned = tune(X, signs, weights, ridges)
        margins = {ridge: slow_margins(X, signs, weights, ridge) for ridge in ridges}
        chosen, least = slow_choice(margins, weights)
        overruled += chosen != least
        assert tuned.ridge == chosen
        # Fits stop when another step is worth less than 1e-5 of the objective.
        np.testing.assert_allclose(tuned.losses, np.logaddexp(0.0, -margins[chosen]), atol=0.02)
    assert 0 < overruled < 6


def test_out_of_fold_fit_ignores_own_label():
    X, signs, weights = some_rows(n=50)
    row, fold = 7, random_folds(signs, 5, np.random.default_rng(0))
    heavier = weights.copy()
    heavier[row] *= 30.0
    one, other = tune(X, signs, weights, (0.1,)), tune(X, signs, heavier, (0.1,))
    moved = ~np.isclose(one.losses, other.losses, rtol=1e-12)
    assert moved.any()
    assert not moved[fold == fold[row]].any()


def test_noise_gives_large_ridge_and_clean_trend_small_one():
    X, signs, weights = some_rows(n=100, d=20, noise=0.0)
    coin = np.where(np.random.default_rng(1).random(100) < 0.5, 1, -1)
    assert tune(X, coin, weights).ridge >= 0.3
    assert tune(X, signs, weights).ridge <= 0.03
    assert tune(X, signs, weights).losses.tolist() == tune(X, signs, weights).losses.tolist()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_tuned_logistic_accepts_tiny_samples(n):
    X, signs, weights = some_rows(n=max(n, 1))
    tuned = tune(X[:n], signs[:n], weights[:n])
    assert tuned.ridge in RIDGES
    assert tuned.losses.shape == (n,)


# -- leverages


def test_leverages_match_slow_twin_for_sparse_and_dense_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4)) * (rng.random((20, 4)) < 0.5)
    half = rng.standard_normal((5, 9))
    hessian = half @ half.T
    expected = [twin.leverage(x, hessian) for x in X]
    np.testing.assert_allclose(leverages(X, hessian), expected)
    np.testing.assert_allclose(leverages(sp.csr_array(X), hessian), expected)
    np.testing.assert_allclose(leverages(sp.csr_matrix(X), hessian), expected)
    assert leverages(X[:0], hessian).shape == (0,)


def test_rank_deficient_hessian_gives_large_leverages():
    x = np.array([[1.0, 1.0], [1.0, -1.0]])
    hessian = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # nothing is known of x1 − x2
    known, unknown = leverages(x, hessian)
    assert known == pytest.approx(2.0, rel=1e-3)
    assert 1e6 < unknown < np.inf


# -- what the linear model sees


@pytest.mark.parametrize("expansion", ["linear", "splines", "fourier"])
def test_blocks_are_mapped_as_the_whole(expansion, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3)) * [1.0, 100.0, 1e-3] + [0.0, 1e4, 5.0]
    whole, parts = FeatureMap.of(X, expansion=expansion), FeatureMap.of(X[:20], X[20:], expansion=expansion)
    np.testing.assert_allclose(parts(X), whole(X), atol=1e-6)
    np.testing.assert_allclose(whole(X)[:, :3], StandardScaler().fit_transform(X), atol=1e-7)
    monkeypatch.setattr("observal.problem.rows.BLOCK_ROWS", 40)
    np.testing.assert_allclose(FeatureMap.of(X, expansion=expansion).scale, whole.scale)
    sizes = []
    mapped = whole.mapped(lambda Z: (sizes.append(len(Z)), Z)[1], X)
    assert sorted(sizes) == [10, 40, 40]
    np.testing.assert_allclose(mapped, whole(X))
    assert whole(X[:0]).shape == (0, whole(X).shape[1])


def test_constant_feature_is_centred_and_not_scaled():
    X = np.column_stack([np.arange(10.0), np.full(10, 1e9 / 3)])
    seen = FeatureMap.of(X)(X)
    assert np.isfinite(seen).all()
    np.testing.assert_allclose(seen[:, 1], 0.0, atol=1e-5)


@pytest.mark.parametrize("huge", [1.4e154, np.finfo(np.float64).max])
@pytest.mark.parametrize("share", [0.001, 0.5])
def test_values_with_overflowing_squares_are_cut(huge, share):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    X[: round(share * 2000), 0] = huge
    X[-1] = -huge
    fitted = FeatureMap.of(X[:500], X[500:])
    assert np.isfinite([fitted.mean, fitted.scale, fitted.low, fitted.high]).all()
    assert np.isfinite(fitted(X)).all()


def test_sparse_blocks_are_scaled_and_not_centred():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) * (rng.random((50, 3)) < 0.3)
    X[:, 2] = 0.0
    made = FeatureMap.of(sp.csr_array(X[:20]), X[20:])
    np.testing.assert_allclose(made.mean, 0.0)
    np.testing.assert_allclose(made.scale, [*np.sqrt((X[:, :2] ** 2).mean(axis=0)), 1.0])
    np.testing.assert_allclose(made(sp.csr_array(X)).toarray(), made(X))
    with pytest.raises(InvalidInput, match="Sparse rows can only be used as they are"):
        FeatureMap.of(sp.csr_array(X), expansion="splines")
    with pytest.raises(InvalidInput, match="features must be one of"):
        FeatureMap.of(X, expansion="waves")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_features_too_large_to_square_are_cut(form):
    X = np.array([[0.0, 1.0], [1.7e308, 0.0], [-1e200, 2.0], [0.0, 3.0]])
    with np.errstate(over="raise", invalid="raise"):
        seen = FeatureMap.of(form(X))(form(X))
    seen = seen.toarray() if sp.issparse(seen) else seen
    assert np.isfinite(seen).all()
    assert seen[1, 0] > 0.0 > seen[2, 0]
    assert np.abs(seen).max() < 10.0
    assert X[1, 0] == 1.7e308  # the caller's rows stay as they are

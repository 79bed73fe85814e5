from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

from observal.errors import InvalidInput
from observal.learners.newton_fit import make_objective, solve
from tests.reference import newton as slow

LOSSES = ["logistic", "squared"]
REGULARISERS = ["second_moment", "variance", None]


def rows(seed=0, n=60, d=4, hidden=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    signs = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0.3, 1.0, -1.0)
    weights = np.where(rng.random(n) < hidden, 0.0, np.exp(rng.normal(size=n)))
    return X, signs, weights


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_derivatives_match_objective(loss, regulariser, fit_intercept, container):
    X, signs, weights = rows()
    f = make_objective(
        container(X), signs, weights, loss=loss, regulariser=regulariser, penalty=9.0, ridge=0.1,
        fit_intercept=fit_intercept, counts=np.arange(60) % 3, n_rows=80.0,
    )  # fmt: skip
    theta = np.random.default_rng(1).normal(size=4 + fit_intercept) / 2
    gradient, hessian = f.derivatives(theta)
    h = 1e-5
    for i, e in enumerate(np.eye(theta.size) * h):
        assert gradient[i] == pytest.approx((f.value(theta + e) - f.value(theta - e)) / (2 * h), rel=1e-6, abs=1e-8)
        row = (f.derivatives(theta + e)[0] - f.derivatives(theta - e)[0]) / (2 * h)
        np.testing.assert_allclose(hessian[i], row, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_solution_is_not_beaten_by_generic_minimiser(loss, regulariser):
    X, signs, weights = rows(n=30, d=2)
    settings = {"counts": np.ones(30), "n_rows": 40.0, "regulariser": regulariser, "penalty": 6.0, "ridge": 0.05}
    fit = solve(make_objective(X, signs, weights, loss=loss, **settings))
    assert fit.converged
    theta = np.append(fit.coef, fit.intercept)
    written = slow.objective(theta, X, signs, weights, name=loss, fit_intercept=True, **settings)
    assert fit.objective == pytest.approx(written, rel=1e-12)
    least = slow.minimum(X, signs, weights, name=loss, fit_intercept=True, **settings)
    assert fit.objective <= least + 1e-9
    if regulariser != "variance":  # convex: one minimum
        assert fit.objective == pytest.approx(least, abs=1e-7)


def test_unregularised_fit_is_logistic_regression():
    X, signs, weights = rows(n=200)
    fit = solve(make_objective(X, signs, weights, regulariser=None, ridge=0.02, n_rows=250.0))
    peer = LogisticRegression(C=1 / (0.02 * 250), tol=1e-10, max_iter=10_000)
    peer.fit(X, signs, sample_weight=weights)
    np.testing.assert_allclose(fit.coef, peer.coef_[0], atol=1e-5)
    assert fit.intercept == pytest.approx(peer.intercept_[0], abs=1e-5)


def test_unregularised_squared_loss_is_ridge_regression():
    X, signs, weights = rows(n=200)
    fit = solve(make_objective(X, signs, weights, loss="squared", regulariser=None, ridge=0.02))
    peer = Ridge(alpha=0.02 * 200 / 2).fit(X, signs, sample_weight=weights)
    np.testing.assert_allclose(fit.coef, peer.coef_, atol=1e-8)
    assert fit.intercept == pytest.approx(peer.intercept_, abs=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("d", [3, 80])
def test_separable_rows_with_many_features_converge(loss, regulariser, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, d))
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    fit = solve(make_objective(X, signs, np.ones(25), loss=loss, regulariser=regulariser, penalty=4.0, ridge=1e-6))
    assert fit.converged
    assert (np.diff(fit.history) <= 0).all()
    if loss == "logistic" or d > 25:
        assert (signs * (X @ fit.coef + fit.intercept) > 0).all()


def test_separable_rows_without_ridge_raise_no_error():
    X = np.array([[-1.0], [1.0]])
    fit = solve(make_objective(X, [-1, 1], [1.0, 1.0], penalty=1.0, ridge=0.0), max_iter=30)
    assert np.isfinite(fit.coef).all()
    assert fit.coef[0] > 5


def test_features_of_any_unit_give_same_fit():
    X, signs, weights = rows()
    units = np.array([1e-6, 1.0, 1e6, 1e3])
    plain = solve(make_objective(X, signs, weights, penalty=4.0, ridge=0.0))
    scaled = solve(make_objective(X * units, signs, weights, penalty=4.0, ridge=0.0))
    np.testing.assert_allclose(scaled.coef * units, plain.coef, rtol=1e-6)


def test_nearby_start_saves_steps_and_changes_nothing():
    X, signs, weights = rows(n=300)
    f = make_objective(X, signs, weights, penalty=4.0)
    cold = solve(f)
    warm = solve(f, start=np.append(cold.coef, cold.intercept) + 1e-3)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-7)


def test_hessian_measures_cost_of_flip():
    # Exact for a quadratic: the least rise of F that makes w·x = 0 is (w·x)²/(2·xᵀH⁻¹x).
    X, signs, weights = rows(n=100)
    f = make_objective(X, signs, weights, loss="squared", regulariser=None, ridge=0.1)
    fit = solve(f)
    theta, x = np.append(fit.coef, fit.intercept), np.array([1.0, 0.5, -1.0, 2.0, 1.0])
    inverse = np.linalg.solve(fit.hessian, x)
    gap = (theta @ x) ** 2 / (2 * x @ inverse)
    flipped = theta - inverse * (theta @ x) / (x @ inverse)
    assert flipped @ x == pytest.approx(0.0, abs=1e-12)
    assert f.value(flipped) - fit.objective == pytest.approx(gap)


def test_too_few_steps_are_reported():
    X, signs, weights = rows()
    fit = solve(make_objective(X, signs, weights, penalty=4.0), max_iter=1)
    assert not fit.converged
    assert fit.n_iter == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signs": [1, 0]}, "−1 or"),
        ({"weights": [1.0, np.inf]}, "finite"),
        ({"weights": [1.0]}, "same number of rows"),
        ({"weights": [0.0, 0.0]}, "rows that count"),
        ({"n_rows": 1.0}, "n_rows"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"regulariser": "l1"}, "regulariser must be one of"),
        ({"penalty": -1.0}, "at least 0"),
        ({"ridge": np.nan}, "at least 0"),
    ],
)
def test_bad_input_raises_one_sentence(change, message):
    good = {"signs": [1, -1], "weights": [1.0, 1.0]}
    with pytest.raises(InvalidInput, match=message):
        make_objective(np.eye(2), **(good | change))


def test_start_of_wrong_length_raises():
    with pytest.raises(InvalidInput, match="start must be 3"):
        solve(make_objective(np.eye(2), [1, -1], [1.0, 1.0]), start=[0.0])

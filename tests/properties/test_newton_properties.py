"""The Newton solver: descent, majorisation, convexity, and rows that stand several times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from observal.learners.newton_fit import make_objective, solve

losses = st.sampled_from(["logistic", "squared"])
regularisers = st.sampled_from(["second_moment", "variance", None])


@st.composite
def problems(draw, loss=losses, regulariser=regularisers):
    """Rows, integer counts and settings; few distinct weights, some rows not revealed, both classes present."""
    n, d = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    signs = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    signs[:2] = -1.0, 1.0
    weights = rng.choice([0.0, 1.0, 1.0, 3.0, 50.0], size=n)
    weights[:2] = np.maximum(weights[:2], 1.0)
    return {
        "X": rng.normal(size=(n, d)),
        "signs": signs,
        "weights": weights,
        "counts": rng.integers(1, 4, size=n).astype(float),
        "loss": draw(loss),
        "regulariser": draw(regulariser),
        "penalty": draw(st.sampled_from([0.0, 0.5, 4.0, 30.0])),
        "ridge": draw(st.sampled_from([1e-3, 0.1, 1.0])),
        "fit_intercept": draw(st.booleans()),
    }


@settings(max_examples=60, deadline=None)
@given(problems())
def test_every_step_goes_down_and_ends_where_the_slope_is_nothing(problem):
    f = make_objective(**problem)
    fit = solve(f)
    assert (np.diff(fit.history) <= 0).all()
    np.linalg.cholesky(fit.hessian)
    if problem["regulariser"] != "variance":  # its minimum may lie on the kink where all losses are equal
        assert fit.converged
        theta = np.append(fit.coef, fit.intercept) if problem["fit_intercept"] else fit.coef
        assert np.abs(f.derivatives(theta)[0]).max() <= 1e-4 * max(1.0, fit.objective)


@settings(max_examples=60, deadline=None)
@given(problems(regulariser=st.sampled_from(["second_moment", "variance"])), st.integers(0, 2**32 - 1))
def test_majoriser_lies_above_and_touches(problem, seed):
    f = make_objective(**problem)
    rng = np.random.default_rng(seed)
    here, there = rng.normal(size=(2, f.n_features + f.fit_intercept))

    def spread(theta, centre):
        z = f.margins(theta)
        u = f.weights * (np.logaddexp(0, -z) if f.loss == "logistic" else (1 - z) ** 2)
        hidden = f.n_rows - f.counts.sum()
        return (f.counts @ (u - centre) ** 2 + hidden * centre**2) / f.n_rows, f.counts @ u / f.n_rows

    centre = spread(here, 0.0)[1] if f.regulariser == "variance" else 0.0
    scale = f.penalty / f.n_rows
    root = np.sqrt(scale * spread(here, centre)[0])

    def majoriser(theta):
        plain = replace(f, regulariser=None).value(theta)
        return plain + (root / 2 + scale * spread(theta, centre)[0] / (2 * root) if root > 0 else 0.0)

    assert majoriser(here) == pytest.approx(f.value(here), rel=1e-9)
    if root > 0 or f.penalty == 0:
        assert majoriser(there) >= f.value(there) * (1 - 1e-9)
    assert np.linalg.eigvalsh(f.derivatives(here, majoriser=True)[1]).min() >= -1e-9


@settings(max_examples=60, deadline=None)
@given(problems(regulariser=st.just("second_moment")), st.integers(0, 2**32 - 1))
def test_second_moment_is_convex(problem, seed):
    f = make_objective(**problem)
    one, two = np.random.default_rng(seed).normal(size=(2, f.n_features + f.fit_intercept)) * 3
    assert f.value((one + two) / 2) <= (f.value(one) + f.value(two)) / 2 * (1 + 1e-12)
    hessian = f.derivatives(one)[1]
    assert np.linalg.eigvalsh(hessian).min() >= -1e-9 * np.abs(hessian).max()


@settings(max_examples=40, deadline=None)
@given(problems(regulariser=st.sampled_from(["second_moment", None])))
def test_count_is_a_repetition_and_sparse_is_dense(problem):
    fit = solve(make_objective(**problem))
    times = problem["counts"].astype(int)
    repeated = problem | {name: np.repeat(problem[name], times, axis=0) for name in ("X", "signs", "weights")}
    for other in (repeated | {"counts": None}, problem | {"X": sparse.csr_array(problem["X"])}):
        again = solve(make_objective(**other))
        np.testing.assert_allclose(again.coef, fit.coef, rtol=1e-6, atol=1e-8)
        assert again.objective == pytest.approx(fit.objective, rel=1e-10)

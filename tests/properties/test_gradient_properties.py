"""The gradient kernel equals its slow twin on arbitrary small inputs: both step forms, dense and sparse, both widths."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from observal.paper.kernels.gradient import descend, flip_gaps, second_moment_sums
from tests.reference import gradient as slow

N_FEATURES = 3
# Values with few digits: products are exact or far from ties, so a comparison sees rounding of sums only.
entries = st.integers(-20, 20).map(lambda k: k / 8)
weights = st.sampled_from([0.0, 0.25, 1.0, 2.0, 3.5, 40.0, 1e3, np.inf])


@st.composite
def problems(draw):
    n = draw(st.integers(1, 12))
    X = draw(npst.arrays(np.float64, (n, N_FEATURES), elements=entries))
    X[draw(npst.arrays(bool, n))] *= draw(st.sampled_from([0.0, 1.0, 1e-7]))
    y = draw(npst.arrays(np.float64, n, elements=st.sampled_from([-1.0, 1.0])))
    importance = draw(npst.arrays(np.float64, n, elements=weights))
    kept = draw(st.integers(1, n))
    order = np.array(draw(st.permutations(range(n))))[:kept]
    coef = draw(npst.arrays(np.float64, N_FEATURES, elements=entries))
    return X, y, importance, order, coef


epochs = st.fixed_dictionaries(
    {
        "learning_rate": st.sampled_from([1e-4, 0.1, 1.0, 30.0]),
        "time": st.sampled_from([0.0, 7.0, 1e4]),
        "passes": st.integers(1, 3),
        "clip": st.sampled_from([np.inf, 3.5, 3.4999, 1.0]),
        "second_moment": st.sampled_from([0.0, 0.01, 10.24]),
        "exact_invariance": st.booleans(),
    }
)


@settings(max_examples=300, deadline=None)
@given(problems(), epochs, st.sampled_from(["dense", "csr", "dense32", "csr32"]))
def test_descend_equals_its_twin(problem, epoch, kind):
    X, y, importance, order, coef = problem
    if kind.endswith("32"):
        X = X.astype(np.float32)
    expected = slow.train_epoch(X, y, importance, order, coef, **epoch)
    scale = max(1.0, np.abs(expected).max())
    got = descend(sp.csr_array(X) if kind.startswith("csr") else X, y, importance, order, coef, **epoch)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10 * scale)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_running_sum_equals_its_twin_when_not_all_rows_are_heavy(seed):
    rng = np.random.default_rng(seed)
    n = 150
    X, y = rng.normal(size=(n, N_FEATURES)), rng.choice([-1.0, 1.0], n)
    importance, order = rng.choice([1.0, 2.0, 9.0], n), rng.permutation(n)
    epoch = {"learning_rate": 0.1, "second_moment": 1.0, "clip": 8.0 if seed % 2 else np.inf}
    expected = slow.train_epoch(X, y, importance, order, np.zeros(N_FEATURES), **epoch)
    np.testing.assert_allclose(
        descend(X, y, importance, order, np.zeros(N_FEATURES), **epoch), expected, rtol=1e-9, atol=1e-10
    )


@settings(deadline=None)
@given(problems(), st.sampled_from([1e-3, 1.0]), st.booleans())
def test_flip_gaps_equal_their_twin(problem, step, sparse):
    X, *_, coef = problem
    got = flip_gaps(coef, sp.csr_array(X) if sparse else X, step)
    np.testing.assert_allclose(got, slow.flip_gaps(coef, X, step), rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(problems(), st.sampled_from([np.inf, 3.5, 3.4999, 0.0]), st.booleans())
def test_second_moment_sums_equal_their_twin(problem, clip, sparse):
    X, y, importance, _, coef = problem
    got = second_moment_sums(coef, sp.csr_array(X) if sparse else X, y, importance, clip)
    assert got == pytest.approx(slow.second_moment_sums(coef, X, y, importance, clip), rel=1e-12)


@settings(deadline=None)
@given(problems(), st.floats(0.01, 100.0))
def test_exact_form_is_invariant_at_a_fixed_step(problem, weight):
    # At a vanishing share of time the step size is constant: weight 2v in one step is v in two.
    X, y, *_, coef = problem
    row = X[:1] / max(1.0, np.abs(X[0]).max())
    assume(abs(float(row[0] @ coef)) < 1.0)
    epoch = {"learning_rate": 1.0, "time": 1e12, "exact_invariance": True}
    once = descend(row, y, np.array([2e6 * weight]), [0], coef, passes=1, **epoch)
    twice = descend(row, y, np.array([1e6 * weight]), [0], coef, passes=2, **epoch)
    np.testing.assert_allclose(once, twice, rtol=1e-3, atol=1e-3)


@settings(deadline=None)
@given(problems(), epochs, epochs)
def test_weights_given_are_left_alone_and_equal_arguments_give_equal_bits(problem, epoch, other):
    X, y, importance, order, coef = problem
    before = coef.copy()
    first = descend(X, y, importance, order, coef, **epoch)
    descend(X, y, importance, order, coef, **other)
    assert (coef == before).all()
    assert (descend(X, y, importance, order, coef, **epoch) == first).all()

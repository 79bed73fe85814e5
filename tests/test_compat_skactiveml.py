"""The pool strategy for scikit-activeml: what that project demands of every strategy, and that it decides as NewtonVC does."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from skactiveml.exceptions import MappingError
from skactiveml.pool import ParallelUtilityEstimationWrapper, SubSamplingWrapper
from sklearn.base import clone

import observal as ob
from observal.errors import InvalidInput, InvalidPropensity
from observal.exchange.skactiveml import InvalidIndices, ObservalSampling
from observal.exchange.skactiveml.evidence import Evidence
from observal.exchange.skactiveml.pool_strategy import choose_batch
from observal.methods import NewtonVC
from observal.problem.plan import ASKED, Answers, Plan
from observal.problem.problem import Problem
from tests.compat_cases import EITHER, FAST, SETTINGS, Anything, cases, check

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y_TRUE = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(float)
Y = np.where(np.arange(30) < 12, Y_TRUE, np.nan)
OPEN = np.flatnonzero(np.isnan(Y))
Q0 = np.where(X[:, 0] > 0, 0.8, 0.1)

INIT = SETTINGS | {
    "missing_label": [(np.nan, None), (Anything, TypeError), ("", TypeError)],
}
QUERY = {
    "X": [
        (X, None),
        (X.tolist(), None),
        ("string", EITHER),
        (Anything, EITHER),
        (np.vstack([X, X]), ValueError),
        (X[:, :, None], ValueError),
        (np.where(X > 1, np.nan, X), ValueError),
        (X[:, 0], ValueError),
    ],
    "y": [
        (Y, None),
        (Y.tolist(), None),
        (np.nan, TypeError),
        (Anything, TypeError),
        (np.vstack([Y, Y]), ValueError),
        (np.full(30, "a"), TypeError),
        (Y[:5], ValueError),
    ],
    "propensity": [
        (None, None),
        (0.5, None),
        (Q0, None),
        (Q0.tolist(), None),
        (np.nan, ValueError),
        (2.0, ValueError),
        (Anything, ValueError),
        ("often", ValueError),
        (Q0[:3], ValueError),
        (np.zeros(30), ValueError),
    ],
    "queried_indices": [
        (None, None),
        ([], None),
        ([3, 0, 3], None),
        ([0, 20], None),
        (list(range(30)), None),
        ([-1], ValueError),
        ([30], ValueError),
        ([0.5], ValueError),
        ([True], ValueError),
        ([[0]], ValueError),
        (0, ValueError),
        ("string", ValueError),
        (Anything, ValueError),
    ],
    "candidates": [
        (None, None),
        ([OPEN[0]], None),
        (OPEN, None),
        ([0], None),
        (X[:4], None),
        (np.nan, ValueError),
        (Anything, TypeError),
        ([30], ValueError),
        (X[:, :1], ValueError),
        (["a"], ValueError),
    ],
    "batch_size": [(1, None), (5, None), (0, ValueError), (-1, ValueError), (1.2, TypeError), ("1", TypeError)],
    "return_utilities": [(True, None), (False, None), ("string", TypeError), (Anything, TypeError), (None, TypeError)],
}


# -- parameters ---------------------------------------------------------------------------------------------------


def test_every_parameter_has_cases():
    assert set(inspect.signature(ObservalSampling).parameters) == set(INIT)
    assert set(inspect.signature(ObservalSampling.query).parameters) - {"self"} == set(QUERY)


@pytest.mark.parametrize(("name", "value", "error"), cases(INIT))
def test_setting_is_stored_as_it_is_and_checked_by_query(name, value, error):
    strategy = ObservalSampling(**FAST | {name: value})
    assert getattr(strategy, name) is value
    check(error, strategy.query, X, Y, batch_size=2, return_utilities=True)


@pytest.mark.parametrize(("name", "value", "error"), cases(QUERY))
def test_argument_of_query_is_checked(name, value, error):
    check(error, ObservalSampling(**FAST).query, **{"X": X, "y": Y, name: value})


@pytest.mark.parametrize("no_labels", [False, True])
def test_bad_setting_is_refused_also_before_there_are_labels(no_labels):
    with pytest.raises(TypeError):
        ObservalSampling(ridge=None).query(X, np.full(30, np.nan) if no_labels else Y)


def test_our_own_errors_are_one_sentence_of_observal():
    with pytest.raises(InvalidIndices, match=r"from 0 to 29, but run from 30 to 30") as caught:
        ObservalSampling().query(X, Y, queried_indices=[30])
    assert isinstance(caught.value, InvalidInput)
    assert isinstance(caught.value, IndexError)
    impossible = np.where(np.arange(30) == 4, 0.0, Q0)
    with pytest.raises(InvalidPropensity, match=r"row 4 \(counted from 0\) has propensity 0"):
        ObservalSampling().query(X, Y, propensity=impossible)
    ObservalSampling().query(X, Y, propensity=impossible, queried_indices=[4])
    ObservalSampling().query(X, Y, propensity=np.where(np.isnan(Y), 0.0, Q0))


def test_it_is_an_estimator_of_scikit_learn():
    strategy = ObservalSampling(explore_share=0.2, random_state=1)
    twin = clone(strategy)
    assert twin.get_params() == strategy.get_params()
    assert twin.set_params(ridge=0.1).ridge == 0.1
    assert strategy.ridge == "auto"
    again = pickle.loads(pickle.dumps(strategy))
    assert again.query(X, Y, batch_size=4).tolist() == strategy.query(X, Y, batch_size=4).tolist()


@pytest.mark.parametrize(
    ("missing_label", "classes", "dtype"),
    [
        (np.nan, (1.0, 2.0), float),
        (0, (1, 2), int),
        (None, (1, 2), object),
        (None, ("A", "B"), object),
        ("", ("A", "B"), str),
    ],
)
def test_every_kind_of_missing_label_gives_the_same_rows(missing_label, classes, dtype):
    y = np.full(30, missing_label, dtype=dtype)
    for row in range(12):
        y[row] = classes[int(Y_TRUE[row])]
    rows, utilities = ObservalSampling(missing_label=missing_label, random_state=3).query(
        X, y, batch_size=4, return_utilities=True
    )
    plain, expected = ObservalSampling(random_state=3).query(X, Y, batch_size=4, return_utilities=True)
    np.testing.assert_array_equal(rows, plain)
    np.testing.assert_allclose(utilities, expected)


# -- what query returns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 5, 18])
@pytest.mark.parametrize(
    "settings_", [{}, {"gate_share": 1.0}, {"explore_share": 1.0}, {"explore_share": 0.0, "gate_share": 0.0}]
)
def test_shapes_and_nan(batch_size, settings_):
    strategy = ObservalSampling(**FAST | settings_)
    rows, utilities = strategy.query(X, Y, propensity=Q0, batch_size=batch_size, return_utilities=True)
    np.testing.assert_array_equal(strategy.query(X, Y, propensity=Q0, batch_size=batch_size), rows)
    assert rows.shape == (batch_size,)
    assert rows.dtype.kind == "i"
    assert len(set(rows)) == batch_size
    assert utilities.shape == (batch_size, 30)
    for i, row in enumerate(rows):
        closed = set(range(12)) | set(rows[:i])
        assert set(np.flatnonzero(np.isnan(utilities[i]))) == closed
        assert utilities[i, row] == np.nanmax(utilities[i])


def test_candidates_as_none_indices_or_samples_have_the_same_utilities():
    strategy = ObservalSampling(random_state=0)
    _, none = strategy.query(X, Y, return_utilities=True)
    _, indices = strategy.query(X, Y, candidates=OPEN, return_utilities=True)
    picked, samples = strategy.query(X, Y, candidates=X[OPEN], return_utilities=True)
    np.testing.assert_allclose(none, indices)
    np.testing.assert_allclose(none[:, OPEN], samples)
    assert samples.shape == (1, OPEN.size)
    assert 0 <= picked[0] < OPEN.size
    row, alone = strategy.query(X, Y, candidates=OPEN[:1], return_utilities=True)
    assert row.tolist() == [OPEN[0]]
    assert np.flatnonzero(~np.isnan(alone[0])).tolist() == [OPEN[0]]


def test_propensities_of_x_cannot_be_mapped_to_other_samples():
    with pytest.raises(MappingError):
        ObservalSampling().query(X, Y, propensity=Q0, candidates=X[OPEN])
    ObservalSampling().query(X, Y, propensity=0.4, candidates=X[OPEN])


def test_batch_larger_than_the_candidates_is_cut_with_a_warning():
    with pytest.warns(UserWarning, match="larger than number of candidates"):
        rows, utilities = ObservalSampling().query(X, Y, batch_size=19, return_utilities=True)
    assert set(rows) == set(OPEN)
    assert utilities.shape == (18, 30)
    with pytest.warns(UserWarning, match="larger than number of candidates"):
        rows, utilities = ObservalSampling().query(X, Y_TRUE, return_utilities=True)
    assert rows.shape == (0,)
    assert utilities.shape == (0, 30)


@pytest.mark.parametrize("n_labels", [0, 1, 3, 17])
def test_without_two_classes_every_row_is_as_good(n_labels):
    y = np.where(np.arange(30) < n_labels, 1.0, np.nan)
    rows, utilities = ObservalSampling(random_state=0).query(X, y, batch_size=2, return_utilities=True)
    assert rows.shape == (2,)
    assert np.nanmin(utilities) == np.nanmax(utilities) == 1.0


def test_ties_are_broken_at_random():
    """A row among 6 is never drawn in 150 draws with a chance of 6·(5/6)^150 < 1e-10."""
    drawn = {int(ObservalSampling(random_state=seed).query(X[:6], np.full(6, np.nan))[0]) for seed in range(150)}
    assert drawn == set(range(6))


def test_nothing_passed_in_is_changed_and_the_same_state_gives_the_same():
    given_ = {
        "X": X.copy(),
        "y": Y.copy(),
        "propensity": Q0.copy(),
        "queried_indices": np.array([1]),
        "candidates": OPEN.copy(),
    }
    before, state = deepcopy(given_), np.random.RandomState(0)
    strategy = ObservalSampling(random_state=state)
    first = strategy.query(**given_, batch_size=6, return_utilities=True)
    second = strategy.query(**given_, batch_size=6, return_utilities=True)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    for name, value in before.items():
        np.testing.assert_array_equal(given_[name], value)
    assert state.randint(1000) == np.random.RandomState(0).randint(1000)


def test_label_more_draws_other_lots():
    """An int as random_state must not give the same lot in every cycle: 18 cycles without labels ask about all rows."""
    strategy, y = ObservalSampling(random_state=0), np.full(30, np.nan)
    seen = []
    for _ in range(18):
        row = strategy.query(X, y)
        y[row] = 1.0
        seen.append(int(row[0]))
    assert len(set(seen)) == 18
    assert seen != sorted(seen)


@pytest.mark.parametrize("wrapper", [SubSamplingWrapper, partial(ParallelUtilityEstimationWrapper, n_jobs=1)])
def test_their_wrappers_take_it(wrapper):
    strategy = wrapper(query_strategy=ObservalSampling(random_state=0), random_state=0)
    rows, utilities = strategy.query(X, Y, batch_size=1, return_utilities=True)
    assert rows[0] in OPEN
    assert utilities.shape == (1, 30)


# -- how it decides -----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.integers(0, 2**31), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.4, 1.0])
)
def test_shares_of_a_batch(seed, size, gate_share, floor):
    rng = np.random.default_rng(seed)
    gaps, passing = rng.exponential(size=20), np.arange(20) < 15
    chosen, utilities = choose_batch(gaps, passing, passing, size, floor, gate_share, np.random.RandomState(seed))
    assert len(set(chosen)) == size
    lot = [set(row[~np.isnan(row)]) <= {0.0, 1.0} for row in utilities]
    gated = [np.nanmax(row) > 1.0 for row in utilities]
    if floor == 0.0:
        assert not any(lot)
        assert abs(sum(gated) - gate_share * size) < 1.0
    if floor == 1.0:
        assert all(lot)
    for row, by_lot, must_pass in zip(chosen, lot, gated, strict=True):
        assert passing[row] or not (by_lot or must_pass)


def test_lot_is_fair():
    """A χ² test at 1/10,000, of 10 rows in 2,000 draws."""
    rng = np.random.RandomState(0)
    gaps, passing = np.arange(20.0), np.arange(20) % 2 == 0
    counts = np.bincount(
        [choose_batch(gaps, passing, passing, 1, 1.0, 0.5, rng)[0][0] for _ in range(2000)], minlength=20
    )
    assert counts[~passing].sum() == 0
    assert chisquare(counts[passing]).pvalue > 1e-4


def test_gate_opens_first_where_the_old_policy_hardly_looked():
    rng = np.random.default_rng(1)
    X_big = rng.normal(size=(400, 2))
    chance = np.where(X_big[:, 0] > 0, 0.5, 0.05)
    y = np.where(rng.random(400) < chance, rng.integers(2, size=400), np.nan)  # coins: every row is in doubt
    strategy = ObservalSampling(explore_share=0.0, gate_share=1.0, random_state=0)
    few = strategy.query(X_big, y, propensity=chance, batch_size=12)
    assert (chance[few] == 0.05).all()
    lot = ObservalSampling(explore_share=1.0, gate_share=1.0, random_state=0)
    assert (chance[lot.query(X_big, y, propensity=chance, batch_size=12)] == 0.05).all()
    queried = np.flatnonzero(~np.isnan(y))[:80]  # 2·(80 + 12) > 320·0.5, so all rows pass
    later = lot.query(X_big, y, propensity=chance, queried_indices=queried, batch_size=12)
    assert (chance[later] == 0.5).any()
    no_gate = ObservalSampling(explore_share=0.0, gate_share=0.0, random_state=0).query(
        X_big, y, propensity=chance, batch_size=40
    )
    assert (chance[no_gate] == 0.5).any()


@pytest.mark.parametrize("n_queried", [0, 5])
def test_gaps_are_those_of_newton_vc(n_queried):
    """The same log, and the same rows bought through the method's own functions, give every row the same gap."""
    rng = np.random.default_rng(2)
    X_all = rng.normal(size=(120, 3))
    y = (X_all[:, 0] + rng.normal(size=120) > 0).astype(float)
    chance = np.where(X_all[:, 1] > 0, 0.7, 0.2)
    shown = np.where(rng.random(100) < chance[:100], y[:100], np.nan)
    # Folds of a cross-validation depend on the order of the rows, so ridge and power are named.
    method = NewtonVC(order="stream", ridge=0.01, tempering=0.5)
    problem = Problem(ob.LoggedData(X_all[:100], shown, chance[:100]), ob.Pool(X_all[100:], chance[100:]))
    state = method.begin(problem, rng)
    if n_queried:
        codes = np.zeros(n_queried, dtype=np.int8)
        plan = Plan(np.arange(n_queried), np.ones(n_queried), codes + ASKED, codes.astype(np.int64), codes, ("",))
        answers = Answers(y[100 : 100 + n_queried].astype(np.int64), np.ones(n_queried, dtype=bool))
        state = method.advance(problem, state, plan, answers, rng)
    order = rng.permutation(100 + n_queried)
    y_given = np.concatenate([shown, y[100 : 100 + n_queried]])[order]
    evidence = Evidence.of(X_all[order], y_given, ~np.isnan(y_given), chance[order], np.flatnonzero(order >= 100))
    np.testing.assert_allclose(evidence.gaps(method, X_all), state.model.gaps(X_all), rtol=1e-6)


def test_more_than_two_classes_are_taken_one_against_the_rest():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 3.0, size=(300, 1))
    X_three = np.hstack([x, (x - 1.5) ** 2])
    y = np.where(np.arange(300) < 150, np.floor(x[:, 0]), np.nan)
    rows = ObservalSampling(explore_share=0.0, random_state=0).query(X_three, y, batch_size=6)
    assert (np.abs(x[rows, 0][:, None] - [1.0, 2.0]).min(axis=1) < 0.2).all()


def test_rows_that_were_all_queried_need_no_log():
    evidence = Evidence.of(X, Y_TRUE, np.ones(30, dtype=bool), 0.0, np.arange(30))
    assert evidence.n_logged == 0
    plain = Evidence.of(X, Y_TRUE, np.ones(30, dtype=bool), None, None)
    method = NewtonVC(order="stream")
    np.testing.assert_allclose(evidence.gaps(method, X), plain.gaps(method, X))


def test_without_scikit_activeml_one_sentence_says_what_to_install():
    code = "import sys; sys.modules['skactiveml'] = None; import observal.exchange; import observal.exchange.skactiveml"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert "pip install 'observal[skactiveml]'" in last


def test_it_says_nothing_where_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ObservalSampling(random_state=0).query(X, Y, propensity=Q0, queried_indices=[2], batch_size=3)

"""The stream strategy for scikit-activeml and its budget manager: what that project demands, and NewtonVC's own decisions."""

from __future__ import annotations

import inspect
import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skactiveml.classifier import ParzenWindowClassifier, SklearnClassifier
from skactiveml.stream.budgetmanager import BalancedIncrementalQuantileFilter, SplitBudgetManager
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import observal as ob
from observal.errors import InvalidInput
from observal.exchange.skactiveml import DoubtBudgetManager, ObservalStream
from observal.methods import NewtonVC
from observal.methods.stream import stream_plan
from observal.problem.plan import ASKED
from observal.problem.problem import Problem
from tests.compat_cases import EITHER, FAST, SETTINGS, Anything, cases, check

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y_TRUE = (X[:, 0] + RNG.normal(size=60) > 0).astype(float)
Y = np.where(np.arange(60) % 2 == 0, Y_TRUE, np.nan)
CANDIDATES = RNG.normal(size=(12, 2))
Q0, Q0_NEXT = np.where(X[:, 0] > 0, 0.8, 0.3), np.where(CANDIDATES[:, 0] > 0, 0.8, 0.3)
FITTED = ParzenWindowClassifier(classes=[0, 1], random_state=0).fit(X, Y)

INIT = SETTINGS | {
    "doubt": [
        (0.2, None),
        (0.0, ValueError),
        (0.5, ValueError),
        (np.nan, ValueError),
        ("x", TypeError),
        (None, TypeError),
    ],
    "missing_label": [(np.nan, None), (Anything, TypeError), (Anything(), TypeError)],
    "budget": [
        (None, None),
        (0.5, None),
        (1.0, None),
        (0.0, ValueError),
        (1.1, ValueError),
        (np.nan, ValueError),
        ("0.0", TypeError),
        (1, TypeError),
        (Anything, TypeError),
    ],
    "budget_manager": [
        (None, None),
        (DoubtBudgetManager(0.2), None),
        (SplitBudgetManager(random_state=0), None),
        (0.5, TypeError),
        (Anything, TypeError),
        (DoubtBudgetManager, TypeError),
    ],
}
QUERY = {
    "candidates": [
        (CANDIDATES, None),
        ([CANDIDATES[0]], None),
        (np.nan, ValueError),
        (Anything, ValueError),
        (X[:, :1], ValueError),
        (X[:, 0], ValueError),
    ],
    "clf": [
        (FITTED, None),
        (None, None),
        (np.nan, TypeError),
        ("state", TypeError),
        (Anything(), TypeError),
        (GaussianNB(), TypeError),
        (ParzenWindowClassifier(classes=[0, 1]), NotFittedError),
    ],
    "X": [
        (X, None),
        (X.tolist(), None),
        ("string", EITHER),
        (Anything, EITHER),
        (np.vstack([X, X]), ValueError),
        (None, ValueError),
        (X[:, :1], ValueError),
        (np.where(X > 1, np.nan, X), ValueError),
    ],
    "y": [
        (Y, None),
        (Y.tolist(), None),
        (np.nan, TypeError),
        (Anything, TypeError),
        (np.vstack([Y, Y]), ValueError),
        (None, ValueError),
        (Y[:4], ValueError),
        (np.full(60, "a"), TypeError),
    ],
    "propensity": [
        (None, None),
        (0.5, None),
        (np.nan, ValueError),
        (2.0, ValueError),
        (Q0[:2], ValueError),
        (Anything, ValueError),
        (Q0, ValueError),
        (np.zeros(60), ValueError),
    ],
    "candidate_propensity": [(None, None), (0.5, ValueError), (Q0_NEXT, ValueError)],
    "queried_indices": [
        (None, None),
        ([], None),
        ([0, 2, 2], None),
        ([60], ValueError),
        ([-1], ValueError),
        ([0.5], ValueError),
        ("string", ValueError),
        (Anything, ValueError),
    ],
    "fit_clf": [(True, None), (False, None), (np.nan, TypeError), ("state", TypeError), (None, TypeError)],
    "return_utilities": [(True, None), (False, None), ("string", TypeError), (Anything, TypeError), (None, TypeError)],
}


def test_every_parameter_has_cases():
    assert set(inspect.signature(ObservalStream).parameters) == set(INIT)
    assert set(inspect.signature(ObservalStream.query).parameters) - {"self"} == set(QUERY)


@pytest.mark.parametrize(("name", "value", "error"), cases(INIT))
def test_setting_is_stored_as_it_is_and_checked_by_query(name, value, error):
    strategy = ObservalStream(**FAST | {name: value})
    assert getattr(strategy, name) is value
    check(error, strategy.query, CANDIDATES, X=X, y=Y)


@pytest.mark.parametrize("clf", [None, FITTED])
@pytest.mark.parametrize(("name", "value", "error"), cases(QUERY))
def test_argument_of_query_is_checked(name, value, error, clf):
    arguments = {"candidates": CANDIDATES, "clf": clf, "X": X, "y": Y, name: value}
    check(error, ObservalStream(**FAST).query, **arguments)


def test_what_belongs_together_is_asked_for_together():
    query = ObservalStream(random_state=0).query
    query(CANDIDATES, X=X, y=Y, propensity=Q0, candidate_propensity=Q0_NEXT)
    query(CANDIDATES, X=X, y=Y, propensity=Q0.tolist(), candidate_propensity=0.5)
    query(CANDIDATES, candidate_propensity=Q0_NEXT)
    with pytest.raises(InvalidInput, match="without candidate_propensity"):
        query(CANDIDATES, X=X, y=Y, propensity=Q0)
    with pytest.raises(InvalidInput, match="without propensity"):
        query(CANDIDATES, X=X, y=Y, candidate_propensity=Q0_NEXT)
    with pytest.raises(InvalidInput, match="needs one propensity for each of its 12 rows"):
        query(CANDIDATES, X=X, y=Y, propensity=Q0, candidate_propensity=Q0)
    with pytest.raises(InvalidInput, match="X was not given"):
        query(CANDIDATES, propensity=0.5)
    with pytest.raises(InvalidInput, match="fit_clf needs labels"):
        query(CANDIDATES, clf=FITTED, fit_clf=True)


@pytest.mark.parametrize(
    ("candidates", "queried", "error"),
    [
        ([[]], [], None),
        ([[0]], [0], None),
        (CANDIDATES, [1, 0, 1], None),
        (Anything, [], TypeError),
        (None, [], TypeError),
    ]
    + [(CANDIDATES, bad, IndexError) for bad in ("string", Anything, 0, [-1], [12], [0.5], [True], [[0]], [np.nan])],
)
@pytest.mark.parametrize("make", [lambda: ObservalStream(random_state=0), lambda: DoubtBudgetManager(0.5)])
def test_update_is_checked_and_a_refused_one_changes_nothing(make, candidates, queried, error):
    updated = make()
    updated.update(CANDIDATES, [3])
    before = pickle.dumps(updated)
    result = check(error, updated.update, candidates, queried)
    if error is None:
        assert result is updated
    else:
        assert pickle.dumps(updated) == before


def test_it_is_an_estimator_of_scikit_learn():
    strategy = ObservalStream(doubt=0.1, budget_manager=DoubtBudgetManager(0.3), random_state=1)
    assert clone(strategy).get_params(deep=True).keys() == strategy.get_params(deep=True).keys()
    assert clone(strategy).budget_manager.budget == 0.3
    strategy.update(CANDIDATES, [0])
    again = pickle.loads(pickle.dumps(strategy))
    assert again.query(CANDIDATES, X=X, y=Y).tolist() == strategy.query(CANDIDATES, X=X, y=Y).tolist()


# -- asking and moving on -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("random_state", [0, np.random.RandomState(0), None])
@pytest.mark.parametrize("clf", [None, FITTED])
def test_asking_again_without_update_gives_the_same(random_state, clf):
    strategy = ObservalStream(budget=0.5, **FAST | {"random_state": random_state})
    strategy.update(X[:4], [0, 1])
    first, utilities = strategy.query(CANDIDATES, clf, X, Y, return_utilities=True)
    for _ in range(3):
        again, same = strategy.query(CANDIDATES, clf, X, Y, return_utilities=True)
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(utilities, same)
    assert isinstance(first, np.ndarray)
    assert utilities.shape == (12,)
    np.testing.assert_array_equal(strategy.query(CANDIDATES, clf, X, Y), first)


def test_rows_one_by_one_are_decided_as_rows_together():
    """What `update` counts, and the draws it uses up, do not depend on how the stream was cut."""
    one, together = ObservalStream(budget=0.4, **FAST), ObservalStream(budget=0.4, **FAST)
    arguments = {"X": X, "y": Y, "propensity": Q0}
    asked = []
    for i, row in enumerate(CANDIDATES):
        found = one.query([row], candidate_propensity=Q0_NEXT[i : i + 1], **arguments)
        one.update([row], found)
        asked += [i] * found.size
    at_once = together.query(CANDIDATES, candidate_propensity=Q0_NEXT, **arguments)
    assert at_once.tolist() == asked
    together.update(CANDIDATES, at_once)
    _, expected = one.query(X[:20], X=X, y=Y, return_utilities=True)
    _, utilities = together.query(X[:20], X=X, y=Y, return_utilities=True)
    np.testing.assert_array_equal(utilities, expected)


def test_utilities_do_not_depend_on_what_was_queried():
    none, all_ = ObservalStream(random_state=0), ObservalStream(random_state=0)
    none.update(CANDIDATES, [])
    all_.update(CANDIDATES, np.arange(12))
    _, expected = none.query(CANDIDATES, X=X, y=Y, return_utilities=True)
    rows, utilities = all_.query(CANDIDATES, X=X, y=Y, return_utilities=True)
    np.testing.assert_array_equal(utilities, expected)
    assert rows.size == 0


@pytest.mark.parametrize("fit_clf", [False, True])
@pytest.mark.parametrize(
    "clf",
    [
        ParzenWindowClassifier(classes=[0, 1], random_state=0),
        SklearnClassifier(LogisticRegression(), classes=[0, 1], random_state=0),
        SklearnClassifier(GaussianProcessClassifier(), classes=[0, 1], random_state=0),  # takes no weights
    ],
    ids=lambda clf: type(getattr(clf, "estimator", clf)).__name__,
)
def test_classifier_and_data_stay_as_they_are(clf, fit_clf):
    clf = clone(clf) if fit_clf else clone(clf).fit(X, Y)
    given_ = {"candidates": CANDIDATES.copy(), "X": X.copy(), "y": Y.copy(), "propensity": Q0.copy()}
    given_ |= {"candidate_propensity": Q0_NEXT.copy(), "queried_indices": np.array([0, 2])}
    before, model = deepcopy(given_), pickle.dumps(clf)
    ObservalStream(random_state=0).query(clf=clf, fit_clf=fit_clf, **given_)
    assert pickle.dumps(clf) == model
    for name, value in before.items():
        np.testing.assert_array_equal(given_[name], value)


@pytest.mark.parametrize(
    ("missing_label", "classes", "dtype"),
    [
        (np.nan, [1.0, 2.0], float),
        (0, [1, 2], int),
        (None, [1, 2], object),
        (None, ["A", "B"], object),
        ("", ["A", "B"], str),
    ],
)
def test_every_kind_of_missing_label(missing_label, classes, dtype):
    y = np.full(60, missing_label, dtype=dtype)
    for row in range(0, 60, 2):
        y[row] = classes[int(Y_TRUE[row])]
    plain = ObservalStream(random_state=0).query(CANDIDATES, X=X, y=Y, return_utilities=True)[1]
    ours = ObservalStream(missing_label=missing_label, random_state=0).query(
        CANDIDATES, X=X, y=y, return_utilities=True
    )[1]
    np.testing.assert_allclose(ours, plain)
    clf = ParzenWindowClassifier(classes=classes, missing_label=missing_label)
    ObservalStream(random_state=0).query(CANDIDATES, clf, X, y, fit_clf=True)


# -- how it decides -----------------------------------------------------------------------------------------------


class SameDraws:
    """A generator that draws what a RandomState draws."""

    def __init__(self, seed):
        self.state = np.random.RandomState(seed)

    def random(self, size):
        return self.state.random_sample(size)


@pytest.mark.parametrize("seed", range(4))
def test_it_decides_as_the_stream_plan_of_newton_vc(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 2))
    chances = np.where(rows[:, 0] > 0, 0.9, 0.1)
    method = NewtonVC(order="stream", batch=1000)
    problem = Problem(ob.LoggedData(X, Y, Q0), ob.Pool(rows, chances))
    plan = stream_plan(method, problem, method.begin(problem, rng), SameDraws(seed))
    _, utilities = ObservalStream(random_state=seed).query(
        rows, X=X, y=Y, propensity=Q0, candidate_propensity=chances, return_utilities=True
    )
    assert 0 < (plan.action == ASKED).sum() < 200
    np.testing.assert_array_equal(utilities > 0, plan.action == ASKED)
    assert (utilities <= 1.0).all()


def test_classifiers_own_doubt_counts():
    clf = SklearnClassifier(LogisticRegression(), classes=[0, 1]).fit(X, Y)
    lead = np.abs(np.diff(clf.predict_proba(CANDIDATES), axis=1)[:, 0])
    strategy = ObservalStream(doubt=0.3, explore_share=0.0, gate_share=0.0, budget=1.0, random_state=0)
    rows, utilities = strategy.query(CANDIDATES, clf, return_utilities=True)
    np.testing.assert_array_equal(rows, np.flatnonzero(0.5 - lead / 2 > 0.3))
    assert np.argsort(utilities[rows]).tolist() == np.argsort(-lead[rows]).tolist()


def test_without_two_classes_every_row_is_in_doubt():
    for y in (np.full(60, np.nan), np.where(np.arange(60) < 5, 1.0, np.nan)):
        strategy = ObservalStream(gate_share=0.0, budget=1.0, random_state=0)
        assert strategy.query(CANDIDATES, X=X, y=y).size == 12
    assert ObservalStream(gate_share=0.0, budget=1.0).query(CANDIDATES).size == 12


# -- budgets ------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.one_of(st.just(np.nan), st.floats(0.0, 1.0)), max_size=60), st.floats(0.01, 1.0), st.integers(1, 7))
def test_budget_holds_however_the_stream_is_cut(utilities, budget, cut):
    values = np.array(utilities, dtype=float)
    together = DoubtBudgetManager(budget).query_by_utility(values)
    manager, asked = DoubtBudgetManager(budget), []
    for begin in range(0, values.size, cut):
        part = values[begin : begin + cut]
        found = manager.query_by_utility(part)
        assert manager.query_by_utility(part) == found
        manager.update(part, found)
        asked += [begin + i for i in found]
    assert asked == together
    assert all(values[i] > 0.0 for i in asked)
    spent = np.cumsum(np.isin(np.arange(values.size), asked))
    assert (spent < budget * np.arange(1, values.size + 1) + 1.0).all()
    if budget == 1.0:
        assert asked == np.flatnonzero(values > 0.0).tolist()


@pytest.mark.parametrize("utilities", [Anything, "state", 0.0, [0.1], ["string"]])
def test_budget_manager_takes_arrays_of_utilities(utilities):
    with pytest.raises(TypeError):
        DoubtBudgetManager().query_by_utility(utilities)


@pytest.mark.parametrize(
    ("budget", "error"), [(None, None), (0.1, None), (0.0, ValueError), (1.1, ValueError), ("s", TypeError)]
)
def test_budget_is_checked(budget, error):
    check(error, DoubtBudgetManager(budget).query_by_utility, np.array([0.5]))


def test_other_budget_managers_are_given_the_utilities():
    strategy = ObservalStream(budget_manager=BalancedIncrementalQuantileFilter(budget=0.3), random_state=0)
    rows, utilities = strategy.query(CANDIDATES, X=X, y=Y, return_utilities=True)
    strategy.update(CANDIDATES, rows, budget_manager_param_dict={"utilities": utilities})
    assert len(strategy.budget_manager_.history_sorted_) == 12
    assert not hasattr(strategy.budget_manager, "history_sorted_")
    with pytest.raises(TypeError):
        strategy.update(CANDIDATES, rows, budget_manager_param_dict=3)
    with pytest.warns(UserWarning, match="budget"):
        ObservalStream(budget=0.2, budget_manager=DoubtBudgetManager(0.3)).query(CANDIDATES)

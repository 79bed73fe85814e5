from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from observal.errors import InvalidInput, InvalidLabel, InvalidPropensity
from observal.learners.logged import LoggedClassifier
from observal.paper.weights import effective_sample_size, passive_clip_threshold


def log(seed=0, n=400, d=3, floor=0.02):
    """Rows whose labels are seen where the first feature is large, all true labels, and the log's."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    truth = np.where(X @ np.arange(1, d + 1) + rng.normal(size=n) > 0, 1.0, 0.0)
    propensity = np.clip(X[:, 0] ** 2 / 4, floor, 1.0)
    y = np.where(rng.random(n) < propensity, truth, np.nan)
    return X, y, propensity, truth


@pytest.mark.parametrize(
    "settings", [{}, {"loss": "squared"}, {"regulariser": "variance"}, {"regulariser": None}, {"clip": None}]
)
def test_scikit_learn_checks_pass(settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(LoggedClassifier(**settings), on_fail="raise", on_skip=None)
    assert len(results) > 40
    # One check is about arrays of other libraries, and runs only where SCIPY_ARRAY_API is set before SciPy is imported.
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}
    assert any("sample_weight_equivalence" in r["check_name"] for r in results)


def test_clip_is_the_papers():
    X, y, propensity, _ = log()
    model = LoggedClassifier(log_term=2.0).fit(X, y, propensity=propensity)
    assert model.clip_ == pytest.approx(passive_clip_threshold(propensity, 400, 2.0), rel=1e-12)
    revealed = ~np.isnan(y)
    kept = revealed & (1 / propensity <= model.clip_)
    assert model.n_clipped_ == (revealed & ~kept).sum() > 0
    assert model.effective_sample_size_ == pytest.approx(effective_sample_size(1 / propensity[kept]))
    assert model.penalty_ == pytest.approx(0.2)


def test_automatic_log_term_grows_with_features():
    X, y, propensity, _ = log()
    assert LoggedClassifier().fit(X, y, propensity).log_term_ == pytest.approx(np.log(4 / 0.05))


def test_full_log_without_regulariser_is_logistic_regression():
    X, _, _, truth = log()
    model = LoggedClassifier(regulariser=None, ridge=0.01).fit(X, truth)
    peer = LogisticRegression(C=1 / (0.01 * 400), tol=1e-10, max_iter=10_000).fit(X, truth)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-5)
    assert model.clip_ == 1.0
    assert model.n_clipped_ == 0


def test_weights_undo_selection_by_policy():
    # The label depends on x0 beyond what a line can say; the log shows mostly one side of it.
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(20_000, 2))
    truth = np.where(X[:, 0] > 0.5, X[:, 1] < 0, X[:, 1] > 0).astype(float)
    propensity = np.where(X[:, 0] > 0.5, 1.0, 0.02)
    y = np.where(rng.random(20_000) < propensity, truth, np.nan)
    naive = LoggedClassifier().fit(X, y)
    weighted = LoggedClassifier().fit(X, y, propensity=propensity)
    assert naive.score(X, truth) < 0.4
    assert weighted.score(X, truth) > 0.7


def test_hidden_rows_matter_only_by_count_and_clip():
    X, y, propensity, _ = log()
    hidden = np.isnan(y)
    model = LoggedClassifier(clip=10.0).fit(X, y, propensity=propensity)
    elsewhere = X.copy()
    elsewhere[hidden] = 1e3
    moved = LoggedClassifier(clip=10.0).fit(elsewhere, y, propensity=np.where(hidden, 0.0, propensity))
    np.testing.assert_array_equal(moved.coef_, model.coef_)
    fewer = LoggedClassifier(clip=10.0).fit(X[~hidden], y[~hidden], propensity=propensity[~hidden])
    assert not np.allclose(fewer.coef_, model.coef_)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("regulariser", ["second_moment", "variance", None])
def test_sample_weight_is_repetition(loss, regulariser):
    X, y, propensity, _ = log()
    times = np.random.default_rng(0).integers(0, 4, size=400)
    model = LoggedClassifier(loss, regulariser)
    one = clone(model).fit(X, y, propensity=propensity, sample_weight=times)
    two = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times), propensity=np.repeat(propensity, times))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-7)
    assert one.clip_ == pytest.approx(two.clip_)
    assert one.effective_sample_size_ == pytest.approx(two.effective_sample_size_)


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows_give_the_fit_of_dense_ones(container):
    X, y, propensity, _ = log()
    dense = LoggedClassifier().fit(X, y, propensity=propensity)
    model = LoggedClassifier().fit(container(X), y, propensity=propensity)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(container(X)), dense.decision_function(X), rtol=1e-9)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1, None], [0, 1]),
        ([0.0, 1.0, np.nan], [0.0, 1.0]),
        (["no", "yes", None], ["no", "yes"]),
        ([False, True, None], [False, True]),
        ([-1, 1, None], [-1, 1]),
    ],
)
def test_two_classes_of_any_kind_work(labels, classes):
    X, y, propensity, _ = log()
    values = np.array(labels, dtype=object)[np.where(np.isnan(y), 2, y).astype(int)]
    model = LoggedClassifier().fit(X, values.tolist(), propensity=propensity)
    assert model.classes_.tolist() == classes
    expected = LoggedClassifier().fit(X, y, propensity=propensity)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert set(model.predict(X).tolist()) == set(classes)


def test_small_log_keeps_largest_effective_sample_and_warns():
    X, _, _, truth = log()
    y = np.where(np.arange(400) % 20 == 0, truth, np.nan)
    propensity = np.full(400, 0.005)
    propensity[0] = 1e-5  # one label that would drown the other nineteen
    with pytest.warns(UserWarning, match="raised to 200"):
        model = LoggedClassifier().fit(X, y, propensity=propensity)
    assert model.clip_ == 200.0
    assert model.n_clipped_ == 1
    assert model.effective_sample_size_ == pytest.approx(19.0)
    with pytest.raises(InvalidInput, match="one class only"):
        LoggedClassifier(clip=100.0).fit(X, y, propensity=propensity)


def test_no_clip_keeps_every_label():
    X, y, propensity, _ = log(floor=1e-3)
    model = LoggedClassifier(clip=None).fit(X, y, propensity=propensity)
    assert model.clip_ == np.inf
    assert model.n_clipped_ == 0


def test_probabilities_need_logistic_loss():
    X, y, propensity, _ = log()
    assert not hasattr(LoggedClassifier(loss="squared"), "predict_proba")
    proba = LoggedClassifier().fit(X, y, propensity=propensity).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_pickled_classifier_refits_to_same_bits():
    X, y, propensity, _ = log()
    model = LoggedClassifier().fit(X, y, propensity=propensity)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(clone(model).fit(X, y, propensity=propensity).coef_, model.coef_)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"propensity": [0.5, 0.5, 1.5]}, InvalidPropensity, r"in \[0, 1\]"),
        ({"propensity": [0.5, 0.5, np.nan]}, InvalidPropensity, r"in \[0, 1\]"),
        ({"propensity": [0.5, 0.0, 0.5]}, InvalidPropensity, "propensity 0 and a label"),
        ({"propensity": [0.5, 0.5]}, InvalidPropensity, "one propensity for each"),
        ({"y": [0, np.nan]}, InvalidInput, "one label for each"),
        ({"y": [0, 0, np.nan]}, InvalidLabel, "one class"),
        ({"y": [np.nan] * 3}, InvalidLabel, "every label is NaN"),
        ({"y": [0, 1, 2], "propensity": 0.5}, InvalidLabel, "Only binary classification"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, InvalidInput, "≥ 0"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, InvalidInput, "is zero"),
        ({"sample_weight": [1.0]}, InvalidInput, "sample_weight"),
        ({"X": [[0.0], [np.nan], [1.0]]}, ValueError, "NaN"),
    ],
)
def test_bad_input_raises_one_sentence(change, error, message):
    good = {"X": [[0.0], [1.0], [2.0]], "y": [0, 1, np.nan], "propensity": [0.5, 0.5, 0.0]}
    LoggedClassifier(clip=None).fit(**good)
    with pytest.raises(error, match=message):
        LoggedClassifier(clip=None).fit(**(good | change))


@pytest.mark.parametrize("settings", [{"clip": 0.0}, {"log_term": -1.0}, {"penalty": -1.0}, {"loss": "hinge"}])
def test_bad_settings_raise_one_sentence(settings):
    X, y, propensity, _ = log()
    with pytest.raises(InvalidInput):
        LoggedClassifier(**settings).fit(X, y, propensity=propensity)

"""The gradient learner: scikit-learn's own checks, labels, weights, seeds, sparse rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from observal.errors import InvalidInput, InvalidLabel
from observal.paper.gradient_classifier import GradientClassifier
from tests.estimator_checks import EXCUSED, failed_checks
from tests.reference.gradient import train_epoch


def test_check_estimator_passes_with_two_checks_excused():
    settings = {}, {"second_moment": 0.5, "exact_invariance": True, "fit_intercept": False}
    for failed in failed_checks("observal.paper.gradient_classifier", "GradientClassifier", *settings):
        assert failed.keys() == EXCUSED


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    return X, X @ [1.0, -1.0, 0.5, 0.0, 0.0] > 0.3, rng.exponential(size=400)


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (-1, 1), (2.0, 7.0), (False, True)])
def test_any_two_labels_are_classes(rows, classes):
    X, positive, weight = rows
    y = np.where(positive, classes[1], classes[0])
    model = GradientClassifier(random_state=0).fit(X, y, sample_weight=weight)
    assert model.classes_.tolist() == list(classes)
    assert model.score(X, y) > 0.93
    assert (model.coef_.shape, model.intercept_.shape, model.n_features_in_) == ((1, 5), (1,), 5)
    assert ((model.decision_function(X) > 0) == (model.predict(X) == classes[1])).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_fit_is_one_epoch_of_the_slow_twin(rows, fit_intercept):
    X, positive, weight = rows
    settings = {"learning_rate": 0.3, "passes": 2, "clip": 2.0, "second_moment": 0.1}
    model = GradientClassifier(random_state=np.random.default_rng(3), fit_intercept=fit_intercept, **settings)
    model.fit(X, positive, sample_weight=weight)
    order = np.random.default_rng(3).permutation(400)
    wide = np.hstack([X, np.ones((400, 1))]) if fit_intercept else X
    expected = train_epoch(wide, 2.0 * positive - 1, weight, order, np.zeros(wide.shape[1]), **settings)
    np.testing.assert_allclose(model.coef_[0], expected[:5], rtol=1e-10)
    np.testing.assert_allclose(model.intercept_, expected[5:] if fit_intercept else [0.0], rtol=1e-10)
    assert model.time_ == 800.0


def test_partial_fit_continues_from_the_last_weights_and_time(rows):
    X, positive, _ = rows
    y, ones, rng = 2.0 * positive - 1, np.ones(400), np.random.default_rng(3)
    model = GradientClassifier(random_state=np.random.default_rng(3), fit_intercept=False)
    model.partial_fit(X[:50], y[:50], classes=[-1, 1]).partial_fit(X, y)
    first = train_epoch(X, y, ones, rng.permutation(50), np.zeros(5), learning_rate=1.0)
    second = train_epoch(X, y, ones, rng.permutation(400), first, learning_rate=1.0, time=150.0)
    np.testing.assert_allclose(model.coef_[0], second, rtol=1e-10)
    assert model.time_ == 150.0 + 1200.0


def test_partial_fit_takes_a_first_batch_of_one_class(rows):
    X, positive, _ = rows
    model = GradientClassifier(random_state=0).partial_fit(X[positive], positive[positive], classes=[False, True])
    assert model.partial_fit(X, positive).score(X, positive) > 0.9


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_train_the_same_classifier(rows, fit_intercept, dtype):
    X, positive, weight = rows
    X = np.where(np.abs(X) > 0.5, X, 0.0).astype(dtype)
    model = GradientClassifier(random_state=0, fit_intercept=fit_intercept)
    dense = clone(model).fit(X, positive, weight)
    for kind in (sp.csr_array, sp.csc_matrix):
        sparse = clone(model).fit(kind(X), positive, weight)
        np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9)
        np.testing.assert_allclose(sparse.decision_function(kind(X)), dense.decision_function(X), rtol=1e-5, atol=1e-7)


def test_repeated_entries_of_a_sparse_row_are_summed_and_the_input_is_left_alone():
    repeated = sp.csr_array((np.array([1.0, 1.0, -2.0]), np.array([0, 0, 0]), np.array([0, 2, 3])), shape=(2, 1))
    for fit_intercept in (True, False):
        model = GradientClassifier(random_state=0, fit_intercept=fit_intercept)
        expected = clone(model).fit([[2.0], [-2.0]], [1, 0]).coef_
        np.testing.assert_allclose(model.fit(repeated, [1, 0]).coef_, expected, rtol=1e-12)
    assert repeated.nnz == 3


def test_seed_gives_equal_bits_and_survives_pickling(rows):
    X, positive, weight = rows
    model = GradientClassifier(random_state=7, second_moment=1.0)
    one, two = (clone(model).fit(X, positive, weight) for _ in range(2))
    assert (one.coef_ == two.coef_).all()
    copy = pickle.loads(pickle.dumps(one))
    assert (copy.partial_fit(X, positive).coef_ == two.partial_fit(X, positive).coef_).all()
    assert (clone(model).set_params(random_state=8).fit(X, positive, weight).coef_ != two.coef_).any()


def test_rows_above_the_clip_do_not_count(rows):
    X, positive, _ = rows
    weight = np.where(np.arange(400) % 2, 1.0, 50.0)
    wrong = np.where(weight > 1.0, ~positive, positive)
    model = GradientClassifier(random_state=0, clip=10.0).fit(X, wrong, sample_weight=weight)
    assert model.score(X, positive) > 0.93


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"passes": 0}, "passes"),
        ({"passes": 1.5}, "passes"),
        ({"clip": 0.0}, "clip"),
        ({"clip": np.nan}, "clip"),
        ({"second_moment": -1.0}, "second_moment"),
    ],
)
def test_wrong_parameters_are_named(rows, parameters, name):
    X, positive, _ = rows
    with pytest.raises(InvalidInput, match=f"^{name} must be"):
        GradientClassifier(**parameters).fit(X, positive)


def test_wrong_labels_are_named(rows):
    X, positive, _ = rows
    with pytest.raises(InvalidLabel, match="Only binary classification is supported"):
        GradientClassifier().fit(X, np.arange(400) % 3)
    with pytest.raises(InvalidLabel, match="one class only"):
        GradientClassifier().fit(X, np.zeros(400))
    model = GradientClassifier().fit(X, positive)
    with pytest.raises(InvalidLabel, match="must be one of the classes"):
        model.partial_fit(X, np.arange(400) % 3)
    with pytest.raises(InvalidLabel, match="classes must stay the same"):
        model.partial_fit(X, positive, classes=[0, 2])

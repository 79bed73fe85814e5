"""The blend: its formulas against slow twins, its trees against the libraries', and hardly a label."""

from __future__ import annotations

from importlib.util import find_spec

import lightgbm
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.naive_bayes import GaussianNB

import observal as ob
from observal.errors import InvalidInput
from observal.learners.blend import clip_chances, fit_blend, fit_mixture, top_margin
from observal.learners.blend_settings import LEARNERS, PRIOR_LABELS, SHARPNESSES
from observal.learners.folds import COARSE_FOLDS, spread_folds
from observal.learners.kernels.forest import LARGE, ROWS_OF_LARGE, grow_trees
from observal.learners.labelled import LabelledRows, best_sharpness, calibrate, sharpen, targets
from observal.learners.population import Population, Space, permute_head
from observal.learners.smooth_learners import Spectrum, fit_additive, fit_linear, fit_to_targets
from observal.learners.tree_learners import TreeChances, from_lightgbm, grow_forest
from tests.estimator_checks import EXCUSED, failed_checks
from tests.reference import blend as slow
from tests.reference import forest as forest_twin


@pytest.mark.parametrize(
    "learners", [("linear", "kernel"), pytest.param(LEARNERS, marks=pytest.mark.slow)], ids=["two learners", "all"]
)
def test_check_estimator_passes_with_two_checks_excused(learners):
    (failed,) = failed_checks("observal", "BlendClassifier", {"learners": learners})
    assert failed.keys() <= EXCUSED


# -- formulas ---------------------------------------------------------------------------------------------------


def test_first_of_order_matches_numpy_permutation():
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    assert permute_head(5000, 40, one).tolist() == other.permutation(5000)[:40].tolist()
    assert one.random() == other.random()


@pytest.mark.parametrize("shape", [(30, 6), (12, 20)])
def test_leaving_out_rows_and_folds_is_exact(shape):
    rng = np.random.default_rng(0)
    F, weights = rng.normal(size=shape), rng.uniform(0.5, 2.0, shape[0])
    Y, folds = targets(rng.integers(0, 3, shape[0]), 3), rng.integers(0, 4, shape[0])
    for rows in (F, sp.csr_array(F)):
        spectrum = Spectrum.of(rows, weights, Y)
        for ridge in (2.0, 30.0):
            assert spectrum.leave_one_out_loss(ridge) == pytest.approx(
                slow.left_out_loss(F, weights, Y, ridge), rel=1e-8
            )
            np.testing.assert_allclose(
                spectrum.out_of_fold(ridge, folds), slow.fold_scores(F, weights, Y, ridge, folds), atol=1e-8
            )


def test_mixture_is_optimal():
    rng = np.random.default_rng(1)
    likelihoods, weights = rng.uniform(0.05, 1.0, (80, 3)), rng.uniform(0.2, 3.0, 80)
    ours, theirs = fit_mixture(likelihoods, weights), slow.best_mixture(likelihoods, weights, PRIOR_LABELS)
    value = [float(slow.mixture_value(theta, likelihoods, weights, PRIOR_LABELS)) for theta in (ours, theirs)]
    assert value[0] == pytest.approx(value[1], abs=1e-3)
    assert ours.sum() == pytest.approx(1.0)


def test_sharpness_is_optimal():
    rng = np.random.default_rng(5)
    chances = rng.dirichlet([1.0, 1.0, 1.0], 60) * 0.997 + 0.001
    codes, weights = rng.integers(0, 3, 60), rng.uniform(0.5, 1.5, 60)
    losses = [slow.sharpness_loss(s, chances, codes, weights) for s in SHARPNESSES]
    assert best_sharpness(chances, codes, weights) == SHARPNESSES[int(np.argmin(losses))]
    powers = chances**1.7
    np.testing.assert_allclose(sharpen(chances, 1.7), powers / powers.sum(axis=1, keepdims=True), atol=2e-3)


def test_calibration_undoes_slope_and_shift():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(20_000, 3))
    odds = 2.5 * scores + [0.5, 0.0, -0.5]
    codes = np.argmax(odds + rng.gumbel(size=odds.shape), axis=1)
    slope, shift = calibrate(scores, codes, np.ones(codes.size))
    assert slope == pytest.approx(2.5, rel=0.03)
    np.testing.assert_allclose(shift - shift.mean(), [0.5, 0.0, -0.5], atol=0.06)


@pytest.mark.parametrize("values", [50, 5])
def test_ranks_become_normal_scores(values):
    rng = np.random.default_rng(3)
    Z = rng.permutation(np.resize(np.exp(np.linspace(-2, 2, values)), 300))[:, None]
    made = Space.ranks(Z)(Z)[:, 0]
    want = np.array([slow.rank_score(Z[:, 0].tolist(), z) for z in Z[:, 0]])
    np.testing.assert_allclose(made, (want - want.mean()) / want.std(), atol=1e-9)


def test_values_between_ranks_get_scores_between():
    space = Space.ranks(np.array([[0.0], [1.0], [1.0], [4.0]]))
    low, between, same, high, beyond = space(np.array([[0.0], [0.5], [1.0], [4.0], [99.0]]))[:, 0]
    assert low < between < same < high == beyond


def test_additive_learner_is_ridge_regression_on_hats():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.normal(size=400), rng.integers(0, 12, 400), rng.integers(0, 2, 400)])
    y = (np.abs(X[:, 0]) + 0.2 * X[:, 1] + 0.2 * rng.normal(size=400) > 2.0).astype(int)
    population = Population.of(X)
    Z = population.feature_map(X)
    bends = population.curve_knots
    assert population.curve_knots is bends  # found once for all fits
    assert bends.features.tolist() == [0, 1]
    hats = np.column_stack(
        [
            np.interp(np.clip(Z[:, j], None, knots[count - 1]), knots, one)
            for j, knots, count in zip(bends.features, bends.knots.T, bends.count, strict=True)
            for one in np.eye(knots.size)
        ]
    )
    np.testing.assert_allclose(bends(Z), hats, atol=1e-12)
    labelled = LabelledRows(Z, y, np.ones(400), 2, spread_folds(y, COARSE_FOLDS))
    fit = fit_additive(population, labelled)
    F = np.column_stack([Z, 2.0 * hats, np.full(400, 3.0)])
    coef, shift, out_of_fold = fit_to_targets(F, labelled, fit.tuned[0])
    np.testing.assert_allclose(fit.chances(Z), softmax(F @ coef + shift, axis=1), atol=1e-10)
    np.testing.assert_allclose(fit.out_of_fold, out_of_fold)
    straight = fit_linear(population, labelled)
    assert (fit.out_of_fold.argmax(axis=1) == y).mean() > 0.9 > (straight.out_of_fold.argmax(axis=1) == y).mean()


# -- trees ------------------------------------------------------------------------------------------------------


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = np.digitize(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=300), [-0.3, 0.4])
    return X, y, rng.normal(size=(500, 5)).astype(np.float32)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 5), st.integers(2, 4))
@settings(max_examples=40)
def test_forest_matches_slow_twin(seed, n_rows, n_features, n_classes):
    rng = np.random.default_rng(seed)
    X = rng.choice([rng.normal(size=(n_rows, n_features)), rng.integers(0, 3, (n_rows, n_features))]).astype(np.float32)
    codes, weights = rng.integers(0, n_classes, n_rows), rng.uniform(0.5, 2.0, n_rows)
    arguments = X, codes, weights, n_classes, 3, max(1, n_features // 2), seed
    roots, feature, threshold, left, right, value = grow_trees(*arguments)
    made = TreeChances(
        roots, np.zeros(3), feature, threshold, left, right, value, np.zeros((1, n_classes)), False, n_features
    )
    trees, new = forest_twin.grow(*arguments), np.vstack([X, rng.normal(size=(20, n_features)).astype(np.float32)])
    np.testing.assert_allclose(made(new), [forest_twin.chances(trees, x) for x in new], atol=1e-12)
    assert ((value.sum(axis=1) > 0) == (feature < 0)).all()


def test_large_trees_predict_the_same_in_larger_blocks():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(2500, 4)).astype(np.float32), rng.integers(0, 2, 2500)
    roots, feature, threshold, left, right, value = grow_trees(X, codes, np.ones(2500), 2, 2, 2, 0)
    assert feature.size > LARGE * roots.size
    made = TreeChances(roots, np.zeros(2), feature, threshold, left, right, value, np.zeros((1, 2)), False, 4)
    new = rng.normal(size=(ROWS_OF_LARGE + 30, 4)).astype(np.float32)
    parts = np.concatenate([made(new[a : a + 50]) for a in range(0, len(new), 50)])
    np.testing.assert_array_equal(made(new), parts)
    node = int(roots[0])
    while feature[node] >= 0:
        node = int(left[node] if new[-1, feature[node]] <= threshold[node] else right[node])
    alone = TreeChances(roots[:1], np.zeros(1), feature, threshold, left, right, value, np.zeros((1, 2)), False, 4)
    np.testing.assert_array_equal(alone(new)[-1], value[node])


def test_forest_is_as_good_as_scikit_learns():
    """Twelve paired splits of the digits, 25 trees each: a |t| above 4 with 11 degrees of freedom has a chance of 0.002. A
    forest that tries one feature at a node is 3.7 points worse, a t of 10.8."""
    X, y = load_digits(return_X_y=True)
    X, found = X.astype(np.float32), []
    for seed in range(12):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:400], order[400:]
        ours = grow_forest(X[train], y[train], np.ones(400), 10, seed)(X[test]).argmax(axis=1)
        theirs = ExtraTreesClassifier(25, random_state=seed).fit(X[train], y[train]).predict(X[test])
        found.append(np.mean(ours != y[test]) - np.mean(theirs != y[test]))
    assert abs(np.mean(found)) < 4 * np.std(found, ddof=1) / np.sqrt(12)


def test_unlabelled_class_gets_no_chance_in_forest(rows):
    X, y, new = rows
    made = grow_forest(X[y != 1], y[y != 1], np.ones(int((y != 1).sum())), 3, 0)(new)
    assert (made[:, 1] == 0.0).all()
    np.testing.assert_allclose(made.sum(axis=1), 1.0)


@pytest.mark.parametrize("classes", [(0, 1, 2), (0, 2), (1, 2)])
@pytest.mark.parametrize("n_labels", [300, 15])
def test_lightgbm_as_arrays_predicts_the_same(rows, classes, n_labels):
    X, y, new = (part[:n_labels] for part in rows)
    used = np.isin(y, classes)
    own = np.searchsorted(classes, y[used])
    objective = {"objective": "binary"} if len(classes) == 2 else {"objective": "multiclass", "num_class": 3}
    booster = lightgbm.train({**objective, "verbose": -1, "num_leaves": 6}, lightgbm.Dataset(X[used], own), 12)
    want = booster.predict(new)
    want = np.column_stack([1 - want, want]) if len(classes) == 2 else want
    made = from_lightgbm(booster.model_to_string(), np.array(classes), 4, 5)(new)
    np.testing.assert_allclose(made[:, classes], want, atol=1e-12)
    assert (np.delete(made, classes, axis=1) == 0.0).all()


def test_damaged_trees_raise(rows):
    X, y, _ = rows
    good = grow_forest(X, y, np.ones(len(y)), 3, 0)
    parts = {name: getattr(good, name) for name in good.__dataclass_fields__}
    inner = int(np.flatnonzero(good.feature >= 0)[1])
    for name, value in (("left", 0), ("left", inner), ("right", good.feature.size), ("right", -1), ("feature", 5)):
        changed = parts[name].copy()
        changed[inner] = value
        with pytest.raises(InvalidInput, match="do not match"):
            TreeChances(**{**parts, name: changed})
    for name, value in (("roots", good.roots + 10_000), ("column", good.column + 1), ("value", good.value[1:])):
        with pytest.raises(InvalidInput, match="do not match"):
            TreeChances(**{**parts, name: value})


# -- the classifier ---------------------------------------------------------------------------------------------


def test_blend_is_about_as_good_as_best_learner():
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:80], order[80:]
    alone = {
        name: ob.BlendClassifier((name,)).fit(X[train], y[train], population=X).score(X[test], y[test])
        for name in ("linear", "additive", "kernel", "forest", "boosted")
    }
    blend = ob.BlendClassifier().fit(X[train], y[train], population=X)
    assert min(alone.values()) > 0.6
    assert blend.score(X[test], y[test]) >= max(alone.values()) - 0.03
    assert set(blend.weights_) <= set(alone)
    assert (blend.out_of_fold_.argmax(axis=1) == y[train]).mean() > 0.9
    np.testing.assert_allclose(blend.out_of_fold_.sum(axis=1), 1.0)


def test_same_rows_give_same_model_on_any_cores(monkeypatch):
    X, y = load_iris(return_X_y=True)
    one, other = (ob.BlendClassifier().fit(X[::2], y[::2]).predict_proba(X) for _ in range(2))
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    alone = ob.BlendClassifier().fit(X[::2], y[::2]).predict_proba(X)
    assert (one == other).all()
    assert (one == alone).all()


def test_blocks_change_nothing(monkeypatch):
    X, y = load_iris(return_X_y=True)
    model = ob.BlendClassifier().fit(X[::2], y[::2])
    whole = model.predict_proba(X)
    monkeypatch.setattr("observal.problem.rows.BLOCK_ROWS", 7)
    np.testing.assert_allclose(model.predict_proba(X), whole, atol=1e-12)
    assert model.blend_.predict_proba(X[:0]).shape == (0, 3)


HARDLY = {
    "one class": ([0] * 10, 60),
    "two labels": ([0, 1], 60),
    "three labels": ([0, 1, 0], 60),
    "seven labels of three classes": ([0, 1, 2, 0, 1, 2, 2], 60),
    "a class with one label": ([0] * 9 + [1], 60),
    "ten rows": ([0, 1] * 5, 10),
}


@pytest.mark.parametrize("case", HARDLY)
@pytest.mark.parametrize("constant", [False, True])
def test_very_few_labels_are_accepted(case, constant):
    labels, n = HARDLY[case]
    X = np.random.default_rng(0).normal(size=(n, 3))
    X[:, 1] = 1.0
    X = np.ones((n, 3)) if constant else X
    y = np.array(labels)
    model = ob.BlendClassifier().fit(X[: len(y)], y, population=X)
    chances = model.predict_proba(X)
    assert np.isfinite(chances).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert set(model.predict(X)) <= set(labels)
    if case == "one class":
        assert model.weights_ == {"constant": 1.0}
    if case == "a class with one label":
        assert (model.predict(X) == 0).mean() > 0.5


def test_zero_weight_rows_are_left_out():
    X, y = load_iris(return_X_y=True)
    weights = np.ones(len(y))
    weights[y == 2] = 0.0
    population = Population.of(X)
    codes = y.astype(np.int64)
    some, out_of_fold, _ = fit_blend(population, X, codes, weights, np.arange(3))
    want, _, _ = fit_blend(population, X[y < 2], codes[y < 2], np.ones(100), np.arange(3))
    assert (some.predict_proba(X) == want.predict_proba(X)).all()
    np.testing.assert_allclose(out_of_fold[y == 2], some.predict_proba(X[y == 2]))


def test_sparse_rows_use_linear_learner():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * (rng.random((200, 6)) < 0.4)
    for y in ((X[:, 0] > X[:, 1]).astype(int), np.digitize(X[:, 0] - X[:, 1], [-0.2, 0.2])):
        model = ob.BlendClassifier().fit(sp.csr_matrix(X), y)
        assert model.weights_ == {"linear": 1.0}
        assert model.score(sp.csr_matrix(X), y) > 0.8
        np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(sp.csr_array(X)))


def test_user_estimator_joins_the_blend():
    X, y = load_wine(return_X_y=True)
    own = GaussianNB()
    model = ob.BlendClassifier(("linear", ("bayes", own))).fit(X, y, sample_weight=np.linspace(1, 2, len(y)))
    assert "bayes" in model.weights_
    assert model.score(X, y) > 0.95
    assert not hasattr(own, "classes_")


@pytest.mark.skipif(find_spec("catboost") is None, reason="catboost (extra bench) is not installed")
def test_classifier_of_another_library_joins_the_blend_of_a_run():
    from catboost import CatBoostClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
    own = CatBoostClassifier(iterations=30, depth=3, thread_count=1, verbose=False, allow_writing_files=False)
    method = ob.AutoVC(learners=("linear", ("catboost", own)))
    result = ob.run(
        ob.LoggedData(X[:120], y[:120], 0.5), ob.Pool(X[120:], 0.5), lambda ids: y[120:][ids], method, label_budget=10
    )
    assert "catboost" in result.estimator.names
    assert result.estimator.score(X, y) > 0.8  # a line cannot learn a product


@pytest.mark.parametrize(
    "learners",
    [
        (),
        "linear",
        ("tree",),
        ("linear", "linear"),
        ("linear", "catboost"),
        (("linear", GaussianNB()),),
        (("bayes", GaussianNB),),
        (("bayes", GaussianNB(), "slow"),),
        (("a", 1),),
    ],
)
def test_wrong_learners_raise(learners):
    with pytest.raises(InvalidInput, match="learners must"):
        ob.BlendClassifier(learners).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InvalidInput, match="learners must"):
        ob.AutoVC(learners=learners)


def test_helpers_return_expected_values():
    codes = np.array([0] * 9 + [1] * 5 + [2])
    folds = spread_folds(codes, COARSE_FOLDS)
    for code in (0, 1, 2):
        assert np.ptp(np.bincount(folds[codes == code], minlength=4)) <= 1
    best, margins = top_margin(np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]))
    assert best.tolist() == [0, 2]
    np.testing.assert_allclose(margins, [0.2, 0.5])
    assert clip_chances(np.array([[0.0, 0.0, 1.0]])).min() > 0.0009

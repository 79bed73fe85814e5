"""Learners by name: CatBoost's trees as plain arrays, TabICL from a local file only, and a shortlist for learners slow to predict."""

from __future__ import annotations

import json
import sys
from importlib import util
from types import ModuleType

import numpy as np
import pytest
from catboost import CatBoostClassifier
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import observal as ob
from observal.campaign import Campaign, load_model
from observal.errors import InvalidInput
from observal.exchange.model_file import save_model
from observal.exchange.onnx_file import make_onnx
from observal.learners import extra_learners
from observal.learners.blend import check_learners, fit_blend
from observal.learners.blend_settings import CATBOOST, LEARNERS, SHORTLIST
from observal.learners.extra_learners import from_catboost
from observal.learners.population import Population
from observal.learners.tree_learners import FoldMean
from observal.methods.auto import pick_shortlist
from tests.campaigns import small_data, truth_of
from tests.test_onnx import run as run_onnx


def make_rows(n, seed=0, n_features=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("classes", [[0, 1], [1, 3], [0, 1, 2], [0, 2, 3]])
@pytest.mark.parametrize("depth", [1, 5])
def test_catboost_as_arrays_equals_catboost_even_at_its_borders(classes, depth, tmp_path):
    X, score = make_rows(200)
    rows = X.astype(np.float32)
    y = np.digitize(score, np.quantile(score, np.arange(1, len(classes)) / len(classes)))
    loss = "MultiClass" if len(classes) > 2 else "Logloss"
    settings = CATBOOST | {"iterations": 30, "depth": depth}
    model = CatBoostClassifier(**settings, loss_function=loss, random_seed=1, boost_from_average=loss == "Logloss")
    model.fit(rows, y, sample_weight=np.linspace(0.5, 1.5, 200))
    model.save_model(tmp_path / "model.json", format="json")
    content = json.loads((tmp_path / "model.json").read_text())
    trees = from_catboost(content, np.array(classes), 4, 4)
    new = np.tile(make_rows(500, 1)[0].astype(np.float32), (2, 1))
    splits = [split for tree in content["oblivious_trees"] for split in tree["splits"]]
    for row, split in zip(new, splits, strict=False):
        row[split["float_feature_index"]] = split["border"]
    chances = trees(new)
    np.testing.assert_allclose(chances[:, classes], model.predict_proba(new), atol=1e-12)
    assert chances[:, [k for k in range(4) if k not in classes]].max(initial=0.0) == 0.0


def test_catboost_is_weighted_out_of_fold_like_the_others():
    X, score = make_rows(300)
    y = (score > 0).astype(int)
    fit = fit_blend(Population.of(X), X, y, np.ones(300), np.array([0, 1]), (*LEARNERS, "catboost"))
    assert "catboost" in fit.blend.names
    assert abs(fit.blend.theta.sum() - 1.0) < 1e-12
    noise = np.random.default_rng(0).integers(0, 2, 300)
    alone = fit_blend(Population.of(X), X, noise, np.ones(300), np.array([0, 1]), ("catboost",))
    right = (alone.out_of_fold.argmax(axis=1) == noise).mean()
    assert right < 0.6  # it has not seen them: in fold it would be right on nearly all
    assert (alone.blend.predict(X) == noise).mean() > 0.85


def test_catboost_of_rows_that_are_all_alike_is_left_out():
    X = np.ones((40, 2))
    fit = fit_blend(Population.of(X), X, np.arange(40) % 2, np.ones(40), np.array([0, 1]), ("linear", "catboost"))
    assert fit.blend.names == ("linear",)


def test_model_with_catboost_is_plain_in_its_file_in_a_campaign_and_in_onnx(tmp_path):
    method = ob.AutoVC(learners=("linear", "catboost"))
    campaign = Campaign.create_from_arrays(tmp_path / "c.db", *small_data(), method=method, label_budget=8)
    ids = campaign.ask(8).ids
    campaign.tell(ids, [truth_of(int(i)) for i in ids])
    X = small_data()[1].X
    blend = campaign.estimator
    assert "catboost" in blend.names
    chances = blend.predict_proba(X)
    again = Campaign.open(tmp_path / "c.db")
    assert again.settings.method == method
    assert np.array_equal(again.estimator.predict_proba(X), chances)
    save_model(tmp_path / "m.model", blend, None)
    assert np.array_equal(load_model(tmp_path / "m.model").predict_proba(X), chances)
    assert np.abs(run_onnx(make_onnx(blend, None), {"X": X})[1] - chances).max() < 1e-6


def test_missing_package_is_named_before_anything_is_asked(monkeypatch):
    found = util.find_spec
    monkeypatch.setattr(extra_learners, "find_spec", lambda name: None if name == "catboost" else found(name))
    method = ob.AutoVC(learners=("linear", "catboost"))  # a campaign that names it can still be read
    with pytest.raises(
        InvalidInput, match=r"needs the package catboost; install it with pip install 'observal\[catboost\]'"
    ):
        ob.Session(*small_data(), method, label_budget=4).ask()


# -- TabICL, by a stand-in of its interface -------------------------------------------------------------------------


class InContext(ClassifierMixin, BaseEstimator):
    """Stands in for TabICLClassifier: keeps the labels, and predicts from the nearest ones."""

    made: list = []  # noqa: RUF012
    shown: list = []  # noqa: RUF012

    def __init__(self, n_estimators=8, model_path=None, allow_auto_download=True, n_jobs=None, random_state=42):
        self.n_estimators, self.model_path, self.allow_auto_download = n_estimators, model_path, allow_auto_download
        self.n_jobs, self.random_state = n_jobs, random_state
        self.made.append((model_path, allow_auto_download))

    def fit(self, X, y):
        self.X_, self.y_ = X, y
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        self.shown.append(len(X))
        near = np.argsort(np.square(X[:, None] - self.X_[None]).sum(axis=2), axis=1)[:, :7]
        return np.stack([(self.y_[near] == code).mean(axis=1) for code in self.classes_], axis=1)


class Weighted(InContext):
    """One of the user's own, which must take weights; TabICL takes none."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


@pytest.fixture
def tabicl(monkeypatch, tmp_path):
    module = ModuleType("tabicl")
    module.TabICLClassifier = InContext
    module.__spec__ = util.spec_from_loader("tabicl", None)
    monkeypatch.setitem(sys.modules, "tabicl", module)
    monkeypatch.delenv("OBSERVAL_TABICL", raising=False)
    InContext.made.clear()
    InContext.shown.clear()
    weights = tmp_path / "weights.ckpt"
    weights.write_bytes(b"weights")
    return weights


def make_problem(n_pool):
    X, score = make_rows(300 + n_pool)
    y = np.where(score > 0, "yes", "no")
    return ob.LoggedData(X[:300], y[:300], 0.5), ob.Pool(X[300:], 0.5), y[300:]


@pytest.mark.parametrize(("path", "seen"), [(None, "it is not set"), ("/nowhere/w.ckpt", "which is no file")])
def test_tabicl_without_local_weights_is_refused(tabicl, monkeypatch, path, seen):
    if path:
        monkeypatch.setenv("OBSERVAL_TABICL", path)
    logged, pool, _ = make_problem(50)
    with pytest.raises(InvalidInput, match=seen):
        ob.Session(logged, pool, ob.AutoVC(learners=("linear", "tabicl")), label_budget=4).ask()
    assert InContext.made == []


def test_tabicl_reads_local_weights_downloads_nothing_and_sees_a_shortlist(tabicl, monkeypatch):
    monkeypatch.setenv("OBSERVAL_TABICL", str(tabicl))
    logged, pool, y = make_problem(4000)
    method = ob.AutoVC(learners=("linear", "tabicl"))
    session = ob.Session(logged, pool, method, label_budget=10)
    ids = session.ask().ids
    assert {(path, allowed) for path, allowed in InContext.made if path is not None} == {(str(tabicl), False)}
    assert max(InContext.shown) == SHORTLIST  # of 4,000 rows
    session.tell(ids, y[ids])
    blend = session.estimator
    assert blend.names == ("linear", "tabicl")
    assert blend.theta[1] > 0.5  # a line cannot learn a product
    assert blend.score(pool.X, y) > 0.8


def test_slow_learner_of_the_user_sees_the_rows_that_the_others_are_least_sure_of():
    logged, pool, _ = make_problem(3000)
    InContext.shown.clear()
    method = ob.AutoVC(learners=("linear", "boosted", ("near", Weighted(), "slow")))
    session = ob.Session(logged, pool, method, label_budget=20)
    ids = session.ask().ids
    assert max(InContext.shown) == SHORTLIST
    blend = session.estimator
    fast = blend.fast
    assert blend.names == (*fast.names, "near")
    assert abs(fast.theta.sum() - 1.0) < 1e-12
    leads = fast.predict_details(pool.X).margins
    listed = pick_shortlist(leads, np.empty(0, dtype=np.int64))
    assert set(listed.tolist()) == set(np.argsort(leads)[:SHORTLIST].tolist())
    lead = blend.predict_details(pool.X[listed]).margins
    chosen = np.isin(ids, listed[np.argsort(lead)[:30]])
    assert chosen.mean() > 0.6  # the others are picked at random


def test_blend_without_slow_learners_is_its_own_fast_blend():
    X, score = make_rows(100)
    y = (score > 0).astype(int)
    classes = np.array([0, 1])
    blend = fit_blend(Population.of(X), X, y, np.ones(100), classes, ("linear", ("mine", LogisticRegression()))).blend
    assert blend.fast is blend
    only = fit_blend(Population.of(X), X, y, np.ones(100), classes, (("near", InContext(), "slow"),)).blend
    assert only.fast is only
    assert isinstance(only.members[0], FoldMean)


@pytest.mark.parametrize(
    "learner", [("mine", LogisticRegression(), "quick"), ("catboost", LogisticRegression()), ("a", 1), "CatBoost"]
)
def test_other_items_are_refused_as_learners(learner):
    with pytest.raises(
        InvalidInput, match="learners must be some of linear, additive, kernel, forest, boosted, catboost"
    ):
        check_learners(("linear", learner))


def test_shortlist_leaves_out_rows_that_have_a_label():
    margins = np.arange(3000.0)
    assert pick_shortlist(margins, np.arange(10)).tolist() == list(range(10, 10 + SHORTLIST))
    assert pick_shortlist(margins[:20], np.arange(5)).tolist() == list(range(5, 20))

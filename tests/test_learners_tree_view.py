"""Boosted trees see categories and gaps as they are, and the model they become needs neither."""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.errors import InvalidInput, NotACampaign
from observal.journal.codec import decode_entry, encode_entry
from observal.journal.sql.stored_problem import add_rows
from observal.learners.blend import fit_blend
from observal.learners.blend_settings import BOOSTED, CATEGORIES
from observal.learners.population import Population
from observal.learners.tree_learners import TreeView, from_lightgbm
from observal.problem.column_groups import ColumnGroups
from observal.tables import TableEncoder, TableRoles, load_problem
from observal.tables.load_in_place import load_in_place
from tests.reference.tree_view import seen

GROUPS = ColumnGroups(categories=(tuple(range(2, 32)), (33, 34, 35)), gaps=((0, 1),))


def encoded(n=1200, seed=0):
    """Return rows with a number with gaps, 30 levels and others, a number, and 3 levels; and two or three classes."""
    rng = np.random.default_rng(seed)
    city, home = rng.integers(0, 33, n), rng.integers(0, 4, n)
    income, gone, age = rng.normal(size=n), rng.random(n) < 0.3, rng.normal(size=n)
    X = np.column_stack(
        [np.where(gone, 0.1, income), gone, city[:, None] == np.arange(30), age, home[:, None] == np.arange(3)]
    ).astype(float)
    y = ((city % 2 == 1) ^ ((income > 0) & ~gone)).astype(int)
    return X, y, y + (home == 1)


def test_view_matches_plain_loops():
    X, _, _ = encoded(200)
    X[:, 7] = 0.0  # a level that nobody has
    for rows in (X, (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)):
        view = TreeView.of(GROUPS, rows)
        by_loops = [seen(row, GROUPS.categories, GROUPS.gaps, view.marked) for row in rows.tolist()]
        np.testing.assert_array_equal(view(rows), np.array(by_loops, dtype=np.float32))
        assert view.categories == [1, 3]
    assert np.isnan(view(rows)[:, 0]).sum() == X[:, 1].sum()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "settings", [CATEGORIES, {"max_cat_to_onehot": 64}, {"min_data_per_group": 1, "cat_smooth": 0.1}]
)
def test_trees_of_categories_and_gaps_become_trees_of_numbers(n_classes, settings):
    X, *labels = encoded()
    y, view = labels[n_classes - 2], TreeView.of(GROUPS, X)
    several = {"objective": "multiclass", "num_class": 3} if n_classes == 3 else {"objective": "binary"}
    data = lightgbm.Dataset(view(X[:300]), y[:300], categorical_feature=view.categories)
    booster = lightgbm.train({**BOOSTED, **several, **settings, "verbose": -1, "num_threads": 1}, data, 30)
    made = from_lightgbm(booster.model_to_string(), np.arange(n_classes), n_classes, X.shape[1], view)
    said = booster.predict(view(X))
    np.testing.assert_allclose(made(X)[:, 1:] if n_classes == 2 else made(X), said.reshape(len(X), -1), atol=1e-12)


def test_trees_without_splits_or_categories_work():
    X, y, _ = encoded(60)
    view = TreeView.of(GROUPS, X)
    for settings in ({"min_data_in_leaf": 59}, {"min_data_per_group": 1000, "max_cat_to_onehot": 1}):
        data = lightgbm.Dataset(view(X), y, categorical_feature=view.categories)
        booster = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1, **settings}, data, 3)
        made = from_lightgbm(booster.model_to_string(), np.arange(2), 2, X.shape[1], view)
        np.testing.assert_allclose(made(X)[:, 1], booster.predict(view(X)), atol=1e-12)


def test_many_levels_need_fewer_labels_than_one_hot():
    X, y, _ = encoded()
    found = {}
    for groups in (None, GROUPS):
        population = Population.of(X, groups=groups)
        blend = fit_blend(population, X[:300], y[:300], np.ones(300), np.arange(2), ("boosted",)).blend
        found[groups] = 1.0 - blend.score(X[300:], y[300:])
    assert found[GROUPS] < 0.75 * found[None]


def tables():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "income": np.where(rng.random(160) < 0.2, np.nan, rng.normal(size=160)),
            "city": rng.choice(["a", "b", "c", "d", None], 160),
            "kids": rng.integers(0, 3, 160),
            "q0": 0.5,
        }
    )
    y = np.where(frame["city"].isin(["a", "c"]), "yes", "no")
    log = frame[:80].assign(y=np.where(np.arange(80) % 2 == 0, y[:80], None))
    return log, frame[80:], y


def test_column_groups_survive_sessions_campaigns_and_parquet(tmp_path):
    log, pool, y = tables()
    loaded = load_problem([log], pool, TableRoles(label="y", propensity="q0"))
    groups = ColumnGroups(categories=((2, 3, 4, 5, 6),), gaps=((0, 1),))
    assert loaded.logged.column_groups == loaded.pool.column_groups == loaded.encoder.groups == groups
    session = ob.Session(loaded.logged, loaded.pool, ob.AutoVC(learners=("boosted",)), label_budget=20)
    query = session.ask()
    session.tell(query.ids, y[80:][query.ids])
    session.save(tmp_path / "session")
    again = ob.Session.load(tmp_path / "session")
    assert again.problem.column_groups == groups
    assert again.ask().ids.tolist() == session.ask().ids.tolist()
    campaign = ob.Campaign.create(
        tmp_path / "c.db",
        log,
        pool,
        label="y",
        propensity="q0",
        method=ob.AutoVC(learners=("boosted",)),
        label_budget=5,
    )
    stored = ob.Campaign.open(tmp_path / "c.db").problem
    assert stored.column_groups == groups
    assert add_rows(stored, ob.Pool(loaded.pool.X, 0.5, ids=np.arange(1000, 1080))).column_groups == groups
    campaign.export(tmp_path / "model.skops")
    made = ob.load_model(tmp_path / "model.skops").predict_proba(pool)
    assert made.tolist() == campaign.result().estimator.predict_proba(loaded.pool.X).tolist()
    for name, frame in (("log", log), ("pool", pool)):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    in_place = load_in_place(
        tmp_path / "log.parquet", tmp_path / "pool.parquet", TableRoles(label="y"), propensity="q0"
    )
    assert in_place.pool.column_groups == groups


def test_numeric_tables_have_no_groups():
    assert TableEncoder.learn([pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})]).groups is None
    assert TreeView.of(None, np.zeros((2, 2))) is None
    X = np.zeros((4, 2))
    logged, pool = ob.LoggedData(X, [0, 1, 0, 1], 0.5, column_groups=ColumnGroups(gaps=((0, 1),))), ob.Pool(X, 0.5)
    assert ob.Problem(logged, pool).column_groups is None  # the pool says nothing of groups


def test_impossible_groups_raise():
    for wrong in (
        {"categories": ((0, 1), (1, 2))},
        {"gaps": ((0, 1, 2),)},
        {"categories": ((),)},
        {"gaps": ((-1, 2),)},
    ):
        with pytest.raises(InvalidInput, match="one group at most"):
            ColumnGroups(**wrong)
    X, beyond = np.zeros((4, 2)), ColumnGroups(gaps=((0, 2),))
    with pytest.raises(InvalidInput, match="among the 2 features, but one has column 2"):
        ob.Problem(ob.LoggedData(X, [0, 1, 0, 1], 0.5, column_groups=beyond), ob.Pool(X, 0.5, column_groups=beyond))
    settings = ob.Session(ob.LoggedData(X, [0, 1, 0, 1], 0.5), ob.Pool(X, 0.5)).settings
    with pytest.raises(InvalidInput, match="A group names a column that does not exist"):
        replace(settings, column_groups=beyond)
    encoded = encode_entry(settings)
    assert decode_entry("settings", encoded) == settings
    for gaps in ([[0, 5]], [[0, 0]], [[-1, 1]], 7):
        groups = {"type": "ColumnGroups", "fields": {"categories": {"tuple": []}, "gaps": gaps}}
        with pytest.raises(NotACampaign, match="settings cannot be read"):
            decode_entry("settings", {**encoded, "fields": {**encoded["fields"], "column_groups": groups}})

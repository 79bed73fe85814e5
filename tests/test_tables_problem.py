"""Logs and pools from tables, and the encoder inside a scikit-learn pipeline."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from observal.errors import ObservalError, ObservalWarning
from observal.tables import TableEncoder, TableRoles, TableTransformer, load_problem


def write(folder, name, content):
    path = folder / name
    path.write_text(content)
    return path


LOG = {
    "loan": ["a", "b", "c"],
    "age": [30, 40, None],
    "home": ["own", "rent", "own"],
    "bad": [1, None, 0],
    "q0": [0.5, 0.1, 1],
}
POOL = {"loan": ["d", "e"], "age": [35, 45], "home": ["boat", "own"], "q0": [0.2, 0.0]}
ROLES = TableRoles(label="bad", propensity="q0", id="loan")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_become_a_log_and_a_pool(make):
    loaded = load_problem([make(LOG)], make(POOL), ROLES)
    assert loaded.encoder.names == ("age", "age is missing", "home=own", "home=boat", "home=rent")
    assert loaded.logged.X.tolist() == [[30, 0, 1, 0, 0], [40, 0, 0, 0, 1], [35, 1, 1, 0, 0]]
    assert loaded.logged.y.tolist() == [1, None, 0]
    assert loaded.logged.classes.tolist() == [0, 1]
    assert loaded.logged.ids.tolist() == ["a", "b", "c"]
    assert loaded.pool.ids.tolist() == ["d", "e"]
    assert loaded.pool.propensity.tolist() == [0.2, 0.0]


def test_ids_of_files_are_read(tmp_path):
    log = write(tmp_path, "log.csv", "id,x,y,q0\n01,1,0,0.5\n2,2,,0.5\n3,3,1,0.5\n")
    pool = write(tmp_path, "pool.csv", "id,x,q0\n4,1,0.5\n5,2,0.5\n")
    loaded = load_problem([log], pool, TableRoles(label="y", propensity="q0", id="id"))
    assert loaded.logged.ids.tolist() == ["01", "2", "3"]
    assert loaded.pool.ids.tolist() == ["4", "5"]
    assert loaded.logged.y.tolist() == [0, None, 1]


def test_rows_without_ids_are_numbered_distinctly():
    roles = TableRoles(label="bad", propensity="q0", features=("age",))
    loaded = load_problem([pa.table(LOG)], pa.table(POOL), roles)
    assert loaded.pool.ids.tolist() == [0, 1]
    assert loaded.logged.ids.tolist() == [2, 3, 4]
    assert any("numbered from 0" in note for note in loaded.notes)


def test_several_logs_without_propensities_are_joined():
    logs = [pa.table({"x": [1.0, 2.0], "y": ["no", None]}), pa.table({"x": [4.0], "y": ["yes"]})]
    loaded = load_problem(logs, pa.table({"x": [5.0, 6.0]}), TableRoles(label="y"))
    assert loaded.logged.X[:, 0].tolist() == [1.0, 2.0, 4.0]
    assert loaded.logged.y.tolist() == ["no", None, "yes"]
    assert loaded.logged.is_given


def test_fully_labelled_log_with_small_propensities_gets_a_note():
    log = pa.table({"x": np.arange(20.0), "y": [0, 1] * 10, "q0": [0.3] * 20})
    pool = pa.table({"x": [1.0, 2.0], "y": [0, 1], "q0": [0.3, 0.3]})
    notes = load_problem([log], pool, TableRoles(label="y", propensity="q0")).notes
    assert any("kept only its labelled rows" in note for note in notes)
    assert any("pool's column 'y' was not used" in note for note in notes)


def test_tiny_propensity_gets_a_note():
    columns = {"x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, None, None], "q0": [0.5, 2e-7, 1e-9, 0.0]}
    pool = pa.table({"x": [1.0, 2.0], "q0": [0.3, 0.3]})
    roles = TableRoles(label="y", propensity="q0")
    notes = load_problem([pa.table(columns)], pool, roles).notes
    assert any("2 rows of the log have a propensity below 1e-06, the least 1e-09" in note for note in notes)
    columns["q0"] = [0.5, 1e-6, 1e-6, 0.0]
    assert not any("below 1e-06" in note for note in load_problem([pa.table(columns)], pool, roles).notes)


def test_propensities_can_be_floored():
    with pytest.warns(ObservalWarning, match="below the floor"):
        loaded = load_problem([pa.table(LOG)], pa.table(POOL), ROLES, propensity_floor=0.9)
    assert (loaded.logged.propensity >= 0.9).all()
    assert (loaded.pool.propensity >= 0.9).all()
    assert any("below the floor" in note for note in loaded.notes)


def test_costs_and_classes_are_kept():
    log = pa.table({"x": [1.0, 2.0], "y": ["ok", "ok"], "c": [0.5, 1.0]})
    pool = pa.table({"x": [3.0, 4.0], "c": [0.0, 1.0]})
    loaded = load_problem([log], pool, TableRoles(label="y", cost="c"), propensity=0.5, classes=("ok", "bad"))
    assert loaded.logged.cost.tolist() == [0.5, 1.0]
    assert loaded.pool.cost.tolist() == [0.0, 1.0]
    assert loaded.logged.classes.tolist() == ["ok", "bad"]


def changed(table, **columns):
    return pa.table({**table, **columns})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_problem([], pa.table(POOL), ROLES), "No log was given"),
        (lambda: load_problem([pa.table(LOG).slice(0, 0)], pa.table(POOL), ROLES), "log has columns but no rows"),
        (lambda: load_problem([pa.table(LOG)], pa.table(POOL).slice(0, 0), ROLES), "pool has columns but no rows"),
        (
            lambda: load_problem([pa.table(LOG)], pa.table(POOL), ROLES, propensity="estimate"),
            "Propensities are not estimated, .* but 'estimate' was given; leave the propensity out",
        ),
        (lambda: load_problem([pa.table(LOG)], None, ROLES), "One table needs no propensities"),
        (
            lambda: load_problem([pa.table(LOG)], pa.table(POOL), TableRoles("nope", "q0")),
            "no column 'nope' for the label",
        ),
        (lambda: load_problem([pa.table(LOG)], pa.table(POOL).drop(["q0"]), ROLES), "pool has no column 'q0'"),
        (lambda: load_problem([pa.table(LOG)], pa.table(POOL).drop(["loan"]), ROLES), "pool has no column 'loan'"),
        (
            lambda: load_problem([changed(LOG, q0=["a", "b", "c"])], pa.table(POOL), ROLES),
            r"log needs numbers in the propensity column 'q0', but it has 'a' in row 0 \(counted from 0\)",
        ),
        (lambda: load_problem([changed(LOG, q0=[0.5, None, 1])], pa.table(POOL), ROLES), "the first in row 1"),
        (
            lambda: load_problem([changed(LOG, q0=[0.5, 1.5, 1])], pa.table(POOL), ROLES),
            r"row 1 \(counted from 0\) has 1.5",
        ),
        (
            lambda: load_problem([changed(LOG, bad=[1, 1, 1])], pa.table(POOL), ROLES),
            r"two classes or more, but shows 1 \(1\)",
        ),
        (lambda: load_problem([changed(LOG, bad=[None] * 3)], pa.table(POOL), ROLES), "every label is missing"),
        (
            lambda: load_problem([changed(LOG, loan=["d", "b", "c"])], pa.table(POOL), ROLES),
            "'d' is in the log and in the pool",
        ),
        (
            lambda: load_problem([pa.table(LOG)] * 2, pa.table(POOL), ROLES),
            "need one log and one column .*, but 2 logs came with 'q0'; join the logs into one table",
        ),
        (
            lambda: load_problem([pa.table(LOG)], pa.table(POOL), ROLES, propensity=["q0", "q1"]),
            r"need one log and one column .*, but 1 log came with \['q0', 'q1'\]; join",
        ),
    ],
)
def test_bad_problem_raises_one_sentence(call, message):
    with pytest.raises(ObservalError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_pipeline_takes_raw_rows(make):
    rows = make({"x": [1.0, None, 3.0, 4.0], "c": ["a", "b", "a", "b"]})
    transformer = clone(TableTransformer(TableEncoder.learn([rows])))
    assert transformer.get_feature_names_out().tolist() == ["x", "x is missing", "c=a", "c=b"]
    model = make_pipeline(transformer, LogisticRegression()).fit(rows, [0, 0, 1, 1])
    assert model.predict(make({"x": [9.0], "c": ["new"]})).tolist() == [1]


def test_pipeline_survives_skops(tmp_path):
    from skops import io

    rows = pd.DataFrame({"x": [1.0, None, 3.0, 4.0], "c": ["a", "b", "a", "b"]})
    model = make_pipeline(TableTransformer(TableEncoder.learn([rows])), LogisticRegression()).fit(rows, [0, 0, 1, 1])
    io.dump(model, tmp_path / "model.skops")
    unknown = io.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.startswith("observal.tables.") for name in unknown)
    again = io.load(tmp_path / "model.skops", trusted=unknown)
    assert again.predict_proba(rows).tolist() == model.predict_proba(rows).tolist()
    assert again[0].encoder == model[0].encoder


def test_one_log_need_not_be_in_a_list(tmp_path):
    log = pd.DataFrame({"age": [30, 40, 50], "bad": [0, None, 1], "q0": [0.5, 0.1, 1.0]})
    pool = pd.DataFrame({"age": [35, 45], "q0": [0.2, 0.8]})
    roles = TableRoles(label="bad", propensity="q0")
    log.to_csv(tmp_path / "log.csv", index=False)
    for one in (log, tmp_path / "log.csv", str(tmp_path / "log.csv")):
        assert len(load_problem(one, pool, roles).logged) == 3

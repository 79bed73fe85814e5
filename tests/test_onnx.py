"""ONNX: every learner, every kind of column, calibration and threshold give what our own code gives."""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import observal as ob
from observal.campaign import Campaign
from observal.errors import InvalidInput
from observal.exchange.model_file import save_model
from observal.exchange.onnx_file import make_onnx
from observal.intervals.thresholds import FactorClassifier
from observal.learners.blend import Blend, fit_blend
from observal.learners.blend_settings import LEARNERS
from observal.learners.population import Population
from observal.tables import TableEncoder
from tests.command import observal

NEAR = 1e-6  # ten times nearer than promised


def run(model, inputs) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and probabilities by onnxruntime."""
    content = model if isinstance(model, bytes) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would wait for it by spinning
    prediction, chances = onnxruntime.InferenceSession(content, options).run(None, inputs)
    return prediction, chances


def columns_of(table: pd.DataFrame, encoder: TableEncoder) -> dict[str, np.ndarray]:
    """Return the inputs of a graph: numbers and days as doubles, text with nothing where it is missing."""
    inputs = {}
    for rule in encoder.rules:
        column = table[rule.source]
        if rule.kind == "category":
            values = column.fillna("").to_numpy(dtype=object)
        elif rule.kind == "date":
            days = (column - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
            values = days.to_numpy(dtype=np.float64)
        else:
            values = column.to_numpy(dtype=np.float64)
        inputs[rule.source] = values[:, None]
    return inputs


def make_table(n: int, seed: int) -> pd.DataFrame:
    """Return columns of every kind, with holes; one column has the name of an output, and one is missing or constant."""
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 12, n)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "income": np.exp(rng.normal(10, 1.5, n)),
            "children": rng.integers(0, 4, n),
            "prediction": rng.random(n) < 0.3,
            "only where": np.where(rng.random(n) < 0.5, 1.0, np.nan),
            "since": np.datetime64("2015-01-01") + rng.integers(0, 3000, n).astype("timedelta64[D]"),
            "home": pd.Series(rng.choice(["own", "rent", "none at all"], n)).where(rng.random(n) > 0.15, None),
            "region": rng.choice(["north", "süd", "east"], n),
        }
    )


def score_of(table: pd.DataFrame) -> np.ndarray:
    noise = np.random.default_rng(9).normal(size=len(table))
    return (
        table["age"].fillna(50).to_numpy() / 10
        + 2.0 * (table["home"] == "own").to_numpy()
        + np.log(table["income"]).to_numpy() * (table["region"] == "north").to_numpy() / 4
        + noise
    )


def make_blend(learners, n_classes, table, encoder, rows=250) -> Blend:
    X, score = encoder.encode(table), score_of(table)
    classes = np.array(["low", "middle", "high"][:n_classes])
    codes = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    population = Population.of(X, groups=encoder.groups)
    return fit_blend(population, X[:rows], codes[:rows], np.ones(rows), classes, learners).blend


@pytest.fixture(scope="module")
def tables():
    log, new = make_table(600, 0), make_table(2000, 1)
    new.loc[:9, "region"] = "mars"
    new.loc[10:19, "income"] = [0.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 1.0, 2.0, 3.0, 4.0]
    return log, new, TableEncoder.learn([log])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_each_learner_equals_ours_over_raw_columns(learner, n_classes, tables):
    log, new, encoder = tables
    blend = make_blend((learner,), n_classes, log, encoder)
    assert blend.names == (learner,)
    model = make_onnx(blend, encoder)
    assert [column.name for column in model.graph.input] == [rule.source for rule in encoder.rules]
    _, chances = run(model, columns_of(new, encoder))
    assert np.abs(chances - blend.predict_proba(encoder.encode(new))).max() < NEAR


@pytest.mark.parametrize("n_classes", [2, 3])
def test_blend_of_all_learners_equals_ours_over_encoded_columns(n_classes, tables):
    log, new, encoder = tables
    members = [make_blend((name,), n_classes, log, encoder) for name in LEARNERS]
    shares = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    blend = Blend(
        members[0].feature_map, tuple(LEARNERS), tuple(b.members[0] for b in members), shares, members[0].classes_
    )
    X = encoder.encode(new)
    prediction, chances = run(make_onnx(blend, None), {"X": X})
    assert np.abs(chances - blend.predict_proba(X)).max() < NEAR
    assert prediction.tolist() == blend.predict(X).tolist()


def test_leaves_are_the_same_where_a_feature_is_next_to_a_threshold(tables):
    """Thresholds are compared with 32-bit numbers: one that was rounded up would let the next such number pass."""
    log, _, encoder = tables
    blend = make_blend(("forest",), 2, log, encoder)
    trees, columns = blend.members[0], blend.feature_map
    inner = np.flatnonzero(trees.feature >= 0)[:400]
    middle = encoder.encode(log).mean(axis=0)
    rows = []
    for node in inner:
        near = np.float32(trees.threshold[node])
        for value in (near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))):
            row = middle.copy()
            row[trees.feature[node]] = (
                float(value) * columns.scale[trees.feature[node]] + columns.mean[trees.feature[node]]
            )
            rows.append(row)
    X = np.array(rows)
    _, chances = run(make_onnx(blend, None), {"X": X})
    assert np.abs(chances - blend.predict_proba(X)).max() < NEAR


def test_constant_blend_equals_ours():
    X = np.random.default_rng(0).normal(size=(20, 2))
    blend = fit_blend(Population.of(X), X, np.ones(20, dtype=int), np.ones(20), np.array([0, 1])).blend
    prediction, chances = run(make_onnx(blend, None), {"X": X})
    assert np.abs(chances - blend.predict_proba(X)).max() < NEAR
    assert prediction.tolist() == [1] * 20


def make_run(method, **goals):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] - X[:, 1] ** 2 + 0.5 * rng.normal(size=600) > 0.3).astype(int)
    chance = np.where(X[:, 0] > 0, 0.8, 0.2)
    shown = rng.random(300) < chance[:300]
    logged = ob.LoggedData(X[:300], np.where(shown, y[:300], np.nan), chance[:300])
    result = ob.run(logged, ob.Pool(X[300:], chance[300:]), lambda i: y[300:][i], method, label_budget=0, **goals)
    return result.estimator, rng.normal(size=(1000, 3))


@pytest.mark.parametrize("objective", ["recall=0.9", {"1.0": 5}])
def test_objective_brings_its_calibration_and_threshold(objective):
    classifier, X = make_run(ob.AutoVC(learners=("linear", "boosted")), objective=objective)
    prediction, chances = run(make_onnx(classifier, None), {"X": X})
    assert (classifier.shift, classifier.slope) != (0.0, 1.0)
    assert np.abs(chances - classifier.predict_proba(X)).max() < NEAR
    assert prediction.tolist() == classifier.predict(X).tolist()
    assert (prediction != chances.argmax(axis=1)).any()


def test_factors_of_several_classes_decide_as_ours_do(tables):
    log, new, encoder = tables
    classifier = FactorClassifier(make_blend(("linear",), 3, log, encoder), np.array([1.0, 1.0, 6.0]))
    X = encoder.encode(new)
    prediction, chances = run(make_onnx(classifier, None), {"X": X})
    assert prediction.tolist() == classifier.predict(X).tolist()
    assert (classifier.predict(X) != classifier.classes_[chances.argmax(axis=1)]).any()


def test_linear_newton_equals_ours():
    classifier, X = make_run(ob.NewtonVC(features="linear"))
    prediction, chances = run(make_onnx(classifier, None), {"X": X})
    assert np.abs(chances - classifier.predict_proba(X)).max() < NEAR
    assert prediction.tolist() == classifier.predict(X).tolist()


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (
            ob.NewtonVC(features="splines"),
            "A model of NewtonVC with splines or random cosines cannot be written as ONNX",
        ),
        (ob.AutoVC(learners=(("mine", LogisticRegression()),)), "The learner 'mine' cannot be written as ONNX"),
        (ob.CommitteeVC(LogisticRegression()), "A VotingClassifier cannot be written as ONNX"),
    ],
)
def test_model_that_has_no_graph_is_refused(method, sentence):
    classifier, _ = make_run(method)
    with pytest.raises(InvalidInput, match=sentence):
        make_onnx(classifier, None)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InvalidInput, match=r"install it with pip install 'observal\[onnx\]'"):
        make_onnx(None, None)


def test_export_writes_a_graph_of_campaign_and_model_file(tables, tmp_path):
    log, new, _ = tables
    log = log.assign(y=np.where(score_of(log) > 7, "yes", "no"), q=0.5, id=np.arange(600))
    pool = log[300:].drop(columns="y")
    log[:300].to_csv(tmp_path / "log.csv", index=False)
    pool.to_csv(tmp_path / "pool.csv", index=False)
    campaign = Campaign.create(
        tmp_path / "c.db",
        tmp_path / "log.csv",
        tmp_path / "pool.csv",
        label="y",
        propensity="q",
        id="id",
        label_budget=10,
    )
    campaign.export(tmp_path / "python.onnx")
    done = observal("export", "c.db", "command.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Model: command.onnx. Inputs: age, income,")
    encoder = campaign.settings.encoder
    save_model(tmp_path / "m.model", campaign.estimator, encoder)
    assert observal("export", "m.model", "converted.onnx", cwd=tmp_path).returncode == 0
    files = {(tmp_path / f"{name}.onnx").read_bytes() for name in ("python", "command", "converted")}
    assert len(files) == 1
    prediction, chances = run(files.pop(), columns_of(new, encoder))
    X = encoder.encode(new)
    assert np.abs(chances - campaign.estimator.predict_proba(X)).max() < NEAR
    assert prediction.tolist() == campaign.estimator.predict(X).tolist()
    again = observal("export", "c.db", "command.onnx", cwd=tmp_path)
    assert "already exists" in again.stderr

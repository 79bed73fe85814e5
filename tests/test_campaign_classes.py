"""Campaigns with more than two classes, and with a scikit-learn pipeline of one's own."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import observal as ob
from observal.campaign import Campaign, load_model
from observal.errors import InvalidInput, InvalidLabel
from observal.journal import codec
from observal.report.campaign_report import write_campaign_report

N = 200
X = np.random.default_rng(0).normal(size=(2 * N, 2))
Y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.4, 0.5])]


def tables(labels=Y):
    rng = np.random.default_rng(1)
    columns = {"a": X[:, 0], "b": X[:, 1], "q0": np.full(2 * N, 0.3), "id": np.arange(2 * N)}
    log = pa.table(
        {name: column[:N] for name, column in columns.items()} | {"y": pa.array(labels[:N], mask=rng.random(N) > 0.3)}
    )
    return log, pa.table({name: column[N:] for name, column in columns.items()})


def make(where, method):
    return Campaign.create(
        where, *tables(), label="y", propensity="q0", id="id", label_budget=8, method=method, random_state=3
    )


def work(campaign):
    while batch := campaign.ask():
        campaign.tell(batch.ids, [Y[i] for i in batch.ids])


def test_a_campaign_has_three_classes_from_table_to_model(tmp_path):
    campaign = make(tmp_path / "c.db", ob.AutoVC(batch=4, learners=("linear", "forest")))
    work(campaign)
    again = Campaign.open(tmp_path / "c.db")
    assert again.status().classes == ("high", "low", "middle")
    assert again.intervals()["error"].high < 0.5
    page = write_campaign_report(again, tmp_path / "r.html").read_text()
    assert all(name in page for name in ("high", "low", "middle"))
    again.export(tmp_path / "m.skops")
    model = load_model(tmp_path / "m.skops")
    assert model.score(tables()[1], Y[N:]) > 0.85
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(model[-1], "coef_")  # a blend is not linear


def test_an_exported_linear_model_has_its_weights(tmp_path):
    two = np.where(Y == "high", "high", "other")
    method = ob.NewtonVC(ridge=0.01, tempering=0.5)
    campaign = Campaign.create(tmp_path / "c.db", *tables(two), label="y", propensity="q0", id="id", method=method)
    campaign.export(tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops")[-1].coef_.tolist() == campaign.estimator.coef_.tolist()


def my_pipeline():
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = ColumnTransformer([("a", StandardScaler(), [0]), ("b", OneHotEncoder(handle_unknown="ignore"), [1])])
    return Pipeline([("columns", columns), ("classifier", LogisticRegression(C=0.5))])


ANOTHER_PROCESS = """
import sys
from observal.campaign import Campaign
print(sorted(Campaign.open(sys.argv[1]).ask().ids))
"""


def test_ones_own_pipeline_is_stored_by_its_settings_and_asks_in_another_process(tmp_path):
    for name in ("c.db", "copy.db"):
        make(tmp_path / name, ob.CommitteeVC(my_pipeline(), members=2, batch=4))
    command = [sys.executable, "-c", ANOTHER_PROCESS, tmp_path / "copy.db"]
    asked = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first = Campaign.open(tmp_path / "c.db")
    assert asked.strip() == str(sorted(first.ask().ids))
    assert str(Campaign.open(tmp_path / "c.db").settings.method.estimator) == str(my_pipeline())
    assert b"pickle" not in (tmp_path / "c.db").read_bytes()
    work(first)
    assert first.estimator.score(X[N:], Y[N:]) > 0.7


def test_a_campaign_refuses_what_is_not_scikit_learns(tmp_path):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    class Mine(LogisticRegression):
        pass

    for estimator, said in (
        (Mine(), "Mine"),
        (make_pipeline(FunctionTransformer(np.log), LogisticRegression()), "ufunc"),
    ):
        with pytest.raises(InvalidInput, match=said):
            make(tmp_path / "c.db", ob.CommitteeVC(estimator))
    with pytest.raises(InvalidInput, match="not one of scikit-learn"):
        codec.decode({"estimator": "os.system", "settings": {}})


def test_a_label_column_of_numbers_is_no_class():
    labels = np.arange(2 * N) / 7.0
    with pytest.raises(InvalidLabel, match=r"shows \d+ different values in \d+ labels"):
        Campaign.create("nowhere.db", *tables(labels), label="y", propensity="q0", id="id")

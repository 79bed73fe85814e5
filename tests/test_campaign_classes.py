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
from tests.hostile import nothing_happens

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


def test_campaign_has_three_classes_from_table_to_model(tmp_path):
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


def test_exported_linear_model_has_its_weights(tmp_path):
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


def test_campaign_refuses_what_is_not_scikit_learns(tmp_path):
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


@pytest.mark.parametrize("memory", ["/any/path", ["/any/path"], ("a", "b")])
def test_campaign_refuses_a_folder_for_a_pipeline(tmp_path, memory):
    pipeline = my_pipeline().set_params(memory=memory)
    with pytest.raises(InvalidInput, match=r"the method has CommitteeVC\..*Pipeline\.memory: .*(any/path|'a')"):
        make(tmp_path / "c.db", ob.CommitteeVC(pipeline))


def test_campaign_stores_every_kind_of_parameter():
    from sklearn.compose import ColumnTransformer
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
    from sklearn.feature_selection import SelectFromModel
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import FeatureUnion, make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OrdinalEncoder, StandardScaler

    homes = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OrdinalEncoder(categories=[["own"]]))
    columns = ColumnTransformer([("homes", homes, ["home"]), ("age", "passthrough", "age")], remainder="passthrough")
    union = FeatureUnion([("one", StandardScaler()), ("two", MinMaxScaler(feature_range=(-1, 1)))])
    votes = VotingClassifier([("a", GaussianNB(priors=np.array([0.5, 0.5]))), ("b", LogisticRegression(max_iter=7))])
    votes.set_params(voting="soft", weights=[1.0, 2.0])
    trees = HistGradientBoostingClassifier(categorical_features=["home"], class_weight={"good": 2.0, "bad": 1.0})
    chosen = make_pipeline(
        SelectFromModel(LogisticRegressionCV(scoring="accuracy"), threshold="1.25*mean"),
        DummyClassifier(strategy="constant", constant="good"),
    )
    balanced = LogisticRegression(class_weight="balanced")
    for estimator in (make_pipeline(columns, union, votes), trees, chosen, balanced):
        assert str(codec.decode(codec.encode_entry(estimator))) == str(estimator)


PIPELINE = "sklearn.pipeline.Pipeline"
FOREIGN = {
    "a folder": {"estimator": PIPELINE, "settings": {"steps": {"list": []}, "memory": "/any/path"}},
    "a folder in a list": {"estimator": PIPELINE, "settings": {"steps": {"list": []}, "memory": {"list": ["/x"]}}},
    "text in a dictionary": {
        "estimator": "sklearn.preprocessing._function_transformer.FunctionTransformer",
        "settings": {"kw_args": {"dict": {"path": "/x"}}},
    },
    "a choice that does not exist": {
        "estimator": "sklearn.linear_model._logistic.LogisticRegression",
        "settings": {"solver": "/x"},
    },
    "a scorer that does not exist": {
        "estimator": "sklearn.linear_model._logistic.LogisticRegressionCV",
        "settings": {"scoring": "/x"},
    },
    "a threshold that is not one": {
        "estimator": "sklearn.feature_selection._from_model.SelectFromModel",
        "settings": {"threshold": "mean/x"},
    },
    "a path of attributes": {
        "estimator": "sklearn.feature_selection._rfe.RFE",
        "settings": {"importance_getter": "a.b.c"},
    },
    "an array of text": {
        "estimator": "sklearn.naive_bayes.GaussianNB",
        "settings": {"priors": {"objects": ["/x"]}},
    },
    "a record of ours": {
        "estimator": "sklearn.naive_bayes.GaussianNB",
        "settings": {"priors": {"type": "Thresholds", "fields": {}}},
    },
}


@pytest.mark.parametrize("what", FOREIGN)
@pytest.mark.parametrize("nested", [False, True])
def test_parameter_that_a_file_may_not_give_is_refused_when_read(what, nested):
    encoded = FOREIGN[what]
    if nested:
        step = {"tuple": ["step", encoded]}
        encoded = {"estimator": PIPELINE, "settings": {"steps": {"list": [step]}}}
    encoded = {"type": "CommitteeVC", "fields": {"estimator": encoded}}
    with nothing_happens(), pytest.raises(InvalidInput, match="which a file may not do"):
        codec.decode(encoded)


def test_numeric_label_column_is_refused():
    labels = np.arange(2 * N) / 7.0
    with pytest.raises(InvalidLabel, match=r"shows \d+ different values in \d+ labels"):
        Campaign.create("nowhere.db", *tables(labels), label="y", propensity="q0", id="id")

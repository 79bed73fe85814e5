"""Rows and columns by name: answers with an index and tables with column names are aligned, arrays stay as they are."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import observal as ob
from observal.campaign import load_model
from observal.diagnosis import diagnose
from observal.errors import InvalidInput, ObservalWarning
from observal.exchange.scored_table import score_table
from observal.report.content import ReportContent
from tests.campaigns import METHOD
from tests.command import observal
from tests.serving import site

RNG = np.random.default_rng(0)
N, M = 240, 120  # rows, and those of them in the log
NAMES = ["x0", "debt", "age"]
OTHER = ["age", "x0", "debt"]
TABLE = pd.DataFrame(RNG.normal(size=(N, 3)) * [1.0, 10.0, 100.0], columns=NAMES)
Y = np.where(TABLE["debt"] + 2.0 * TABLE["x0"] > 1.0, "bad", "good")
CHANCE = np.where(TABLE["x0"] > 0, 0.7, 0.2)
SHOWN = RNG.random(M) < CHANCE[:M]
IDS = np.array([f"L{k:03d}" for k in RNG.permutation(N - M)])
TRUTH = pd.Series(Y[M:], index=IDS)
NEW = TABLE.iloc[:50] + 0.1
LIBRARIES = {"pandas": lambda table: table, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


def make_log(table=TABLE):
    return ob.LoggedData(
        table.iloc[:M] if isinstance(table, pd.DataFrame) else table, np.where(SHOWN, Y[:M], None), CHANCE[:M]
    )


def make_pool(table=TABLE, ids=IDS):
    return ob.Pool(table.iloc[M:] if isinstance(table, pd.DataFrame) else table, CHANCE[M:], ids)


def run(oracle, pool=None, log=None, method=METHOD, label_budget=16, **options):
    return ob.run(log or make_log(), pool or make_pool(), oracle, method, label_budget, **options)


def by_position(ids):
    return TRUTH[ids].to_list()


def labels_of(result):
    return list(zip(result.queries["id"], result.queries["label"], strict=True))


# -- answers -----------------------------------------------------------------------------------------------------------

TOLD = {
    "series in another order": lambda ids: TRUTH[TRUTH.index.isin(ids)].sort_index(),
    "series with other ids": lambda ids: TRUTH.sort_index(),
    "mapping": lambda ids: dict(sorted(TRUTH.items())),
    "series by position": lambda ids: TRUTH[ids].reset_index(drop=True),
    "polars": lambda ids: pl.Series(by_position(ids)),
}


@pytest.mark.parametrize("form", TOLD)
def test_labels_of_oracle_go_by_id_where_they_have_names(form):
    assert labels_of(run(TOLD[form])) == labels_of(run(by_position))


@pytest.fixture(params=["session", "campaign"])
def labelling(request, tmp_path):
    if request.param == "session":
        return ob.Session(make_log(), make_pool(), METHOD, 16)
    return ob.Campaign.create_from_arrays(tmp_path / "c.db", make_log(), make_pool(), method=METHOD, label_budget=16)


@pytest.mark.parametrize("form", [*TOLD, "one mapping", "one series", "columns of one table"])
def test_labels_told_go_by_id_where_they_have_names(labelling, form):
    ids = list(labelling.ask().ids)
    if form == "one mapping":
        labelling.tell({id_: TRUTH[id_] for id_ in reversed(ids)})
    elif form == "one series":
        labelling.tell(TRUTH[ids[::-1]])
    elif form == "columns of one table":
        table = pd.DataFrame({"id": ids, "label": by_position(ids)}).iloc[::-1]
        labelling.tell(table["id"], table["label"])
    else:
        labelling.tell(ids, TOLD[form](ids))
    labels = dict(labels_of(labelling.result()))
    assert labels == {id_: TRUTH[id_] for id_ in ids}


def test_missing_label_may_be_in_a_mapping_or_series():
    session = ob.Session(make_log(), make_pool(), METHOD, 16)
    first, second = session.ask().ids[:2]
    session.tell({first: None})
    session.tell(pd.Series([np.nan], index=[second]))
    session.tell([], {})
    assert (session.labels, session.status().skipped) == (0, 2)


@pytest.mark.parametrize(
    ("labels", "seen"),
    [
        (lambda ids: TRUTH[ids[1:]], "there are 0 for 'L"),
        (lambda ids: pd.concat([TRUTH[ids], TRUTH[ids[:1]]]), "there are 2 for 'L"),
        (lambda ids: {ids[0]: "bad"}, "there are 0 for 'L"),
        (lambda ids: pd.Series(by_position(ids), index=range(5, 5 + len(ids))), "there are 0 for 'L"),
    ],
)
def test_labels_that_do_not_name_each_id_once_are_refused(labelling, labels, seen):
    ids = list(labelling.ask().ids)
    with pytest.raises(InvalidInput, match=f"must have one label for each id, but {seen}.*; make the ids its index"):
        labelling.tell(ids, labels(ids))
    assert labelling.labels == 0


def test_ids_in_a_series_twice_are_refused():
    session = ob.Session(make_log(), make_pool(), METHOD, 16)
    ids = session.ask().ids
    with pytest.raises(InvalidInput, match="there are 2 for 'L"):
        session.tell(pd.concat([TRUTH[ids], TRUTH[ids[:1]]]))
    with pytest.raises(InvalidInput, match="tell needs one label for each id, but got 8 ids and 0 labels"):
        session.tell(ids)


def test_numbers_of_pandas_go_by_position_unless_they_may_be_the_ids():
    pool, truth = ob.Pool(TABLE.iloc[M : M + 4], CHANCE[M : M + 4]), Y[M : M + 4]
    ids = [3, 1, 2, 0]
    ordered = ob.Session(make_log(), pool, METHOD, 4)
    assert sorted(ordered.ask().ids) == [0, 1, 2, 3]
    with pytest.raises(InvalidInput, match=r"but the ids are numbered in another order; .* labels.to_numpy\(\) in"):
        ordered.tell(ids, pd.Series(truth[ids]))
    ordered.tell([3, 1], pd.Series(truth[[3, 1]]))  # 3 is not among 0 and 1
    ordered.tell([2, 0], pd.Series(truth))  # the labels of all rows
    assert dict(labels_of(ordered.result())) == dict(enumerate(truth.tolist()))
    named = ob.Session(make_log(), pool, METHOD, 4)
    named.ask()
    named.tell(ids, pd.Series(truth, index=pd.Index([0, 1, 2, 3]).astype("int64").to_numpy()))
    assert dict(labels_of(named.result())) == dict(enumerate(truth.tolist()))


def test_text_of_ids_is_enough():
    session = ob.Session(make_log(), make_pool(ids=None), METHOD, 16)
    ids = session.ask().ids
    session.tell(ids, {str(id_): Y[M + id_] for id_ in reversed(ids)})
    assert all(label == Y[M + id_] for id_, label in labels_of(session.result()))


def test_answers_in_a_file_or_on_the_page_go_by_id(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    campaign = ob.Campaign.create_from_arrays(where, make_log(), make_pool(), method=METHOD, label_budget=8)
    ids = list(campaign.ask().ids)
    campaign.release("anyone")
    TRUTH[ids[:4]].sort_index().rename("label").to_csv(tmp_path / "answers.csv", index_label="id")
    done = observal("tell", where, tmp_path / "answers.csv")
    assert done.returncode == 0, done.stderr
    with site(monkeypatch, where) as found:
        ann = found.browser("ann")
        rows = [row["id"] for row in ann.ask()["rows"]]
        assert set(rows) == set(ids[4:])
        assert ann.tell(TRUTH[rows].sort_index().items()).status_code == 200
    assert dict(labels_of(ob.Campaign.open(where).result())) == {id_: TRUTH[id_] for id_ in ids}


# -- columns of log and pool -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_pool_in_other_column_order_is_aligned_with_the_log(library):
    make = LIBRARIES[library]
    log = ob.LoggedData(make(TABLE.iloc[:M]), np.where(SHOWN, Y[:M], None), CHANCE[:M])
    same, other = (ob.Pool(make(TABLE.iloc[M:][names]), CHANCE[M:], IDS) for names in (NAMES, OTHER))
    first, second = (run(by_position, pool, log) for pool in (same, other))
    assert labels_of(first) == labels_of(second)
    assert first.error_interval == second.error_interval
    assert ob.Problem(log, other).pool.X.tolist() == TABLE[M:].to_numpy().tolist()


def test_tables_with_roles_are_aligned():
    table = TABLE.assign(chance=CHANCE, label=Y)
    logged = ob.LoggedData.from_frame(table[:M], label="label", propensity="chance")
    pool = ob.Pool.from_frame(table[M:][["chance", *OTHER]], propensity="chance")
    aligned = ob.Problem(logged, pool).pool
    assert aligned.X.tolist() == TABLE[M:].to_numpy().tolist()
    assert aligned.frame.names == NAMES
    assert pool.frame.names == OTHER  # the user's own is not changed
    with pytest.warns(
        ObservalWarning, match=r"The pool has columns that are ignored, as the log has none: \['label'\]\."
    ):
        ob.Problem(logged, ob.Pool.from_frame(table[M:], propensity="chance"))


def test_columns_with_text_are_aligned():
    text = TABLE.assign(note=np.where(Y == "bad", "paid late", "paid"))
    method = ob.CommitteeVC(make_pipeline(make_column_transformer((CountVectorizer(), "note")), LogisticRegression()))
    pool = text[["note", *OTHER]].assign(extra="?")
    with pytest.warns(ObservalWarning, match="extra"):
        result = run(by_position, make_pool(pool), make_log(text), method)
    assert labels_of(result) == labels_of(run(by_position, make_pool(text), make_log(text), method))
    assert result.estimator.predict(text[["note", *OTHER]]).tolist() == result.estimator.predict(text).tolist()


def test_columns_with_numbers_as_names_are_aligned():
    table = TABLE.set_axis([7, 8, 9], axis=1)
    assert ob.Problem(make_log(table), make_pool(table[[9, 7, 8]])).pool.X.tolist() == TABLE[M:].to_numpy().tolist()


def test_parquet_files_are_aligned(tmp_path):
    table = TABLE.assign(chance=CHANCE, label=np.where(np.arange(N) < M, Y, None))
    pq.write_table(pa.Table.from_pandas(table[:M]), tmp_path / "log.parquet")
    pq.write_table(pa.Table.from_pandas(table[M:][["chance", "label", *OTHER]]), tmp_path / "pool.parquet")
    logged = ob.LoggedData.from_parquet(tmp_path / "log.parquet", label="label", propensity="chance")
    with pytest.warns(ObservalWarning, match="'extra'"):
        ob.Problem(logged, make_pool(TABLE.assign(extra=1.0)))
    pool = ob.Pool.from_parquet(tmp_path / "pool.parquet", propensity="chance", features=OTHER)
    problem = ob.Problem(logged, pool)
    assert problem.pool.rows.to_matrix().tolist() == TABLE[M:].to_numpy().tolist()
    estimator = run(lambda ids: Y[M:][ids], pool, logged).estimator
    assert estimator.predict(pool.X).tolist() == estimator.predict(TABLE[M:]).tolist()


def test_missing_columns_of_the_pool_are_refused():
    sentence = (
        "The pool must have the columns of the log by name, but has no 'debt'; add what is missing, or give an array"
    )
    for pool in (TABLE[["x0", "age"]], TABLE.rename(columns={"debt": "debts"})):
        with pytest.raises(InvalidInput, match=sentence):
            ob.Problem(make_log(), make_pool(pool))
    with pytest.raises(
        InvalidInput, match="Log and pool must have the same features, but the log has 3 columns and the pool 2; give"
    ):
        ob.Problem(make_log(), ob.Pool(TABLE.to_numpy()[:, :2], 0.5))


def test_arrays_stay_by_position():
    X = TABLE[OTHER].to_numpy()
    assert ob.Problem(make_log(), ob.Pool(X, 0.5)).pool.X.tolist() == X.tolist()
    array_log = ob.LoggedData(X[:M], np.where(SHOWN, Y[:M], None), CHANCE[:M])
    assert ob.Problem(array_log, make_pool()).pool.X.tolist() == TABLE[M:].to_numpy().tolist()
    estimator = run(by_position).estimator
    assert estimator.predict_proba(NEW.to_numpy()).tolist() == estimator.predict_proba(NEW).tolist()
    arrays = ob.run(array_log, ob.Pool(X[M:], CHANCE[M:]), lambda ids: Y[M:][ids], METHOD, 8).estimator
    numbered = NEW[OTHER].set_axis(["x2", "x1", "x0"], axis=1)
    assert arrays.predict_proba(numbered).tolist() == arrays.predict_proba(NEW[OTHER].to_numpy()).tolist()


def test_report_and_diagnosis_align_the_pool():
    result = run(by_position)
    content = ReportContent("Loans", make_log(), make_pool(TABLE[OTHER]), result, feature_names=NAMES)
    assert content.pool.X.tolist() == TABLE[M:].to_numpy().tolist()
    one, other = (diagnose(make_log(), make_pool(TABLE[names]), feature_names=NAMES) for names in (NAMES, OTHER))
    assert (one.overlap, one.drift) == (other.overlap, other.drift)


# -- predictions -------------------------------------------------------------------------------------------------------

METHODS = {
    "newton": (METHOD, {}),
    "auto": (ob.AutoVC(), {}),
    "threshold": (METHOD, {"objective": "recall=0.8"}),
    "exact": (ob.ExactDBAL(ob.Thresholds(feature=1), gamma=0.05), {}),
    "passive": (ob.Passive(), {}),
}


@pytest.mark.parametrize("name", METHODS)
def test_table_to_predict_is_aligned_with_training(name):
    method, options = METHODS[name]
    result = run(by_position, method=method, **options)
    for estimator in (result.estimator, pickle.loads(pickle.dumps(result.estimator)), result.rounds[0].estimator):
        for verb in ("predict", "predict_proba", "decision_function"):
            if predict := getattr(estimator, verb, None):
                expected = predict(NEW.to_numpy())
                same = np.array_equal if verb == "predict" else np.allclose  # sums round by their order in memory
                assert all(same(predict(make(NEW[OTHER])), expected) for make in LIBRARIES.values())
    with pytest.warns(
        ObservalWarning, match=r"The table to predict has columns that are ignored, as the log has none: \['note'\]\."
    ):
        aligned = result.estimator.predict(NEW[OTHER].assign(note="text"))
    assert aligned.tolist() == result.estimator.predict(NEW).tolist()
    with pytest.raises(
        InvalidInput, match="The table to predict must have the columns of the log by name, but has no 'x0', 'age'"
    ):
        result.estimator.predict(NEW[["debt"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.estimator.predict(NEW)


def test_saved_session_knows_columns(tmp_path):
    session = ob.Session(make_log(), make_pool(), METHOD, 8)
    session.tell(TRUTH[session.ask().ids])
    session.save(tmp_path / "s.session")
    estimator = ob.Session.load(tmp_path / "s.session").result().estimator
    assert estimator.predict_proba(NEW[OTHER]).tolist() == estimator.predict_proba(NEW.to_numpy()).tolist()


@pytest.mark.parametrize("options", [{}, {"method": ob.AutoVC(), "objective": "recall=0.8"}])
def test_campaign_and_its_model_file_know_columns(tmp_path, options):
    options = {"method": METHOD, "label_budget": 8, **options}
    ob.Campaign.create_from_arrays(tmp_path / "c.db", make_log(), make_pool(TABLE[OTHER]), **options)
    campaign = ob.Campaign.open(tmp_path / "c.db")
    batch = campaign.ask()
    first = batch.rows.to_pylist()[0]
    assert {name: first[name] for name in NAMES} == TABLE.iloc[M + IDS.tolist().index(first["id"])].to_dict()
    campaign.tell(TRUTH[list(batch.ids)])
    campaign.export(tmp_path / "c.model")
    for model in (campaign.estimator, campaign.session().estimator, load_model(tmp_path / "c.model")):
        assert model.predict_proba(NEW[OTHER]).tolist() == model.predict_proba(NEW.to_numpy()).tolist()
        with pytest.raises(InvalidInput, match="has no 'debt'"):
            model.predict(NEW[["age", "x0"]])


def test_campaign_from_arrays_reads_tables_by_position(tmp_path):
    arrays = ob.LoggedData(make_log().X, make_log().y, CHANCE[:M]), ob.Pool(make_pool().X, CHANCE[M:])
    campaign = ob.Campaign.create_from_arrays(tmp_path / "c.db", *arrays, method=METHOD, label_budget=8)
    model = campaign.estimator
    assert model.predict_proba(NEW[OTHER]).tolist() == model.predict_proba(NEW[OTHER].to_numpy()).tolist()


def test_new_rows_of_a_campaign_are_aligned(tmp_path):
    campaign = ob.Campaign.create_from_arrays(tmp_path / "c.db", make_log(), make_pool(), method=METHOD, label_budget=8)
    ids = [f"M{k}" for k in range(len(NEW))]
    campaign.extend(pool=ob.Pool(NEW[OTHER], 0.5, ids))
    assert campaign.problem.pool.X[-len(NEW) :].tolist() == NEW.to_numpy().tolist()
    with pytest.raises(InvalidInput, match="The new pool must have the columns of the log by name, but has no 'age'"):
        campaign.extend(pool=ob.Pool(NEW.drop(columns="age"), 0.5, ids))
    with pytest.raises(InvalidInput, match="the log has 3 columns and the new pool 2; give both the same columns"):
        campaign.extend(pool=ob.Pool(NEW.to_numpy()[:, :2], 0.5, ids))


def test_scored_table_and_onnx_go_by_name(tmp_path):
    labels = np.where(SHOWN, Y[:M], None)
    options = {"label": "y", "propensity": "chance", "method": METHOD, "label_budget": 0}
    log, pool = TABLE[:M].assign(y=labels, chance=CHANCE[:M]), TABLE[M:].assign(chance=CHANCE[M:])
    campaign = ob.Campaign.create(tmp_path / "c.db", log, pool[["chance", *OTHER]], **options)
    campaign.export(tmp_path / "c.model")
    model = load_model(tmp_path / "c.model")
    for number, names in enumerate((NAMES, OTHER)):
        NEW[names].to_csv(tmp_path / f"{number}.csv", index=False)
        score_table(model, tmp_path / f"{number}.csv", tmp_path / f"scored{number}.csv")
    assert (tmp_path / "scored0.csv").read_text() == (tmp_path / "scored1.csv").read_text()
    assert model.predict_proba(NEW[OTHER]).tolist() == model.predict_proba(NEW).tolist()
    onnxruntime = pytest.importorskip("onnxruntime")
    campaign.export(tmp_path / "c.onnx")
    session = onnxruntime.InferenceSession((tmp_path / "c.onnx").read_bytes())
    feed = {name: NEW[[name]].to_numpy(np.float64) for name in OTHER}
    assert np.allclose(session.run(None, feed)[1], model.predict_proba(NEW), atol=1e-6)


def test_learners_of_scikit_learn_refuse_columns_in_another_order():
    for model in (ob.BlendClassifier(("linear",)), ob.LoggedClassifier()):
        model.fit(TABLE, Y)
        with pytest.raises(ValueError, match="Feature names must be in the same order"):
            model.predict(TABLE[OTHER])


def test_committee_of_scikit_learn_refuses_columns_in_another_order():
    result = run(by_position, method=ob.CommitteeVC(LogisticRegression(), members=2), label_budget=0)
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        result.estimator.predict(TABLE[OTHER])
    assert result.estimator.predict(TABLE).shape == (N,)

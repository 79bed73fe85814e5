"""Tables with text, categories and missing values: they reach CommitteeVC's estimator as they are, and are refused in one sentence elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import observal as ob
from observal.errors import InvalidInput
from observal.problem.frames import Frame, difference

N, M = 240, 120  # rows, and those of them in the log
RNG = np.random.default_rng(0)
HOME = RNG.choice(["own", "rent", "other"], N)
NOTE = RNG.choice(["late payment", "paid in full", "moved house"], N)
INCOME = np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(30, 10, N))
Y = np.where((NOTE == "late payment") | (HOME == "rent"), "bad", "good")
CHANCE = np.where(HOME == "own", 0.8, 0.2)
SHOWN = RNG.random(M) < CHANCE[:M]
PANDAS = pd.DataFrame(
    {
        "note": pd.Series(NOTE).where(RNG.random(N) > 0.1),
        "home": pd.Categorical(HOME, ["other", "own", "rent"]),
        "income": INCOME.astype(np.float32),
        "kids": pd.array(RNG.integers(0, 4, N), dtype="Int64"),
        "since": pd.date_range("2020-01-01", periods=N),
    },
).set_index(np.arange(N)[::-1])
FRAMES = {
    "pandas": PANDAS,
    "polars": pl.from_pandas(PANDAS),
    "pyarrow": pa.Table.from_pandas(PANDAS, preserve_index=False),
}
SEEN: list = []


class Spy(TransformerMixin, BaseEstimator):
    """Notes every table that it is given, and hands on two columns as numbers."""

    def fit(self, X, y=None):
        SEEN.append(("fit", X))
        return self

    def transform(self, X):
        SEEN.append(("transform", X))
        late = ["late" in str(note) for note in list(X["note"])]
        rents = ["rent" in str(home) for home in list(X["home"])]
        return np.column_stack([late, rents]).astype(float)


def rows_of(frame, begin, end):
    return frame.iloc[begin:end] if hasattr(frame, "iloc") else frame[begin:end]


def world(frame, **how):
    return (
        ob.LoggedData(rows_of(frame, 0, M), np.where(SHOWN, Y[:M], None), CHANCE[:M]),
        ob.Pool(rows_of(frame, M, N), CHANCE[M:]),
    )


def oracle(ids):
    return Y[M:][ids]


@pytest.mark.parametrize("library", FRAMES)
def test_pipeline_is_given_the_users_table(library):
    frame, logged_and_pool = FRAMES[library], world(FRAMES[library])
    SEEN.clear()
    method = ob.CommitteeVC(make_pipeline(Spy(), LogisticRegression()), members=2, batch=5)
    result = ob.run(*logged_and_pool, oracle, method, label_budget=5)
    assert result.estimator.score(frame, Y) > 0.9  # a tenth of the notes is missing
    assert {kind for kind, _ in SEEN} == {"fit", "transform"}
    whole = Frame(frame, "all")
    for _, given in SEEN:
        assert type(given) is type(frame)
        assert Frame(given, "given").names == whole.names
        assert Frame(given, "given").types == whole.types
    largest = max((given for _, given in SEEN), key=len)
    assert len(largest) == N
    assert list(largest["note"])[:5] == pytest.approx(list(frame["note"])[:5], nan_ok=True)
    if library == "pandas":
        assert result.error_interval.high < 0.6
        for kind, given in SEEN:  # every row is one of the user's own, gaps and all
            if kind == "fit":
                pd.testing.assert_frame_equal(given, frame.loc[given.index])


def test_ordinary_pipelines_accept_text_and_missing_values():
    columns = ColumnTransformer(
        [("home", OneHotEncoder(), ["home"]), ("note", CountVectorizer(), "note")], remainder="drop"
    )
    full = PANDAS.assign(note=PANDAS["note"].fillna(""))
    forest = make_pipeline(columns, RandomForestClassifier(8))
    by_names = ob.run(*world(full), oracle, ob.CommitteeVC(forest, batch=20), label_budget=20)
    assert by_names.estimator.score(full, Y) > 0.95
    assert by_names.error_interval.low <= 0.05
    assert by_names.estimator.feature_names_in_.tolist() == list(full.columns)
    numbers = PANDAS[["home", "income"]]
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=2, min_samples_leaf=3)
    native = ob.run(*world(numbers), oracle, ob.CommitteeVC(trees, members=2, batch=5), label_budget=5)
    assert native.estimator.named_estimators_["own"].estimator.is_categorical_.tolist() == [True, False]
    assert native.estimator.predict(numbers).shape == (N,)
    assert native.estimator.feature_names_in_.tolist() == ["home", "income"]
    X = np.linspace(-1, 1, 2 * N).reshape(N, 2)
    with pytest.raises(InvalidInput, match="an array of numbers without column names"):
        ob.run(*world(X), oracle, ob.CommitteeVC(make_pipeline(columns, LogisticRegression())), label_budget=5)


def test_numeric_table_is_a_table_for_estimators_and_an_array_for_others():
    frame = pd.DataFrame({"a": np.linspace(-1, 1, N), "b": np.arange(N)})
    y = np.where(frame["a"] > 0, "yes", "no")
    logged, pool = (
        ob.LoggedData(frame[:M], np.where(SHOWN, y[:M], None), 0.5, classes=("no", "yes")),
        ob.Pool(frame[M:], 0.5),
    )
    assert isinstance(logged.X, np.ndarray)
    as_array = (
        ob.LoggedData(frame[:M].to_numpy(), logged.y, 0.5, classes=("no", "yes")),
        ob.Pool(frame[M:].to_numpy(), 0.5),
    )
    method = ob.CommitteeVC(RandomForestClassifier(8), batch=5)
    runs = [ob.run(*one, lambda ids: y[M:][ids], method, label_budget=10) for one in ((logged, pool), as_array)]
    assert runs[0].estimator.feature_names_in_.tolist() == ["a", "b"]
    assert runs[0].queries["id"].tolist() == runs[1].queries["id"].tolist()
    linear = [
        ob.run(*one, lambda ids: y[M:][ids], ob.NewtonVC(), label_budget=10) for one in ((logged, pool), as_array)
    ]
    assert linear[0].estimator.coef_.tolist() == linear[1].estimator.coef_.tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_session_over_tables_can_be_saved_and_loaded(library, tmp_path):
    method = ob.CommitteeVC(make_pipeline(Spy(), LogisticRegression()), members=2, batch=5)
    session = ob.Session(*world(FRAMES[library]), method, label_budget=10)
    first = session.ask()
    session.tell(first.ids, oracle(first.ids))
    session.save(tmp_path / "session")
    again = ob.Session.load(tmp_path / "session", method=method)
    assert again.problem.logged.X.types == Frame(FRAMES[library], "all").types
    assert again.ask().ids.tolist() == session.ask().ids.tolist()
    if library == "pandas":
        pd.testing.assert_frame_equal(again.problem.pool.X.native, PANDAS[M:])


def test_saving_a_table_arrow_cannot_hold_raises(tmp_path):
    mixed = PANDAS.assign(note=np.array([1, "late"] * (N // 2), dtype=object))
    session = ob.Session(*world(mixed), ob.CommitteeVC(make_pipeline(Spy(), LogisticRegression()), members=2))
    with pytest.raises(InvalidInput, match="Frame cannot be stored in a file, so nothing was saved"):
        session.save(tmp_path / "session")
    assert not (tmp_path / "session").exists()


def test_table_with_text_raises_where_numbers_are_needed(tmp_path):
    logged, pool = world(PANDAS)
    sentence = "needs finite numbers as features, but column 'note' has missing or other values"
    for refused in (
        lambda: ob.run(logged, pool, oracle),
        lambda: ob.Session(logged, pool, ob.NewtonVC()),
        lambda: ob.diagnose(logged, pool),
        lambda: ob.Campaign.create_from_arrays(
            tmp_path / "c.db", logged, pool, method=ob.CommitteeVC(LogisticRegression())
        ),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            refused()
    with pytest.raises(InvalidInput, match="The log's features must be finite numbers here, but column 'note'"):
        np.asarray(logged.X)
    with pytest.raises(InvalidInput, match="column 'income' has missing or other values"):
        ob.Session(*world(PANDAS[["income"]]), ob.AutoVC())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            PANDAS.drop(columns="kids").assign(age=1),
            "The pool must have the columns of the log by name, but has no 'kids'",
        ),
        (PANDAS.astype({"kids": "float64"}), "'kids' is Int64 in the log and float64 in the pool"),
        (
            PANDAS.assign(home=pd.Categorical(HOME, ["own", "rent", "other", "tent"])),
            "same categories in a column, but those of 'home'",
        ),
        (FRAMES["polars"], "the log is a table of pandas and the pool a table of polars"),
        (np.ones((N, 5)), "the log is a table of pandas and the pool an array"),
    ],
)
def test_log_and_pool_with_different_tables_raise(changed, sentence):
    logged, pool = world(PANDAS)
    part = changed[M:] if isinstance(changed, np.ndarray) else rows_of(changed, M, N)
    with pytest.raises(InvalidInput, match=sentence):
        ob.Session(logged, ob.Pool(part, CHANCE[M:]), ob.CommitteeVC(LogisticRegression()))
    assert difference(logged.frame, pool.frame) is None


def test_ranks_put_missing_values_first():
    kids = pd.array([None if k % 9 == 0 else k % 4 for k in range(N)], dtype="Int64")
    ranks = Frame(pd.DataFrame({"kids": kids}), "log").ranks(np.arange(3))
    assert ranks.ravel().tolist() == [-np.inf, 1.0, 2.0]


def test_column_names_of_mixed_types_are_compared():
    one, other = (pd.DataFrame({name: [1.0], 7: [2.0]}) for name in ("a", "b"))
    with pytest.raises(InvalidInput, match="has no 'a';"):
        ob.Problem(ob.LoggedData(one, [0], 0.5, classes=[0, 1]), ob.Pool(other, 0.5))


def test_shift_between_tables_is_found():
    moved = PANDAS[["home", "income"]].copy()
    moved.loc[moved.index[M:], "income"] += 40
    session = ob.Session(*world(moved), ob.CommitteeVC(HistGradientBoostingClassifier()))
    assert session.settings.goals.population == "pool"
    assert "income is" in session.settings.notes[0]
    assert ob.Session(*world(PANDAS[["home", "income"]]), session.method).settings.goals.population == "both"

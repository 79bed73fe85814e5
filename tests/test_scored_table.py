"""Scoring a table: every row, in its order, with what the model says of it, whatever the kind of file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import observal as ob
from observal.errors import InvalidInput
from observal.exchange import scored_table
from observal.exchange.estimator import make_model
from observal.exchange.model_file import save_model
from observal.tables.spreadsheets import csv_block, csv_text
from tests.campaigns import make_campaign
from tests.command import observal

FEATURES = ["age", "home", "since"]


def make_table(n: int, seed: int) -> pd.DataFrame:
    """Return rows with a number that may be missing, a category, a date, and an id with zeros in front."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 3000, n).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "loan": [f"{k:05d}" for k in range(n)],
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 10, n).round(1)),
            "home": rng.choice(["own", "rent", "a,b"], n),
            "since": np.datetime64("2015-01-01") + days,
            "note": rng.choice(["=1+1", "fine", 'say "so"'], n),
        }
    )


def make_blend(n_classes: int = 2, **goals):
    """Return a model of the default method on such a table."""
    log, pool = make_table(300, 0), make_table(100, 1)
    encoder = ob.TableEncoder.learn([log, pool], features=FEATURES)
    score = (log["age"].fillna(35) + 10 * (log["home"] == "own")).to_numpy()
    y = np.array(["no", "yes", "maybe"])[np.digitize(score, [45.0, 60.0][: n_classes - 1])]
    logged = ob.LoggedData(encoder.encode(log), y, 1.0)
    result = ob.run(logged, ob.Pool(encoder.encode(pool), 0.5), lambda ids: [], label_budget=0, **goals)
    return make_model(result.estimator, encoder)


@pytest.fixture(scope="module")
def model():
    return make_blend()


@pytest.fixture(scope="module")
def table():
    return make_table(500, 2)


def check(scored: pd.DataFrame, model, table: pd.DataFrame, tolerance: float) -> None:
    """Every row must be there, in its order, with the model's own class and chance."""
    assert scored["loan"].tolist() == table["loan"].tolist()
    assert scored["prediction"].tolist() == model.predict(table).tolist()
    chances = model.predict_proba(table)
    assert np.abs(scored["probability of yes"] - chances[:, 1]).max() <= tolerance


def test_csv_has_class_and_probability_and_keeps_unused_columns_as_written(model, table, tmp_path):
    table.to_csv(tmp_path / "new.csv", index=False)
    result = ob.score_table(model, tmp_path / "new.csv", tmp_path / "scored.csv")
    scored = pd.read_csv(tmp_path / "scored.csv", dtype={"loan": str})
    assert list(scored) == ["loan", "note", "prediction", "probability of yes"]
    check(scored, model, table, 5.1e-7)
    assert result.rows == 500
    assert result.predicted == table.assign(p=model.predict(table))["p"].value_counts().to_dict()
    assert set(scored["note"]) == {"'=1+1", "fine", 'say "so"'}  # no formula for a spreadsheet


def test_parquet_in_parts_equals_memory_to_the_bit(model, table, tmp_path, monkeypatch):
    monkeypatch.setattr(scored_table, "ROWS_AT_ONCE", 64)
    (tmp_path / "new").mkdir()
    for k, part in enumerate((table[:130], table[130:])):
        pq.write_table(
            pa.Table.from_pandas(part, preserve_index=False), tmp_path / f"new/{k}.parquet", row_group_size=50
        )
    seen = []
    ob.score_table(
        model, tmp_path / "new", tmp_path / "scored.parquet", ["loan"], progress=lambda *done: seen.append(done)
    )
    scored = pq.read_table(tmp_path / "scored.parquet")
    assert scored.column_names == ["loan", "prediction", "probability of yes"]
    check(scored.to_pandas(), model, table, 0.0)
    assert seen[-1] == (500, 500)
    assert len(seen) > 4
    assert pq.ParquetFile(tmp_path / "scored.parquet").num_row_groups == len(seen)


def test_kept_column_with_another_type_in_another_file_gets_one_type(model, table, tmp_path):
    (tmp_path / "new").mkdir()
    for k, kind in enumerate((np.int32, np.float64)):
        rows = table.assign(amount=np.arange(500).astype(kind))
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), tmp_path / f"new/{k}.parquet")
    ob.score_table(model, tmp_path / "new", tmp_path / "scored.parquet", ["amount"])
    assert pq.read_schema(tmp_path / "scored.parquet").field("amount").type == pa.float64()


def test_decimal_commas_and_semicolons_are_written_as_they_were_read(model, table, tmp_path):
    table.to_csv(tmp_path / "new.csv", index=False, sep=";", decimal=",")
    ob.score_table(model, tmp_path / "new.csv", tmp_path / "scored.csv", ["loan"])
    check(pd.read_csv(tmp_path / "scored.csv", sep=";", decimal=",", dtype={"loan": str}), model, table, 5.1e-7)


def test_objective_adds_the_flag(table, tmp_path):
    model = make_blend(objective="flag=0.8")
    table.to_csv(tmp_path / "new.csv", index=False)
    ob.score_table(model, tmp_path / "new.csv", tmp_path / "scored.csv", [])
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert list(scored) == ["prediction", "probability of yes", "flag"]
    assert scored["prediction"].tolist() == model.predict(table).tolist()
    assert (scored["flag"] == (scored["prediction"] == "yes")).all()
    assert (scored.loc[scored["flag"], "probability of yes"] < 0.5).any()


def test_several_classes_have_a_probability_each(table, tmp_path):
    model = make_blend(n_classes=3)
    table.to_csv(tmp_path / "new.csv", index=False)
    ob.score_table(model, tmp_path / "new.csv", tmp_path / "scored.csv", [])
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert list(scored)[1:] == [f"probability of {label}" for label in model.classes_]
    assert np.abs(scored.iloc[:, 1:].to_numpy() - model.predict_proba(table)).max() < 5.1e-7


def test_classifier_without_chances_adds_the_class_alone(table, tmp_path):
    class Sign:
        classes_ = np.array(["no", "yes"])

        def predict(self, X):
            return self.classes_[(X[:, 0] > 40).astype(int)]

    encoder = ob.TableEncoder.learn([table], features=["age"])
    table.to_csv(tmp_path / "new.csv", index=False)
    ob.score_table(make_model(Sign(), encoder), tmp_path / "new.csv", tmp_path / "scored.csv", [])
    assert pd.read_csv(tmp_path / "scored.csv")["prediction"].tolist() == Sign().predict(encoder.encode(table)).tolist()


def test_unknown_category_and_missing_value_are_scored(model, table, tmp_path):
    rows = table.assign(home="castle", age=np.nan)
    rows.to_csv(tmp_path / "new.csv", index=False)
    ob.score_table(model, tmp_path / "new.csv", tmp_path / "scored.csv")
    check(pd.read_csv(tmp_path / "scored.csv", dtype={"loan": str}), model, rows, 5.1e-7)


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        (lambda t: t.drop(columns="home"), {}, "The table has no column 'home'"),
        (lambda t: t.assign(age="old"), {}, "Column 'age' must hold numbers, but 'old' was seen"),
        (lambda t: t[:0], {}, "has no rows to score"),
        (lambda t: t, {"keep": ["name"]}, "no column 'name' to keep"),
        (lambda t: t.assign(prediction=1), {}, "already has a column 'prediction'"),
        (lambda t: t, {"out": "scored.txt"}, "must be a .csv or .parquet file"),
    ],
)
def test_table_that_cannot_be_scored_is_refused_and_nothing_is_written(
    model, table, tmp_path, change, options, sentence
):
    change(table).to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / options.get("out", "scored.csv")
    with pytest.raises(InvalidInput, match=sentence):
        ob.score_table(model, tmp_path / "new.csv", out, options.get("keep"))
    assert not out.exists()


def test_column_that_csv_cannot_hold_is_refused(model, table, tmp_path):
    rows = pa.Table.from_pandas(table, preserve_index=False).append_column("tags", pa.array([["a"]] * 500))
    pq.write_table(rows, tmp_path / "new.parquet")
    with pytest.raises(InvalidInput, match=r"'tags' has type list<.*>, which CSV cannot hold"):
        ob.score_table(model, tmp_path / "new.parquet", tmp_path / "scored.csv")


def test_model_fitted_on_arrays_is_refused(table, tmp_path, model):
    with pytest.raises(InvalidInput, match="fitted on arrays"):
        ob.score_table(make_model(model[-1].classifier, None), tmp_path / "new.csv", tmp_path / "scored.csv")


def test_command_scores_with_a_model_file_or_a_campaign(model, table, tmp_path):
    table.to_csv(tmp_path / "new.csv", index=False)
    save_model(tmp_path / "m.model", model[-1].classifier, model[0].encoder)
    done = observal("predict", "m.model", "new.csv", cwd=tmp_path)
    assert done.returncode == 0
    assert "500 rows: scored.csv. Predicted: " in done.stdout
    check(pd.read_csv(tmp_path / "scored.csv", dtype={"loan": str}), model, table, 5.1e-7)
    again = observal("predict", "m.model", "new.csv", cwd=tmp_path)
    assert "already exists" in again.stderr
    pairs = table.assign(y=model.predict(table), q=0.5)
    pairs[:300].to_csv(tmp_path / "log.csv", index=False)
    pairs[300:].drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    tables = ["--logged", "log.csv", "--pool", "pool.csv", "--label", "y", "--propensity", "q", "--id", "loan"]
    init = observal("init", "c.db", *tables, "--budget", 10, cwd=tmp_path)
    assert init.returncode == 0, init.stderr
    done = observal("predict", "c.db", "new.csv", "-o", "by_campaign.csv", "--keep", "loan", "--json", cwd=tmp_path)
    assert '"rows": 500' in done.stdout
    agreement = pd.read_csv(tmp_path / "by_campaign.csv")["prediction"] == model.predict(table)
    assert agreement.mean() > 0.9


def test_campaign_of_arrays_is_refused_in_one_sentence(tmp_path, table):
    make_campaign(tmp_path / "c.db")
    table.to_csv(tmp_path / "new.csv", index=False)
    done = observal("predict", "c.db", "new.csv", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "fitted on arrays" in done.stderr


def test_block_of_csv_is_what_cells_one_by_one_give():
    texts = ["7", "=1+1", None, " x", 'a"b', "\u00a0x", "-3.5", "a;-b", "\ufeffz", "2024-01-02", "'=1", "＝x", "a\n@b"]
    numbers = [0.5, -2.25, 3.125] * 4 + [0.001]
    table = pa.table({"text": texts, "number": numbers, "whole": range(13)})
    for sep in (",", ";"):
        rows = zip(texts, numbers, range(13), strict=True)
        assert csv_block(table, sep).decode() == csv_text(rows, sep)
    assert csv_block(table[:0]) == b""
